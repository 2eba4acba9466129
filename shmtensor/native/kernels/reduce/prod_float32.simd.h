// Products of float32. Included inside a level's namespace, after vector_float64.simd.h.
//
// Note [Chains of float]
// A conversion to double for each factor is half of the work. Where the CPU multiplies and adds in one,
// chains of up to kDeep factors are multiplied in float, beside each what its roundings lost, then two by
// two, then all in double: nearly double's precision. (Rounded to float alone, products of factors
// near 1 drift to one side.) While numbers too small for float become 0 (flush_denormals.h), a
// chain that left the normal numbers ends outside of them, since 0, inf and NaN stay what they are
// or become one another: such a block is done again in double.

#if defined(__FMA__)
constexpr bool kChained = kFlushes;
#else
constexpr bool kChained = false;
#endif

constexpr int kDeep = 24;
constexpr int kAbreast = 64;  // chains
constexpr int kAhead = 512;   // elements: groups of chains jump through memory, which the CPU does not foresee
constexpr int kWorth = 256;   // factors: fewer are sooner multiplied in double
constexpr int kFew = 1536;    // factors: in fewer, half as many chains and deeper ones, since their ends cost the most

// Are the sizes in all lanes within the normal numbers?
INLINE bool all_normal(V<double> v) {
  const V<double> a = absolute<double>(v);
  return !somewhere(~((a >= 2.2250738585072014e-308) & (a <= 1.7976931348623157e308)));
}
INLINE bool all_normal(V<float> v) {
  const V<float> a = absolute<float>(v);
  return !somewhere(~((a >= 1.17549435e-38f) & (a <= 3.40282347e38f)));
}

struct Chain {
  V<float> product, lost;
};

INLINE void multiply(Chain& c, V<float> x) {
  const V<float> y = c.product * x;
  c.lost = product_error(c.lost, x, -product_error(c.product, x, y));
  c.product = y;
}

// The product of two chains.
INLINE Chain joined(const Chain& a, const Chain& b) {
  const V<float> y = a.product * b.product;
  const V<float> lost = product_error(a.product, b.lost, -product_error(a.product, b.product, y));
  return {y, product_error(a.lost, b.product, -lost)};
}

constexpr int kEight = 8 / kLanes<double>;  // vectors of eight doubles

// acc *= the product of the rows x[k, kBeside] for k < rows; false, and acc as before, if a chain broke.
template <int kBeside>
INLINE bool chain_rows(const float* x, int64_t rows, V<double>* acc) {
  constexpr int kL = kLanes<float>, kD = kLanes<double>;
  constexpr int kSome = kBeside / kL < 4 ? kBeside / kL : 4;  // two registers each
  constexpr int kNext = 16 / kL;  // chain c is joined with c + 16, at every level
  float ends[kBeside / 2], lost[kBeside / 2];
  for (int g = 0; g < kBeside; g += kSome * kL) {
    Chain c[kSome];
#pragma GCC unroll 4
    for (int j = 0; j < kSome; ++j) c[j] = {load(x + g + j * kL), V<float>{}};
    for (int64_t k = 1; k < rows; ++k) {
      const float* from = x + k * kBeside + g;
#pragma GCC unroll 4
      for (int l = 0; l < kSome * kL; l += 16) __builtin_prefetch(from + kAhead + l);
#pragma GCC unroll 4
      for (int j = 0; j < kSome; ++j) multiply(c[j], load(from + j * kL));
    }
#pragma GCC unroll 2
    for (int i = 0; i < kSome / 2; ++i) {
      const int j = i / kNext * 2 * kNext + i % kNext;
      const Chain both = joined(c[j], c[j + kNext]);
      store<float>(ends + g / 2 + i * kL, both.product);
      store<float>(lost + g / 2 + i * kL, both.lost);
    }
  }
  V<double> ended[kEight];  // four normal floats each: not beyond double's normal numbers
  bool fine = true;
#pragma GCC unroll 4
  for (int e = 0; e < kEight; ++e) {
    const auto at = [&](int i) INLINE_LAMBDA {
      return widened(ends + e * kD + i) + widened(lost + e * kD + i);
    };
    ended[e] = at(0) * at(8);
    if constexpr (kBeside == 64) ended[e] *= at(16) * at(24);
    fine &= all_normal(ended[e]);
  }
  if (!fine) return false;
#pragma GCC unroll 4
  for (int e = 0; e < kEight; ++e) acc[e] *= ended[e];
  return true;
}

