// One step of CTC's sums over all alignments, states side by side. Included inside a level's
// namespace, after vector.simd.h.
//
// A sum of exponentials is taken from its largest term, which counts 1, so that only the others need
// an exponential, and the logarithm is of a number in [1, 3]. Where all are -infinity, so is the sum;
// where one is no number, so is the sum.

// log(s) of 1 <= s <= 3, as 2 atanh((m - 1) / (m + 1)) with m in (3/4, 3/2].
template <class T>
INLINE V<T> log_of_few(V<T> s) {
  constexpr int kLast = sizeof(T) == 4 ? 11 : 23;  // of the series' terms z^k / k
  const auto large = s > all(T(1.5));
  const V<T> m = large ? s * T(0.5) : s, z = (m - T(1)) / (m + T(1)), w = z * z;
  V<T> p = all(T(1) / kLast);
#pragma GCC unroll 12
  for (int k = kLast - 2; k > 0; k -= 2) p = p * w + T(1) / k;
  return T(2) * z * p + (large ? all(T(0.6931471805599453)) : all(T(0)));
}

// e^(x - top) for x <= top, also where both are -infinity.
template <class T>
INLINE V<T> beside_top(V<T> x, V<T> top) {
  return exp_nonpositive(top > all(T(-__builtin_inf())) ? x - top : x);
}

// out(first lane, value of f) for n elements; f is given a way to load from a pointer.
template <class T, class F>
INLINE void each_lanes(T* out, int64_t n, F f) {
  constexpr int kL = kLanes<T>;
  int64_t i = 0;
  for (; i + kL <= n; i += kL)
    store<T>(out + i, f([i](const T* p) INLINE_LAMBDA { return load(p + i); }));
  if (i == n) return;
  const int64_t rest = n - i;
  store_part(out + i, f([i, rest](const T* p) INLINE_LAMBDA { return load_part(p + i, rest, T(0)); }),
             rest);
}

// out[i] = log(e^a[i] + e^b[i]) + y
template <class T>
void ctc_blanks(const T* a, const T* b, T y, T* out, int64_t n) {
  each_lanes(out, n, [=](auto at) INLINE_LAMBDA {
    const V<T> p = at(a), q = at(b);
    const auto more = p > q;
    const V<T> top = more ? p : q, other = more ? q : p;
    return top + log_of_few<T>(T(1) + beside_top<T>(other, top)) + y;
  });
}

// out[i] = log(e^a[i] + e^b[i] + e^(c[i] + jump[i])) + y[i]
template <class T>
void ctc_labels(const T* a, const T* b, const T* c, const T* jump, const T* y, T* out, int64_t n) {
  each_lanes(out, n, [=](auto at) INLINE_LAMBDA {
    const V<T> p = at(a), q = at(b), r = at(c) + at(jump);
    const auto more = p > q;
    const V<T> larger = more ? p : q, third = more ? q : p;
    const auto most = larger > r;
    const V<T> top = most ? larger : r, second = most ? r : larger;
    return top + log_of_few<T>(T(1) + beside_top<T>(second, top) + beside_top<T>(third, top)) + at(y);
  });
}

// out[i] = e^(a[i] + b[i] - y[i] + shift), which is at most 1 but for rounding
template <class T>
void ctc_shares(const T* a, const T* b, const T* y, T* out, int64_t n, T shift) {
  each_lanes(out, n, [=](auto at) INLINE_LAMBDA {
    const V<T> sum = at(a) + at(b);  // -infinity: no alignment is here, whatever y and shift are
    const auto none = sum == all(T(-__builtin_inf()));
    return none ? all(T(0)) : exp_nonpositive(sum - at(y) + shift);
  });
}

// out[i] = e^x[i], of x[i] <= 80
template <class T>
void exp_row(const T* x, T* out, int64_t n) {
  each_lanes(out, n, [=](auto at) INLINE_LAMBDA { return exp_nonpositive(at(x)); });
}
