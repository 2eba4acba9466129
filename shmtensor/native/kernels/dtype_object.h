// dtype: what `Tensor.dtype` is, one object per dtype of tensors; see dtype_object.cc.
#pragma once

#include "python.h"

namespace shmtensor {

// The object of NumPy's dtype: a new reference. NumPy's dtype itself if tensors cannot have it.
PyObject* dtype_object(PyArray_Descr* numpy_dtype);

// NumPy's dtype of an object of ours, or of NumPy's canonical dtype itself: borrowed. Null for all else, without an
// exception.
PyArray_Descr* canonical_dtype(PyObject* x);

int add_dtype_objects(PyObject* module);  // after bfloat16 is registered; 0, or -1 with an exception set

}  // namespace shmtensor
