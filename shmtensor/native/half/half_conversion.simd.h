// Converts 16-bit floats to float32 and back by their bits. Included inside a level's namespace; uses no std::
// (cpu_capability.h). Plain loops, which the compiler vectorises; float16 has instructions from avx2 on.

// The upper half of a float32 is a bfloat16.
inline void widen_bfloat16(const uint16_t* x, float* out, int64_t n) {
  auto* bits = reinterpret_cast<uint32_t*>(out);
  for (int64_t i = 0; i < n; ++i) bits[i] = static_cast<uint32_t>(x[i]) << 16;
}

inline void change_bits(const uint16_t* x, uint16_t* out, int64_t n, uint16_t keep, uint16_t flip) {
  for (int64_t i = 0; i < n; ++i) out[i] = static_cast<uint16_t>((x[i] & keep) ^ flip);
}

// Rounds to nearest, ties to even; a NaN stays a NaN with its sign.
inline void narrow_bfloat16(const float* x, uint16_t* out, int64_t n) {
  const auto* bits = reinterpret_cast<const uint32_t*>(x);
  for (int64_t i = 0; i < n; ++i) {
    const uint32_t b = bits[i];
    const uint32_t rounded = b + 0x7fffu + (b >> 16 & 1);
    const bool nan = (b & 0x7fffffffu) > 0x7f800000u;
    out[i] = static_cast<uint16_t>((nan ? b | 0x400000u : rounded) >> 16);
  }
}

#if defined(__AVX512F__)
INLINE void widen_block(const uint16_t* x, float* out) {
  _mm512_storeu_ps(out, _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(x))));
}
INLINE void narrow_block(const float* x, uint16_t* out) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(out), _mm512_cvtps_ph(_mm512_loadu_ps(x), _MM_FROUND_TO_NEAREST_INT));
}
constexpr int kHalves = 16;
#elif defined(__F16C__)
INLINE void widen_block(const uint16_t* x, float* out) {
  _mm256_storeu_ps(out, _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(x))));
}
INLINE void narrow_block(const float* x, uint16_t* out) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(out), _mm256_cvtps_ph(_mm256_loadu_ps(x), _MM_FROUND_TO_NEAREST_INT));
}
constexpr int kHalves = 8;
#else
INLINE void widen_block(const uint16_t* x, float* out) {
  const uint32_t sign = (*x & 0x8000u) << 16, magnitude = *x & 0x7fffu;
  uint32_t bits = sign | ((magnitude << 13) + 0x38000000u);
  if (magnitude >= 0x7c00u) bits += 0x38000000u;
  if (magnitude > 0x7c00u) bits |= 0x400000u;
  if (magnitude < 0x400u) {  // subnormal
    const float value = static_cast<float>(magnitude) * 0x1p-24f;
    __builtin_memcpy(&bits, &value, 4);
    bits |= sign;
  }
  __builtin_memcpy(out, &bits, 4);
}
INLINE void narrow_block(const float* x, uint16_t* out) {
  uint32_t b;
  __builtin_memcpy(&b, x, 4);
  const uint32_t sign = b >> 16 & 0x8000u;
  b &= 0x7fffffffu;
  uint32_t half;
  if (b > 0x7f800000u) {
    half = 0x7e00u | (b >> 13 & 0x3ffu);
  } else if (b >= 0x477ff000u) {
    half = 0x7c00u;  // rounds to infinity
  } else if (b < 0x38800000u) {  // subnormal: adding 0.5 leaves the rounded bits at the bottom
    float shifted;
    __builtin_memcpy(&shifted, &b, 4);
    shifted += 0.5f;
    __builtin_memcpy(&b, &shifted, 4);
    half = b - 0x3f000000u;
  } else {
    half = (b + 0xc8000fffu + (b >> 13 & 1)) >> 13;  // exponent, and round half to even
  }
  *out = static_cast<uint16_t>(sign | half);
}
constexpr int kHalves = 1;
#endif

inline void widen_float16(const uint16_t* x, float* out, int64_t n) {
  int64_t i = 0;
  for (; i + kHalves <= n; i += kHalves) widen_block(x + i, out + i);
  if (i == n) return;
  uint16_t tail[kHalves] = {};
  float wide[kHalves];
  __builtin_memcpy(tail, x + i, static_cast<size_t>(n - i) * 2);
  widen_block(tail, wide);
  __builtin_memcpy(out + i, wide, static_cast<size_t>(n - i) * 4);
}

inline void narrow_float16(const float* x, uint16_t* out, int64_t n) {
  int64_t i = 0;
  for (; i + kHalves <= n; i += kHalves) narrow_block(x + i, out + i);
  if (i == n) return;
  float tail[kHalves] = {};
  uint16_t narrow[kHalves];
  __builtin_memcpy(tail, x + i, static_cast<size_t>(n - i) * 4);
  narrow_block(tail, narrow);
  __builtin_memcpy(out + i, narrow, static_cast<size_t>(n - i) * 2);
}
