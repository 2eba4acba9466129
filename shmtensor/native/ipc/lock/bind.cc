// Python bindings of lock.h: functions over a writable buffer (a block of shared memory) with the words.
#include <algorithm>

#include "methods.h"
#include "ipc/liveness.h"
#include "ipc/lock/lock.h"

namespace shmtensor {

namespace {

// The words inside the first argument; the buffer is held while the function runs.
template <class T>
struct View {
  Py_buffer view{};
  T* at = nullptr;
  ~View() { drop_view(&view); }
  bool find(PyObject* buffer, const char* where) {
    if (PyObject_GetBuffer(buffer, &view, PyBUF_WRITABLE) < 0) return false;
    if (view.len < static_cast<Py_ssize_t>(sizeof(T)))
      return raise("ValueError", "%s: the block is too small: %zd bytes, %zu needed", where, view.len, sizeof(T));
    at = static_cast<T*>(view.buf);
    return true;
  }
};

template <class Take>
PyObject* take(LockWord* lock, double timeout, bool reentrant, const char* where, Take attempt) {
  unsigned long thread = PyThread_get_thread_ident();
  Peer me = own_peer();
  if (reentrant && lock->owner.load(std::memory_order_relaxed) == pack(me) &&
      lock->thread.load(std::memory_order_relaxed) == thread) {
    lock->depth.fetch_add(1, std::memory_order_relaxed);
    Py_RETURN_TRUE;
  }
  Deadline deadline(timeout);
  for (;;) {
    LockResult result;
    Peer lost{};
    {
      Unlocked unlocked;
      result = attempt(lock, me, deadline.remaining(), &lost);
    }
    if (result == LockResult::Ok) {
      lock->thread.store(thread, std::memory_order_relaxed);
      lock->depth.store(1, std::memory_order_relaxed);
      Py_RETURN_TRUE;
    }
    if (result == LockResult::Timeout) Py_RETURN_FALSE;
    if (result == LockResult::HolderLost) return raise_peer_lost(where, lost.row, lost.inc);
    if (PyErr_CheckSignals() < 0) return nullptr;
  }
}

PyObject* lock_acquire(PyObject*, PyObject* const* a, Py_ssize_t n) {
  double timeout;
  View<LockWord> lock;
  if (!takes("lock_acquire", n, 3) || !read_timeout(a[1], &timeout) || !lock.find(a[0], "lock_acquire")) return nullptr;
  return take(lock.at, timeout, PyObject_IsTrue(a[2]) > 0, "Lock.acquire: the holder is lost, recover() takes the lock",
              take_lock);
}

PyObject* lock_recover(PyObject*, PyObject* const* a, Py_ssize_t n) {
  double timeout;
  View<LockWord> lock;
  if (!takes("lock_recover", n, 3) || !read_timeout(a[1], &timeout) || !lock.find(a[0], "lock_recover")) return nullptr;
  return take(lock.at, timeout, PyObject_IsTrue(a[2]) > 0, "Lock.recover: the holder has not finished its exit",
              recover_lock);
}

// Any process may release a plain lock, as in the standard library; only its owner a reentrant one.
PyObject* lock_release(PyObject*, PyObject* const* a, Py_ssize_t n) {
  View<LockWord> lock;
  if (!takes("lock_release", n, 2) || !lock.find(a[0], "lock_release")) return nullptr;
  bool reentrant = PyObject_IsTrue(a[1]) > 0;
  uint64_t owner = lock.at->owner.load(std::memory_order_acquire);
  if (!reentrant && owner == 0) return raise("ValueError", "Lock.release: the lock is not held");
  if (reentrant) {
    if (owner != pack(own_peer()) || lock.at->thread.load(std::memory_order_relaxed) != PyThread_get_thread_ident())
      return raise("AssertionError", "RLock.release: attempt to release recursive lock not owned by thread");
    if (lock.at->depth.fetch_sub(1, std::memory_order_relaxed) > 1) Py_RETURN_NONE;
  }
  free_lock(lock.at);
  Py_RETURN_NONE;
}

// (whether it is held, depth if held by this thread else 0, row, inc)
PyObject* lock_state(PyObject*, PyObject* const* a, Py_ssize_t n) {
  View<LockWord> lock;
  if (!takes("lock_state", n, 1) || !lock.find(a[0], "lock_state")) return nullptr;
  uint64_t owner = lock.at->owner.load(std::memory_order_acquire);
  bool is_own =
      owner && owner == pack(own_peer()) && lock.at->thread.load(std::memory_order_relaxed) == PyThread_get_thread_ident();
  Peer peer = unpack(owner);
  return Py_BuildValue("Oiik", owner ? Py_True : Py_False,
                       is_own ? static_cast<int>(lock.at->depth.load(std::memory_order_relaxed)) : 0, peer.row,
                       static_cast<unsigned long>(peer.inc));
}

// The words and their slots in the first argument.
struct SemaphoreView : View<SemaphoreWord> {
  bool find_all(PyObject* buffer, const char* where) {
    if (!find(buffer, where)) return false;
    if (size_t(view.len) >= sizeof(SemaphoreWord) + size_t(at->slots) * 8 && at->slots <= kMaxPermitSlots) return true;
    return raise("ValueError", "%s: the block is too small: %zd bytes for %u slots", where, view.len, at->slots);
  }
};

PyObject* semaphore_start(PyObject*, PyObject* const* a, Py_ssize_t n) {
  View<SemaphoreWord> semaphore;
  if (!takes("semaphore_start", n, 3) || !semaphore.find(a[0], "semaphore_start")) return nullptr;
  unsigned long value = PyLong_AsUnsignedLong(a[1]);
  if (value == static_cast<unsigned long>(-1) && PyErr_Occurred()) return nullptr;
  size_t room = (size_t(semaphore.view.len) - sizeof(SemaphoreWord)) / 8;
  uint32_t slots = static_cast<uint32_t>(std::min<size_t>({room, value, kMaxPermitSlots}));
  semaphore.at->slots = slots;
  semaphore.at->loose.store(static_cast<uint32_t>(value) - slots, std::memory_order_relaxed);
  semaphore.at->bounded = PyObject_IsTrue(a[2]) > 0;
  semaphore.at->limit = semaphore.at->bounded ? static_cast<uint32_t>(value) : INT32_MAX;
  Py_RETURN_NONE;
}

PyObject* semaphore_acquire(PyObject*, PyObject* const* a, Py_ssize_t n) {
  double timeout;
  SemaphoreView semaphore;
  if (!takes("semaphore_acquire", n, 2) || !read_timeout(a[1], &timeout) || !semaphore.find_all(a[0], "semaphore_acquire"))
    return nullptr;
  Deadline deadline(timeout);
  Peer me = own_peer();
  for (;;) {
    Wait result;
    {
      Unlocked unlocked;
      result = acquire_permit(semaphore.at, me, deadline.remaining());
    }
    if (result != Wait::Interrupted) return PyBool_FromLong(result == Wait::Ok);
    if (PyErr_CheckSignals() < 0) return nullptr;
  }
}

PyObject* semaphore_release(PyObject*, PyObject* const* a, Py_ssize_t n) {
  SemaphoreView semaphore;
  if (!takes("semaphore_release", n, 2) || !semaphore.find_all(a[0], "semaphore_release")) return nullptr;
  unsigned long count = PyLong_AsUnsignedLong(a[1]);
  if (count == static_cast<unsigned long>(-1) && PyErr_Occurred()) return nullptr;
  if (count > INT32_MAX || !release_permits(semaphore.at, own_peer(), static_cast<uint32_t>(count)))
    return raise("ValueError", "Semaphore.release: released too many times: the limit is %u", semaphore.at->limit);
  Py_RETURN_NONE;
}

PyObject* semaphore_value(PyObject*, PyObject* const* a, Py_ssize_t n) {
  SemaphoreView semaphore;
  if (!takes("semaphore_value", n, 1) || !semaphore.find_all(a[0], "semaphore_value")) return nullptr;
  return PyLong_FromUnsignedLongLong(permits(semaphore.at));
}

PyObject* condition_enter(PyObject*, PyObject* const* a, Py_ssize_t n) {
  View<Places> places;
  if (!takes("condition_enter", n, 1) || !places.find(a[0], "condition_enter")) return nullptr;
  int index = enter_place(places.at, own_peer());
  if (index < 0) return raise("RuntimeError", "Condition.wait: too many wait at once: %d", kPlaces);
  return PyLong_FromLong(index);
}

PyObject* condition_sleep(PyObject*, PyObject* const* a, Py_ssize_t n) {
  double timeout;
  View<Places> places;
  if (!takes("condition_sleep", n, 3) || !read_timeout(a[2], &timeout) || !places.find(a[0], "condition_sleep"))
    return nullptr;
  long index = PyLong_AsLong(a[1]);
  if (index == -1 && PyErr_Occurred()) return nullptr;
  if (index < 0 || index >= kPlaces) return raise("IndexError", "condition_sleep: no such place: %ld", index);
  Deadline deadline(timeout);
  for (;;) {
    Wait result;
    {
      Unlocked unlocked;
      result = wait_at_place(places.at, static_cast<int>(index), deadline.remaining());
    }
    if (result != Wait::Interrupted) return PyBool_FromLong(result == Wait::Ok);
    if (PyErr_CheckSignals() < 0) {
      leave_place(places.at, static_cast<int>(index));
      return nullptr;
    }
  }
}

PyObject* condition_notify(PyObject*, PyObject* const* a, Py_ssize_t n) {
  View<Places> places;
  if (!takes("condition_notify", n, 2) || !places.find(a[0], "condition_notify")) return nullptr;
  long count = PyLong_AsLong(a[1]);
  if (count == -1 && PyErr_Occurred()) return nullptr;
  return PyLong_FromLong(notify_places(places.at, static_cast<int>(std::min<long>(count, kPlaces))));
}

PyMethodDef methods[] = {
    method("lock_acquire", lock_acquire, "lock_acquire(block, timeout, reentrant) -> bool; PeerLostError: dead holder."),
    method("lock_recover", lock_recover, "lock_recover(block, timeout, reentrant) -> bool: also from a dead holder."),
    method("lock_release", lock_release, "lock_release(block, reentrant)"),
    method("lock_state", lock_state, "lock_state(block) -> (held, depth of this thread, row, inc)"),
    method("semaphore_start", semaphore_start, "semaphore_start(block, value, limited): a zeroed block becomes one."),
    method("semaphore_value", semaphore_value, "semaphore_value(block) -> how many can be taken now"),
    method("semaphore_acquire", semaphore_acquire, "semaphore_acquire(block, timeout) -> bool"),
    method("semaphore_release", semaphore_release, "semaphore_release(block, n)"),
    method("condition_enter", condition_enter, "condition_enter(block) -> place, to be slept on"),
    method("condition_sleep", condition_sleep, "condition_sleep(block, place, timeout) -> bool: notified"),
    method("condition_notify", condition_notify, "condition_notify(block, n) -> how many were notified"),
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

int add_locks(PyObject* module) {
  constexpr int kLockBytes = 64;  // a cache line
  static_assert(sizeof(LockWord) <= kLockBytes, "a lock fits its block");
  if (PyModule_AddIntConstant(module, "LOCK_NBYTES", kLockBytes) < 0 ||
      PyModule_AddIntConstant(module, "CONDITION_NBYTES", sizeof(Places)) < 0)
    return -1;
  return PyModule_AddFunctions(module, methods);
}

}  // namespace shmtensor
