// Direct convolution: sums over channels and taps in register tiles, read from a zero-padded copy of a piece of an image.
//
// The convolution and the gradient of its input are the same sum with other steps and shifts:
//
//   result[q * out_step + phase] = sum over channels and taps: weight[tap] * source[q * in_step + shift(tap, phase)]
//
//                        in_step   out_step   shift(tap, phase)
//   convolution          stride    1          tap * dilation - padding
//   gradient of input    1         stride     (phase + padding - tap * dilation) / stride, taps for which it is whole
//
// The copy has a plane for each phase of in_step, so the pixels of a tap for neighbouring results are neighbours, too:
//
//   image --load_rows--> padded[channel][phase][z][y][x] --conv_tiles--> sums[row][z][y][x] --store_rows--> results
//
// where z, y, x run over the padded extent; the sums behind the last result of a row are computed and dropped. Images of
// few pixels are copied side by side instead: padded[channel][phase][z][y][x][image]. A vector holds the same pixel of
// several images, so short rows fill vectors, and sums leave out the taps that are outside the image. Pieces depend on
// shapes alone, and so do the results.
#include <algorithm>
#include <cstring>
#include <vector>

#include "kernels/nn/convolution.h"
#include "kernels/nn/nn_kernel_table.h"
#include "threading/scratch.h"
#include "threading/thread_pool.h"

namespace shmtensor {
namespace {

constexpr int64_t kPanel = 8;             // filters of a register tile
constexpr int64_t kLane = 16;             // sums are computed in vectors of at most this many pixels
constexpr int64_t kSlack = 8 * kLane;     // elements read or written behind a copy
constexpr int64_t kSums = 1 << 17;         // elements of the results of a piece
constexpr int64_t kCopy = 1 << 17;        // elements of a copy, so that it stays in the second-level cache
constexpr int64_t kPixels = 1024;         // pixels of a sum over images
constexpr int64_t kDepth = 256;            // results of a product for the gradient of the weight
constexpr int64_t kTasks = 8;  // a call is divided into as many, if it can be
constexpr int64_t kWork = 1 << 17;  // multiply-adds that are worth a task

int64_t min(int64_t a, int64_t b) { return a < b ? a : b; }
int64_t max(int64_t a, int64_t b) { return a > b ? a : b; }
int64_t divide_up(int64_t a, int64_t b) { return (a + b - 1) / b; }
int64_t round_up(int64_t n, int64_t to) { return divide_up(n, to) * to; }
int64_t product(const int64_t* a) { return a[0] * a[1] * a[2]; }
// The size of nearly equal parts of at most `limit`.
int64_t even_part(int64_t n, int64_t limit) { return divide_up(n, divide_up(n, max(limit, 1))); }

// A distance of planes in memory that does not map them to the same cache sets.
int64_t plane_distance(int64_t n) { return round_up(n, kLane) + (round_up(n, kLane) / kLane % 2 ? 0 : kLane); }

// A tap of one phase of the results: its index in the filter, and the shift of its pixels.
struct PhaseTap {
  int64_t filter, shift[3];
};

// The sum above for one group; steps[i] and the like have one number per dimension.
struct Correlation {
  int64_t images, groups, rows, channels;  // rows (of results) and channels (of the source) of a group
  int64_t source[3], result[3], in_step[3], out_step[3];
  int64_t w_row, w_channel, w_group;  // distances of weights
  int64_t filter_taps;
  std::vector<std::vector<PhaseTap>> taps;  // for each phase of the results
  int64_t low[3], high[3];  // the smallest and largest shift
  int64_t quotients[3];  // values of q

  Correlation(const Convolution& v, bool is_gradient) {
    const int64_t c = v.c / v.groups, k = v.k / v.groups;
    filter_taps = v.taps();
    images = v.n;
    groups = v.groups;
    rows = is_gradient ? c : k;
    channels = is_gradient ? k : c;
    w_row = is_gradient ? filter_taps : c * filter_taps;
    w_channel = is_gradient ? c * filter_taps : filter_taps;
    w_group = k * c * filter_taps;
    for (int i = 0; i < 3; ++i) {
      source[i] = is_gradient ? v.out_size[i] : v.size[i];
      result[i] = is_gradient ? v.size[i] : v.out_size[i];
      in_step[i] = is_gradient ? 1 : v.stride[i];
      out_step[i] = is_gradient ? v.stride[i] : 1;
      quotients[i] = divide_up(result[i], out_step[i]);
      low[i] = INT64_MAX;
      high[i] = INT64_MIN;
    }
    taps.resize(static_cast<size_t>(product(out_step)));
    int64_t phase[3], tap[3];
    for (int64_t p = 0; p < product(out_step); ++p) {
      split(p, out_step, phase);
      for (int64_t t = 0; t < filter_taps; ++t) {
        split(t, v.kernel, tap);
        PhaseTap entry{t, {}};
        bool is_whole = true;
        for (int i = 0; i < 3; ++i) {
          const int64_t at = tap[i] * v.dilation[i] - v.padding[i];
          entry.shift[i] = is_gradient ? (phase[i] - at) / v.stride[i] : at;
          is_whole = is_whole && (!is_gradient || (phase[i] - at) % v.stride[i] == 0);
        }
        if (!is_whole) continue;
        taps[static_cast<size_t>(p)].push_back(entry);
        for (int i = 0; i < 3; ++i) {
          low[i] = min(low[i], entry.shift[i]);
          high[i] = max(high[i], entry.shift[i]);
        }
      }
    }
  }

