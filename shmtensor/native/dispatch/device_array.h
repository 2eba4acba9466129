// Arrays of other devices: cupy.ndarray, or a MetaArray, which has no data. A tensor's `array` is a numpy.ndarray or
// one of these.
//
// This C++ never reads their memory. It reads `shape`, `dtype` and `base` as Python attributes, and leaves copies and
// assignments to the class. An OpFunction takes arrays of one class; `general_call.cc` sends a call with another class
// to the twin that the device's rule has for the same form.
#pragma once
#include "dispatch/autograd_node.h"
#include "kernels/arguments.h"

namespace shmtensor {

extern PyTypeObject* device_array_type;  // null before the first tensor on a device
extern PyTypeObject* meta_array_type;    // null before the first tensor on the device "meta"
extern bool has_device_arrays;           // is one of them set?

struct DeviceHooks {
  PyObject* assign;  // assign(target, source): writes source to all elements of target
  PyObject* copy;    // copy(array): the same values in new memory on the array's device
};
extern DeviceHooks device_hooks;

inline bool is_meta_array(PyObject* x) { return Py_TYPE(x) == meta_array_type; }
__attribute__((cold)) bool is_of_a_device(PyObject* x);  // not inline: Note [Hot functions] in op_function.h
inline bool is_device_array(PyObject* x) { return __builtin_expect(has_device_arrays, 0) && is_of_a_device(x); }
inline bool is_array(PyObject* x) { return PyArray_Check(x) || is_device_array(x); }

// The dtype of a device's array. Borrowed from the array; null with an exception set.
__attribute__((cold)) PyArray_Descr* device_dtype(PyObject* array);

// Of an array of either kind. New references; empty with an exception set.
Ref array_dtype(PyObject* array);
Ref array_shape(PyObject* array);  // a tuple
Ref array_base(PyObject* array);   // the owner of a view's memory, or None
Ref copy_of(PyObject* array);

// Writes `source` to all elements of `target`, of the same kind. False with an exception set.
bool copy_into(PyObject* target, PyObject* source);

PyObject* set_device_arrays(PyObject*, PyObject* const* args, Py_ssize_t n);
__attribute__((cold)) PyObject* set_meta_arrays(PyObject*, PyObject* type);
PyObject* is_array(PyObject*, PyObject* x);

int add_device_pointwise(PyObject* module);  // DevicePointwise, DeviceKernel

}  // namespace shmtensor
