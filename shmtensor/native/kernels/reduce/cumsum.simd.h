// Running sums of float32, made in double. Included inside a level's namespace, after vector.simd.h.

// The lanes moved up by S, zeros below.
template <int S>
INLINE V<double> moved_up(V<double> v) {
  typename Vec<double>::bits at;
  for (int l = 0; l < kLanes<double>; ++l) at[l] = l < S ? l : kLanes<double> + l - S;
  const V<double> zero = {};
  return __builtin_shuffle(zero, v, at);
}

// Within a vector by moving it up, so that only the total so far is a chain.
inline void running_sums(const float* x, float* out, int64_t n, double total) {
  constexpr int kL = kLanes<double>;
  int64_t i = 0;
  for (; i + kL <= n; i += kL) {
    V<double> v = widened(x + i);
    v += moved_up<1>(v);
    if (kL > 2) v += moved_up<2>(v);
    if (kL > 4) v += moved_up<4>(v);
    *reinterpret_cast<LooseFew*>(out + i) = __builtin_convertvector(v + total, Few);
    total += v[kL - 1];
  }
  for (; i < n; ++i) {
    total += static_cast<double>(x[i]);
    out[i] = static_cast<float>(total);
  }
}