  // The index `at` of an array of three sizes, in each dimension.
  static void split(int64_t at, const int64_t* size, int64_t* out) {
    out[2] = at % size[2];
    out[1] = at / size[2] % size[1];
    out[0] = at / size[2] / size[1];
  }
  int64_t work() const { return images * groups * rows * channels * filter_taps * product(quotients); }
};

// A box of values of q in some images side by side, and the copy of the source that its sums read.
struct Box {
  int64_t images, size[3];  // of the largest box
  int64_t extent[3], phases[3];  // of the copy: a plane for each phase that some tap reads
  std::vector<int64_t> phase[3];  // their values
  int64_t plane, channel;  // elements of a phase's plane, and of a channel's copy
  std::vector<std::vector<ConvTap>> taps;

  Box(const Correlation& c, int64_t channels, int64_t limit, int64_t run) : images(run) {
    for (int i = 0; i < 3; ++i) {
      size[i] = c.quotients[i];
      for (const auto& list : c.taps) {
        for (const PhaseTap& t : list) {
          const int64_t value = (t.shift[i] - c.low[i]) % c.in_step[i];
          if (plane_of(i, value) == static_cast<int64_t>(phase[i].size())) phase[i].push_back(value);
        }
      }
      phases[i] = static_cast<int64_t>(phase[i].size());
    }
    // Halved in the first dimension that is not one until the copy is small enough.
    measure(c);
    for (int i = 0; i < 3; ++i) {
      const int64_t least = i == 2 ? 4 * kLane : 1;
      while (size[i] > least && channels * channel > limit) {
        size[i] = even_part(c.quotients[i], max(least, size[i] / 2));
        measure(c);
        if (size[i] <= least) break;
      }
    }
    for (const auto& list : c.taps) {
      taps.emplace_back();
      for (const PhaseTap& t : list) {
        int64_t at = 0, number = 0;
        for (int i = 0; i < 3; ++i) {
          const int64_t shift = t.shift[i] - c.low[i];
          number = number * phases[i] + plane_of(i, shift % c.in_step[i]);
          at = at * extent[i] + shift / c.in_step[i];
        }
        taps.back().push_back({number * plane + at, t.filter});
      }
    }
  }

