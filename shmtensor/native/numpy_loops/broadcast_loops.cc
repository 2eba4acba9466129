// Chooses the kernels of broadcast_loops.h for this CPU's instruction-set level, by NumPy's names.
#include "numpy_loops/broadcast_loops.h"

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

namespace {

template <class T>
RowKernel row_kernel(int which) {
  switch (isa_level()) {
    case Level::Avx512: return avx512::row_kernels_of(T())[which];
    case Level::Avx2: return avx2::row_kernels_of(T())[which];
    default: return generic::row_kernels_of(T())[which];
  }
}

}  // namespace

RowKernel named_row_kernel(const char* name, int type) {
#define NAME(name, ...) #name,
  static constexpr const char* kNames[kRowOperations] = {ROW_OPERATIONS(NAME) FLOATING_ROW_OPERATIONS(NAME)};
#undef NAME
  for (int which = 0; which < kRowOperations; ++which) {
    if (strcmp(name, kNames[which])) continue;
    switch (type) {
      case NPY_FLOAT: return row_kernel<float>(which);
      case NPY_DOUBLE: return row_kernel<double>(which);
      case NPY_INT:
      case NPY_UINT: return row_kernel<uint32_t>(which);
      case NPY_LONG:
      case NPY_LONGLONG:
      case NPY_ULONG:
      case NPY_ULONGLONG: return row_kernel<uint64_t>(which);
      default: return nullptr;
    }
  }
  return nullptr;
}

}  // namespace shmtensor
