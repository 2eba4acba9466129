// Images read at the points of a grid. Included inside a level's namespace, after vector.simd.h.
//
// The neighbours of a block of points and their weights are computed once, dimension by dimension, and used in all
// channels.

constexpr int kSamplePoints = kSampleBlock;

template <class T>
using SampleBits = typename Vec<T>::bits;

#if defined(__AVX512F__)
template <class T, int kTaps>
constexpr bool kReadsPairs = sizeof(T) == 4 && kTaps > 1;
#else
template <class T, int kTaps>
constexpr bool kReadsPairs = false;
#endif

// The neighbours of a block of points, kTaps in each of kDims dimensions: offsets into the image (kOutside: there is no
// element), weights and, bicubic, their derivatives. The derivatives of the points by the grid's numbers are slopes.
//
// Two neighbours in a row of the image are read together, as 64 bits, since a gather costs by the number of its lanes:
// both are among the elements `pair` and `pair` + 1 of the row, where `pick` finds them in a vector of pairs (-1: there is
// no element). Not in rows of one element.
template <class T, int kDims, int kTaps>
struct Neighbours {
  RowNumber<T> at[kDims][kTaps][kSamplePoints];
  T weight[kDims][kTaps][kSamplePoints];
  T derivative[kDims][kTaps == 4 ? kTaps : 1][kSamplePoints];
  T slope[kDims][kSamplePoints];
  bool has_pairs;
  RowNumber<T> pair[kReadsPairs<T, kTaps> ? kTaps / 2 : 1][kSamplePoints];
  RowNumber<T> pick[kReadsPairs<T, kTaps> ? kTaps : 1][kSamplePoints];
};

constexpr int32_t kOutside = -(1 << 29);  // stays negative when offsets of other dimensions are added

// The elements of an image at offsets; 0 where they are negative.
template <class T>
INLINE V<T> elements_at(const T* image, SampleBits<T> at) {
#if defined(__AVX512F__)
  if constexpr (sizeof(T) == 4) {
    const __mmask16 inside = _mm512_cmpge_epi32_mask((__m512i)at, _mm512_setzero_si512());
    return (V<T>)_mm512_mask_i32gather_ps(_mm512_setzero_ps(), inside, (__m512i)at, image, 4);
  } else {
    const __mmask8 inside = _mm512_cmpge_epi64_mask((__m512i)at, _mm512_setzero_si512());
    return (V<T>)_mm512_mask_i64gather_pd(_mm512_setzero_pd(), inside, (__m512i)at, image, 8);
  }
#else
  T lanes[kLanes<T>];
  for (int i = 0; i < kLanes<T>; ++i) lanes[i] = at[i] >= 0 ? image[at[i]] : 0;
  return load(lanes);
#endif
}

template <class T>
INLINE SampleBits<T> load_offsets(const RowNumber<T>* p) {
  SampleBits<T> v;
  __builtin_memcpy(&v, p, sizeof v);
  return v;
}

INLINE float floor_of(float x) { return __builtin_floorf(x); }
INLINE double floor_of(double x) { return __builtin_floor(x); }
INLINE float nearest_of(float x) { return __builtin_rintf(x); }
INLINE double nearest_of(double x) { return __builtin_rint(x); }

// Maps points into the image, [0, size - 1]; a NaN becomes 0. At a border the slope is 0.
template <class T, bool kReflect>
void map_into_image(T* x, T* slope, int64_t n, T size, bool align_corners) {
  const T low = align_corners ? T(0) : T(-0.5), span = align_corners ? size - 1 : size, last = size - 1;
  const T period = span > 1 ? span : T(1);
  for (int64_t p = 0; p < n; ++p) {
    T v = x[p], s = slope[p];
    if (kReflect) {
      const T from_low = v - low, distance = from_low < 0 ? -from_low : from_low;
      const T periods = floor_of(distance / period), offset = distance - periods * span;
      const bool is_odd = periods - 2 * floor_of(periods / 2) != 0;
      v = span > 0 ? (is_odd ? span - offset : offset) + low : T(0);
      s = span > 0 ? (is_odd == (from_low < 0) ? s : -s) : T(0);
    }
    slope[p] = v > 0 && v < last ? s : T(0);
    v = v > 0 ? v : T(0);
    x[p] = v < last ? v : last;
  }
}

