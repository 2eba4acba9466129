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

// out[j * out_row + i] = x[i * x_row + j] for `rows` (at most `width`) rows of n columns; 0 for the other i < width. Up to
// a vector behind the end of `out` is overwritten.
template <class T>
void transpose(const T* x, int64_t x_row, int64_t rows, int64_t n, T* out, int64_t out_row, int64_t width) {
  constexpr int kN = kLanes<T>;
  for (int64_t i = 0; i < width; i += kN) {
    for (int64_t j = 0; j < n; j += kN) {
      V<T> lines[kN];
      const int64_t columns = n - j < kN ? n - j : kN;
      for (int r = 0; r < kN; ++r) {
        const T* from = x + (i + r) * x_row + j;
        lines[r] = i + r >= rows ? V<T>{} : columns == kN ? load(from) : load_part(from, columns, T(0));
      }
      transpose_block<T>(lines);
      for (int c = 0; c < columns; ++c) store<T>(out + (j + c) * out_row + i, lines[c]);
    }
  }
}

constexpr int64_t kFilterGroup = 16;    // filters side by side
constexpr int64_t kFilterChannels = 8;  // channels at a time

template <class T>
INLINE void transform_filter_line(V<T> x, V<T> y, V<T> z, V<T>* t) {
  const V<T> even = (x + T(0.5) * z) * T(-1 / 1.5), odd = kA<T> * y * T(-1 / 1.5);
  const V<T> even2 = (x + T(2) * z) * T(1 / 6.0), odd2 = kB<T> * y * T(1 / 6.0);
  t[0] = x;
  t[1] = even + odd;
  t[2] = even - odd;
  t[3] = even2 + odd2;
  t[4] = even2 - odd2;
  t[5] = z;
}

// u[p * u_plane + c * 16 + k], the transforms of `filters` (at most 16, the others are 0), w[k * row + c * step + tap].
template <class T>
void transform_filters(const T* w, int64_t row, int64_t step, int64_t filters, int64_t channels, bool rotated, T* u,
                       int64_t u_plane) {
  T taps[kFilterChannels * 9 * kFilterGroup + kLanes<T>];
  for (int64_t c = 0; c < channels; c += kFilterChannels) {
    const int64_t some = channels - c < kFilterChannels ? channels - c : kFilterChannels;
    if (step == 9) {
      transpose(w + c * 9, row, filters, 9 * some, taps, kFilterGroup, kFilterGroup);
    } else {
      for (int64_t j = 0; j < some; ++j)
        transpose(w + (c + j) * step, row, filters, int64_t(9), taps + j * 9 * kFilterGroup, kFilterGroup, kFilterGroup);
    }
    for (int64_t i = 0; i < some * kFilterGroup; i += kLanes<T>) {
      const int64_t lane = i % kFilterGroup;
      const T* tap = taps + i / kFilterGroup * 9 * kFilterGroup + lane + (rotated ? 8 * kFilterGroup : 0);
      const int64_t next = rotated ? -kFilterGroup : kFilterGroup;
      T* to = u + c * kFilterGroup + i;
      V<T> rows[6][3], t[6];
#pragma GCC unroll 3
      for (int j = 0; j < 3; ++j) {
        transform_filter_line<T>(load(tap + j * next), load(tap + (3 + j) * next), load(tap + (6 + j) * next), t);
#pragma GCC unroll 6
        for (int r = 0; r < 6; ++r) rows[r][j] = t[r];
      }
#pragma GCC unroll 6
      for (int r = 0; r < 6; ++r) {
        transform_filter_line<T>(rows[r][0], rows[r][1], rows[r][2], t);
#pragma GCC unroll 6
        for (int j = 0; j < 6; ++j) store<T>(to + (6 * r + j) * u_plane, t[j]);
      }
    }
  }
}

template <class T>
INLINE void transform_filter_adjoint_line(V<T> t0, V<T> t1, V<T> t2, V<T> t3, V<T> t4, V<T> t5, V<T>* w) {
  const V<T> even = (t1 + t2) * T(-1 / 1.5), odd = (t1 - t2) * T(-1 / 1.5);
  const V<T> even2 = (t3 + t4) * T(1 / 6.0), odd2 = (t3 - t4) * T(1 / 6.0);
  w[0] = t0 + even + even2;
  w[1] = kA<T> * odd + kB<T> * odd2;
  w[2] = T(0.5) * even + T(2) * even2 + t5;
}

// w[c * 9 + tap] of one filter: the adjoint, of numbers u[p * u_plane + c] for channels rounded up to 16.
template <class T>
void transform_filters_adjoint(const T* u, int64_t u_plane, int64_t channels, T* w) {
  constexpr int64_t kN = kLanes<T>;
  T taps[9 * kN], lines[kFilterGroup * kN];
  for (int64_t c = 0; c < channels; c += kN) {
    V<T> rows[3][6], t[3];
#pragma GCC unroll 6
    for (int j = 0; j < 6; ++j) {
      const T* p = u + c + j * u_plane;
      transform_filter_adjoint_line<T>(load(p), load(p + 6 * u_plane), load(p + 12 * u_plane), load(p + 18 * u_plane),
                                       load(p + 24 * u_plane), load(p + 30 * u_plane), t);
#pragma GCC unroll 3
      for (int r = 0; r < 3; ++r) rows[r][j] = t[r];
    }
#pragma GCC unroll 3
    for (int r = 0; r < 3; ++r) {
      transform_filter_adjoint_line<T>(rows[r][0], rows[r][1], rows[r][2], rows[r][3], rows[r][4], rows[r][5], t);
#pragma GCC unroll 3
      for (int j = 0; j < 3; ++j) store<T>(taps + (3 * r + j) * kN, t[j]);
    }
    transpose(taps, kN, int64_t(9), kN, lines, kFilterGroup, kFilterGroup);
    for (int64_t i = 0; i < kN && i < channels - c; ++i)
      __builtin_memcpy(w + (c + i) * 9, lines + i * kFilterGroup, 9 * sizeof(T));
  }
}
