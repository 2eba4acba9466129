// Python bindings of memory/, second part: figures, invariants, and settings for tests.
#include <string.h>

#include "python.h"

#include "memory/ledger/block.h"
#include "memory/inspect/fault_points.h"
#include "memory/heap/memory_limits.h"
#include "memory/heap/huge_pages.h"
#include "memory/heap/heap.h"
#include "memory/ledger/ledger.h"
#include "memory/domain/liveness.h"
#include "memory/heap/own_slots.h"

namespace shmtensor {

// ---- figures
static PyObject* py_trim(PyObject*, PyObject*) {
  if (!domain_ready()) return PyLong_FromLong(0);
  size_t n;
  {
    Unlocked unlocked;
    n = heap_trim();
  }
  return PyLong_FromSize_t(n);
}
static PyObject* py_statistics(PyObject*, PyObject*) {
  if (!domain_ensure()) return nullptr;
  HeapFigures f;
  size_t in_flight = 0, message_bytes = 0;
  Membership m = {};
  if (!domain.rowless) {
    Quiesced quiet;
    heap_figures(&f);
    in_flight = count_pending_entries(domain, &message_bytes);
    m = membership_of(domain);
  } else {
    memset(&f, 0, sizeof f);
  }
  PyObject* d = PyDict_New();
  auto put = [&](const char* name, uint64_t value) {
    PyObject* number = PyLong_FromUnsignedLongLong(value);
    if (number && d) PyDict_SetItemString(d, name, number);
    Py_XDECREF(number);
  };
  put("row", uint64_t(domain.row));
  put("incarnation", domain.inc);
  put("processes", m.living);
  put("zombies", m.zombies);
  put("slots", domain.slots);
  put("slots_used", m.used);
  put("slots_orphaned", m.orphans);
  put("slots_tiny", f.slots[kTiny]);
  put("slots_medium", f.slots[kMedium]);
  put("slots_huge", f.slots[kHuge]);
  put("committed_bytes", f.committed);
  put("cached_bytes", f.cached);
  put("private_blocks", f.blocks[kPrivate]);
  put("private_bytes", f.bytes[kPrivate]);
  put("shared_blocks", f.blocks[kShared] + f.blocks[kCounted]);
  put("shared_bytes", f.bytes[kShared] + f.bytes[kCounted]);
  put("limbo_blocks", f.blocks[kLimbo]);
  put("limbo_bytes", f.bytes[kLimbo]);
  put("frozen_blocks", f.blocks[kFrozen]);
  put("frozen_bytes", f.bytes[kFrozen]);
  put("held_blocks", m.holds);
  put("unread_messages", in_flight);
  put("unread_bytes", message_bytes);
  put("exported", domain.counts.exported);
  put("received", domain.counts.received);
  put("acknowledged", domain.counts.acknowledged);
  put("stale_handles", domain.counts.stale_handles);
  put("reclaim_passes", domain.counts.reclaim_passes);
  put("reclaimed_blocks", domain.counts.reclaimed_blocks);
  put("orphans_freed", domain.counts.orphans_freed);
  put("expired_messages", domain.counts.expired_messages);
  put("sweeps", domain.counts.sweeps);
  put("rows_swept", domain.counts.rows_swept);
  put("lost_locks", domain.counts.lost_locks);
  put("calls_answered", calls_answered);
  PyObject* policy = PyUnicode_FromString(domain.advised ? "advised" : huge_policy("").text);
  if (policy && d) PyDict_SetItemString(d, "huge_pages", policy);
  Py_XDECREF(policy);
  PyObject* mode = PyUnicode_FromString(by_process(domain) ? "process" : "locks");
  if (mode && d) PyDict_SetItemString(d, "liveness", mode);
  Py_XDECREF(mode);
  put("refused_commits", domain.header->short_volume.load(relaxed));
  return d;
}
static PyObject* py_check(PyObject*, PyObject*) {
  if (!domain_ready() || domain.rowless) Py_RETURN_NONE;
  char text[400];
  bool good;
  {
    Quiesced quiet;
    good = heap_check(text, sizeof text) && row_check(domain, text, sizeof text);
    each_guest([&](Domain& d) { good = good && (d.rowless || row_check(d, text, sizeof text)); });
  }
  if (good) Py_RETURN_NONE;
  return PyUnicode_FromString(text);
}
static PyObject* py_members(PyObject*, PyObject*) {
  if (!domain_ensure()) return nullptr;
  PyObject* list = PyList_New(0);
  for (uint32_t r = 0; list && r < row_high(); ++r) {
    uint64_t word = domain.rows[r].state.load(acquire);
    if (state_of_row(word) == kRowFree) continue;
    char role[65] = "";
    memcpy(role, domain.rows[r].role, 64);
    static const char* const names[] = {"free", "born", "live", "zombie"};
    PyObject* item = Py_BuildValue("IIsis", r, inc_of_row(word), names[state_of_row(word) & 3],
                                   int(domain.rows[r].pid.load(acquire)), role);
    append(&list, item);
  }
  return list;
}
static PyObject* py_unread(PyObject*, PyObject*) {
  if (!domain_ensure()) return nullptr;
  PyObject* list = PyList_New(0);
  uint64_t now = now_ms();
  for (uint32_t r = 0; list && r < row_high(); ++r)
    for (uint32_t i = 0, n = domain.rows[r].in_flight_high.load(acquire); list && i < n; ++i) {
      uint64_t word;
      InFlightFields f;
      if (!read_entry(domain.entry(r, i), &word, &f) || is_void(domain, f)) continue;
      PyObject* item = Py_BuildValue("IKdO", r, static_cast<unsigned long long>(f.nbytes), double(now - f.time_ms) * 1e-3,
                                     f.via_slot == kNoSlot ? Py_False : Py_True);
      append(&list, item);
    }
  return list;
}
static PyObject* py_huge_policy(PyObject*, PyObject* o) {
  const char* root = PyUnicode_AsUTF8(o);
  if (!root) return nullptr;
  HugePolicy policy = huge_policy(root);
  return Py_BuildValue("sO", policy.text, policy.wants_advice() ? Py_True : Py_False);
}
static PyObject* py_headroom(PyObject*, Arguments a, Py_ssize_t n) {
  if (!takes("headroom", n, 0, 1)) return nullptr;
  const char* root = n ? PyUnicode_AsUTF8(a[0]) : "";
  if (!root) return nullptr;
  Headroom h = read_headroom(root);
  return Py_BuildValue("KKs", static_cast<unsigned long long>(h.available), static_cast<unsigned long long>(h.limit),
                       h.name);
}
static PyObject* py_set_unread_grace(PyObject*, Arguments a, Py_ssize_t n) {
  if (!takes("set_unread_grace", n, 1, 2)) return nullptr;
  double grace = PyFloat_AsDouble(a[0]), dead = n == 2 && !PyErr_Occurred() ? PyFloat_AsDouble(a[1]) : 3600;
  if (PyErr_Occurred()) return nullptr;
  if (grace < 0 || dead < 0) return raise("ValueError", "set_unread_grace: seconds are negative: %g, %g", grace, dead);
  unread_grace_ms = uint64_t(grace * 1000);
  dead_grace_ms = uint64_t(dead * 1000);
  Py_RETURN_NONE;
}
static PyObject* py_arm_fault(PyObject*, PyObject* o) {
  const char* text = o == Py_None ? "" : PyUnicode_AsUTF8(o);
  if (!text) return nullptr;
  if (!arm_fault(text)) return PyErr_Format(PyExc_ValueError, "arm_fault: no such point: %s", text);
  Py_RETURN_NONE;
}
static PyObject* py_fault_points(PyObject*, PyObject*) {
  PyObject* d = PyDict_New();
  const char* const* names;
  for (size_t i = 0, n = fault_points(&names); d && i < n; ++i) {
    PyObject* count = PyLong_FromUnsignedLongLong(fault_count(i));
    if (!count || PyDict_SetItemString(d, names[i], count) < 0) Py_CLEAR(d);
    Py_XDECREF(count);
  }
  return d;
}

PyMethodDef figure_functions[] = {{"trim", py_trim, METH_NOARGS, nullptr},
                                  {"statistics", py_statistics, METH_NOARGS, nullptr},
                                  {"check", py_check, METH_NOARGS, nullptr},
                                  {"members", py_members, METH_NOARGS, nullptr},
                                  {"unread", py_unread, METH_NOARGS, nullptr},
                                  method("headroom", py_headroom, nullptr),
                                  {"huge_policy", py_huge_policy, METH_O, nullptr},
                                  method("set_unread_grace", py_set_unread_grace, nullptr),
                                  {"arm_fault", py_arm_fault, METH_O, nullptr},
                                  {"fault_points", py_fault_points, METH_NOARGS, nullptr},
                                  {nullptr, nullptr, 0, nullptr}};

}  // namespace shmtensor
