// Truncates floating-point numbers to int64. Included inside a level's namespace, after vector_float64.simd.h.
//
// Before AVX-512 there is no vector instruction for it, but one for int32: if all elements of a few vectors are small
// enough, they are converted to int32 and then widened.

template <class T>
void truncate_to_int64(const T* __restrict x, int64_t* __restrict out, int64_t n) {
  int64_t i = 0;
#if defined(__AVX2__) && !defined(__AVX512DQ__)
  constexpr int kL = kLanes<double>, kSome = 4;
  for (; i + kSome * kL <= n; i += kSome * kL) {
    V<double> v[kSome];
    Longs is_large{};
    for (int j = 0; j < kSome; ++j) {
      v[j] = load_as_double(x + i + j * kL);
      is_large |= ~(absolute<double>(v[j]) < 2147483648.0);  // true for NaN
    }
    if (any_lane(is_large)) {
      for (int j = 0; j < kSome * kL; ++j) out[i + j] = static_cast<int64_t>(x[i + j]);
      continue;
    }
    for (int j = 0; j < kSome; ++j) {
      const __m256i integers = _mm256_cvtepi32_epi64(_mm256_cvttpd_epi32((__m256d)v[j]));
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + i + j * kL), integers);
    }
  }
#endif
  for (; i < n; ++i) out[i] = static_cast<int64_t>(x[i]);
}
