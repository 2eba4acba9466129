// Direct convolution in register tiles. Included inside a level's namespace, after vector.simd.h.
//
// A tile of results, some filters by some vectors of neighbouring pixels, stays in registers during the sum over channels
// and taps. A pixel is loaded at any address, so a tap is an offset and no columns are written.

#if defined(__AVX512F__)
constexpr int kTileRows = 8;
#else
constexpr int kTileRows = 4;
#endif

// Vectors of pixels beside each other: the accumulators, one vector per column and a broadcast number fit in registers.
constexpr int tile_vectors(int rows) {
#if defined(__AVX512F__)
  return rows <= 3 ? 8 : rows == 4 ? 6 : rows <= 6 ? 4 : 3;
#else
  return rows == 1 ? 8 : rows == 2 ? 4 : 3;
#endif
}

template <class T>
INLINE V<T> broadcast(T x) {
  return x - V<T>{};  // x - 0 is x; x + 0 would change -0, so the compiler would have to add
}

template <class T, int kRows, int kVectors>
INLINE void conv_tile(const ConvTile<T>& t, int64_t at) {
  const int64_t w_row = t.w_row;
  V<T> sums[kRows][kVectors] = {};
  const T *x = t.x + at, *w = t.w;
  for (int64_t c = 0; c < t.channels; ++c, x += t.x_channel, w += t.w_channel) {
    for (const ConvTap *tap = t.tap, *end = tap + t.taps; tap != end; ++tap) {
      const T *pixel = x + tap->x, *filter = w + tap->w;
      V<T> pixels[kVectors];
#pragma GCC unroll 8
      for (int v = 0; v < kVectors; ++v) pixels[v] = load(pixel + v * kLanes<T>);
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) {
        const V<T> f = broadcast(filter[r * w_row]);
#pragma GCC unroll 8
        for (int v = 0; v < kVectors; ++v) sums[r][v] += f * pixels[v];
      }
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) {
      T* y = t.y + r * t.y_row + at + v * kLanes<T>;
      store<T>(y, t.add ? load(y) + sums[r][v] : sums[r][v]);
    }
  }
}

// The tiles of pixels [at, end); narrower tiles at the end.
template <class T, int kRows, int kVectors>
INLINE void conv_tile_row(const ConvTile<T>& t, int64_t at, int64_t end) {
  constexpr int64_t kStep = kVectors * kLanes<T>;
  for (; at + kStep <= end || (kVectors == 1 && at < end); at += kStep) conv_tile<T, kRows, kVectors>(t, at);
  if constexpr (kVectors > 1) conv_tile_row<T, kRows, kVectors == 3 ? 2 : kVectors / 2>(t, at, end);
}

template <class T, template <class, int> class Body, class Tile>
INLINE void with_rows(const Tile& t, int64_t rows) {
  switch (rows) {
    case 1: return Body<T, 1>::run(t);
    case 2: return Body<T, 2>::run(t);
    case 3: return Body<T, 3>::run(t);
    case 4: return Body<T, 4>::run(t);
#if defined(__AVX512F__)
    case 5: return Body<T, 5>::run(t);
    case 6: return Body<T, 6>::run(t);
    case 7: return Body<T, 7>::run(t);
    case 8: return Body<T, 8>::run(t);
#endif
  }
}

template <class T, int kRows>
struct ForwardTile {
  static void run(const ConvTile<T>& t) { conv_tile_row<T, kRows, tile_vectors(kRows)>(t, 0, t.n); }
};

// The products of a sum in registers: the pixels of so many stay in the first-level cache for all filters, and rounding
// errors grow with the length of a sum.
constexpr int64_t kSumLength = 256;

