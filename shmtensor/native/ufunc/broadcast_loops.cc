// Chooses the kernels of broadcast_loops.h for this CPU's instruction-set level, by NumPy's names.
#include "ufunc/broadcast_loops.h"

#include <cstring>

#include "simd/cpu_capability.h"
#include "python.h"

namespace shmtensor {

#define LEVEL(name)                                        \
  namespace name {                                         \
  [[gnu::weak]] const RowKernel* row_kernels_of(float);    \
  [[gnu::weak]] const RowKernel* row_kernels_of(double);   \
  [[gnu::weak]] const RowKernel* row_kernels_of(uint32_t); \
  [[gnu::weak]] const RowKernel* row_kernels_of(uint64_t); \
  }
LEVEL(generic)
LEVEL(avx2)
LEVEL(avx512)
#undef LEVEL

template <class T>
RowKernel row_kernel(RowOp which) {
  switch (isa_level()) {
    case Level::Avx512:
      return avx512::row_kernels_of(T())[which];
    case Level::Avx2:
      return avx2::row_kernels_of(T())[which];
    default:
      return generic::row_kernels_of(T())[which];
  }
}

RowKernel named_row_kernel(const char* name, int type) {
  static constexpr const char* kNames[kRowOps] = {
      "add",       "subtract", "multiply",   "divide",  "equal",
      "not_equal", "less",     "less_equal", "greater", "greater_equal"};
  for (int i = 0; i < kRowOps; ++i) {
    if (strcmp(name, kNames[i])) continue;
    const RowOp which = static_cast<RowOp>(i);
    switch (type) {
      case NPY_FLOAT:
        return row_kernel<float>(which);
      case NPY_DOUBLE:
        return row_kernel<double>(which);
      case NPY_INT:
      case NPY_UINT:
        return row_kernel<uint32_t>(which);
      case NPY_LONG:
      case NPY_LONGLONG:
      case NPY_ULONG:
      case NPY_ULONGLONG:
        return row_kernel<uint64_t>(which);
      default:
        return nullptr;
    }
  }
  return nullptr;
}

}  // namespace shmtensor
