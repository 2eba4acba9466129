// What the kernels share. This text goes ahead of each source, after a line that defines SCALAR_FLOAT32, SCALAR_FLOAT64 or
// SCALAR_FLOAT16. NVRTC compiles it; so does a host compiler that has tests/cuda/kernels/cuda_host.h ahead.
#ifndef DYNAMIC_SHARED  // NVRTC: cuda_host.h defines the same for a host compiler
#define DYNAMIC_SHARED(type, name)                              \
  extern __shared__ __align__(16) unsigned char name##_bytes[]; \
  type* name = reinterpret_cast<type*>(name##_bytes)
#ifndef INFINITY
#define INFINITY __int_as_float(0x7f800000)
#endif
#ifndef NAN
#define NAN __int_as_float(0x7fffffff)
#endif
__device__ __forceinline__ float half_to_float(unsigned short bits) {
  float v;
  asm("cvt.f32.f16 %0, %1;" : "=f"(v) : "h"(bits));
  return v;
}
__device__ __forceinline__ unsigned short float_to_half(float v) {
  unsigned short bits;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(v));
  return bits;
}
#endif

typedef long long index_t;  // positions and sizes
typedef unsigned long long uint64;
typedef unsigned int uint32;

// ---- the elements: stored as scalar_t, computed in acc_t

#if defined(SCALAR_FLOAT16)
struct scalar_t {
  unsigned short bits;
};
typedef float acc_t;
__device__ __forceinline__ acc_t to_acc(scalar_t v) { return half_to_float(v.bits); }
__device__ __forceinline__ scalar_t to_scalar(acc_t v) { return scalar_t{float_to_half(v)}; }
#else
#if defined(SCALAR_FLOAT64)
typedef double scalar_t;
#else
typedef float scalar_t;
#endif
typedef scalar_t acc_t;
__device__ __forceinline__ acc_t to_acc(scalar_t v) { return v; }
__device__ __forceinline__ scalar_t to_scalar(acc_t v) { return v; }
#endif

// Elements that are loaded or stored at once.
template <int N>
struct __align__(sizeof(scalar_t) * N) pack_t {
  scalar_t at[N];
};
template <int N>
__device__ __forceinline__ bool is_aligned(const void* p) {
  return reinterpret_cast<uint64>(p) % (sizeof(scalar_t) * N) == 0;
}
// The elements of 16 bytes, which a thread loads at once where rows and pointers are aligned.
enum { PACK = 16 / sizeof(scalar_t) };

// ---- sums and maxima over the lanes of a warp, and over a block of whole warps: the same number in every thread

struct Sum {
  static __device__ __forceinline__ acc_t neutral() { return 0; }
  static __device__ __forceinline__ acc_t of(acc_t a, acc_t b) { return a + b; }
};
struct Max {
  static __device__ __forceinline__ acc_t neutral() { return -INFINITY; }
  static __device__ __forceinline__ acc_t of(acc_t a, acc_t b) { return a < b ? b : a; }
};

template <class Op>
__device__ __forceinline__ acc_t warp_reduce(acc_t v) {
  for (int by = 16; by > 0; by >>= 1) v = Op::of(v, __shfl_xor_sync(0xffffffffu, v, by));
  return v;
}

// `part` is shared memory for one number of each warp, 32 at most.
template <class Op>
__device__ acc_t block_reduce(acc_t v, acc_t* part) {
  const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
  v = warp_reduce<Op>(v);
  if (lane == 0) part[warp] = v;
  __syncthreads();
  v = warp_reduce<Op>(lane < warps ? part[lane] : Op::neutral());
  __syncthreads();  // part may be written again
  return v;
}

// The threads that share a row: a warp, for short rows, or a block.
struct Warp {
  static __device__ __forceinline__ index_t first() { return threadIdx.x % 32; }
  static __device__ __forceinline__ index_t step() { return 32; }
  static __device__ __forceinline__ index_t row() {
    return static_cast<index_t>(blockIdx.x) * (blockDim.x / 32) + threadIdx.x / 32;
  }
  static __device__ __forceinline__ index_t rows() { return static_cast<index_t>(gridDim.x) * (blockDim.x / 32); }
  template <class Op>
  static __device__ __forceinline__ acc_t reduce(acc_t v, acc_t*) {
    return warp_reduce<Op>(v);
  }
};
struct Block {
  static __device__ __forceinline__ index_t first() { return threadIdx.x; }
  static __device__ __forceinline__ index_t step() { return blockDim.x; }
  static __device__ __forceinline__ index_t row() { return blockIdx.x; }
  static __device__ __forceinline__ index_t rows() { return gridDim.x; }
  template <class Op>
  static __device__ __forceinline__ acc_t reduce(acc_t v, acc_t* part) {
    return block_reduce<Op>(v, part);
  }
};

// A row in the registers of a warp. Each lane has K packs of P neighbouring elements, 32 packs apart; `columns` is a multiple
// of P. P is 1, or PACK if the rows are aligned.
template <int P, int K>
struct RowOfWarp {
  acc_t at[P * K];
  static __device__ __forceinline__ int column(int k) { return (static_cast<int>(threadIdx.x) % 32 + 32 * k) * P; }
  // Elements that do not exist are `beyond`.
  __device__ __forceinline__ void load(const scalar_t* from, int columns, acc_t beyond) {
#pragma unroll
    for (int k = 0; k < K; k++) {
      pack_t<P> pack;
      const bool exists = column(k) < columns;
      if (exists) pack = *reinterpret_cast<const pack_t<P>*>(from + column(k));
#pragma unroll
      for (int i = 0; i < P; i++) at[k * P + i] = exists ? to_acc(pack.at[i]) : beyond;
    }
  }
  // f(element): its number among the lane's.
  template <class F>
  __device__ __forceinline__ void store(scalar_t* to, int columns, F f) const {
#pragma unroll
    for (int k = 0; k < K; k++) {
      pack_t<P> pack;
#pragma unroll
      for (int i = 0; i < P; i++) pack.at[i] = to_scalar(f(k * P + i));
      if (column(k) < columns) *reinterpret_cast<pack_t<P>*>(to + column(k)) = pack;
    }
  }
};
