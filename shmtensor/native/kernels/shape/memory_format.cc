// See Note [Memory formats] in memory_format.h. Longer than other files: what a rule computes and the
// call that obeys it share how arrays are permuted and laid anew.
#include "kernels/shape/memory_format.h"

#include <cstring>
#include <utility>
#include <vector>

#include "kernels/shape/contiguous.h"

namespace shmtensor {
namespace {

constexpr int kMostDims = NPY_MAXDIMS;
constexpr int kMostOperands = 8;

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

// Is nothing between the elements, in this order of the dimensions?
bool is_dense_in(PyArrayObject* a, const int* order) {
  npy_intp step = PyArray_ITEMSIZE(a);
  for (int i = PyArray_NDIM(a) - 1; i >= 0; --i) {
    if (PyArray_DIM(a, order[i]) == 1) continue;
    if (PyArray_STRIDE(a, order[i]) != step) return false;
    step *= PyArray_DIM(a, order[i]);
  }
  return true;
}

bool equal(const npy_intp* a, const npy_intp* b, int n) {
  return !memcmp(a, b, sizeof(npy_intp) * static_cast<size_t>(n));
}

}  // namespace

void strides_of(PyArrayObject* a, npy_intp* strides) {
  const npy_intp size = PyArray_ITEMSIZE(a);
  npy_intp behind = 1;
  for (int i = PyArray_NDIM(a) - 1; i >= 0; --i) {
    const npy_intp n = PyArray_DIM(a, i);
    strides[i] = PyArray_STRIDE(a, i) / size;
    if (n == 1 && !strides[i]) strides[i] = behind;
    behind = strides[i] * (n > 1 ? n : 1);
  }
}

bool non_overlapping_and_dense(PyArrayObject* a) {
  if (PyArray_IS_C_CONTIGUOUS(a) || PyArray_IS_F_CONTIGUOUS(a)) return true;
  const int nd = PyArray_NDIM(a);
  int order[kMostDims];
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
  npy_intp least = 0;
  for (int i = nd - 1; i >= 0; --i) {
    const int d = order[i];
    const npy_intp n = PyArray_DIM(a, d);
    if (n == 0 || strides[d] < least) return false;
    if (d == 0 && least == strides[1]) return false;  // all sizes but the batch's are 1: it is open
    least = strides[d] * n;
  }
  return true;
}

void pointwise_strides(PyArrayObject* const* operands, int n, bool numbers, int nd, const npy_intp* dims,
                       npy_intp* strides, int* order) {
  npy_intp steps[kMostOperands][kMostDims];  // 0 where an operand is stretched
  bool same = !numbers, rows = true;
  for (int k = 0; k < n; ++k) {
    PyArrayObject* a = operands[k];
    const int extra = nd - PyArray_NDIM(a);
    for (int i = 0; i < extra; ++i) steps[k][i] = 0;
    strides_of(a, steps[k] + extra);
    for (int i = extra; i < nd; ++i) {
      if (steps[k][i] < 0) steps[k][i] = -steps[k][i];  // NumPy's arrays alone
      if (PyArray_DIM(a, i - extra) != dims[i]) {
        steps[k][i] = 0;
        same = false;
      }
    }
    same = same && !extra;
    rows = rows && PyArray_IS_C_CONTIGUOUS(a);
  }
  identity(nd, order);
  if (same && rows) return dense_strides(nd, dims, order, strides);
  if (same && nd == 4) {
    channels_last_order(nd, order);
    bool last = true;
    for (int k = 0; k < n && last; ++k) last = is_dense_in(operands[k], order);
    if (last) return dense_strides(nd, dims, order, strides);
    identity(nd, order);
  }
  // Insertion, from the innermost dimension outwards. An operand that is stretched along one of two
  // dimensions does not decide between them; of equal strides the larger size is further out.
  const auto compare = [&](int a, int b) {  // above 0: a is further in than b; 0: it is open
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
      const int way = compare(order[at], order[j]);
      if (way < 0) break;
      if (way == 0) continue;
      std::swap(order[at], order[j]);
      at = j;
    }
  }
  dense_strides(nd, dims, order, strides);
  if (!same || !non_overlapping_and_dense(operands[0])) return;
  for (int k = 1; k < n; ++k) {
    if (!equal(steps[k], steps[0], nd)) return;
  }
  for (int i = 0; i < nd; ++i) strides[i] = steps[0][i];  // those of sizes of 1 as well
}

