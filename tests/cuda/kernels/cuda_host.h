// CUDA's words for a host compiler: a kernel's source, unchanged, as functions that run its blocks one after the other.
// Threads are fibers in random order, with barriers and warps of 32 as on a device. One warp runs as far ahead of the
// others as barriers let it. A barrier that not all unfinished threads reach ends the process with a message, where a
// device would hang. Nothing here is fast.
//
//   STANDIN_SEED  the order of threads; set_thread_order() sets another one
//
// A kernel's source sees this in place of what NVRTC has built in. With CUDA_HOST_WITH_HEADERS, NVIDIA's vector and half
// types come from their own headers, for sources that include those (CuPy's).
#pragma once
#include <ucontext.h>

#include <algorithm>
#include <cfloat>
#include <climits>
#include <cmath>
#include <math.h>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <tuple>
#include <utility>
#include <vector>

#ifdef CUDA_HOST_WITH_HEADERS  // NVIDIA's vector types, for sources that include their headers
#include <cuda_fp16.h>
#include <vector_functions.h>
#include <vector_types.h>
#undef __global__
#undef __device__
#undef __host__
#undef __constant__
#undef __shared__
#undef __forceinline__
#undef __noinline__
#undef __launch_bounds__
#undef __align__
#endif
#define __global__
#define __device__
#define __host__
#define __constant__ static
#define __shared__ static
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define __launch_bounds__(...)
#define __align__(n) alignas(n)
#define DYNAMIC_SHARED(type, name) type* name = reinterpret_cast<type*>(cuda_host::block.shared.data())

#ifndef CUDA_HOST_WITH_HEADERS
struct uint3 {
  unsigned x, y, z;
};
struct dim3 {
  unsigned x, y, z;
  constexpr dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
};
struct float2 {
  float x, y;
};
struct alignas(16) float4 {
  float x, y, z, w;
};
struct int2 {
  int x, y;
};
struct alignas(16) uint4 {
  unsigned x, y, z, w;
};
#endif

static uint3 threadIdx, blockIdx;
static dim3 blockDim, gridDim;
static constexpr int warpSize = 32;

