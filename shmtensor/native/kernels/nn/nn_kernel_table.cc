// The level of nn_kernel_table.h that this CPU runs.
#include "kernels/nn/nn_kernel_table.h"

#include "simd/cpu_capability.h"

namespace shmtensor {

#define LEVEL(name)                      \
  namespace name {                       \
  const Layers<float>& layers_of(float); \
  const Layers<double>& layers_of(double); \
  }
LEVEL(level_base)
LEVEL(level_v3)
LEVEL(level_v4)
#undef LEVEL

template <class T>
const Layers<T>& layers() {
  switch (isa_level()) {
    case Level::V4:
      return level_v4::layers_of(T());
    case Level::V3:
      return level_v3::layers_of(T());
    default:
      return level_base::layers_of(T());
  }
}
template const Layers<float>& layers<float>();
template const Layers<double>& layers<double>();

}  // namespace shmtensor
