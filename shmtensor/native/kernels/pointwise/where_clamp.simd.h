// where and clamp, for every numeric type. Included inside a level's namespace, after
// vector.simd.h.

// out[i] = c[i] ? x[i * xs] : y[i * ys]; the steps are 0 or 1.
template <class T>
void where(const uint8_t* c, const T* x, int64_t xs, const T* y, int64_t ys, T* out, int64_t n) {
  if (xs && ys) {
    for (int64_t i = 0; i < n; ++i) out[i] = c[i] ? x[i] : y[i];
  } else if (ys) {
    const T a = *x;
    for (int64_t i = 0; i < n; ++i) out[i] = c[i] ? a : y[i];
  } else if (xs) {
    const T b = *y;
    for (int64_t i = 0; i < n; ++i) out[i] = c[i] ? x[i] : b;
  } else {
    const T a = *x, b = *y;
    for (int64_t i = 0; i < n; ++i) out[i] = c[i] ? a : b;
  }
}

// At least low and at most high; a NaN stays.
template <class T>
void clamp_any(const T* x, T* out, int64_t n, T low, T high) {
  for (int64_t i = 0; i < n; ++i) {
    const T v = x[i] < low ? low : x[i];
    out[i] = v > high ? high : v;
  }
}
