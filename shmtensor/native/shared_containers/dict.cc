// PackedDict: the base class of SharedDict.
#include "shared_containers/store.h"

namespace shmtensor::packed {

namespace {

PyTypeObject* dict_type = nullptr;

PyObject* dict_new(PyTypeObject* type, PyObject* args, PyObject*) {
  PyObject* blocks;
  if (!PyArg_ParseTuple(args, "O:PackedDict", &blocks)) return nullptr;
  Store* store = open_store(blocks, kDict);
  if (!store) return nullptr;
  PyObject* self = type->tp_alloc(type, 0);
  if (self)
    reinterpret_cast<Packed*>(self)->store = store;
  else
    Py_DECREF(store);
  return self;
}

Py_ssize_t length(PyObject* o) { return Py_ssize_t(store_of(o)->count); }

PyObject* subscript(PyObject* o, PyObject* key) {
  Reader r;
  int64_t number = find_key(store_of(o), key, &r);
  if (number == kMissing) {
    PyObject* args = PyTuple_Pack(1, key);  // a tuple as a key is one argument, as dict has it
    if (args) PyErr_SetObject(PyExc_KeyError, args);
    Py_XDECREF(args);
  }
  return number < 0 ? nullptr : read_value(r);
}

int contains(PyObject* o, PyObject* key) {
  Reader r;
  int64_t number = find_key(store_of(o), key, &r);
  return number == kFailed ? -1 : number >= 0;
}

PyObject* get(PyObject* o, PyObject* const* a, Py_ssize_t n) {
  if (n < 1 || n > 2)
    return raise("TypeError", "SharedDict.get: takes 1 or 2 arguments: got %zd", n);
  Reader r;
  int64_t number = find_key(store_of(o), a[0], &r);
  if (number == kMissing) return Py_NewRef(n == 2 ? a[1] : Py_None);
  return number < 0 ? nullptr : read_value(r);
}

PyObject* make_iterator(PyObject* o, Mode mode, bool reverse) {
  int64_t n = int64_t(store_of(o)->count);
  return iterate(store_of(o), mode, reverse ? n - 1 : 0, reverse ? -1 : 1, n);
}

PyObject* iter(PyObject* o) { return make_iterator(o, kKeys, false); }

PyObject* iterate_method(PyObject* o, PyObject* args) {
  int mode, reverse;
  if (!PyArg_ParseTuple(args, "ip:_iterate", &mode, &reverse)) return nullptr;
  if (mode < kKeys || mode > kPairs) return raise("ValueError", "_iterate: no such mode: %d", mode);
  return make_iterator(o, Mode(mode), reverse);
}

PyMethodDef methods[] = {
    {"get", reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(get)), METH_FASTCALL,
     "get(key, default=None): the value of a key, or the default."},
    {"_iterate", iterate_method, METH_VARARGS,
     "_iterate(mode, reverse): keys (1), values (2) or pairs (3)."},
    {nullptr, nullptr, 0, nullptr}};
PyGetSetDef members[] = {
    {"_blocks", get_blocks, nullptr, "The blocks that hold the data.", nullptr},
    {"nbytes", get_nbytes, nullptr, "Bytes of shared memory.", nullptr},
    {"readonly", get_readonly, nullptr, "Whether arrays and tensors come back read-only.", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr}};
PyType_Slot slots[] = {{Py_tp_new, reinterpret_cast<void*>(dict_new)},
                       {Py_tp_dealloc, reinterpret_cast<void*>(drop_packed)},
                       {Py_tp_iter, reinterpret_cast<void*>(iter)},
                       {Py_tp_methods, methods},
                       {Py_tp_getset, members},
                       {Py_mp_length, reinterpret_cast<void*>(length)},
                       {Py_mp_subscript, reinterpret_cast<void*>(subscript)},
                       {Py_sq_contains, reinterpret_cast<void*>(contains)},
                       {Py_tp_doc, const_cast<char*>("A dictionary packed into shared memory.")},
                       {0, nullptr}};
PyType_Spec spec = {"shmtensor.native.PackedDict", sizeof(Packed), 0,
                    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, slots};

}  // namespace

bool add_dict(PyObject* module) {
  dict_type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&spec));
  return dict_type &&
         PyModule_AddObjectRef(module, "PackedDict", reinterpret_cast<PyObject*>(dict_type)) == 0;
}

}  // namespace shmtensor::packed
