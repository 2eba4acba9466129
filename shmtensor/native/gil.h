// Releasing the GIL, and dropping references in destructors: both must be right while the interpreter ends.
//
// Note [Interpreter end]: when the interpreter ends, CPython (up to 3.13) ends each daemon thread that asks for the GIL by
// pthread_exit(), which unwinds the thread's stack. In C++ frames that runs destructors, without the GIL, and aborts the
// process at the first function that is noexcept, as destructors are. So no such thread is unwound through our frames: it
// stops for good and ends with the process, as in CPython 3.14. It may ask for the GIL
//   in ~Unlocked, after a kernel or a wait;     then restore_thread() catches the unwinding and stops the thread;
//   in Python code that one of our frames calls; then the first destructor of a reference stops it: drop();
//   in a destructor that drop() runs;            then drop_last() stops it.
#pragma once

#include <Python.h>
#include <pthread.h>
#include <unistd.h>

#include <atomic>

namespace shmtensor {

// Set by an atexit function (module.cc), before the interpreter counts as ending.
struct InterpreterEnd {
  std::atomic<bool> is_near{false};
  pthread_t thread{};  // the one that ends it
};
inline InterpreterEnd interpreter_end;

[[noreturn]] inline void stop_thread() {
  for (;;) pause();
}

// Stops this thread if the interpreter is ending: then only the thread that ends it has the GIL.
__attribute__((noinline)) inline void stop_without_gil() {
#if PY_VERSION_HEX >= 0x030D0000
  const bool is_ending = Py_IsFinalizing();
#else
  const bool is_ending = _Py_IsFinalizing();
#endif
  if (is_ending && !pthread_equal(pthread_self(), interpreter_end.thread)) stop_thread();
}

__attribute__((noinline)) inline void restore_thread(PyThreadState* state) noexcept {
  try {
    PyEval_RestoreThread(state);
  } catch (...) {  // pthread_exit(); CPython throws nothing
    stop_thread();
  }
}

__attribute__((noinline)) inline void drop_last(PyObject* p) noexcept {
  try {
    Py_DECREF(p);
  } catch (...) {
    stop_thread();
  }
}

// Py_DECREF for destructors.
inline void drop(PyObject* p) {
  if (__builtin_expect(interpreter_end.is_near.load(std::memory_order_relaxed), 0)) stop_without_gil();
  if (Py_REFCNT(p) > 1) Py_DECREF(p);
  else drop_last(p);
}
inline void drop_if_set(PyObject* p) {
  if (p) drop(p);
}

// PyBuffer_Release for destructors; a view that was never filled is skipped.
inline void drop_view(Py_buffer* view) noexcept {
  if (!view->obj) return;
  if (interpreter_end.is_near.load(std::memory_order_relaxed)) stop_without_gil();
  try {
    PyBuffer_Release(view);
  } catch (...) {
    stop_thread();
  }
}

// Releases the GIL for its lifetime, if the work is worth it (a switch costs about 50 ns, more when contended).
class Unlocked {
 public:
  explicit Unlocked(bool worthwhile = true) : state_(worthwhile ? PyEval_SaveThread() : nullptr) {}
  ~Unlocked() {
    if (state_) restore_thread(state_);
  }
  Unlocked(const Unlocked&) = delete;
  Unlocked& operator=(const Unlocked&) = delete;

 private:
  PyThreadState* state_;
};

}  // namespace shmtensor