// The element of an integer coordinate beyond the image's border, or of its reflection.
INLINE int64_t pad_coordinate(int64_t i, int64_t n, bool reflects, bool align_corners) {
  if (i >= 0 && i < n) return i;
  if (!reflects || n == 1) return i < 0 ? 0 : n - 1;
  const int64_t m = i >= 0 ? i : align_corners ? -i : -i - 1, span = align_corners ? n - 1 : n, remainder = m % span;
  return m / span % 2 ? n - 1 - remainder : remainder;
}

template <class T>
INLINE T cubic_far(T x) {
  constexpr T a = -0.75;
  return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a;
}
template <class T>
INLINE T cubic_near(T x) {
  constexpr T a = -0.75;
  return ((a + 2) * x - (a + 3)) * x * x + 1;
}
template <class T>
INLINE T cubic_far_derivative(T x) {
  constexpr T a = -0.75;
  return (3 * a * x - 10 * a) * x + 8 * a;
}
template <class T>
INLINE T cubic_near_derivative(T x) {
  constexpr T a = -0.75;
  return (3 * (a + 2) * x - 2 * (a + 3)) * x;
}

// The neighbours of n points in one dimension; x are the grid's numbers, which are overwritten.
template <class T, int kTaps>
void find_neighbours(const GridSample<T>& s, int64_t size, int64_t stride, int64_t n, T* __restrict x,
                     RowNumber<T> (*__restrict at)[kSamplePoints], T (*__restrict weight)[kSamplePoints],
                     T (*__restrict derivative)[kSamplePoints], T* __restrict slope) {
  const T real_size = static_cast<T>(size), scale = (s.align_corners ? real_size - 1 : real_size) / 2;
  for (int64_t p = 0; p < n; ++p) {
    x[p] = s.align_corners ? (x[p] + 1) * scale : ((x[p] + 1) * real_size - 1) / 2;
    slope[p] = scale;
  }
  const bool pads = s.padding != SamplePadding::Zeros, reflects = s.padding == SamplePadding::Reflection;
  if (kTaps < 4 && pads)
    reflects ? map_into_image<T, true>(x, slope, n, real_size, s.align_corners)
             : map_into_image<T, false>(x, slope, n, real_size, s.align_corners);
  typedef RowNumber<T> I;
  const I limit = static_cast<I>(size), step = static_cast<I>(stride);
  I first[kSamplePoints];
  for (int64_t p = 0; p < n; ++p) {
    const T low = kTaps == 1 ? nearest_of(x[p]) : floor_of(x[p]), t = x[p] - low;
    T index = low > T(-1e9) ? low : T(-1e9);  // also a NaN
    index = index < T(1e9) ? index : T(1e9);
    first[p] = static_cast<I>(index) - (kTaps == 4);
    if constexpr (kTaps == 2) {
      weight[0][p] = 1 - t, weight[1][p] = t;
    } else if constexpr (kTaps == 4) {
      weight[0][p] = cubic_far(t + 1), weight[1][p] = cubic_near(t);
      weight[2][p] = cubic_near(1 - t), weight[3][p] = cubic_far(2 - t);
      derivative[0][p] = cubic_far_derivative(t + 1), derivative[1][p] = cubic_near_derivative(t);
      derivative[2][p] = -cubic_near_derivative(1 - t), derivative[3][p] = -cubic_far_derivative(2 - t);
    }
  }
  if (kTaps == 4 && pads) {
    for (int k = 0; k < kTaps; ++k)
      for (int64_t p = 0; p < n; ++p)
        at[k][p] = static_cast<I>(pad_coordinate(first[p] + k, size, reflects, s.align_corners)) * step;
    return;
  }
  for (int k = 0; k < kTaps; ++k) {
    for (int64_t p = 0; p < n; ++p) {
      const I i = first[p] + k;
      at[k][p] = i >= 0 && i < limit ? i * step : I(kOutside);
    }
  }
}

