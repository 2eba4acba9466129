// Random numbers from Philox words. An element depends on (seed, offset, its index) alone.
//
// The layout is that of ops/random/philox.py: float32 element e uses word e % 4 of counter offset + e / 4, float64
// element e uses words 2 (e % 2) and 2 (e % 2) + 1 of counter offset + e / 2. Kernels take 16 counters = 64 words at a
// time. This file is compiled for the generic level only: fused multiply-add would change last bits.
#include <cmath>
#include <cstring>
#include <utility>

#include "kernels/arguments.h"
#include "simd/kernel_table.h"
#include "threading/thread_pool.h"

namespace shmtensor {
namespace {

constexpr int64_t kBlocksPerSlice = 64;  // per slice
constexpr double kTwoPi = 6.28318530717958647692;

// Uniform in [0, 1), with as many bits as the dtype has.
void to_unit_interval(const uint32_t* w, float* u) {
  for (int i = 0; i < 64; ++i) u[i] = static_cast<float>(static_cast<int32_t>(w[i] >> 8)) * 0x1p-24f;
}

void to_unit_interval(const uint32_t* w, double* u) {
  for (int i = 0; i < 32; ++i) {
    const uint64_t bits = (static_cast<uint64_t>(w[2 * i + 1]) << 32 | w[2 * i]) >> 11;
    u[i] = static_cast<double>(static_cast<int64_t>(bits)) * 0x1p-53;
  }
}

template <class T>
constexpr int kPerBlock = 256 / static_cast<int>(sizeof(T));

template <class T>
struct Uniform {
  T low, high;
  void operator()(T* u) const {
    for (int i = 0; i < kPerBlock<T>; ++i) {
      T v = low + u[i] * (high - low);
      u[i] = v < high ? v : low;  // rounding may reach high, which is outside
    }
  }
};

// log(x) for x from 2^-24 to 1, with relative error 1e-7: the polynomial of Cephes' logf, without branches, so that the
// compiler vectorises it.
inline float logarithm(float x) {
  int32_t bits;
  memcpy(&bits, &x, 4);
  const int32_t exceeds_sqrt2 = (bits & 0x7fffff) > 0x3504f3;  // the mantissa is more than sqrt(2)
  const float e = static_cast<float>((bits >> 23) - 127 + exceeds_sqrt2);
  bits = (bits & 0x7fffff) | ((127 - exceeds_sqrt2) << 23);
  float m;
  memcpy(&m, &bits, 4);
  const float t = m - 1, z = t * t;
  float y = 7.0376836292e-2f * t - 1.1514610310e-1f;
  y = y * t + 1.1676998740e-1f;
  y = y * t - 1.2420140846e-1f;
  y = y * t + 1.4249322787e-1f;
  y = y * t - 1.6668057665e-1f;
  y = y * t + 2.0000714765e-1f;
  y = y * t - 2.4999993993e-1f;
  y = y * t + 3.3333331174e-1f;
  return t + (y * t * z - 2.12194440e-4f * e - 0.5f * z) + 0.693359375f * e;
}

// Cosine and sine of an angle of 0 to 1 turns: the quarter by rounding, the exact remainder by Cephes' polynomials.
inline void cosine_and_sine(float turns, float* cosine, float* sine) {
  const int32_t quarter = static_cast<int32_t>(turns * 4 + 0.5f);
  const float r = (turns * 4 - static_cast<float>(quarter)) * 1.57079632679f, z = r * r;
  const float s = ((-1.9515295891e-4f * z + 8.3321608736e-3f) * z - 1.6666654611e-1f) * z * r + r;
  const float c = ((2.443315711809948e-5f * z - 1.388731625493765e-3f) * z + 4.166664568298827e-2f) * z * z - 0.5f * z + 1;
  const float x = quarter & 1 ? s : c, y = quarter & 1 ? c : s;
  *cosine = (quarter + 1) & 2 ? -x : x;
  *sine = quarter & 2 ? -y : y;
}

// Box and Muller (1958): elements 2 k and 2 k + 1 are a pair.
template <class T>
struct Normal {
  T mean, std;
  void operator()(T* u) const {
    constexpr T min_uniform = sizeof(T) == 4 ? T(0x1p-24) : T(0x1p-53);  // the logarithm of 0 has no value
    if constexpr (sizeof(T) == 4) {
      float radius[32], x[32], y[32];
      for (int i = 0; i < 32; ++i) radius[i] = -2 * logarithm(u[2 * i] + min_uniform);
      for (int i = 0; i < 32; ++i) cosine_and_sine(u[2 * i + 1], x + i, y + i);
      for (int i = 0; i < 32; ++i) radius[i] = std * std::sqrt(radius[i] > 0 ? radius[i] : 0);
      for (int i = 0; i < 32; ++i) {
        u[2 * i] = mean + radius[i] * x[i];
        u[2 * i + 1] = mean + radius[i] * y[i];
      }
      return;
    }
    for (int i = 0; i < kPerBlock<T>; i += 2) {
      const T radius = std::sqrt(T(-2) * std::log(u[i] + min_uniform));
      const T angle = static_cast<T>(kTwoPi) * u[i + 1];
      u[i] = mean + std * (radius * std::cos(angle));
      u[i + 1] = mean + std * (radius * std::sin(angle));
    }
  }
};

template <class T, class Transform>
void fill_random(PyArrayObject* out, uint64_t seed, uint64_t offset, const Transform& transform) {
  T* to = data<T>(out);
  const int64_t n = PyArray_SIZE(out);
  const auto words = philox();
  Unlocked unlocked(n > 1024);
  ranges((n + kPerBlock<T> - 1) / kPerBlock<T>, kBlocksPerSlice, [&](int64_t start, int64_t stop) {
    for (int64_t b = start; b < stop; ++b) {
      uint32_t w[64];
      T u[kPerBlock<T>];
      words(w, 1, seed, offset + 16 * static_cast<uint64_t>(b));
      to_unit_interval(w, u);
      transform(u);
      const int64_t at = b * kPerBlock<T>, m = n - at < kPerBlock<T> ? n - at : kPerBlock<T>;
      memcpy(to + at, u, static_cast<size_t>(m) * sizeof(T));
    }
  });
}

template <template <class> class Transform>
PyObject* random_into(const char* where, PyObject* const* args, Py_ssize_t n) {
  if (!takes(where, n, 5)) return nullptr;
  PyArrayObject* out = array_argument(where, "out", args[0]);
  if (!out) return nullptr;
  const uint64_t seed = PyLong_AsUnsignedLongLongMask(args[1]);
  if (PyErr_Occurred()) return nullptr;
  const uint64_t offset = PyLong_AsUnsignedLongLongMask(args[2]);
  if (PyErr_Occurred()) return nullptr;
  const double a = PyFloat_AsDouble(args[3]), b = PyErr_Occurred() ? 0 : PyFloat_AsDouble(args[4]);
  if (PyErr_Occurred()) return nullptr;
  const int type = PyArray_TYPE(out);
  if (type != NPY_FLOAT && type != NPY_DOUBLE && type != NPY_HALF) {
    return raise("TypeError", "%s: dtype is not floating: %s", where, dtype_text(out).c_str());
  }
  if (!PyArray_ISWRITEABLE(out)) {
    return raise("RuntimeError", "%s: the memory cannot be written: shape %s, it came read-only; write to a clone()", where,
                 shape_text(out).c_str());
  }
  const bool in_place = PyArray_ISCARRAY(out) && type != NPY_HALF;
  Ref target;
  if (in_place) {
    Py_INCREF(out);
    target = Ref(out);
  } else {
    target = Ref(new_array(PyArray_NDIM(out), PyArray_DIMS(out), type == NPY_DOUBLE ? NPY_DOUBLE : NPY_FLOAT));
    if (!target) return nullptr;
  }
  if (type == NPY_DOUBLE) {
    fill_random<double>(target.array(), seed, offset, Transform<double>{a, b});
  } else {
    fill_random<float>(target.array(), seed, offset, Transform<float>{static_cast<float>(a), static_cast<float>(b)});
  }
  if (!in_place) {
    if (type == NPY_HALF) {  // CopyInto does only safe casts
      target = Ref(PyArray_CastToType(target.array(), PyArray_DescrFromType(NPY_HALF), 0));
    }
    if (!target || PyArray_CopyInto(out, target.array()) < 0) return nullptr;
  }
  Py_INCREF(out);
  return reinterpret_cast<PyObject*>(out);
}

// out[e] = from_bits(word e), 16 counters at a time; pairs of words if F::kWide.
template <class T, class F>
void for_words(T* out, int64_t n, uint64_t seed, uint64_t offset, const F& from_bits) {
  constexpr int64_t kPerBlock64 = sizeof(T) == 8 && F::kWide ? 32 : 64;
  const auto words = philox();
  ranges((n + kPerBlock64 - 1) / kPerBlock64, kBlocksPerSlice, [&](int64_t start, int64_t stop) {
    for (int64_t b = start; b < stop; ++b) {
      uint32_t w[64];
      words(w, 1, seed, offset + 16 * static_cast<uint64_t>(b));
      const int64_t at = b * kPerBlock64, m = n - at < kPerBlock64 ? n - at : kPerBlock64;
      for (int64_t i = 0; i < m; ++i) {
        uint64_t bits = w[i];
        if (F::kWide) bits = static_cast<uint64_t>(w[2 * i + 1]) << 32 | w[2 * i];
        out[at + i] = from_bits(bits);
      }
    }
  });
}

struct NarrowRange {
  static constexpr bool kWide = false;
  uint64_t low, span;
  uint64_t operator()(uint64_t bits) const { return low + static_cast<uint32_t>(bits) % static_cast<uint32_t>(span); }
};
struct WideRange {
  static constexpr bool kWide = true;
  uint64_t low, span;  // span 0: all 2^64
  uint64_t operator()(uint64_t bits) const { return low + (span ? bits % span : bits); }
};
struct WordBits {
  static constexpr bool kWide = false;
  uint32_t operator()(uint64_t bits) const { return static_cast<uint32_t>(bits); }
};
struct LongWordBits {
  static constexpr bool kWide = true;
  uint64_t operator()(uint64_t bits) const { return bits; }
};

// Scales a word of [0, 2^32), or [0, 2^64), to [0, k).
uint64_t scale_to(uint32_t word, uint64_t k) { return word * k >> 32; }
uint64_t scale_to(uint64_t word, uint64_t k) {
  return static_cast<uint64_t>((static_cast<unsigned __int128>(word) * k) >> 64);
}

// Fisher-Yates shuffle (Durstenfeld: Algorithm 235, 1964): element i is swapped with one from i on.
template <class I, class W, class F>
void shuffle(I* permutation, W* words, int64_t n, uint64_t seed, uint64_t offset, const F& from_bits) {
  for (int64_t i = 0; i < n; ++i) permutation[i] = static_cast<I>(i);
  for_words(words, n, seed, offset, from_bits);
  for (int64_t i = 0; i < n; ++i) {
    const int64_t j = i + static_cast<int64_t>(scale_to(words[i], static_cast<uint64_t>(n - i)));
    const I t = permutation[i];
    permutation[i] = permutation[j];
    permutation[j] = t;
  }
}

uint64_t uint64_argument(PyObject* p) { return PyLong_AsUnsignedLongLongMask(p); }

}  // namespace

// randint(n, seed, offset, low, span): word modulo span, plus low; spans of at least 2^32 take two words an element,
// and span 0 is 2^64
PyObject* randint(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (!takes("randint", n, 5)) return nullptr;
  const npy_intp size = PyLong_AsSsize_t(args[0]);
  if (size == -1 && PyErr_Occurred()) return nullptr;
  uint64_t parameters[4];
  for (int i = 0; i < 4; ++i) {
    parameters[i] = uint64_argument(args[i + 1]);
    if (PyErr_Occurred()) return nullptr;
  }
  Ref out(new_array(1, &size, NPY_INT64));
  if (!out) return nullptr;
  auto* to = data<uint64_t>(out);
  Unlocked unlocked(size > 1024);
  if (parameters[3] && parameters[3] < (uint64_t{1} << 32)) {
    for_words(to, size, parameters[0], parameters[1], NarrowRange{parameters[2], parameters[3]});
  } else {
    for_words(to, size, parameters[0], parameters[1], WideRange{parameters[2], parameters[3]});
  }
  return out.release();
}

// randperm(n, seed, offset): up to 2^20 elements use one word each, more use two
PyObject* randperm(PyObject*, PyObject* const* args, Py_ssize_t count) {
  if (!takes("randperm", count, 3)) return nullptr;
  const npy_intp n = PyLong_AsSsize_t(args[0]);
  if (n == -1 && PyErr_Occurred()) return nullptr;
  const uint64_t seed = uint64_argument(args[1]), offset = uint64_argument(args[2]);
  if (PyErr_Occurred()) return nullptr;
  Ref out(new_array(1, &n, NPY_INT64));
  if (!out) return nullptr;
  auto* to = data<int64_t>(out);
  const bool small = n <= (1 << 20);
  void* scratch = PyMem_RawMalloc(static_cast<size_t>(n + 1) * 8);
  if (!scratch) return PyErr_NoMemory();
  {
    Unlocked unlocked(n > 1024);
    if (small) {  // half as wide: more of it fits in the cache
      auto* permutation = static_cast<uint32_t*>(scratch);
      shuffle(permutation, permutation + n, n, seed, offset, WordBits());
      for (int64_t i = 0; i < n; ++i) to[i] = permutation[i];
    } else {
      shuffle(to, static_cast<uint64_t*>(scratch), n, seed, offset, LongWordBits());
    }
  }
  PyMem_RawFree(scratch);
  return out.release();
}

// splitmix64(out, start): the words of G. L. Steele, D. Lea, C. H. Flood, "Fast splittable pseudorandom number
// generators" (2014), from a state of `start`. The loader seeds with them (dataloaders/loader/seeding.py).
PyObject* splitmix64(PyObject*, PyObject* const* args, Py_ssize_t count) {
  if (!takes("splitmix64", count, 2)) return nullptr;
  PyArrayObject* out = array_argument("splitmix64", "out", args[0]);
  if (!out) return nullptr;
  if (PyArray_TYPE(out) != NPY_UINT64 || !PyArray_ISCARRAY(out))
    return raise("ValueError", "splitmix64: out is not a contiguous, writable array of uint64");
  uint64_t state = uint64_argument(args[1]);
  if (PyErr_Occurred()) return nullptr;
  auto* to = reinterpret_cast<uint64_t*>(PyArray_BYTES(out));
  const npy_intp n = PyArray_SIZE(out);
  for (npy_intp i = 0; i < n; ++i) {
    uint64_t z = state += 0x9E3779B97F4A7C15;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9;
    z = (z ^ z >> 27) * 0x94D049BB133111EB;
    to[i] = z ^ z >> 31;
  }
  Py_RETURN_NONE;
}

PyObject* uniform_(PyObject*, PyObject* const* args, Py_ssize_t n) { return random_into<Uniform>("uniform_", args, n); }
PyObject* normal_(PyObject*, PyObject* const* args, Py_ssize_t n) { return random_into<Normal>("normal_", args, n); }

}  // namespace shmtensor
