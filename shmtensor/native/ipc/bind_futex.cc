// Python bindings of futex.h: waiting on a 32-bit word, reading and writing a 64-bit one, in a writable buffer (for tests
// and small protocols).
#include "memory/inspect/fault_points.h"
#include "methods.h"
#include "ipc/futex.h"

namespace shmtensor {

namespace {

// A word in a writable buffer.
template <class T>
struct At {
  Py_buffer view{};
  std::atomic<T>* at = nullptr;
  ~At() { drop_view(&view); }
  bool find(PyObject* buffer, PyObject* offset_object, const char* where) {
    const Py_ssize_t offset = PyLong_AsSsize_t(offset_object), n = sizeof(T);
    if ((offset == -1 && PyErr_Occurred()) || PyObject_GetBuffer(buffer, &view, PyBUF_WRITABLE) < 0) return false;
    if (offset < 0 || offset % n || offset + n > view.len)
      return raise("ValueError", "%s: no aligned word at this offset: offset %zd of %zd bytes", where, offset, view.len);
    at = reinterpret_cast<std::atomic<T>*>(static_cast<char*>(view.buf) + offset);
    return true;
  }
};

PyObject* word_wait(PyObject*, PyObject* const* arguments, Py_ssize_t n) {
  if (!takes("word_wait", n, 4)) return nullptr;
  unsigned long value = PyLong_AsUnsignedLong(arguments[2]);
  if (value == static_cast<unsigned long>(-1) && PyErr_Occurred()) return nullptr;
  double timeout;
  At<uint32_t> word;
  if (!read_timeout(arguments[3], &timeout) || !word.find(arguments[0], arguments[1], "word_wait")) return nullptr;
  Deadline deadline(timeout);
  for (;;) {
    Wait result;
    {
      Unlocked unlocked;
      result = wait_while_equal(word.at, static_cast<uint32_t>(value), deadline.remaining(), nullptr, 0, nullptr);
    }
    if (result != Wait::Interrupted) return PyBool_FromLong(result == Wait::Ok);
    if (PyErr_CheckSignals() < 0) return nullptr;
  }
}

PyObject* word_wake(PyObject*, PyObject* const* arguments, Py_ssize_t n) {
  if (!takes("word_wake", n, 2)) return nullptr;
  At<uint32_t> word;
  if (!word.find(arguments[0], arguments[1], "word_wake")) return nullptr;
  wake(word.at);
  Py_RETURN_NONE;
}

// Note [Order of a count]
// A count tells the state of the other bytes of a protocol: odd while the writer changes them, even when they are
// consistent. Adding to it is acquire and release: no reader sees the writer's later changes before the odd value, and a
// reader (acquire) of the even value sees all earlier changes. It is one instruction, so a death leaves the old or the
// new value.
using Count = At<uint64_t>;

PyObject* count_load(PyObject*, PyObject* const* arguments, Py_ssize_t n) {
  if (!takes("count_load", n, 2)) return nullptr;
  Count count;
  if (!count.find(arguments[0], arguments[1], "count_load")) return nullptr;
  return PyLong_FromUnsignedLongLong(count.at->load(std::memory_order_acquire));
}

PyObject* count_store(PyObject*, PyObject* const* arguments, Py_ssize_t n) {
  if (!takes("count_store", n, 3)) return nullptr;
  unsigned long long value = PyLong_AsUnsignedLongLong(arguments[2]);
  if (value == static_cast<unsigned long long>(-1) && PyErr_Occurred()) return nullptr;
  Count count;
  if (!count.find(arguments[0], arguments[1], "count_store")) return nullptr;
  count.at->store(value, std::memory_order_release);
  fault("count.stored");
  Py_RETURN_NONE;
}

PyObject* count_add(PyObject*, PyObject* const* arguments, Py_ssize_t n) {
  if (!takes("count_add", n, 3)) return nullptr;
  unsigned long long value = PyLong_AsUnsignedLongLong(arguments[2]);
  if (value == static_cast<unsigned long long>(-1) && PyErr_Occurred()) return nullptr;
  Count count;
  if (!count.find(arguments[0], arguments[1], "count_add")) return nullptr;
  value += count.at->fetch_add(value, std::memory_order_acq_rel);
  fault("count.added");
  return PyLong_FromUnsignedLongLong(value);
}

PyMethodDef methods[] = {
    method("word_wait", word_wait,
           "word_wait(buffer, offset, value, timeout) -> bool: waits while the u32 at offset equals value; False: timeout."),
    method("word_wake", word_wake, "word_wake(buffer, offset): wakes all that wait on the u32 at offset."),
    method("count_load", count_load, "count_load(buffer, offset) -> int: the u64 at offset (acquire)."),
    method("count_store", count_store, "count_store(buffer, offset, value): writes the u64 at offset (release)."),
    method(
        "count_add", count_add,
        "count_add(buffer, offset, value) -> int: adds to the u64 at offset atomically; returns the new value (acquire and "
        "release)."),
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

int add_futex(PyObject* module) { return PyModule_AddFunctions(module, methods); }

}  // namespace shmtensor
