// Kernels on rows and columns: softmax, log_softmax, logsumexp, sums. Included inside a level's namespace,
// after vector.simd.h.

template <class T>
constexpr T kNegativeInfinity = -__builtin_inff();

INLINE float scalar_log(float x) { return __builtin_logf(x); }
INLINE double scalar_log(double x) { return __builtin_log(x); }

template <class T>
INLINE T row_max(const T* x, int64_t m) {
  V<T> max = splat(kNegativeInfinity<T>);
  int64_t i = 0;
  for (; i + kLanes<T> <= m; i += kLanes<T>) {
    V<T> v = load(x + i);
    max = v > max ? v : max;
  }
  if (i < m) {
    V<T> v = load_part(x + i, m - i, kNegativeInfinity<T>);
    max = v > max ? v : max;
  }
  return max_lanes<T>(max);  // a NaN is ignored here and returns through exp
}

// The sum of e^(x - top); the terms are written to `terms` unless it is null.
template <class T, bool kWrite>
INLINE T row_exp(const T* x, T* terms, int64_t m, T max_value) {
  V<T> total = splat(T(0));
  int64_t i = 0;
  for (; i + kLanes<T> <= m; i += kLanes<T>) {
    V<T> e = exp_nonpositive(load(x + i) - max_value);
    if (kWrite) store<T>(terms + i, e);
    total += e;
  }
  if (i < m) {
    V<T> v = load_part(x + i, m - i, kNegativeInfinity<T>);
    // The padding must not turn into a NaN when top is -inf as well: it adds 0 in any case.
    V<T> e = exp_nonpositive(v - max_value);
    e = fill_tail<T>(e, m - i, T(0));
    if (kWrite) store_part(terms + i, e, m - i);
    total += e;
  }
  return sum_lanes<T>(total);
}

template <class T>
void softmax(const T* x, T* out, int64_t rows, int64_t m) {
  for (int64_t r = 0; r < rows; ++r, x += m, out += m) {
    T total = row_exp<T, true>(x, out, m, row_max(x, m));
    scale<T>(out, out, m, T(1) / total);
  }
}

template <class T>
void log_softmax(const T* x, T* out, int64_t rows, int64_t m) {
  for (int64_t r = 0; r < rows; ++r, x += m, out += m) {
    T max_value = row_max(x, m);
    T log_total = scalar_log(row_exp<T, false>(x, nullptr, m, max_value));
    for (int64_t i = 0; i < m; ++i) out[i] = (x[i] - max_value) - log_total;
  }
}

template <class T>
void logsumexp_row(const T* x, int64_t m, T* max_value, T* log_total) {
  *max_value = row_max(x, m);
  *log_total = scalar_log(row_exp<T, false>(x, nullptr, m, *max_value));
}

template <class T>
void scaled_softmax_row(const T* x, T* out, int64_t m, T max_value, T log_total, T factor) {
  map1(x, out, m, [=](V<T> v) INLINE_LAMBDA { return exp_nonpositive(v - max_value - log_total) * factor; });
}

template <class T>
INLINE T dot(const T* x, const T* y, int64_t m) {
  V<T> total = splat(T(0));
  int64_t i = 0;
  for (; i + kLanes<T> <= m; i += kLanes<T>) total += load(x + i) * load(y + i);
  if (i < m) total += load_part(x + i, m - i, T(0)) * load_part(y + i, m - i, T(0));
  return sum_lanes<T>(total);
}

template <class T>
INLINE T row_sum(const T* x, int64_t m) {
  V<T> total = splat(T(0));
  int64_t i = 0;
  for (; i + kLanes<T> <= m; i += kLanes<T>) total += load(x + i);
  if (i < m) total += load_part(x + i, m - i, T(0));
  return sum_lanes<T>(total);
}

template <class T>
void softmax_backward(const T* g, const T* out, T* gx, int64_t rows, int64_t m) {
  for (int64_t r = 0; r < rows; ++r, g += m, out += m, gx += m) {
    T d = dot(g, out, m);
    for (int64_t i = 0; i < m; ++i) gx[i] = (g[i] - d) * out[i];
  }
}

template <class T>
void log_softmax_backward(const T* g, const T* out, T* gx, int64_t rows, int64_t m) {
  for (int64_t r = 0; r < rows; ++r, g += m, out += m, gx += m) {
    T total = row_sum(g, m);
    // out <= 0: it is the logarithm of a probability.
    map2(g, out, gx, m, [total](V<T> a, V<T> y) INLINE_LAMBDA { return a - exp_nonpositive(y) * total; });
  }
}

