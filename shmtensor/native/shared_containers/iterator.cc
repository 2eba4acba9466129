// The iterator over elements, keys, values or pairs.
#include "shared_containers/store.h"

namespace shmtensor::packed {

namespace {

struct Iterator {
  PyObject_HEAD Store* store;
  Mode mode;
  int64_t next, step, remaining;
};

PyTypeObject* iterator_type = nullptr;

void dealloc(PyObject* object) {
  Py_DECREF(reinterpret_cast<Iterator*>(object)->store);
  PyTypeObject* type = Py_TYPE(object);
  type->tp_free(object);
  Py_DECREF(type);
}

PyObject* next(PyObject* object) {
  Iterator* self = reinterpret_cast<Iterator*>(object);
  if (!self->remaining) return nullptr;
  PyObject* value = read_as(self->store, self->mode, uint64_t(self->next));
  if (!value) return nullptr;
  --self->remaining;
  if (self->remaining) self->next += self->step;
  return value;
}

PyObject* length_hint(PyObject* object, PyObject*) {
  return PyLong_FromLongLong(reinterpret_cast<Iterator*>(object)->remaining);
}

PyMethodDef methods[] = {{"__length_hint__", length_hint, METH_NOARGS, "The number of remaining elements."},
                         {nullptr, nullptr, 0, nullptr}};
PyType_Slot slots[] = {{Py_tp_dealloc, reinterpret_cast<void*>(dealloc)},
                       {Py_tp_iter, reinterpret_cast<void*>(PyObject_SelfIter)},
                       {Py_tp_iternext, reinterpret_cast<void*>(next)},
                       {Py_tp_methods, methods},
                       {0, nullptr}};
PyType_Spec spec = {"shmtensor.native.PackedIterator", sizeof(Iterator), 0,
                    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, slots};

}  // namespace

PyObject* iterate(Store* store, Mode mode, int64_t start, int64_t step, int64_t n) {
  Iterator* self = reinterpret_cast<Iterator*>(iterator_type->tp_alloc(iterator_type, 0));
  if (!self) return nullptr;
  Py_INCREF(store);
  self->store = store;
  self->mode = mode;
  self->next = start;
  self->step = step;
  self->remaining = n;
  return reinterpret_cast<PyObject*>(self);
}

bool add_iterator(PyObject*) {
  iterator_type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&spec));
  return iterator_type != nullptr;
}

}  // namespace shmtensor::packed