template <class T>
void conv_tiles(const ConvTile<T>& tile, int64_t rows) {
  const int64_t block = !tile.taps ? tile.channels : tile.taps < kSumLength ? kSumLength / tile.taps : 1;
  const int64_t step = rows > kTileRows ? tile_vectors(kTileRows) * kLanes<T> : tile.n;
  ConvTile<T> t = tile;
  for (int64_t c = 0; c < tile.channels; c += block, t.add = true) {
    t.channels = tile.channels - c < block ? tile.channels - c : block;
    for (int64_t at = 0; at < tile.n; at += step) {
      t.n = tile.n - at < step ? tile.n - at : step;
      t.x = tile.x + c * t.x_channel + at;
      for (int64_t r = 0; r < rows; r += kTileRows) {
        t.w = tile.w + r * t.w_row + c * t.w_channel;
        t.y = tile.y + r * t.y_row + at;
        with_rows<T, ForwardTile>(t, rows - r < kTileRows ? rows - r : kTileRows);
      }
    }
  }
}

// Folds the groups of 2 n lanes of two vectors in half; the groups of b follow those of a.
template <class T, int n>
INLINE V<T> fold(V<T> a, V<T> b) {
  typename Vec<T>::bits low = {}, high = {};
  for (int i = 0; i < kLanes<T>; ++i) low[i] = i / n * 2 * n + i % n, high[i] = low[i] + n;
  return __builtin_shuffle(a, b, low) + __builtin_shuffle(a, b, high);
}

// sums[i] = the sum of the lanes of v[i], for a power of two of vectors, which become `kVectors` of groups of 2 n lanes.
template <class T, int kCount, int kVectors = kCount, int n = kLanes<T> / 2>
INLINE void sum_rows(const V<T>* v, T* sums) {
  if constexpr (n == 0) {
    for (int i = 0; i < kCount; ++i) sums[i] = v[i / kLanes<T>][i % kLanes<T>];
  } else {
    constexpr int kNext = kVectors > 1 ? kVectors / 2 : 1;
    V<T> folded[kNext];
#pragma GCC unroll 8
    for (int i = 0; i < kNext; ++i) folded[i] = fold<T, n>(v[2 * i], v[kVectors > 1 ? 2 * i + 1 : 0]);
    sum_rows<T, kCount, kNext, n / 2>(folded, sums);
  }
}

// The compiler would load the operand of several multiply-adds anew for each, which takes longer than the multiply-adds.
template <class Vector>
INLINE void keep_in_register(Vector* v) {
#if defined(__x86_64__)
  __asm__("" : "+v"(*v));
#elif defined(__aarch64__)
  __asm__("" : "+w"(*v));
#endif
}

// w[r * w_row + s] += the sum of the lanes of sums[s][r]. Not inline: its constants would take registers from the sums.
template <class T, int kFolded>
[[gnu::noinline]] void add_row_sums(const V<T> (*sums)[kFolded], int rows, int columns, T* w, int64_t w_row) {
  for (int s = 0; s < columns; ++s) {
    T totals[kFolded];
    sum_rows<T, kFolded>(sums[s], totals);
    for (int r = 0; r < rows; ++r) w[r * w_row + s] += totals[r];
  }
}

// w[r][j] += the sum over pixels of y[r] and of x at column j's offset.
template <class T, int kRows, int kColumns>
INLINE void conv_weight_tile(const ConvWeightTile<T>& t, int64_t j) {
  constexpr int kFolded = kRows <= 1 ? 1 : kRows <= 2 ? 2 : kRows <= 4 ? 4 : 8;
  V<T> sums[kColumns][kRows] = {};
  const int64_t y_row = t.y_row;
  for (int64_t i = 0; i < t.planes; ++i) {
    const T* x[kColumns];
#pragma GCC unroll 3
    for (int s = 0; s < kColumns; ++s) x[s] = t.x + t.column[j + s] + i * t.x_plane;
    const T* y = t.y + i * t.y_plane;
    for (int64_t p = 0; p < t.n; p += kLanes<T>) {
      V<T> pixels[kColumns];
#pragma GCC unroll 3
      for (int s = 0; s < kColumns; ++s) pixels[s] = load(x[s] + p);
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) {
        V<T> g = load(y + r * y_row + p);
        keep_in_register(&g);
#pragma GCC unroll 3
        for (int s = 0; s < kColumns; ++s) sums[s][r] += g * pixels[s];
      }
    }
  }
  V<T> folded[kColumns][kFolded];
