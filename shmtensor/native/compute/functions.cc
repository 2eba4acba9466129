// The level of functions.h that this CPU runs.
#include "functions.h"

#include "isa.h"

namespace shmtensor {

#define LEVEL(name)                            \
  namespace name {                             \
  const Functions<float>& functions_of(float); \
  const Functions<double>& functions_of(double); \
  }
LEVEL(level_base)
LEVEL(level_v3)
LEVEL(level_v4)
#undef LEVEL

template <class T>
const Functions<T>& functions() {
  switch (isa_level()) {
    case Level::V4:
      return level_v4::functions_of(T());
    case Level::V3:
      return level_v3::functions_of(T());
    default:
      return level_base::functions_of(T());
  }
}
template const Functions<float>& functions<float>();
template const Functions<double>& functions<double>();

}  // namespace shmtensor
