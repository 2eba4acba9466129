// See Note [Memory formats] in memory_format.h.
#include "kernels/shape/memory_format.h"

#include <cstring>
#include <utility>
#include <vector>

#include "kernels/shape/contiguous.h"

namespace shmtensor {
namespace {

constexpr int kMaxDims = NPY_MAXDIMS;
constexpr int kMaxOperands = 8;

// The dimensions from the outermost to the innermost, with the channels as the last.
void channels_last_order(int nd, int* order) {
  order[0] = 0;
  for (int i = 2; i < nd; ++i) order[i - 1] = i;
  order[nd - 1] = 1;
}

void dense_strides(int nd, const npy_intp* dims, const int* order, npy_intp* strides) {
  npy_intp step = 1;
  for (int i = nd - 1; i >= 0; --i) {
    strides[order[i]] = step;
    step *= dims[order[i]];
  }
}

void identity(int nd, int* order) {
  for (int i = 0; i < nd; ++i) order[i] = i;
}

// Is the array contiguous in this order of the dimensions?
bool is_dense_in(PyArrayObject* a, const int* order) {
  npy_intp step = PyArray_ITEMSIZE(a);
  for (int i = PyArray_NDIM(a) - 1; i >= 0; --i) {
    if (PyArray_DIM(a, order[i]) == 1) continue;
    if (PyArray_STRIDE(a, order[i]) != step) return false;
    step *= PyArray_DIM(a, order[i]);
  }
  return true;
}

bool equal(const npy_intp* a, const npy_intp* b, int n) { return !memcmp(a, b, sizeof(npy_intp) * static_cast<size_t>(n)); }

}  // namespace

void strides_of(PyArrayObject* a, npy_intp* strides) {
  const npy_intp size = PyArray_ITEMSIZE(a);
  npy_intp next_stride = 1;
  for (int i = PyArray_NDIM(a) - 1; i >= 0; --i) {
    const npy_intp n = PyArray_DIM(a, i);
    strides[i] = PyArray_STRIDE(a, i) / size;
    if (n == 1 && !strides[i]) strides[i] = next_stride;
    next_stride = strides[i] * (n > 1 ? n : 1);
  }
}

bool non_overlapping_and_dense(PyArrayObject* a) {
  if (PyArray_IS_C_CONTIGUOUS(a) || PyArray_IS_F_CONTIGUOUS(a)) return true;
  const int nd = PyArray_NDIM(a);
  int order[kMaxDims];
  identity(nd, order);
  for (int i = 1; i < nd; ++i) {
    for (int j = i; j > 0 && PyArray_STRIDE(a, order[j]) > PyArray_STRIDE(a, order[j - 1]); --j)
      std::swap(order[j], order[j - 1]);
  }
  return is_dense_in(a, order);
}

bool suggests_channels_last(PyArrayObject* a) {
  const int nd = PyArray_NDIM(a);
  if (nd != 4 && nd != 5) return false;
  npy_intp strides[5];
  int order[5];
  strides_of(a, strides);
  channels_last_order(nd, order);
  if (strides[1] == 0) return false;
  npy_intp min_stride = 0;
  for (int i = nd - 1; i >= 0; --i) {
    const int d = order[i];
    const npy_intp n = PyArray_DIM(a, d);
    if (n == 0 || strides[d] < min_stride) return false;
    if (d == 0 && min_stride == strides[1]) return false;  // all sizes but the batch's are 1: ambiguous
    min_stride = strides[d] * n;
  }
  return true;
}

void pointwise_strides(PyArrayObject* const* operands, int n, bool numbers, int nd, const npy_intp* dims, npy_intp* strides,
                       int* order) {
  npy_intp steps[kMaxOperands][kMaxDims];  // 0 where an operand is broadcast
  bool same_shapes = !numbers, all_contiguous = true;
  for (int k = 0; k < n; ++k) {
    PyArrayObject* a = operands[k];
    const int missing = nd - PyArray_NDIM(a);
    for (int i = 0; i < missing; ++i) steps[k][i] = 0;
    strides_of(a, steps[k] + missing);
    for (int i = missing; i < nd; ++i) {
      if (steps[k][i] < 0) steps[k][i] = -steps[k][i];  // only NumPy arrays have negative strides
      if (PyArray_DIM(a, i - missing) != dims[i]) {
        steps[k][i] = 0;
        same_shapes = false;
      }
    }
    same_shapes = same_shapes && !missing;
    all_contiguous = all_contiguous && PyArray_IS_C_CONTIGUOUS(a);
  }
  identity(nd, order);
  if (same_shapes && all_contiguous) return dense_strides(nd, dims, order, strides);
  if (same_shapes && nd == 4) {
    channels_last_order(nd, order);
    bool is_last = true;
    for (int k = 0; k < n && is_last; ++k) is_last = is_dense_in(operands[k], order);
    if (is_last) return dense_strides(nd, dims, order, strides);
    identity(nd, order);
  }
  // Insertion sort, from the innermost dimension outwards. An operand that is broadcast along one of two dimensions
  // does not decide between them; of equal strides the larger size is further out.
  const auto compare = [&](int a, int b) {  // above 0: a is further in than b; 0: undecided
    for (int k = 0; k < n; ++k) {
      const npy_intp p = steps[k][a], q = steps[k][b];
      if (p == 0 || q == 0) continue;
      if (p != q) return p < q ? 1 : -1;
      if (dims[a] < dims[b]) return 1;
    }
    return 0;
  };
  for (int i = nd - 2; i >= 0; --i) {
    for (int at = i, j = i + 1; j < nd; ++j) {
      const int order_sign = compare(order[at], order[j]);
      if (order_sign < 0) break;
      if (order_sign == 0) continue;
      std::swap(order[at], order[j]);
      at = j;
    }
  }
  dense_strides(nd, dims, order, strides);
  if (!same_shapes || !non_overlapping_and_dense(operands[0])) return;
  for (int k = 1; k < n; ++k) {
    if (!equal(steps[k], steps[0], nd)) return;
  }
  for (int i = 0; i < nd; ++i) strides[i] = steps[0][i];  // includes the strides of dimensions of size 1
}

void strides_like(PyArrayObject* x, npy_intp* strides) {
  int order[kMaxDims];
  if (non_overlapping_and_dense(x)) return strides_of(x, strides);
  pointwise_strides(&x, 1, false, PyArray_NDIM(x), PyArray_DIMS(x), strides, order);
}

namespace {

// Does nothing else refer to the array or its memory? Then its shape and strides may be changed.
bool is_unshared(PyObject* p) {
  return Py_REFCNT(p) == 1 && PyArray_CheckExact(p) && !PyArray_BASE(as_array(p)) &&
         PyArray_CHKFLAGS(as_array(p), NPY_ARRAY_OWNDATA);
}

// A view with these dimensions and strides in bytes; an unshared array is changed itself.
Ref view_with_strides(Ref array, int nd, const npy_intp* dims, const npy_intp* strides) {
  PyArrayObject* a = array.array();
  if (is_unshared(array.get()) && PyArray_NDIM(a) == nd) {
    for (int i = 0; i < nd; ++i) {
      PyArray_DIMS(a)[i] = dims[i];
      PyArray_STRIDES(a)[i] = strides[i];
    }
    PyArray_UpdateFlags(a, NPY_ARRAY_C_CONTIGUOUS | NPY_ARRAY_F_CONTIGUOUS);
    return array;
  }
  Py_INCREF(PyArray_DESCR(a));
  Ref view(PyArray_NewFromDescr(&PyArray_Type, PyArray_DESCR(a), nd, dims, strides, PyArray_DATA(a),
                                PyArray_FLAGS(a) & NPY_ARRAY_WRITEABLE, nullptr));
  if (!view || PyArray_SetBaseObject(view.array(), array.release()) < 0) return Ref();
  return view;
}

// A view with permuted dimensions; leading dimensions that the array lacks have size 1.
Ref permute_view(PyArrayObject* a, int nd, const int* order) {
  npy_intp dims[kMaxDims], strides[kMaxDims];
  const int missing = nd - PyArray_NDIM(a);
  for (int i = 0; i < nd; ++i) {
    const int d = order[i] - missing;
    dims[i] = d < 0 ? 1 : PyArray_DIM(a, d);
    strides[i] = d < 0 ? 0 : PyArray_STRIDE(a, d);
  }
  Ref owner(Py_NewRef(reinterpret_cast<PyObject*>(a)));  // so that the array is not unshared
  return view_with_strides(Ref(Py_NewRef(owner.get())), nd, dims, strides);
}

// The inverse of permute_view.
Ref permute_back(Ref array, int nd, const int* order) {
  npy_intp dims[kMaxDims], strides[kMaxDims];
  for (int i = 0; i < nd; ++i) {
    dims[order[i]] = PyArray_DIM(array.array(), i);
    strides[order[i]] = PyArray_STRIDE(array.array(), i);
  }
  return view_with_strides(std::move(array), nd, dims, strides);
}

}  // namespace

Ref with_strides(Ref array, const npy_intp* strides) {
  PyArrayObject* a = array.array();
  const int nd = PyArray_NDIM(a);
  npy_intp byte_strides[kMaxDims];
  bool has_strides = true, has_order = true;
  for (int i = 0; i < nd; ++i) {
    byte_strides[i] = strides[i] * PyArray_ITEMSIZE(a);
    const bool stride_matches = PyArray_STRIDE(a, i) == byte_strides[i];
    has_strides = has_strides && stride_matches;
    has_order = has_order && (stride_matches || PyArray_DIM(a, i) == 1);
  }
  if (has_strides || !PyArray_SIZE(a)) return array;
  if (has_order) {
    npy_intp dims[kMaxDims];
    for (int i = 0; i < nd; ++i) dims[i] = PyArray_DIM(a, i);
    return view_with_strides(std::move(array), nd, dims, byte_strides);
  }
  int order[kMaxDims];
  identity(nd, order);
  for (int i = 1; i < nd; ++i) {
    for (int j = i; j > 0 && byte_strides[order[j]] > byte_strides[order[j - 1]]; --j) std::swap(order[j], order[j - 1]);
  }
  Py_INCREF(PyArray_DESCR(a));
  Ref out(PyArray_NewFromDescr(&PyArray_Type, PyArray_DESCR(a), nd, PyArray_DIMS(a), byte_strides, nullptr, 0, nullptr));
  Ref view = out ? permute_view(a, nd, order) : Ref();
  if (!view) return view;
  if (!copy_contiguous_into(view.array(), PyArray_DATA(out.array())) && PyArray_CopyInto(out.array(), a) < 0) return Ref();
  return out;
}

bool obeys_layout_contract(PyArrayObject* gradient, PyArrayObject* like) {
  if (PyArray_IS_C_CONTIGUOUS(like) || !non_overlapping_and_dense(like)) return PyArray_IS_C_CONTIGUOUS(gradient);
  for (int i = 0; i < PyArray_NDIM(like); ++i) {
    if (PyArray_DIM(like, i) > 1 && PyArray_STRIDE(gradient, i) != PyArray_STRIDE(like, i)) return false;
  }
  return true;
}

Ref by_layout_contract(PyArrayObject* gradient, PyArrayObject* like) {
  npy_intp strides[kMaxDims];
  const int nd = PyArray_NDIM(like);
  if (non_overlapping_and_dense(like)) {
    strides_of(like, strides);
  } else {
    int order[kMaxDims];
    identity(nd, order);
    dense_strides(nd, PyArray_DIMS(like), order, strides);
  }
  Py_INCREF(gradient);
  Ref gradient_ref(gradient);
  Ref result = with_strides(Ref(Py_NewRef(gradient_ref.get())), strides);
  if (!result || PyArray_DATA(result.array()) != PyArray_DATA(gradient)) return result;
  return Ref(PyArray_NewCopy(result.array(), NPY_KEEPORDER));
}

// ---------------------------------------------------------------- layouts of the op table

namespace {

// Applies `change` to a result, or to the first max_results of a tuple. Steals the reference.
template <class F>
PyObject* for_results(PyObject* result, Py_ssize_t max_results, F change) {
  if (!result) return nullptr;
  if (PyArray_CheckExact(result)) return change(Ref(result)).release();
  if (!PyTuple_CheckExact(result)) return result;
  Ref owner(result);
  const Py_ssize_t n = PyTuple_GET_SIZE(result);
  Ref results(PyTuple_New(n));
  for (Py_ssize_t i = 0; results && i < n; ++i) {
    PyObject* item = PyTuple_GET_ITEM(result, i);
    const bool is_sole_owner = Py_REFCNT(result) == 1;
    if (is_sole_owner) {
      PyTuple_SET_ITEM(result, i, nullptr);  // so that the item may be unshared
    } else {
      Py_INCREF(item);
    }
    if (i < max_results && PyArray_CheckExact(item)) item = change(Ref(item)).release();
    if (!item) return nullptr;
    PyTuple_SET_ITEM(results.get(), i, item);
  }
  return results.release();
}

PyObject* run_pointwise(const Format& format, const Run& run, PyObject* kernel, PyObject* const* args, Py_ssize_t n) {
  PyArrayObject* operands[kMaxOperands];
  int count = 0, nd = 0;
  bool numbers = false;
  for (Py_ssize_t i = format.first; i < format.first + format.inputs && i < n; ++i) {
    if (PyArray_CheckExact(args[i])) {
      if (count == kMaxOperands) return run(args, n);
      operands[count++] = as_array(args[i]);
      if (PyArray_NDIM(as_array(args[i])) > nd) nd = PyArray_NDIM(as_array(args[i]));
    } else {
      numbers = numbers || args[i] != Py_None;
    }
  }
  npy_intp dims[kMaxDims], strides[kMaxDims];
  int order[kMaxDims];
  for (int d = 0; d < nd; ++d) dims[d] = 1;
  for (int k = 0; k < count; ++k) {
    const int missing = nd - PyArray_NDIM(operands[k]);
    for (int d = missing; d < nd; ++d) {
      const npy_intp size = PyArray_DIM(operands[k], d - missing);
      if (size == 0 || (size > 1 && dims[d] > 1 && dims[d] != size)) return run(args, n);
      if (size > 1) dims[d] = size;
    }
  }
  if (count == 0 || nd == 0) return run(args, n);
  pointwise_strides(operands, count, numbers, nd, dims, strides, order);
  bool permutes = false;
  for (int d = 0; d < nd; ++d) permutes = permutes || order[d] != d;
  permutes = permutes && !PyObject_TypeCheck(kernel, &PyUFunc_Type);  // ufuncs have the same rule
  PyObject* result;
  if (permutes) {
    std::vector<Ref> views;
    views.reserve(static_cast<size_t>(format.inputs));
    std::vector<PyObject*> call_args(static_cast<size_t>(n) + 1);
    for (Py_ssize_t i = 0; i < n; ++i) call_args[static_cast<size_t>(i) + 1] = args[i];
    for (Py_ssize_t i = format.first; i < format.first + format.inputs && i < n; ++i) {
      if (!PyArray_CheckExact(args[i]) || !PyArray_NDIM(as_array(args[i]))) continue;
      views.push_back(permute_view(as_array(args[i]), nd, order));
      if (!views.back()) return nullptr;
      call_args[static_cast<size_t>(i) + 1] = views.back().get();
    }
    result = run(call_args.data() + 1, n);
  } else {
    result = run(args, n);
  }
  return for_results(result, PY_SSIZE_T_MAX, [&](Ref result_array) {
    bool has_shape = PyArray_NDIM(result_array.array()) == nd;
    for (int d = 0; d < nd && has_shape; ++d)
      has_shape = PyArray_DIM(result_array.array(), d) == dims[permutes ? order[d] : d];
    if (!has_shape) return result_array;
    if (permutes) result_array = permute_back(std::move(result_array), nd, order);
    return result_array ? with_strides(std::move(result_array), strides) : std::move(result_array);
  });
}

// Results of the first input's shape get its strides, or those of a pointwise function if it has gaps.
PyObject* run_like(const Format& format, const Run& run, PyObject* const* args, Py_ssize_t n) {
  PyObject* result = run(args, n);
  if (n <= format.first || !PyArray_CheckExact(args[format.first])) return result;
  PyArrayObject* x = as_array(args[format.first]);
  return for_results(result, format.outputs, [&](Ref result_array) {
    npy_intp strides[kMaxDims];
    if (!PyArray_SAMESHAPE(x, result_array.array())) return result_array;
    strides_like(x, strides);
    return with_strides(std::move(result_array), strides);
  });
}

// Are the deciding inputs channels last: one of them, or all?
bool wants_channels_last(const Format& format, PyObject* const* args, Py_ssize_t n) {
  bool any_last = false, all_last = true;
  const auto check = [&](PyObject* p) {
    const bool is_last = PyArray_CheckExact(p) && suggests_channels_last(as_array(p));
    any_last = any_last || is_last;
    all_last = all_last && is_last;
  };
  for (Py_ssize_t i = 0; i < format.inputs && format.first + i < n; ++i) {
    if (!(format.leads >> i & 1)) continue;
    PyObject* p = args[format.first + i];
    if (!PyList_CheckExact(p) && !PyTuple_CheckExact(p)) {
      check(p);
      continue;
    }
    for (Py_ssize_t k = 0; k < PySequence_Fast_GET_SIZE(p); ++k) check(PySequence_Fast_GET_ITEM(p, k));
  }
  return format.layout == Layout::kAllChannels ? any_last && all_last : any_last;
}

}  // namespace

PyObject* run_formatted(const Format& format, const Run& run, PyObject* kernel, PyObject* const* args, Py_ssize_t n) {
  if (n > format.arguments) return run(args, n);
  if (format.layout == Layout::kPointwise) return run_pointwise(format, run, kernel, args, n);
  if (format.layout == Layout::kLike) return run_like(format, run, args, n);
  const bool is_last = format.layout != Layout::kRows && wants_channels_last(format, args, n);
  return for_results(run(args, n), format.outputs, [&](Ref result_array) {
    const int nd = PyArray_NDIM(result_array.array());
    int order[kMaxDims];
    npy_intp strides[kMaxDims];
    identity(nd, order);
    if (is_last && (nd == 4 || nd == 5)) channels_last_order(nd, order);
    dense_strides(nd, PyArray_DIMS(result_array.array()), order, strides);
    return with_strides(std::move(result_array), strides);
  });
}

PyObject* suggests_channels_last(PyObject*, PyObject* array) {
  PyArrayObject* x = array_argument("suggests_channels_last", "x", array);
  return x ? PyBool_FromLong(suggests_channels_last(x)) : nullptr;
}

// in_layout_of(array, like): the array, or a copy, with the strides of a tensor created by empty_like(like).
PyObject* in_layout_of(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (!takes("in_layout_of", n, 2)) return nullptr;
  PyArrayObject* array = array_argument("in_layout_of", "array", args[0]);
  PyArrayObject* like = array ? array_argument("in_layout_of", "like", args[1]) : nullptr;
  if (!like || !same_shape("in_layout_of", "array", array, "like", like)) return nullptr;
  npy_intp strides[kMaxDims];
  strides_like(like, strides);
  return with_strides(Ref(Py_NewRef(args[0])), strides).release();
}

}  // namespace shmtensor