namespace cuda_host {

struct Fiber {
  ucontext_t context;
  std::unique_ptr<char[]> stack;
  uint3 at{};
  unsigned number = 0;
  enum State { kNew, kRuns, kAtBarrier, kAtWarp, kFinished } state = kNew;
  unsigned mask = 0;  // the lanes this one waits for
  int line = 0;
  unsigned long long slot = 0;  // what it shows its warp
  bool predicate = false;
};

struct Block {
  std::vector<Fiber> fibers;
  std::vector<unsigned char> shared;
  ucontext_t scheduler;
  Fiber* now = nullptr;
  void (*body)(void*) = nullptr;
  void* arguments = nullptr;
  std::mt19937 random{getenv("STANDIN_SEED") ? static_cast<unsigned>(atoi(getenv("STANDIN_SEED"))) : 1u};
};
static Block block;

[[noreturn]] inline void die(const char* what, int line) {
  fprintf(stderr, "cuda_host: %s (line %d, block %u, thread %u)\n", what, line, blockIdx.x,
          block.now ? block.now->number : 0);
  abort();
}

inline void yield(Fiber::State state, unsigned mask, int line) {
  Fiber* f = block.now;
  f->state = state;
  f->mask = mask;
  f->line = line;
  swapcontext(&f->context, &block.scheduler);
}
inline void barrier(int line) { yield(Fiber::kAtBarrier, 0, line); }
inline void warp(unsigned mask, int line) {
  Fiber* f = block.now;
  if (!(mask >> (f->number % 32) & 1)) die("a lane outside its own mask", line);
  yield(Fiber::kAtWarp, mask, line);
}
inline Fiber& lane(unsigned n) { return block.fibers[block.now->number / 32 * 32 + n]; }
inline bool exists(unsigned n) { return block.now->number / 32 * 32 + n < block.fibers.size(); }

template <class T>
T shuffle(unsigned mask, T value, int from, int width, int line) {
  static_assert(sizeof(T) <= 8, "shuffles move 4 or 8 bytes");
  Fiber* f = block.now;
  f->slot = 0;
  memcpy(&f->slot, &value, sizeof value);
  warp(mask, line);  // all have shown
  int mine = f->number % 32, segment = mine / width * width;
  int other = segment <= from && from < segment + width ? from : mine;
  if (!exists(other) || !(mask >> other & 1)) die("a shuffle from a lane that is not there", line);
  T result;
  memcpy(&result, &lane(other).slot, sizeof result);
  warp(mask, line);  // all have read
  return result;
}
inline unsigned ballot(unsigned mask, bool yes, int line) {
  block.now->predicate = yes;
  warp(mask, line);
  unsigned bits = 0;
  for (unsigned n = 0; n < 32; n++)
    if (mask >> n & 1 && exists(n) && lane(n).predicate) bits |= 1u << n;
  warp(mask, line);
  return bits;
}

inline void entry() {
  block.body(block.arguments);
  block.now->state = Fiber::kFinished;
  swapcontext(&block.now->context, &block.scheduler);
}

// One warp at a time, always the first in a random order that can move, so that it runs as far ahead
// of the others as barriers let it; the order is drawn anew at each barrier.
inline void run_block() {
  Block& b = block;
  const unsigned n = unsigned(b.fibers.size()), warps = (n + 31) / 32;
  std::vector<unsigned> order(warps);
  for (unsigned w = 0; w < warps; w++) order[w] = w;
  std::shuffle(order.begin(), order.end(), b.random);
  unsigned left = n;
  while (left) {
    bool moved = false;
    for (unsigned w : order) {
      const unsigned base = w * 32, lanes = std::min(32u, n - base);
      unsigned there = 0, mask = 0, first = b.random() % lanes;
      bool same = true;
      for (unsigned k = 0; k < lanes; k++) {
        Fiber& f = b.fibers[base + (first + k) % lanes];
        if (f.state == Fiber::kNew || f.state == Fiber::kRuns) {
          moved = true;
          b.now = &f;
          threadIdx = f.at;
          swapcontext(&b.scheduler, &f.context);
          if (f.state == Fiber::kFinished) left--;
        }
        if (f.state == Fiber::kAtWarp) {
          if (there && f.mask != mask) same = false;
          there |= 1u << (f.number % 32);
          mask = f.mask;
        }
      }
      const unsigned exist = lanes == 32 ? ~0u : (1u << lanes) - 1;
      if (there && same && !(mask & exist & ~there)) {
        moved = true;
        for (unsigned k = 0; k < lanes; k++)
          if (there >> k & 1) b.fibers[base + k].state = Fiber::kRuns;
      }
      if (moved) break;
    }
    if (moved) continue;
    unsigned waiting = 0;
    int line = 0;
    for (Fiber& f : b.fibers)
      if (f.state == Fiber::kAtBarrier) {
        if (line && f.line != line) die("threads of a block at different barriers", line);
        line = f.line;
        waiting++;
      }
    if (!left) break;
    // A barrier waits for the threads that have not returned (since sm_70).
    if (waiting != left) die("a barrier or a warp that not all threads reach", line);
    for (Fiber& f : b.fibers)
      if (f.state == Fiber::kAtBarrier) f.state = Fiber::kRuns;
    std::shuffle(order.begin(), order.end(), b.random);
  }
}

__noinline__ static void prepare(Fiber& f) {
  constexpr size_t kStack = 64 * 1024;
  if (!f.stack) f.stack.reset(new char[kStack]);
  getcontext(&f.context);
  f.context.uc_stack = {f.stack.get(), 0, kStack};
  f.context.uc_link = nullptr;
  makecontext(&f.context, entry, 0);
  f.state = Fiber::kNew;
}

inline void run(void (*body)(void*), void* arguments, const unsigned* g, const unsigned* t, unsigned shared, bool barriers) {
  Block& b = block;
  gridDim = dim3(g[0], g[1], g[2]);
  blockDim = dim3(t[0], t[1], t[2]);
  size_t n = size_t(t[0]) * t[1] * t[2];
  b.body = body;
  b.arguments = arguments;
  b.fibers.resize(n);
  for (blockIdx.z = 0; blockIdx.z < g[2]; blockIdx.z++)
    for (blockIdx.y = 0; blockIdx.y < g[1]; blockIdx.y++)
      for (blockIdx.x = 0; blockIdx.x < g[0]; blockIdx.x++) {
        b.shared.assign(shared, 0xFD);
        for (unsigned i = 0; i < n; i++) {
          Fiber& f = b.fibers[i];
          f.number = i;
          f.at = {i % t[0], i / t[0] % t[1], i / (t[0] * t[1])};
          if (!barriers) {
            b.now = &f;
            threadIdx = f.at;
            body(arguments);
            continue;
          }
          prepare(f);
        }
        if (barriers) run_block();
      }
  b.now = nullptr;
}

template <class F>
struct Call;
template <class... A>
struct Call<void (*)(A...)> {
  using Packed = std::tuple<std::decay_t<A>...>;
  template <size_t... I>
  static void* pack(void** p, std::index_sequence<I...>) {
    return new Packed(*reinterpret_cast<std::decay_t<A>*>(p[I])...);
  }
  static void* pack(void** p) { return pack(p, std::index_sequence_for<A...>()); }
};

}  // namespace cuda_host

