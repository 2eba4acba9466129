// Kernels that process 16-bit floats tile by tile: cast to float32 in the first-level cache, computed, rounded, so that
// only 16 bits per element go through memory. They take C-contiguous arrays of one dtype and shape;
// compute_in_float32.cc computes other calls.
#include <cstring>
#include <utility>
#include <vector>

#include "kernels/arguments.h"
#include "kernels/functions.h"
#include "kernels/linalg/bfloat16_gemm.h"
#include "simd/kernel_table.h"
#include "threading/thread_pool.h"
#include "kernels/reduce/reduced_layout.h"
#include "numpy_loops/parallel_ufunc.h"
#include "half/half.h"

namespace shmtensor {
namespace {

constexpr int64_t kTile = 2048;  // elements: three tiles of float32 fill half of the first-level cache
constexpr int64_t kGrain = 32768;
constexpr int64_t kUnlocked = 8192;

int64_t min(int64_t a, int64_t b) { return a < b ? a : b; }

// A Python number as float32; false if it is not a number or not exact.
bool parse_float(PyObject* p, float* out) {
  if (PyFloat_CheckExact(p)) {
    *out = static_cast<float>(PyFloat_AS_DOUBLE(p));
    return true;
  }
  if (!PyLong_CheckExact(p)) return false;
  int overflow;
  const long long v = PyLong_AsLongLongAndOverflow(p, &overflow);
  *out = static_cast<float>(v);
  return !overflow && v >= -(1 << 24) && v <= (1 << 24);
}

bool matches_layout(PyArrayObject* a, PyArrayObject* first_array) {
  return PyArray_TYPE(a) == PyArray_TYPE(first_array) && PyArray_ISCARRAY_RO(a) && PyArray_SAMESHAPE(a, first_array);
}

constexpr uint16_t kSign = 0x8000;  // of both formats

// Tested at each call, mostly in vain: without a call of strcmp where the first letters differ.
inline bool is_named(const PyUFuncObject* u, const char* name) { return *u->name == *name && !strcmp(u->name, name); }

// Ops that only change the sign work on the 16 bits: out = (x & keep) ^ flip.
struct SignChange {
  uint16_t keepdim, flip;
};

const SignChange* sign_change(PyObject* ufunc) {
  static constexpr SignChange absolute{kSign - 1, 0}, negative{0xFFFF, kSign};
  const auto* u = reinterpret_cast<PyUFuncObject*>(ufunc);
  if (is_named(u, "absolute")) return &absolute;
  return is_named(u, "negative") ? &negative : nullptr;
}

// The index of a binary kernel that needs no tiles, or -1. square is the product of x with itself.
int half_binary_of(const PyUFuncObject* u) {
#define KERNEL(name, numpy_name, inputs, ...) {#numpy_name, inputs},
  static constexpr struct {
    const char* name;
    int inputs;
  } kernels[] = {HALF_BINARIES(KERNEL)};
#undef KERNEL
  if (u->nin == 1 && is_named(u, "square")) return kTimes;
  for (int i = 0; i < kHalfBinaries; ++i) {
    if (is_named(u, kernels[i].name) && u->nin == kernels[i].inputs) return i;
  }
  return -1;
}

int half_unary_of(const PyUFuncObject* u) {
#define NAME(name, numpy_name) #numpy_name,
  static const char* const names[] = {HALF_UNARIES(NAME)};
#undef NAME
  constexpr int kFirst = kHalfNumbers + 1;
  for (int i = kFirst; i < kHalfUnaries; ++i) {
    if (is_named(u, names[i - kFirst]) && u->nin == 1) return i;
  }
  return -1;
}

// Runs a ufunc of one or two inputs, into a new array or in place.
PyObject* elementwise_halves(PyObject* ufunc, PyObject* const* args, Py_ssize_t n) {
  int result;
  const Loop* l = float32_loop(ufunc, &result);
  if (!l || l->runs_on_caller || l->nin > 2 || (n != l->nin && n != l->nin + 1)) return nullptr;
  PyArrayObject* first_array = nullptr;
  for (int i = 0; i < l->nin && !first_array; ++i) first_array = is_half_array(args[i]) ? as_array(args[i]) : nullptr;
  if (!first_array) return nullptr;
  const int type = PyArray_TYPE(first_array);
  const uint16_t* in[2] = {};
  float numbers[2] = {};
  for (int i = 0; i < l->nin; ++i) {
    if (!PyArray_CheckExact(args[i])) {
      if (!parse_float(args[i], &numbers[i])) return nullptr;
    } else if (matches_layout(as_array(args[i]), first_array)) {
      in[i] = data<uint16_t>(as_array(args[i]));
    } else {
      return nullptr;
    }
  }
  const bool rounds = result == NPY_FLOAT;
  const int64_t size = PyArray_SIZE(first_array);
  Ref out;
  if (n > l->nin && args[l->nin] != Py_None) {
    PyObject* o = args[l->nin];
    if (!rounds || !PyArray_CheckExact(o) || !matches_layout(as_array(o), first_array) || !PyArray_ISWRITEABLE(as_array(o)))
      return nullptr;
    for (int i = 0; i < l->nin; ++i) {  // a tile is read before it is written
      const int64_t distance = in[i] ? data<uint16_t>(as_array(o)) - in[i] : size;
      if (distance && distance < size && distance > -size) return nullptr;
    }
    out = Ref(Py_NewRef(o));
  } else {
    out = Ref(new_array(PyArray_NDIM(first_array), PyArray_DIMS(first_array), rounds ? type : result));
    if (!out) return nullptr;
  }
  Unlocked unlocked(size > kUnlocked);
  if (const SignChange* change = l->nin == 1 && in[0] ? sign_change(ufunc) : nullptr) {
    ranges(size, 4 * kGrain, [&](int64_t at, int64_t stop) {
      half_kernels().change_bits(in[0] + at, data<uint16_t>(out) + at, stop - at, change->keepdim, change->flip);
    });
    return out.release();
  }
  const auto* u = reinterpret_cast<PyUFuncObject*>(ufunc);
  if (const int which = rounds ? half_unary_of(u) : -1; which >= 0 && in[0]) {
    const auto run = half_kernels().arithmetic[type != NPY_HALF].unary[which];
    const float none[3] = {};
    ranges(size, 2 * kGrain, [&](int64_t at, int64_t stop) { run(in[0] + at, data<uint16_t>(out) + at, stop - at, none); });
    return out.release();
  }
  if (const int which = rounds ? half_binary_of(u) : -1; which >= 0) {
    if (which == kTimes && l->nin == 1) in[1] = in[0];
    const auto run = half_kernels().arithmetic[type != NPY_HALF].binary[which];
    ranges(size, 2 * kGrain, [&](int64_t at, int64_t stop) {
      run(in[0] ? in[0] + at : nullptr, in[1] ? in[1] + at : nullptr, numbers, data<uint16_t>(out) + at, stop - at);
    });
    return out.release();
  }
  const auto widen = half_kernels().widen[type != NPY_HALF];
  const auto narrow = half_kernels().narrow[type != NPY_HALF];
  ranges(size, kGrain, [&](int64_t at, int64_t stop) {
    float tiles[3][kTile];
    for (; at < stop; at += kTile) {
      const npy_intp count = min(kTile, stop - at);
      char* operands[3];
      npy_intp steps[3];
      for (int i = 0; i < l->nin; ++i) {
        if (in[i]) widen(in[i] + at, tiles[i], count);
        operands[i] = reinterpret_cast<char*>(in[i] ? tiles[i] : &numbers[i]);
        steps[i] = in[i] ? sizeof(float) : 0;
      }
      steps[l->nin] = rounds ? sizeof(float) : 1;
      operands[l->nin] = rounds ? reinterpret_cast<char*>(tiles[2]) : data<char>(out) + at;
      l->function(operands, &count, steps, l->data);
      if (rounds) narrow(tiles[2], data<uint16_t>(out) + at, count);
    }
  });
  return out.release();
}

// out[o] = the sum of x[o, :]: several short rows per tile, long rows in pieces.
void sum_rows(const uint16_t* x, float* out, int64_t outer, int64_t m, int format) {
  const auto sum_of = half_kernels().arithmetic[format].sum;
  constexpr int64_t kShortRow = 128;
  if (m < kShortRow) {
    const int64_t rows_per_tile = kTile / m;
    ranges(outer, (kGrain + m - 1) / m, [&](int64_t o, int64_t stop) {
      float tile[kTile];
      for (; o < stop; o += rows_per_tile) {
        const int64_t rows = min(rows_per_tile, stop - o);
        half_kernels().widen[format](x + o * m, tile, rows * m);
        kernels<float>().sum_rows(tile, out + o, rows, m);
      }
    });
    return;
  }
  const int64_t pieces = (m + 2 * kGrain - 1) / (2 * kGrain), candidate = (m + pieces - 1) / pieces;
  std::vector<double> parts(static_cast<size_t>(outer * pieces));
  ranges(outer * pieces, 1 + kGrain / candidate, [&](int64_t i, int64_t stop) {
    for (; i < stop; ++i) {
      const int64_t start = i % pieces * candidate;
      parts[static_cast<size_t>(i)] = sum_of(x + i / pieces * m + start, min(candidate, m - start));
    }
  });
  for (int64_t o = 0; o < outer; ++o) {
    double total = 0;
    for (int64_t i = 0; i < pieces; ++i) total += parts[static_cast<size_t>(o * pieces + i)];
    out[o] = static_cast<float>(total);
  }
}

// parts[o, piece, c] = sums of `chain` rows of x[o, :, c].
void sum_columns(const uint16_t* x, float* parts, int64_t outer, int64_t m, int64_t inner, int64_t chain, int format) {
  const int64_t width = min(inner, kHalfColumns);
  const int64_t strips = (inner + width - 1) / width, pieces = (m + chain - 1) / chain;
  ranges(outer * pieces * strips, 1 + kGrain / (chain * width), [&](int64_t i, int64_t stop) {
    for (; i < stop; ++i) {
      const int64_t c = i % strips * width, piece = i / strips % pieces, o = i / strips / pieces;
      const int64_t n = min(width, inner - c), end = min((piece + 1) * chain, m);
      float* to = parts + (o * pieces + piece) * inner + c;
      for (int64_t k = 0; k < n; ++k) to[k] = 0;
      half_kernels().arithmetic[format].sum_columns(x + (o * m + piece * chain) * inner + c, to, end - piece * chain, n,
                                                    inner);
    }
  });
}

// sum(x, dim=None, keepdim=False)
PyObject* sum_halves(PyObject* const* args, Py_ssize_t n) {
  if (n < 1 || n > 3 || !is_half_array(args[0]) || !PyArray_SIZE(as_array(args[0]))) return nullptr;
  PyArrayObject* x = as_array(args[0]);
  const int keepdim = n > 2 ? PyObject_IsTrue(args[2]) : 0, type = PyArray_TYPE(x);
  ReducedLayout r;
  PyObject* dim = n > 1 ? args[1] : Py_None;
  if (keepdim < 0 || !reduced_argument("sum", x, dim, keepdim, &r, ExpandedDims::Once)) return nullptr;
  const int64_t chain = min(r.m, 512), pieces = r.inner == 1 ? 1 : (r.m + chain - 1) / chain;
  const npy_intp dims[3] = {r.outer, pieces, r.inner};
  Ref wide_sums(new_array(3, dims, NPY_FLOAT));
  Ref out(wide_sums ? new_array(r.nd, r.dims, type) : nullptr);
  if (!out) return nullptr;
  const int format = type != NPY_HALF;
  {
    Unlocked unlocked(r.outer * r.m * r.inner > kUnlocked);
    if (r.inner == 1) {
      sum_rows(data<uint16_t>(r.x), data<float>(wide_sums), r.outer, r.m, format);
    } else {
      sum_columns(data<uint16_t>(r.x), data<float>(wide_sums), r.outer, r.m, r.inner, chain, format);
    }
  }
  if (pieces > 1) {
    Ref axis(PyLong_FromLong(1));
    PyObject* sum_args[2] = {wide_sums.get(), axis.get()};
    wide_sums = Ref(axis ? sum(nullptr, sum_args, 2) : nullptr);
    if (!wide_sums) return nullptr;
  }
  r.multiply(data<float>(wide_sums), r.outer * r.inner);
  half_kernels().narrow[format](data<float>(wide_sums), data<uint16_t>(out), r.outer * r.inner);
  return r.restore(std::move(out));
}

}  // namespace

namespace {

// Can the products of this call be computed in bfloat16? linear also takes a weight that is a vector, which its kernel
// does not.
bool takes_products(PyObject* kernel, PyObject* const* args, Py_ssize_t n) {
  const bool is_linear = is_kernel<linear>(kernel);
  if (!is_linear && !is_kernel<matmul>(kernel) && !is_kernel<bmm>(kernel) && !is_kernel<dot>(kernel)) return false;
  if (!has_bfloat16_gemm()) return false;
  for (Py_ssize_t i = 0; i < n; ++i) {
    if (args[i] == Py_None) continue;
    if (!PyArray_CheckExact(args[i]) || PyArray_TYPE(as_array(args[i])) != bfloat16_num) return false;
  }
  return n > 1 && (!is_linear || PyArray_NDIM(as_array(args[1])) == 2);
}

// Is this a fused kernel that casts tiles of contiguous arrays itself?
bool takes_tiles(PyObject* kernel, PyObject* const* args, Py_ssize_t n) {
  const bool is_binary = is_kernel<relu_backward>(kernel) || is_kernel<sigmoid_backward>(kernel) ||
                         is_kernel<tanh_backward>(kernel) || is_kernel<gelu_backward>(kernel);
  if (!is_binary && !is_kernel<gelu>(kernel)) return false;
  if (n < 1 + is_binary || !is_half_array(args[0])) return false;
  for (Py_ssize_t i = 0; i <= is_binary; ++i) {
    if (!PyArray_CheckExact(args[i]) || !matches_layout(as_array(args[i]), as_array(args[0]))) return false;
  }
  return true;
}

// Does the kernel accept the 16-bit floats of this call? If it cannot compute it, it returns None.
bool takes_halves(PyObject* kernel, PyObject* const* args, Py_ssize_t n) {
  if (!PyCFunction_CheckExact(kernel)) return false;
  if (PyCFunction_GET_FUNCTION(kernel) == rsqrt || is_kernel<clamp>(kernel)) return true;
  if (takes_products(kernel, args, n) || takes_tiles(kernel, args, n)) return true;
  const Activation* activation = activation_of(kernel);
  return activation && activation->in_halves[0];
}

}  // namespace

PyObject* run_half_kernel(PyObject* kernel, PyObject* const* args, Py_ssize_t n) {
  if (takes_halves(kernel, args, n)) {
    PyObject* out = PyObject_Vectorcall(kernel, args, static_cast<size_t>(n), nullptr);
    if (out != Py_None) return out;
    Py_DECREF(out);
    return nullptr;
  }
  if (PyObject_TypeCheck(kernel, &PyUFunc_Type)) return elementwise_halves(kernel, args, n);
  if (is_kernel<sum>(kernel)) return sum_halves(args, n);
  return nullptr;
}

}  // namespace shmtensor
