// Floating-point numbers without their fractions, as integers of 64 bits. Included inside a level's
// namespace, after vector_float64.simd.h.
//
// Before AVX-512 an instruction makes one such integer at a time, but several of 32 bits at once: those
// are made and then widened, where all in a few vectors are small enough.

template <class T>
void cut_off(const T* __restrict x, int64_t* __restrict out, int64_t n) {
  int64_t i = 0;
#if defined(__AVX2__) && !defined(__AVX512DQ__)
  constexpr int kL = kLanes<double>, kSome = 4;
  for (; i + kSome * kL <= n; i += kSome * kL) {
    V<double> v[kSome];
    Longs far{};
    for (int j = 0; j < kSome; ++j) {
      v[j] = widened(x + i + j * kL);
      far |= ~(absolute<double>(v[j]) < 2147483648.0);  // NaN is far, too
    }
    if (somewhere(far)) {
      for (int j = 0; j < kSome * kL; ++j) out[i + j] = static_cast<int64_t>(x[i + j]);
      continue;
    }
    for (int j = 0; j < kSome; ++j) {
      const __m256i whole = _mm256_cvtepi32_epi64(_mm256_cvttpd_epi32((__m256d)v[j]));
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + i + j * kL), whole);
    }
  }
#endif
  for (; i < n; ++i) out[i] = static_cast<int64_t>(x[i]);
}