// ---------------------------------------------------------------- down the columns

// f(first column, number of columns) for groups of at most one vector of columns.
template <class T, class F>
INLINE void for_column_groups(int64_t width, F f) {
  for (int64_t c = 0; c < width; c += kLanes<T>) f(c, width - c < kLanes<T> ? width - c : kLanes<T>);
}

template <class T>
INLINE V<T> load_columns(const T* p, int64_t n) {
  return n == kLanes<T> ? load(p) : load_part(p, n, T(0));
}

template <class T>
INLINE void store_columns(T* p, V<T> v, int64_t n) {
  if (n == kLanes<T>) {
    store<T>(p, v);
  } else {
    store_part(p, v, n);
  }
}

template <class T>
INLINE V<T> column_max(const T* x, int64_t m, int64_t stride, int64_t n) {
  V<T> max = splat(kNegativeInfinity<T>);
  for (int64_t k = 0; k < m; ++k) {
    V<T> v = load_columns(x + k * stride, n);
    max = v > max ? v : max;
  }
  return max;
}

template <class T>
void softmax_columns(const T* x, T* out, int64_t m, int64_t width, int64_t stride) {
  for_column_groups<T>(width, [&](int64_t c, int64_t n) INLINE_LAMBDA {
    V<T> max_value = column_max(x + c, m, stride, n), total = splat(T(0));
    for (int64_t k = 0; k < m; ++k) {
      V<T> e = exp_nonpositive(load_columns(x + c + k * stride, n) - max_value);
      store_columns<T>(out + c + k * stride, e, n);
      total += e;
    }
    V<T> inverse = T(1) / total;
    for (int64_t k = 0; k < m; ++k) {
      T* p = out + c + k * stride;
      store_columns<T>(p, load_columns(p, n) * inverse, n);
    }
  });
}

template <class T>
void log_softmax_columns(const T* x, T* out, int64_t m, int64_t width, int64_t stride) {
  for_column_groups<T>(width, [&](int64_t c, int64_t n) INLINE_LAMBDA {
    V<T> max_value = column_max(x + c, m, stride, n), total = splat(T(0));
    for (int64_t k = 0; k < m; ++k) total += exp_nonpositive(load_columns(x + c + k * stride, n) - max_value);
    for (int j = 0; j < kLanes<T>; ++j) total[j] = scalar_log(total[j]);
    for (int64_t k = 0; k < m; ++k) {
      store_columns<T>(out + c + k * stride, (load_columns(x + c + k * stride, n) - max_value) - total, n);
    }
  });
}

// out[c] = log(sum over k of exp(x[k, c])).
template <class T>
void logsumexp_columns(const T* x, T* out, int64_t m, int64_t width, int64_t stride) {
  for_column_groups<T>(width, [&](int64_t c, int64_t n) INLINE_LAMBDA {
    const V<T> max_value = column_max(x + c, m, stride, n);
    V<T> total = splat(T(0));
    for (int64_t k = 0; k < m; ++k) total += exp_nonpositive(load_columns(x + c + k * stride, n) - max_value);
    for (int64_t j = 0; j < n; ++j) {
      if (max_value[j] - max_value[j] == 0) {
        out[c + j] = scalar_log(total[j]) + max_value[j];
        continue;
      }
      T result = max_value[j];  // infinite, but for NaN
      for (int64_t k = 0; k < m; ++k) {
        const T v = x[c + j + k * stride];
        result = v == v ? result : v;
      }
      out[c + j] = result;
    }
  });
}

template <class T>
void softmax_backward_columns(const T* g, const T* out, T* gx, int64_t m, int64_t width, int64_t stride) {
  for_column_groups<T>(width, [&](int64_t c, int64_t n) INLINE_LAMBDA {
    V<T> total = splat(T(0));
    for (int64_t k = 0; k < m; ++k) total += load_columns(g + c + k * stride, n) * load_columns(out + c + k * stride, n);
    for (int64_t k = 0; k < m; ++k) {
      const int64_t offset = c + k * stride;
      store_columns<T>(gx + offset, (load_columns(g + offset, n) - total) * load_columns(out + offset, n), n);
    }
  });
}

