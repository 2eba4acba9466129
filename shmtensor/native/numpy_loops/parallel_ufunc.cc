// A copy of a NumPy ufunc with the same loops and type rules, but large calls run on the thread pool, and nothing
// warns.
//
//   call -> call_directly: arrays of one dtype, contiguous or broadcast, numbers -> run_flat or run_strided
//        -> otherwise: NumPy's implementation (casts, overlap, reduce) -> numpy_loop -> run_flat
//
// The result is a real numpy.ufunc (so `reduce`, `accumulate`, `outer`, `at` work); only its vectorcall slot is
// replaced, and it returns 0-d arrays where NumPy returns scalars. A direct call skips NumPy's dispatch and iterator.
//
// Note [No warnings]
// NumPy clears the floating-point status before a loop and checks it afterwards. numpy_loop clears it before it
// returns, so the check finds nothing; a direct call does not check. Workers have separate status flags.
#include "numpy_loops/parallel_ufunc.h"

#include <cfenv>
#include <cstring>

#include "kernels/arguments.h"
#include "numpy_loops/loops.h"
#include "kernels/shape/memory_format.h"
#include "numpy_loops/ufunc_names.h"
#include "numpy_loops/refused_dtypes.h"
#include "numpy_loops/iterate.h"

namespace shmtensor {
namespace {

struct ParallelUfunc {
  vectorcallfunc numpy;          // NumPy's vectorcall
  int loop_of_type[NPY_NTYPES_LEGACY];  // index of the loop whose inputs are all of this type, or -1
  PyUFuncGenericFunction* functions;
  void** data;
  char* types;
  Loop* loops;
  PyObject* numpy_ufunc;  // NumPy's ufunc, if it has further loops (comparison with any Python int), else nullptr
  const char* rejected_kinds;  // dtype kinds that raise TypeError; they have no loop in loop_of_type
  bool checks_zero_divisor;         // an integer divisor of 0 is an error
};

void clear_status(bool long_double) {
#if defined(__x86_64__)
  if (!long_double) {
    unsigned csr = __builtin_ia32_stmxcsr();
    if (csr & 0x3f) __builtin_ia32_ldmxcsr(csr & ~0x3fu);
    return;
  }
#endif
  (void)long_double;
  feclearexcept(FE_ALL_EXCEPT);
}

// The inner loop that NumPy's implementation calls.
void numpy_loop(char** args, npy_intp const* dimensions, npy_intp const* steps, void* data) {
  const Loop& l = *static_cast<Loop*>(data);
  const npy_intp n = dimensions[0];
  if (n >= l.threshold && !l.runs_on_caller && is_splittable(l, args, n, steps)) {
    run_flat(l, args, n, steps);
  } else {
    l.function(args, dimensions, steps, l.data);
  }
  clear_status(l.long_double);
}

// ---------------------------------------------------------------- direct calls

union Number {
  double d;
  float f;
  npy_int64 i;
  npy_int32 j;
  npy_int16 k;
  npy_int8 b;
  npy_uint8 u;
};

// Converts a Python number to an element of dtype `type`; false: leave it to NumPy.
bool parse_scalar(PyObject* p, int type, Number* out) {
  if (PyFloat_CheckExact(p)) {
    double v = PyFloat_AS_DOUBLE(p);
    if (type == NPY_FLOAT) out->f = static_cast<float>(v);
    else if (type == NPY_DOUBLE) out->d = v;
    else return false;
    return true;
  }
  if (!PyLong_CheckExact(p)) return false;
  int overflow;
  long long v = PyLong_AsLongLongAndOverflow(p, &overflow);
  if (overflow) return false;
  switch (type) {
    case NPY_FLOAT: out->f = static_cast<float>(v); return v >= -(1 << 24) && v <= (1 << 24);
    case NPY_DOUBLE: out->d = static_cast<double>(v); return v >= -(1LL << 53) && v <= (1LL << 53);
    case NPY_LONG: out->i = v; return true;
    case NPY_INT: out->j = static_cast<npy_int32>(v); return v == out->j;
    case NPY_SHORT: out->k = static_cast<npy_int16>(v); return v == out->k;
    case NPY_BYTE: out->b = static_cast<npy_int8>(v); return v == out->b;
    case NPY_UBYTE: out->u = static_cast<npy_uint8>(v); return v == out->u;
    default: return false;
  }
}

bool is_plain_array(PyArrayObject* a) { return PyArray_ISALIGNED(a) && PyArray_ISNOTSWAPPED(a); }

// Returns nullptr without an exception if NumPy has to compute it.
__attribute__((hot)) PyObject* call_directly(PyUFuncObject* u, const ParallelUfunc& state, PyObject* const* args,
                                             Py_ssize_t nargs) {
  const int nin = u->nin;
  if (u->nout != 1 || nin > 2 || (nargs != nin && nargs != nin + 1)) return nullptr;
  PyArrayObject* first_array = nullptr;
  for (int i = 0; i < nin && !first_array; ++i) {
    if (PyArray_CheckExact(args[i])) first_array = as_array(args[i]);
  }
  if (!first_array) return nullptr;
  const int type = PyArray_TYPE(first_array);
  if (type < 0 || type >= NPY_NTYPES_LEGACY || state.loop_of_type[type] < 0) return nullptr;
  const int index = state.loop_of_type[type];
  const Loop& l = state.loops[index];
  const int out_type = u->types[index * u->nargs + nin];

  // Operands, and the shape of the result.
  Number numbers[2];
  PyArrayObject* in[2] = {nullptr, nullptr};
  char* data[kMaxOperands];
  int nd = 0;
  bool same = true;  // all arrays have the shape of `lead` and are C-contiguous
  for (int i = 0; i < nin; ++i) {
    if (PyArray_CheckExact(args[i])) {
      PyArrayObject* a = as_array(args[i]);
      if (PyArray_TYPE(a) != type || !is_plain_array(a)) return nullptr;
      in[i] = a;
      data[i] = PyArray_BYTES(a);
      if (PyArray_NDIM(a) > nd) nd = PyArray_NDIM(a);
      same = same && PyArray_IS_C_CONTIGUOUS(a) && PyArray_NDIM(a) == PyArray_NDIM(first_array) &&
             PyArray_CompareLists(PyArray_DIMS(a), PyArray_DIMS(first_array), PyArray_NDIM(a));
    } else {
      if (!parse_scalar(args[i], type, &numbers[i])) return nullptr;
      data[i] = reinterpret_cast<char*>(&numbers[i]);
    }
  }
  if (nd > kMaxDims) return nullptr;
  npy_intp dims[kMaxDims];
  for (int d = 0; d < nd; ++d) {
    npy_intp size = 1;
    for (int i = 0; i < nin; ++i) {
      int dim = in[i] ? d - (nd - PyArray_NDIM(in[i])) : -1;
      if (dim < 0) continue;
      npy_intp n = PyArray_DIM(in[i], dim);
      if (n == size || n == 1) continue;
      if (size != 1) return nullptr;  // does not broadcast: NumPy raises
      size = n;
    }
    dims[d] = size;
  }

  Ref out;
  if (nargs > nin && args[nin] != Py_None) {
    if (!PyArray_CheckExact(args[nin])) return nullptr;
    PyArrayObject* o = as_array(args[nin]);
    if (PyArray_TYPE(o) != out_type || !is_plain_array(o) || !PyArray_ISWRITEABLE(o) || PyArray_NDIM(o) != nd ||
        !PyArray_CompareLists(PyArray_DIMS(o), dims, nd)) {
      return nullptr;
    }
    for (int i = 0; i < nin; ++i) {
      if (!in[i]) continue;
      bool same_view = in[i] == o || (data[i] == PyArray_BYTES(o) && type == out_type && PyArray_NDIM(in[i]) == nd &&
                                      PyArray_CompareLists(PyArray_STRIDES(in[i]), PyArray_STRIDES(o), nd) &&
                                      PyArray_CompareLists(PyArray_DIMS(in[i]), dims, nd));
      if (!same_view && overlap(in[i], o)) return nullptr;
    }
    same = same && PyArray_IS_C_CONTIGUOUS(o);
    Py_INCREF(o);
    out = Ref(o);
  } else {
    npy_intp strides[kMaxDims];
    if (!same) {
      int order[kMaxDims];
      PyArrayObject* arrays[2] = {first_array, in[0] && in[1] ? in[1] : nullptr};
      pointwise_strides(arrays, arrays[1] ? 2 : 1, nin == 2 && !arrays[1], nd, dims, strides, order);
      for (int d = 0; d < nd; ++d) strides[d] *= l.itemsize[nin];
    }
    out = Ref(PyArray_NewFromDescr(&PyArray_Type, PyArray_DescrFromType(out_type), nd, dims, same ? nullptr : strides,
                                   nullptr, 0, nullptr));
    if (!out) return nullptr;
  }
  PyArrayObject* o = out.array();
  data[nin] = PyArray_BYTES(o);
  const npy_intp total = PyArray_SIZE(o);
  if (total == 0) return out.release();

  if (same) {
    npy_intp steps[kMaxOperands];
    for (int i = 0; i < nin; ++i) steps[i] = in[i] ? l.itemsize[i] : 0;
    steps[nin] = l.itemsize[nin];
    Unlocked unlocked(total > kUnlock);
    run_flat(l, data, total, steps);
  } else {
    StridedLoop w;
    w.nd = nd;
    for (int d = 0; d < nd; ++d) {
      w.dims[d] = dims[d];
      for (int i = 0; i < nin; ++i) {
        int dim = in[i] ? d - (nd - PyArray_NDIM(in[i])) : -1;
        w.strides[i][d] = dim < 0 || PyArray_DIM(in[i], dim) == 1 ? 0 : PyArray_STRIDE(in[i], dim);
      }
      w.strides[nin][d] = PyArray_STRIDE(o, d);
    }
    // Sort the dimensions by the result's strides.
    for (int i = 1; i < nd; ++i) {
      for (int j = i; j > 0 && w.strides[nin][j] > w.strides[nin][j - 1]; --j) {
        npy_intp t = w.dims[j];
        w.dims[j] = w.dims[j - 1];
        w.dims[j - 1] = t;
        for (int a = 0; a <= nin; ++a) {
          t = w.strides[a][j];
          w.strides[a][j] = w.strides[a][j - 1];
          w.strides[a][j - 1] = t;
        }
      }
    }
    coalesce(&w, nin + 1);
    Unlocked unlocked(total > kUnlock);
    run_strided(l, data, w);
  }
  if (l.runs_on_caller && PyErr_Occurred()) return nullptr;
  return out.release();
}

PyObject* call(PyObject* self, PyObject* const* args, size_t nargsf, PyObject* kwnames) {
  auto* u = reinterpret_cast<PyUFuncObject*>(self);
  const ParallelUfunc& state = *static_cast<ParallelUfunc*>(u->ptr);
  if (state.checks_zero_divisor && PyVectorcall_NARGS(nargsf) > 1 && is_integer_division_by_zero(args[0], args[1])) {
    PyErr_SetString(PyExc_ZeroDivisionError, "integer division by zero");
    return nullptr;
  }
  if (!kwnames || PyTuple_GET_SIZE(kwnames) == 0) {
    PyObject* out = call_directly(u, state, args, PyVectorcall_NARGS(nargsf));
    if (out || PyErr_Occurred()) return out;
  }
  if (*state.rejected_kinds && !check_kinds(state.rejected_kinds, args, PyVectorcall_NARGS(nargsf))) return nullptr;
  bool uses_numpy_ufunc =
      state.numpy_ufunc && PyVectorcall_NARGS(nargsf) > 1 && (PyLong_CheckExact(args[0]) || PyLong_CheckExact(args[1]));
  PyObject* out = uses_numpy_ufunc ? PyObject_Vectorcall(state.numpy_ufunc, args, nargsf, kwnames)
                                   : state.numpy(self, args, nargsf, kwnames);
  if (!out || PyArray_Check(out) || !PyArray_IsScalar(out, Generic)) return out;
  PyObject* array = PyArray_FromScalar(out, nullptr);
  Py_DECREF(out);
  return array;
}

// ---------------------------------------------------------------- construction

bool is_numeric_type(int type) { return type >= NPY_BOOL && (type <= NPY_CLONGDOUBLE || type == NPY_HALF); }

npy_intp itemsize_of(int type) {
  PyArray_Descr* descr = PyArray_DescrFromType(type);
  npy_intp n = PyDataType_ELSIZE(descr);
  Py_DECREF(descr);
  return n;
}

}  // namespace

const Loop* float32_loop(PyObject* ufunc, int* result) {
  auto* u = reinterpret_cast<PyUFuncObject*>(ufunc);
  if (u->vectorcall != call || u->nout != 1) return nullptr;
  const ParallelUfunc& state = *static_cast<ParallelUfunc*>(u->ptr);
  const int index = state.loop_of_type[NPY_FLOAT];
  if (index < 0) return nullptr;
  *result = u->types[index * u->nargs + u->nin];
  return *result == NPY_FLOAT || *result == NPY_BOOL ? &state.loops[index] : nullptr;
}

// The tables are never freed: ufuncs are created once, at import.
PyObject* parallel(PyObject*, PyObject* args) {
  PyObject* argument;
  const char* rejected_kinds = "";
  if (!PyArg_ParseTuple(args, "O|s", &argument, &rejected_kinds)) return nullptr;
  if (!PyObject_TypeCheck(argument, &PyUFunc_Type)) {
    return raise("TypeError", "parallel: not a NumPy ufunc: %s", Py_TYPE(argument)->tp_name);
  }
  auto* source = reinterpret_cast<PyUFuncObject*>(argument);
  if (source->core_enabled || source->nargs > kMaxOperands) {
    return raise("TypeError", "parallel: the ufunc has core dimensions or too many operands: %s", source->name);
  }
  auto* state = static_cast<ParallelUfunc*>(PyMem_RawCalloc(1, sizeof(ParallelUfunc)));
  if (!state) return PyErr_NoMemory();
  const size_t max_loops = static_cast<size_t>(source->ntypes);
  const size_t nargs = static_cast<size_t>(source->nargs);
  state->rejected_kinds = strdup(rejected_kinds);
  state->checks_zero_divisor = is_division(source->name);
  state->functions = static_cast<PyUFuncGenericFunction*>(calloc(max_loops, sizeof(PyUFuncGenericFunction)));
  state->data = static_cast<void**>(calloc(max_loops, sizeof(void*)));
  state->types = static_cast<char*>(calloc(max_loops, nargs));
  state->loops = static_cast<Loop*>(calloc(max_loops, sizeof(Loop)));
  if (!state->rejected_kinds || !state->functions || !state->data || !state->types || !state->loops) return PyErr_NoMemory();
  if (is_comparison(source->name)) state->numpy_ufunc = Py_NewRef(argument);
  for (int& f : state->loop_of_type) f = -1;
  const bool cheap = is_cheap(source->name);
  int n = 0;
  for (int i = 0; i < source->ntypes; ++i) {
    const char* types = source->types + static_cast<size_t>(i) * nargs;
    bool numeric = true, uniform = true;
    for (size_t k = 0; k < nargs; ++k) {
      numeric = numeric && is_numeric_type(types[k]);
      if (k < static_cast<size_t>(source->nin)) uniform = uniform && types[k] == types[0];
    }
    if (!numeric) continue;
    Loop& l = state->loops[n];
    l.function = source->functions[i];
    l.data = source->data ? const_cast<void*>(source->data[i]) : nullptr;
    const KernelLoop kernel_loop = find_loop(source->name, types[0]);
    if (kernel_loop.function) l.function = kernel_loop.function, l.data = kernel_loop.kernel;
    l.nin = source->nin;
    l.nargs = source->nargs;
    l.threshold = cheap ? 32768 : 4096;
    l.rows = l.nin == 2 && l.nargs == 3 ? named_row_kernel(source->name, types[0]) : nullptr;
    l.runs_on_caller = !strcmp(source->name, "power") && types[0] <= NPY_ULONGLONG;
    for (size_t k = 0; k < nargs; ++k) {
      l.itemsize[k] = itemsize_of(types[k]);
      l.long_double = l.long_double || types[k] == NPY_LONGDOUBLE || types[k] == NPY_CLONGDOUBLE;
    }
    state->functions[n] = numpy_loop;
    state->data[n] = &l;
    memcpy(state->types + static_cast<size_t>(n) * nargs, types, nargs);
    if (uniform && !is_rejected(rejected_kinds, types[0]) && state->loop_of_type[static_cast<int>(types[0])] < 0)
      state->loop_of_type[static_cast<int>(types[0])] = n;
    ++n;
  }
  if (n == 0) return raise("TypeError", "parallel: the ufunc has no numeric loop: %s", source->name);
  PyObject* self = PyUFunc_FromFuncAndDataAndSignatureAndIdentity(
      state->functions, state->data, state->types, n, source->nin, source->nout, source->identity, source->name, source->doc,
      0, nullptr, source->identity == PyUFunc_IdentityValue ? source->identity_value : nullptr);
  if (!self) return nullptr;
  auto* u = reinterpret_cast<PyUFuncObject*>(self);
  u->type_resolver = source->type_resolver;
  u->ptr = state;
  state->numpy = u->vectorcall;
  u->vectorcall = call;
  return self;
}

}  // namespace shmtensor
