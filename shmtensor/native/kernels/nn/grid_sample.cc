// grid_sample: images (N, C, *sizes) read at the points of grids (N, *out, D), and both gradients. The work is divided into
// blocks of points; a gradient of the image into channels, whose points are added in order.
#include <cstring>

#include "kernels/arguments.h"
#include "kernels/nn/nn_kernel_table.h"
#include "kernels/operand.h"
#include "threading/thread_pool.h"

namespace shmtensor {
namespace {

constexpr int64_t kUnlock = 8192, kPiece = 16384, kLargestImage = 1 << 29;

// The arguments of both kernels: an image, a grid, and numbers of the mode, of the padding, and align_corners.
struct SampleArguments {
  Ref x, grid;
  int type = 0;
  int64_t images = 0;
  GridSample<char> s;  // its sizes, for any dtype

  bool read(PyObject* image, PyObject* points, PyObject* const* numbers) {
    PyArrayObject* array = real_array(image);
    long mode, padding, align_corners;
    if (!array || !PyArray_CheckExact(points) || !parse_long(numbers[0], &mode) || !parse_long(numbers[1], &padding) ||
        !parse_long(numbers[2], &align_corners))
      return false;
    type = PyArray_TYPE(array), images = PyArray_DIM(array, 0);
    PyArrayObject* places = as_array(points);
    const int nd = PyArray_NDIM(array);
    s.dims = nd - 2;
    if (nd < 4 || nd > 5 || PyArray_NDIM(places) != nd || PyArray_TYPE(places) != type || mode < 0 || mode > 2 ||
        padding < 0 || padding > 2 || PyArray_DIM(places, 0) != images || PyArray_DIM(places, nd - 1) != s.dims ||
        (mode == 2 && s.dims != 2))
      return false;
    s.taps = mode == 0 ? 2 : mode == 1 ? 1 : 4;
    s.padding = static_cast<SamplePadding>(padding), s.align_corners = align_corners != 0;
    s.channels = PyArray_DIM(array, 1), s.elements = s.points = 1;
    for (int d = 0; d < s.dims; ++d) {
      s.size[d] = PyArray_DIM(array, 2 + d), s.points *= PyArray_DIM(places, 1 + d);
      if (!s.size[d] || s.size[d] >= kLargestImage / s.elements) return false;
      s.elements *= s.size[d];
    }
    x = contiguous(array), grid = contiguous(places);
    return x && grid;
  }
  template <class T>
  GridSample<T> sizes() const {
    GridSample<T> out;
    static_assert(sizeof out == sizeof s, "the sizes do not depend on the dtype");
    memcpy(static_cast<void*>(&out), &s, sizeof s);
    return out;
  }
  int64_t blocks() const { return (s.points + kSampleBlock - 1) / kSampleBlock; }
  int64_t work_per_point() const { return s.channels * s.taps * s.taps * (s.dims == 3 ? s.taps : 1) + 8; }
};

// f(first point, number of points) for the blocks [first, end).
template <class F>
void for_points(const SampleArguments& a, int64_t first, int64_t end, F f) {
  for (int64_t start = first * kSampleBlock; first < end; ++first, start += kSampleBlock)
    f(start, a.s.points - start < kSampleBlock ? a.s.points - start : kSampleBlock);
}

template <class T>
void sample(const SampleArguments& a, T* out) {
  const GridSample<T> s = a.sizes<T>();
  const auto& kernel = nn_kernels<T>().grid_sample;
  const int64_t blocks = a.blocks(), work = a.work_per_point();
  Unlocked unlocked(a.images * s.points * work > kUnlock);
  ranges(a.images * blocks, 1 + kPiece / (kSampleBlock * work), [&](int64_t i, int64_t end) {
    for (; i < end; ++i) {
      const int64_t image = i / blocks, block = i % blocks;
      for_points(a, block, block + 1, [&](int64_t p, int64_t n) {
        kernel(s, data<T>(a.x) + image * s.channels * s.elements, data<T>(a.grid) + (image * s.points + p) * s.dims,
               out + image * s.channels * s.points + p, n);
      });
    }
  });
}

// The gradients of the images, by groups of channels, and those of the grids, by blocks of points; null: not needed.
template <class T>
void sample_backward(const SampleArguments& a, const T* g, T* gx, T* g_grid) {
  const GridSample<T> s = a.sizes<T>();
  const auto& kernels = nn_kernels<T>();
  const int64_t blocks = a.blocks(), work = a.work_per_point(), width = a.images < 4 ? 1 : 8;
  const int64_t groups = (s.channels + width - 1) / width, pieces = 1 + kPiece / (kSampleBlock * work);
  const int64_t image_slices = gx ? a.images * groups : 0, parts = (blocks + pieces - 1) / pieces;
  const T *x = data<T>(a.x), *grid = data<T>(a.grid);
  Unlocked unlocked(a.images * s.points * work > kUnlock);
  slices(image_slices + (g_grid ? a.images * parts : 0), [&](int64_t i) {
    if (i < image_slices) {
      const int64_t image = i / groups, channel = i % groups * width, remaining = s.channels - channel;
      GridSample<T> part = s;
      part.channels = remaining < width ? remaining : width;
      const T* from = g + (image * s.channels + channel) * s.points;
      T* to = gx + (image * s.channels + channel) * s.elements;
      memset(to, 0, sizeof(T) * static_cast<size_t>(part.channels * s.elements));
      for_points(a, 0, blocks, [&](int64_t p, int64_t n) {
        kernels.grid_sample_backward_x(part, from + p, grid + (image * s.points + p) * s.dims, to, n);
      });
    } else {
      const int64_t image = (i - image_slices) / parts, first = (i - image_slices) % parts * pieces;
      for_points(a, first, first + pieces < blocks ? first + pieces : blocks, [&](int64_t p, int64_t n) {
        const int64_t at = (image * s.points + p) * s.dims, channel = image * s.channels;
        kernels.grid_sample_backward_grid(s, g + channel * s.points + p, x + channel * s.elements, grid + at, g_grid + at,
                                          n);
      });
    }
  });
}

template <class F>
void for_type(int type, F f) {
  type == NPY_FLOAT ? f(float()) : f(double());
}

}  // namespace

PyObject* grid_sample(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (!takes("grid_sample", n, 5)) return nullptr;
  SampleArguments a;
  if (!a.read(args[0], args[1], args + 2)) return fall_back();
  npy_intp dims[5] = {a.images, a.s.channels};
  for (int d = 0; d < a.s.dims; ++d) dims[2 + d] = PyArray_DIM(a.grid.array(), 1 + d);
  Ref out(new_array(a.s.dims + 2, dims, a.type));
  if (!out) return nullptr;
  for_type(a.type, [&](auto zero) { sample(a, data<decltype(zero)>(out)); });
  return out.release();
}

PyObject* grid_sample_backward(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (!takes("grid_sample_backward", n, 8)) return nullptr;
  SampleArguments a;
  long needs_x, needs_grid;
  PyArrayObject* gradient = real_array(args[0]);
  if (!gradient || !parse_long(args[6], &needs_x) || !parse_long(args[7], &needs_grid) ||
      !a.read(args[1], args[2], args + 3) || PyArray_TYPE(gradient) != a.type ||
      PyArray_SIZE(gradient) != a.images * a.s.channels * a.s.points)
    return fall_back();
  Ref g = contiguous(gradient);
  PyArrayObject *x = a.x.array(), *grid = a.grid.array();
  Ref gx(needs_x ? new_array(PyArray_NDIM(x), PyArray_DIMS(x), a.type) : Py_NewRef(Py_None));
  Ref g_grid(needs_grid ? new_array(PyArray_NDIM(grid), PyArray_DIMS(grid), a.type) : Py_NewRef(Py_None));
  if (!g || !gx || !g_grid) return nullptr;
  for_type(a.type, [&](auto zero) {
    using T = decltype(zero);
    sample_backward(a, data<T>(g), needs_x ? data<T>(gx) : nullptr, needs_grid ? data<T>(g_grid) : nullptr);
  });
  return PyTuple_Pack(2, gx.get(), g_grid.get());
}

}  // namespace shmtensor
