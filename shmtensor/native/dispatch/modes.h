// Modes: thread state that changes the calls of ops, such as autocast.
//
// `modes` has a bit for each mode that is on in some thread; an op has a mask of the modes that concern it. If the two
// share a bit, a Python function reads the state of the calling thread. A mode that is off costs one test.
#pragma once

#include "profiler/events.h"
#include "python.h"

#include <atomic>
#include <cstdint>

namespace shmtensor {

// Python has these, too: native.AUTOCAST, ...
enum Mode : uint32_t {
  kAutocast = 1,      // autograd/dispatch/autocast.py, on the CPU
  kObserved = 2,      // autograd/dispatch/observers.py: profiles and counters see each call
  kAutocastCuda = 4,  // autograd/dispatch/autocast.py, on CUDA
  kProfiled = 8,      // profiler/events.h: this process records the events of a profile
};

extern std::atomic<uint32_t> modes;
extern __thread uint32_t modes_left_out;  // the modes that this thread ignores for now
extern __thread int overrides_off;        // > 0: this thread treats tensors of subclasses as plain

// The modes among `mask` that concern this call.
inline uint32_t modes_of(uint32_t mask) {
  const uint32_t active = modes.load(std::memory_order_relaxed) & mask;
  return __builtin_expect(active != 0, 0) ? active & ~modes_left_out : 0;
}

// Makes a call that a mode concerns. New reference. Autocast's function, which casts, calls the op again without
// autocast; then the call is an event of the profile, and within that the observers' function sees it.
// `plain`: the call without modes; `event`, `kind`: its name in a profile, and what it is.
using PlainCall = PyObject*(PyObject* called, PyObject* const* args, Py_ssize_t n, PyObject* names);
PyObject* call_in_mode(uint32_t active, PyObject* called, PyObject* const* args, Py_ssize_t n, PyObject* names,
                       PlainCall* plain, PyObject* event, profiler::Kind kind = profiler::kOp);

// Calls function(called, args, keywords[, error]), with the arguments of a vectorcall as a tuple and a dictionary.
PyObject* call_packed(PyObject* function, PyObject* called, PyObject* const* args, Py_ssize_t n, PyObject* names,
                      PyObject* error = nullptr);

PyObject* set_modes(PyObject*, PyObject* const* args, Py_ssize_t n);      // set_modes(bits, on): for all threads
PyObject* leave_out_modes(PyObject*, PyObject* bits);                     // leave_out_modes(bits) -> the former bits
PyObject* set_mode_functions(PyObject*, PyObject* const* args, Py_ssize_t n);  // (autocast, observed)
PyObject* turn_overrides_off(PyObject*, PyObject* step);                  // turn_overrides_off(step) -> the new sum
PyObject* add_plain_class(PyObject*, PyObject* type);  // tensors of this class are treated as plain

bool is_plain_class(PyTypeObject* type);

}  // namespace shmtensor
