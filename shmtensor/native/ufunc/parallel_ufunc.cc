// A NumPy ufunc made anew: same loops and type rules, but large calls run on the pool, and nothing
// warns.
//
//   call -> straight: arrays of one dtype, contiguous or broadcast, numbers -> loop, by `run_flat`
//        -> otherwise: NumPy's own machinery (casts, overlap, reduce) -> `loop` -> same split
//
// The result is a real numpy.ufunc (so `reduce`, `accumulate`, `outer`, `at` work); only its
// vectorcall slot is ours, and it returns 0-d arrays where NumPy returns its scalars. The straight
// way skips NumPy's dispatch and iterator.
//
// Note [No warnings]
// NumPy clears the floating-point status before a loop and warns about what it finds after. `loop`
// clears it on the way out, so it finds nothing; on the straight way nobody looks. Workers have
// status flags of their own.
#include "ufunc/parallel_ufunc.h"

#include <cfenv>
#include <cstring>

#include "kernels/arguments.h"
#include "ufunc/loops.h"
#include "kernels/shape/memory_format.h"
#include "ufunc/ufunc_names.h"
#include "ufunc/refused_dtypes.h"
#include "ufunc/iterate.h"

namespace shmtensor {
namespace {

struct Made {
  vectorcallfunc numpy;          // NumPy's own call
  int first[NPY_NTYPES_LEGACY];  // the loop whose inputs are all of this type, or -1
  PyUFuncGenericFunction* functions;
  void** data;
  char* types;
  Loop* loops;
  PyObject* original;  // NumPy's ufunc, if it has further loops (comparison with any Python int),
                       // else nullptr
  const char* refused;  // kinds of dtype that it does not take; they have no loop in `first`
  bool divides;         // whole numbers: a divisor of 0 is an error
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

// What NumPy's machinery calls.
void loop(char** args, npy_intp const* dimensions, npy_intp const* steps, void* data) {
  const Loop& l = *static_cast<Loop*>(data);
  const npy_intp n = dimensions[0];
  if (n >= l.threshold && !l.whole && splits(l, args, n, steps)) {
    run_flat(l, args, n, steps);
  } else {
    l.function(args, dimensions, steps, l.data);
  }
  clear_status(l.long_double);
}

// ---------------------------------------------------------------- the straight way

union Number {
  double d;
  float f;
  npy_int64 i;
  npy_int32 j;
  npy_int16 k;
  npy_int8 b;
  npy_uint8 u;
};

// A Python number as one element of dtype `type`; false: leave it to NumPy.
bool weak(PyObject* p, int type, Number* out) {
  if (PyFloat_CheckExact(p)) {
    double v = PyFloat_AS_DOUBLE(p);
    if (type == NPY_FLOAT)
      out->f = static_cast<float>(v);
    else if (type == NPY_DOUBLE)
      out->d = v;
    else
      return false;
    return true;
  }
  if (!PyLong_CheckExact(p)) return false;
  int overflow;
  long long v = PyLong_AsLongLongAndOverflow(p, &overflow);
  if (overflow) return false;
  switch (type) {
    case NPY_FLOAT:
      out->f = static_cast<float>(v);
      return v >= -(1 << 24) && v <= (1 << 24);
    case NPY_DOUBLE:
      out->d = static_cast<double>(v);
      return v >= -(1LL << 53) && v <= (1LL << 53);
    case NPY_LONG:
      out->i = v;
      return true;
    case NPY_INT:
      out->j = static_cast<npy_int32>(v);
      return v == out->j;
    case NPY_SHORT:
      out->k = static_cast<npy_int16>(v);
      return v == out->k;
    case NPY_BYTE:
      out->b = static_cast<npy_int8>(v);
      return v == out->b;
    case NPY_UBYTE:
      out->u = static_cast<npy_uint8>(v);
      return v == out->u;
    default:
      return false;
  }
}

bool plain(PyArrayObject* a) { return PyArray_ISALIGNED(a) && PyArray_ISNOTSWAPPED(a); }

// Returns nullptr without an exception when NumPy has to do it.
PyObject* straight(PyUFuncObject* u, const Made& made, PyObject* const* args, Py_ssize_t nargs) {
  const int nin = u->nin;
  if (u->nout != 1 || nin > 2 || (nargs != nin && nargs != nin + 1)) return nullptr;
  PyArrayObject* lead = nullptr;
  for (int i = 0; i < nin && !lead; ++i) {
    if (PyArray_CheckExact(args[i])) lead = as_array(args[i]);
  }
  if (!lead) return nullptr;
  const int type = PyArray_TYPE(lead);
  if (type < 0 || type >= NPY_NTYPES_LEGACY || made.first[type] < 0) return nullptr;
  const int index = made.first[type];
  const Loop& l = made.loops[index];
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
      if (PyArray_TYPE(a) != type || !plain(a)) return nullptr;
      in[i] = a;
      data[i] = PyArray_BYTES(a);
      if (PyArray_NDIM(a) > nd) nd = PyArray_NDIM(a);
      same = same && PyArray_IS_C_CONTIGUOUS(a) && PyArray_NDIM(a) == PyArray_NDIM(lead) &&
             PyArray_CompareLists(PyArray_DIMS(a), PyArray_DIMS(lead), PyArray_NDIM(a));
    } else {
      if (!weak(args[i], type, &numbers[i])) return nullptr;
      data[i] = reinterpret_cast<char*>(&numbers[i]);
    }
  }
  if (nd > kMaxDims) return nullptr;
  npy_intp dims[kMaxDims];
  for (int d = 0; d < nd; ++d) {
    npy_intp size = 1;
    for (int i = 0; i < nin; ++i) {
      int at = in[i] ? d - (nd - PyArray_NDIM(in[i])) : -1;
      if (at < 0) continue;
      npy_intp n = PyArray_DIM(in[i], at);
      if (n == size || n == 1) continue;
      if (size != 1) return nullptr;  // does not broadcast: NumPy says so
      size = n;
    }
    dims[d] = size;
  }