// The pairs of the last dimension's neighbours.
template <class T, int kDims, int kTaps>
INLINE void find_pairs(int64_t width, int64_t n, Neighbours<T, kDims, kTaps>* nb) {
  typedef RowNumber<T> I;
  const I last = static_cast<I>(width) - 2;
  for (int k = 0; k < kTaps; k += 2) {
    const I *a = nb->at[kDims - 1][k], *b = nb->at[kDims - 1][k + 1];
    for (int64_t p = 0; p < n; ++p) {
      const I both = a[p] < b[p] ? a[p] : b[p], one = a[p] < b[p] ? b[p] : a[p];  // -1 and 0, or two that are adjacent
      const I first = both >= 0 ? both : one >= 0 ? one : I(0), start = first < last ? first : last;
      const I lane = 2 * static_cast<I>(p % kLanes<T>) - start;
      nb->pair[k / 2][p] = start;
      nb->pick[k][p] = a[p] >= 0 ? lane + a[p] : I(-1);
      nb->pick[k + 1][p] = b[p] >= 0 ? lane + b[p] : I(-1);
    }
  }
}

// The neighbours of n points, the numbers of a grid; up to a whole vector those of the point 0 are added.
template <class T, int kDims, int kTaps>
void find_neighbours(const GridSample<T>& s, const T* grid, int64_t n, Neighbours<T, kDims, kTaps>* to) {
  T points[kSamplePoints * kDims], x[kSamplePoints];
  __builtin_memcpy(points, grid, sizeof(T) * static_cast<size_t>(n * kDims));  // read once: another process may write to it
  const int64_t rounded = (n + kLanes<T> - 1) / kLanes<T> * kLanes<T>;
  for (int64_t i = n * kDims; i < rounded * kDims; ++i) points[i] = 0;
  int64_t stride = 1;
  for (int d = kDims - 1; d >= 0; --d) {
    for (int64_t p = 0; p < rounded; ++p) x[p] = points[p * kDims + kDims - 1 - d];
    find_neighbours<T, kTaps>(s, s.size[d], stride, rounded, x, to->at[d], to->weight[d], to->derivative[d], to->slope[d]);
    stride *= s.size[d];
  }
  to->has_pairs = kReadsPairs<T, kTaps> && s.size[kDims - 1] > 1;
  if constexpr (kReadsPairs<T, kTaps>)
    if (to->has_pairs) find_pairs(s.size[kDims - 1], rounded, to);
}

// The neighbours in one row of the image, at offsets `base`, of the points from p on.
template <class T, int kDims, int kTaps>
INLINE void row_elements(const Neighbours<T, kDims, kTaps>& nb, const T* image, int64_t p, SampleBits<T> base,
                         V<T>* elements) {
#if defined(__AVX512F__)
  if constexpr (kReadsPairs<T, kTaps>) {
    if (nb.has_pairs) {
#pragma GCC unroll 2
      for (int k = 0; k < kTaps; k += 2) {
        const __m512i at = (__m512i)(base + load_offsets<T>(nb.pair[k / 2] + p)), zero = _mm512_setzero_si512();
        const unsigned inside = _mm512_cmpge_epi32_mask(at, zero);
        const __m512d none = _mm512_setzero_pd();
        const __m512 low = _mm512_castpd_ps(
            _mm512_mask_i32gather_pd(none, static_cast<__mmask8>(inside), _mm512_castsi512_si256(at), image, 4));
        const __m512 high = _mm512_castpd_ps(
            _mm512_mask_i32gather_pd(none, static_cast<__mmask8>(inside >> 8), _mm512_extracti64x4_epi64(at, 1), image, 4));
#pragma GCC unroll 2
        for (int j = k; j < k + 2; ++j) {
          const __m512i pick = (__m512i)load_offsets<T>(nb.pick[j] + p);
          elements[j] = (V<T>)_mm512_maskz_permutex2var_ps(_mm512_cmpge_epi32_mask(pick, zero), low, pick, high);
        }
      }
      return;
    }
  }
#endif
#pragma GCC unroll 4
  for (int k = 0; k < kTaps; ++k) elements[k] = elements_at<T>(image, base + load_offsets<T>(nb.at[kDims - 1][k] + p));
}