// Eight vectors side by side: no multiplication waits for the one before, and none of them gets so small
// so soon that it is a denormal number.
template <class T>
INLINE double product_in_double(const T* x, int64_t n) {
  constexpr int kL = kLanes<double>, kSome = 8;
  V<double> acc[kSome];
  for (int j = 0; j < kSome; ++j) acc[j] = all(1.0);
  int64_t i = 0;
  for (; i + kSome * kL <= n; i += kSome * kL) {
#pragma GCC unroll 8
    for (int j = 0; j < kSome; ++j) acc[j] *= widened(x + i + j * kL);
  }
  for (; i + kL <= n; i += kL) acc[0] *= widened(x + i);
#pragma GCC unroll 8
  for (int half = kSome / 2; half; half /= 2) {
    for (int j = 0; j < half; ++j) acc[j] *= acc[j + half];
  }
  double lanes[kL];
  store<double>(lanes, acc[0]);
  for (int l = 0; i < n; ++i, ++l) lanes[l] *= static_cast<double>(x[i]);
#pragma GCC unroll 4
  for (int half = kL / 2; half; half /= 2) {
    for (int l = 0; l < half; ++l) lanes[l] *= lanes[l + half];
  }
  return lanes[0];
}

// acc *= the blocks of chains, of which *done elements are. Returns the product of the broken ones.
template <int kBeside>
INLINE double multiply_blocks(const float* x, int64_t n, int64_t deep, V<double>* acc, int64_t* done) {
  double redone = 1;
  int64_t i = 0;
  while (i + kBeside <= n) {
    const int64_t left = (n - i) / kBeside, rows = left < deep ? left : deep;
    if (!chain_rows<kBeside>(x + i, rows, acc)) redone *= product_in_double(x + i, rows * kBeside);
    i += rows * kBeside;
  }
  *done = i;
  return redone;
}

INLINE double product_in_chains(const float* x, int64_t n) {
  if (n < kWorth) return product_in_double(x, n);
  constexpr int kD = kLanes<double>;
  V<double> acc[kEight];
  for (int e = 0; e < kEight; ++e) acc[e] = all(1.0);
  int64_t i = 0;
  const double redone = n < kFew ? multiply_blocks<kAbreast / 2>(x, n, kDeep / 3 * 4, acc, &i)
                                 : multiply_blocks<kAbreast>(x, n, kDeep, acc, &i);
  for (; i + 8 <= n; i += 8) {
    for (int e = 0; e < kEight; ++e) acc[e] *= widened(x + i + e * kD);
  }
  double lanes[8];
  for (int e = 0; e < kEight; ++e) store<double>(lanes + e * kD, acc[e]);
  for (int l = 0; i < n; ++i, ++l) lanes[l] *= static_cast<double>(x[i]);
#pragma GCC unroll 3
  for (int half = 4; half; half /= 2) {
    for (int l = 0; l < half; ++l) lanes[l] *= lanes[l + half];
  }
  return lanes[0] * redone;
}

// acc[:] *= the product of x[:, :], a vector of kSome columns side by side
template <int kSome>
INLINE void chain_some_columns(const float* x, double* acc, int64_t rows, int64_t stride) {
  constexpr int kL = kLanes<float>, kD = kLanes<double>;
  Chain c[kSome];
#pragma GCC unroll 4
  for (int j = 0; j < kSome; ++j) c[j] = {load(x + j * kL), V<float>{}};
  for (int64_t r = 1; r < rows; ++r) {
#pragma GCC unroll 4
    for (int j = 0; j < kSome; ++j) multiply(c[j], load(x + r * stride + j * kL));
  }
#pragma GCC unroll 4
  for (int j = 0; j < kSome; ++j, x += kL, acc += kL) {
    if (all_normal(c[j].product)) {
      float ends[kL], lost[kL];
      store<float>(ends, c[j].product);
      store<float>(lost, c[j].lost);
      store<double>(acc, load(acc) * (widened(ends) + widened(lost)));
      store<double>(acc + kD, load(acc + kD) * (widened(ends + kD) + widened(lost + kD)));
      continue;
    }
    for (int64_t r = 0; r < rows; ++r) {
      store<double>(acc, load(acc) * widened(x + r * stride));
      store<double>(acc + kD, load(acc + kD) * widened(x + r * stride + kD));
    }
  }
}

// acc[c] *= the product of x[:, c]
INLINE void chain_columns(const float* x, double* __restrict acc, int64_t m, int64_t width,
                          int64_t stride) {
  constexpr int kL = kLanes<float>;
  for (int64_t k = 0; k < m; k += kDeep, x += kDeep * stride) {
    const int64_t rows = m - k < kDeep ? m - k : kDeep;
    int64_t c = 0;
    for (; c + 4 * kL <= width; c += 4 * kL) chain_some_columns<4>(x + c, acc + c, rows, stride);
    for (; c + kL <= width; c += kL) chain_some_columns<1>(x + c, acc + c, rows, stride);
    for (; c < width; ++c) {
      for (int64_t r = 0; r < rows; ++r) acc[c] *= static_cast<double>(x[r * stride + c]);
    }
  }
}
