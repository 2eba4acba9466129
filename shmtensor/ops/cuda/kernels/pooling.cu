// Pooling: a thread has one element of the result. Images have three inner dimensions, of which the first may have the
// size 1. `int` in place of index_t, where all positions fit, because divisions of 64 bits are slow.

// Sizes of the image, number, size, stride, padding and dilation of the windows.
#define WINDOWS                                                                                                            \
  I n0, I n1, I n2, I f0, I f1, I f2, I k0, I k1, I k2, I s0, I s1, I s2, I p0, I p1, I p2, I d0, I d1, I d2
#define FIRST_ELEMENT (static_cast<I>(blockIdx.x) * static_cast<I>(blockDim.x) + static_cast<I>(threadIdx.x))
#define STEP (static_cast<I>(gridDim.x) * static_cast<I>(blockDim.x))
// The indices i0, i1, i2 of element `rest` of images of a size; `rest` is then the image's number.
#define SPLIT(rest, n0, n1, n2, i0, i1, i2) \
  const I i2 = (rest) % (n2);               \
  (rest) /= (n2);                           \
  const I i1 = (rest) % (n1);               \
  (rest) /= (n1);                           \
  const I i0 = (rest) % (n0);               \
  (rest) /= (n0)

template <class I>
__device__ __forceinline__ void max_pool(const scalar_t* __restrict__ x, scalar_t* __restrict__ out,
                                         index_t* __restrict__ places, index_t total, WINDOWS) {
  for (I i = FIRST_ELEMENT; i < total; i += STEP) {
    I rest = i;
    SPLIT(rest, f0, f1, f2, b0, b1, b2);
    const scalar_t* image = x + rest * n0 * n1 * n2;
    scalar_t best = to_scalar(-INFINITY);  // of a window that lies in the padding alone
    I place = -1;
    for (I o0 = 0; o0 < k0; ++o0) {
      const I a0 = b0 * s0 + o0 * d0 - p0;
      if (a0 < 0 || a0 >= n0) continue;
      for (I o1 = 0; o1 < k1; ++o1) {
        const I a1 = b1 * s1 + o1 * d1 - p1;
        if (a1 < 0 || a1 >= n1) continue;
        for (I o2 = 0; o2 < k2; ++o2) {
          const I a2 = b2 * s2 + o2 * d2 - p2;
          if (a2 < 0 || a2 >= n2) continue;
          const I at = (a0 * n1 + a1) * n2 + a2;
          const acc_t v = to_acc(image[at]);
          if (place < 0 || v > to_acc(best) || v != v) {  // the first one, a larger one, or NaN
            best = image[at];
            place = at;
          }
        }
      }
    }
    out[i] = best;
    places[i] = place;
  }
}

// The windows that may have an element at `a` are those from FIRST to LAST.
#define FIRST_WINDOW(a, k, s, p, d) ((a) + (p) < ((k) - 1) * (d) + 1 ? I(0) : ((a) + (p) - ((k) - 1) * (d) - 1) / (s) + 1)
#define LAST_WINDOW(a, f, s, p) (((a) + (p)) / (s) < (f) - 1 ? ((a) + (p)) / (s) : (f) - 1)

// An element's gradient is the sum of those of the windows that chose it: no atomics, and always in the same order.
template <class I>
__device__ __forceinline__ void max_pool_backward(const scalar_t* __restrict__ g, const index_t* __restrict__ places,
                                                  scalar_t* __restrict__ out, index_t total, WINDOWS) {
  for (I i = FIRST_ELEMENT; i < total; i += STEP) {
    I rest = i;
    SPLIT(rest, n0, n1, n2, a0, a1, a2);
    const index_t at = (a0 * n1 + a1) * n2 + a2;
    const I e0 = LAST_WINDOW(a0, f0, s0, p0), e1 = LAST_WINDOW(a1, f1, s1, p1), e2 = LAST_WINDOW(a2, f2, s2, p2);
    acc_t sum = 0;
    for (I b0 = FIRST_WINDOW(a0, k0, s0, p0, d0); b0 <= e0; ++b0)
      for (I b1 = FIRST_WINDOW(a1, k1, s1, p1, d1); b1 <= e1; ++b1)
        for (I b2 = FIRST_WINDOW(a2, k2, s2, p2, d2); b2 <= e2; ++b2) {
          const I window = ((rest * f0 + b0) * f1 + b1) * f2 + b2;
          if (places[window] == at) sum += to_acc(g[window]);
        }
    out[i] = to_scalar(sum);
  }
}

// What a window's sum is divided by: `divisor`, or, if that is 0, its number of elements, with those of the padding or without.
#define DIVISOR index_t divisor, int include_pad
template <class I>
__device__ __forceinline__ I window_length(I b, I n, I k, I s, I p, int include_pad) {
  const I start = b * s - p, end = start + k, limit = include_pad ? n + p : n;
  return (end < limit ? end : limit) - (include_pad || start > 0 ? start : I(0));
}
#define DIVISOR_OF(b0, b1, b2)                                                                                  \
  static_cast<acc_t>(divisor ? divisor                                                                          \
                             : static_cast<index_t>(window_length<I>(b0, n0, k0, s0, p0, include_pad)) *         \
                                   window_length<I>(b1, n1, k1, s1, p1, include_pad) *                           \
                                   window_length<I>(b2, n2, k2, s2, p2, include_pad))

