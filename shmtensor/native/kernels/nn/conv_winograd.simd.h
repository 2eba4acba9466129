// Winograd's transforms for F(4 x 4, 3 x 3), many tiles side by side. Included inside a level's
// namespace, after vector.simd.h. n is a multiple of 16; planes are at least n elements apart.
//
// Lavin, Gray: Fast algorithms for convolutional neural networks (2015), but with the points 0, +-a, +-b
// and infinity, a^2 = 1/2, b^2 = 2: the error is that of the direct sum (the usual points 0, +-1,
// +-2 lose ten times as much).

template <class T>
constexpr T kA = T(0.70710678118654752440);
template <class T>
constexpr T kB = T(1.41421356237309504880);

// Tiles of one image in `down` rows of `across`: 36 planes of pixels or 16 of results.

// d[6 r + j][tile (i, t)] = x[4 i + r][4 t + j] for r, j < 6.
template <class T>
void split_pixels(const T* __restrict x, int64_t row_size, int64_t down, int64_t across, T* __restrict d, int64_t plane) {
  for (int64_t i = 0; i < down; ++i, d += across) {
    for (int64_t r = 0; r < 6; ++r) {
      const T* row = x + (4 * i + r) * row_size;
      T* to = d + 6 * r * plane;
      if (across < 8) {
        for (int64_t t = 0; t < across; ++t) {
#pragma GCC unroll 6
          for (int j = 0; j < 6; ++j) to[j * plane + t] = row[4 * t + j];
        }
        continue;
      }
      for (int64_t t = 0; t < across; ++t) {
        to[t] = row[4 * t];
        to[plane + t] = row[4 * t + 1];
        to[2 * plane + t] = row[4 * t + 2];
        to[3 * plane + t] = row[4 * t + 3];
      }
      for (int64_t t = 0; t < across; ++t) {
        to[4 * plane + t] = row[4 * t + 4];
        to[5 * plane + t] = row[4 * t + 5];
      }
    }
  }
}

// d[4 r + j][tile (i, t)] = y[4 i + r][4 t + j] for r, j < 4; 0 from `height` and `width` on.
template <class T>
void split_results(const T* __restrict y, int64_t height, int64_t width, int64_t down, int64_t across, T* __restrict d,
                   int64_t plane) {
  for (int64_t row = 0; row < 4 * down; ++row, y += width) {
    T* to = d + row / 4 * across + row % 4 * 4 * plane;
    const int64_t whole = row < height ? width / 4 : 0;
    for (int64_t t = 0; t < whole; ++t) {
      to[t] = y[4 * t];
      to[plane + t] = y[4 * t + 1];
      to[2 * plane + t] = y[4 * t + 2];
      to[3 * plane + t] = y[4 * t + 3];
    }
    for (int64_t t = whole; t < across; ++t) {
      for (int64_t j = 0; j < 4; ++j) to[j * plane + t] = row < height && 4 * t + j < width ? y[4 * t + j] : T(0);
    }
  }
}

// The inverse of split_results, plus bias.
template <class T>
void merge_results(const T* __restrict d, int64_t plane, int64_t across, T* __restrict y, int64_t height, int64_t width,
                   T bias) {
  for (int64_t row = 0; row < height; ++row, y += width) {
    const T* from = d + row / 4 * across + row % 4 * 4 * plane;
    const int64_t whole = width / 4;
    for (int64_t t = 0; t < whole; ++t) {
      y[4 * t] = from[t] + bias;
      y[4 * t + 1] = from[plane + t] + bias;
      y[4 * t + 2] = from[2 * plane + t] + bias;
      y[4 * t + 3] = from[3 * plane + t] + bias;
    }
    for (int64_t i = 4 * whole; i < width; ++i) y[i] = from[i % 4 * plane + whole] + bias;
  }
}

template <class T>
INLINE void transform_input_line(V<T> d0, V<T> d1, V<T> d2, V<T> d3, V<T> d4, V<T> d5, V<T>* t) {
  t[0] = d0 - T(2.5) * d2 + d4;
  V<T> even = d4 - T(2) * d2, odd = kA<T> * (d3 - T(2) * d1);
  t[1] = even + odd;
  t[2] = even - odd;
  even = d4 - T(0.5) * d2, odd = kB<T> * (d3 - T(0.5) * d1);
  t[3] = even + odd;
  t[4] = even - odd;
  t[5] = d1 - T(2.5) * d3 + d5;
}

