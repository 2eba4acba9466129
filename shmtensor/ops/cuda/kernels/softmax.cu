// Softmax and its logarithm along a dimension of an array (outer, n, inner), and their gradients.
//
// inner = 1, n up to 1,024   one warp a row: the row is read once, into registers, of which no more are used than it needs
// inner = 1, more            one block a row: the row is read twice, or once if it fits into shared memory
// inner > 1                  32 neighbouring columns a block, whose threads share the rows: loads are coalesced

// The largest element and the sum of exponentials, of the elements so far.
struct Running {
  acc_t largest, sum;
};

__device__ __forceinline__ void include(Running& r, acc_t v) {
  if (v > r.largest) {
    r.sum = r.sum * exp(r.largest - v) + (v == INFINITY ? acc_t(NAN) : acc_t(1));
    r.largest = v;
  } else {
    r.sum += v == -INFINITY ? acc_t(0) : exp(v - r.largest);
  }
}

// The sum of `sum` exponentials relative to `largest`, relative to `all`. The case of -inf - -inf is a row that has no
// other element: its result is NaN, as on the CPU.
__device__ __forceinline__ acc_t rescale(const Running& r, acc_t all) {
  return r.sum == 0 ? acc_t(0) : r.sum * exp(r.largest - all);
}

// Softmax: exp(v - largest) / sum; its logarithm: v - largest - log(sum).
struct Normalizer {
  acc_t largest, factor;
  bool log;
  __device__ __forceinline__ scalar_t operator()(acc_t v) const {
    return to_scalar(log ? v - largest - factor : exp(v - largest) * factor);
  }
};
__device__ __forceinline__ Normalizer normalizer(acc_t largest, acc_t sum, int is_log) {
  if (is_log) return Normalizer{largest, largest == -INFINITY ? acc_t(NAN) : acc_t(log(sum)), true};
  return Normalizer{largest, largest == -INFINITY ? acc_t(NAN) : 1 / sum, false};
}

// ---- one warp a row: P and K as in RowOfWarp

template <int P, int K>
__device__ __forceinline__ void forward_warp(const scalar_t* x, scalar_t* y, index_t rows, int columns, int is_log) {
  for (index_t r = Warp::row(); r < rows; r += Warp::rows()) {
    RowOfWarp<P, K> row;
    row.load(x + r * columns, columns, -INFINITY);
    acc_t largest = -INFINITY, sum = 0;
#pragma unroll
    for (int i = 0; i < P * K; i++) largest = Max::of(largest, row.at[i]);
    largest = warp_reduce<Max>(largest);
    // What does not exist adds exp(-inf) = 0, but in a row of -inf NaN, which is its result.
#pragma unroll
    for (int i = 0; i < P * K; i++) {
      const acc_t e = exp(row.at[i] - largest);
      sum += e;
      if (!is_log) row.at[i] = e;
    }
    sum = warp_reduce<Sum>(sum);
    const acc_t of_all = is_log ? log(sum) : 1 / sum;
    row.store(y + r * columns, columns,
              [&](int i) { return is_log ? row.at[i] - largest - of_all : row.at[i] * of_all; });
  }
}

// The gradient for g of a softmax with the result y: y (g - sum(g y)); of its logarithm: g - exp(y) sum(g).
__device__ __forceinline__ acc_t term(acc_t g, acc_t y, int is_log) { return is_log ? g : g * y; }
__device__ __forceinline__ acc_t gradient_acc(acc_t g, acc_t y, acc_t sum, int is_log) {
  return is_log ? g - exp(y) * sum : y * (g - sum);
}
__device__ __forceinline__ scalar_t gradient(acc_t g, acc_t y, acc_t sum, int is_log) {
  return to_scalar(gradient_acc(g, y, sum, is_log));
}

template <int P, int K>
__device__ __forceinline__ void backward_warp(const scalar_t* g, const scalar_t* y, scalar_t* out, index_t rows,
                                              int columns, int is_log) {
  for (index_t r = Warp::row(); r < rows; r += Warp::rows()) {
    RowOfWarp<P, K> row_g, row_y;
    row_g.load(g + r * columns, columns, 0);
    row_y.load(y + r * columns, columns, 0);
    acc_t sum = 0;
#pragma unroll
    for (int i = 0; i < P * K; i++) sum += term(row_g.at[i], row_y.at[i], is_log);
    sum = warp_reduce<Sum>(sum);
    row_g.store(out + r * columns, columns, [&](int i) { return gradient_acc(row_g.at[i], row_y.at[i], sum, is_log); });
  }
}

