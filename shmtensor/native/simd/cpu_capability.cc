// Chooses the instruction-set level, once per process.
#include "simd/cpu_capability.h"

#include <cstdlib>
#include <cstring>

#include "simd/kernel_table.h"

namespace shmtensor {

#define LEVEL(name)                                                                                  \
  namespace name {                                                                                   \
  [[gnu::weak]] const MinMaxKernels<float>& minmax_kernels_of(float);                                \
  [[gnu::weak]] const MinMaxKernels<double>& minmax_kernels_of(double);                              \
  [[gnu::weak]] const MinMaxKernels<int8_t>& minmax_kernels_of(int8_t);                              \
  [[gnu::weak]] const MinMaxKernels<uint8_t>& minmax_kernels_of(uint8_t);                            \
  [[gnu::weak]] const MinMaxKernels<int16_t>& minmax_kernels_of(int16_t);                            \
  [[gnu::weak]] const MinMaxKernels<uint16_t>& minmax_kernels_of(uint16_t);                          \
  [[gnu::weak]] const MinMaxKernels<int32_t>& minmax_kernels_of(int32_t);                            \
  [[gnu::weak]] const MinMaxKernels<uint32_t>& minmax_kernels_of(uint32_t);                          \
  [[gnu::weak]] const MinMaxKernels<int64_t>& minmax_kernels_of(int64_t);                            \
  [[gnu::weak]] const MinMaxKernels<uint64_t>& minmax_kernels_of(uint64_t);                          \
  [[gnu::weak]] const ReduceKernels<float>& reduce_kernels_of(float);                                \
  [[gnu::weak]] const ReduceKernels<double>& reduce_kernels_of(double);                              \
  [[gnu::weak]] const ReduceKernels<int8_t>& reduce_kernels_of(int8_t);                              \
  [[gnu::weak]] const ReduceKernels<uint8_t>& reduce_kernels_of(uint8_t);                            \
  [[gnu::weak]] const ReduceKernels<int16_t>& reduce_kernels_of(int16_t);                            \
  [[gnu::weak]] const ReduceKernels<uint16_t>& reduce_kernels_of(uint16_t);                          \
  [[gnu::weak]] const ReduceKernels<int32_t>& reduce_kernels_of(int32_t);                            \
  [[gnu::weak]] const ReduceKernels<uint32_t>& reduce_kernels_of(uint32_t);                          \
  [[gnu::weak]] const ReduceKernels<int64_t>& reduce_kernels_of(int64_t);                            \
  [[gnu::weak]] const ReduceKernels<uint64_t>& reduce_kernels_of(uint64_t);                          \
  [[gnu::weak]] const ElementaryKernels& functions_of();                                             \
  [[gnu::weak]] const MomentKernels<float>& moment_kernels_of(float);                                \
  [[gnu::weak]] const MomentKernels<double>& moment_kernels_of(double);                              \
  [[gnu::weak]] const HalfKernels& half_kernels_of();                                                \
  [[gnu::weak]] const Activation* activations_of();                                                  \
  [[gnu::weak]] const MemoryKernels& memory_kernels_of();                                            \
  [[gnu::weak]] const Kernels<float>& float_kernels();                                               \
  [[gnu::weak]] const Kernels<double>& double_kernels();                                             \
  [[gnu::weak]] void random_words(uint32_t* words, int64_t blocks, uint64_t seed, uint64_t counter); \
  }
LEVEL(generic)
LEVEL(avx2)
LEVEL(avx512)
#undef LEVEL

namespace {

Level detect() {
  Level best = Level::Generic;
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2") &&
      __builtin_cpu_supports("bmi") && __builtin_cpu_supports("f16c") && __builtin_cpu_supports("lzcnt")) {
    best = Level::Avx2;
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512cd")) {
      best = Level::Avx512;
    }
  }
#endif
  if (const char* requested = getenv("SHMTENSOR_ISA")) {
    // The earlier names of the levels are accepted as well.
    Level level = Level::Avx512;
    if (!strcmp(requested, "generic") || !strcmp(requested, "base")) level = Level::Generic;
    if (!strcmp(requested, "avx2") || !strcmp(requested, "v3")) level = Level::Avx2;
    best = level < best ? level : best;
  }
  if (best == Level::Avx512 && !is_compiled(best)) best = Level::Avx2;
  if (best == Level::Avx2 && !is_compiled(best)) best = Level::Generic;
  return best;
}

}  // namespace

Level isa_level() {
  static const Level level = detect();
  return level;
}

bool uses_avx512_bf16() {
#if defined(__x86_64__)
  const char* requested = getenv("SHMTENSOR_ISA");
  if (requested && !strcmp(requested, "avx512")) return false;
  return isa_level() == Level::Avx512 && __builtin_cpu_supports("avx512bf16");
#else
  return false;
#endif
}