// A vector of values at points, and their derivatives by the points.
template <class T>
struct Sampled {
  V<T> value, derivative[3];
};

// The sum over the neighbours in the dimensions kDim and more of the points from p on.
template <class T, int kDims, int kTaps, int kDim, bool kDerivatives>
INLINE Sampled<T> sample_dims(const Neighbours<T, kDims, kTaps>& nb, const T* image, int64_t p, SampleBits<T> base) {
  Sampled<T> sum = {};
  V<T> elements[kTaps];
  if constexpr (kDim + 1 == kDims) row_elements(nb, image, p, base, elements);
  for (int k = 0; k < kTaps; ++k) {
    Sampled<T> inner = {};
    if constexpr (kDim + 1 < kDims) {
      const SampleBits<T> at = base + load_offsets<T>(nb.at[kDim][k] + p);
      inner = sample_dims<T, kDims, kTaps, kDim + 1, kDerivatives>(nb, image, p, at);
    } else {
      inner.value = elements[k];
    }
    if constexpr (kTaps == 1) return inner;
    const V<T> w = load(nb.weight[kDim][k] + p);
    sum.value += inner.value * w;
    if constexpr (kDerivatives) {
      if constexpr (kTaps == 2) {
        sum.derivative[kDim] = k ? inner.value - sum.derivative[kDim] : inner.value;
      } else {
        sum.derivative[kDim] += inner.value * load(nb.derivative[kDim][k] + p);
      }
      for (int d = kDim + 1; d < kDims; ++d) sum.derivative[d] += inner.derivative[d] * w;
    }
  }
  return sum;
}

// out[c][p]: n points of all channels.
template <class T, int kDims, int kTaps>
void grid_sample_block(const GridSample<T>& s, const T* x, const T* grid, T* out, int64_t n) {
  Neighbours<T, kDims, kTaps> nb;
  find_neighbours(s, grid, n, &nb);
  for (int64_t c = 0; c < s.channels; ++c, x += s.elements, out += s.points) {
    for (int64_t p = 0; p < n; p += kLanes<T>) {
      const V<T> value = sample_dims<T, kDims, kTaps, 0, false>(nb, x, p, SampleBits<T>{}).value;
      if (n - p >= kLanes<T>) {
        store(out + p, value);
      } else {
        store_part(out + p, value, n - p);
      }
    }
  }
}

// to[at] += v, in the order of the lanes.
template <class T>
INLINE void add_at(T* to, SampleBits<T> at, V<T> v) {
  RowNumber<T> offsets[kLanes<T>];
  T values[kLanes<T>];
  __builtin_memcpy(offsets, &at, sizeof at);
  store(values, v);
#pragma GCC unroll 16
  for (int i = 0; i < kLanes<T>; ++i)
    if (offsets[i] >= 0) to[offsets[i]] += values[i];
}

template <class T, int kDims, int kTaps, int kDim>
INLINE void add_dims(const Neighbours<T, kDims, kTaps>& nb, T* to, int64_t p, SampleBits<T> base, V<T> g) {
  for (int k = 0; k < kTaps; ++k) {
    const SampleBits<T> at = base + load_offsets<T>(nb.at[kDim][k] + p);
    const V<T> v = kTaps == 1 ? g : g * load(nb.weight[kDim][k] + p);
    if constexpr (kDim + 1 < kDims) {
      add_dims<T, kDims, kTaps, kDim + 1>(nb, to, p, at, v);
    } else {
      add_at<T>(to, at, v);
    }
  }
}

