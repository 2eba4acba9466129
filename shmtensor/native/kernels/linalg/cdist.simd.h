// Distances of a point from many. Included inside a level's namespace, after where_clamp_minmax.simd.h and softmax_logsumexp.simd.h.

// `total` with one more difference in it.
template <class T, Metric kMetric>
INLINE V<T> farther(V<T> total, V<T> d) {
  if constexpr (kMetric == Metric::Count) return total + (d != all(T(0)) ? all(T(1)) : all(T(0)));
  if constexpr (kMetric == Metric::Sum) return total + absolute<T>(d);
  if constexpr (kMetric == Metric::Squares) return total + d * d;
  return winner<T, true>(absolute<T>(d), total);
}

// out[j] = the distance of x from y[:, j] for n columns of y, m numbers each, `stride` apart. The root
// is taken at once: its unit works beside those that add the next columns' differences.
template <class T, Metric kMetric>
void distances(const T* x, const T* y, T* out, int64_t m, int64_t n, int64_t stride) {
  constexpr int64_t kL = kLanes<T>;
  const auto end = [](V<T> t) INLINE_LAMBDA { return kMetric == Metric::Squares ? root(t) : t; };
  int64_t j = 0;
  for (; j + 4 * kL <= n; j += 4 * kL) {
    V<T> t[4] = {};
    for (int64_t k = 0; k < m; ++k) {
      const V<T> v = all(x[k]);
#pragma GCC unroll 4
      for (int l = 0; l < 4; ++l)
        t[l] = farther<T, kMetric>(t[l], v - load(y + k * stride + j + l * kL));
    }
#pragma GCC unroll 4
    for (int l = 0; l < 4; ++l) store<T>(out + j + l * kL, end(t[l]));
  }
  for (; j < n; j += kL) {
    const int64_t some = n - j < kL ? n - j : kL;
    V<T> t = {};
    for (int64_t k = 0; k < m; ++k)
      t = farther<T, kMetric>(t, all(x[k]) - load_some(y + k * stride + j, some));
    store_some<T>(out + j, end(t), some);
  }
}
