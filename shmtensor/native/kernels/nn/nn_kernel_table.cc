// The level of nn_kernel_table.h that this CPU runs.
#include "kernels/nn/nn_kernel_table.h"

#include "simd/cpu_capability.h"

namespace shmtensor {

#define LEVEL(name)                      \
  namespace name {                       \
  const Layers<float>& layers_of(float); \
  const Layers<double>& layers_of(double); \
  }
LEVEL(generic)
LEVEL(avx2)
LEVEL(avx512)
#undef LEVEL

template <class T>
const Layers<T>& layers() {
  switch (isa_level()) {
    case Level::Avx512:
      return avx512::layers_of(T());
    case Level::Avx2:
      return avx2::layers_of(T());
    default:
      return generic::layers_of(T());
  }
}
template const Layers<float>& layers<float>();
template const Layers<double>& layers<double>();

}  // namespace shmtensor
