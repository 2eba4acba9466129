// Arrays over blocks, as messages describe them. All numbers are checked.
#pragma once

#include "half/bfloat16.h"
#include "python.h"

namespace shmtensor {

// Whether the number of a dtype (bfloat16.h: wire_of) identifies it in every process.
inline bool is_plain_number(long wire) {
  return (wire >= 0 && wire <= NPY_CLONGDOUBLE && wire != NPY_OBJECT) || wire == NPY_HALF || wire == kBfloat16Wire;
}
inline bool is_plain(PyArray_Descr* descr) {
  return is_plain_number(wire_of(descr->type_num)) && PyArray_ISNBO(descr->byteorder) && !PyDataType_HASFIELDS(descr) &&
         !PyDataType_HASSUBARRAY(descr);
}

// Whether an array of elements of `element` bytes at `offset` is inside nbytes; its first and last byte. strides nullptr:
// contiguous. Checks for overflow.
bool is_inside(size_t nbytes, npy_intp element, int ndim, const npy_intp* shape, const npy_intp* strides, npy_intp offset,
               npy_intp* low, npy_intp* high);

// An array over nbytes at base, which `owner` keeps alive: new reference. strides nullptr: contiguous. Steals descr, even
// if it fails. Checks sizes and strides. Copies: none.
PyObject* view_block(PyObject* owner, char* base, size_t nbytes, PyArray_Descr* descr, int ndim, const npy_intp* shape,
                     const npy_intp* strides, Py_ssize_t offset, bool writeable);

}  // namespace shmtensor
