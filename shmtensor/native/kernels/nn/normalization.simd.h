// Norms of rows, segments and columns. Included inside a level's namespace, after vector.simd.h.

// The sum of f(element): eight accumulators of at most 512 terms each, which are then added in double. f(fill) must
// be 0.
template <class T, class F>
INLINE double sum_chained(const T* x, int64_t n, T fill, F f) {
  constexpr int kL = kLanes<T>;
  double result = 0;
  int64_t i = 0;
  while (i < n) {
    const int64_t stop = n - i > 512 * kL ? i + 512 * kL : n;
    V<T> a[8];
    for (int j = 0; j < 8; ++j) a[j] = splat(T(0));
    for (; i + 8 * kL <= stop; i += 8 * kL) {
      for (int j = 0; j < 8; ++j) a[j] += f(load(x + i + j * kL));
    }
    for (; i + kL <= stop; i += kL) a[0] += f(load(x + i));
    if (i < stop) a[1] += f(load_part(x + i, stop - i, fill));
    i = stop;
    result += static_cast<double>(sum_lanes<T>(((a[0] + a[1]) + (a[2] + a[3])) + ((a[4] + a[5]) + (a[6] + a[7]))));
  }
  return result;
}

template <class T>
double sum(const T* x, int64_t n) {
  return sum_chained<T>(x, n, T(0), [](V<T> v) INLINE_LAMBDA { return v; });
}

template <class T>
double sum_of_squared_deviations(const T* x, int64_t n, T mean) {
  return sum_chained<T>(x, n, mean, [mean](V<T> v) INLINE_LAMBDA { return (v - mean) * (v - mean); });
}

template <class T, bool kW, bool kB>
INLINE void norm_loop(const T* x, const T* w, const T* b, T* __restrict out, int64_t n, T mean, T scale) {
  for (int64_t i = 0; i < n; ++i) {
    T v = (x[i] - mean) * scale;
    if (kW) v *= w[i];
    if (kB) v += b[i];
    out[i] = v;
  }
}

template <class T>
void norm(const T* x, const T* w, const T* b, T* out, int64_t n, T mean, T scale) {
  if (w && b) return norm_loop<T, true, true>(x, w, b, out, n, mean, scale);
  if (w) return norm_loop<T, true, false>(x, w, b, out, n, mean, scale);
  if (b) return norm_loop<T, false, true>(x, w, b, out, n, mean, scale);
  norm_loop<T, false, false>(x, w, b, out, n, mean, scale);
}

template <class T>
void affine(const T* x, T* __restrict out, int64_t n, T mean, T scale, T shift) {
  for (int64_t i = 0; i < n; ++i) out[i] = (x[i] - mean) * scale + shift;
}

// Four accumulators a sum, of at most 512 terms each, which are then added in double.
template <class T, bool kW>
INLINE void dots_loop(const T* g, const T* x, const T* w, int64_t n, T mean, double* sums) {
  constexpr int kL = kLanes<T>;
  double s0 = 0, s1 = 0;
  int64_t i = 0;
  while (i < n) {
    const int64_t stop = n - i > 512 * kL ? i + 512 * kL : n;
    V<T> a[4], b[4];
    for (int j = 0; j < 4; ++j) a[j] = b[j] = splat(T(0));
    for (; i + 4 * kL <= stop; i += 4 * kL) {
      for (int j = 0; j < 4; ++j) {
        V<T> v = load(g + i + j * kL);
        if (kW) v *= load(w + i + j * kL);
        a[j] += v;
        b[j] += v * (load(x + i + j * kL) - mean);
      }
    }
    for (; i < stop; i += kL) {
      const int64_t m = stop - i < kL ? stop - i : kL;
      V<T> v = m == kL ? load(g + i) : load_part(g + i, m, T(0));
      if (kW) v *= m == kL ? load(w + i) : load_part(w + i, m, T(0));
      a[0] += v;
      b[0] += v * ((m == kL ? load(x + i) : load_part(x + i, m, T(0))) - mean);
    }
    i = stop;
    s0 += static_cast<double>(sum_lanes<T>((a[0] + a[1]) + (a[2] + a[3])));
    s1 += static_cast<double>(sum_lanes<T>((b[0] + b[1]) + (b[2] + b[3])));
  }
  sums[0] = s0;
  sums[1] = s1;
}

template <class T>
void dots(const T* g, const T* x, const T* w, int64_t n, T mean, double* sums) {
  w ? dots_loop<T, true>(g, x, w, n, mean, sums) : dots_loop<T, false>(g, x, w, n, mean, sums);
}

template <class T>
void norm_backward(const T* g, const T* x, const T* w, T* __restrict gx, int64_t n, T mean, T p, T a, T q) {
  if (w) {
    for (int64_t i = 0; i < n; ++i) gx[i] = g[i] * w[i] * p - (a + (x[i] - mean) * q);
  } else {
    for (int64_t i = 0; i < n; ++i) gx[i] = g[i] * p - (a + (x[i] - mean) * q);
  }
}

template <class T>
void norm_backward_weight(const T* g, const T* x, T* __restrict gw, T* __restrict gb, int64_t n, T mean, T scale) {
  for (int64_t i = 0; i < n; ++i) {
    gw[i] += g[i] * ((x[i] - mean) * scale);
    gb[i] += g[i];
  }
}

template <class T>
void affine_columns(const T* x, const T* mean, const T* scale, const T* shift, T* out, int64_t n) {
  for (int64_t i = 0; i < n; ++i) out[i] = (x[i] - mean[i]) * scale[i] + shift[i];
}

template <class T>
void dots_columns(const T* g, const T* x, const T* mean, T* sums, T* dots, int64_t rows, int64_t n, int64_t stride) {
  for (int64_t c = 0; c < n; c += kLanes<T>) {
    const int64_t m = n - c < kLanes<T> ? n - c : kLanes<T>;
    const bool is_full = m == kLanes<T>;
    const auto load_columns = [&](const T* p) INLINE_LAMBDA { return is_full ? load(p) : load_part(p, m, T(0)); };
    const V<T> center = load_columns(mean + c);
    V<T> s = load_columns(sums + c), d = load_columns(dots + c);
    for (int64_t r = 0; r < rows; ++r) {
      const V<T> v = load_columns(g + r * stride + c);
      s += v;
      d += v * (load_columns(x + r * stride + c) - center);
    }
    if (is_full) {
      store<T>(sums + c, s);
      store<T>(dots + c, d);
    } else {
      store_part(sums + c, s, m);
      store_part(dots + c, d, m);
    }
  }
}

template <class T>
void norm_backward_columns(const T* g, const T* x, const T* mean, const T* p, const T* a, const T* q, T* gx, int64_t n) {
  for (int64_t i = 0; i < n; ++i) gx[i] = g[i] * p[i] - (a[i] + (x[i] - mean[i]) * q[i]);
}