// One per kernel, a function or an instance of a template: how a launch reaches it. pack_<symbol> copies the arguments,
// run_<symbol> runs the launch and frees the copy.
#define CUDA_HOST_KERNEL(symbol, barriers, ...)                                                                           \
  extern "C" void* pack_##symbol(void** parameters) { return cuda_host::Call<decltype(&__VA_ARGS__)>::pack(parameters); } \
  extern "C" void run_##symbol(void* arguments, const unsigned* grid, const unsigned* threads, unsigned shared) {         \
    using Packed = cuda_host::Call<decltype(&__VA_ARGS__)>::Packed;                                                       \
    auto body = [](void* packed) { std::apply(&__VA_ARGS__, *static_cast<Packed*>(packed)); };                            \
    cuda_host::run(body, arguments, grid, threads, shared, barriers);                                                     \
    delete static_cast<Packed*>(arguments);                                                                               \
  }

extern "C" inline __attribute__((used)) void set_thread_order(unsigned seed) { cuda_host::block.random.seed(seed); }

#define __syncthreads() cuda_host::barrier(__LINE__)
#define __syncwarp(...) cuda_host::warp(cuda_host::mask_or_all(__VA_ARGS__), __LINE__)
namespace cuda_host {
inline unsigned mask_or_all(unsigned mask = ~0u) { return mask; }
inline int self() { return static_cast<int>(block.now->number % 32); }
template <class T, class F>
T exchange(T* p, F f) {
  T old = *p;
  *p = f(old);
  return old;
}
template <class To, class From>
To bits(From from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  memcpy(&to, &from, sizeof to);
  return to;
}
}  // namespace cuda_host

// ---------------------------------------------------------------- warps

template <class T>
T __shfl_sync(unsigned mask, T v, int from, int width = 32) {
  return cuda_host::shuffle(mask, v, cuda_host::self() / width * width + from % width, width, 0);
}
template <class T>
T __shfl_down_sync(unsigned mask, T v, unsigned by, int width = 32) {
  return cuda_host::shuffle(mask, v, cuda_host::self() + static_cast<int>(by), width, 0);
}
template <class T>
T __shfl_up_sync(unsigned mask, T v, unsigned by, int width = 32) {
  return cuda_host::shuffle(mask, v, cuda_host::self() - static_cast<int>(by), width, 0);
}
template <class T>
T __shfl_xor_sync(unsigned mask, T v, int by, int width = 32) {
  return cuda_host::shuffle(mask, v, cuda_host::self() ^ by, width, 0);
}
inline unsigned __ballot_sync(unsigned mask, int predicate) { return cuda_host::ballot(mask, predicate, 0); }
inline int __any_sync(unsigned mask, int predicate) { return __ballot_sync(mask, predicate) != 0; }
inline int __all_sync(unsigned mask, int predicate) { return __ballot_sync(mask, !predicate) == 0; }
inline void __threadfence() {}
inline void __threadfence_block() {}

// ---------------------------------------------------------------- atomics: threads change at barriers only