void strides_like(PyArrayObject* x, npy_intp* strides) {
  int order[kMostDims];
  if (non_overlapping_and_dense(x)) return strides_of(x, strides);
  pointwise_strides(&x, 1, false, PyArray_NDIM(x), PyArray_DIMS(x), strides, order);
}

namespace {

// Does nobody else see the array or its memory? Then its shape and strides may be set.
bool is_fresh(PyObject* p) {
  return Py_REFCNT(p) == 1 && PyArray_CheckExact(p) && !PyArray_BASE(as_array(p)) &&
         PyArray_CHKFLAGS(as_array(p), NPY_ARRAY_OWNDATA);
}

// A view with these dimensions and strides in bytes; a fresh array gets them itself.
Ref relaid(Ref array, int nd, const npy_intp* dims, const npy_intp* strides) {
  PyArrayObject* a = array.array();
  if (is_fresh(array.get()) && PyArray_NDIM(a) == nd) {
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

// A view with the dimensions in another order; those in front that the array lacks are of size 1.
Ref permuted(PyArrayObject* a, int nd, const int* order) {
  npy_intp dims[kMostDims], strides[kMostDims];
  const int extra = nd - PyArray_NDIM(a);
  for (int i = 0; i < nd; ++i) {
    const int d = order[i] - extra;
    dims[i] = d < 0 ? 1 : PyArray_DIM(a, d);
    strides[i] = d < 0 ? 0 : PyArray_STRIDE(a, d);
  }
  Ref held(Py_NewRef(reinterpret_cast<PyObject*>(a)));  // so that it is not fresh
  return relaid(Ref(Py_NewRef(held.get())), nd, dims, strides);
}

// `permuted`, undone.
Ref permuted_back(Ref array, int nd, const int* order) {
  npy_intp dims[kMostDims], strides[kMostDims];
  for (int i = 0; i < nd; ++i) {
    dims[order[i]] = PyArray_DIM(array.array(), i);
    strides[order[i]] = PyArray_STRIDE(array.array(), i);
  }
  return relaid(std::move(array), nd, dims, strides);
}

}  // namespace

Ref with_strides(Ref array, const npy_intp* strides) {
  PyArrayObject* a = array.array();
  const int nd = PyArray_NDIM(a);
  npy_intp bytes[kMostDims];
  bool as_asked = true, in_this_order = true;
  for (int i = 0; i < nd; ++i) {
    bytes[i] = strides[i] * PyArray_ITEMSIZE(a);
    const bool there = PyArray_STRIDE(a, i) == bytes[i];
    as_asked = as_asked && there;
    in_this_order = in_this_order && (there || PyArray_DIM(a, i) == 1);
  }
  if (as_asked || !PyArray_SIZE(a)) return array;
  if (in_this_order) {
    npy_intp dims[kMostDims];
    for (int i = 0; i < nd; ++i) dims[i] = PyArray_DIM(a, i);
    return relaid(std::move(array), nd, dims, bytes);
  }
  int order[kMostDims];
  identity(nd, order);
  for (int i = 1; i < nd; ++i) {
    for (int j = i; j > 0 && bytes[order[j]] > bytes[order[j - 1]]; --j) std::swap(order[j], order[j - 1]);
  }
  Py_INCREF(PyArray_DESCR(a));
  Ref out(PyArray_NewFromDescr(&PyArray_Type, PyArray_DESCR(a), nd, PyArray_DIMS(a), bytes, nullptr, 0, nullptr));
  Ref view = out ? permuted(a, nd, order) : Ref();
  if (!view) return view;
  if (!pack_into(view.array(), PyArray_DATA(out.array())) && PyArray_CopyInto(out.array(), a) < 0) return Ref();
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
  npy_intp strides[kMostDims];
  const int nd = PyArray_NDIM(like);
  if (non_overlapping_and_dense(like)) {
    strides_of(like, strides);
  } else {
    int order[kMostDims];
    identity(nd, order);
    dense_strides(nd, PyArray_DIMS(like), order, strides);
  }
  Py_INCREF(gradient);
  Ref same(gradient);
  Ref laid = with_strides(Ref(Py_NewRef(same.get())), strides);
  if (!laid || PyArray_DATA(laid.array()) != PyArray_DATA(gradient)) return laid;
  return Ref(PyArray_NewCopy(laid.array(), NPY_KEEPORDER));
}

// ---------------------------------------------------------------- what rows of the op table say

namespace {

// One result, or each of several up to `most`, through `change`. Steals the reference.
template <class F>
PyObject* each(PyObject* result, Py_ssize_t most, F change) {
  if (!result) return nullptr;
  if (PyArray_CheckExact(result)) return change(Ref(result)).release();
  if (!PyTuple_CheckExact(result)) return result;
  Ref held(result);
  const Py_ssize_t n = PyTuple_GET_SIZE(result);
  Ref made(PyTuple_New(n));
  for (Py_ssize_t i = 0; made && i < n; ++i) {
    PyObject* item = PyTuple_GET_ITEM(result, i);
    const bool own = Py_REFCNT(result) == 1;
    if (own) {
      PyTuple_SET_ITEM(result, i, nullptr);  // so that what is fresh looks so
    } else {
      Py_INCREF(item);
    }
    if (i < most && PyArray_CheckExact(item)) item = change(Ref(item)).release();
    if (!item) return nullptr;
    PyTuple_SET_ITEM(made.get(), i, item);
  }
  return made.release();
}

PyObject* run_pointwise(const Format& format, const Run& run, PyObject* kernel, PyObject* const* args, Py_ssize_t n) {
  PyArrayObject* operands[kMostOperands];
  int count = 0, nd = 0;
  bool numbers = false;
  for (Py_ssize_t i = format.first; i < format.first + format.inputs && i < n; ++i) {
    if (PyArray_CheckExact(args[i])) {
      if (count == kMostOperands) return run(args, n);
      operands[count++] = as_array(args[i]);
      if (PyArray_NDIM(as_array(args[i])) > nd) nd = PyArray_NDIM(as_array(args[i]));
    } else {
      numbers = numbers || args[i] != Py_None;
    }
  }
  npy_intp dims[kMostDims], strides[kMostDims];
  int order[kMostDims];
  for (int d = 0; d < nd; ++d) dims[d] = 1;
  for (int k = 0; k < count; ++k) {
    const int extra = nd - PyArray_NDIM(operands[k]);
    for (int d = extra; d < nd; ++d) {
      const npy_intp size = PyArray_DIM(operands[k], d - extra);
      if (size == 0 || (size > 1 && dims[d] > 1 && dims[d] != size)) return run(args, n);
      if (size > 1) dims[d] = size;
    }
  }
  if (count == 0 || nd == 0) return run(args, n);
  pointwise_strides(operands, count, numbers, nd, dims, strides, order);
  bool moves = false;
  for (int d = 0; d < nd; ++d) moves = moves || order[d] != d;
  moves = moves && !PyObject_TypeCheck(kernel, &PyUFunc_Type);  // ufuncs have the same rule
  PyObject* result;
  if (moves) {
    std::vector<Ref> views;
    views.reserve(static_cast<size_t>(format.inputs));
    std::vector<PyObject*> stack(static_cast<size_t>(n) + 1);
    for (Py_ssize_t i = 0; i < n; ++i) stack[static_cast<size_t>(i) + 1] = args[i];
    for (Py_ssize_t i = format.first; i < format.first + format.inputs && i < n; ++i) {
      if (!PyArray_CheckExact(args[i]) || !PyArray_NDIM(as_array(args[i]))) continue;
      views.push_back(permuted(as_array(args[i]), nd, order));
      if (!views.back()) return nullptr;
      stack[static_cast<size_t>(i) + 1] = views.back().get();
    }
    result = run(stack.data() + 1, n);
  } else {
    result = run(args, n);
  }
  return each(result, PY_SSIZE_T_MAX, [&](Ref one) {
    bool whole = PyArray_NDIM(one.array()) == nd;
    for (int d = 0; d < nd && whole; ++d) whole = PyArray_DIM(one.array(), d) == dims[moves ? order[d] : d];
    if (!whole) return one;
    if (moves) one = permuted_back(std::move(one), nd, order);
    return one ? with_strides(std::move(one), strides) : std::move(one);
  });
}

// Results of the first input's shape lie as it does, or as a pointwise function's would if it has gaps.
PyObject* run_like(const Format& format, const Run& run, PyObject* const* args, Py_ssize_t n) {
  PyObject* result = run(args, n);
  if (n <= format.first || !PyArray_CheckExact(args[format.first])) return result;
  PyArrayObject* x = as_array(args[format.first]);
  return each(result, format.outputs, [&](Ref one) {
    npy_intp strides[kMostDims];
    if (!PyArray_SAMESHAPE(x, one.array())) return one;
    strides_like(x, strides);
    return with_strides(std::move(one), strides);
  });
}

// Whether the deciding inputs are channels last: one of them, or all.
bool decided(const Format& format, PyObject* const* args, Py_ssize_t n) {
  bool any = false, every = true;
  const auto look = [&](PyObject* p) {
    const bool last = PyArray_CheckExact(p) && suggests_channels_last(as_array(p));
    any = any || last;
    every = every && last;
  };
  for (Py_ssize_t i = 0; i < format.inputs && format.first + i < n; ++i) {
    if (!(format.leads >> i & 1)) continue;
    PyObject* p = args[format.first + i];
    if (!PyList_CheckExact(p) && !PyTuple_CheckExact(p)) {
      look(p);
      continue;
    }
    for (Py_ssize_t k = 0; k < PySequence_Fast_GET_SIZE(p); ++k) look(PySequence_Fast_GET_ITEM(p, k));
  }
  return format.layout == Layout::kAllChannels ? any && every : any;
}

}  // namespace

PyObject* run_formatted(const Format& format, const Run& run, PyObject* kernel, PyObject* const* args, Py_ssize_t n) {
  if (n > format.arguments) return run(args, n);
  if (format.layout == Layout::kPointwise) return run_pointwise(format, run, kernel, args, n);
  if (format.layout == Layout::kLike) return run_like(format, run, args, n);
  const bool last = format.layout != Layout::kRows && decided(format, args, n);
  return each(run(args, n), format.outputs, [&](Ref one) {
    const int nd = PyArray_NDIM(one.array());
    int order[kMostDims];
    npy_intp strides[kMostDims];
    identity(nd, order);
    if (last && (nd == 4 || nd == 5)) channels_last_order(nd, order);
    dense_strides(nd, PyArray_DIMS(one.array()), order, strides);
    return with_strides(std::move(one), strides);
  });
}

PyObject* suggests_channels_last(PyObject*, PyObject* array) {
  PyArrayObject* x = array_argument("suggests_channels_last", "x", array);
  return x ? PyBool_FromLong(suggests_channels_last(x)) : nullptr;
}

// in_layout_of(array, like): the array, or a copy, that lies as a tensor made like the other does.
PyObject* in_layout_of(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (count_arguments("in_layout_of", n, 2, 2) < 0) return nullptr;
  PyArrayObject* array = array_argument("in_layout_of", "array", args[0]);
  PyArrayObject* like = array ? array_argument("in_layout_of", "like", args[1]) : nullptr;
  if (!like || !same_shape("in_layout_of", "array", array, "like", like)) return nullptr;
  npy_intp strides[kMostDims];
  strides_like(like, strides);
  return with_strides(Ref(Py_NewRef(args[0])), strides).release();
}

}  // namespace shmtensor