  // The number of the plane of a phase; the number of planes if there is none.
  int64_t plane_of(int dimension, int64_t value) const {
    const auto& values = phase[dimension];
    return std::find(values.begin(), values.end(), value) - values.begin();
  }
  void measure(const Correlation& c) {
    for (int i = 0; i < 3; ++i) extent[i] = size[i] + (c.high[i] - c.low[i]) / c.in_step[i];
    plane = images * product(extent);
    channel = plane_distance(product(phases) * plane);
  }
  // The sums of a plane, with those between the results; also rounded up to vectors.
  int64_t sums(const int64_t* n) const { return (n[1] - 1) * extent[2] + n[2]; }
  int64_t sum_plane() const { return round_up(sums(size), kLane); }
  int64_t count(const Correlation& c) const {
    return divide_up(c.quotients[0], size[0]) * divide_up(c.quotients[1], size[1]) * divide_up(c.quotients[2], size[2]);
  }
  // The beginning and the sizes of box number i.
  void at(const Correlation& c, int64_t i, int64_t* begin, int64_t* n) const {
    const int64_t boxes[3] = {1, divide_up(c.quotients[1], size[1]), divide_up(c.quotients[2], size[2])};
    Correlation::split(i, boxes, begin);
    for (int d = 0; d < 3; ++d) {
      begin[d] *= size[d];
      n[d] = min(size[d], c.quotients[d] - begin[d]);
    }
  }
};

// Copies one channel of some images, `distance` elements apart, under the box that begins at `begin`.
template <class T>
void copy_channel(const Correlation& c, const Box& box, const T* image, int64_t distance, int64_t images,
                  const int64_t* begin, T* out) {
  int64_t first[3], phase[3], start[3], stop[3];  // first: the pixel of the copy's first element
  for (int i = 0; i < 3; ++i) first[i] = begin[i] * c.in_step[i] + c.low[i];
  const int64_t width = box.extent[2], row = c.source[2];
  const NnKernels<T>& kernels = nn_kernels<T>();
  const auto clear = [](T* to, int64_t n) { memset(to, 0, sizeof(T) * static_cast<size_t>(n)); };
  for (int64_t p = 0; p < product(box.phases); ++p) {
    Correlation::split(p, box.phases, phase);
    for (int i = 0; i < 3; ++i) {  // the part of the copy that is inside the image
      const int64_t at = first[i] + box.phase[i][static_cast<size_t>(phase[i])], s = c.in_step[i];
      phase[i] = at;
      start[i] = min(box.extent[i], at < 0 ? divide_up(-at, s) : 0);
      stop[i] = max(start[i], min(box.extent[i], c.source[i] > at ? divide_up(c.source[i] - at, s) : 0));
    }
    T* to = out + p * box.plane;
    for (int64_t i = 0; i < images; ++i) {
      for (int64_t z = 0; z < box.extent[0]; ++z, to += box.extent[1] * width) {
        if (z < start[0] || z >= stop[0]) {
          clear(to, box.extent[1] * width);
          continue;
        }
        const int64_t y = phase[1] + start[1] * c.in_step[1], x = phase[2] + start[2] * c.in_step[2];
        const T* from = image + i * distance + ((phase[0] + z * c.in_step[0]) * c.source[1] + y) * row + x;
        const int64_t rows = stop[1] - start[1], n = stop[2] - start[2];
        clear(to, start[1] * width);
        if (n == row && n == width && c.in_step[1] == 1) {
          memcpy(to + start[1] * width, from, sizeof(T) * static_cast<size_t>(rows * width));
        } else {
          kernels.load_rows(from, c.in_step[1] * row, c.in_step[2], to + start[1] * width, width, rows, start[2], n, width);
        }
        clear(to + stop[1] * width, (box.extent[1] - stop[1]) * width);
      }
    }
    clear(to, min(kLane, out + (p + 1) * box.plane - to));  // read behind the last image
  }
  clear(out + product(box.phases) * box.plane, box.channel - product(box.phases) * box.plane);
}

template <class T>
void correlate(const Correlation& c, const Box& box, const T* source, const T* w, const T* bias, T* result) {
  const int64_t boxes = box.count(c), units = c.images * c.groups * boxes;
  const int64_t blocks = units < kTasks ? min(divide_up(kTasks, units), divide_up(c.rows, kPanel)) : 1;
  const int64_t block = round_up(divide_up(c.rows, blocks), min(c.rows, kPanel)), row_blocks = divide_up(c.rows, block);
  const int64_t sum_row = box.size[0] * box.sum_plane() + kLane, phases = c.out_step[2];
  const int64_t panel = min(block, max(1, kSums / (phases * sum_row * kPanel)) * kPanel);  // rows of results at a time
  const int64_t grain = 1 + kWork / max(c.work() / (units * row_blocks), 1);
  const int64_t source_plane = product(c.source), result_plane = product(c.result);
  ranges(units * row_blocks, grain, [&](int64_t start, int64_t stop) {
    T* copy = scratch.get<T>(c.channels * box.channel + kSlack + phases * panel * sum_row + kSlack);
    T* sums = copy + c.channels * box.channel + kSlack;
    for (int64_t unit = start; unit < stop; ++unit) {
      const int64_t r0 = unit % row_blocks * block, r1 = min(c.rows, r0 + block), i = unit / row_blocks;
      const int64_t g = i / boxes % c.groups, image = i / boxes / c.groups;
      int64_t begin[3], n[3];
      box.at(c, i % boxes, begin, n);
      const T* from = source + (image * c.groups + g) * c.channels * source_plane;
      for (int64_t j = 0; j < c.channels; ++j)
        copy_channel(c, box, from + j * source_plane, 0, 1, begin, copy + j * box.channel);
      for (int64_t r = r0; r < r1; r += panel) {
        const int64_t rows = min(panel, r1 - r);
        for (int64_t p = 0; p < c.out_step[0] * c.out_step[1]; ++p) {
          const int64_t pz = p / c.out_step[1], py = p % c.out_step[1];
          for (int64_t px = 0; px < phases; ++px) {
            const std::vector<ConvTap>& taps = box.taps[static_cast<size_t>(p * phases + px)];
            ConvTile<T> tile{};
            tile.x_channel = box.channel;
            tile.tap = taps.data();
            tile.taps = static_cast<int64_t>(taps.size());
            tile.channels = c.channels;
            tile.w = w + g * c.w_group + r * c.w_row;
            tile.w_row = c.w_row;
            tile.w_channel = c.w_channel;
            tile.y_row = sum_row;
            tile.n = box.sums(n);
            for (int64_t z = 0; z < n[0]; ++z) {
              tile.x = copy + z * box.extent[1] * box.extent[2];
              tile.y = sums + px * panel * sum_row + z * box.sum_plane();
              nn_kernels<T>().conv_tiles(tile, rows);
            }
          }
          const int64_t y0 = begin[1] * c.out_step[1] + py, x0 = begin[2] * phases;
          const int64_t height = min(n[1], divide_up(c.result[1] - y0, c.out_step[1]));
          const int64_t width = min(n[2] * phases, c.result[2] - x0);
          const bool is_dense = phases == 1 && width == box.extent[2] && width == c.result[2] && c.out_step[1] == 1;
          for (int64_t m = 0; m < rows; ++m) {
            const int64_t row = g * c.rows + r + m;
            T* out = result + (image * c.groups * c.rows + row) * result_plane + y0 * c.result[2] + x0;
            for (int64_t z = 0; z < n[0]; ++z) {
              const int64_t to = (begin[0] + z) * c.out_step[0] + pz;
              if (to >= c.result[0] || height <= 0) continue;
              nn_kernels<T>().store_rows(sums + m * sum_row + z * box.sum_plane(), box.extent[2], panel * sum_row, phases,
                                         out + to * c.result[1] * c.result[2], c.out_step[1] * c.result[2],
                                         is_dense ? 1 : height, is_dense ? height * width : width, bias ? bias[row] : T(0));
            }
          }
        }
      }
    }
  });
}

// ---- images of few pixels: a pixel of all images of a run, and then its neighbour, lie side by side

// Two vectors of images, if that leaves several runs for threads.
int64_t images_side_by_side(int64_t images) { return min(images, images < 4 * kLane ? kLane : 2 * kLane); }

// Where the pixels of a run of images lie in a copy of one channel, whose taps are those of a box, and their sums.
struct Interleaved {
  int64_t run;                          // images
  bool is_swept;                        // sums behind the rows are computed, too
  int64_t channel, unread;              // elements of a channel's copy, and the place of pixels that no tap reads
  int64_t line, lines, plane, sums;     // elements of a line of sums, lines of a plane, elements of a plane and of all
  std::vector<int64_t> source, result;  // the place of each pixel; of each result, among the sums of all phases

