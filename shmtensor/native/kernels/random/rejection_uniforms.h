// Uniform numbers for rejection. Element e has a stream of its own: attempt a takes the Philox counter (offset + e, a),
// which is two uniform numbers u and v of 53 bits. So a number depends on (seed, offset, e) alone, on any number of
// threads, and a rejection that flips changes that element alone.
#pragma once

#include <algorithm>

#include "kernels/arguments.h"
#include "simd/kernel_table.h"
#include "threading/thread_pool.h"

namespace shmtensor {

constexpr int64_t kBatch = 16;           // elements whose first attempts' words are computed at once
constexpr int64_t kBatchesPerSlice = 16;
constexpr int64_t kUnlock = 128;         // elements from which on a kernel releases the GIL

// The words of the Philox 4x32-10 counter (counter, attempt): ops/random/philox.py.
inline void attempt_words(uint32_t* w, uint64_t seed, uint64_t counter, uint32_t attempt) {
  uint32_t c0 = static_cast<uint32_t>(counter), c1 = static_cast<uint32_t>(counter >> 32), c2 = attempt, c3 = 0;
  uint32_t k0 = static_cast<uint32_t>(seed), k1 = static_cast<uint32_t>(seed >> 32);
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = uint64_t{0xD2511F53} * c0, p1 = uint64_t{0xCD9E8D57} * c2;
    c0 = static_cast<uint32_t>(p1 >> 32) ^ c1 ^ k0;
    c1 = static_cast<uint32_t>(p1);
    c2 = static_cast<uint32_t>(p0 >> 32) ^ c3 ^ k1;
    c3 = static_cast<uint32_t>(p0);
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  w[0] = c0;
  w[1] = c1;
  w[2] = c2;
  w[3] = c3;
}

// The uniform numbers of one element; those of the first attempt are there from the start.
class Attempts {
 public:
  Attempts(const uint32_t* w, uint64_t seed, uint64_t counter) : seed_(seed), counter_(counter) { set(w); }
  void next() {
    uint32_t w[4];
    attempt_words(w, seed_, counter_, ++attempt_);
    set(w);
  }
  double u = 0, v = 0;  // in [0, 1)

 private:
  void set(const uint32_t* w) {
    u = static_cast<double>((static_cast<uint64_t>(w[1]) << 32 | w[0]) >> 11) * 0x1p-53;
    v = static_cast<double>((static_cast<uint64_t>(w[3]) << 32 | w[2]) >> 11) * 0x1p-53;
  }
  uint64_t seed_, counter_;
  uint32_t attempt_ = 0;
};

// out[e] = draw(e, the attempts of element e).
template <class T, class F>
void draw_each(T* out, int64_t n, uint64_t seed, uint64_t offset, const F& draw) {
  const auto words = philox();
  ranges((n + kBatch - 1) / kBatch, kBatchesPerSlice, [&](int64_t batch, int64_t stop) {
    for (; batch < stop; ++batch) {
      uint32_t w[4 * kBatch];
      const int64_t first = batch * kBatch, m = std::min(kBatch, n - first);
      const uint64_t counter = offset + static_cast<uint64_t>(first);
      words(w, 1, seed, counter);
      for (int64_t i = 0; i < m; ++i)
        out[first + i] = static_cast<T>(draw(first + i, Attempts(w + 4 * i, seed, counter + static_cast<uint64_t>(i))));
    }
  });
}

// An array of float32 or float64, in C order; empty with an exception for others.
inline Ref floating_operand(const char* where, const char* name, PyObject* p) {
  PyArrayObject* x = array_argument(where, name, p);
  if (!x) return Ref();
  if (PyArray_TYPE(x) != NPY_FLOAT && PyArray_TYPE(x) != NPY_DOUBLE) {
    raise("TypeError", "%s: %s must be float32 or float64: %s", where, name, dtype_text(x).c_str());
    return Ref();
  }
  return contiguous(x);
}

// Seed and offset; false with an exception.
inline bool stream_arguments(PyObject* const* args, uint64_t* seed, uint64_t* offset) {
  *seed = PyLong_AsUnsignedLongLongMask(args[0]);
  if (PyErr_Occurred()) return false;
  *offset = PyLong_AsUnsignedLongLongMask(args[1]);
  return !PyErr_Occurred();
}

}  // namespace shmtensor