template <class I>
__device__ __forceinline__ void sum_pool(const scalar_t* __restrict__ x, scalar_t* __restrict__ out, index_t total,
                                         WINDOWS, DIVISOR) {
  for (I i = FIRST_ELEMENT; i < total; i += STEP) {
    I rest = i;
    SPLIT(rest, f0, f1, f2, b0, b1, b2);
    const scalar_t* image = x + rest * n0 * n1 * n2;
    acc_t sum = 0;
    for (I o0 = 0; o0 < k0; ++o0) {
      const I a0 = b0 * s0 + o0 * d0 - p0;
      if (a0 < 0 || a0 >= n0) continue;
      for (I o1 = 0; o1 < k1; ++o1) {
        const I a1 = b1 * s1 + o1 * d1 - p1;
        if (a1 < 0 || a1 >= n1) continue;
        for (I o2 = 0; o2 < k2; ++o2) {
          const I a2 = b2 * s2 + o2 * d2 - p2;
          if (a2 >= 0 && a2 < n2) sum += to_acc(image[(a0 * n1 + a1) * n2 + a2]);
        }
      }
    }
    out[i] = to_scalar(sum / DIVISOR_OF(b0, b1, b2));
  }
}

template <class I>
__device__ __forceinline__ void sum_pool_backward(const scalar_t* __restrict__ g, scalar_t* __restrict__ out, index_t total,
                                                  WINDOWS, DIVISOR) {
  for (I i = FIRST_ELEMENT; i < total; i += STEP) {
    I rest = i;
    SPLIT(rest, n0, n1, n2, a0, a1, a2);
    const I e0 = LAST_WINDOW(a0, f0, s0, p0), e1 = LAST_WINDOW(a1, f1, s1, p1), e2 = LAST_WINDOW(a2, f2, s2, p2);
    acc_t sum = 0;
    for (I b0 = FIRST_WINDOW(a0, k0, s0, p0, d0); b0 <= e0; ++b0)
      for (I b1 = FIRST_WINDOW(a1, k1, s1, p1, d1); b1 <= e1; ++b1)
        for (I b2 = FIRST_WINDOW(a2, k2, s2, p2, d2); b2 <= e2; ++b2)
          sum += to_acc(g[((rest * f0 + b0) * f1 + b1) * f2 + b2]) / DIVISOR_OF(b0, b1, b2);
    out[i] = to_scalar(sum);
  }
}

#define VALUES n0, n1, n2, f0, f1, f2, k0, k1, k2, s0, s1, s2, p0, p1, p2, d0, d1, d2
#define NUMBERS                                                                                                            \
  index_t total, index_t n0, index_t n1, index_t n2, index_t f0, index_t f1, index_t f2, index_t k0, index_t k1, index_t k2, \
      index_t s0, index_t s1, index_t s2, index_t p0, index_t p1, index_t p2, index_t d0, index_t d1, index_t d2

extern "C" __global__ void max_pool_32(const scalar_t* __restrict__ x, scalar_t* __restrict__ out,
                                       index_t* __restrict__ places, NUMBERS) {
  max_pool<int>(x, out, places, total, VALUES);
}
extern "C" __global__ void max_pool_64(const scalar_t* __restrict__ x, scalar_t* __restrict__ out,
                                       index_t* __restrict__ places, NUMBERS) {
  max_pool<index_t>(x, out, places, total, VALUES);
}
extern "C" __global__ void max_pool_backward_32(const scalar_t* __restrict__ g, const index_t* __restrict__ places,
                                                scalar_t* __restrict__ out, NUMBERS) {
  max_pool_backward<int>(g, places, out, total, VALUES);
}
extern "C" __global__ void max_pool_backward_64(const scalar_t* __restrict__ g, const index_t* __restrict__ places,
                                                scalar_t* __restrict__ out, NUMBERS) {
  max_pool_backward<index_t>(g, places, out, total, VALUES);
}
extern "C" __global__ void sum_pool_32(const scalar_t* __restrict__ x, scalar_t* __restrict__ out, NUMBERS) {
  sum_pool<int>(x, out, total, VALUES, 1, 0);
}
extern "C" __global__ void sum_pool_64(const scalar_t* __restrict__ x, scalar_t* __restrict__ out, NUMBERS) {
  sum_pool<index_t>(x, out, total, VALUES, 1, 0);
}
extern "C" __global__ void sum_pool_backward_32(const scalar_t* __restrict__ g, scalar_t* __restrict__ out, NUMBERS) {
  sum_pool_backward<int>(g, out, total, VALUES, 1, 0);
}
extern "C" __global__ void sum_pool_backward_64(const scalar_t* __restrict__ g, scalar_t* __restrict__ out, NUMBERS) {
  sum_pool_backward<index_t>(g, out, total, VALUES, 1, 0);
}
extern "C" __global__ void avg_pool_32(const scalar_t* __restrict__ x, scalar_t* __restrict__ out, NUMBERS, DIVISOR) {
  sum_pool<int>(x, out, total, VALUES, divisor, include_pad);
}
extern "C" __global__ void avg_pool_64(const scalar_t* __restrict__ x, scalar_t* __restrict__ out, NUMBERS, DIVISOR) {
  sum_pool<index_t>(x, out, total, VALUES, divisor, include_pad);
}
extern "C" __global__ void avg_pool_backward_32(const scalar_t* __restrict__ g, scalar_t* __restrict__ out, NUMBERS, DIVISOR) {
  sum_pool_backward<int>(g, out, total, VALUES, divisor, include_pad);
}
extern "C" __global__ void avg_pool_backward_64(const scalar_t* __restrict__ g, scalar_t* __restrict__ out, NUMBERS, DIVISOR) {
  sum_pool_backward<index_t>(g, out, total, VALUES, divisor, include_pad);
}
