// How results lie in memory: PyTorch's rules for pointwise functions and for those of images.
//
// Note [Memory formats]
// A kernel knows shapes; most give their result in rows. Each row of the op table says how its results
// lie (`layout`): those of a pointwise function as its operands do, an image as the image it came from.
// A call whose arrays are all in rows never comes here. Any other call
//
//   pointwise   hands the kernel its operands with their dimensions permuted so that the result is in
//               rows, and permutes the result back: nothing is copied
//   channels    lets the kernel do what it does, and copies the result if it lies differently
#pragma once

#include "kernels/arguments.h"

#include <functional>

namespace shmtensor {

// Are the elements in C order, and no others with it (a size of 1 has any stride, and PyTorch then takes
// the strides for what was meant)? One to three comparisons.
inline bool in_rows(PyArrayObject* a) {
  if (!PyArray_IS_C_CONTIGUOUS(a)) return false;
  const int nd = PyArray_NDIM(a);
  if (nd < 4) return true;
  const npy_intp channel = PyArray_STRIDE(a, 1), last = PyArray_STRIDE(a, nd - 1);
  return channel > last || (channel == last && PyArray_DIM(a, 1) > 1);
}

// The strides in elements, as PyTorch has them: what NumPy leaves at 0 for a size of 1 is one step
// further than the dimension behind.
void strides_of(PyArrayObject* a, npy_intp* strides);

// Has every element a place of its own, without gaps between them?
bool non_overlapping_and_dense(PyArrayObject* a);

// Does PyTorch take an image or a volume for channels last?
bool suggests_channels_last(PyArrayObject* a);

// The strides, in elements, of a pointwise function's result of this shape, and its dimensions from the
// outermost in memory to the innermost. `numbers`: there are operands without dimensions besides.
void pointwise_strides(PyArrayObject* const* operands, int n, bool numbers, int nd, const npy_intp* dims,
                       npy_intp* strides, int* order);

// Those of a tensor that is made like x.
void strides_like(PyArrayObject* x, npy_intp* strides);

// The array with these strides, in elements, which leave no gaps: itself, or a copy if it lies in another
// order.
Ref with_strides(Ref array, const npy_intp* strides);

// PyTorch's contract for `.grad` of `like`: the same strides if they leave no gaps, else rows.
bool obeys_layout_contract(PyArrayObject* gradient, PyArrayObject* like);
Ref by_layout_contract(PyArrayObject* gradient, PyArrayObject* like);

enum class Layout { kPointwise, kChannels, kAllChannels, kRows, kLike };  // ops/table/memory_format.py has the same order

struct Format {
  Layout layout;
  Py_ssize_t first, inputs, arguments;  // the first input's place; how many; all arguments but `out`
  unsigned long leads;                  // the inputs that decide, as bits
  Py_ssize_t outputs;                   // how many results lie so
};

using Run = std::function<PyObject*(PyObject* const* args, Py_ssize_t n)>;
// run(args, n) of a kernel, its results in the format. A call with `out` is left alone.
PyObject* run_formatted(const Format& format, const Run& run, PyObject* kernel, PyObject* const* args, Py_ssize_t n);

PyObject* suggests_channels_last(PyObject*, PyObject* array);
PyObject* in_layout_of(PyObject*, PyObject* const* args, Py_ssize_t n);  // in_layout_of(array, like)

}  // namespace shmtensor
