// Arrays over blocks, as messages describe them: one way to lay one out, which trusts no number.
#pragma once

#include "half/bfloat16.h"
#include "python.h"

namespace shmtensor {

// Whether a dtype is the same in every process when only its number (bfloat16.h: wire_of) is said.
inline bool is_plain_number(long wire) {
  return (wire >= 0 && wire <= NPY_CLONGDOUBLE && wire != NPY_OBJECT) || wire == NPY_HALF || wire == kBfloat16Wire;
}
inline bool is_plain(PyArray_Descr* descr) {
  return is_plain_number(wire_of(descr->type_num)) && PyArray_ISNBO(descr->byteorder) && !PyDataType_HASFIELDS(descr) &&
         !PyDataType_HASSUBARRAY(descr);
}

// An array over nbytes at base, which `owner` keeps: new reference. strides nullptr: contiguous. Steals descr, also when
// it fails; sizes and strides are looked at before a byte is. Copies: none.
PyObject* view_block(PyObject* owner, char* base, size_t nbytes, PyArray_Descr* descr, int ndim, const npy_intp* shape,
                     const npy_intp* strides, Py_ssize_t offset, bool writeable);

}  // namespace shmtensor