  Interleaved(const Correlation& c, const Box& box, int64_t images) : run(images) {
    const int64_t *n = c.quotients, line_of_row = round_up(n[2] * run, kLane), swept = round_up(box.sums(n) * run, kLane);
    is_swept = swept <= n[1] * line_of_row;
    line = is_swept ? swept : line_of_row;
    lines = is_swept ? 1 : n[1];
    plane = line * lines;
    sums = n[0] * plane;
    unread = product(box.phases) * box.plane * run + kLane;
    channel = plane_distance(unread + run);
  }
  bool has_whole_vectors() const { return !is_swept && run % kLane == 0; }  // of each pixel

  // Fills `source` and `result`; the sums of a phase are `distance` elements apart.
  void place(const Correlation& c, const Box& box, int64_t distance) {
    int64_t at[3];
    for (int64_t p = 0; p < product(c.source); ++p) {
      Correlation::split(p, c.source, at);
      int64_t number = 0, pixel = 0;
      bool is_read = true;
      for (int i = 0; i < 3; ++i) {
        const int64_t shift = at[i] - c.low[i], phase = shift < 0 ? -1 : box.plane_of(i, shift % c.in_step[i]);
        is_read = is_read && phase >= 0 && phase < box.phases[i] && shift / c.in_step[i] < box.extent[i];
        number = number * box.phases[i] + phase;
        pixel = pixel * box.extent[i] + shift / c.in_step[i];
      }
      source.push_back(is_read ? (number * box.plane + pixel) * run : unread);
    }
    for (int64_t p = 0; p < product(c.result); ++p) {
      Correlation::split(p, c.result, at);
      int64_t phase = 0;
      for (int i = 0; i < 3; ++i) {
        phase = phase * c.out_step[i] + at[i] % c.out_step[i];
        at[i] /= c.out_step[i];
      }
      const int64_t row = is_swept ? box.extent[2] * run : line;
      result.push_back(phase * distance + at[0] * plane + at[1] * row + at[2] * run);
    }
  }
};

// Results side by side whose sums have the same taps, which are all inside the image: sums with zeros are left out.
struct Stroke {
  int64_t x, y, n;  // the first sum's place in the copy and among the sums, and their number
  std::vector<ConvTap> taps;
};

// The values of q of one dimension for which a tap's pixel is inside the image.
void inner_range(const Correlation& c, int i, int64_t shift, int64_t* start, int64_t* stop) {
  *start = shift < 0 ? divide_up(-shift, c.in_step[i]) : 0;
  *stop = min(c.quotients[i], c.source[i] > shift ? divide_up(c.source[i] - shift, c.in_step[i]) : 0);
}

std::vector<Stroke> strokes_of(const Correlation& c, const Box& box, const Interleaved& places, size_t phase) {
  std::vector<Stroke> strokes;
  const bool is_divided = places.has_whole_vectors() && c.rows >= kPanel;
  const auto& list = c.taps[phase];
  std::vector<int64_t> ends = {c.quotients[2]};
  for (const PhaseTap& tap : list) {
    int64_t start, stop;
    inner_range(c, 2, tap.shift[2], &start, &stop);
    ends.push_back(start);
    ends.push_back(stop);
  }
  std::sort(ends.begin(), ends.end());
  for (int64_t line = 0; line < c.quotients[0] * places.lines; ++line) {
    const int64_t at[3] = {line / places.lines, line % places.lines, 0};
    int64_t x = 0;
    for (const int64_t end : ends) {
      if (end <= x || end > c.quotients[2]) continue;
      const int64_t stop = is_divided ? end : c.quotients[2];
      Stroke stroke;
      stroke.x = ((at[0] * box.extent[1] + at[1]) * box.extent[2] + x) * places.run;
      stroke.y = line * places.line + x * places.run;
      stroke.n = places.is_swept ? places.line : (stop - x) * places.run;
      for (size_t t = 0; t < list.size(); ++t) {
        bool is_inside = true;
        for (int i = 0; i < (is_divided ? 3 : places.is_swept ? 1 : 2); ++i) {
          int64_t first, last;
          inner_range(c, i, list[t].shift[i], &first, &last);
          const int64_t q = i == 2 ? x : at[i];
          is_inside = is_inside && q >= first && q < last;
        }
        const ConvTap& tap = box.taps[phase][t];
        if (is_inside) stroke.taps.push_back({tap.x * places.run, tap.w});
      }
      strokes.push_back(stroke);
      x = stop;
    }
  }
  return strokes;
}

template <class T>
void correlate_interleaved(const Correlation& c, const T* source, const T* w, const T* bias, T* result) {
  const Box box(c, 1, INT64_MAX, 1);
  const int64_t run = images_side_by_side(c.images), runs = divide_up(c.images, run), units = runs * c.groups;
  Interleaved places(c, box, run);
  const int64_t phases = product(c.out_step), sums = places.sums;
  const int64_t blocks = units < kTasks ? min(divide_up(kTasks, units), divide_up(c.rows, kPanel)) : 1;
  const int64_t most = max(1, kSums / (phases * sums * kPanel)) * kPanel;  // rows of results at a time
  const int64_t block = min(most, round_up(divide_up(c.rows, blocks), min(c.rows, kPanel)));
  places.place(c, box, block * sums);
  const int64_t row_blocks = divide_up(c.rows, block), source_plane = product(c.source), result_plane = product(c.result);
  const int64_t some = even_part(c.channels, kCopy / places.channel);  // channels at a time
  const int64_t grain = 1 + kWork / max(c.work() / (units * row_blocks), 1);
  std::vector<std::vector<Stroke>> strokes;
  for (int64_t p = 0; p < phases; ++p) strokes.push_back(strokes_of(c, box, places, static_cast<size_t>(p)));
  const NnKernels<T>& kernels = nn_kernels<T>();
  ranges(units * row_blocks, grain, [&](int64_t start, int64_t stop) {
    T* copy = scratch.get<T>(some * places.channel + phases * block * sums + 2 * kSlack);
    T* to = copy + some * places.channel + kSlack;
    memset(copy, 0, sizeof(T) * static_cast<size_t>(some * places.channel + kSlack));
    for (int64_t unit = start; unit < stop; ++unit) {
      const int64_t r0 = unit % row_blocks * block, rows = min(block, c.rows - r0), i = unit / row_blocks;
      const int64_t g = i % c.groups, first = i / c.groups * run, count = min(run, c.images - first);
      for (int64_t c0 = 0; c0 < c.channels; c0 += some) {
        const int64_t m = min(some, c.channels - c0);
        const T* image = source + ((first * c.groups + g) * c.channels + c0) * source_plane;
        for (int64_t j = 0; j < m; ++j) {
          kernels.interleave(image + j * source_plane, c.groups * c.channels * source_plane, count, places.source.data(),
                             source_plane, copy + j * places.channel);
        }
        ConvTile<T> tile{};
        tile.x_channel = places.channel;
        tile.channels = m;
        tile.w = w + g * c.w_group + r0 * c.w_row + c0 * c.w_channel;
        tile.w_row = c.w_row;
        tile.w_channel = c.w_channel;
        tile.y_row = sums;
        tile.add = c0 > 0;
        for (int64_t p = 0; p < phases; ++p) {
          for (const Stroke& stroke : strokes[static_cast<size_t>(p)]) {
            tile.tap = stroke.taps.data();
            tile.taps = static_cast<int64_t>(stroke.taps.size());
            tile.n = stroke.n;
            tile.x = copy + stroke.x;
            tile.y = to + p * block * sums + stroke.y;
            kernels.conv_tiles(tile, rows);
          }
        }
      }
      for (int64_t r = 0; r < rows; ++r) {
        const int64_t row = g * c.rows + r0 + r;
        kernels.deinterleave(to + r * sums, places.result.data(), result_plane,
                             result + (first * c.groups * c.rows + row) * result_plane, c.groups * c.rows * result_plane,
                             count, bias ? bias[row] : T(0));
      }
    }
  });
}

// w += each of the sums of `size` numbers.
template <class T>
void add_in_order(const std::vector<T>& sums, int64_t size, T* w) {
  if (sums.empty()) return;
  ranges(size, kWork / 8, [&](int64_t start, int64_t stop) {
    for (size_t at = 0; at < sums.size(); at += static_cast<size_t>(size))
      for (int64_t i = start; i < stop; ++i) w[i] += sums[at + static_cast<size_t>(i)];
  });
}

// The gradient of the weight as a product: vectors run over filters, its depth is the results of a run of images. Pixels are
// broadcast from a plain copy, whose images are not at a distance of a power of two; a tap has those inside the image alone.
//
//   sums[channel][tap][filter] += image[channel][result + tap] gradients[result][filter]
template <class T>
void product_backward_weight(const Correlation& c, const T* x, const T* y, T* w) {
  const NnKernels<T>& kernels = nn_kernels<T>();
  const int64_t taps = c.filter_taps, n = product(c.quotients), x_plane = product(c.source);
  const int64_t filters = round_up(c.rows, kLane), most = min(c.images, max(1, kDepth / n));
  // Blocks of channels, and sums. Each block transposes all gradients; each sum is transposed, written and added.
  int64_t blocks = divide_up(c.channels, max(kPanel, kCopy / (taps * filters + most * x_plane)));
  while (c.groups * blocks < kTasks && blocks * blocks * c.images * n < 12 * c.channels * taps) blocks *= 2;
  const int64_t some = min(c.channels, round_up(divide_up(c.channels, blocks), kPanel));
  const int64_t c_blocks = divide_up(c.channels, some), tasks = c.groups * c_blocks;
  // A fixed number of sums over pieces of the images, added in order, each of as many pieces.
  const int64_t wanted = round_up(divide_up(c.images, most), divide_up(kTasks, tasks));
  const int64_t run = divide_up(c.images, min(c.images, wanted)), pieces = divide_up(c.images, run);
  const int64_t pieces_of_sum = divide_up(pieces, divide_up(kTasks, tasks)), sums = divide_up(pieces, pieces_of_sum);
  const int64_t w_row = c.channels * taps, size = c.groups * c.rows * w_row;
  std::vector<T> partials(static_cast<size_t>((sums - 1) * size));
  std::vector<std::vector<ConvTap>> products;  // of each tap: the places of a result's gradients and of its pixel
  for (const PhaseTap& tap : c.taps[0]) {
    int64_t start[3], stop[3];
    for (int i = 0; i < 3; ++i) inner_range(c, i, tap.shift[i], start + i, stop + i);
    products.emplace_back();
    for (int64_t z = start[0]; z < stop[0]; ++z) {
      for (int64_t q = start[1]; q < stop[1]; ++q) {
        const int64_t row =
            ((z * c.in_step[0] + tap.shift[0]) * c.source[1] + q * c.in_step[1] + tap.shift[1]) * c.source[2];
        for (int64_t p = start[2]; p < stop[2]; ++p)
          products.back().push_back(
              {((z * c.quotients[1] + q) * c.quotients[2] + p) * filters, row + p * c.in_step[2] + tap.shift[2]});
      }
    }
  }
  ranges(tasks * sums, 1 + kWork / max(c.work() / (tasks * sums), 1), [&](int64_t start, int64_t stop) {
    const int64_t line_size = round_up(some * taps, kLane);
    T* totals =
        scratch.get<T>(line_size * (filters + kLane) + run * (n * filters + plane_distance(some * x_plane)) + 2 * kSlack);
    T* lines = totals + line_size * filters + kSlack;  // of one channel and tap in a vector's lane, then of one filter
    T* gradients = lines + line_size * kLane;
    T* image = gradients + run * n * filters + kSlack;
    for (int64_t task = start; task < stop; ++task) {
      const int64_t s = task % sums, c0 = task / sums % c_blocks * some, g = task / sums / c_blocks;
      const int64_t channels = min(some, c.channels - c0), line = channels * taps, distance = round_up(line, kLane);
      for (int64_t piece = s * pieces_of_sum; piece < min(pieces, (s + 1) * pieces_of_sum); ++piece) {
        const int64_t first = piece * run, count = min(run, c.images - first);
        for (int64_t i = 0; i < count; ++i) {
          const int64_t at = (first + i) * c.groups + g;
          memcpy(image + i * plane_distance(channels * x_plane), x + (at * c.channels + c0) * x_plane,
                 sizeof(T) * static_cast<size_t>(channels * x_plane));
          const T* from = y + at * c.rows * n;
          for (int64_t k = 0; k < c.rows; k += kLane)
            kernels.transpose(from + k * n, n, min(kLane, c.rows - k), n, gradients + i * n * filters + k, filters, kLane);
        }
        ConvTile<T> tile{};
        tile.x = gradients;
        tile.x_channel = n * filters;
        tile.channels = count;
        tile.w = image;
        tile.w_row = x_plane;
        tile.w_channel = plane_distance(channels * x_plane);
        tile.y_row = taps * filters;
        tile.n = filters;
        for (size_t t = 0; t < products.size(); ++t) {
          tile.y = totals + static_cast<int64_t>(t) * filters;
          const int64_t length = static_cast<int64_t>(products[t].size()), part = even_part(max(length, 1), kDepth);
          int64_t at = 0;
          do {  // once if there are no products
            tile.tap = products[t].data() + at;
            tile.taps = min(part, length - at);
            tile.add = at > 0 || piece > s * pieces_of_sum;
            kernels.conv_tiles(tile, channels);
            at += part;
          } while (at < length);
        }
      }
      T* to = (s ? partials.data() + (s - 1) * size : w) + g * c.rows * w_row + c0 * taps;
      for (int64_t k = 0; k < c.rows; k += kLane) {
        for (int64_t j = 0; j < line; j += kLane)
          kernels.transpose(totals + j * filters + k, filters, min(kLane, line - j), kLane, lines + j, distance, kLane);
        for (int64_t r = 0; r < kLane && k + r < c.rows; ++r)
          memcpy(to + (k + r) * w_row, lines + r * distance, sizeof(T) * static_cast<size_t>(line));
      }
    }
  });
  add_in_order(partials, size, w);
}

// Are rows of results so short that a padded copy of one image would compute more sums, to drop them?
bool prefers_interleaved(const Correlation& c) {
  const Box box(c, 1, INT64_MAX, 1);
  const int64_t n = product(c.quotients), run = images_side_by_side(c.images);
  const int64_t padded = run * box.size[0] * box.sum_plane();
  return n <= 256 && product(c.source) <= 4096 && 8 * Interleaved(c, box, run).sums <= 7 * padded;
}

// Few filters do not fill vectors, few channels not the rows of a tile.
bool prefers_product(const Correlation& c) {
  return c.channels > 2 && c.rows >= kLane && product(c.quotients) <= (c.rows < 2 * kLane ? 64 : 1024);
}

// Filters of one pixel read an image as one row.
Convolution in_one_row(Convolution v) {
  if (!is_pointwise(v) || v.pixels() != v.outputs()) return v;
  v.size[2] = v.out_size[2] = v.pixels();
  v.size[0] = v.size[1] = v.out_size[0] = v.out_size[1] = 1;
  for (int i = 0; i < 3; ++i) v.stride[i] = 1;
  return v;
}

}  // namespace

template <class T>
void direct_conv(const Convolution& v, const T* source, const T* w, const T* bias, T* result, bool is_gradient) {
  const Correlation c(in_one_row(v), is_gradient);
  if (prefers_interleaved(c)) return correlate_interleaved(c, source, w, bias, result);
  int64_t limit = kCopy;
  for (;;) {
    const Box box(c, c.channels, limit, 1);
    if (c.images * c.groups * box.count(c) >= kTasks || box.size[0] * box.sum_plane() <= 1024 || limit < 4096)
      return correlate(c, box, source, w, bias, result);
    limit = min(limit, c.channels * box.channel) / 2;
  }
}

template <class T>
void direct_conv_backward_weight(const Convolution& v, const T* x, const T* y, T* w) {
  const Correlation c(in_one_row(v), false);
  if (prefers_product(c)) return product_backward_weight(c, x, y, w);
  const int64_t taps = v.taps(), x_plane = product(c.source), y_plane = product(c.result);
  // Some images at a time, if they are small; blocks of channels and of filters whose copies stay in the cache.
  const int64_t limit = kPixels * product(c.in_step) * (c.quotients[0] > 1 ? 4 : 1);  // planes share pixels with others
  const Box one(c, 1, limit, 1);
  const int64_t boxes = one.count(c), part = one.size[0] * one.sum_plane();  // of an image
  const int64_t run = boxes > 1 ? 1 : min(c.images, max(1, kPixels / part));
  const Box box(c, 1, boxes > 1 ? limit : INT64_MAX, run);
  const int64_t y_row = plane_distance(run * part), x_channel = box.channel;
  const int64_t c_block = even_part(c.channels, kCopy / x_channel), k_block = min(c.rows, round_up(kCopy / y_row, kPanel));
  const int64_t c_blocks = divide_up(c.channels, c_block), k_blocks = divide_up(c.rows, k_block);
  // A fixed number of sums over pieces of the images, added in order.
  const int64_t tasks = c.groups * c_blocks * k_blocks, pieces = divide_up(c.images, run) * boxes;
  const int64_t pieces_of_sum = divide_up(pieces, divide_up(kTasks, tasks)), sums = divide_up(pieces, pieces_of_sum);
  const int64_t w_row = c.channels * taps, size = c.groups * c.rows * w_row;
  std::vector<T> partials(static_cast<size_t>((sums - 1) * size));
  std::vector<int64_t> column;
  for (int64_t j = 0; j < c_block; ++j) {
    for (const ConvTap& tap : box.taps[0]) column.push_back(j * x_channel + tap.x);
  }
  ranges(tasks * sums, 1 + kWork / max(c.work() / (tasks * sums), 1), [&](int64_t start, int64_t stop) {
    T* copy = scratch.get<T>(c_block * x_channel + kSlack + k_block * y_row);
    T* results = copy + c_block * x_channel + kSlack;
    memset(copy + c_block * x_channel, 0, sizeof(T) * kSlack);
    for (int64_t task = start; task < stop; ++task) {
      const int64_t s = task % sums, k0 = task / sums % k_blocks * k_block, c0 = task / sums / k_blocks % c_blocks * c_block;
      const int64_t g = task / sums / k_blocks / c_blocks, filters = min(k_block, c.rows - k0);
      const int64_t channels = min(c_block, c.channels - c0), w_at = (g * c.rows + k0) * w_row + c0 * taps;
      T* to = (s ? partials.data() + (s - 1) * size : w) + w_at;
      for (int64_t k = 0; k < filters; ++k) memset(to + k * w_row, 0, sizeof(T) * static_cast<size_t>(channels * taps));
      for (int64_t piece = s * pieces_of_sum; piece < min(pieces, (s + 1) * pieces_of_sum); ++piece) {
        const int64_t first = piece / boxes * run, count = min(run, c.images - first);
        const T* image = x + ((first * c.groups + g) * c.channels + c0) * x_plane;
        const T* gradient = y + ((first * c.groups + g) * c.rows + k0) * y_plane;
        const int64_t x_distance = c.groups * c.channels * x_plane, y_distance = c.groups * c.rows * y_plane;
        int64_t begin[3], n[3];
        box.at(c, piece % boxes, begin, n);
        ConvWeightTile<T> tile{};
        tile.x = copy;
        tile.column = column.data();
        tile.columns = channels * taps;
        tile.y_row = y_row;
        tile.w_row = w_row;
        // The sums run over the planes of an image, or over images of one plane.
        const bool has_planes = n[0] > 1;
        tile.planes = has_planes ? n[0] : count;
        tile.x_plane = box.extent[1] * box.extent[2] * (has_planes ? 1 : box.extent[0]);
        tile.y_plane = has_planes ? box.sum_plane() : part;
        tile.n = box.sums(n);
        for (int64_t j = 0; j < channels; ++j, image += x_plane)
          copy_channel(c, box, image, x_distance, count, begin, copy + j * x_channel);
        for (int64_t k = 0; k < filters; ++k, gradient += y_plane) {
          T* out = results + k * y_row;
          const int64_t row = box.extent[2], end = round_up(tile.n, kLane);
          for (int64_t i = 0; i < count; ++i) {
            for (int64_t z = 0; z < n[0]; ++z) {
              const T* from = gradient + i * y_distance + ((begin[0] + z) * c.result[1] + begin[1]) * c.result[2] + begin[2];
              T* plane = out + i * part + z * box.sum_plane();
              nn_kernels<T>().load_rows(from, c.result[2], 1, plane, row, n[1] - 1, 0, n[2], row);
              memcpy(plane + tile.n - n[2], from + (n[1] - 1) * c.result[2], sizeof(T) * static_cast<size_t>(n[2]));
              memset(plane + tile.n, 0, sizeof(T) * static_cast<size_t>(end - tile.n));
            }
          }
        }
        const int64_t panel = even_part(filters, kPanel);
        for (int64_t i = 0; i < (has_planes ? count : 1); ++i, tile.x += product(box.extent)) {
          for (int64_t k = 0; k < filters; k += panel) {
            tile.y = results + k * y_row + i * part;
            tile.w = to + k * w_row;
            nn_kernels<T>().conv_weight_tiles(tile, min(panel, filters - k));
          }
        }
      }
    }
  });
  add_in_order(partials, size, w);
}

template void direct_conv(const Convolution&, const float*, const float*, const float*, float*, bool);
template void direct_conv(const Convolution&, const double*, const double*, const double*, double*, bool);
template void direct_conv_backward_weight(const Convolution&, const float*, const float*, float*);
template void direct_conv_backward_weight(const Convolution&, const double*, const double*, double*);

}  // namespace shmtensor