template <class T>
void transform_input(const T* d, T* v, int64_t n, int64_t d_plane, int64_t v_plane) {
  for (int64_t i = 0; i < n; i += kLanes<T>) {
    V<T> rows[6][6], t[6];
#pragma GCC unroll 6
    for (int c = 0; c < 6; ++c) {
      const T* p = d + i + c * d_plane;
      transform_input_line<T>(load(p), load(p + 6 * d_plane), load(p + 12 * d_plane), load(p + 18 * d_plane),
                              load(p + 24 * d_plane), load(p + 30 * d_plane), t);
#pragma GCC unroll 6
      for (int r = 0; r < 6; ++r) rows[r][c] = t[r];
    }
#pragma GCC unroll 6
    for (int r = 0; r < 6; ++r) {
      transform_input_line<T>(rows[r][0], rows[r][1], rows[r][2], rows[r][3], rows[r][4], rows[r][5], t);
#pragma GCC unroll 6
      for (int c = 0; c < 6; ++c) store<T>(v + i + (r * 6 + c) * v_plane, t[c]);
    }
  }
}

template <class T>
INLINE void transform_output_line(V<T> m0, V<T> m1, V<T> m2, V<T> m3, V<T> m4, V<T> m5, V<T>* y) {
  V<T> s = m1 + m2, d = m1 - m2, u = m3 + m4, e = m3 - m4;
  y[0] = m0 + s + u;
  y[1] = kA<T> * d + kB<T> * e;
  y[2] = T(0.5) * s + T(2) * u;
  y[3] = (T(0.5) * kA<T>)*d + (T(2) * kB<T>)*e + m5;
}

template <class T>
void transform_output(const T* m, T* y, int64_t n, int64_t m_plane, int64_t y_plane) {
  for (int64_t i = 0; i < n; i += kLanes<T>) {
    V<T> rows[4][6], t[4];
#pragma GCC unroll 6
    for (int c = 0; c < 6; ++c) {
      const T* p = m + i + c * m_plane;
      transform_output_line<T>(load(p), load(p + 6 * m_plane), load(p + 12 * m_plane), load(p + 18 * m_plane),
                               load(p + 24 * m_plane), load(p + 30 * m_plane), t);
#pragma GCC unroll 4
      for (int r = 0; r < 4; ++r) rows[r][c] = t[r];
    }
#pragma GCC unroll 4
    for (int r = 0; r < 4; ++r) {
      transform_output_line<T>(rows[r][0], rows[r][1], rows[r][2], rows[r][3], rows[r][4], rows[r][5], t);
#pragma GCC unroll 4
      for (int c = 0; c < 4; ++c) store<T>(y + i + (r * 4 + c) * y_plane, t[c]);
    }
  }
}

template <class T>
INLINE void transform_adjoint_line(V<T> y0, V<T> y1, V<T> y2, V<T> y3, V<T>* m) {
  m[0] = y0;
  V<T> even = y0 + T(0.5) * y2, odd = kA<T> * (y1 + T(0.5) * y3);
  m[1] = even + odd;
  m[2] = even - odd;
  even = y0 + T(2) * y2, odd = kB<T> * (y1 + T(2) * y3);
  m[3] = even + odd;
  m[4] = even - odd;
  m[5] = y3;
}

template <class T>
void transform_output_adjoint(const T* y, T* m, int64_t n, int64_t y_plane, int64_t m_plane) {
  for (int64_t i = 0; i < n; i += kLanes<T>) {
    V<T> rows[6][4], t[6];
#pragma GCC unroll 4
    for (int c = 0; c < 4; ++c) {
      const T* p = y + i + c * y_plane;
      transform_adjoint_line<T>(load(p), load(p + 4 * y_plane), load(p + 8 * y_plane), load(p + 12 * y_plane), t);
#pragma GCC unroll 6
      for (int r = 0; r < 6; ++r) rows[r][c] = t[r];
    }
#pragma GCC unroll 6
    for (int r = 0; r < 6; ++r) {
      transform_adjoint_line<T>(rows[r][0], rows[r][1], rows[r][2], rows[r][3], t);
#pragma GCC unroll 6
      for (int c = 0; c < 6; ++c) store<T>(m + i + (r * 6 + c) * m_plane, t[c]);
    }
  }
}
