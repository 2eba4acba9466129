// Resampling: each result is a weighted sum of elements, by tables for each of up to three dimensions. Interpolation,
// padding with the image's own elements, pooling by sums and means, and the gradients of all of them are one kernel with
// different tables.
//
// A row of results is computed in two steps: rows of the image are combined (whole vectors), and then the columns of that
// row. Where there are more rows of results than of the image, columns come first, once for each row of the image.
#include <vector>

#include "kernels/index/indices.h"
#include "kernels/nn/images.h"
#include "kernels/nn/nn_kernel_table.h"
#include "kernels/operand.h"
#include "kernels/shape/memcpy.h"
#include "threading/scratch.h"

namespace shmtensor {
namespace {

// The elements of each result along one dimension, and their weights (none: ones).
template <class T>
struct Taps {
  int64_t n = 1, out = 1;
  std::vector<int64_t> first{0, 1}, element{0};  // result i: the elements from first[i] on, up to first[i + 1]
  std::vector<T> weight;
  // Found by finish(): the largest number of elements of a result, and whether all have it; which results are the same as
  // the one before, and how many; the longest run of results that are neighbouring elements themselves.
  int64_t most = 1, repeated = 0, run = 1, run_end = 1;
  bool even = true;
  std::vector<bool> repeats{false};

  int64_t count(int64_t i) const { return first[i + 1] - first[i]; }
  bool is_identity() const { return n == out && run == n && !element[first[0]]; }
  void start(int64_t elements, int64_t results) {
    n = elements, out = results;
    first.assign(1, 0);
    element.clear();
  }
  void end_result() { first.push_back(static_cast<int64_t>(element.size())); }

  bool is_same(int64_t a, int64_t b) const {
    if (count(a) != count(b)) return false;
    for (int64_t i = first[a], j = first[b]; j < first[b + 1]; ++i, ++j)
      if (element[i] != element[j] || (!weight.empty() && weight[i] != weight[j])) return false;
    return true;
  }

  void finish() {
    most = repeated = run = run_end = 0;
    repeats.assign(static_cast<size_t>(out), false);
    int64_t length = 0;
    for (int64_t i = 0; i < out; ++i) {
      most = count(i) > most ? count(i) : most;
      repeats[i] = i && is_same(i - 1, i);
      repeated += repeats[i];
      const bool copies = count(i) == 1 && weight.empty();
      length = copies && length && element[first[i]] == element[first[i] - 1] + 1 ? length + 1 : copies;
      if (length > run) run = length, run_end = i + 1;
    }
    even = static_cast<int64_t>(element.size()) == most * out;
  }

  // The tables of two dimensions as one: this one, and `inner` behind it.
  Taps product(const Taps& inner) const {
    Taps t;
    t.start(n * inner.n, out * inner.out);
    for (int64_t a = 0; a < out; ++a) {
      for (int64_t b = 0; b < inner.out; ++b, t.end_result()) {
        for (int64_t i = first[a]; i < first[a + 1]; ++i) {
          for (int64_t j = inner.first[b]; j < inner.first[b + 1]; ++j) {
            t.element.push_back(element[i] * inner.n + inner.element[j]);
            if (!weight.empty() || !inner.weight.empty())
              t.weight.push_back((weight.empty() ? T(1) : weight[i]) * (inner.weight.empty() ? T(1) : inner.weight[j]));
          }
        }
      }
    }
    t.finish();
    return t;
  }

