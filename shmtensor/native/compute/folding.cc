// Reductions that are worth a call of their own where tensors are small.
#include "folding.h"

#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "array.h"
#include "kernels.h"
#include "matmul.h"
#include "pool.h"
#include "shape.h"

namespace shmtensor {
namespace {

constexpr int64_t kPiece = 16384;  // elements of a slice
constexpr int64_t kUnlock = 8192;

// log(sum(exp(x))) of each row: the probabilities go to scratch, the largest element's place is
// the target, so that nothing cancels.
template <class T>
void log_sums(const Reduced& r, T* out) {
  const T* x = data<T>(r.x);
  ranges(r.outer, 1 + kPiece / r.m, [&](int64_t start, int64_t stop) {
    T few[256];
    std::vector<T> many(r.m > 256 ? static_cast<size_t>(r.m) : 0);
    T* scratch = r.m > 256 ? many.data() : few;
    for (int64_t i = start; i < stop; ++i) {
      const T* row = x + i * r.m;
      const T top = folds<T>().extreme[1](row, r.m);
      if (!(std::fabs(top) <= std::numeric_limits<T>::max())) {
        out[i] = top;  // infinite or no number, and so is the result
        continue;
      }
      const int64_t at = folds<T>().find(row, r.m, top);
      out[i] = kernels<T>().cross_entropy_row(row, scratch, r.m, at) + top;
    }
  });
}

}  // namespace

PyObject* logsumexp(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (count_arguments("logsumexp", n, 3, 3) < 0) return nullptr;
  PyArrayObject* x = array_argument("logsumexp", "input", args[0]);
  if (!x) return nullptr;
  const int type = PyArray_TYPE(x);
  if (type != NPY_FLOAT && type != NPY_DOUBLE) Py_RETURN_NONE;
  Reduced r;
  bool fits;
  if (!reduced_argument("logsumexp", x, args[1], args[2] == Py_True, &r, &fits))
    return left_to_caller();
  if (!fits || r.inner != 1 || r.m == 0) Py_RETURN_NONE;
  Ref out(fresh(r.nd, r.dims, type));
  if (!out) return nullptr;
  Unlocked unlocked(r.outer * r.m > kUnlock);
  type == NPY_FLOAT ? log_sums(r, data<float>(out)) : log_sums(r, data<double>(out));
  return r.put_back(std::move(out));
}

namespace {

PyObject* of_rank(int rank, PyObject* const* args, Py_ssize_t n) {
  if (count_arguments("matmul", n, 2, 2) < 0) return nullptr;
  if (!PyArray_CheckExact(args[0]) || !PyArray_CheckExact(args[1])) Py_RETURN_NONE;
  PyArrayObject *x = as_array(args[0]), *y = as_array(args[1]);
  if (PyArray_NDIM(x) != rank || PyArray_NDIM(y) != rank) Py_RETURN_NONE;
  if (rank == 3 && PyArray_DIM(x, 0) != PyArray_DIM(y, 0)) Py_RETURN_NONE;
  return matmul(nullptr, args, n);
}

}  // namespace

PyObject* dot(PyObject*, PyObject* const* args, Py_ssize_t n) { return of_rank(1, args, n); }
PyObject* bmm(PyObject*, PyObject* const* args, Py_ssize_t n) { return of_rank(3, args, n); }

}  // namespace shmtensor
