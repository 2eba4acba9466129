// PackedList: the base class of SharedList. A view of a store: n elements from `start` in steps of `step`.
#include "shared_containers/store.h"

namespace shmtensor::packed {

namespace {

struct List : Packed {
  int64_t start, step, n;
};

PyTypeObject* list_type = nullptr;

List* as_list(PyObject* o) { return static_cast<List*>(reinterpret_cast<Packed*>(o)); }

PyObject* make(PyTypeObject* type, Store* store, int64_t start, int64_t step, int64_t n) {
  List* self = as_list(type->tp_alloc(type, 0));
  if (!self) return nullptr;
  Py_INCREF(store);
  self->store = store;
  self->start = start, self->step = n > 1 ? step : 1, self->n = n;
  return reinterpret_cast<PyObject*>(self);
}

PyObject* list_new(PyTypeObject* type, PyObject* args, PyObject*) {
  PyObject* blocks;
  long long start = 0, step = 1, n = -1;
  if (!PyArg_ParseTuple(args, "O|LLL:PackedList", &blocks, &start, &step, &n)) return nullptr;
  Store* store = open_store(blocks, kList);
  if (!store) return nullptr;
  int64_t count = int64_t(store->count), last = start;
  if (n < 0) n = count, start = 0, step = 1, last = 0;
  bool good = n == 0 || (start >= 0 && start < count);
  if (good && n > 1)
    good = !__builtin_mul_overflow(step, n - 1, &last) &&
           !__builtin_add_overflow(start, last, &last) && last >= 0 && last < count && step != 0;
  PyObject* self =
      good ? make(type, store, start, step, n)
           : PyErr_Format(
                 PyExc_ValueError,
                 "SharedList: the view leaves the list: start %lld, step %lld, length %lld of %lld",
                 start, step, n, static_cast<long long>(count));
  Py_DECREF(store);
  return self;
}

Py_ssize_t length(PyObject* o) { return Py_ssize_t(as_list(o)->n); }

PyObject* subscript(PyObject* o, PyObject* key) {
  List* self = as_list(o);
  if (PyIndex_Check(key)) {
    Py_ssize_t i = PyLong_CheckExact(key) ? PyLong_AsSsize_t(key) : -1;  // nearly always
    if (i == -1) {
      PyErr_Clear();
      i = PyNumber_AsSsize_t(key, PyExc_IndexError);
    }
    if (i == -1 && PyErr_Occurred()) return nullptr;
    int64_t at = i < 0 ? i + self->n : i;
    if (at < 0 || at >= self->n)
      return PyErr_Format(PyExc_IndexError, "%s: index out of range: %zd, length %lld",
                          Py_TYPE(o)->tp_name, i, static_cast<long long>(self->n));
    Reader r;
    return self->store->at(uint64_t(self->start + at * self->step), &r) ? read_value(r) : nullptr;
  }
  if (PySlice_Check(key)) {
    Py_ssize_t start, stop, step;
    if (PySlice_Unpack(key, &start, &stop, &step) < 0) return nullptr;
    Py_ssize_t n = PySlice_AdjustIndices(Py_ssize_t(self->n), &start, &stop, step);
    return make(Py_TYPE(o), self->store, n ? self->start + start * self->step : 0,
                n > 1 ? step * self->step : 1, n);
  }
  return PyErr_Format(PyExc_TypeError, "%s: indices must be integers or slices, not %s",
                      Py_TYPE(o)->tp_name, Py_TYPE(key)->tp_name);
}

PyObject* iter(PyObject* o) {
  List* self = as_list(o);
  return iterate(self->store, kElements, self->start, self->step, self->n);
}

// The place of the first element equal to value at or after i: n if there is none, -1 with an
// exception set.
int64_t seek(List* self, PyObject* value, int64_t i) {
  for (; i < self->n; ++i) {
    PyObject* item = read_as(self->store, kElements, uint64_t(self->start + i * self->step));
    if (!item) return -1;
    int same = PyObject_RichCompareBool(item, value, Py_EQ);
    Py_DECREF(item);
    if (same) return same < 0 ? -1 : i;
    if (i % 4096 == 0 && PyErr_CheckSignals() < 0) return -1;
  }
  return self->n;
}

int contains(PyObject* o, PyObject* value) {
  int64_t at = seek(as_list(o), value, 0);
  return at < 0 ? -1 : at < as_list(o)->n;
}

PyObject* find_method(PyObject* o, PyObject* args) {
  PyObject* value;
  long long start = 0;
  if (!PyArg_ParseTuple(args, "O|L:_seek", &value, &start)) return nullptr;
  int64_t at = seek(as_list(o), value, start < 0 ? 0 : start);
  return at < 0 ? nullptr : PyLong_FromLongLong(at);
}

PyObject* get_view(PyObject* o, void*) {
  List* self = as_list(o);
  return Py_BuildValue("(LLL)", static_cast<long long>(self->start),
                       static_cast<long long>(self->step), static_cast<long long>(self->n));
}

PyMethodDef methods[] = {
    {"_seek", find_method, METH_VARARGS,
     "_seek(value, start=0): where the first equal element is; the length if there is none."},
    {nullptr, nullptr, 0, nullptr}};
PyGetSetDef members[] = {
    {"_blocks", get_blocks, nullptr, "The blocks that hold the data.", nullptr},
    {"_view", get_view, nullptr, "Start, step and length in them.", nullptr},
    {"nbytes", get_nbytes, nullptr,
     "Bytes of shared memory, of the whole list that this may be a view of.", nullptr},
    {"readonly", get_readonly, nullptr, "Whether arrays and tensors come back read-only.", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr}};
PyType_Slot slots[] = {{Py_tp_new, reinterpret_cast<void*>(list_new)},
                       {Py_tp_dealloc, reinterpret_cast<void*>(drop_packed)},
                       {Py_tp_iter, reinterpret_cast<void*>(iter)},
                       {Py_tp_methods, methods},
                       {Py_tp_getset, members},
                       {Py_mp_length, reinterpret_cast<void*>(length)},
                       {Py_mp_subscript, reinterpret_cast<void*>(subscript)},
                       {Py_sq_contains, reinterpret_cast<void*>(contains)},
                       {Py_tp_doc, const_cast<char*>("A list packed into shared memory.")},
                       {0, nullptr}};
PyType_Spec spec = {"shmtensor.native.PackedList", sizeof(List), 0,
                    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, slots};

}  // namespace

bool add_list(PyObject* module) {
  list_type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&spec));
  return list_type &&
         PyModule_AddObjectRef(module, "PackedList", reinterpret_cast<PyObject*>(list_type)) == 0;
}

}  // namespace shmtensor::packed