#pragma GCC unroll 3
  for (int s = 0; s < kColumns; ++s) {
#pragma GCC unroll 8
    for (int r = 0; r < kFolded; ++r) folded[s][r] = r < kRows ? sums[s][r] : V<T>{};
  }
  add_row_sums<T, kFolded>(folded, kRows, kColumns, t.w + j, t.w_row);
}

template <class T, int kRows>
struct WeightTile {
  static void run(const ConvWeightTile<T>& t) {
    int64_t j = 0;
    for (; j + 3 <= t.columns; j += 3) conv_weight_tile<T, kRows, 3>(t, j);
    if (j + 2 <= t.columns) conv_weight_tile<T, kRows, 2>(t, j);
    if (t.columns - j == 1) conv_weight_tile<T, kRows, 1>(t, j);
  }
};

template <class T>
void conv_weight_tiles(const ConvWeightTile<T>& tile, int64_t rows) {
  ConvWeightTile<T> t = tile;
  for (; rows > 0; rows -= kTileRows, t.w += kTileRows * t.w_row, t.y += kTileRows * t.y_row)
    with_rows<T, WeightTile>(t, rows < kTileRows ? rows : kTileRows);
}

// Rows of `width` elements: `left` zeros, every step-th of n pixels, zeros. Up to one vector behind a row is overwritten.
template <class T>
void load_rows(const T* x, int64_t x_row, int64_t step, T* out, int64_t out_row, int64_t rows, int64_t left, int64_t n,
               int64_t width) {
  const V<T> zero = {};
  typename Vec<T>::bits even = {};
  for (int i = 0; i < kLanes<T>; ++i) even[i] = 2 * i;
  for (int64_t r = 0; r < rows; ++r, x += x_row, out += out_row) {
    for (int64_t i = 0; i < left; i += kLanes<T>) store<T>(out + i, zero);
    T* to = out + left;
    if (step == 1) {
      int64_t i = 0;
      for (; i + kLanes<T> <= n; i += kLanes<T>) store<T>(to + i, load(x + i));
      if (i < n) store<T>(to + i, load_part(x + i, n - i, T(0)));
    } else if (step == 2) {
      int64_t i = 0;
      for (; i + kLanes<T> < n; i += kLanes<T>)  // not the last, which would read behind the row
        store<T>(to + i, __builtin_shuffle(load(x + 2 * i), load(x + 2 * i + kLanes<T>), even));
      const int64_t left_over = 2 * (n - i) - 1;
      if (left_over > kLanes<T>) {
        store<T>(to + i,
                 __builtin_shuffle(load(x + 2 * i), load_part(x + 2 * i + kLanes<T>, left_over - kLanes<T>, T(0)), even));
      } else if (left_over > 0) {
        store<T>(to + i, __builtin_shuffle(load_part(x + 2 * i, left_over, T(0)), V<T>{}, even));
      }
    } else {
      for (int64_t i = 0; i < n; ++i) to[i] = x[i * step];
    }
    for (int64_t i = left + n; i < width; i += kLanes<T>) store<T>(out + i, zero);
  }
}

// Transposes kLanes<T> vectors: each step interleaves the first half of the vectors with the second, by lanes.
template <class T>
INLINE void transpose_block(V<T>* x) {
  constexpr int n = kLanes<T>;
  typename Vec<T>::bits low, high;
  for (int k = 0; k < n; ++k) low[k] = k % 2 * n + k / 2, high[k] = low[k] + n / 2;
#pragma GCC unroll 4
  for (int width = n; width > 1; width /= 2) {
    V<T> y[n];
#pragma GCC unroll 8
    for (int i = 0; i < n / 2; ++i) {
      y[2 * i] = __builtin_shuffle(x[i], x[i + n / 2], low);
      y[2 * i + 1] = __builtin_shuffle(x[i], x[i + n / 2], high);
    }
#pragma GCC unroll 16
    for (int i = 0; i < n; ++i) x[i] = y[i];
  }
}