  // The tables of the gradient: for each element the results that it is part of, in order.
  Taps transposed() const {
    Taps t;
    t.n = out, t.out = n;
    t.first.assign(static_cast<size_t>(n) + 1, 0);
    for (int64_t e : element) ++t.first[e + 1];
    for (int64_t i = 0; i < n; ++i) t.first[i + 1] += t.first[i];
    std::vector<int64_t> next(t.first.begin(), t.first.end() - 1);
    t.element.resize(element.size());
    t.weight.resize(weight.size());
    for (int64_t i = 0; i < out; ++i) {
      for (int64_t k = first[i]; k < first[i + 1]; ++k) {
        const int64_t at = next[element[k]]++;
        t.element[at] = i;
        if (!weight.empty()) t.weight[at] = weight[k];
      }
    }
    t.finish();
    return t;
  }
};

template <class T>
class Resampler {
 public:
  Taps<T> taps[3];
  T divisor = 1;

  // All planes of the images, to the memory of the results.
  void run(const Images& x, T* out) {
    inner_ = x.inner;
    rows_ = taps[0].product(taps[1]);
    in_row_ = taps[2].n * inner_, out_row_ = taps[2].out * inner_;
    copies_columns_ = taps[2].is_identity();
    for (int64_t i = 1; i <= taps[2].out && 3 * taps[2].repeated > 2 * taps[2].out; ++i)
      if (i == taps[2].out || !taps[2].repeats[i]) groups_.push_back(i);
    // Rows that are only copied, as in padding, go from the image to the results at once.
    const bool copies = rows_.most <= 1 && rows_.weight.empty() && taps[2].most <= 1 && taps[2].weight.empty();
    columns_first_ = !copies_columns_ && !copies && 2 * (rows_.out - rows_.repeated) > 3 * rows_.n;
    const T* from = x.as<T>();
    const int64_t work = out_row_ * (rows_.most + (copies_columns_ ? 0 : 2 * taps[2].most));
    for_rows(x.planes, rows_.out, work, [&](int64_t plane, int64_t start, int64_t stop) {
      piece(from + plane * rows_.n * in_row_, out + plane * rows_.out * out_row_, start, stop);
    });
  }

 private:
  // Rows [start, stop) of the results of a plane.
  void piece(const T* plane, T* out, int64_t start, int64_t stop) const {
    const Taps<T>& y = rows_;
    const int64_t begin = y.first[start], end = y.first[stop];
    int64_t low = y.n, high = 0;  // the rows of the image that are needed, if columns come first
    for (int64_t k = columns_first_ ? begin : end; k < end; ++k) {
      low = y.element[k] < low ? y.element[k] : low;
      high = y.element[k] < high ? high : y.element[k] + 1;
    }
    const int64_t computed = high > low ? high - low : 0;
    T* line = scratch.get<T>(columns_first_ ? computed * out_row_ : in_row_);
    std::vector<bool> done(static_cast<size_t>(computed));
    Pointers rows(y.most), pixels(taps[2].most);
    for (int64_t r = start; r < stop; ++r) {
      T* to = out + r * out_row_;
      if (r > start && y.repeats[r]) {
        copy_row(to, to - out_row_, sizeof(T) * static_cast<size_t>(out_row_));
        continue;
      }
      const int64_t first = y.first[r], count = y.count(r);
      const T* weight = y.weight.empty() ? nullptr : y.weight.data() + first;
      for (int64_t k = 0; k < count; ++k) {
        const int64_t row = y.element[first + k];
        rows.p[k] = plane + row * in_row_;
        if (!columns_first_) continue;
        T* ready = line + (row - low) * out_row_;
        if (!done[row - low]) columns(rows.p[k], ready, pixels.p);
        done[row - low] = true;
        rows.p[k] = ready;
      }
      if (columns_first_ || copies_columns_) {
        kernels_.combine_rows(rows.p, weight, count, to, out_row_);
      } else if (count == 1 && !weight) {
        columns(rows.p[0], to, pixels.p);
      } else {
        kernels_.combine_rows(rows.p, weight, count, line, in_row_);
        columns(line, to, pixels.p);
      }
      if (divisor != 1) {
        for (int64_t i = 0; i < out_row_; ++i) to[i] /= divisor;
      }
    }
  }

