// Products of matrices by cuBLAS. CuPy's own call sets the handle's stream each time, which takes cuBLAS longer than the rest
// of a small product does; this one asks for the handle's stream, and sets it if it is another one.
//
// The functions are those of the library that CuPy has loaded, and are called by their addresses.
#include "dispatch/op_function.h"

#include <cstring>

namespace shmtensor {

namespace {

// cublasGemmEx(handle, transposed a, b, m, n, k, alpha, a, type, leading dimension, b, ..., beta, c, ..., sums, algorithm)
using GemmFunction = int (*)(void*, int, int, int, int, int, const void*, const void*, int, int, const void*, int, int,
                             const void*, void*, int, int, int, int);
using GetStreamFunction = int (*)(void*, void**);
using SetStreamFunction = int (*)(void*, void*);
using CurrentStreamFunction = intptr_t (*)();  // of CuPy; -1 may mean an exception

struct Cublas {
  GemmFunction gemm = nullptr;
  GetStreamFunction get_stream = nullptr;
  SetStreamFunction set_stream = nullptr;
  CurrentStreamFunction current_stream = nullptr;
};
Cublas cublas;

constexpr int kGemmArguments = 19;

// gemm_ex(...): the arguments of cublas.gemmEx in CuPy: numbers, addresses among them. Returns cuBLAS's status.
PyObject* gemm_ex(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (n != kGemmArguments || !cublas.gemm)
    return raise("TypeError", "gemm_ex: %d arguments are needed, after set_cublas: %zd given", kGemmArguments, n);
  long long v[kGemmArguments];
  const auto is_address = [](int i) { return i == 0 || i == 6 || i == 7 || i == 10 || i == 13 || i == 14; };
  for (int i = 0; i < kGemmArguments; ++i) {
    if ((v[i] = PyLong_AsLongLong(args[i])) == -1 && PyErr_Occurred()) return nullptr;
    if (!is_address(i) && v[i] != static_cast<int>(v[i]))
      return raise("OverflowError", "gemm_ex: a size is above 2,147,483,647: %lld", v[i]);
  }
  const auto number = [&](int i) { return static_cast<int>(v[i]); };
  const auto address = [&](int i) { return reinterpret_cast<void*>(v[i]); };
  const intptr_t wanted = cublas.current_stream();
  if (wanted == -1 && PyErr_Occurred()) return nullptr;
  int status;
  Py_BEGIN_ALLOW_THREADS;
  void* stream = nullptr;
  status = cublas.get_stream(address(0), &stream);
  if (!status && stream != reinterpret_cast<void*>(wanted))
    status = cublas.set_stream(address(0), reinterpret_cast<void*>(wanted));
  if (!status)
    status = cublas.gemm(address(0), number(1), number(2), number(3), number(4), number(5), address(6), address(7),
                         number(8), number(9), address(10), number(11), number(12), address(13), address(14), number(15),
                         number(16), number(17), number(18));
  Py_END_ALLOW_THREADS;
  return PyLong_FromLong(status);
}

// set_cublas(current_stream, gemm, get_stream, set_stream): a capsule of CuPy's function, and addresses of cuBLAS's.
// Returns whether the capsule's function is the one that is needed.
PyObject* set_cublas(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (n != 4) return raise("TypeError", "set_cublas: 4 arguments are needed, %zd given", n);
  const char* signature = PyCapsule_CheckExact(args[0]) ? PyCapsule_GetName(args[0]) : nullptr;
  if (!signature || std::strcmp(signature, "intptr_t (void)") != 0) Py_RETURN_FALSE;
  void* functions[3];
  for (int i = 0; i < 3; ++i)
    if (!(functions[i] = PyLong_AsVoidPtr(args[i + 1])) && PyErr_Occurred()) return nullptr;
  cublas.current_stream = reinterpret_cast<CurrentStreamFunction>(PyCapsule_GetPointer(args[0], signature));
  cublas.gemm = reinterpret_cast<GemmFunction>(functions[0]);
  cublas.get_stream = reinterpret_cast<GetStreamFunction>(functions[1]);
  cublas.set_stream = reinterpret_cast<SetStreamFunction>(functions[2]);
  Py_RETURN_TRUE;
}

PyMethodDef functions[] = {
    method("gemm_ex", gemm_ex, "gemm_ex(...): cublasGemmEx on CuPy's current stream; its status."),
    method("set_cublas", set_cublas,
           "set_cublas(current_stream, gemm, get_stream, set_stream): CuPy's capsule, and cuBLAS's functions by address."),
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

int add_cublas(PyObject* module) { return PyModule_AddFunctions(module, functions); }

}  // namespace shmtensor