bool is_compiled(Level level) {
  switch (level) {
    case Level::Avx512: return avx512::memory_kernels_of;
    case Level::Avx2: return avx2::memory_kernels_of;
    default: return true;
  }
}

const char* isa_name(Level level) {
  switch (level) {
    case Level::Avx512: return "avx512";
    case Level::Avx2: return "avx2";
    default: return "generic";
  }
}

template <>
const Kernels<float>& kernels<float>() {
  switch (isa_level()) {
    case Level::Avx512: return avx512::float_kernels();
    case Level::Avx2: return avx2::float_kernels();
    default: return generic::float_kernels();
  }
}

template <>
const Kernels<double>& kernels<double>() {
  switch (isa_level()) {
    case Level::Avx512: return avx512::double_kernels();
    case Level::Avx2: return avx2::double_kernels();
    default: return generic::double_kernels();
  }
}

template <class T>
const MinMaxKernels<T>& folds() {
  switch (isa_level()) {
    case Level::Avx512: return avx512::minmax_kernels_of(T());
    case Level::Avx2: return avx2::minmax_kernels_of(T());
    default: return generic::minmax_kernels_of(T());
  }
}
template const MinMaxKernels<float>& folds<float>();
template const MinMaxKernels<double>& folds<double>();
template const MinMaxKernels<int8_t>& folds<int8_t>();
template const MinMaxKernels<uint8_t>& folds<uint8_t>();
template const MinMaxKernels<int16_t>& folds<int16_t>();
template const MinMaxKernels<uint16_t>& folds<uint16_t>();
template const MinMaxKernels<int32_t>& folds<int32_t>();
template const MinMaxKernels<uint32_t>& folds<uint32_t>();
template const MinMaxKernels<int64_t>& folds<int64_t>();
template const MinMaxKernels<uint64_t>& folds<uint64_t>();

template <class T>
const ReduceKernels<T>& reduce_kernels() {
  switch (isa_level()) {
    case Level::Avx512: return avx512::reduce_kernels_of(T());
    case Level::Avx2: return avx2::reduce_kernels_of(T());
    default: return generic::reduce_kernels_of(T());
  }
}
template const ReduceKernels<float>& reduce_kernels<float>();
template const ReduceKernels<double>& reduce_kernels<double>();
template const ReduceKernels<int8_t>& reduce_kernels<int8_t>();
template const ReduceKernels<uint8_t>& reduce_kernels<uint8_t>();
template const ReduceKernels<int16_t>& reduce_kernels<int16_t>();
template const ReduceKernels<uint16_t>& reduce_kernels<uint16_t>();
template const ReduceKernels<int32_t>& reduce_kernels<int32_t>();
template const ReduceKernels<uint32_t>& reduce_kernels<uint32_t>();
template const ReduceKernels<int64_t>& reduce_kernels<int64_t>();
template const ReduceKernels<uint64_t>& reduce_kernels<uint64_t>();

template <class T>
const MomentKernels<T>& moment_kernels() {
  switch (isa_level()) {
    case Level::Avx512: return avx512::moment_kernels_of(T());
    case Level::Avx2: return avx2::moment_kernels_of(T());
    default: return generic::moment_kernels_of(T());
  }
}
template const MomentKernels<float>& moment_kernels<float>();
template const MomentKernels<double>& moment_kernels<double>();

const ElementaryKernels& elementary_kernels() {
  switch (isa_level()) {
    case Level::Avx512: return avx512::functions_of();
    case Level::Avx2: return avx2::functions_of();
    default: return generic::functions_of();
  }
}

const HalfKernels& half_kernels() {
  switch (isa_level()) {
    case Level::Avx512: return avx512::half_kernels_of();
    case Level::Avx2: return avx2::half_kernels_of();
    default: return generic::half_kernels_of();
  }
}

const Activation* activations() {
  switch (isa_level()) {
    case Level::Avx512: return avx512::activations_of();
    case Level::Avx2: return avx2::activations_of();
    default: return generic::activations_of();
  }
}

const Activation* find_activation(const char* name) {
  const Activation* a = activations();
  while (a->name && strcmp(name, a->name)) ++a;
  return a->name ? a : nullptr;
}

const MemoryKernels& memory_kernels() {
  switch (isa_level()) {
    case Level::Avx512: return avx512::memory_kernels_of();
    case Level::Avx2: return avx2::memory_kernels_of();
    default: return generic::memory_kernels_of();
  }
}

PhiloxBlocks philox() {
  switch (isa_level()) {
    case Level::Avx512: return avx512::random_words;
    case Level::Avx2: return avx2::random_words;
    default: return generic::random_words;
  }
}

}  // namespace shmtensor