template <int K>
__device__ __forceinline__ void forward_packs(const scalar_t* x, scalar_t* y, index_t rows, int columns, int is_log) {
  if constexpr (K * PACK <= 32) forward_warp<PACK, K>(x, y, rows, columns, is_log);
}
template <int K>
__device__ __forceinline__ void backward_packs(const scalar_t* g, const scalar_t* y, scalar_t* out, index_t rows,
                                               int columns, int is_log) {
  if constexpr (K * PACK <= 32) backward_warp<PACK, K>(g, y, out, rows, columns, is_log);
}

#define FORWARD const scalar_t *__restrict__ x, scalar_t *__restrict__ y, index_t rows, int columns, int is_log
#define BACKWARD \
  const scalar_t *__restrict__ g, const scalar_t *__restrict__ y, scalar_t *__restrict__ out, index_t rows, int columns, int is_log

extern "C" __global__ __launch_bounds__(256) void softmax_warp_1(FORWARD) {
  forward_warp<1, 1>(x, y, rows, columns, is_log);
}
extern "C" __global__ __launch_bounds__(256) void softmax_warp_2(FORWARD) {
  forward_warp<1, 2>(x, y, rows, columns, is_log);
}
extern "C" __global__ __launch_bounds__(256) void softmax_warp_4(FORWARD) {
  forward_warp<1, 4>(x, y, rows, columns, is_log);
}
extern "C" __global__ __launch_bounds__(256) void softmax_warp_8(FORWARD) {
  forward_warp<1, 8>(x, y, rows, columns, is_log);
}
extern "C" __global__ __launch_bounds__(256) void softmax_warp_16(FORWARD) {
  forward_warp<1, 16>(x, y, rows, columns, is_log);
}
extern "C" __global__ __launch_bounds__(256) void softmax_warp_32(FORWARD) {
  forward_warp<1, 32>(x, y, rows, columns, is_log);
}
extern "C" __global__ __launch_bounds__(256) void softmax_warp_packs_1(FORWARD) {
  forward_packs<1>(x, y, rows, columns, is_log);
}
extern "C" __global__ __launch_bounds__(256) void softmax_warp_packs_2(FORWARD) {
  forward_packs<2>(x, y, rows, columns, is_log);
}
extern "C" __global__ __launch_bounds__(256) void softmax_warp_packs_4(FORWARD) {
  forward_packs<4>(x, y, rows, columns, is_log);
}
extern "C" __global__ __launch_bounds__(256) void softmax_warp_packs_8(FORWARD) {
  forward_packs<8>(x, y, rows, columns, is_log);
}
extern "C" __global__ __launch_bounds__(256) void softmax_warp_packs_16(FORWARD) {
  forward_packs<16>(x, y, rows, columns, is_log);
}

extern "C" __global__ __launch_bounds__(256) void softmax_backward_warp_1(BACKWARD) {
  backward_warp<1, 1>(g, y, out, rows, columns, is_log);
}
extern "C" __global__ __launch_bounds__(256) void softmax_backward_warp_2(BACKWARD) {
  backward_warp<1, 2>(g, y, out, rows, columns, is_log);
}
extern "C" __global__ __launch_bounds__(256) void softmax_backward_warp_4(BACKWARD) {
  backward_warp<1, 4>(g, y, out, rows, columns, is_log);
}
extern "C" __global__ __launch_bounds__(256) void softmax_backward_warp_8(BACKWARD) {
  backward_warp<1, 8>(g, y, out, rows, columns, is_log);
}
extern "C" __global__ __launch_bounds__(256) void softmax_backward_warp_16(BACKWARD) {
  backward_warp<1, 16>(g, y, out, rows, columns, is_log);
}
extern "C" __global__ __launch_bounds__(256) void softmax_backward_warp_32(BACKWARD) {
  backward_warp<1, 32>(g, y, out, rows, columns, is_log);
}
extern "C" __global__ __launch_bounds__(256) void softmax_backward_warp_packs_1(BACKWARD) {
  backward_packs<1>(g, y, out, rows, columns, is_log);
}
extern "C" __global__ __launch_bounds__(256) void softmax_backward_warp_packs_2(BACKWARD) {
  backward_packs<2>(g, y, out, rows, columns, is_log);
}
extern "C" __global__ __launch_bounds__(256) void softmax_backward_warp_packs_4(BACKWARD) {
  backward_packs<4>(g, y, out, rows, columns, is_log);
}
extern "C" __global__ __launch_bounds__(256) void softmax_backward_warp_packs_8(BACKWARD) {
  backward_packs<8>(g, y, out, rows, columns, is_log);
}
extern "C" __global__ __launch_bounds__(256) void softmax_backward_warp_packs_16(BACKWARD) {
  backward_packs<16>(g, y, out, rows, columns, is_log);
}

// ---- one block a row

