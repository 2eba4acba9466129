// One step of CTC's sums over all alignments, states side by side. Included inside a level's
// namespace, after vector.simd.h.
//
// A log-sum-exp is computed relative to its largest term, which becomes 1, so that only the other terms need an
// exponential, and the logarithm is that of a number in [1, 3]. If all terms are -infinity, so is the sum; if one is
// NaN, so is the sum.

// log(s) of 1 <= s <= 3, as 2 atanh((m - 1) / (m + 1)) with m in (3/4, 3/2].
template <class T>
INLINE V<T> log_of_sum_of_terms(V<T> s) {
  constexpr int kLast = sizeof(T) == 4 ? 11 : 23;  // of the series' terms z^k / k
  const auto large = s > splat(T(1.5));
  const V<T> m = large ? s * T(0.5) : s, z = (m - T(1)) / (m + T(1)), w = z * z;
  V<T> p = splat(T(1) / kLast);
#pragma GCC unroll 12
  for (int k = kLast - 2; k > 0; k -= 2) p = p * w + T(1) / k;
  return T(2) * z * p + (large ? splat(T(0.6931471805599453)) : splat(T(0)));
}

// e^(x - top) for x <= top, also where both are -infinity.
template <class T>
INLINE V<T> exp_relative(V<T> x, V<T> max_value) {
  return exp_nonpositive(max_value > splat(T(-__builtin_inf())) ? x - max_value : x);
}

// out[i] = f(load) for n elements, a vector at a time; load(p) loads the vector at p + i.
template <class T, class F>
INLINE void for_vectors(T* out, int64_t n, F f) {
  constexpr int kL = kLanes<T>;
  int64_t i = 0;
  for (; i + kL <= n; i += kL) store<T>(out + i, f([i](const T* p) INLINE_LAMBDA { return load(p + i); }));
  if (i == n) return;
  const int64_t tail = n - i;
  store_part(out + i, f([i, tail](const T* p) INLINE_LAMBDA { return load_part(p + i, tail, T(0)); }), tail);
}

// out[i] = log(e^a[i] + e^b[i]) + y
template <class T>
void ctc_blanks(const T* a, const T* b, T y, T* out, int64_t n) {
  for_vectors(out, n, [=](auto at) INLINE_LAMBDA {
    const V<T> p = at(a), q = at(b);
    const auto p_is_larger = p > q;
    const V<T> max_value = p_is_larger ? p : q, other = p_is_larger ? q : p;
    return max_value + log_of_sum_of_terms<T>(T(1) + exp_relative<T>(other, max_value)) + y;
  });
}

// out[i] = log(e^a[i] + e^b[i] + e^(c[i] + jump[i])) + y[i]
template <class T>
void ctc_labels(const T* a, const T* b, const T* c, const T* jump, const T* y, T* out, int64_t n) {
  for_vectors(out, n, [=](auto at) INLINE_LAMBDA {
    const V<T> p = at(a), q = at(b), r = at(c) + at(jump);
    const auto p_is_larger = p > q;
    const V<T> larger = p_is_larger ? p : q, third = p_is_larger ? q : p;
    const auto larger_is_max = larger > r;
    const V<T> max_value = larger_is_max ? larger : r, second = larger_is_max ? r : larger;
    const V<T> sum = T(1) + exp_relative<T>(second, max_value) + exp_relative<T>(third, max_value);
    return max_value + log_of_sum_of_terms<T>(sum) + at(y);
  });
}

// out[i] = e^(a[i] + b[i] - y[i] + shift), which is at most 1 up to rounding
template <class T>
void ctc_shares(const T* a, const T* b, const T* y, T* out, int64_t n, T shift) {
  for_vectors(out, n, [=](auto at) INLINE_LAMBDA {
    const V<T> sum = at(a) + at(b);  // -infinity: no alignment passes here, whatever y and shift are
    const auto none = sum == splat(T(-__builtin_inf()));
    return none ? splat(T(0)) : exp_nonpositive(sum - at(y) + shift);
  });
}

// out[i] = e^x[i] for x[i] <= 80
template <class T>
void exp_row(const T* x, T* out, int64_t n) {
  for_vectors(out, n, [=](auto at) INLINE_LAMBDA { return exp_nonpositive(at(x)); });
}
