// Cumulative sums of float32, computed in double. Included inside a level's namespace, after vector_float64.simd.h.

// Shifts the lanes up by S and fills with zeros.
template <int S>
INLINE V<double> shift_lanes_up(V<double> v) {
  typename Vec<double>::bits lanes;
  for (int l = 0; l < kLanes<double>; ++l) lanes[l] = l < S ? l : kLanes<double> + l - S;
  const V<double> zero = {};
  return __builtin_shuffle(zero, v, lanes);
}

// Shifted additions within a vector, so that only the running total is a dependency chain.
inline void cumsum(const float* x, float* out, int64_t n, double total) {
  constexpr int kL = kLanes<double>;
  int64_t i = 0;
  for (; i + kL <= n; i += kL) {
    V<double> v = load_as_double(x + i);
    v += shift_lanes_up<1>(v);
    if (kL > 2) v += shift_lanes_up<2>(v);
    if (kL > 4) v += shift_lanes_up<4>(v);
    *reinterpret_cast<LooseHalfWidthFloats*>(out + i) = __builtin_convertvector(v + total, HalfWidthFloats);
    total += v[kL - 1];
  }
  for (; i < n; ++i) {
    total += static_cast<double>(x[i]);
    out[i] = static_cast<float>(total);
  }
}