template <class T>
void log_softmax_backward_columns(const T* g, const T* out, T* gx, int64_t m, int64_t width, int64_t stride) {
  for_column_groups<T>(width, [&](int64_t c, int64_t n) INLINE_LAMBDA {
    V<T> total = splat(T(0));
    for (int64_t k = 0; k < m; ++k) total += load_columns(g + c + k * stride, n);
    for (int64_t k = 0; k < m; ++k) {
      const int64_t offset = c + k * stride;
      const V<T> softmax = exp_nonpositive(load_columns(out + offset, n));
      store_columns<T>(gx + offset, load_columns(g + offset, n) - softmax * total, n);
    }
  });
}

// ---------------------------------------------------------------- sums

// The sum of n elements, kStep apart: 32 accumulators of at most 64 terms each, which are then added in double. The
// result is the same at every level, and its error does not grow with n.
template <class T, int kStep>
double sum(const T* x, int64_t n) {
  constexpr int kChains = 32, kGap = kStep > 1;  // vectors read one element further, which must exist
  double total = 0;
  for (; n > 0; x += 2048 * kStep, n -= 2048) {
    const int64_t m = n < 2048 ? n : 2048;
    T chains[kChains] = {};
    int64_t i = 0;
    for (; i + kChains + kGap <= m; i += kChains) {
      for (int j = 0; j < kChains; ++j) chains[j] += x[(i + j) * kStep];
    }
    for (int offset = 0; i + 8 + kGap <= m; i += 8, offset += 8) {
      for (int j = 0; j < 8; ++j) chains[offset + j] += x[(i + j) * kStep];
    }
    double tail = 0, ends[kChains / 2];
    for (; i < m; ++i) tail += static_cast<double>(x[i * kStep]);
    for (int j = 0; j < kChains / 2; ++j)
      ends[j] = static_cast<double>(chains[j]) + static_cast<double>(chains[j + kChains / 2]);
#pragma GCC unroll 4
    for (int half = kChains / 4; half; half /= 2) {
      for (int j = 0; j < half; ++j) ends[j] += ends[j + half];
    }
    total += ends[0] + tail;
  }
  return total;
}

// A few columns: rows are read as one run in steps of `width` vectors, so that each lane always reads the same column;
// lane l of vector i reads column (i * lanes + l) % width.
template <class T>
void sum_few_columns(const T* x, T* acc, int64_t m, int64_t width) {
  constexpr int kL = kLanes<T>, kMaxColumns = 64;
  V<T> t[kMaxColumns];
  for (int i = 0; i < width; ++i) t[i] = splat(T(0));
  const int64_t n = m * width, step = width * kL;
  int64_t offset = 0;
  for (; offset + step <= n; offset += step) {
    for (int i = 0; i < width; ++i) t[i] += load(x + offset + i * kL);
  }
  T lanes[kMaxColumns * kL];
  for (int i = 0; i < width; ++i) store<T>(lanes + i * kL, t[i]);
  for (int64_t l = 0; l < step; l += width) {
    for (int64_t c = 0; c < width; ++c) acc[c] += lanes[l + c];
  }
  for (; offset < n; offset += width) {
    for (int64_t c = 0; c < width; ++c) acc[c] += x[offset + c];
  }
}

// Short rows: one accumulator a lane.
template <class T>
void sum_rows(const T* x, T* out, int64_t rows, int64_t m) {
  for (int64_t r = 0; r < rows; ++r) out[r] = row_sum(x + r * m, m);
}

// Four vectors of columns at a time, so that whole cache lines of each row are read.
template <class T>
void sum_columns(const T* x, T* acc, int64_t m, int64_t width, int64_t stride) {
  constexpr int64_t kL = kLanes<T>;
  if (width == stride && width <= 64 && width % kL != 0) return sum_few_columns(x, acc, m, width);
  int64_t c = 0;
  for (; c + 4 * kL <= width; c += 4 * kL) {
    V<T> t[4];
    for (int j = 0; j < 4; ++j) t[j] = load(acc + c + j * kL);
    for (int64_t k = 0; k < m; ++k) {
      for (int j = 0; j < 4; ++j) t[j] += load(x + c + j * kL + k * stride);
    }
    for (int j = 0; j < 4; ++j) store<T>(acc + c + j * kL, t[j]);
  }
  for (; c < width; c += kL) {
    const int64_t n = width - c < kL ? width - c : kL;
    V<T> total = load_columns(acc + c, n);
    for (int64_t k = 0; k < m; ++k) total += load_columns(x + c + k * stride, n);
    store_columns<T>(acc + c, total, n);
  }
}
