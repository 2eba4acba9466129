// Chooses the kernels of nn_kernel_table.h for the instruction-set level of this CPU.
#include "kernels/nn/nn_kernel_table.h"

#include "simd/cpu_capability.h"

namespace shmtensor {

#define LEVEL(name)                                             \
  namespace name {                                              \
  [[gnu::weak]] const NnKernels<float>& nn_kernels_of(float);   \
  [[gnu::weak]] const NnKernels<double>& nn_kernels_of(double); \
  }
LEVEL(generic)
LEVEL(avx2)
LEVEL(avx512)
#undef LEVEL

template <class T>
const NnKernels<T>& nn_kernels() {
  switch (isa_level()) {
    case Level::Avx512: return avx512::nn_kernels_of(T());
    case Level::Avx2: return avx2::nn_kernels_of(T());
    default: return generic::nn_kernels_of(T());
  }
}
template const NnKernels<float>& nn_kernels<float>();
template const NnKernels<double>& nn_kernels<double>();

}  // namespace shmtensor
