// Python bindings of memberships: opening a block of another domain, and listing this process's domains.
#include <string.h>

#include "python.h"

#include "memory/ledger/block.h"
#include "memory/heap/heap.h"
#include "memory/ledger/ledger.h"

namespace shmtensor {

static PyObject* py_guest_receive(PyObject*, Arguments a, Py_ssize_t n) {
  if (!takes("guest_receive", n, 3)) return nullptr;
  int fds[3];
  if (!PyArg_ParseTuple(a[0], "iii:guest_receive", &fds[0], &fds[1], &fds[2])) return nullptr;
  int read_only = PyObject_IsTrue(a[1]);
  Handle h;
  if (read_only < 0 || !handle_of("guest_receive", a[2], &h) || !domain_ensure()) return nullptr;
  const char *error, *reason = nullptr;
  char text[400];
  Outcome outcome = Outcome::Good;
  void* base = nullptr;
  {
    Locked locked;
    Domain* d;
    error = guest_join(fds, h.domain, read_only, &d);
    if (!error) {
      sweep(*d, false);
      outcome = hold_locked(*d, h, &base, &reason);
      if (outcome == Outcome::Good) ++d->counts.received;
      else if (d != &domain) leave_if_idle(d);
    } else {
      snprintf(text, sizeof text, "%s", error);
    }
  }
  if (error)
    return raise("DomainError", "guest_receive: cannot join the domain %02x%02x%02x%02x...: %s", h.domain[0], h.domain[1],
                 h.domain[2], h.domain[3], text);
  if (outcome != Outcome::Good) return explain(outcome, "guest_receive", reason, &h);
  return new_block(base, size_t(h.nbytes), Origin::Received);
}

Membership membership_of(Domain& d) {
  Membership m = {};
  memcpy(m.id, d.id, sizeof m.id);
  m.own = &d == &domain;
  m.read_only = d.read_only;
  m.row = d.row;
  m.inc = d.inc;
  for (uint32_t r = 0; r < d.row_high(); ++r) {
    RowState state = state_of_row(d.rows[r].state.load(acquire));
    m.living += state == kRowLive || state == kRowBorn;
    m.zombies += state == kRowZombie;
  }
  each_slot(d, [&](uint32_t s) {
    SlotWord w = SlotWord::of(d.slot[s].word.load(acquire));
    m.used += w.state != kSlotFree;
    m.orphans += w.owner == kNobody && (w.state == kSlotLive || w.state == kSlotDying);
    m.holds += d.nheld(uint32_t(d.row), s).load(relaxed);
  });
  return m;
}

static PyObject* py_domains(PyObject*, PyObject*) {
  if (!domain_ready()) return PyList_New(0);
  Membership memberships[kGuests + 1];
  int n = 0;
  {
    Locked lock;
    memberships[n++] = membership_of(domain);
    each_guest([&](Domain& d) { memberships[n++] = membership_of(d); });
  }
  PyObject* list = PyList_New(0);
  for (int i = 0; list && i < n; ++i) {
    const Membership& m = memberships[i];
    PyObject* item =
        Py_BuildValue("{s:y#,s:O,s:i,s:I,s:O,s:I,s:I,s:I,s:I,s:n}", "id", reinterpret_cast<const char*>(m.id),
                      Py_ssize_t(sizeof m.id), "own", m.own ? Py_True : Py_False, "row", m.row, "incarnation", m.inc,
                      "readonly", m.read_only ? Py_True : Py_False, "processes", m.living, "zombies", m.zombies,
                      "slots_used", m.used, "slots_orphaned", m.orphans, "held_blocks", Py_ssize_t(m.holds));
    append(&list, item);
  }
  return list;
}

static PyObject* py_domain_fds_of(PyObject*, PyObject* o) {
  char* id;
  Py_ssize_t size;
  if (PyBytes_AsStringAndSize(o, &id, &size) < 0) return nullptr;
  if (size != 16) return PyErr_Format(PyExc_ValueError, "domain_fds_of: an id has 16 bytes: %zd", size);
  int fds[3] = {-1, -1, -1};
  if (domain_ready()) {
    Locked lock;
    if (Domain* d = domain_of(reinterpret_cast<uint8_t*>(id)))
      fds[0] = d->control, fds[1] = d->volume[0], fds[2] = d->volume[1];
  }
  if (fds[0] < 0) return raise("DomainError", "domain_fds_of: this process is not in that domain");
  return Py_BuildValue("iii", fds[0], fds[1], fds[2]);
}

PyMethodDef guest_functions[] = {
    {"domain_fds_of", py_domain_fds_of, METH_O,
     "The descriptors of the control file and the volumes of a domain of this process, by its id."},
    method("guest_receive", py_guest_receive,
           "guest_receive(descriptors, readonly, handle): the Block of a handle of another domain,\n"
           "which this process joins as a guest if it is not in it yet. Copies: none. Raises: DomainError,\n"
           "StaleHandle, ForeignHandle."),
    {"domains", py_domains, METH_NOARGS, "The domains of this process: dictionaries, own first."},
    {nullptr, nullptr, 0, nullptr}};

}  // namespace shmtensor
