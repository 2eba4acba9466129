// Sums of arrays (outer, n, inner) along n, times a factor.
//
// inner = 1, n up to 1,024   one warp a row
// inner = 1, more            blockIdx.y is a chunk of the row
// inner > 1                  blocks of (x, y) threads for x neighbouring columns, whose rows the y share: loads are coalesced
//
// Chunks are added up by a second launch, which reads acc_t. So what is read is scalar_t or acc_t, and so is what is written:
// the kernels' suffixes say which. The order of additions depends on the shape only.

__device__ __forceinline__ void put(scalar_t* out, acc_t v) { *out = to_scalar(v); }
#ifdef SCALAR_FLOAT16
__device__ __forceinline__ acc_t to_acc(acc_t v) { return v; }
__device__ __forceinline__ void put(acc_t* out, acc_t v) { *out = v; }
#endif

template <class T, int P>
struct __align__(sizeof(T) * P) some_t {
  T at[P];
};

// The sum of the thread's share of n elements: packs of P, of which four are under way at once.
template <int P, class T>
__device__ __forceinline__ acc_t sum_of_thread(const T* from, index_t n, index_t first, index_t step) {
  constexpr int UNROLL = 4;
  const some_t<T, P>* packs = reinterpret_cast<const some_t<T, P>*>(from);
  acc_t sums[UNROLL] = {};
  const index_t stop = n / P;
  index_t i = first;
  for (; i + (UNROLL - 1) * step < stop; i += UNROLL * step) {
    some_t<T, P> pack[UNROLL];
#pragma unroll
    for (int k = 0; k < UNROLL; k++) pack[k] = packs[i + k * step];
#pragma unroll
    for (int k = 0; k < UNROLL; k++)
#pragma unroll
      for (int j = 0; j < P; j++) sums[k] += to_acc(pack[k].at[j]);
  }
  for (; i < stop; i += step) {
    const some_t<T, P> pack = packs[i];
#pragma unroll
    for (int j = 0; j < P; j++) sums[0] += to_acc(pack.at[j]);
  }
  for (index_t j = stop * P + first; j < n; j += step) sums[1] += to_acc(from[j]);
  return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

// packed: the rows begin at multiples of 16 bytes.
template <class T, class U>
__device__ __forceinline__ void rows_by_warp(const T* x, U* out, index_t rows, index_t n, acc_t factor, int packed) {
  constexpr int P = 16 / sizeof(T);
  for (index_t r = Warp::row(); r < rows; r += Warp::rows()) {
    const T* from = x + r * n;
    const acc_t sum = packed ? sum_of_thread<P>(from, n, Warp::first(), Warp::step())
                             : sum_of_thread<1>(from, n, Warp::first(), Warp::step());
    const acc_t all = warp_reduce<Sum>(sum);
    if (Warp::first() == 0) put(out + r, all * factor);
  }
}

// Chunk i of a row begins at its element i * size; out: (rows, chunks).
template <class T, class U>
__device__ __forceinline__ void rows_by_block(const T* x, U* out, index_t rows, index_t n, index_t size, acc_t factor,
                                              int packed, acc_t* part) {
  constexpr int P = 16 / sizeof(T);
  const index_t start = blockIdx.y * size, length = start + size < n ? size : n - start;
  for (index_t r = blockIdx.x; r < rows; r += gridDim.x) {
    const T* from = x + r * n + start;
    const acc_t sum = packed ? sum_of_thread<P>(from, length, threadIdx.x, blockDim.x)
                             : sum_of_thread<1>(from, length, threadIdx.x, blockDim.x);
    const acc_t all = block_reduce<Sum>(sum, part);
    if (threadIdx.x == 0) put(out + r * gridDim.y + blockIdx.y, all * factor);
  }
}

// blockIdx.x: a group of columns, blockIdx.y: a chunk of n, blockIdx.z: an outer index; out: (outer, chunks, inner).
template <class T, class U>
__device__ __forceinline__ void columns_by_block(const T* x, U* out, index_t outer, index_t n, index_t inner, index_t size,
                                                 acc_t factor, acc_t* part) {
  constexpr int UNROLL = 4;
  const index_t column = static_cast<index_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  const index_t start = blockIdx.y * size, stop = start + size < n ? start + size : n;
  const unsigned at = threadIdx.y * blockDim.x + threadIdx.x;
  for (index_t o = blockIdx.z; o < outer; o += gridDim.z) {
    acc_t sums[UNROLL] = {};
    if (column < inner) {
      const T* from = x + o * n * inner + column;
      index_t i = start + threadIdx.y;
      for (; i + (UNROLL - 1) * blockDim.y < stop; i += UNROLL * blockDim.y) {
        T v[UNROLL];
#pragma unroll
        for (int k = 0; k < UNROLL; k++) v[k] = from[(i + k * blockDim.y) * inner];
#pragma unroll
        for (int k = 0; k < UNROLL; k++) sums[k] += to_acc(v[k]);
      }
      for (; i < stop; i += blockDim.y) sums[0] += to_acc(from[i * inner]);
    }
    part[at] = (sums[0] + sums[1]) + (sums[2] + sums[3]);
    __syncthreads();
    for (unsigned half = blockDim.y / 2; half > 0; half /= 2) {  // blockDim.y is a power of two
      if (threadIdx.y < half) part[at] += part[at + half * blockDim.x];
      __syncthreads();
    }
    if (threadIdx.y == 0 && column < inner) put(out + (o * gridDim.y + blockIdx.y) * inner + column, part[at] * factor);
  }
}

extern "C" __global__ __launch_bounds__(256) void sum_warp(
    const scalar_t* __restrict__ x, scalar_t* __restrict__ out, index_t rows, index_t n, acc_t factor, int packed) {
  rows_by_warp(x, out, rows, n, factor, packed);
}
extern "C" __global__ __launch_bounds__(1024) void sum_block(
    const scalar_t* __restrict__ x, scalar_t* __restrict__ out, index_t rows, index_t n, index_t size, acc_t factor, int packed) {
  __shared__ acc_t part[32];
  rows_by_block(x, out, rows, n, size, factor, packed, part);
}
extern "C" __global__ __launch_bounds__(1024) void sum_columns(
    const scalar_t* __restrict__ x, scalar_t* __restrict__ out, index_t outer, index_t n, index_t inner, index_t size, acc_t factor) {
  __shared__ acc_t part[1024];
  columns_by_block(x, out, outer, n, inner, size, factor, part);
}

extern "C" __global__ __launch_bounds__(256) void sum_warp_to_acc(
    const scalar_t* __restrict__ x, acc_t* __restrict__ out, index_t rows, index_t n, acc_t factor, int packed) {
  rows_by_warp(x, out, rows, n, factor, packed);
}
extern "C" __global__ __launch_bounds__(1024) void sum_block_to_acc(
    const scalar_t* __restrict__ x, acc_t* __restrict__ out, index_t rows, index_t n, index_t size, acc_t factor, int packed) {
  __shared__ acc_t part[32];
  rows_by_block(x, out, rows, n, size, factor, packed, part);
}
extern "C" __global__ __launch_bounds__(1024) void sum_columns_to_acc(
    const scalar_t* __restrict__ x, acc_t* __restrict__ out, index_t outer, index_t n, index_t inner, index_t size, acc_t factor) {
  __shared__ acc_t part[1024];
  columns_by_block(x, out, outer, n, inner, size, factor, part);
}

extern "C" __global__ __launch_bounds__(256) void sum_warp_of_acc(
    const acc_t* __restrict__ x, scalar_t* __restrict__ out, index_t rows, index_t n, acc_t factor, int packed) {
  rows_by_warp(x, out, rows, n, factor, packed);
}
extern "C" __global__ __launch_bounds__(1024) void sum_block_of_acc(
    const acc_t* __restrict__ x, scalar_t* __restrict__ out, index_t rows, index_t n, index_t size, acc_t factor, int packed) {
  __shared__ acc_t part[32];
  rows_by_block(x, out, rows, n, size, factor, packed, part);
}
extern "C" __global__ __launch_bounds__(1024) void sum_columns_of_acc(
    const acc_t* __restrict__ x, scalar_t* __restrict__ out, index_t outer, index_t n, index_t inner, index_t size, acc_t factor) {
  __shared__ acc_t part[1024];
  columns_by_block(x, out, outer, n, inner, size, factor, part);
}

extern "C" __global__ __launch_bounds__(256) void sum_warp_acc(
    const acc_t* __restrict__ x, acc_t* __restrict__ out, index_t rows, index_t n, acc_t factor, int packed) {
  rows_by_warp(x, out, rows, n, factor, packed);
}
extern "C" __global__ __launch_bounds__(1024) void sum_block_acc(
    const acc_t* __restrict__ x, acc_t* __restrict__ out, index_t rows, index_t n, index_t size, acc_t factor, int packed) {
  __shared__ acc_t part[32];
  rows_by_block(x, out, rows, n, size, factor, packed, part);
}
extern "C" __global__ __launch_bounds__(1024) void sum_columns_acc(
    const acc_t* __restrict__ x, acc_t* __restrict__ out, index_t outer, index_t n, index_t inner, index_t size, acc_t factor) {
  __shared__ acc_t part[1024];
  columns_by_block(x, out, outer, n, inner, size, factor, part);
}
