// The incoming gradient of an elementwise kernel: an array, or one element that is expanded, as that of a sum.
#pragma once

#include "kernels/arguments.h"
#include "threading/thread_pool.h"

namespace shmtensor {

// An expanded element is a block of copies in the first-level cache: a copy of the whole shape would be written and read.
struct IncomingGradient {
  static constexpr int64_t kBlock = 2048;  // elements
  Ref array;
  bool is_block = false;

  // False with an exception on failure.
  bool read(PyArrayObject* g, int type) {
    bool is_expanded = PyArray_SIZE(g) > kBlock;
    for (int i = 0; i < PyArray_NDIM(g); ++i) is_expanded &= PyArray_STRIDE(g, i) == 0 || PyArray_DIM(g, i) == 1;
    if (!is_expanded) {
      array = contiguous_as(g, type);
      return static_cast<bool>(array);
    }
    const npy_intp dims[1] = {kBlock}, strides[1] = {0};
    PyArray_Descr* dtype = PyArray_DESCR(g);
    Py_INCREF(dtype);
    Ref view(PyArray_NewFromDescr(&PyArray_Type, dtype, 1, dims, strides, PyArray_DATA(g), 0, nullptr));
    array = view ? contiguous_as(view.array(), type) : Ref();
    is_block = true;
    return static_cast<bool>(array);
  }

  // body(g, start, stop) over [0, n) on the thread pool: g are the elements from `start` on.
  template <class T, class F>
  void ranges(int64_t n, int64_t grain, F&& body) const {
    const T* g = data<T>(array);
    shmtensor::ranges(n, grain, [&](int64_t start, int64_t stop) {
      if (!is_block) return body(g + start, start, stop);
      for (; start < stop; start += kBlock) body(g, start, stop - start < kBlock ? stop : start + kBlock);
    });
  }
};

}  // namespace shmtensor
