// Products of float32. Included inside a level's namespace, after vector_float64.simd.h.
//
// Note [Chains of float]
// Converting each factor to double is half of the work. On CPUs with FMA, chains of up to kChainLength factors are
// multiplied in float, each with its accumulated rounding error, then the chains pairwise, then the results in double:
// this has nearly double's precision. (With rounding to float alone, products of factors near 1 are biased.) Since
// denormal floats are flushed to 0 (flush_denormals.h), a chain that leaves the normal numbers ends with 0, inf or NaN:
// such a block is computed again in double.

#if defined(__FMA__)
constexpr bool kUsesFloatChains = kCanFlush;
#else
constexpr bool kUsesFloatChains = false;
#endif

constexpr int kChainLength = 24;
constexpr int kChains = 64;  // chains
// elements: groups of chains jump through memory, which the CPU does not predict
constexpr int kPrefetchDistance = 512;
constexpr int kMinChained = 256;   // factors: fewer are multiplied faster in double
// factors: for fewer, half as many and longer chains, since the ends cost the most
constexpr int kMinFullChains = 1536;

// Are the magnitudes in all lanes normal numbers?
INLINE bool all_normal(V<double> v) {
  const V<double> a = absolute<double>(v);
  return !any_lane(~((a >= 2.2250738585072014e-308) & (a <= 1.7976931348623157e308)));
}
INLINE bool all_normal(V<float> v) {
  const V<float> a = absolute<float>(v);
  return !any_lane(~((a >= 1.17549435e-38f) & (a <= 3.40282347e38f)));
}

struct Chain {
  V<float> product, error;
};

INLINE void multiply(Chain& c, V<float> x) {
  const V<float> y = c.product * x;
  c.error = product_error(c.error, x, -product_error(c.product, x, y));
  c.product = y;
}

// The product of two chains, with its error.
INLINE Chain multiply_chains(const Chain& a, const Chain& b) {
  const V<float> y = a.product * b.product;
  const V<float> error = product_error(a.product, b.error, -product_error(a.product, b.product, y));
  return {y, product_error(a.error, b.product, -error)};
}

constexpr int kVectorsOfEight = 8 / kLanes<double>;  // vectors that hold eight doubles

// acc *= the product of x[k, :kWidthInChains] for k < rows; false, and acc is unchanged, if a chain is not normal.
template <int kWidthInChains>
INLINE bool prod_chained_rows(const float* x, int64_t rows, V<double>* acc) {
  constexpr int kL = kLanes<float>, kD = kLanes<double>;
  constexpr int kVectors = kWidthInChains / kL < 4 ? kWidthInChains / kL : 4;  // two registers each
  constexpr int kNext = 16 / kL;  // chain c is multiplied with chain c + 16, at every level
  float products[kWidthInChains / 2], errors[kWidthInChains / 2];
  for (int g = 0; g < kWidthInChains; g += kVectors * kL) {
    Chain c[kVectors];
#pragma GCC unroll 4
    for (int j = 0; j < kVectors; ++j) c[j] = {load(x + g + j * kL), V<float>{}};
    for (int64_t k = 1; k < rows; ++k) {
      const float* from = x + k * kWidthInChains + g;
#pragma GCC unroll 4
      for (int l = 0; l < kVectors * kL; l += 16) __builtin_prefetch(from + kPrefetchDistance + l);
#pragma GCC unroll 4
      for (int j = 0; j < kVectors; ++j) multiply(c[j], load(from + j * kL));
    }
#pragma GCC unroll 2
    for (int i = 0; i < kVectors / 2; ++i) {
      const int j = i / kNext * 2 * kNext + i % kNext;
      const Chain merged = multiply_chains(c[j], c[j + kNext]);
      store<float>(products + g / 2 + i * kL, merged.product);
      store<float>(errors + g / 2 + i * kL, merged.error);
    }
  }
  V<double> chain_products[kVectorsOfEight];  // products of at most four normal floats: normal doubles
  bool all_valid = true;
#pragma GCC unroll 4
  for (int e = 0; e < kVectorsOfEight; ++e) {
    const auto at = [&](int i) INLINE_LAMBDA {
      return load_as_double(products + e * kD + i) + load_as_double(errors + e * kD + i);
    };
    chain_products[e] = at(0) * at(8);
    if constexpr (kWidthInChains == 64) chain_products[e] *= at(16) * at(24);
    all_valid &= all_normal(chain_products[e]);
  }
  if (!all_valid) return false;
#pragma GCC unroll 4
  for (int e = 0; e < kVectorsOfEight; ++e) acc[e] *= chain_products[e];
  return true;
}

