// dtype: one object per dtype of tensors, beside NumPy's dtype, which takes no attributes (is_floating_point, ...).
//
// NumPy converts the object to its own dtype by the attribute `dtype` or `__numpy_dtype__`. The object equals what its
// dtype equals and hashes alike, and passes on each public attribute that it lacks. Arrays keep NumPy's dtypes.
#include "kernels/dtype_object.h"

#include <structmember.h>

#include <cstddef>

#include "half/bfloat16.h"
#include "kernels/arguments.h"

namespace shmtensor {
namespace {

struct Dtype {
  PyObject_HEAD
  PyObject *numpy, *name;
  Py_ssize_t itemsize;
  char kind, symbol;  // NumPy's `kind` and `char`
  bool is_floating_point, is_complex, is_signed;
};

PyTypeObject* dtype_type;

// Note [One object per dtype]
// All are made at import and never freed, so borrowed references stay valid. int64 is both of NumPy's long and
// long long, where these have the same size.
constexpr int kNumbers = NPY_HALF + 1;
Dtype* objects[kNumbers];
Dtype* bfloat16_object;

Dtype* as_dtype(PyObject* x) { return reinterpret_cast<Dtype*>(x); }
bool is_dtype(PyObject* x) { return Py_TYPE(x) == dtype_type; }
PyArray_Descr* descr_of(Dtype* d) { return reinterpret_cast<PyArray_Descr*>(d->numpy); }

Dtype* object_of(int type) {
  if (type == bfloat16_num) return bfloat16_object;
  return type >= 0 && type < kNumbers ? objects[type] : nullptr;
}

Dtype* make_object(int type) {
  Dtype* d = PyObject_New(Dtype, dtype_type);
  if (!d) return nullptr;
  PyArray_Descr* descr = PyArray_DescrFromType(type);
  d->numpy = reinterpret_cast<PyObject*>(descr);
  d->name = PyObject_GetAttrString(d->numpy, "name");
  if (!d->name) return nullptr;
  d->itemsize = static_cast<Py_ssize_t>(PyDataType_ELSIZE(descr));
  d->kind = descr->kind;
  d->symbol = descr->type;
  d->is_floating_point = descr->kind == 'f';
  d->is_complex = descr->kind == 'c';
  d->is_signed = descr->kind == 'i' || descr->kind == 'f' || descr->kind == 'c';
  return d;
}

// dtype(spelling): the object of any spelling that `dtype=` takes.
PyObject* dtype_new(PyTypeObject*, PyObject* args, PyObject* kwargs) {
  static const char* names[] = {"", nullptr};
  PyObject* spelling;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O:dtype", const_cast<char**>(names), &spelling)) return nullptr;
  if (PyArray_Descr* descr = canonical_dtype(spelling)) return dtype_object(descr);
  Ref module(PyImport_ImportModule("shmtensor.dtypes"));
  Ref descr(module ? PyObject_CallMethod(module.get(), "as_dtype", "O", spelling) : nullptr);
  return descr ? dtype_object(reinterpret_cast<PyArray_Descr*>(descr.get())) : nullptr;
}

PyObject* dtype_repr(PyObject* self) {
  Ref module(PyImport_ImportModule("shmtensor.dtypes"));
  Ref library(module ? PyObject_GetAttrString(module.get(), "library") : nullptr);
  return library ? PyUnicode_FromFormat("%U.%U", library.get(), as_dtype(self)->name) : nullptr;
}

Py_hash_t dtype_hash(PyObject* self) { return PyObject_Hash(as_dtype(self)->numpy); }

PyObject* dtype_compare(PyObject* self, PyObject* other, int op) {
  PyObject* numpy = as_dtype(self)->numpy;
  if (op == Py_EQ || op == Py_NE) {
    if (self == other || numpy == other) return PyBool_FromLong(op == Py_EQ);
    // NumPy's float64 equals None, which is its default dtype.
    if (is_dtype(other) || other == Py_None) return PyBool_FromLong(op == Py_NE);
    // NumPy does not know bfloat16 by its name.
    if (PyUnicode_Check(other) && PyUnicode_Compare(as_dtype(self)->name, other) == 0) return PyBool_FromLong(op == Py_EQ);
  }
  return PyObject_RichCompare(numpy, is_dtype(other) ? as_dtype(other)->numpy : other, op);
}

// Special names are not passed on: `copy`, `pickle` and NumPy look for them, and would treat this as NumPy's object.
PyObject* dtype_getattr(PyObject* self, PyObject* name) {
  PyObject* value = PyObject_GenericGetAttr(self, name);
  if (value || !PyErr_ExceptionMatches(PyExc_AttributeError)) return value;
  if (PyUnicode_GET_LENGTH(name) && PyUnicode_READ_CHAR(name, 0) == '_') return nullptr;
  PyObject *type, *error, *trace;
  PyErr_Fetch(&type, &error, &trace);
  value = PyObject_GetAttr(as_dtype(self)->numpy, name);
  if (!value && PyErr_ExceptionMatches(PyExc_AttributeError)) {
    PyErr_Restore(type, error, trace);
    return nullptr;
  }
  Py_XDECREF(type);
  Py_XDECREF(error);
  Py_XDECREF(trace);
  return value;
}

PyObject* dtype_dir(PyObject* self, PyObject*) {
  Ref own(PyObject_CallMethod(reinterpret_cast<PyObject*>(&PyBaseObject_Type), "__dir__", "O", self));
  Ref others(PyObject_Dir(as_dtype(self)->numpy));
  const Py_ssize_t n = own && others ? PyList_GET_SIZE(others.get()) : 0;
  for (Py_ssize_t i = 0; i < n; ++i) {
    PyObject* name = PyList_GET_ITEM(others.get(), i);
    if (PyUnicode_READ_CHAR(name, 0) != '_' && PyList_Append(own.get(), name) < 0) return nullptr;
  }
  if (!own || !others) return nullptr;
  return PySet_New(own.get());
}

// A global name: pickling and copying give the same object.
PyObject* dtype_reduce(PyObject* self, PyObject*) { return Py_NewRef(as_dtype(self)->name); }

PyObject* to_real(PyObject* self, PyObject*) {
  if (!as_dtype(self)->is_complex) return Py_NewRef(self);
  return Py_NewRef(reinterpret_cast<PyObject*>(objects[as_dtype(self)->itemsize == 8 ? NPY_FLOAT : NPY_DOUBLE]));
}

PyObject* to_complex(PyObject* self, PyObject*) {
  Dtype* d = as_dtype(self);
  if (d->is_complex) return Py_NewRef(self);
  if (!d->is_floating_point)
    return raise("RuntimeError", "to_complex: no complex dtype belongs to an integer or bool one: %s",
                 PyUnicode_AsUTF8(d->name));
  return Py_NewRef(reinterpret_cast<PyObject*>(objects[d->itemsize == 8 ? NPY_CDOUBLE : NPY_CFLOAT]));
}

PyMethodDef dtype_methods[] = {
    {"to_real", to_real, METH_NOARGS, "The dtype of the parts of complex numbers; itself if it is not complex."},
    {"to_complex", to_complex, METH_NOARGS,
     "The complex dtype whose parts hold this one: complex64, or complex128 for float64; itself if it is complex.\n\n"
     "Raises:\n    RuntimeError: it is an integer or bool dtype."},
    {"__reduce__", dtype_reduce, METH_NOARGS, nullptr},
    {"__dir__", dtype_dir, METH_NOARGS, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

PyMemberDef dtype_members[] = {
    {"dtype", T_OBJECT_EX, offsetof(Dtype, numpy), READONLY, "NumPy's dtype"},
    {"__numpy_dtype__", T_OBJECT_EX, offsetof(Dtype, numpy), READONLY, "NumPy's dtype"},
    {"name", T_OBJECT_EX, offsetof(Dtype, name), READONLY, "NumPy's name for it"},
    {"itemsize", T_PYSSIZET, offsetof(Dtype, itemsize), READONLY, "bytes of an element"},
    {"kind", T_CHAR, offsetof(Dtype, kind), READONLY, "NumPy's kind: b, u, i, f or c"},
    {"char", T_CHAR, offsetof(Dtype, symbol), READONLY, "NumPy's character for it"},
    {"is_floating_point", T_BOOL, offsetof(Dtype, is_floating_point), READONLY,
     "whether it is a floating-point dtype; complex ones are not"},
    {"is_complex", T_BOOL, offsetof(Dtype, is_complex), READONLY, "whether it is a complex dtype"},
    {"is_signed", T_BOOL, offsetof(Dtype, is_signed), READONLY, "whether it has negative numbers"},
    {nullptr, 0, 0, 0, nullptr},
};

PyType_Slot dtype_slots[] = {
    {Py_tp_doc,
     const_cast<char*>("dtype(spelling)\n--\n\n"
                       "The type of a tensor's elements; there is one object for each dtype (`shmtensor.float32`).\n\n"
                       "Parameters\n----------\nspelling : dtype, type or str\n"
                       "    A dtype of shmtensor's or NumPy's, a class of numbers, or a name.\n\n"
                       "Raises\n------\nTypeError\n    Tensors cannot have it.\n\n"
                       "Examples\n--------\n>>> st.dtype(\"float32\") is st.float32\nTrue\n"
                       ">>> st.dtype(np.int64), st.dtype(bool)\n(shmtensor.int64, shmtensor.bool)\n")},
    {Py_tp_new, reinterpret_cast<void*>(dtype_new)},
    {Py_tp_repr, reinterpret_cast<void*>(dtype_repr)},
    {Py_tp_hash, reinterpret_cast<void*>(dtype_hash)},
    {Py_tp_richcompare, reinterpret_cast<void*>(dtype_compare)},
    {Py_tp_getattro, reinterpret_cast<void*>(dtype_getattr)},
    {Py_tp_methods, dtype_methods},
    {Py_tp_members, dtype_members},
    {0, nullptr},
};

PyType_Spec dtype_spec = {"shmtensor.dtype", sizeof(Dtype), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE, dtype_slots};

}  // namespace

PyObject* dtype_object(PyArray_Descr* numpy_dtype) {
  Dtype* d = object_of(numpy_dtype->type_num);
  return Py_NewRef(d && PyArray_ISNBO(numpy_dtype->byteorder) ? reinterpret_cast<PyObject*>(d)
                                                              : reinterpret_cast<PyObject*>(numpy_dtype));
}

PyArray_Descr* canonical_dtype(PyObject* x) {
  if (is_dtype(x)) return descr_of(as_dtype(x));
  if (!PyArray_DescrCheck(x)) return nullptr;
  Dtype* d = object_of(reinterpret_cast<PyArray_Descr*>(x)->type_num);
  return d && d->numpy == x ? descr_of(d) : nullptr;
}

int add_dtype_objects(PyObject* module) {
  dtype_type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&dtype_spec));
  if (!dtype_type) return -1;
  for (int type : {NPY_BOOL, NPY_UINT8, NPY_UINT16, NPY_UINT32, NPY_UINT64, NPY_INT8, NPY_INT16, NPY_INT32, NPY_INT64,
                   NPY_HALF, NPY_FLOAT, NPY_DOUBLE, NPY_CFLOAT, NPY_CDOUBLE}) {
    if (!(objects[type] = make_object(type))) return -1;
  }
  if (!(bfloat16_object = make_object(bfloat16_num))) return -1;
  if (!objects[NPY_LONGLONG]) objects[NPY_LONGLONG] = objects[NPY_INT64];
  if (!objects[NPY_ULONGLONG]) objects[NPY_ULONGLONG] = objects[NPY_UINT64];
  return PyModule_AddObjectRef(module, "dtype", reinterpret_cast<PyObject*>(dtype_type));
}

}  // namespace shmtensor
