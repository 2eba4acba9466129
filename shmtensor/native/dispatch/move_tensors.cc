// Moves the memory that tensors share to another place: every tensor that views it gets a new array there.
#include "dispatch/numpy_array.h"

#include <string.h>

#include <unordered_map>
#include <vector>

#include "dispatch/autograd_node.h"
#include "kernels/arguments.h"

namespace shmtensor {

namespace {

// The array that owns the memory of x; nullptr: the owner is no plain array.
PyArrayObject* owner_of(PyObject* x) {
  while (PyArray_CheckExact(x)) {
    PyArrayObject* array = reinterpret_cast<PyArrayObject*>(x);
    PyObject* base = PyArray_BASE(array);
    if (!base) return PyArray_CHKFLAGS(array, NPY_ARRAY_OWNDATA) ? array : nullptr;
    x = base;
  }
  return nullptr;
}

// Note [Census]
// NumPy's arrays are not tracked by the garbage collector, so nobody can list them. But each reference to an array is
// counted: if the tensors' slots and the arrays' bases account for all references to each array between a tensor and the
// owner of the memory, nothing else in this process sees that memory. What the census does not know (an array that a user
// took, a memoryview, a value saved for backward, a tensor that the collector does not list) shows as a count too high,
// and the move is refused. Counts in C are exact: no interpreter frame lends references.
struct Census {
  std::unordered_map<PyObject*, Py_ssize_t> references;

  void add(PyObject* x) {
    for (; x && references[x]++ == 0; x = PyArray_BASE(reinterpret_cast<PyArrayObject*>(x))) {
    }
  }
  bool is_complete() const {
#ifdef Py_GIL_DISABLED
    return false;  // no function counts the references of all threads
#else
    for (const auto& [x, n] : references)
      if (Py_REFCNT(x) != n) return false;
    return true;
#endif
  }
};

// The layout of `array`, whose memory began at `low`, over `memory`.
PyObject* array_over(PyObject* memory, PyArrayObject* array, const char* low) {
  PyArray_Descr* dtype = PyArray_DESCR(array);
  Py_INCREF(dtype);
  char* data = PyArray_BYTES(reinterpret_cast<PyArrayObject*>(memory)) + (PyArray_BYTES(array) - low);
  PyObject* moved = PyArray_NewFromDescr(&PyArray_Type, dtype, PyArray_NDIM(array), PyArray_DIMS(array),
                                         PyArray_STRIDES(array), data, PyArray_FLAGS(array) & NPY_ARRAY_WRITEABLE, nullptr);
  if (!moved) return nullptr;
  Py_INCREF(memory);
  if (PyArray_SetBaseObject(reinterpret_cast<PyArrayObject*>(moved), memory) < 0) Py_CLEAR(moved);
  return moved;
}

bool is_inside(PyArrayObject* array, const char* low, npy_intp nbytes) {
  if (PyArray_SIZE(array) == 0) return PyArray_BYTES(array) >= low && PyArray_BYTES(array) <= low + nbytes;
  npy_intp start = PyArray_BYTES(array) - low, end = start + PyArray_ITEMSIZE(array);
  for (int i = 0; i < PyArray_NDIM(array); i++) {
    npy_intp& edge = PyArray_STRIDE(array, i) < 0 ? start : end;
    edge += (PyArray_DIM(array, i) - 1) * PyArray_STRIDE(array, i);
  }
  return start >= 0 && end <= nbytes;
}

bool is_bytes(PyObject* x, npy_intp nbytes) {
  if (!PyArray_CheckExact(x)) return false;
  PyArrayObject* array = reinterpret_cast<PyArrayObject*>(x);
  return PyArray_IS_C_CONTIGUOUS(array) && PyArray_NBYTES(array) >= nbytes;
}

}  // namespace

// move_tensors(tensors, tensor, memory, readonly) -> whether all of the memory of `tensor` was moved. Of `tensors` those
// that share it are moved with it. `memory` and `readonly` are arrays of bytes over the new place, the second read-only.
PyObject* move_tensors(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (n != 4 || !PyList_CheckExact(args[0]) || !is_tensor(args[1]))
    return raise("TypeError", "move_tensors: (list of tensors, tensor, memory, readonly) is needed");
  PyArrayObject* owner = owner_of(reinterpret_cast<TensorBase*>(args[1])->array);
  if (!owner) Py_RETURN_FALSE;
  const char* low = PyArray_BYTES(owner);
  const npy_intp nbytes = PyArray_NBYTES(owner);
  if (!is_bytes(args[2], nbytes) || !is_bytes(args[3], nbytes) ||
      !PyArray_ISWRITEABLE(reinterpret_cast<PyArrayObject*>(args[2])))
    return raise("ValueError", "move_tensors: the new memory has not %zd contiguous bytes", Py_ssize_t(nbytes));
  Census census;
  std::unordered_map<PyObject*, Ref> moved;  // by the former array: tensors may have one array in common
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(args[0]); i++) {
    PyObject* tensor = PyList_GET_ITEM(args[0], i);
    PyObject* x = is_tensor(tensor) ? reinterpret_cast<TensorBase*>(tensor)->array : nullptr;
    if (!x || owner_of(x) != owner) continue;
    PyArrayObject* array = reinterpret_cast<PyArrayObject*>(x);
    if (!is_inside(array, low, nbytes)) Py_RETURN_FALSE;
    census.add(x);
    Ref& copy = moved[x];
    if (!copy) copy = Ref(array_over(args[PyArray_ISWRITEABLE(array) ? 2 : 3], array, low));
    if (!copy) return nullptr;
  }
  if (moved.empty() || !census.is_complete()) Py_RETURN_FALSE;
  // Nothing below fails. The former arrays are freed last: a weak reference to one may run Python code then.
  std::vector<Ref> former;
  former.reserve(size_t(PyList_GET_SIZE(args[0])));
  if (nbytes) memcpy(PyArray_BYTES(reinterpret_cast<PyArrayObject*>(args[2])), low, size_t(nbytes));
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(args[0]); i++) {
    PyObject* tensor = PyList_GET_ITEM(args[0], i);
    if (!is_tensor(tensor)) continue;
    PyObject*& slot = reinterpret_cast<TensorBase*>(tensor)->array;
    auto place = moved.find(slot);
    if (place == moved.end()) continue;
    former.emplace_back(slot);
    slot = Py_NewRef(place->second.get());
  }
  Py_RETURN_TRUE;
}

}  // namespace shmtensor
