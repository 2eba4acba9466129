// The Python face of ipc/: each file adds its own functions and types.
#include "python.h"

namespace shmtensor {

int add_words(PyObject* module);    // bind_futex.cc
int add_locks(PyObject* module);    // bind.cc
int add_channel(PyObject* module);  // bind.cc
int add_traffic(PyObject* module);  // bind_put_get.cc
int add_views(PyObject* module);    // bind_array_layout.cc
int add_survey(PyObject* module);   // survey.cc
int add_group(PyObject* module) __attribute__((weak));  // bind.cc, or group.cc

int add_sync(PyObject* module) {
  if (add_words(module) < 0 || add_locks(module) < 0 || add_channel(module) < 0 ||
      add_traffic(module) < 0 || add_views(module) < 0 || add_survey(module) < 0)
    return -1;
  if (add_group && add_group(module) < 0) return -1;
  return 0;
}

}  // namespace shmtensor