// out[place[p] + i] = x[i * distance + p] for the pixels p of some images i.
template <class T>
void interleave(const T* x, int64_t distance, int64_t images, const int64_t* place, int64_t pixels, T* out) {
  constexpr int64_t n = kLanes<T>;
  for (int64_t i = 0; i < images; i += n, x += n * distance, out += n) {
    const int64_t count = images - i < n ? images - i : n;
    for (int64_t p = 0; p < pixels; p += n) {
      if (pixels - p < n) {
        for (int64_t k = 0; k < count; ++k) {
          for (int64_t q = p; q < pixels; ++q) out[place[q] + k] = x[k * distance + q];
        }
        break;
      }
      V<T> block[n];
#pragma GCC unroll 16
      for (int k = 0; k < n; ++k) block[k] = k < count ? load(x + k * distance + p) : V<T>{};
      transpose_block<T>(block);
      if (count < n) {
#pragma GCC unroll 16
        for (int k = 0; k < n; ++k) store_part(out + place[p + k], block[k], count);
      } else {
#pragma GCC unroll 16
        for (int k = 0; k < n; ++k) store<T>(out + place[p + k], block[k]);
      }
    }
  }
}

// y[i * distance + p] = x[place[p] + i] + bias. Up to one vector behind the last image is read.
template <class T>
void deinterleave(const T* x, const int64_t* place, int64_t pixels, T* y, int64_t distance, int64_t images, T bias) {
  constexpr int64_t n = kLanes<T>;
  const V<T> b = broadcast(bias);
  for (int64_t i = 0; i < images; i += n, y += n * distance, x += n) {
    const int64_t count = images - i < n ? images - i : n;
    for (int64_t p = 0; p < pixels; p += n) {
      if (pixels - p < n) {
        for (int64_t k = 0; k < count; ++k) {
          for (int64_t q = p; q < pixels; ++q) y[k * distance + q] = x[place[q] + k] + bias;
        }
        break;
      }
      V<T> block[n];
#pragma GCC unroll 16
      for (int k = 0; k < n; ++k) block[k] = load(x + place[p + k]);
      transpose_block<T>(block);
#pragma GCC unroll 16
      for (int k = 0; k < n; ++k) {
        if (k < count) store<T>(y + k * distance + p, block[k] + b);
      }
    }
  }
}

// Rows of `width` elements, y[i * phases + phase] = x[phase][i] + bias. Up to one vector behind a row of x is read.
template <class T>
void store_rows(const T* x, int64_t x_row, int64_t x_phase, int64_t phases, T* y, int64_t y_row, int64_t rows, int64_t width,
                T bias) {
  const V<T> b = broadcast(bias);
  typename Vec<T>::bits pairs = {};
  for (int i = 0; i < kLanes<T>; ++i) pairs[i] = i % 2 * kLanes<T> + i / 2;
  for (int64_t r = 0; r < rows; ++r, x += x_row, y += y_row) {
    if (phases == 1) {
      int64_t i = 0;
      for (; i + kLanes<T> <= width; i += kLanes<T>) store<T>(y + i, load(x + i) + b);
      if (i < width) store_part(y + i, load(x + i) + b, width - i);
    } else if (phases == 2) {
      for (int64_t i = 0; i < width; i += kLanes<T>) {
        const V<T> v = __builtin_shuffle(load(x + i / 2), load(x + x_phase + i / 2), pairs) + b;
        if (i + kLanes<T> <= width) {
          store<T>(y + i, v);
        } else {
          store_part(y + i, v, width - i);
        }
      }
    } else {
      for (int64_t p = 0; p < phases; ++p) {
        for (int64_t i = p, j = 0; i < width; i += phases, ++j) y[i] = x[p * x_phase + j] + bias;
      }
    }
  }
}
