// Copies runs of bytes; large ones are divided among the threads.
#include <cstring>
#include <vector>

#include "kernels/arguments.h"
#include "kernels/shape/memcpy.h"
#include "kernels/shape/contiguous.h"
#include "threading/thread_pool.h"
#include "kernels/dtypes.h"

namespace shmtensor {
namespace {

constexpr int64_t kUnlock = 32768;  // bytes
constexpr int64_t kMinListedRun = 512;      // bytes: shorter runs are interleaved without a list
constexpr int64_t kSlice = 262144;  // bytes copied by one slice

struct Run {
  const char* from;
  char* to;
  int64_t nbytes;
};

// Copies runs in slices of about kSlice bytes, whether there are many small runs or few large ones.
void copy_runs(const std::vector<Run>& runs) {
  int64_t total = 0;
  for (const Run& r : runs) total += r.nbytes;
  if (total <= kUnlock) {
    for (const Run& r : runs) copy_run(r.to, r.from, static_cast<size_t>(r.nbytes));
    return;
  }
  std::vector<Run> pieces;
  std::vector<size_t> starts{0};  // first piece of each slice
  int64_t slice_bytes = 0;
  for (Run r : runs) {
    while (r.nbytes > 0) {
      const int64_t available = kSlice - slice_bytes, n = r.nbytes < available ? r.nbytes : available;
      pieces.push_back({r.from, r.to, n});
      r.from += n;
      r.to += n;
      r.nbytes -= n;
      slice_bytes += n;
      if (slice_bytes == kSlice) {
        starts.push_back(pieces.size());
        slice_bytes = 0;
      }
    }
  }
  if (starts.back() != pieces.size()) starts.push_back(pieces.size());
  Unlocked unlocked(true);
  slices(static_cast<int64_t>(starts.size()) - 1, [&](int64_t i) {
    for (size_t k = starts[static_cast<size_t>(i)]; k < starts[static_cast<size_t>(i) + 1]; ++k) {
      copy_run(pieces[k].to, pieces[k].from, static_cast<size_t>(pieces[k].nbytes));
    }
  });
}

// As in PyTorch, an empty 1-D array can be concatenated with any shape.
bool is_legacy_empty(PyArrayObject* a) { return PyArray_NDIM(a) == 1 && PyArray_DIM(a, 0) == 0; }

// Mixed dtypes or strides: NumPy's concatenate, without the empty 1-D arrays.
PyObject* concatenate_by_numpy(PyObject* list, int dim) {
  Ref arrays(PyList_New(0));
  if (!arrays) return nullptr;
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(list); ++i) {
    PyObject* a = PySequence_Fast_GET_ITEM(list, i);
    if (!is_legacy_empty(as_array(a)) && PyList_Append(arrays.get(), a) < 0) return nullptr;
  }
  return PyArray_Concatenate(PyList_GET_SIZE(arrays.get()) ? arrays.get() : list, PyList_GET_SIZE(arrays.get()) ? dim : 0);
}

}  // namespace

