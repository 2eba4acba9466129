// Products of complex numbers, computed in double. Included inside a level's namespace.

// The product of n elements: sixteen independent accumulators, so that no multiplication waits for another.
template <class T>
void complex_prod(const T* x, int64_t n, double* out) {
  constexpr int kL = 16;
  double re[kL], im[kL];
  for (int l = 0; l < kL; ++l) re[l] = 1;
  for (int l = 0; l < kL; ++l) im[l] = 0;
  int64_t i = 0;
  for (; i + kL <= n; i += kL, x += 2 * kL) {
    for (int l = 0; l < kL; ++l) {
      const double a = static_cast<double>(x[2 * l]), b = static_cast<double>(x[2 * l + 1]);
      const double new_re = re[l] * a - im[l] * b;
      im[l] = re[l] * b + im[l] * a;
      re[l] = new_re;
    }
  }
  const int chains = n < kL ? 1 : kL;
  const auto multiply = [&](double a, double b) {
    const double new_re = re[0] * a - im[0] * b;
    im[0] = re[0] * b + im[0] * a;
    re[0] = new_re;
  };
  for (int l = 1; l < chains; ++l) multiply(re[l], im[l]);
  for (; i < n; ++i, x += 2) multiply(static_cast<double>(x[0]), static_cast<double>(x[1]));
  out[0] = re[0];
  out[1] = im[0];
}

// Multiplies re[c], im[c] by the product of column c, for `width` columns of m rows, `stride` elements apart.
template <class T>
void complex_prod_columns(const T* x, double* __restrict re, double* __restrict im, int64_t m, int64_t width,
                          int64_t stride) {
  for (int64_t k = 0; k < m; ++k, x += 2 * stride) {
    for (int64_t c = 0; c < width; ++c) {
      const double a = static_cast<double>(x[2 * c]), b = static_cast<double>(x[2 * c + 1]);
      const double new_re = re[c] * a - im[c] * b;
      im[c] = re[c] * b + im[c] * a;
      re[c] = new_re;
    }
  }
}
