// Kernels that take 16-bit floats tile by tile: widened in the first-level cache, computed in float32,
// rounded, so that memory sees 16 bits alone. For what is plain: arrays of one dtype and shape in C
// order; the rest is done by compute_in_float32.cc.
#include <cstring>
#include <utility>
#include <vector>

#include "kernels/arguments.h"
#include "kernels/pointwise/silu_elu_shrink.h"
#include "kernels/pointwise/clamp_addcmul_lerp_cast.h"
#include "simd/kernel_table.h"
#include "threading/thread_pool.h"
#include "kernels/reduce/sum.h"
#include "kernels/reduce/reduced_layout.h"
#include "ufunc/parallel_ufunc.h"
#include "half/half.h"

namespace shmtensor {
namespace {

constexpr int64_t kTile = 2048;  // elements: three tiles of float32 fill half of the first cache
constexpr int64_t kGrain = 32768;
constexpr int64_t kUnlocked = 8192;

int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

// A Python number as float32 has it; false: leave it to the caller.
bool number(PyObject* p, float* out) {
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

bool plain(PyArrayObject* a, PyArrayObject* lead) {
  return PyArray_TYPE(a) == PyArray_TYPE(lead) && PyArray_ISCARRAY_RO(a) &&
         PyArray_SAMESHAPE(a, lead);
}

constexpr uint16_t kSign = 0x8000;  // of both formats

// What changes the sign alone does so in 16 bits: `keep` of them stay, `flip` are turned.
struct SignChange {
  uint16_t keep, flip;
};

const SignChange* sign_change(PyObject* ufunc) {
  static constexpr SignChange absolute{kSign - 1, 0}, negative{0xFFFF, kSign};
  const char* name = reinterpret_cast<PyUFuncObject*>(ufunc)->name;
  if (!strcmp(name, "absolute")) return &absolute;
  return strcmp(name, "negative") ? nullptr : &negative;
}

// The number of a kernel that needs no tiles; -1: there is none. relu is bounded by the number 0 on its
// right; a square is a product of two that are one.
int pair_of(const PyUFuncObject* u) {
  static const char* const names[] = {"add",  "subtract", "multiply", "divide",
                                      "relu", "maximum",  "minimum",  "copysign"};
  if (u->nin == 1 && !strcmp(u->name, "square")) return kTimes;
  for (int i = 0; i < kHalfPairs; ++i) {
    if (!strcmp(u->name, names[i]) && u->nin == (i == kNoLess ? 1 : 2)) return i;
  }
  return -1;
}

int single_of(const PyUFuncObject* u) {
  static const char* const names[] = {"sqrt", "reciprocal", "", "floor", "ceil", "trunc", "rint", "frac"};
  for (int i = kHalfRoot; i < kHalfUnaries; ++i) {
    if (!strcmp(u->name, names[i - kHalfRoot]) && u->nin == 1) return i;
  }
  return -1;
}

// A ufunc of one or two inputs, its result fresh or in place.
PyObject* elementwise_halves(PyObject* ufunc, PyObject* const* args, Py_ssize_t n) {
  int result;
  const Loop* l = loop_of_floats(ufunc, &result);
  if (!l || l->whole || l->nin > 2 || (n != l->nin && n != l->nin + 1)) return nullptr;
  PyArrayObject* lead = nullptr;
  for (int i = 0; i < l->nin && !lead; ++i) lead = is_half_array(args[i]) ? as_array(args[i]) : nullptr;
  if (!lead) return nullptr;
  const int type = PyArray_TYPE(lead);
  const uint16_t* in[2] = {};
  float numbers[2] = {};
  for (int i = 0; i < l->nin; ++i) {
    if (!PyArray_CheckExact(args[i])) {
      if (!number(args[i], &numbers[i])) return nullptr;
    } else if (plain(as_array(args[i]), lead)) {
      in[i] = data<uint16_t>(as_array(args[i]));
    } else {
      return nullptr;
    }
  }
  const bool rounds = result == NPY_FLOAT;
  const int64_t size = PyArray_SIZE(lead);
  Ref out;
  if (n > l->nin && args[l->nin] != Py_None) {
    PyObject* o = args[l->nin];
    if (!rounds || !PyArray_CheckExact(o) || !plain(as_array(o), lead) || !PyArray_ISWRITEABLE(as_array(o)))
      return nullptr;
    for (int i = 0; i < l->nin; ++i) {  // a tile is read before it is written
      const int64_t away = in[i] ? data<uint16_t>(as_array(o)) - in[i] : size;
      if (away && away < size && away > -size) return nullptr;
    }
    out = Ref(Py_NewRef(o));
  } else {
    out = Ref(fresh(PyArray_NDIM(lead), PyArray_DIMS(lead), rounds ? type : result));
    if (!out) return nullptr;
  }
  Unlocked unlocked(size > kUnlocked);
  if (const SignChange* change = l->nin == 1 && in[0] ? sign_change(ufunc) : nullptr) {
    ranges(size, 4 * kGrain, [&](int64_t at, int64_t stop) {
      kernels_of_halves().change_bits(in[0] + at, data<uint16_t>(out) + at, stop - at, change->keep, change->flip);
    });
    return out.release();
  }
  const auto* u = reinterpret_cast<PyUFuncObject*>(ufunc);
  if (const int which = rounds ? single_of(u) : -1; which >= 0 && in[0]) {
    const auto run = kernels_of_halves().arithmetic[type != NPY_HALF].unary[which];
    const float none[3] = {};
    ranges(size, 2 * kGrain, [&](int64_t at, int64_t stop) {
      run(in[0] + at, data<uint16_t>(out) + at, stop - at, none);
    });
    return out.release();
  }
  if (const int which = rounds ? pair_of(u) : -1; which >= 0) {
    if (which == kTimes && l->nin == 1) in[1] = in[0];
    const auto run = kernels_of_halves().arithmetic[type != NPY_HALF].binary[which];
    ranges(size, 2 * kGrain, [&](int64_t at, int64_t stop) {
      run(in[0] ? in[0] + at : nullptr, in[1] ? in[1] + at : nullptr, numbers, data<uint16_t>(out) + at, stop - at);
    });
    return out.release();
  }
  const auto widen = kernels_of_halves().widen[type != NPY_HALF];
  const auto narrow = kernels_of_halves().narrow[type != NPY_HALF];
  ranges(size, kGrain, [&](int64_t at, int64_t stop) {
    float tiles[3][kTile];
    for (; at < stop; at += kTile) {
      const npy_intp count = least(kTile, stop - at);
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

// out[o] = the sum of x[o, :]: several short rows to a tile, long rows in pieces.
void sum_rows(const uint16_t* x, float* out, int64_t outer, int64_t m, int format) {
  const auto sum_of = kernels_of_halves().arithmetic[format].sum;
  constexpr int64_t kShort = 128;
  if (m < kShort) {
    const int64_t together = kTile / m;
    ranges(outer, (kGrain + m - 1) / m, [&](int64_t o, int64_t stop) {
      float tile[kTile];
      for (; o < stop; o += together) {
        const int64_t rows = least(together, stop - o);
        kernels_of_halves().widen[format](x + o * m, tile, rows * m);
        kernels<float>().sum_rows(tile, out + o, rows, m);
      }
    });
    return;
  }
  const int64_t pieces = (m + 2 * kGrain - 1) / (2 * kGrain), each = (m + pieces - 1) / pieces;
  std::vector<double> parts(static_cast<size_t>(outer * pieces));
  ranges(outer * pieces, 1 + kGrain / each, [&](int64_t i, int64_t stop) {
    for (; i < stop; ++i) {
      const int64_t start = i % pieces * each;
      parts[static_cast<size_t>(i)] = sum_of(x + i / pieces * m + start, least(each, m - start));
    }
  });
  for (int64_t o = 0; o < outer; ++o) {
    double total = 0;
    for (int64_t i = 0; i < pieces; ++i) total += parts[static_cast<size_t>(o * pieces + i)];
    out[o] = static_cast<float>(total);
  }
}

// parts[o, piece, c] = sums of `chain` rows of x[o, :, c].
void sum_columns(const uint16_t* x, float* parts, int64_t outer, int64_t m, int64_t inner,
                 int64_t chain, int format) {
  const int64_t width = least(inner, kHalfColumns);
  const int64_t strips = (inner + width - 1) / width, pieces = (m + chain - 1) / chain;
  ranges(outer * pieces * strips, 1 + kGrain / (chain * width), [&](int64_t i, int64_t stop) {
    for (; i < stop; ++i) {
      const int64_t c = i % strips * width, piece = i / strips % pieces, o = i / strips / pieces;
      const int64_t n = least(width, inner - c), end = least((piece + 1) * chain, m);
      float* to = parts + (o * pieces + piece) * inner + c;
      for (int64_t k = 0; k < n; ++k) to[k] = 0;
      kernels_of_halves().arithmetic[format].sum_columns(x + (o * m + piece * chain) * inner + c, to,
                                                         end - piece * chain, n, inner);
    }
  });
}

// sum(x, dim=None, keepdim=False)
PyObject* sum_halves(PyObject* const* args, Py_ssize_t n) {
  if (n < 1 || n > 3 || !is_half_array(args[0]) || !PyArray_SIZE(as_array(args[0]))) return nullptr;
  PyArrayObject* x = as_array(args[0]);
  const int keep = n > 2 ? PyObject_IsTrue(args[2]) : 0, type = PyArray_TYPE(x);
  Reduced r;
  if (keep < 0 || !reduced_argument("sum", x, n > 1 ? args[1] : Py_None, keep, &r, Stretched::Once)) return nullptr;
  const int64_t chain = least(r.m, 512), pieces = r.inner == 1 ? 1 : (r.m + chain - 1) / chain;
  const npy_intp dims[3] = {r.outer, pieces, r.inner};
  Ref wide(fresh(3, dims, NPY_FLOAT));
  Ref out(wide ? fresh(r.nd, r.dims, type) : nullptr);
  if (!out) return nullptr;
  const int format = type != NPY_HALF;
  {
    Unlocked unlocked(r.outer * r.m * r.inner > kUnlocked);
    if (r.inner == 1) {
      sum_rows(data<uint16_t>(r.x), data<float>(wide), r.outer, r.m, format);
    } else {
      sum_columns(data<uint16_t>(r.x), data<float>(wide), r.outer, r.m, r.inner, chain, format);
    }
  }
  if (pieces > 1) {
    Ref middle(PyLong_FromLong(1));
    PyObject* given[2] = {wide.get(), middle.get()};
    wide = Ref(middle ? sum(nullptr, given, 2) : nullptr);
    if (!wide) return nullptr;
  }
  r.multiply(data<float>(wide), r.outer * r.inner);
  kernels_of_halves().narrow[format](data<float>(wide), data<uint16_t>(out), r.outer * r.inner);
  return r.put_back(std::move(out));
}

}  // namespace

namespace {

// Does the function take 16-bit floats itself? Where it does not after all, it answers None.
bool takes_halves(PyObject* kernel) {
  using Function = PyObject* (*)(PyObject*, PyObject* const*, Py_ssize_t);
  static constexpr Function functions[] = {leaky_relu, hardtanh,  hardsigmoid, hardswish, hardshrink,
                                           softshrink, threshold, clamp};
  if (!PyCFunction_CheckExact(kernel)) return false;
  const auto called = reinterpret_cast<void (*)()>(PyCFunction_GET_FUNCTION(kernel));
  if (called == reinterpret_cast<void (*)()>(rsqrt)) return true;
  for (const Function each : functions) {
    if (called == reinterpret_cast<void (*)()>(each)) return true;
  }
  return false;
}

}  // namespace

PyObject* run_direct(PyObject* kernel, PyObject* const* args, Py_ssize_t n) {
  if (takes_halves(kernel)) {
    PyObject* out = PyObject_Vectorcall(kernel, args, static_cast<size_t>(n), nullptr);
    if (out != Py_None) return out;
    Py_DECREF(out);
    return nullptr;
  }
  if (PyObject_TypeCheck(kernel, &PyUFunc_Type)) return elementwise_halves(kernel, args, n);
  if (PyCFunction_CheckExact(kernel) &&
      PyCFunction_GET_FUNCTION(kernel) == reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(sum)))
    return sum_halves(args, n);
  return nullptr;
}

}  // namespace shmtensor