// cached: the row is kept in shared memory, of columns acc_t.
extern "C" __global__ __launch_bounds__(1024) void softmax_block(
    const scalar_t* __restrict__ x, scalar_t* __restrict__ y, index_t rows, index_t columns, int is_log, int cached) {
  DYNAMIC_SHARED(acc_t, row);
  __shared__ acc_t part[32];
  for (index_t r = blockIdx.x; r < rows; r += gridDim.x) {
    const scalar_t* from = x + r * columns;
    scalar_t* to = y + r * columns;
    Running running{-INFINITY, 0};
    for (index_t c = threadIdx.x; c < columns; c += blockDim.x) {
      const acc_t v = to_acc(from[c]);
      if (cached) row[c] = v;
      include(running, v);
    }
    const acc_t largest = block_reduce<Max>(running.largest, part);
    const acc_t sum = block_reduce<Sum>(rescale(running, largest), part);
    const Normalizer normalize = normalizer(largest, sum, is_log);
    for (index_t c = threadIdx.x; c < columns; c += blockDim.x)
      to[c] = normalize(cached ? row[c] : to_acc(from[c]));
  }
}

extern "C" __global__ __launch_bounds__(1024) void softmax_backward_block(
    const scalar_t* __restrict__ g, const scalar_t* __restrict__ y, scalar_t* __restrict__ out, index_t rows,
    index_t columns, int is_log) {
  __shared__ acc_t part[32];
  for (index_t r = blockIdx.x; r < rows; r += gridDim.x) {
    const index_t start = r * columns;
    acc_t sum = 0;
    for (index_t c = threadIdx.x; c < columns; c += blockDim.x)
      sum += term(to_acc(g[start + c]), to_acc(y[start + c]), is_log);
    sum = block_reduce<Sum>(sum, part);
    for (index_t c = threadIdx.x; c < columns; c += blockDim.x)
      out[start + c] = gradient(to_acc(g[start + c]), to_acc(y[start + c]), sum, is_log);
  }
}

// ---- columns: blocks of (32, up to 32) threads; blockIdx.x counts groups of 32 columns, blockIdx.y the outer index

// Each thread's number, reduced over threadIdx.y; `part` has 32 numbers for each threadIdx.y.
template <class Op>
__device__ acc_t column_reduce(acc_t v, acc_t* part) {
  part[threadIdx.y * 32 + threadIdx.x] = v;
  __syncthreads();
  for (unsigned i = 0; i < blockDim.y; i++) v = i == 0 ? part[threadIdx.x] : Op::of(v, part[i * 32 + threadIdx.x]);
  __syncthreads();  // part may be written again
  return v;
}

extern "C" __global__ __launch_bounds__(1024) void softmax_columns(
    const scalar_t* __restrict__ x, scalar_t* __restrict__ y, index_t outer, index_t n, index_t inner, int is_log) {
  __shared__ acc_t part[1024];
  const index_t column = static_cast<index_t>(blockIdx.x) * 32 + threadIdx.x;
  const bool exists = column < inner;
  for (index_t o = blockIdx.y; o < outer; o += gridDim.y) {
    const index_t start = o * n * inner + column;
    Running running{-INFINITY, 0};
    if (exists)
      for (index_t i = threadIdx.y; i < n; i += blockDim.y) include(running, to_acc(x[start + i * inner]));
    const acc_t largest = column_reduce<Max>(running.largest, part);
    const acc_t sum = column_reduce<Sum>(rescale(running, largest), part);
    const Normalizer normalize = normalizer(largest, sum, is_log);
    if (exists)
      for (index_t i = threadIdx.y; i < n; i += blockDim.y)
        y[start + i * inner] = normalize(to_acc(x[start + i * inner]));
  }
}

extern "C" __global__ __launch_bounds__(1024) void softmax_backward_columns(
    const scalar_t* __restrict__ g, const scalar_t* __restrict__ y, scalar_t* __restrict__ out, index_t outer, index_t n,
    index_t inner, int is_log) {
  __shared__ acc_t part[1024];
  const index_t column = static_cast<index_t>(blockIdx.x) * 32 + threadIdx.x;
  const bool exists = column < inner;
  for (index_t o = blockIdx.y; o < outer; o += gridDim.y) {
    const index_t start = o * n * inner + column;
    acc_t sum = 0;
    if (exists)
      for (index_t i = threadIdx.y; i < n; i += blockDim.y)
        sum += term(to_acc(g[start + i * inner]), to_acc(y[start + i * inner]), is_log);
    sum = column_reduce<Sum>(sum, part);
    if (exists)
      for (index_t i = threadIdx.y; i < n; i += blockDim.y) {
        const index_t at = start + i * inner;
        out[at] = gradient(to_acc(g[at]), to_acc(y[at]), sum, is_log);
      }
  }
}
