// New tensors of common sizes and dtypes, in one call.
#include <atomic>
#include <cmath>
#include <cstring>

#include "kernels/arguments.h"
#include "kernels/dtype_object.h"
#include "simd/kernel_table.h"
#include "threading/thread_pool.h"
#include "dispatch/autograd_node.h"
#include "memory/heap/heap.h"
#include "dispatch/views.h"

namespace shmtensor {
namespace {

// Sizes as separate arguments, or as one tuple or list; -1 unless all are exact ints from 0 up.
int read_sizes(PyObject* sizes, npy_intp* dims) {
  if (!is_sizes(sizes)) return -1;
  if (PyTuple_GET_SIZE(sizes) == 1) {
    PyObject* single = PyTuple_GET_ITEM(sizes, 0);
    if (is_sizes(single) || PyList_CheckExact(single)) sizes = single;
  }
  const Py_ssize_t nd = PySequence_Fast_GET_SIZE(sizes);
  if (nd > NPY_MAXDIMS) return -1;
  for (Py_ssize_t i = 0; i < nd; ++i) {
    PyObject* size = PySequence_Fast_GET_ITEM(sizes, i);
    const Py_ssize_t v = PyLong_CheckExact(size) ? PyLong_AsSsize_t(size) : -1;
    if (v < 0) {
      PyErr_Clear();
      return -1;
    }
    dims[i] = v;
  }
  return static_cast<int>(nd);
}

PyObject* as_tensor(PyObject* array) {
  if (!array) {
    if (PyErr_ExceptionMatches(PyExc_MemoryError)) return raise_allocation_failure("allocate");
    return nullptr;
  }
  PyObject* tensor = make_tensor(array);
  Py_DECREF(array);
  return tensor;
}

// Whether some thread has a default device other than the CPU: then Python decides where each new tensor is.
std::atomic<bool> python_chooses_device{false};

constexpr npy_intp kLarge = 1 << 22;
constexpr int64_t kSlice = 65536;  // bytes
constexpr npy_intp kSmall = 1 << 14;  // elements that one thread fills; NumPy and all threads fill more

// Repeats the same eight bytes.
void fill(PyArrayObject* out, uint64_t word) {
  char* to = PyArray_BYTES(out);
  const auto run = memory_kernels().fill;
  ranges(PyArray_NBYTES(out), kSlice, [=](int64_t start, int64_t stop) { run(to + start, stop - start, word); });
}

uint64_t ones(int type) {
  uint64_t word = 0;
  const double one = 1;
  const float two[2] = {1, 1};
  memcpy(&word, type == NPY_FLOAT ? static_cast<const void*>(two) : &one, sizeof word);
  return word;
}

}  // namespace

// let_python_choose_device(on): `empty` and `arange` return None.
PyObject* let_python_choose_device(PyObject*, PyObject* on) {
  const int chooses = PyObject_IsTrue(on);
  if (chooses < 0) return nullptr;
  python_chooses_device.store(chooses != 0, std::memory_order_relaxed);
  Py_RETURN_NONE;
}

// kind: 0 uninitialized, 1 zeros, 2 ones.
PyObject* empty(PyObject*, PyObject* const* args, Py_ssize_t n) {
  npy_intp dims[NPY_MAXDIMS];
  PyArray_Descr* dtype = n == 3 ? canonical_dtype(args[1]) : nullptr;
  if (!dtype || python_chooses_device.load(std::memory_order_relaxed)) Py_RETURN_NONE;
  const int nd = read_sizes(args[0], dims), type = dtype->type_num;
  const long kind = PyLong_AsLong(args[2]);
  if (nd < 0 || type >= NPY_OBJECT) Py_RETURN_NONE;
  npy_intp size = 1;
  for (int i = 0; i < nd; ++i) {
    if (__builtin_mul_overflow(size, dims[i], &size)) Py_RETURN_NONE;
  }
  if (kind == 2 && type != NPY_FLOAT && type != NPY_DOUBLE) Py_RETURN_NONE;
  Ref out;
  {
    Gate open;
    if (!open) return nullptr;
    Py_INCREF(dtype);
    // The heap knows whether a very large block is fresh pages, which are zero already.
    const bool calloc = kind == 1 && size > kLarge;
    out = Ref(calloc ? PyArray_Zeros(nd, dims, dtype, 0)
                     : PyArray_NewFromDescr(&PyArray_Type, dtype, nd, dims, nullptr, nullptr, 0, nullptr));
    if (out && kind == 1 && !calloc) fill(out.array(), 0);
    if (out && kind == 2) fill(out.array(), ones(type));
  }
  return as_tensor(out.release());
}

// start + i * step, from start to end: int64 if all are ints, else dtype.
PyObject* arange(PyObject*, PyObject* const* args, Py_ssize_t n) {
  constexpr double kExact = 9007199254740992.0;  // 2^53
  PyArray_Descr* dtype = n == 4 ? canonical_dtype(args[3]) : nullptr;
  if (!dtype || python_chooses_device.load(std::memory_order_relaxed)) Py_RETURN_NONE;
  bool all_ints = true;
  double value[3];
  for (int i = 0; i < 3; ++i) {
    PyObject* number = i == 1 && args[1] == Py_None ? args[0] : args[i];
    if (!PyFloat_CheckExact(number) && !PyLong_CheckExact(number)) Py_RETURN_NONE;
    all_ints = all_ints && PyLong_CheckExact(number);
    value[i] = PyFloat_AsDouble(number);
    if (PyErr_Occurred()) PyErr_Clear(), value[i] = kExact;
    if (!(std::fabs(value[i]) < kExact)) Py_RETURN_NONE;
  }
  const double start = args[1] == Py_None ? 0 : value[0], step = value[2];
  const double count = std::ceil((value[1] - start) / step);
  const int type = all_ints ? NPY_INT64 : dtype->type_num;
  if (!(count >= 0) || count > kSmall || step == 0 || (value[1] - start) * step < 0) Py_RETURN_NONE;
  if (type != NPY_INT64 && type != NPY_FLOAT && type != NPY_DOUBLE) Py_RETURN_NONE;
  npy_intp size = static_cast<npy_intp>(count);
  Ref out;
  {
    Gate open;
    if (!open) return nullptr;
    out = Ref(new_array(1, &size, type));
  }
  for (npy_intp i = 0; out && i < size; ++i) {
    const double v = start + static_cast<double>(i) * step;
    if (type == NPY_INT64) {
      data<int64_t>(out)[i] = static_cast<int64_t>(v);
    } else if (type == NPY_FLOAT) {
      data<float>(out)[i] = static_cast<float>(v);
    } else {
      data<double>(out)[i] = v;
    }
  }
  return as_tensor(out.release());
}

}  // namespace shmtensor