  Ref out;
  if (nargs > nin && args[nin] != Py_None) {
    if (!PyArray_CheckExact(args[nin])) return nullptr;
    PyArrayObject* o = as_array(args[nin]);
    if (PyArray_TYPE(o) != out_type || !plain(o) || !PyArray_ISWRITEABLE(o) ||
        PyArray_NDIM(o) != nd || !PyArray_CompareLists(PyArray_DIMS(o), dims, nd)) {
      return nullptr;
    }
    for (int i = 0; i < nin; ++i) {
      if (!in[i]) continue;
      bool identical =
          in[i] == o ||
          (data[i] == PyArray_BYTES(o) && type == out_type && PyArray_NDIM(in[i]) == nd &&
           PyArray_CompareLists(PyArray_STRIDES(in[i]), PyArray_STRIDES(o), nd) &&
           PyArray_CompareLists(PyArray_DIMS(in[i]), dims, nd));
      if (!identical && overlap(in[i], o)) return nullptr;
    }
    same = same && PyArray_IS_C_CONTIGUOUS(o);
    Py_INCREF(o);
    out = Ref(o);
  } else {
    npy_intp strides[kMaxDims];
    if (!same) {
      int order[kMaxDims];
      PyArrayObject* arrays[2] = {lead, in[0] && in[1] ? in[1] : nullptr};
      pointwise_strides(arrays, arrays[1] ? 2 : 1, nin == 2 && !arrays[1], nd, dims, strides, order);
      for (int d = 0; d < nd; ++d) strides[d] *= l.itemsize[nin];
    }
    out = Ref(PyArray_NewFromDescr(&PyArray_Type, PyArray_DescrFromType(out_type), nd, dims,
                                   same ? nullptr : strides, nullptr, 0, nullptr));
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
    Walk w;
    w.nd = nd;
    for (int d = 0; d < nd; ++d) {
      w.dims[d] = dims[d];
      for (int i = 0; i < nin; ++i) {
        int at = in[i] ? d - (nd - PyArray_NDIM(in[i])) : -1;
        w.strides[i][d] = at < 0 || PyArray_DIM(in[i], at) == 1 ? 0 : PyArray_STRIDE(in[i], at);
      }
      w.strides[nin][d] = PyArray_STRIDE(o, d);
    }
    // Walk in the order of the result's memory.
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
    run_walk(l, data, w);
  }
  if (l.whole && PyErr_Occurred()) return nullptr;
  return out.release();
}

PyObject* call(PyObject* self, PyObject* const* args, size_t nargsf, PyObject* names) {
  auto* u = reinterpret_cast<PyUFuncObject*>(self);
  const Made& made = *static_cast<Made*>(u->ptr);
  if (made.divides && PyVectorcall_NARGS(nargsf) > 1 && by_zero(args[0], args[1])) {
    PyErr_SetString(PyExc_ZeroDivisionError, "division of whole numbers by zero");
    return nullptr;
  }
  if (!names || PyTuple_GET_SIZE(names) == 0) {
    PyObject* out = straight(u, made, args, PyVectorcall_NARGS(nargsf));
    if (out || PyErr_Occurred()) return out;
  }
  if (*made.refused && !accepts(made.refused, args, PyVectorcall_NARGS(nargsf))) return nullptr;
  bool original = made.original && PyVectorcall_NARGS(nargsf) > 1 &&
                  (PyLong_CheckExact(args[0]) || PyLong_CheckExact(args[1]));
  PyObject* out = original ? PyObject_Vectorcall(made.original, args, nargsf, names)
                           : made.numpy(self, args, nargsf, names);
  if (!out || PyArray_Check(out) || !PyArray_IsScalar(out, Generic)) return out;
  PyObject* array = PyArray_FromScalar(out, nullptr);
  Py_DECREF(out);
  return array;
}

// ---------------------------------------------------------------- making one

bool is_numeric(int type) {
  return type >= NPY_BOOL && (type <= NPY_CLONGDOUBLE || type == NPY_HALF);
}

npy_intp itemsize_of(int type) {
  PyArray_Descr* descr = PyArray_DescrFromType(type);
  npy_intp n = PyDataType_ELSIZE(descr);
  Py_DECREF(descr);
  return n;
}

}  // namespace