  // Room for a few pointers; memory is only allocated for many.
  struct Pointers {
    const T* few[16];
    std::vector<const T*> many;
    const T** p = few;
    explicit Pointers(int64_t n) {
      if (n > 16) many.resize(static_cast<size_t>(n)), p = many.data();
    }
  };

  // One row: its columns combined. `pixels` has room for the elements of a result.
  void columns(const T* row, T* out, const T** pixels) const {
    const Taps<T>& x = taps[2];
    const bool has_run = x.run * inner_ >= 8;
    const int64_t run = has_run ? x.run : 0, run_end = has_run ? x.run_end : x.out, begin = run_end - run;
    if (run)
      copy_row(out + begin * inner_, row + x.element[x.first[begin]] * inner_,
               sizeof(T) * static_cast<size_t>(run * inner_));
    if (inner_ > 1) {
      vectors(row, out, pixels, 0, begin);
      vectors(row, out, pixels, run_end, x.out);
    } else if (x.most == 1 && x.even && x.weight.empty()) {
      sums<false, 1>(row, out, 0, begin);
      sums<false, 1>(row, out, run_end, x.out);
    } else if (!groups_.empty()) {
      x.weight.empty() ? grouped<false>(row, out) : grouped<true>(row, out);
    } else if (x.weight.empty()) {
      numbers<false>(row, out, 0, begin);
      numbers<false>(row, out, run_end, x.out);
    } else {
      numbers<true>(row, out, 0, x.out);
    }
  }

  // A row of groups of equal results.
  template <bool kWeights>
  void grouped(const T* row, T* out) const {
    const Taps<T>& x = taps[2];
    int64_t i = 0;
    for (int64_t end : groups_) {
      const int64_t first = x.first[i];
      const T v = sum<kWeights>(row, x.element.data() + first, kWeights ? x.weight.data() + first : nullptr, x.count(i));
      for (; i < end; ++i) out[i] = v;
    }
  }

  // Results [start, stop) of a row whose elements are vectors.
  void vectors(const T* row, T* out, const T** pixels, int64_t start, int64_t stop) const {
    const Taps<T>& x = taps[2];
    for (int64_t i = start; i < stop; ++i) {
      const int64_t first = x.first[i], count = x.count(i);
      for (int64_t k = 0; k < count; ++k) pixels[k] = row + x.element[first + k] * inner_;
      const T* weight = x.weight.empty() ? nullptr : x.weight.data() + first;
      kernels_.combine_rows(pixels, weight, count, out + i * inner_, inner_);
    }
  }

  // The same of a row of numbers.
  template <bool kWeights>
  void numbers(const T* row, T* out, int64_t start, int64_t stop) const {
    switch (taps[2].even ? taps[2].most : 0) {
      case 1: return sums<kWeights, 1>(row, out, start, stop);
      case 2: return sums<kWeights, 2>(row, out, start, stop);
      case 3: return sums<kWeights, 3>(row, out, start, stop);
      case 4: return sums<kWeights, 4>(row, out, start, stop);
      default: return sums<kWeights, 0>(row, out, start, stop);
    }
  }

  // kCount elements for each result; 0: any number.
  template <bool kWeights, int kCount>
  void sums(const T* row, T* out, int64_t start, int64_t stop) const {
    const int64_t *first = taps[2].first.data(), *element = taps[2].element.data();
    const T* weight = taps[2].weight.data();
    for (int64_t i = start; i < stop; ++i) {
      const int64_t begin = kCount ? i * kCount : first[i];
      out[i] =
          sum<kWeights>(row, element + begin, kWeights ? weight + begin : nullptr, kCount ? kCount : first[i + 1] - begin);
    }
  }

