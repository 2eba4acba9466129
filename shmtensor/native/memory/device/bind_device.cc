// Python bindings of slabs of GPU memory. shmtensor/memory/cuda has the memory itself and the calls of CUDA.
#include <string.h>

#include <new>
#include <vector>

#include "python.h"

#include "memory/device/device_slots.h"
#include "memory/ledger/block.h"

namespace shmtensor {

static bool words_of(const char* where, PyObject* o, uint64_t* words, Py_ssize_t nbytes) {
  char* data;
  Py_ssize_t n;
  if (PyBytes_AsStringAndSize(o, &data, &n) < 0) return false;
  if (n != nbytes) return raise("ValueError", "%s: expects %zd bytes: %zd", where, nbytes, n);
  memcpy(words, data, size_t(n));
  return true;
}

static PyObject* bytes_of(const Word* words, int n) {
  uint64_t copy[8];
  for (int i = 0; i < n; ++i) copy[i] = words[i].load(relaxed);
  return PyBytes_FromStringAndSize(reinterpret_cast<char*>(copy), n * 8);
}

static bool slot_of(PyObject* o, uint32_t* slot) {
  unsigned long n = PyLong_AsUnsignedLong(o);
  if (PyErr_Occurred()) return false;
  if (!domain_ready() || n >= domain.slots) return raise("ValueError", "slab: no such slot: %lu", n);
  *slot = uint32_t(n);
  return true;
}

static bool number_of(PyObject* o, uint32_t* n) {
  *n = uint32_t(PyLong_AsUnsignedLong(o));
  return !PyErr_Occurred();
}

static bool place_of(Arguments a, uint32_t* slot, uint32_t* n, uint32_t limit) {
  if (!slot_of(a[0], slot) || !number_of(a[1], n)) return false;
  return *n < limit || raise("ValueError", "slab: no such block: %u", *n);
}

static PyObject* py_slab_claim(PyObject*, Arguments a, Py_ssize_t n) {
  uint64_t uuid[2], handle[8];
  if (!takes("slab_claim", n, 4) || !words_of("slab_claim", a[0], uuid, 16)) return nullptr;
  uint64_t size = PyLong_AsUnsignedLongLong(a[1]);
  uint32_t shift, inc = 0;
  if (PyErr_Occurred() || !number_of(a[2], &shift) || !words_of("slab_claim", a[3], handle, 64) || !domain_ensure())
    return nullptr;
  int slot = -1;
  const char* error = "this process was forked when no row was free and shares nothing";
  if (!domain.rowless) {
    Locked lock;
    slot = claim_slab(domain, uuid, size, shift, handle, &inc);
    error = "every slot is in use";
  }
  if (slot < 0) return raise("DomainError", "export: a slab of GPU memory cannot be shared: %s", error);
  return Py_BuildValue("iI", slot, inc);
}

static PyObject* py_slab_retire(PyObject*, Arguments a, Py_ssize_t n) {
  uint32_t slot, inc;
  if (!takes("slab_retire", n, 2) || !slot_of(a[0], &slot) || !number_of(a[1], &inc)) return nullptr;
  bool retired;
  {
    Locked lock;
    retired = retire_slab(domain, slot, inc);
  }
  return PyBool_FromLong(retired);
}

static PyObject* py_slab_end(PyObject*, PyObject* o) {
  uint32_t slot;
  if (!slot_of(o, &slot)) return nullptr;
  {
    Locked lock;
    end_slab(domain, slot);
  }
  Py_RETURN_NONE;
}

static PyObject* py_slab_export(PyObject*, Arguments a, Py_ssize_t n) {
  uint32_t slot, inc, index;
  if (!takes("slab_export", n, 4, 5) || !slot_of(a[0], &slot) || !number_of(a[1], &inc) || !number_of(a[2], &index))
    return nullptr;
  uint64_t nbytes = PyLong_AsUnsignedLongLong(a[3]);
  if (PyErr_Occurred()) return nullptr;
  if (index >= kBlocks) return PyErr_Format(PyExc_ValueError, "slab_export: no such block: %u", index);
  BlockRef via{};
  if (n == 5 && a[4] != Py_None) {
    const void* p = PyArray_Check(a[4])           ? PyArray_DATA(reinterpret_cast<PyArrayObject*>(a[4]))
                    : Py_TYPE(a[4]) == block_type ? block_base(a[4])
                                                  : nullptr;
    if (!p) return PyErr_Format(PyExc_TypeError, "slab_export: expects an array or a Block: %s", Py_TYPE(a[4])->tp_name);
    via = block_around(p);
  }
  Handle h;
  const char* reason = nullptr;
  Outcome outcome;
  {
    Locked lock;
    uint64_t now = now_ms();
    if (now >= domain.next_sweep) sweep_all(false);
    if (!is_live(domain, slot, inc)) {
      outcome = Outcome::Stale;
      h.slot = slot, h.inc = inc, h.index = index, h.gen = 0;
    } else {
      Arena arena{};
      arena.domain = &domain;
      arena.ownership = Ownership::Foreign;
      arena.slot = slot;
      arena.inc = inc;
      arena.base = domain.slot_base(slot);
      outcome = export_locked(domain, BlockRef{&arena, index, arena.base, size_t(nbytes)}, via, &h, &reason, now);
    }
  }
  if (outcome != Outcome::Good) return explain(outcome, "export", reason, &h);
  h.volume = kDeviceVolume;
  h.offset = uint64_t(index) << domain.slot[slot].shift.load(relaxed);
  return PyBytes_FromStringAndSize(reinterpret_cast<char*>(&h), sizeof h);
}

static PyObject* py_slab_hold(PyObject*, Arguments a, Py_ssize_t n) {
  Handle h;
  if (!takes("slab_hold", n, 2) || !handle_of("slab_hold", a[0], &h)) return nullptr;
  int held = PyObject_IsTrue(a[1]);
  if (held < 0 || !domain_ensure()) return nullptr;
  const char *reason = nullptr, *lost = nullptr;
  SlabHold result = SlabHold::Foreign;
  {
    Locked lock;
    if (domain.rowless) lost = "this process was forked when no row was free and shares nothing";
    else if (!(lost = check_descriptor(domain))) {
      result = hold_in_slab(domain, h, held, &reason);
      if (result == SlabHold::Home || result == SlabHold::Held) ++domain.counts.received;
    }
  }
  if (lost) return explain(Outcome::Lost, "receive", lost, &h);
  switch (result) {
    case SlabHold::Home: return PyUnicode_InternFromString("home");
    case SlabHold::Held: return PyUnicode_InternFromString("held");
    case SlabHold::Lost: return PyUnicode_InternFromString("lost");
    case SlabHold::Stale: return explain(Outcome::Stale, "receive", nullptr, &h);
    case SlabHold::Foreign: break;
  }
  return explain(Outcome::Foreign, "receive", reason, &h);
}

static PyObject* py_slab_drop(PyObject*, Arguments a, Py_ssize_t n) {
  uint32_t slot, index;
  if (!takes("slab_drop", n, 2) || !place_of(a, &slot, &index, kBlocks)) return nullptr;
  {
    Locked lock;
    drop_in_slab(domain, slot, index);
  }
  Py_RETURN_NONE;
}

template <int change>
static PyObject* py_count_open(PyObject*, PyObject* o) {
  uint32_t slot;
  if (!slot_of(o, &slot)) return nullptr;
  {
    Locked lock;
    count_open(domain, slot, change);
  }
  Py_RETURN_NONE;
}

static PyObject* py_slab_live(PyObject*, Arguments a, Py_ssize_t n) {
  uint32_t slot, inc;
  if (!takes("slab_live", n, 2) || !slot_of(a[0], &slot) || !number_of(a[1], &inc)) return nullptr;
  return PyBool_FromLong(is_live(domain, slot, inc));
}

static PyObject* py_slab_line(PyObject*, PyObject* o) {
  uint32_t slot;
  if (!slot_of(o, &slot)) return nullptr;
  const DeviceSlab& slab = domain.slabs[slot];
  uint64_t owner = slab.owner.load(relaxed);
  return Py_BuildValue("NKNII", bytes_of(slab.uuid, 2), static_cast<unsigned long long>(slab.size.load(relaxed)),
                       bytes_of(slab.handle, 8), uint32_t(owner), uint32_t(owner >> 32));
}

static PyObject* py_slab_reclaim(PyObject*, PyObject* o) {
  PyObject* list = PySequence_Fast(o, "slab_reclaim: expects a list of (slot, index)");
  if (!list) return nullptr;
  Py_ssize_t n = PySequence_Fast_GET_SIZE(list);
  std::vector<SlabBlock> blocks;
  try {
    blocks.reserve(size_t(n));
    for (Py_ssize_t i = 0; i < n; ++i) {
      SlabBlock b{0, 0, false};
      PyObject* item = PySequence_Fast_GET_ITEM(list, i);
      PyObject* pair[2] = {nullptr, nullptr};
      if (!PyArg_ParseTuple(item, "OO", &pair[0], &pair[1]) || !place_of(pair, &b.slot, &b.index, kBlocks)) {
        Py_DECREF(list);
        return nullptr;
      }
      blocks.push_back(b);
    }
    Locked lock;
    reclaim_in_slabs(domain, blocks);
  } catch (const std::bad_alloc&) {
    Py_DECREF(list);
    return PyErr_NoMemory();
  }
  Py_DECREF(list);
  PyObject* result = PyList_New(n);
  for (Py_ssize_t i = 0; result && i < n; ++i) PyList_SET_ITEM(result, i, PyBool_FromLong(blocks[size_t(i)].freed));
  return result;
}

// Which processes hold blocks of a slab or have it open, and how many messages are in flight.
static PyObject* py_slab_lent(PyObject*, Arguments a, Py_ssize_t n) {
  uint32_t slot, inc;
  if (!takes("slab_lent", n, 2) || !slot_of(a[0], &slot) || !number_of(a[1], &inc)) return nullptr;
  struct Borrower {
    uint32_t row, inc, count;
  } borrowers[kRows];
  int found = 0;
  Py_ssize_t messages = 0;
  {
    Locked lock;
    for (uint32_t r = 0, rows = domain.row_high(); r < rows; ++r)
      if (uint32_t count = domain.nheld(r, slot).load(acquire))
        borrowers[found++] = {r, inc_of_row(domain.rows[r].state.load(acquire)), count};
    each_entry(domain, [&](uint32_t, InFlight&, uint64_t, const InFlightFields& f) {
      messages += f.slot == slot && f.inc == inc && f.gen == gen_of(domain.word(slot, f.index).load(acquire));
      return true;
    });
  }
  PyObject* list = PyList_New(0);
  for (int i = 0; list && i < found; ++i) {
    PyObject* item = Py_BuildValue("III", borrowers[i].row, borrowers[i].inc, borrowers[i].count);
    append(&list, item);
  }
  return list ? Py_BuildValue("Nn", list, messages) : nullptr;
}

static PyObject* py_use_device(PyObject*, PyObject*) {
  if (!domain_ensure()) return nullptr;
  if (!domain.rowless) use_device(domain);
  Py_RETURN_NONE;
}

static PyObject* py_rows_exiting(PyObject*, PyObject*) {
  int found = 0;
  if (domain_ready()) {
    Locked lock;
    found = rows_exiting(domain);
    each_guest([&](Domain& d) { found += rows_exiting(d); });
  }
  return PyLong_FromLong(found);
}

static PyObject* py_set_exit_wait(PyObject*, PyObject* o) {
  const double seconds = PyFloat_AsDouble(o);
  if (PyErr_Occurred()) return nullptr;
  if (!(seconds >= 0)) return raise("ValueError", "set_exit_wait: seconds are negative: %g", seconds);
  exit_wait_ms = uint64_t(seconds * 1000);
  Py_RETURN_NONE;
}

// Calls a function with a lock, if it is free. In Python a signal handler may run, and raise, between `acquire` and the
// `try` that would release it.
static PyObject* py_call_if_free(PyObject*, Arguments a, Py_ssize_t n) {
  if (!takes("call_if_free", n, 2)) return nullptr;
  PyObject* got = PyObject_CallMethod(a[0], "acquire", "O", Py_False);
  if (!got) return nullptr;
  const bool is_free = got == Py_True;
  Py_DECREF(got);
  if (!is_free) Py_RETURN_FALSE;
  PyObject *result = PyObject_CallNoArgs(a[1]), *type, *value, *trace;
  Py_XDECREF(result);
  PyErr_Fetch(&type, &value, &trace);
  PyObject* released = PyObject_CallMethod(a[0], "release", nullptr);
  Py_XDECREF(released);
  if (!released) {
    Py_XDECREF(type), Py_XDECREF(value), Py_XDECREF(trace);
    return nullptr;
  }
  PyErr_Restore(type, value, trace);
  if (!result) return nullptr;
  Py_RETURN_TRUE;
}

PyMethodDef device_functions[] = {
    method("call_if_free", py_call_if_free,
           "call_if_free(lock, function): calls it with the lock, and releases that in any case; whether the lock was free"),
    method("slab_claim", py_slab_claim,
           "slab_claim(uuid, size, shift, handle) -> (slot, incarnation): a slab of GPU memory is shareable now.\n"
           "Raises: DomainError."),
    method("slab_retire", py_slab_retire,
           "slab_retire(slot, incarnation): whether nobody uses the slab; its memory may be freed, then `slab_end`."),
    {"slab_end", py_slab_end, METH_O, "The memory of a retired slab is freed: its slot is free."},
    method("slab_export", py_slab_export,
           "slab_export(slot, incarnation, index, nbytes, via=None) -> a handle (72 bytes) in flight.\n"
           "Raises: StaleHandle if the slab's owner has died."),
    method("slab_hold", py_slab_hold,
           "slab_hold(handle, is_held) -> 'home', 'held' or 'lost' (its owner has died). 'held': this process holds the\n"
           "block until `slab_drop`; not acknowledged. Raises: StaleHandle, ForeignHandle."),
    method("slab_drop", py_slab_drop, "slab_drop(slot, index): ends a hold."),
    {"slab_opened", py_count_open<1>, METH_O, "This process is about to open a slab of which it holds a block."},
    {"slab_closed", py_count_open<-1>, METH_O, "This process has closed a slab."},
    method("slab_live", py_slab_live, "slab_live(slot, incarnation): whether the slab's owner has not been swept."),
    {"slab_line", py_slab_line, METH_O,
     "(uuid, size, IPC handle, owner's row, owner's incarnation) of a slab of which this process holds a block."},
    {"slab_reclaim", py_slab_reclaim, METH_O,
     "slab_reclaim([(slot, index), ...]) -> [bool]: which own blocks in limbo nobody holds; those are free."},
    method("slab_lent", py_slab_lent,
           "slab_lent(slot, incarnation) -> ([(row, incarnation, holds)], messages): who uses an own slab."),
    {"use_device", py_use_device, METH_NOARGS,
     "From now on a GPU may use blocks of this process: when it has died, they are kept until it has exited."},
    {"rows_exiting", py_rows_exiting, METH_NOARGS,
     "How many dead processes that used a GPU the last sweep left alone, because they have not exited yet."},
    {"set_exit_wait", py_set_exit_wait, METH_O,
     "set_exit_wait(seconds): how long a sweep waits for the exit of such a process where it cannot see one (2)."},
    {nullptr, nullptr, 0, nullptr}};

}  // namespace shmtensor