// gx[c] += the gradients of n points of `channels` channels.
template <class T, int kDims, int kTaps>
void grid_sample_backward_x_block(const GridSample<T>& s, const T* g, const T* grid, T* gx, int64_t n) {
  Neighbours<T, kDims, kTaps> nb;
  find_neighbours(s, grid, n, &nb);
  for (int64_t c = 0; c < s.channels; ++c, gx += s.elements, g += s.points) {
    int64_t p = 0;
    for (; p + kLanes<T> <= n; p += kLanes<T>) add_dims<T, kDims, kTaps, 0>(nb, gx, p, SampleBits<T>{}, load(g + p));
    if (p < n) {
      for (int64_t q = n; q < p + kLanes<T>; ++q) nb.at[0][0][q] = kOutside;
      for (int k = 1; k < kTaps; ++k)
        for (int64_t q = n; q < p + kLanes<T>; ++q) nb.at[0][k][q] = kOutside;
      add_dims<T, kDims, kTaps, 0>(nb, gx, p, SampleBits<T>{}, load_part(g + p, n - p, T(0)));
    }
  }
}

// The gradients of a grid's n points, from all channels.
template <class T, int kDims, int kTaps>
void grid_sample_backward_grid_block(const GridSample<T>& s, const T* g, const T* x, const T* grid, T* g_grid, int64_t n) {
  if constexpr (kTaps == 1) {
    for (int64_t i = 0; i < n * kDims; ++i) g_grid[i] = 0;
  } else {
    Neighbours<T, kDims, kTaps> nb;
    find_neighbours(s, grid, n, &nb);
    T sums[kDims][kSamplePoints];
    __builtin_memset(sums, 0, sizeof sums);
    for (int64_t c = 0; c < s.channels; ++c, x += s.elements, g += s.points) {
      for (int64_t p = 0; p < n; p += kLanes<T>) {
        const V<T> gradient = n - p >= kLanes<T> ? load(g + p) : load_part(g + p, n - p, T(0));
        const Sampled<T> at = sample_dims<T, kDims, kTaps, 0, true>(nb, x, p, SampleBits<T>{});
        for (int d = 0; d < kDims; ++d) store(sums[d] + p, load(sums[d] + p) + gradient * at.derivative[d]);
      }
    }
    for (int d = 0; d < kDims; ++d)
      for (int64_t p = 0; p < n; ++p) g_grid[p * kDims + kDims - 1 - d] = sums[d][p] * nb.slope[d][p];
  }
}

// The number of dimensions and of neighbours in each as constants.
template <class F>
INLINE void for_sample_form(int dims, int taps, F f) {
  using two = SampleConstant<2>;
  using three = SampleConstant<3>;
  if (dims == 3) return taps == 1 ? f(three(), SampleConstant<1>()) : f(three(), two());
  taps == 1 ? f(two(), SampleConstant<1>()) : taps == 2 ? f(two(), two()) : f(two(), SampleConstant<4>());
}

template <class T>
void grid_sample(const GridSample<T>& s, const T* x, const T* grid, T* out, int64_t n) {
  for_sample_form(s.dims, s.taps, [&](auto dims, auto taps) { grid_sample_block<T, dims.n, taps.n>(s, x, grid, out, n); });
}

template <class T>
void grid_sample_backward_x(const GridSample<T>& s, const T* g, const T* grid, T* gx, int64_t n) {
  for_sample_form(s.dims, s.taps,
                  [&](auto dims, auto taps) { grid_sample_backward_x_block<T, dims.n, taps.n>(s, g, grid, gx, n); });
}

template <class T>
void grid_sample_backward_grid(const GridSample<T>& s, const T* g, const T* x, const T* grid, T* g_grid, int64_t n) {
  for_sample_form(s.dims, s.taps, [&](auto dims, auto taps) {
    grid_sample_backward_grid_block<T, dims.n, taps.n>(s, g, x, grid, g_grid, n);
  });
}
