// From NumPy's type numbers to C++ types.
#pragma once

#include <cstdint>

#include "half/bfloat16.h"
#include "python.h"

namespace shmtensor {

// Calls f with a value of the C++ type of a dtype; false for float16, complex and other dtypes.
template <class F>
bool with_type(int type, F&& f) {
  switch (type) {
    case NPY_FLOAT: f(float()); return true;
    case NPY_DOUBLE: f(double()); return true;
    case NPY_BOOL:
    case NPY_UBYTE: f(uint8_t()); return true;
    case NPY_BYTE: f(int8_t()); return true;
    case NPY_SHORT: f(int16_t()); return true;
    case NPY_USHORT: f(uint16_t()); return true;
    case NPY_INT: f(int32_t()); return true;
    case NPY_UINT: f(uint32_t()); return true;
    case NPY_LONG:
    case NPY_LONGLONG: f(int64_t()); return true;
    case NPY_ULONG:
    case NPY_ULONGLONG: f(uint64_t()); return true;
    default: return false;
  }
}

// Calls f with an unsigned integer of that many bytes, for kernels that only copy elements.
template <class F>
bool with_size(npy_intp nbytes, F&& f) {
  switch (nbytes) {
    case 1: f(uint8_t()); return true;
    case 2: f(uint16_t()); return true;
    case 4: f(uint32_t()); return true;
    case 8: f(uint64_t()); return true;
    default: return false;
  }
}

// Can elements of this dtype be copied as bytes? Numbers can, 16-bit floats included; objects cannot.
inline bool is_bytes(int type) { return type < NPY_OBJECT || type == NPY_HALF || type == bfloat16_num; }

// Is the array aligned and in native byte order? Its strides may be any.
inline bool is_plain(PyArrayObject* a) { return PyArray_ISALIGNED(a) && PyArray_ISNOTSWAPPED(a); }

}  // namespace shmtensor
