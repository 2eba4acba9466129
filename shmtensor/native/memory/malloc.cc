// How much free memory the C library's malloc keeps. Only glibc has these settings; with another C library the functions
// do nothing and return False.
#include <limits.h>

#include "python.h"

#include "memory/ledger/block.h"

#ifdef __GLIBC__
#include <malloc.h>
#endif

namespace shmtensor {

static PyObject* py_set_malloc_thresholds(PyObject*, PyObject* const* a, Py_ssize_t n) {
  if (!takes("set_malloc_thresholds", n, 2)) return nullptr;
  const long trim = PyLong_AsLong(a[0]), mmap = PyLong_AsLong(a[1]);
  if (PyErr_Occurred()) return nullptr;
  if (trim < 0 || trim > INT_MAX || mmap < 0 || mmap > INT_MAX)
    return raise("ValueError", "set_malloc_thresholds: expected 0 to %d bytes: %ld, %ld", INT_MAX, trim, mmap);
#ifdef __GLIBC__
  // Older versions of glibc refuse a second threshold above 32 MiB. `&`: both are set in any case.
  return PyBool_FromLong(mallopt(M_TRIM_THRESHOLD, int(trim)) & mallopt(M_MMAP_THRESHOLD, int(mmap)));
#else
  Py_RETURN_FALSE;
#endif
}

static PyObject* py_malloc_trim(PyObject*, PyObject*) {
#ifdef __GLIBC__
  int is_returned;
  {
    Unlocked unlocked;
    is_returned = malloc_trim(0);
  }
  return PyBool_FromLong(is_returned);
#else
  Py_RETURN_FALSE;
#endif
}

PyMethodDef malloc_functions[] = {
    method("set_malloc_thresholds", py_set_malloc_thresholds,
           "set_malloc_thresholds(trim, mmap): malloc keeps up to `trim` free bytes at the top of its heap, and maps\n"
           "arrays of at least `mmap` bytes one by one. For the whole process, for good. False: not with this C\n"
           "library."),
    {"malloc_trim", py_malloc_trim, METH_NOARGS, "malloc returns its free pages to the system; whether there were any."},
    {nullptr, nullptr, 0, nullptr}};

}  // namespace shmtensor
