#include "memory/device/device_lock.h"

#include "methods.h"

namespace shmtensor {

PyTypeObject* device_lock_type = nullptr;

namespace {

DeviceLock* as_lock(PyObject* o) { return reinterpret_cast<DeviceLock*>(o); }

bool is_own(const DeviceLock* self) { return self->count && self->owner == PyThread_get_thread_ident(); }

// *has_lock: whether this thread has the lock now. False: a signal handler has raised an exception; it has it not.
bool take(DeviceLock* self, bool is_blocking, bool* has_lock) {
  *has_lock = true;
  if (is_own(self)) {
    ++self->count;
    return true;
  }
  PyLockStatus status = PyThread_acquire_lock_timed(self->lock, 0, 0);
  while (status != PY_LOCK_ACQUIRED) {
    if (!is_blocking) {
      *has_lock = false;
      return true;
    }
    {
      Unlocked unlocked;
      status = PyThread_acquire_lock_timed(self->lock, -1, 1);
    }
    if (status == PY_LOCK_INTR && Py_MakePendingCalls() < 0) return false;
  }
  self->owner = PyThread_get_thread_ident();
  self->count = 1;
  return true;
}

PyObject* acquire(PyObject* self, PyObject* const* args, Py_ssize_t n) {
  if (!takes("DeviceLock.acquire", n, 0, 1)) return nullptr;
  const int is_blocking = n ? PyObject_IsTrue(args[0]) : 1;
  if (is_blocking < 0) return nullptr;
  bool has_lock;
  return take(as_lock(self), is_blocking, &has_lock) ? PyBool_FromLong(has_lock) : nullptr;
}

PyObject* enter(PyObject* self, PyObject*) {
  bool has_lock;
  return take(as_lock(self), true, &has_lock) ? Py_NewRef(self) : nullptr;
}

PyObject* release(PyObject* self, PyObject*) {
  DeviceLock* lock = as_lock(self);
  if (!is_own(lock)) return raise("RuntimeError", "DeviceLock.release: this thread does not have the lock");
  if (!--lock->count) PyThread_release_lock(lock->lock);
  Py_RETURN_NONE;
}

PyObject* leave(PyObject* self, PyObject* const*, Py_ssize_t) { return release(self, nullptr); }

PyObject* is_owned(PyObject* self, PyObject*) { return PyBool_FromLong(is_own(as_lock(self))); }

PyObject* lock_new(PyTypeObject* type, PyObject*, PyObject*) {
  PyObject* self = type->tp_alloc(type, 0);
  if (!self) return nullptr;
  as_lock(self)->lock = PyThread_allocate_lock();
  if (as_lock(self)->lock) return self;
  Py_DECREF(self);
  return PyErr_NoMemory();
}

void lock_dealloc(PyObject* self) {
  DeviceLock* lock = as_lock(self);
  if (lock->lock) {
    if (lock->count) PyThread_release_lock(lock->lock);
    PyThread_free_lock(lock->lock);
  }
  PyTypeObject* type = Py_TYPE(self);
  type->tp_free(self);
  Py_DECREF(type);
}

PyMethodDef methods[] = {method("acquire", acquire, "acquire(blocking=True): whether this thread has the lock now."),
                         {"release", release, METH_NOARGS, "Undoes one acquire."},
                         {"is_owned", is_owned, METH_NOARGS, "Whether this thread has the lock."},
                         {"__enter__", enter, METH_NOARGS, nullptr},
                         method("__exit__", leave, nullptr),
                         {nullptr, nullptr, 0, nullptr}};
PyType_Slot slots[] = {
    {Py_tp_doc, const_cast<char*>("The lock of the allocator of GPU memory; a thread may take it again.")},
    {Py_tp_new, reinterpret_cast<void*>(lock_new)},
    {Py_tp_dealloc, reinterpret_cast<void*>(lock_dealloc)},
    {Py_tp_methods, methods},
    {0, nullptr}};
PyType_Spec spec = {"shmtensor.native.DeviceLock", sizeof(DeviceLock), 0, Py_TPFLAGS_DEFAULT, slots};

}  // namespace

bool add_device_lock(PyObject* module) {
  device_lock_type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&spec));
  return device_lock_type && PyModule_AddType(module, device_lock_type) == 0;
}

}  // namespace shmtensor
