// How many samples a classifier has right, and how many targets have a value. A training step asks for both, and NumPy's
// calls for a few samples take longer than a small layer.
#include <cstdint>

#include "kernels/arguments.h"
#include "kernels/functions.h"

namespace shmtensor {

namespace {

// Rows whose first greatest score, or first NaN, as numpy.argmax has it, is at the target.
template <class T>
int64_t count_rows(const T* scores, const int64_t* targets, npy_intp n, npy_intp classes) {
  int64_t correct = 0;
  for (npy_intp i = 0; i < n; i++, scores += classes) {
    npy_intp best = 0;
    for (npy_intp j = 1; j < classes && scores[best] == scores[best]; j++)
      if (scores[j] > scores[best] || scores[j] != scores[j]) best = j;
    correct += targets[i] == best;
  }
  return correct;
}

bool is_vector_of_int64(PyObject* x) {
  return PyArray_Check(x) && PyArray_NDIM(as_array(x)) == 1 && PyArray_TYPE(as_array(x)) == NPY_INT64 &&
         PyArray_ISCARRAY_RO(as_array(x));
}

}  // namespace

PyObject* count_correct(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (!takes("count_correct", n, 2)) return nullptr;
  if (!PyArray_Check(args[0]) || !is_vector_of_int64(args[1])) Py_RETURN_NONE;
  PyArrayObject *scores = as_array(args[0]), *targets = as_array(args[1]);
  if (PyArray_NDIM(scores) != 2 || !PyArray_ISCARRAY_RO(scores)) Py_RETURN_NONE;
  const npy_intp rows = PyArray_DIM(scores, 0), classes = PyArray_DIM(scores, 1);
  if (rows != PyArray_DIM(targets, 0) || classes == 0) Py_RETURN_NONE;
  const int64_t* at = data<int64_t>(targets);
  if (PyArray_TYPE(scores) == NPY_FLOAT) return PyLong_FromLongLong(count_rows(data<float>(scores), at, rows, classes));
  if (PyArray_TYPE(scores) == NPY_DOUBLE) return PyLong_FromLongLong(count_rows(data<double>(scores), at, rows, classes));
  Py_RETURN_NONE;
}

PyObject* count_equal(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (!takes("count_equal", n, 2)) return nullptr;
  if (!is_vector_of_int64(args[0])) Py_RETURN_NONE;
  const long long value = PyLong_AsLongLong(args[1]);
  if (value == -1 && PyErr_Occurred()) return nullptr;
  const int64_t* x = data<int64_t>(as_array(args[0]));
  const npy_intp size = PyArray_DIM(as_array(args[0]), 0);
  int64_t equal = 0;
  for (npy_intp i = 0; i < size; i++) equal += x[i] == value;
  return PyLong_FromLongLong(equal);
}

}  // namespace shmtensor
