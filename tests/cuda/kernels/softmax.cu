// Softmax of rows, one block a row: the row is read once into shared memory, the largest element
// and the sum are reduced over warps by shuffles and over the block through shared memory.
//
// Compiled by NVRTC with cuda_device.h ahead, and by a host compiler with cuda_host.h.

typedef unsigned long long index_t;

static __device__ __forceinline__ float warp_max(float v) {
  for (int by = 16; by > 0; by >>= 1) v = fmaxf(v, __shfl_xor_sync(0xffffffffu, v, by));
  return v;
}
static __device__ __forceinline__ float warp_sum(float v) {
  for (int by = 16; by > 0; by >>= 1) v += __shfl_xor_sync(0xffffffffu, v, by);
  return v;
}

// The same number in every thread. blockDim.x is a multiple of 32 and at most 1,024.
static __device__ float block_max(float v, float* part) {
  const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
  v = warp_max(v);
  if (lane == 0) part[warp] = v;
  __syncthreads();
  v = warp_max(lane < warps ? part[lane] : -INFINITY);
  __syncthreads();  // part may be written again
  return v;
}
static __device__ float block_sum(float v, float* part) {
  const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
  v = warp_sum(v);
  if (lane == 0) part[warp] = v;
  __syncthreads();
  v = warp_sum(lane < warps ? part[lane] : 0.0f);
  __syncthreads();
  return v;
}

extern "C" __global__ __launch_bounds__(1024) void softmax_rows(
    const float* __restrict__ x, float* __restrict__ y, index_t rows, unsigned columns) {
  DYNAMIC_SHARED(float, row);  // columns floats
  __shared__ float part[32];
  for (index_t r = blockIdx.x; r < rows; r += gridDim.x) {
    const float* from = x + r * columns;
    float* to = y + r * columns;
    float largest = -INFINITY;
    for (unsigned i = threadIdx.x; i < columns; i += blockDim.x) {
      row[i] = from[i];
      largest = fmaxf(largest, row[i]);
    }
    largest = block_max(largest, part);
    float sum = 0.0f;
    for (unsigned i = threadIdx.x; i < columns; i += blockDim.x) {
      row[i] = expf(row[i] - largest);
      sum += row[i];
    }
    sum = block_sum(sum, part);
    for (unsigned i = threadIdx.x; i < columns; i += blockDim.x) to[i] = row[i] / sum;
  }
}