// cat(arrays, dim=0)
PyObject* cat(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (!takes("cat", n, 1, 2)) return nullptr;
  Ref list(PySequence_Fast(args[0], "cat: arrays is not a sequence"));
  if (!list) return nullptr;
  const Py_ssize_t count = PySequence_Fast_GET_SIZE(list.get());
  if (count == 0) return raise("RuntimeError", "cat: no arrays: 0, expected at least one");
  PyArrayObject* first = nullptr;
  bool is_simple = true, has_legacy_empty = false;
  for (Py_ssize_t i = 0; i < count; ++i) {
    PyArrayObject* a = array_argument("cat", "an element", PySequence_Fast_GET_ITEM(list.get(), i));
    if (!a) return nullptr;
    if (PyArray_NDIM(a) == 0) return raise("RuntimeError", "cat: an array has no dimensions: element %zd", i);
    const bool is_empty = is_legacy_empty(a);
    has_legacy_empty = has_legacy_empty || is_empty;
    if (!first || (is_legacy_empty(first) && !is_empty)) first = a;
  }
  const int nd = PyArray_NDIM(first), type = PyArray_TYPE(first);
  PyObject* dim_argument_object = n > 1 ? args[1] : nullptr;
  // Empty 1-D arrays alone have no dimension that could be wrong.
  const bool has_dim = dim_argument_object && !is_legacy_empty(first);
  const int dim = has_dim ? dim_argument("cat", dim_argument_object, nd) : 0;
  if (dim < 0) return nullptr;
  npy_intp dims[NPY_MAXDIMS];
  memcpy(dims, PyArray_DIMS(first), sizeof(npy_intp) * static_cast<size_t>(nd));
  dims[dim] = 0;
  int64_t outer = 1;
  for (int i = 0; i < dim; ++i) outer *= dims[i];
  for (Py_ssize_t i = 0; i < count; ++i) {
    PyArrayObject* a = as_array(PySequence_Fast_GET_ITEM(list.get(), i));
    is_simple = is_simple && PyArray_TYPE(a) == type && PyArray_ISCARRAY_RO(a);
    if (has_legacy_empty && is_legacy_empty(a)) continue;
    for (int d = 0; d < nd || d < PyArray_NDIM(a); ++d) {
      if (PyArray_NDIM(a) == nd && (d == dim || PyArray_DIM(a, d) == dims[d])) continue;
      return raise("RuntimeError", "cat: shapes differ outside dim %d: element %zd is %s, the first is %s", dim, i,
                   shape_text(a).c_str(), shape_text(first).c_str());
    }
    dims[dim] += PyArray_DIM(a, dim);
  }
  if (!is_simple || !is_bytes(type)) return concatenate_by_numpy(list.get(), dim);
  Ref out(new_array(nd, dims, type));
  if (!out) return nullptr;
  const int64_t total = PyArray_NBYTES(out.array());
  if (total == 0) return out.release();
  char* out_data = data<char>(out);
  const int64_t stride = total / outer;
  if (total <= 4096) {  // tiny: without a list of runs
    for (Py_ssize_t i = 0; i < count; ++i) {
      PyArrayObject* a = as_array(PySequence_Fast_GET_ITEM(list.get(), i));
      const int64_t nbytes = PyArray_NBYTES(a) / outer;
      for (int64_t o = 0; o < outer; ++o) {
        copy_run(out_data + o * stride, PyArray_BYTES(a) + o * nbytes, static_cast<size_t>(nbytes));
      }
      out_data += nbytes;
    }
    return out.release();
  }
  bool same_size = true;
  for (Py_ssize_t i = 0; i < count; ++i) {
    PyArrayObject* a = as_array(PySequence_Fast_GET_ITEM(list.get(), i));
    same_size = same_size && PyArray_NBYTES(a) == total / count;
  }
  if (same_size && outer > 1 && stride <= kMinListedRun * count) {  // their list would be longer than the runs
    Ref list_owner(PySequence_Tuple(list.get()));  // keeps the arrays alive while the GIL is released
    if (!list_owner) return nullptr;
    Unlocked unlocked(total > kUnlock);
    interleave(PySequence_Fast_ITEMS(list_owner.get()), count, outer, stride / count, out_data);
    return out.release();
  }
  std::vector<Run> runs;
  runs.reserve(static_cast<size_t>(outer * count));
  for (int64_t o = 0; o < outer; ++o) {
    char* to = out_data + o * stride;
    for (Py_ssize_t i = 0; i < count; ++i) {
      PyArrayObject* a = as_array(PySequence_Fast_GET_ITEM(list.get(), i));
      const int64_t nbytes = PyArray_NBYTES(a) / outer;
      if (nbytes) runs.push_back({PyArray_BYTES(a) + o * nbytes, to, nbytes});
      to += nbytes;
    }
  }
  copy_runs(runs);
  return out.release();
}

// stack_into(out, arrays): out[i] = arrays[i]; an array that is its row of `out` already is left alone
PyObject* stack_into(PyObject*, PyObject* const* args, Py_ssize_t n) {
  constexpr const char* where = "stack_into";
  if (!takes(where, n, 2)) return nullptr;
  PyArrayObject* out = array_argument(where, "out", args[0]);
  Ref list(out ? PySequence_Fast(args[1], "stack_into: arrays is not a sequence") : nullptr);
  if (!list) return nullptr;
  const Py_ssize_t count = PySequence_Fast_GET_SIZE(list.get());
  const int nd = PyArray_NDIM(out);
  if (nd == 0 || PyArray_DIM(out, 0) != count) {
    return raise("RuntimeError", "stack_into: out has another size: %s for %zd arrays", shape_text(out).c_str(), count);
  }
  if (!PyArray_ISCARRAY(out)) {
    return raise("RuntimeError", "stack_into: out is not contiguous and writeable: %s", shape_text(out).c_str());
  }
  const int64_t row = count ? PyArray_NBYTES(out) / count : 0;
  std::vector<Run> runs;
  runs.reserve(static_cast<size_t>(count));
  for (Py_ssize_t i = 0; i < count; ++i) {
    PyArrayObject* a = array_argument(where, "an element", PySequence_Fast_GET_ITEM(list.get(), i));
    if (!a) return nullptr;
    if (PyArray_NDIM(a) != nd - 1 || !PyArray_CompareLists(PyArray_DIMS(a), PyArray_DIMS(out) + 1, nd - 1)) {
      return raise("RuntimeError", "stack_into: shapes differ: element %zd is %s, out is %s", i, shape_text(a).c_str(),
                   shape_text(out).c_str());
    }
    if (!PyArray_EquivTypes(PyArray_DESCR(a), PyArray_DESCR(out))) {
      return raise("TypeError", "stack_into: dtypes differ: element %zd is %s, out is %s", i, dtype_text(a).c_str(),
                   dtype_text(out).c_str());
    }
    char* to = PyArray_BYTES(out) + i * row;
    if (PyArray_ISCARRAY_RO(a) && !PyDataType_REFCHK(PyArray_DESCR(a))) {
      if (row && PyArray_BYTES(a) != to) runs.push_back({PyArray_BYTES(a), to, row});
      continue;
    }
    Py_INCREF(PyArray_DESCR(out));
    Ref view(PyArray_NewFromDescr(&PyArray_Type, PyArray_DESCR(out), nd - 1, PyArray_DIMS(out) + 1, nullptr, to,
                                  NPY_ARRAY_CARRAY, nullptr));
    if (!view || PyArray_CopyInto(view.array(), a) < 0) return nullptr;
  }
  copy_runs(runs);
  Py_RETURN_NONE;
}

}  // namespace shmtensor
