// Distances of one point from many. Included inside a level's namespace, after minmax.simd.h and
// softmax_logsumexp.simd.h.

// `total` with one more difference added.
template <class T, Metric kMetric>
INLINE V<T> add_difference(V<T> total, V<T> d) {
  if constexpr (kMetric == Metric::Count) return total + (d != splat(T(0)) ? splat(T(1)) : splat(T(0)));
  if constexpr (kMetric == Metric::Sum) return total + absolute<T>(d);
  if constexpr (kMetric == Metric::Squares) return total + d * d;
  return minmax_vectors<T, true>(absolute<T>(d), total);
}

// out[j] = the distance of x from y[:, j] for n columns of y, m coordinates each, `stride` apart. The root is taken
// here: the CPU's square root unit works in parallel with the additions of the next columns.
template <class T, Metric kMetric>
void distances(const T* x, const T* y, T* out, int64_t m, int64_t n, int64_t stride) {
  constexpr int64_t kL = kLanes<T>;
  const auto finish = [](V<T> t) INLINE_LAMBDA { return kMetric == Metric::Squares ? root(t) : t; };
  int64_t j = 0;
  for (; j + 4 * kL <= n; j += 4 * kL) {
    V<T> t[4] = {};
    for (int64_t k = 0; k < m; ++k) {
      const V<T> v = splat(x[k]);
#pragma GCC unroll 4
      for (int l = 0; l < 4; ++l) t[l] = add_difference<T, kMetric>(t[l], v - load(y + k * stride + j + l * kL));
    }
#pragma GCC unroll 4
    for (int l = 0; l < 4; ++l) store<T>(out + j + l * kL, finish(t[l]));
  }
  for (; j < n; j += kL) {
    const int64_t count = n - j < kL ? n - j : kL;
    V<T> t = {};
    for (int64_t k = 0; k < m; ++k) t = add_difference<T, kMetric>(t, splat(x[k]) - load_columns(y + k * stride + j, count));
    store_columns<T>(out + j, finish(t), count);
  }
}
