// Choosing the instruction-set level, once.
#include "simd/cpu_capability.h"

#include <cstdlib>
#include <cstring>

#include "simd/kernel_table.h"

namespace shmtensor {

#define LEVEL(name)                                                                    \
  namespace name {                                                                     \
  const Folds<float>& folds_of(float);                                                 \
  const Folds<double>& folds_of(double);                                               \
  const Folds<int8_t>& folds_of(int8_t);                                               \
  const Folds<uint8_t>& folds_of(uint8_t);                                             \
  const Folds<int16_t>& folds_of(int16_t);                                             \
  const Folds<uint16_t>& folds_of(uint16_t);                                           \
  const Folds<int32_t>& folds_of(int32_t);                                             \
  const Folds<uint32_t>& folds_of(uint32_t);                                           \
  const Folds<int64_t>& folds_of(int64_t);                                             \
  const Folds<uint64_t>& folds_of(uint64_t);                                           \
  const Tallies<float>& tallies_of(float);                                           \
  const Tallies<double>& tallies_of(double);                                         \
  const Tallies<int8_t>& tallies_of(int8_t);                                         \
  const Tallies<uint8_t>& tallies_of(uint8_t);                                       \
  const Tallies<int16_t>& tallies_of(int16_t);                                       \
  const Tallies<uint16_t>& tallies_of(uint16_t);                                     \
  const Tallies<int32_t>& tallies_of(int32_t);                                       \
  const Tallies<uint32_t>& tallies_of(uint32_t);                                     \
  const Tallies<int64_t>& tallies_of(int64_t);                                       \
  const Tallies<uint64_t>& tallies_of(uint64_t);                                     \
  const Elementary& functions_of();                                                  \
  const Moments<float>& moments_of(float);                                             \
  const Moments<double>& moments_of(double);                                           \
  const Halves& halves_of();                                                           \
  const Moves& moves_of();                                                             \
  const Kernels<float>& floats();                                                      \
  const Kernels<double>& doubles();                                                    \
  void random_words(uint32_t* words, int64_t blocks, uint64_t seed, uint64_t counter); \
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
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
      __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("bmi") &&
      __builtin_cpu_supports("f16c") && __builtin_cpu_supports("lzcnt")) {
    best = Level::Avx2;
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
        __builtin_cpu_supports("avx512cd")) {
      best = Level::Avx512;
    }
  }
#endif
  const char* asked = getenv("SHMTENSOR_ISA");
  if (!asked) return best;
  // The names that the x86-64 levels had before are understood as well.
  Level wanted = Level::Avx512;
  if (!strcmp(asked, "generic") || !strcmp(asked, "base")) wanted = Level::Generic;
  if (!strcmp(asked, "avx2") || !strcmp(asked, "v3")) wanted = Level::Avx2;
  return wanted < best ? wanted : best;
}

}  // namespace

Level isa_level() {
  static const Level level = detect();
  return level;
}

const char* isa_name() {
  switch (isa_level()) {
    case Level::Avx512:
      return "avx512";
    case Level::Avx2:
      return "avx2";
    default:
      return "generic";
  }
}

template <>
const Kernels<float>& kernels<float>() {
  switch (isa_level()) {
    case Level::Avx512:
      return avx512::floats();
    case Level::Avx2:
      return avx2::floats();
    default:
      return generic::floats();
  }
}

template <>
const Kernels<double>& kernels<double>() {
  switch (isa_level()) {
    case Level::Avx512:
      return avx512::doubles();
    case Level::Avx2:
      return avx2::doubles();
    default:
      return generic::doubles();
  }
}

template <class T>
const Folds<T>& folds() {
  switch (isa_level()) {
    case Level::Avx512:
      return avx512::folds_of(T());
    case Level::Avx2:
      return avx2::folds_of(T());
    default:
      return generic::folds_of(T());
  }
}
template const Folds<float>& folds<float>();
template const Folds<double>& folds<double>();
template const Folds<int8_t>& folds<int8_t>();
template const Folds<uint8_t>& folds<uint8_t>();
template const Folds<int16_t>& folds<int16_t>();
template const Folds<uint16_t>& folds<uint16_t>();
template const Folds<int32_t>& folds<int32_t>();
template const Folds<uint32_t>& folds<uint32_t>();
template const Folds<int64_t>& folds<int64_t>();
template const Folds<uint64_t>& folds<uint64_t>();

template <class T>
const Tallies<T>& tallies() {
  switch (isa_level()) {
    case Level::Avx512:
      return avx512::tallies_of(T());
    case Level::Avx2:
      return avx2::tallies_of(T());
    default:
      return generic::tallies_of(T());
  }
}
template const Tallies<float>& tallies<float>();
template const Tallies<double>& tallies<double>();
template const Tallies<int8_t>& tallies<int8_t>();
template const Tallies<uint8_t>& tallies<uint8_t>();
template const Tallies<int16_t>& tallies<int16_t>();
template const Tallies<uint16_t>& tallies<uint16_t>();
template const Tallies<int32_t>& tallies<int32_t>();
template const Tallies<uint32_t>& tallies<uint32_t>();
template const Tallies<int64_t>& tallies<int64_t>();
template const Tallies<uint64_t>& tallies<uint64_t>();

template <class T>
const Moments<T>& moments() {
  switch (isa_level()) {
    case Level::Avx512:
      return avx512::moments_of(T());
    case Level::Avx2:
      return avx2::moments_of(T());
    default:
      return generic::moments_of(T());
  }
}
template const Moments<float>& moments<float>();
template const Moments<double>& moments<double>();

const Elementary& elementary() {
  switch (isa_level()) {
    case Level::Avx512:
      return avx512::functions_of();
    case Level::Avx2:
      return avx2::functions_of();
    default:
      return generic::functions_of();
  }
}

const Halves& kernels_of_halves() {
  switch (isa_level()) {
    case Level::Avx512:
      return avx512::halves_of();
    case Level::Avx2:
      return avx2::halves_of();
    default:
      return generic::halves_of();
  }
}

const Moves& moves() {
  switch (isa_level()) {
    case Level::Avx512:
      return avx512::moves_of();
    case Level::Avx2:
      return avx2::moves_of();
    default:
      return generic::moves_of();
  }
}

PhiloxBlocks philox() {
  switch (isa_level()) {
    case Level::Avx512:
      return avx512::random_words;
    case Level::Avx2:
      return avx2::random_words;
    default:
      return generic::random_words;
  }
}

}  // namespace shmtensor
