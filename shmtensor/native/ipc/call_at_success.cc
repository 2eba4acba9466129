// A call when this process ends with exit code 0. MPI_Finalize is such a call: it waits for all ranks, and a
// rank that fails must not wait for them. Python's atexit functions do not know the exit code.
#include <unistd.h>

#include <cstdlib>

#include "python.h"

namespace shmtensor {
namespace {

int (*function)() = nullptr;
pid_t process = 0;  // a forked child does not call it

void call(int code, void*) {
  if (code == 0 && getpid() == process) function();
}

PyObject* call_at_success(PyObject*, PyObject* address) {
  function = reinterpret_cast<int (*)()>(PyLong_AsVoidPtr(address));
  if (!function)
    return PyErr_Occurred() ? Raised{} : raise("ValueError", "call_at_success: not the address of a function: 0");
  if (!process) {
#ifdef __GLIBC__
    on_exit(call, nullptr);
#else  // the exit code is not known
    atexit([] { call(0, nullptr); });
#endif
  }
  process = getpid();
  Py_RETURN_NONE;
}

PyMethodDef methods[] = {
    {"call_at_success", call_at_success, METH_O,
     "call_at_success(address): calls the C function when this process ends with exit code 0, after the\n"
     "interpreter's end; it replaces the function of an earlier call."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

int add_call_at_success(PyObject* module) { return PyModule_AddFunctions(module, methods); }

}  // namespace shmtensor