template <class T>
T atomicAdd(T* p, T v) {
  return cuda_host::exchange(p, [v](T old) { return static_cast<T>(old + v); });
}
template <class T>
T atomicSub(T* p, T v) {
  return cuda_host::exchange(p, [v](T old) { return static_cast<T>(old - v); });
}
template <class T>
T atomicMax(T* p, T v) {
  return cuda_host::exchange(p, [v](T old) { return old < v ? v : old; });
}
template <class T>
T atomicMin(T* p, T v) {
  return cuda_host::exchange(p, [v](T old) { return v < old ? v : old; });
}
template <class T>
T atomicAnd(T* p, T v) {
  return cuda_host::exchange(p, [v](T old) { return static_cast<T>(old & v); });
}
template <class T>
T atomicOr(T* p, T v) {
  return cuda_host::exchange(p, [v](T old) { return static_cast<T>(old | v); });
}
template <class T>
T atomicXor(T* p, T v) {
  return cuda_host::exchange(p, [v](T old) { return static_cast<T>(old ^ v); });
}
template <class T>
T atomicExch(T* p, T v) {
  return cuda_host::exchange(p, [v](T) { return v; });
}
template <class T>
T atomicCAS(T* p, T expected, T v) {
  return cuda_host::exchange(p, [expected, v](T old) { return old == expected ? v : old; });
}

// ---------------------------------------------------------------- arithmetic

template <class T>
T __ldg(const T* p) {
  return *p;
}
template <class A, class B>
constexpr std::common_type_t<A, B> max(A a, B b) {
  return a < b ? b : a;
}
template <class A, class B>
constexpr std::common_type_t<A, B> min(A a, B b) {
  return b < a ? b : a;
}
inline double __longlong_as_double(long long v) { return cuda_host::bits<double>(v); }
inline long long __double_as_longlong(double v) { return cuda_host::bits<long long>(v); }
inline float __int_as_float(int v) { return cuda_host::bits<float>(v); }
inline int __float_as_int(float v) { return cuda_host::bits<int>(v); }
inline float __uint_as_float(unsigned v) { return cuda_host::bits<float>(v); }
inline unsigned __float_as_uint(float v) { return cuda_host::bits<unsigned>(v); }
inline float __expf(float x) { return expf(x); }
inline float __logf(float x) { return logf(x); }
inline float __fdividef(float a, float b) { return a / b; }
inline float rsqrtf(float x) { return 1 / sqrtf(x); }
inline double rsqrt(double x) { return 1 / sqrt(x); }
inline double sinpi(double x) { return sin(M_PI * fmod(x, 2.0)); }
inline double cospi(double x) { return cos(M_PI * fmod(x, 2.0)); }
inline float sinpi(float x) { return static_cast<float>(sinpi(static_cast<double>(x))); }
inline float cospi(float x) { return static_cast<float>(cospi(static_cast<double>(x))); }
inline float sinpif(float x) { return sinpi(x); }
inline float cospif(float x) { return cospi(x); }
inline double norm3d(double a, double b, double c) { return sqrt(a * a + b * b + c * c); }
inline double normcdf(double x) { return 0.5 * erfc(-x / M_SQRT2); }
inline double erfcx(double x) {  // for the range where exp(x * x) is finite
  return exp(x * x) * erfc(x);
}
inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
inline int __ffs(int x) { return __builtin_ffs(x); }
inline int __ffsll(long long x) { return __builtin_ffsll(x); }
inline int __clz(int x) { return x ? __builtin_clz(static_cast<unsigned>(x)) : 32; }
inline int __clzll(long long x) { return x ? __builtin_clzll(static_cast<unsigned long long>(x)) : 64; }
inline unsigned __umulhi(unsigned a, unsigned b) { return static_cast<unsigned>((uint64_t{a} * b) >> 32); }
inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
  return static_cast<unsigned long long>((static_cast<unsigned __int128>(a) * b) >> 64);
}
// Products and sums that are not fused.
inline float __fmul_rn(float a, float b) { return a * b; }
inline float __fadd_rn(float a, float b) { return a + b; }
inline double __dmul_rn(double a, double b) { return a * b; }
inline double __dadd_rn(double a, double b) { return a + b; }
// Bits of float16, as in shmtensor/ops/cuda/kernels/common.cuh.
inline float half_to_float(unsigned short v) { return static_cast<float>(cuda_host::bits<_Float16>(v)); }
inline unsigned short float_to_half(float v) { return cuda_host::bits<unsigned short>(static_cast<_Float16>(v)); }
#ifndef CUDA_HOST_WITH_HEADERS
inline unsigned short __float2half_rn(float v) { return cuda_host::bits<unsigned short>(static_cast<_Float16>(v)); }
inline float __half2float(unsigned short v) { return static_cast<float>(cuda_host::bits<_Float16>(v)); }
#endif
