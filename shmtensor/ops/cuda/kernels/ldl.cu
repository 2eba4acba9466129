// LDL factors of Hermitian matrices with the pivots of Bunch and Kaufman (1977): LAPACK's hetf2 for the lower triangle, which
// cuSOLVER lacks. A block factors one matrix, column-major, of complex numbers whose parts are scalar_t.

struct complex_t {
  acc_t re, im;
};
__device__ __forceinline__ complex_t conjugate(complex_t v) { return complex_t{v.re, -v.im}; }
__device__ __forceinline__ complex_t product(complex_t a, complex_t b) {
  return complex_t{a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}
__device__ __forceinline__ complex_t scaled(complex_t v, acc_t factor) { return complex_t{v.re * factor, v.im * factor}; }
__device__ __forceinline__ complex_t difference(complex_t a, complex_t b) { return complex_t{a.re - b.re, a.im - b.im}; }
__device__ __forceinline__ acc_t size_of(complex_t v) { return fabs(v.re) + fabs(v.im); }
__device__ __forceinline__ void exchange(complex_t* a, complex_t* b) {
  const complex_t v = *a;
  *a = *b;
  *b = v;
}

// A size and where it is; of equal sizes the first is the larger.
struct Largest {
  acc_t size;
  index_t at;
  __device__ __forceinline__ void take(acc_t other, index_t where) {
    if (other > size || (other == size && where < at)) {
      size = other;
      at = where;
    }
  }
};
__device__ __forceinline__ Largest warp_largest(Largest v) {
  for (int by = 16; by > 0; by >>= 1) {
    const acc_t size = __shfl_xor_sync(0xffffffffu, v.size, by);
    const index_t at = __shfl_xor_sync(0xffffffffu, v.at, by);
    v.take(size, at);
  }
  return v;
}
// The same in every thread. `part` is shared memory for one of each warp.
__device__ Largest block_largest(Largest v, Largest* part) {
  const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
  v = warp_largest(v);
  if (lane == 0) part[warp] = v;
  __syncthreads();
  v = lane < warps ? part[lane] : Largest{0, 0};
  v = warp_largest(v);
  __syncthreads();  // part may be written again
  return v;
}

#define A(i, j) a[(j) * n + (i)]
#define FOR_EACH(i, start) for (index_t i = (start) + threadIdx.x; i < n; i += blockDim.x)

// work: 2 n numbers of each matrix. info: the first pivot that is 0, counted from 1, or 0.
extern "C" __global__ void hermitian_ldl(complex_t* __restrict__ matrices, int* __restrict__ pivots, int* __restrict__ info,
                                         complex_t* __restrict__ work, index_t n) {
  __shared__ Largest part[32];
  complex_t* a = matrices + blockIdx.x * n * n;
  complex_t* w = work + blockIdx.x * 2 * n;
  int* pivot = pivots + blockIdx.x * n;
  const acc_t alpha = static_cast<acc_t>(0.6403882032022076);  // (1 + sqrt(17)) / 8
  const bool leads = threadIdx.x == 0;
  int first_zero = 0;
  for (index_t k = 0; k < n;) {
    const acc_t diagonal = fabs(A(k, k).re);
    Largest column{0, k};
    FOR_EACH(i, k + 1) column.take(size_of(A(i, k)), i);
    column = block_largest(column, part);
    if (!(fmax(diagonal, column.size) > 0) || isnan(diagonal)) {
      if (!first_zero) first_zero = static_cast<int>(k + 1);
      if (leads) {
        A(k, k).im = 0;
        pivot[k] = static_cast<int>(k + 1);
      }
      k += 1;
      continue;
    }
    index_t other = k, step = 1;  // the row and column that are exchanged; the rows of the diagonal block
    if (diagonal < alpha * column.size) {
      const index_t at = column.at;
      Largest row{0, 0};
      FOR_EACH(j, k) {
        if (j != at) row.take(size_of(j < at ? A(at, j) : A(j, at)), j);
      }
      row = block_largest(row, part);
      if (!(diagonal >= alpha * column.size * (column.size / row.size))) {
        other = at;
        if (!(fabs(A(at, at).re) >= alpha * row.size)) step = 2;
      }
    }
    __syncthreads();  // all have read what is exchanged
    const index_t from = k + step - 1;
    if (other != from) {
      FOR_EACH(i, other + 1) exchange(&A(i, from), &A(i, other));
      FOR_EACH(j, from + 1) {
        if (j >= other) break;
        const complex_t v = conjugate(A(j, from));
        A(j, from) = conjugate(A(other, j));
        A(other, j) = v;
      }
      if (leads) {
        A(other, from).im = -A(other, from).im;
        const acc_t v = A(from, from).re;
        A(from, from) = complex_t{A(other, other).re, 0};
        A(other, other) = complex_t{v, 0};
        if (step == 2) {
          A(k, k).im = 0;
          exchange(&A(k + 1, k), &A(other, k));
        }
      }
    } else if (leads) {
      A(k, k).im = 0;
      if (step == 2) A(k + 1, k + 1).im = 0;
    }
    __syncthreads();
    const index_t next = k + step, left = n - next;
    if (step == 1) {
      const acc_t r = 1 / A(k, k).re;
      for (index_t e = threadIdx.x; e < left * left; e += blockDim.x) {
        const index_t j = next + e / left, i = next + e % left;
        if (i < j) continue;
        A(i, j) = difference(A(i, j), scaled(product(A(i, k), conjugate(A(j, k))), r));
        if (i == j) A(i, i).im = 0;
      }
      __syncthreads();
      FOR_EACH(i, next) A(i, k) = scaled(A(i, k), r);
    } else if (left > 0) {
      const complex_t low = A(k + 1, k);
      const acc_t d = hypot(low.re, low.im), d11 = A(k + 1, k + 1).re / d, d22 = A(k, k).re / d;
      const acc_t t = 1 / (d11 * d22 - 1), factor = t / d;
      const complex_t d21 = scaled(low, 1 / d);
      FOR_EACH(j, next) {
        w[j] = scaled(difference(scaled(A(j, k), d11), product(d21, A(j, k + 1))), factor);
        w[n + j] = scaled(difference(scaled(A(j, k + 1), d22), product(conjugate(d21), A(j, k))), factor);
      }
      __syncthreads();
      for (index_t e = threadIdx.x; e < left * left; e += blockDim.x) {
        const index_t j = next + e / left, i = next + e % left;
        if (i < j) continue;
        const complex_t v = difference(A(i, j), product(A(i, k), conjugate(w[j])));
        A(i, j) = difference(v, product(A(i, k + 1), conjugate(w[n + j])));
        if (i == j) A(i, i).im = 0;
      }
      __syncthreads();
      FOR_EACH(j, next) {
        A(j, k) = w[j];
        A(j, k + 1) = w[n + j];
      }
    }
    if (leads) {
      const int number = static_cast<int>(other + 1);
      pivot[k] = step == 1 ? number : -number;
      if (step == 2) pivot[k + 1] = -number;
    }
    __syncthreads();
    k = next;
  }
  if (leads) info[blockIdx.x] = first_zero;
}