  // The sum of `count` elements, many of them in four chains.
  template <bool kWeights>
  static T sum(const T* row, const int64_t* element, const T* weight, int64_t count) {
    const auto value = [=](int64_t k) { return kWeights ? row[element[k]] * weight[k] : row[element[k]]; };
    if (!count) return 0;
    int64_t k = 1;
    T total = value(0);  // 0 + -0 would be 0
    if (count >= 8) {
      T chains[4] = {total, value(1), value(2), value(3)};
      for (k = 4; k + 4 <= count; k += 4)
        for (int64_t j = 0; j < 4; ++j) chains[j] += value(k + j);
      total = (chains[0] + chains[1]) + (chains[2] + chains[3]);
    }
    for (; k < count; ++k) total += value(k);
    return total;
  }

  const NnKernels<T>& kernels_ = nn_kernels<T>();
  Taps<T> rows_;
  std::vector<int64_t> groups_;  // the ends of groups of equal results in a row; empty: they are small
  int64_t inner_ = 1, in_row_ = 1, out_row_ = 1;
  bool copies_columns_ = false, columns_first_ = false;
};

// Reads (elements (results, K), weights (results, K) or None, counts (results) or None) for a dimension of n elements;
// None: as it is. False: they are not such arrays.
template <class T>
bool read_taps(PyObject* p, int64_t n, Taps<T>* taps) {
  if (p == Py_None) {
    taps->start(n, n);
    for (int64_t i = 0; i < n; ++i) taps->element.push_back(i), taps->end_result();
    taps->finish();
    return true;
  }
  if (!PyTuple_Check(p) || PyTuple_GET_SIZE(p) != 3) return false;
  PyObject *elements = PyTuple_GET_ITEM(p, 0), *counts = PyTuple_GET_ITEM(p, 2);
  if (!PyArray_CheckExact(elements) || PyArray_TYPE(as_array(elements)) != NPY_INT64 ||
      PyArray_NDIM(as_array(elements)) != 2)
    return false;
  const int64_t results = PyArray_DIM(as_array(elements), 0), width = PyArray_DIM(as_array(elements), 1);
  Ref table = contiguous(as_array(elements));
  LayerOperand weights, numbers;
  if (!table || !read_optional(&weights, PyTuple_GET_ITEM(p, 1), NPY_DOUBLE, results * width) ||
      !read_optional(&numbers, counts, NPY_INT64, results))
    return false;
  taps->start(n, results);
  for (int64_t i = 0; i < results; ++i) {
    const int64_t count = numbers.array ? load_once(numbers.as<int64_t>() + i) : width;
    if (count < 0 || count > width) return false;
    for (int64_t k = i * width; k < i * width + count; ++k) {
      const int64_t element = load_once(data<int64_t>(table) + k);
      if (!in_range(element, n)) return false;
      taps->element.push_back(element);
      if (weights.array) taps->weight.push_back(static_cast<T>(weights.as<double>()[k]));
    }
    taps->end_result();
  }
  taps->finish();
  return true;
}

// Runs a resampler that `prepare(sizes of x, resampler)` has given its tables; None if it returns false.
template <class F>
PyObject* resampled(PyArrayObject* x, int nd, F prepare) {
  const Images images(x, nd);
  if (!images) return nullptr;
  Ref out;
  const auto compute = [&](auto zero) {
    using T = decltype(zero);
    Resampler<T> r;
    if (!prepare(images.size, &r)) return false;
    const int64_t size[3] = {r.taps[0].out, r.taps[1].out, r.taps[2].out};
    out = images.new_memory(size, images.type);
    if (out && PyArray_SIZE(out.array())) r.run(images, data<T>(out));
    return true;
  };
  if (!(images.type == NPY_FLOAT ? compute(float()) : compute(double()))) return fall_back();
  return images.from_memory(std::move(out)).release();
}

}  // namespace

PyObject* resample(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (!takes("resample", n, 2)) return nullptr;
  PyArrayObject* x = real_array(args[0]);
  const int nd = x && PyTuple_Check(args[1]) ? static_cast<int>(PyTuple_GET_SIZE(args[1])) : 0;
  if (nd < 1 || nd > 3 || PyArray_NDIM(x) < nd) Py_RETURN_NONE;
  return resampled(x, nd, [&](const int64_t* size, auto* r) {
    for (int d = 0; d < nd; ++d)
      if (!read_taps(PyTuple_GET_ITEM(args[1], d), size[3 - nd + d], &r->taps[3 - nd + d])) return false;
    return true;
  });
}

namespace {

// The windows of pooling: sums of them, or with divisor 0 means; `include_pad`: zeros of the padding count.
struct Windows {
  int nd;
  int64_t kernel[3], stride[3], padding[3];
  long include_pad;
  double divisor;

