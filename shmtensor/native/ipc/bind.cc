// Python bindings of ipc/: each file adds its own functions and types.
#include "python.h"

namespace shmtensor {

int add_futex(PyObject* module);    // bind_futex.cc
int add_call_at_success(PyObject* module);  // call_at_success.cc
int add_locks(PyObject* module);    // bind.cc
int add_channel(PyObject* module);  // bind.cc
int add_messages(PyObject* module);  // bind_put_get.cc
int add_array_layout(PyObject* module);    // bind_array_layout.cc
int add_survey(PyObject* module);   // survey.cc
int add_group(PyObject* module) __attribute__((weak));  // bind.cc, or group.cc

int add_sync(PyObject* module) {
  if (add_futex(module) < 0 || add_call_at_success(module) < 0 || add_locks(module) < 0 || add_channel(module) < 0 ||
      add_messages(module) < 0 || add_array_layout(module) < 0 || add_survey(module) < 0)
    return -1;
  if (add_group && add_group(module) < 0) return -1;
  return 0;
}

}  // namespace shmtensor
