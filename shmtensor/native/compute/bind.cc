// The Python face of compute/.
#include "array.h"
#include "blas.h"
#include "isa.h"
#include "matmul.h"
#include "pool.h"
#include "python.h"
#include "ufunc.h"

namespace shmtensor {
namespace {

PyObject* get_num_threads(PyObject*, PyObject*) { return PyLong_FromLong(pool_threads()); }

PyObject* set_num_threads(PyObject*, PyObject* argument) {
  long n = PyLong_AsLong(argument);
  if (n == -1 && PyErr_Occurred()) return nullptr;
  if (n < 1 || n > 1'000'000) return raise("ValueError", "set_num_threads: expected at least 1: %ld", n);
  {
    Unlocked unlocked(true);
    pool_set_threads(static_cast<int>(n));
  }
  Py_RETURN_NONE;
}

PyObject* isa(PyObject*, PyObject*) { return PyUnicode_FromString(isa_name()); }
PyObject* blas(PyObject*, PyObject*) { return blas_ensure() ? PyUnicode_FromString(blas_core()) : nullptr; }

template <PyObject* (*F)(PyObject*, PyObject* const*, Py_ssize_t)>
PyCFunction fast() {
  return reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(F));
}

PyMethodDef methods[] = {
    {"set_num_threads", set_num_threads, METH_O, "set_num_threads(n): threads of the pool, the caller included."},
    {"get_num_threads", get_num_threads, METH_NOARGS, "get_num_threads() -> int"},
    {"isa", isa, METH_NOARGS, "isa() -> str: instruction-set level of the kernels: base, v3 or v4."},
    {"blas", blas, METH_NOARGS, "blas() -> str: the BLAS kernels in use; loads the library."},
    {"parallel", parallel, METH_O, "parallel(ufunc) -> ufunc: the same loops on the pool, without warnings."},
    {"matmul", fast<matmul>(), METH_FASTCALL, "matmul(x, y, out=None, /): matrix product of any ranks."},
    {"linear", fast<linear>(), METH_FASTCALL, "linear(input, weight, bias=None, /): input @ weight.T + bias."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

int add_compute(PyObject* module) {
  pool_install();
  return PyModule_AddFunctions(module, methods);
}

}  // namespace shmtensor