const Loop* loop_of_floats(PyObject* ufunc, int* result) {
  auto* u = reinterpret_cast<PyUFuncObject*>(ufunc);
  if (u->vectorcall != call || u->nout != 1) return nullptr;
  const Made& made = *static_cast<Made*>(u->ptr);
  const int index = made.first[NPY_FLOAT];
  if (index < 0) return nullptr;
  *result = u->types[index * u->nargs + u->nin];
  return *result == NPY_FLOAT || *result == NPY_BOOL ? &made.loops[index] : nullptr;
}

// The tables live as long as the process: ufuncs are made once, at import.
PyObject* parallel(PyObject*, PyObject* args) {
  PyObject* argument;
  const char* refused = "";
  if (!PyArg_ParseTuple(args, "O|s", &argument, &refused)) return nullptr;
  if (!PyObject_TypeCheck(argument, &PyUFunc_Type)) {
    return raise("TypeError", "parallel: not a NumPy ufunc: %s", Py_TYPE(argument)->tp_name);
  }
  auto* from = reinterpret_cast<PyUFuncObject*>(argument);
  if (from->core_enabled || from->nargs > kMaxOperands) {
    return raise("TypeError", "parallel: the ufunc has core dimensions or too many operands: %s",
                 from->name);
  }
  auto* made = static_cast<Made*>(PyMem_RawCalloc(1, sizeof(Made)));
  const size_t most = static_cast<size_t>(from->ntypes);
  const size_t nargs = static_cast<size_t>(from->nargs);
  made->refused = strdup(refused);
  made->divides = is_division(from->name);
  made->functions =
      static_cast<PyUFuncGenericFunction*>(calloc(most, sizeof(PyUFuncGenericFunction)));
  made->data = static_cast<void**>(calloc(most, sizeof(void*)));
  made->types = static_cast<char*>(calloc(most, nargs));
  made->loops = static_cast<Loop*>(calloc(most, sizeof(Loop)));
  if (is_comparison(from->name)) made->original = Py_NewRef(argument);
  for (int& f : made->first) f = -1;
  const bool cheap = is_cheap(from->name);
  int n = 0;
  for (int i = 0; i < from->ntypes; ++i) {
    const char* types = from->types + static_cast<size_t>(i) * nargs;
    bool numeric = true, uniform = true;
    for (size_t k = 0; k < nargs; ++k) {
      numeric = numeric && is_numeric(types[k]);
      if (k < static_cast<size_t>(from->nin)) uniform = uniform && types[k] == types[0];
    }
    if (!numeric) continue;
    Loop& l = made->loops[n];
    l.function = from->functions[i];
    l.data = from->data ? const_cast<void*>(from->data[i]) : nullptr;
    const OwnLoop own = own_loop(from->name, types[0]);
    if (own.function) l.function = own.function, l.data = own.kernel;
    l.nin = from->nin;
    l.nargs = from->nargs;
    l.threshold = cheap ? 32768 : 4096;
    l.rows = l.nin == 2 && l.nargs == 3 ? named_row_kernel(from->name, types[0]) : nullptr;
    l.whole = !strcmp(from->name, "power") && types[0] <= NPY_ULONGLONG;
    for (size_t k = 0; k < nargs; ++k) {
      l.itemsize[k] = itemsize_of(types[k]);
      l.long_double = l.long_double || types[k] == NPY_LONGDOUBLE || types[k] == NPY_CLONGDOUBLE;
    }
    made->functions[n] = loop;
    made->data[n] = &l;
    memcpy(made->types + static_cast<size_t>(n) * nargs, types, nargs);
    if (uniform && !refuses(refused, types[0]) && made->first[static_cast<int>(types[0])] < 0)
      made->first[static_cast<int>(types[0])] = n;
    ++n;
  }
  if (n == 0) return raise("TypeError", "parallel: the ufunc has no numeric loop: %s", from->name);
  PyObject* self = PyUFunc_FromFuncAndDataAndSignatureAndIdentity(
      made->functions, made->data, made->types, n, from->nin, from->nout, from->identity,
      from->name, from->doc, 0, nullptr,
      from->identity == PyUFunc_IdentityValue ? from->identity_value : nullptr);
  if (!self) return nullptr;
  auto* u = reinterpret_cast<PyUFuncObject*>(self);
  u->type_resolver = from->type_resolver;
  u->ptr = made;
  made->numpy = u->vectorcall;
  u->vectorcall = call;
  return self;
}

}  // namespace shmtensor