// Eight vectors side by side: no multiplication waits for another, and each accumulator takes longer to become
// denormal.
template <class T>
INLINE double prod_in_double(const T* x, int64_t n) {
  constexpr int kL = kLanes<double>, kVectors = 8;
  V<double> acc[kVectors];
  for (int j = 0; j < kVectors; ++j) acc[j] = splat(1.0);
  int64_t i = 0;
  for (; i + kVectors * kL <= n; i += kVectors * kL) {
#pragma GCC unroll 8
    for (int j = 0; j < kVectors; ++j) acc[j] *= load_as_double(x + i + j * kL);
  }
  for (; i + kL <= n; i += kL) acc[0] *= load_as_double(x + i);
#pragma GCC unroll 8
  for (int half = kVectors / 2; half; half /= 2) {
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

// acc *= the product of full blocks of chains; *consumed: their elements. Returns the product of the blocks that were
// computed again in double.
template <int kWidthInChains>
INLINE double prod_blocks(const float* x, int64_t n, int64_t deep, V<double>* acc, int64_t* consumed) {
  double redone_prod = 1;
  int64_t i = 0;
  while (i + kWidthInChains <= n) {
    const int64_t left = (n - i) / kWidthInChains, rows = left < deep ? left : deep;
    if (!prod_chained_rows<kWidthInChains>(x + i, rows, acc)) redone_prod *= prod_in_double(x + i, rows * kWidthInChains);
    i += rows * kWidthInChains;
  }
  *consumed = i;
  return redone_prod;
}

INLINE double prod_chained(const float* x, int64_t n) {
  if (n < kMinChained) return prod_in_double(x, n);
  constexpr int kD = kLanes<double>;
  V<double> acc[kVectorsOfEight];
  for (int e = 0; e < kVectorsOfEight; ++e) acc[e] = splat(1.0);
  int64_t i = 0;
  const double redone_prod = n < kMinFullChains ? prod_blocks<kChains / 2>(x, n, kChainLength / 3 * 4, acc, &i)
                                                : prod_blocks<kChains>(x, n, kChainLength, acc, &i);
  for (; i + 8 <= n; i += 8) {
    for (int e = 0; e < kVectorsOfEight; ++e) acc[e] *= load_as_double(x + i + e * kD);
  }
  double lanes[8];
  for (int e = 0; e < kVectorsOfEight; ++e) store<double>(lanes + e * kD, acc[e]);
  for (int l = 0; i < n; ++i, ++l) lanes[l] *= static_cast<double>(x[i]);
#pragma GCC unroll 3
  for (int half = 4; half; half /= 2) {
    for (int l = 0; l < half; ++l) lanes[l] *= lanes[l + half];
  }
  return lanes[0] * redone_prod;
}

// acc[:] *= the product of x[:, :], kVectors vectors of columns side by side
template <int kVectors>
INLINE void prod_chained_column_block(const float* x, double* acc, int64_t rows, int64_t stride) {
  constexpr int kL = kLanes<float>, kD = kLanes<double>;
  Chain c[kVectors];
#pragma GCC unroll 4
  for (int j = 0; j < kVectors; ++j) c[j] = {load(x + j * kL), V<float>{}};
  for (int64_t r = 1; r < rows; ++r) {
#pragma GCC unroll 4
    for (int j = 0; j < kVectors; ++j) multiply(c[j], load(x + r * stride + j * kL));
  }
#pragma GCC unroll 4
  for (int j = 0; j < kVectors; ++j, x += kL, acc += kL) {
    if (all_normal(c[j].product)) {
      float products[kL], errors[kL];
      store<float>(products, c[j].product);
      store<float>(errors, c[j].error);
      store<double>(acc, load(acc) * (load_as_double(products) + load_as_double(errors)));
      store<double>(acc + kD, load(acc + kD) * (load_as_double(products + kD) + load_as_double(errors + kD)));
      continue;
    }
    for (int64_t r = 0; r < rows; ++r) {
      store<double>(acc, load(acc) * load_as_double(x + r * stride));
      store<double>(acc + kD, load(acc + kD) * load_as_double(x + r * stride + kD));
    }
  }
}

// acc[c] *= the product of x[:, c]
INLINE void prod_chained_columns(const float* x, double* __restrict acc, int64_t m, int64_t width, int64_t stride) {
  constexpr int kL = kLanes<float>;
  for (int64_t k = 0; k < m; k += kChainLength, x += kChainLength * stride) {
    const int64_t rows = m - k < kChainLength ? m - k : kChainLength;
    int64_t c = 0;
    for (; c + 4 * kL <= width; c += 4 * kL) prod_chained_column_block<4>(x + c, acc + c, rows, stride);
    for (; c + kL <= width; c += kL) prod_chained_column_block<1>(x + c, acc + c, rows, stride);
    for (; c < width; ++c) {
      for (int64_t r = 0; r < rows; ++r) acc[c] *= static_cast<double>(x[r * stride + c]);
    }
  }
}
