// 3 x 3 filters on one channel with stride 1. Included inside a level's namespace, after vector.simd.h.
// The plane is zero-padded: `line` elements a row; up to one vector behind a row may be read.

template <class T>
void depthwise_3x3(const T* x, const T* w, T bias, T* y, int64_t rows, int64_t width, int64_t line) {
  V<T> taps[9];
#pragma GCC unroll 9
  for (int t = 0; t < 9; ++t) taps[t] = splat(w[t]);
  for (int64_t r = 0; r < rows; ++r, x += line, y += width) {
    for (int64_t c = 0; c < width; c += kLanes<T>) {
      V<T> total = splat(bias);
#pragma GCC unroll 3
      for (int a = 0; a < 3; ++a) {
#pragma GCC unroll 3
        for (int b = 0; b < 3; ++b) total += taps[3 * a + b] * load(x + a * line + c + b);
      }
      if (width - c >= kLanes<T>) {
        store<T>(y + c, total);
      } else {
        store_part(y + c, total, width - c);
      }
    }
  }
}

// w[t] += the sum of g times the plane at tap t.
template <class T>
void depthwise_3x3_backward_weight(const T* x, const T* g, T* w, int64_t rows, int64_t width, int64_t line) {
  V<T> sums[9];
#pragma GCC unroll 9
  for (int t = 0; t < 9; ++t) sums[t] = splat(T(0));
  for (int64_t r = 0; r < rows; ++r, x += line, g += width) {
    for (int64_t c = 0; c < width; c += kLanes<T>) {
      const V<T> v = width - c >= kLanes<T> ? load(g + c) : load_part(g + c, width - c, T(0));
#pragma GCC unroll 3
      for (int a = 0; a < 3; ++a) {
#pragma GCC unroll 3
        for (int b = 0; b < 3; ++b) sums[3 * a + b] += v * load(x + a * line + c + b);
      }
    }
  }
#pragma GCC unroll 9
  for (int t = 0; t < 9; ++t) w[t] += sum_lanes<T>(sums[t]);
}
