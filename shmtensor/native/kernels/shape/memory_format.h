// The strides of results: PyTorch's rules for pointwise functions and for functions of images.
//
// Note [Memory formats]
// Most kernels return C-contiguous results. Each row of the op table declares the layout of its results (`layout`): a
// pointwise function follows its operands, an image follows the image it was computed from. Calls whose arrays are all
// C-contiguous do not use this file. Any other call
//
//   pointwise   permutes the dimensions of the operands so that the result is C-contiguous, and permutes the
//               result back: nothing is copied
//   channels    runs the kernel, and copies the result if its layout differs
#pragma once

#include "kernels/arguments.h"

#include <functional>

namespace shmtensor {

// Is the array C-contiguous and not also channels last? (A dimension of size 1 may have any stride, and PyTorch then
// lets the strides decide.) One to three comparisons.
inline bool suggests_contiguous(PyArrayObject* a) {
  if (!PyArray_IS_C_CONTIGUOUS(a)) return false;
  const int nd = PyArray_NDIM(a);
  if (nd < 4) return true;
  const npy_intp channel = PyArray_STRIDE(a, 1), last = PyArray_STRIDE(a, nd - 1);
  return channel > last || (channel == last && PyArray_DIM(a, 1) > 1);
}

// The strides in elements, as in PyTorch: a dimension of size 1, for which NumPy may have stride 0, gets the extent of
// the dimensions behind it.
void strides_of(PyArrayObject* a, npy_intp* strides);

// Do the elements fill their memory without overlap and without gaps?
bool non_overlapping_and_dense(PyArrayObject* a);

// Does PyTorch consider an image or a volume channels last?
bool suggests_channels_last(PyArrayObject* a);

// The strides, in elements, of a pointwise function's result of this shape, and its dimensions in memory order,
// outermost first. `numbers`: there are also operands without dimensions.
void pointwise_strides(PyArrayObject* const* operands, int n, bool numbers, int nd, const npy_intp* dims, npy_intp* strides,
                       int* order);

// The strides of empty_like(x).
void strides_like(PyArrayObject* x, npy_intp* strides);

// The array with these dense strides, in elements: itself, or a copy if its order in memory differs.
Ref with_strides(Ref array, const npy_intp* strides);

// PyTorch's gradient layout contract: `.grad` has the strides of `like` if they are dense, else it is C-contiguous.
bool obeys_layout_contract(PyArrayObject* gradient, PyArrayObject* like);
Ref by_layout_contract(PyArrayObject* gradient, PyArrayObject* like);

// X(value, its name in `layout`)
#define LAYOUTS(X) \
  X(kPointwise, "pointwise") X(kChannels, "images") X(kAllChannels, "all") X(kRows, "contiguous") X(kLike, "like")
#define VALUE(value, name) value,
#define NAME(value, name) name,
enum class Layout { LAYOUTS(VALUE) };
constexpr const char* kLayoutNames[] = {LAYOUTS(NAME)};
#undef VALUE
#undef NAME

struct Format {
  Layout layout;
  Py_ssize_t first, inputs, arguments;  // index of the first input, number of inputs, of all arguments but `out`
  unsigned long leads;                  // bit mask of the inputs that decide
  Py_ssize_t outputs;                   // number of results with this layout
};

using Run = std::function<PyObject*(PyObject* const* args, Py_ssize_t n)>;
// Runs a kernel and converts its results to the format. The result of a call with `out` is not converted.
PyObject* run_formatted(const Format& format, const Run& run, PyObject* kernel, PyObject* const* args, Py_ssize_t n);

PyObject* suggests_channels_last(PyObject*, PyObject* array);
PyObject* in_layout_of(PyObject*, PyObject* const* args, Py_ssize_t n);  // in_layout_of(array, like)

}  // namespace shmtensor
