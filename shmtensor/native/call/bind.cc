// The Python face of call/.
#include "python.h"

namespace shmtensor {

int add_call(PyObject*) { return 0; }

}  // namespace shmtensor
