// Sums of distances and of their squares from a center, for every numeric type. Included inside a level's namespace, after
// vector.simd.h.

template <int kPower, class T>
INLINE T moment_term(T x, T center) {
  const T d = x - center;
  return kPower == 2 ? d * d : d < 0 ? -d : d;
}

// The sum of |x - center| or (x - center)^2: in lanes, at most 4096 elements an accumulator.
template <class T, int kPower>
double moment(const T* x, int64_t n, T center) {
  constexpr int kL = 128 / static_cast<int>(sizeof(T));
  double total = 0;
  for (int64_t start = 0; start < n; start += 4096) {
    const int64_t stop = n - start < 4096 ? n : start + 4096;
    T acc[kL] = {};
    int64_t i = start;
    for (; i + kL <= stop; i += kL) {
      for (int l = 0; l < kL; ++l) {
        acc[l] += moment_term<kPower>(x[i + l], center);
      }
    }
    double sum = 0;
    for (int l = 0; l < kL; ++l) sum += static_cast<double>(acc[l]);
    for (; i < stop; ++i) {
      sum += static_cast<double>(moment_term<kPower>(x[i], center));
    }
    total += sum;
  }
  return total;
}

// acc[c] += |x - centers[c]| or (x - centers[c])^2 over m rows.
template <class T, int kPower>
void moment_columns(const T* x, const T* centers, T* __restrict acc, int64_t m, int64_t width, int64_t stride) {
  for (int64_t k = 0; k < m; ++k, x += stride) {
    for (int64_t c = 0; c < width; ++c) {
      acc[c] += moment_term<kPower>(x[c], centers[c]);
    }
  }
}
