// Rows of images, combined element by element. Included inside a level's namespace, after vector.simd.h.

template <class T, bool kWeights, int kVectors, class Load>
INLINE void combine_vectors(const T* const* rows, const T* weights, int64_t count, Load load_at, V<T>* sums) {
  for (int j = 0; j < kVectors; ++j) {
    const V<T> v = load_at(rows[0], j);
    sums[j] = kWeights ? v * weights[0] : v;
  }
  for (int64_t k = 1; k < count; ++k) {
    for (int j = 0; j < kVectors; ++j) {
      const V<T> v = load_at(rows[k], j);
      sums[j] += kWeights ? v * weights[k] : v;
    }
  }
}

template <class T, bool kWeights>
INLINE void combine_loop(const T* const* rows, const T* weights, int64_t count, T* out, int64_t n) {
  constexpr int kL = kLanes<T>;
  V<T> sums[4];
  int64_t i = 0;
  for (; i + 4 * kL <= n; i += 4 * kL) {
    combine_vectors<T, kWeights, 4>(
        rows, weights, count, [i](const T* p, int j) INLINE_LAMBDA { return load(p + i + j * kL); }, sums);
    for (int j = 0; j < 4; ++j) store(out + i + j * kL, sums[j]);
  }
  for (; i + kL <= n; i += kL) {
    combine_vectors<T, kWeights, 1>(rows, weights, count, [i](const T* p, int) INLINE_LAMBDA { return load(p + i); }, sums);
    store(out + i, sums[0]);
  }
  if (i < n) {
    combine_vectors<T, kWeights, 1>(
        rows, weights, count, [i, n](const T* p, int) INLINE_LAMBDA { return load_part(p + i, n - i, T(0)); }, sums);
    store_part(out + i, sums[0], n - i);
  }
}

// out = the sum of rows[k] * weights[k]; without weights the sum of rows. Without rows 0.
template <class T>
void combine_rows(const T* const* rows, const T* weights, int64_t count, T* out, int64_t n) {
  if (!count) {
    for (int64_t i = 0; i < n; ++i) out[i] = 0;
  } else if (weights) {
    combine_loop<T, true>(rows, weights, count, out, n);
  } else {
    combine_loop<T, false>(rows, weights, count, out, n);
  }
}

// The largest element of rows[0][i], rows[1][i], ... and the number of its row, by max_pool's rule: the first largest one,
// or the last NaN. Returns whether there is a NaN.
template <class T>
bool max_of_rows(const T* const* rows, int64_t count, T* best, RowNumber<T>* row, int64_t n) {
  constexpr int kL = kLanes<T>;
  typedef typename Vec<T>::bits I;
  I any_nan = {};
  for (int64_t i = 0; i < n; i += kL) {
    const int64_t part = n - i < kL ? n - i : kL;
    const auto vector = [=](int64_t k)
                            INLINE_LAMBDA { return part == kL ? load(rows[k] + i) : load_part(rows[k] + i, part, T(0)); };
    V<T> value = vector(0);
    I at = {}, number = {};
    for (int64_t k = 1; k < count; ++k) {
      number += 1;
      const V<T> v = vector(k);
      const auto keeps = v <= value;                         // false beside a NaN
      const auto stays = (value != value) & (v == v);        // a NaN stays unless v is one, too
      value = keeps | stays ? value : v;
      at = keeps | stays ? at : number;
    }
    any_nan |= (I)(value != value);
    if (part == kL) {
      store(best + i, value);
    } else {
      store_part(best + i, value, part);
    }
    __builtin_memcpy(row + i, &at, sizeof(*row) * static_cast<size_t>(part));
  }
  RowNumber<T> lanes[kL], any = 0;
  __builtin_memcpy(lanes, &any_nan, sizeof lanes);
  for (int j = 0; j < kL; ++j) any |= lanes[j];
  return any != 0;
}
