// bfloat16 as a NumPy dtype that can be stored, copied, cast and printed. It has no arithmetic loops: NumPy casts
// bfloat16 safely to float32, and so computes `x + y` of two such arrays in float32.
//
// Its kind is "f", which our checks for floating-point dtypes expect. Its type number differs from float16's, so that
// the two are never equal, though an array interface would name both "<f2" (docs/design/bfloat16.md says where this
// matters).
#include <cmath>
#include <complex>
#include <cstring>

#include "half/bfloat16.h"
#include "simd/kernel_table.h"
#include "half/float16.h"
#include "half/half.h"

namespace shmtensor {

int bfloat16_num = 0x7fffffff;

namespace {

// ---------------------------------------------------------------- the scalar

struct Scalar {
  PyObject_HEAD
  Bfloat16 value;
};

PyTypeObject scalar_type = {PyVarObject_HEAD_INIT(nullptr, 0)};

float value_of(PyObject* self) { return reinterpret_cast<Scalar*>(self)->value; }

PyObject* scalar_new(PyTypeObject* type, PyObject* args, PyObject*) {
  PyObject* argument = nullptr;
  if (!PyArg_ParseTuple(args, "|O:bfloat16", &argument)) return nullptr;
  const double value = argument ? PyFloat_AsDouble(argument) : 0;
  if (value == -1 && PyErr_Occurred()) return nullptr;
  PyObject* self = type->tp_alloc(type, 0);
  if (self) reinterpret_cast<Scalar*>(self)->value = Bfloat16(static_cast<float>(value));
  return self;
}

PyObject* scalar_float(PyObject* self) { return PyFloat_FromDouble(value_of(self)); }
PyObject* scalar_int(PyObject* self) { return PyLong_FromDouble(value_of(self)); }
int scalar_bool(PyObject* self) { return value_of(self) != 0; }

PyObject* scalar_repr(PyObject* self) {
  PyObject* number = scalar_float(self);
  PyObject* text = number ? PyObject_Repr(number) : nullptr;
  Py_XDECREF(number);
  return text;
}

Py_hash_t scalar_hash(PyObject* self) { return _Py_HashDouble(self, value_of(self)); }

PyObject* scalar_compare(PyObject* self, PyObject* other, int op) {
  PyObject* a = PyNumber_Float(self);
  PyObject* b = PyObject_TypeCheck(other, &scalar_type) ? PyNumber_Float(other) : Py_NewRef(other);
  PyObject* result = a && b ? PyObject_RichCompare(a, b, op) : nullptr;
  Py_XDECREF(a);
  Py_XDECREF(b);
  return result;
}

PyObject* scalar_reduce(PyObject* self, PyObject*) {
  return Py_BuildValue("O(d)", Py_TYPE(self), static_cast<double>(value_of(self)));
}

PyMethodDef scalar_methods[] = {
    {"__reduce__", scalar_reduce, METH_NOARGS, "For pickle."},
    {nullptr, nullptr, 0, nullptr},
};

PyNumberMethods scalar_numbers = {};

bool ready_scalar() {
  scalar_numbers.nb_float = scalar_float;
  scalar_numbers.nb_int = scalar_int;
  scalar_numbers.nb_bool = scalar_bool;
  scalar_type.tp_name = "shmtensor.native._core.bfloat16";
  scalar_type.tp_doc = "A bfloat16 scalar: 8 bits of exponent, 8 bits of precision.";
  scalar_type.tp_basicsize = sizeof(Scalar);
  scalar_type.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE;
  scalar_type.tp_base = &PyGenericArrType_Type;
  scalar_type.tp_new = scalar_new;
  scalar_type.tp_repr = scalar_repr;
  scalar_type.tp_str = scalar_repr;
  scalar_type.tp_hash = scalar_hash;
  scalar_type.tp_richcompare = scalar_compare;
  scalar_type.tp_as_number = &scalar_numbers;
  scalar_type.tp_methods = scalar_methods;
  return PyType_Ready(&scalar_type) == 0;
}

// ---------------------------------------------------------------- NumPy's dtype functions

PyObject* getitem(void* data, void*) {
  Bfloat16 x;
  memcpy(&x, data, 2);
  return PyFloat_FromDouble(x);
}

int setitem(PyObject* value, void* data, void*) {
  double number;
  if (PyLong_Check(value)) {
    number = PyLong_AsDouble(value);
  } else {
    PyObject* as_float = PyNumber_Float(value);
    if (!as_float) return -1;
    number = PyFloat_AS_DOUBLE(as_float);
    Py_DECREF(as_float);
  }
  if (number == -1 && PyErr_Occurred()) return -1;
  const Bfloat16 x = Bfloat16(static_cast<float>(number));
  memcpy(data, &x, 2);
  return 0;
}

void swap_bytes(char* p) {
  const char c = p[0];
  p[0] = p[1];
  p[1] = c;
}

void copyswap(void* to, void* from, int swap, void*) {
  if (from) memcpy(to, from, 2);
  if (swap) swap_bytes(static_cast<char*>(to));
}

void copyswapn(void* to, npy_intp to_step, void* from, npy_intp from_step, npy_intp n, int swap, void*) {
  char *t = static_cast<char*>(to), *f = static_cast<char*>(from);
  if (f && to_step == 2 && from_step == 2 && !swap) {
    memcpy(t, f, static_cast<size_t>(n) * 2);
    return;
  }
  for (npy_intp i = 0; i < n; ++i, t += to_step) {
    if (f) memcpy(t, f + i * from_step, 2);
    if (swap) swap_bytes(t);
  }
}

// NaN last, as NumPy sorts.
int compare(const void* a, const void* b, void*) {
  const float x = *static_cast<const Bfloat16*>(a), y = *static_cast<const Bfloat16*>(b);
  if (x < y || (y != y && x == x)) return -1;
  if (x > y || (x != x && y == y)) return 1;
  return 0;
}

npy_bool nonzero(void* data, void*) {
  Bfloat16 x;
  memcpy(&x, data, 2);
  return (x.bits & 0x7fffu) != 0;
}

int fill(void* data, npy_intp n, void*) {
  auto* x = static_cast<Bfloat16*>(data);
  if (n < 2) return 0;
  const float start = x[0], step = x[1] - start;
  for (npy_intp i = 2; i < n; ++i) x[i] = Bfloat16(start + static_cast<float>(i) * step);
  return 0;
}

template <bool Largest>
int argminmax(void* data, npy_intp n, npy_intp* out, void*) {
  const auto* x = static_cast<const Bfloat16*>(data);
  npy_intp best = 0;
  for (npy_intp i = 1; i < n; ++i) {
    const float a = x[best], b = x[i];
    if (a != a) break;
    if (b != b || (Largest ? b > a : b < a)) best = i;
  }
  *out = best;
  return 0;
}

// ---------------------------------------------------------------- casts, contiguous

template <class T>
float single(T x) {
  return static_cast<float>(x);
}
template <class T>
float single(std::complex<T> x) {
  return static_cast<float>(x.real());
}

template <class T>
void cast_from(void* from, void* to, npy_intp n, void*, void*) {
  const auto* x = static_cast<const T*>(from);
  auto* out = static_cast<uint16_t*>(to);
  float block[256];
  for (npy_intp at = 0; at < n; at += 256) {
    const npy_intp count = n - at < 256 ? n - at : 256;
    for (npy_intp i = 0; i < count; ++i) block[i] = single(x[at + i]);
    half_kernels().narrow[1](block, out + at, count);
  }
}

template <class T>
void cast_to(void* from, void* to, npy_intp n, void*, void*) {
  const auto* x = static_cast<const Bfloat16*>(from);
  auto* out = static_cast<T*>(to);
  for (npy_intp i = 0; i < n; ++i) {
    const float value = x[i];
    if constexpr (std::is_integral_v<T> && sizeof(T) < 8) {
      out[i] = static_cast<T>(static_cast<int64_t>(value));  // wraps, as NumPy and PyTorch do it
    } else {
      out[i] = static_cast<T>(value);
    }
  }
}

template <>
void cast_to<bool>(void* from, void* to, npy_intp n, void*, void*) {
  const auto* x = static_cast<const Bfloat16*>(from);
  auto* out = static_cast<npy_bool*>(to);
  for (npy_intp i = 0; i < n; ++i) out[i] = (x[i].bits & 0x7fffu) != 0;
}

void from_single(void* from, void* to, npy_intp n, void*, void*) {
  half_kernels().narrow[1](static_cast<const float*>(from), static_cast<uint16_t*>(to), n);
}

void to_single(void* from, void* to, npy_intp n, void*, void*) {
  half_kernels().widen[1](static_cast<const uint16_t*>(from), static_cast<float*>(to), n);
}

struct Cast {
  int type;
  PyArray_VectorUnaryFunc *from, *to;
};

const Cast casts[] = {
    {NPY_BOOL, cast_from<npy_bool>, cast_to<bool>},
    {NPY_BYTE, cast_from<int8_t>, cast_to<int8_t>},
    {NPY_UBYTE, cast_from<uint8_t>, cast_to<uint8_t>},
    {NPY_SHORT, cast_from<int16_t>, cast_to<int16_t>},
    {NPY_USHORT, cast_from<uint16_t>, cast_to<uint16_t>},
    {NPY_INT, cast_from<int32_t>, cast_to<int32_t>},
    {NPY_UINT, cast_from<uint32_t>, cast_to<uint32_t>},
    {NPY_LONG, cast_from<int64_t>, cast_to<int64_t>},
    {NPY_ULONG, cast_from<uint64_t>, cast_to<uint64_t>},
    {NPY_LONGLONG, cast_from<int64_t>, cast_to<int64_t>},
    {NPY_ULONGLONG, cast_from<uint64_t>, cast_to<uint64_t>},
    {NPY_HALF, cast_from<Float16>, cast_to<Float16>},
    {NPY_FLOAT, from_single, to_single},
    {NPY_DOUBLE, cast_from<double>, cast_to<double>},
    {NPY_LONGDOUBLE, cast_from<long double>, cast_to<long double>},
    {NPY_CFLOAT, cast_from<std::complex<float>>, cast_to<std::complex<float>>},
    {NPY_CDOUBLE, cast_from<std::complex<double>>, cast_to<std::complex<double>>},
    {NPY_CLONGDOUBLE, cast_from<std::complex<long double>>, cast_to<std::complex<long double>>},
};

PyArray_ArrFuncs functions;
PyArray_DescrProto prototype = {PyObject_HEAD_INIT(nullptr)};

bool register_dtype() {
  PyArray_InitArrFuncs(&functions);
  functions.getitem = reinterpret_cast<PyArray_GetItemFunc*>(getitem);
  functions.setitem = reinterpret_cast<PyArray_SetItemFunc*>(setitem);
  functions.copyswap = reinterpret_cast<PyArray_CopySwapFunc*>(copyswap);
  functions.copyswapn = reinterpret_cast<PyArray_CopySwapNFunc*>(copyswapn);
  functions.compare = reinterpret_cast<PyArray_CompareFunc*>(compare);
  functions.nonzero = reinterpret_cast<PyArray_NonzeroFunc*>(nonzero);
  functions.fill = reinterpret_cast<PyArray_FillFunc*>(fill);
  functions.argmax = reinterpret_cast<PyArray_ArgFunc*>(argminmax<true>);
  functions.argmin = reinterpret_cast<PyArray_ArgFunc*>(argminmax<false>);
  Py_SET_TYPE(&prototype, &PyArrayDescr_Type);
  prototype.typeobj = &scalar_type;
  prototype.kind = 'V';  // see Note [The kind]
  prototype.type = 'E';
  prototype.byteorder = '=';
  prototype.flags = NPY_USE_SETITEM;
  prototype.elsize = 2;
  prototype.alignment = 2;
  prototype.f = &functions;
  prototype.hash = -1;
  const int number = PyArray_RegisterDataType(&prototype);
  if (number < 0) return false;
  PyArray_Descr* dtype = PyArray_DescrFromType(number);
  for (const Cast& c : casts) {
    PyArray_Descr* other = PyArray_DescrFromType(c.type);
    const bool ok =
        PyArray_RegisterCastFunc(other, number, c.from) == 0 && PyArray_RegisterCastFunc(dtype, c.type, c.to) == 0;
    Py_DECREF(other);
    if (!ok) return false;
  }
  for (int wider : {NPY_FLOAT, NPY_DOUBLE, NPY_LONGDOUBLE, NPY_CFLOAT, NPY_CDOUBLE, NPY_CLONGDOUBLE}) {
    if (PyArray_RegisterCanCast(dtype, wider, NPY_NOSCALAR) < 0) return false;
  }
  // Note [The kind]
  // When NumPy resolves a cast for the first time, it considers a user dtype of kind "f" and two bytes equal to
  // float16, and would compute in float16. So we let it resolve all casts while the kind is "V"; it caches the results.
  // Then the kind becomes "f".
  for (const Cast& c : casts) {
    PyArray_Descr* other = PyArray_DescrFromType(c.type);
    PyArray_CanCastTypeTo(dtype, other, NPY_SAFE_CASTING);
    PyArray_CanCastTypeTo(other, dtype, NPY_SAFE_CASTING);
    Py_DECREF(other);
  }
  PyArray_CanCastTypeTo(dtype, dtype, NPY_NO_CASTING);
  dtype->kind = 'f';
  bfloat16_num = number;
  return true;
}

}  // namespace

int add_bfloat16(PyObject* module) {
  if (!ready_scalar() || !register_dtype()) return -1;
  PyObject* dtype = reinterpret_cast<PyObject*>(PyArray_DescrFromType(bfloat16_num));
  if (!dtype || PyDict_SetItemString(scalar_type.tp_dict, "dtype", dtype) < 0) return -1;
  if (PyModule_AddObjectRef(module, "bfloat16", reinterpret_cast<PyObject*>(&scalar_type)) < 0) return -1;
  const int ok = PyModule_AddObjectRef(module, "bfloat16_dtype", dtype);
  Py_DECREF(dtype);
  return ok;
}

}  // namespace shmtensor