  // (kernel, stride, padding, include_pad, divisor)
  bool parse(PyArrayObject* x, PyObject* const* args) {
    nd = x && PyTuple_Check(args[0]) ? static_cast<int>(PyTuple_GET_SIZE(args[0])) : 0;
    if (nd < 1 || nd > 3 || PyArray_NDIM(x) < nd) return false;
    divisor = PyFloat_AsDouble(args[4]);
    if (PyErr_Occurred()) return false;
    return parse_longs(args[0], nd, 1, 1, kernel) && parse_longs(args[1], nd, 1, 1, stride) &&
           parse_longs(args[2], nd, 0, 0, padding) && parse_long(args[3], &include_pad);
  }

  // The tables of images of a size and of `out` windows.
  template <class T>
  void prepare(const int64_t* size, const int64_t* out, Resampler<T>* r) const {
    r->divisor = static_cast<T>(divisor);
    int64_t common = 1;  // the product of all lengths, 0 if they differ
    std::vector<T> lengths[3];
    for (int d = 0; d < 3; ++d) {
      Taps<T>& taps = r->taps[d];
      taps.start(size[d], out[d]);
      for (int64_t i = 0; i < out[d]; ++i) {
        const int64_t start = i * stride[d] - padding[d], stop = start + kernel[d];
        const int64_t first = start < 0 ? 0 : start, end = stop < size[d] ? stop : size[d];
        for (int64_t e = first; e < end; ++e) taps.element.push_back(e);
        taps.end_result();
        const int64_t padded = size[d] + padding[d];
        lengths[d].push_back(static_cast<T>(include_pad ? (stop < padded ? stop : padded) - start : end - first));
      }
      const T length = lengths[d][0];
      for (T v : lengths[d]) common = v == length ? common : 0;
      common *= static_cast<int64_t>(length);
    }
    if (divisor == 0) r->divisor = common ? static_cast<T>(common) : 1;
    for (int d = 0; d < 3; ++d) {
      Taps<T>& taps = r->taps[d];
      if (divisor == 0 && !common) {
        for (int64_t i = 0; i < out[d]; ++i) taps.weight.resize(static_cast<size_t>(taps.first[i + 1]), 1 / lengths[d][i]);
      }
      taps.finish();
    }
  }
};

}  // namespace

PyObject* sum_pool(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (!takes("sum_pool", n, 7)) return nullptr;
  PyArrayObject* x = real_array(args[0]);
  Windows w;
  int64_t out[3];
  if (!w.parse(x, args + 1) || !parse_longs(args[6], w.nd, 1, 1, out)) return fall_back();
  return resampled(x, w.nd, [&](const int64_t* size, auto* r) {
    w.prepare(size, out, r);
    return true;
  });
}

PyObject* sum_pool_backward(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (!takes("sum_pool_backward", n, 7)) return nullptr;
  PyArrayObject* g = real_array(args[0]);
  Windows w;
  int64_t size[3];
  if (!w.parse(g, args + 2) || !parse_longs(args[1], w.nd, 1, 1, size)) return fall_back();
  return resampled(g, w.nd, [&](const int64_t* out, auto* r) {
    w.prepare(size, out, r);
    for (auto& taps : r->taps) taps = taps.transposed();
    return true;
  });
}

}  // namespace shmtensor
