// Products of a sparse matrix and a dense one, (rows or m, width). Places that are not in the matrix are left out: indices
// are not checked, which would wait for the device.
//
// Blocks are (x, y) threads, x a power of 2: threadIdx.x counts the columns of a dense matrix, so that loads are coalesced.

__device__ __forceinline__ index_t first_row() { return static_cast<index_t>(blockIdx.y) * blockDim.y + threadIdx.y; }
__device__ __forceinline__ index_t row_step() { return static_cast<index_t>(gridDim.y) * blockDim.y; }
__device__ __forceinline__ index_t first_column() { return static_cast<index_t>(blockIdx.x) * blockDim.x + threadIdx.x; }
__device__ __forceinline__ index_t column_step() { return static_cast<index_t>(gridDim.x) * blockDim.x; }

// out[r] = the sum of values[e] * y[columns[e]] over the elements e of row r, which are starts[r] to starts[r + 1] - 1, in
// this order.
extern "C" __global__ void csr_matmul(const index_t* __restrict__ starts, const index_t* __restrict__ columns,
                                      const scalar_t* __restrict__ values, const scalar_t* __restrict__ y,
                                      scalar_t* __restrict__ out, index_t rows, index_t width, index_t m) {
  for (index_t r = first_row(); r < rows; r += row_step()) {
    const index_t start = starts[r], end = starts[r + 1];
    for (index_t k = first_column(); k < width; k += column_step()) {
      acc_t sum = 0;
      for (index_t e = start; e < end; e++) {
        const index_t c = columns[e];
        if (c < 0 || c >= m) continue;
        const acc_t v = to_acc(y[c * width + k]);
        sum += to_acc(values[e]) * v;
      }
      out[r * width + k] = to_scalar(sum);
    }
  }
}

// sums[at[e]] += values[e] * y[columns[e]] for n elements in any order, by atomics: the order of the terms is not fixed.
extern "C" __global__ void coo_matmul(const index_t* __restrict__ at, const index_t* __restrict__ columns,
                                      const scalar_t* __restrict__ values, const scalar_t* __restrict__ y,
                                      acc_t* __restrict__ sums, index_t n, index_t rows, index_t width, index_t m) {
  for (index_t e = first_row(); e < n; e += row_step()) {
    const index_t r = at[e], c = columns[e];
    if (r < 0 || r >= rows || c < 0 || c >= m) continue;
    const acc_t v = to_acc(values[e]);
    for (index_t k = first_column(); k < width; k += column_step())
      atomicAdd(sums + r * width + k, v * to_acc(y[c * width + k]));
  }
}

// out[e] = the scalar product of x[at[e]], of `rows` rows, and y[columns[e]], of m rows. A warp computes each; 0 where there
// is no such row.
extern "C" __global__ void sampled_matmul(const scalar_t* __restrict__ x, const scalar_t* __restrict__ y,
                                          const index_t* __restrict__ at, const index_t* __restrict__ columns,
                                          scalar_t* __restrict__ out, index_t n, index_t rows, index_t width, index_t m) {
  for (index_t e = Warp::row(); e < n; e += Warp::rows()) {
    const index_t r = at[e], c = columns[e];
    acc_t sum = 0;
    if (r >= 0 && r < rows && c >= 0 && c < m) {
      for (index_t k = Warp::first(); k < width; k += Warp::step()) sum += to_acc(x[r * width + k]) * to_acc(y[c * width + k]);
    }
    sum = warp_reduce<Sum>(sum);
    if (Warp::first() == 0) out[e] = to_scalar(sum);
  }
}
