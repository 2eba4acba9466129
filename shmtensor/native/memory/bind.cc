// Python bindings of memory/: domain, rows, blocks, gate.
#include <stdio.h>
#include <string.h>

#include "python.h"

#include "memory/device/device_lock.h"
#include "memory/ledger/block.h"
#include "memory/inspect/fault_points.h"
#include "memory/gradient_buffer.h"
#include "memory/heap/memory_limits.h"
#include "memory/heap/heap.h"
#include "memory/ledger/ledger.h"

namespace shmtensor {

// An array, a Block or an address.
static bool address_of(const char* where, PyObject* o, const void** p) {
  if (PyArray_Check(o)) {
    *p = PyArray_DATA(reinterpret_cast<PyArrayObject*>(o));
    return true;
  }
  if (Py_TYPE(o) == block_type) {
    *p = block_base(o);
    return true;
  }
  if (PyLong_Check(o)) {
    *p = PyLong_AsVoidPtr(o);
    return !PyErr_Occurred();
  }
  return raise("TypeError", "%s: expects an array, a Block or an address: %s", where, Py_TYPE(o)->tp_name);
}

bool handle_of(const char* where, PyObject* o, Handle* h) {
  char* data;
  Py_ssize_t n;
  if (PyBytes_AsStringAndSize(o, &data, &n) < 0) return false;
  if (n != Py_ssize_t(sizeof(Handle)))
    return raise("ValueError", "%s: a handle has %zu bytes: %zd", where, sizeof(Handle), n);
  memcpy(h, data, sizeof *h);
  return true;
}

static bool row_of(Arguments a, int* row, uint32_t* inc) {
  *row = int(PyLong_AsLong(a[0]));
  if (PyErr_Occurred()) return false;
  *inc = uint32_t(PyLong_AsUnsignedLong(a[1]));
  return !PyErr_Occurred();
}

// ---- domain
static PyObject* py_domain_ensure(PyObject*, PyObject*) { return domain_ensure() ? Py_NewRef(Py_None) : nullptr; }
static PyObject* py_domain_ready(PyObject*, PyObject*) { return PyBool_FromLong(domain_ready()); }
static PyObject* py_domain_fds(PyObject*, PyObject*) {
  if (!domain_ensure()) return nullptr;
  return Py_BuildValue("iii", domain.control, domain.volume[0], domain.volume[1]);
}
static PyObject* py_domain_id(PyObject*, PyObject*) {
  if (!domain_ensure()) return nullptr;
  return PyBytes_FromStringAndSize(reinterpret_cast<char*>(domain.id), sizeof domain.id);
}
static PyObject* py_domain_environment(PyObject*, PyObject*) {
  if (!domain_ensure()) return nullptr;
  char text[160];
  domain_environment(text, sizeof text);
  return PyUnicode_FromString(text);
}
static PyObject* py_domain_join(PyObject*, Arguments a, Py_ssize_t n) {
  if (!takes("domain_join", n, 4)) return nullptr;
  int fds[3];
  for (int i = 0; i < 3; ++i) {
    fds[i] = int(PyLong_AsLong(a[i]));
    if (PyErr_Occurred()) return nullptr;
  }
  char* id;
  Py_ssize_t size;
  if (PyBytes_AsStringAndSize(a[3], &id, &size) < 0) return nullptr;
  if (size != 16) return PyErr_Format(PyExc_ValueError, "domain_join: an id has 16 bytes: %zd", size);
  if (const char* error = domain_join(fds, reinterpret_cast<uint8_t*>(id))) {
    return raise("DomainError", "domain_join: %s: descriptors %d, %d, %d", error, fds[0], fds[1], fds[2]);
  }
  Py_RETURN_NONE;
}

// ---- rows
static PyObject* py_row(PyObject*, PyObject*) {
  if (!domain_ensure()) return nullptr;
  return Py_BuildValue("iI", domain.row, domain.inc);
}
static PyObject* py_liveness(PyObject*, Arguments a, Py_ssize_t n) {
  int row;
  uint32_t inc;
  if (!takes("liveness", n, 2) || !row_of(a, &row, &inc) || !domain_ensure()) return nullptr;
  switch (liveness_of(row, inc)) {
    case Liveness::Alive: return PyUnicode_InternFromString("alive");
    case Liveness::Doomed: return PyUnicode_InternFromString("doomed");
    case Liveness::Dead: break;
  }
  return PyUnicode_InternFromString("dead");
}
static PyObject* py_describe(PyObject*, Arguments a, Py_ssize_t n) {
  int row, pid, code;
  uint32_t inc;
  bool has_code;
  char text[320];
  if (!takes("describe", n, 2) || !row_of(a, &row, &inc) || !domain_ensure()) return nullptr;
  describe_peer(row, inc, text, sizeof text, &pid, &code, &has_code);
  return has_code ? Py_BuildValue("sii", text, pid, code) : Py_BuildValue("siO", text, pid, Py_None);
}
static PyObject* py_raise_peer_lost(PyObject*, Arguments a, Py_ssize_t n) {
  int row;
  uint32_t inc;
  if (!takes("raise_peer_lost", n, 3) || !row_of(a + 1, &row, &inc) || !domain_ensure()) return nullptr;
  const char* where = PyUnicode_AsUTF8(a[0]);
  return where ? raise_peer_lost(where, row, inc) : nullptr;
}
static PyObject* py_set_role(PyObject*, PyObject* o) {
  const char* role = PyUnicode_AsUTF8(o);
  if (!role || !domain_ensure()) return nullptr;
  {
    Locked lock;
    set_role(domain, role);
    each_guest([&](Domain& d) { set_role(d, role); });
  }
  Py_RETURN_NONE;
}
static PyObject* py_record_exit(PyObject*, Arguments a, Py_ssize_t n) {
  int row;
  uint32_t inc;
  if (!takes("record_exit", n, 3) || !row_of(a, &row, &inc)) return nullptr;
  int code = int(PyLong_AsLong(a[2]));
  if (PyErr_Occurred()) return nullptr;
  return PyBool_FromLong(record_exit(row, inc, code));
}
static PyObject* py_record_exit_pid(PyObject*, Arguments a, Py_ssize_t n) {
  if (!takes("record_exit_pid", n, 2)) return nullptr;
  int pid = int(PyLong_AsLong(a[0])), code = PyErr_Occurred() ? 0 : int(PyLong_AsLong(a[1]));
  if (PyErr_Occurred()) return nullptr;
  return PyBool_FromLong(record_exit_pid(pid, code));
}
static PyObject* py_last_child(PyObject*, PyObject*) {
  Self child = last_child();
  if (child.row < 0) Py_RETURN_NONE;
  return Py_BuildValue("iI", child.row, child.inc);
}
static PyObject* py_sweep(PyObject*, Arguments a, Py_ssize_t n) {
  if (!takes("sweep", n, 0, 1) || !domain_ensure()) return nullptr;
  int force = n ? PyObject_IsTrue(a[0]) : 0;
  if (force < 0) return nullptr;
  int swept;
  {
    Locked lock;
    swept = sweep_all(force);
  }
  return warn_of_lost() ? PyLong_FromLong(swept) : nullptr;
}

// ---- blocks
static PyObject* py_allocate(PyObject*, Arguments a, Py_ssize_t n, PyObject* kwnames) {
  Py_ssize_t n_args = n + (kwnames ? PyTuple_GET_SIZE(kwnames) : 0);
  if (!takes("allocate", n_args, 1, 3)) return nullptr;
  PyObject* values[3] = {nullptr, Py_True, Py_False};
  static const char* const keywords[3] = {"nbytes", "zero", "shared"};
  for (Py_ssize_t i = 0; i < n; ++i) values[i] = a[i];
  for (Py_ssize_t i = n; i < n_args; ++i) {
    PyObject* name = PyTuple_GET_ITEM(kwnames, i - n);
    int k = 0;
    while (k < 3 && PyUnicode_CompareWithASCIIString(name, keywords[k]) != 0) ++k;
    if (k == 3) return PyErr_Format(PyExc_TypeError, "allocate: unknown argument: %U", name);
    values[k] = a[i];
  }
  if (!values[0]) return PyErr_Format(PyExc_TypeError, "allocate: nbytes is missing");
  Py_ssize_t size = PyNumber_AsSsize_t(values[0], PyExc_OverflowError);
  int zero = PyObject_IsTrue(values[1]), shared = PyObject_IsTrue(values[2]);
  if (PyErr_Occurred() || zero < 0 || shared < 0) return nullptr;
  if (size < 0) return PyErr_Format(PyExc_ValueError, "allocate: nbytes is negative: %zd", size);
  if (!domain_ensure()) return nullptr;
  void* p;
  {
    Unlocked unlocked;
    p = shared ? allocate_shared(size_t(size)) : zero ? heap_alloc_zeroed(size_t(size)) : heap_alloc(size_t(size));
  }
  if (!p) {
    PyErr_NoMemory();
    return raise_allocation_failure("allocate");
  }
  return new_block(p, size_t(size), Origin::Allocated);
}
static PyObject* py_is_shared(PyObject*, PyObject* o) {
  const void* p;
  return address_of("is_shared", o, &p) ? PyBool_FromLong(is_shared(p)) : nullptr;
}
static PyObject* py_held_elsewhere(PyObject*, PyObject* o) {
  const void* p;
  return address_of("held_elsewhere", o, &p) ? PyBool_FromLong(held_elsewhere(p)) : nullptr;
}
static PyObject* py_received_here(PyObject*, PyObject* o) {
  const void* p;
  return address_of("received_here", o, &p) ? PyLong_FromSize_t(received_here(p)) : nullptr;
}
static PyObject* py_block_of(PyObject*, PyObject* o) {
  const void* p;
  if (!address_of("block_of", o, &p)) return nullptr;
  BlockRef block = block_around(p);
  if (!block.arena) return PyErr_Format(PyExc_ValueError, "block_of: not shared memory of this process: address %p", p);
  return Py_BuildValue("Nn", PyLong_FromVoidPtr(block.base), Py_ssize_t(block.nbytes));
}
static PyObject* py_export(PyObject*, Arguments a, Py_ssize_t n) {
  const void *p, *via = nullptr;
  if (!takes("export", n, 1, 2) || !address_of("export", a[0], &p)) return nullptr;
  if (n == 2 && a[1] != Py_None && !address_of("export", a[1], &via)) return nullptr;
  Handle h;
  if (!export_block(block_around(p), via ? block_around(via) : BlockRef{}, &h)) return nullptr;
  if (PyArray_Check(a[0])) mark_sent(reinterpret_cast<PyArrayObject*>(a[0]));
  return PyBytes_FromStringAndSize(reinterpret_cast<char*>(&h), sizeof h);
}
static PyObject* py_receive(PyObject*, Arguments a, Py_ssize_t n) {
  Handle h;
  if (!takes("receive", n, 1, 2) || !handle_of("receive", a[0], &h)) return nullptr;
  int ack = n == 2 ? PyObject_IsTrue(a[1]) : 1;
  void* base;
  size_t nbytes;
  if (ack < 0 || !hold_block(h, &base, &nbytes)) return nullptr;
  PyObject* block = new_block(base, nbytes, Origin::Received);
  if (block && ack) acknowledge(h);
  return block;
}
static PyObject* py_acknowledge(PyObject*, PyObject* o) {
  Handle h;
  if (!handle_of("acknowledge", o, &h)) return nullptr;
  acknowledge(h);
  Py_RETURN_NONE;
}

// ---- gate
static PyObject* py_gate_open(PyObject*, PyObject*) {
  int token = gate_enter();
  return token < 0 ? nullptr : PyLong_FromLong(token);
}
static PyObject* py_gate_shut(PyObject*, PyObject*) { return PyLong_FromLong(gate_shut()); }
static PyObject* py_gate_close(PyObject*, PyObject* o) {
  long token = PyLong_AsLong(o);
  if (token == -1 && PyErr_Occurred()) return nullptr;
  gate_leave(int(token));
  Py_RETURN_NONE;
}
static PyObject* py_gate_is_open(PyObject*, PyObject*) { return PyBool_FromLong(thread_state.gate); }
static PyObject* py_uninstall(PyObject*, PyObject*) {
  uninstalled = true;
  gate_attention = true;
  PyObject* current = PyDataMem_GetHandler();
  bool is_installed = current == handler_capsule;
  Py_XDECREF(current);
  if (is_installed) {
    PyObject* old = PyDataMem_SetHandler(nullptr);
    if (!old) return nullptr;
    Py_DECREF(old);
  }
  Py_RETURN_NONE;
}
static PyObject* py_install(PyObject*, PyObject*) {
  uninstalled = false;
  gate_attention = true;
  Py_RETURN_NONE;
}
static PyObject* py_take_allocation_failure(PyObject*, PyObject*) {
  const Failure* failure = pending_failure();
  if (!failure) Py_RETURN_NONE;
  PyObject* text = PyUnicode_FromString(failure->text);
  clear_failure();
  return text;
}

static PyMethodDef functions[] = {
    {"domain_ensure", py_domain_ensure, METH_NOARGS, "Creates the domain of this process unless it exists."},
    {"domain_ready", py_domain_ready, METH_NOARGS, "Whether this process has a domain."},
    {"domain_fds", py_domain_fds, METH_NOARGS, "The descriptors of the control file and the two volumes."},
    {"domain_id", py_domain_id, METH_NOARGS, R"(The 16 bytes of the domain's id.

Returns
-------
bytes
    As `Domain.id`.

Examples
--------
>>> len(st.memory.domain_id())
16)"},
    {"domain_environment", py_domain_environment, METH_NOARGS,
     R"(The value of SHMTENSOR_DOMAIN by which a child joins this domain.

Returns
-------
str
    For the environment of the child.

Examples
--------
>>> import os
>>> environment = {**os.environ, "SHMTENSOR_DOMAIN": st.memory.domain_environment()})"},
    method("domain_join", py_domain_join, "Joins a domain by the descriptors of its files. Raises DomainError."),
    {"row", py_row, METH_NOARGS, "The row of this process and its incarnation."},
    method("liveness", py_liveness, "'alive', 'doomed' (dying) or 'dead': the process of a row and incarnation."),
    method("describe", py_describe, "(text, pid, exit code or None) of a process by row and incarnation."),
    method("raise_peer_lost", py_raise_peer_lost,
           "Raises PeerLostError for a dead process; waits up to 200 ms for its exit code."),
    {"set_role", py_set_role, METH_O, "Names this process in messages and summaries."},
    method("record_exit", py_record_exit, "Records the exit code of a reaped process by row and incarnation."),
    method("record_exit_pid", py_record_exit_pid, "Records the exit code of a reaped child by its pid."),
    {"last_child", py_last_child, METH_NOARGS, "Row and incarnation of the child that this thread forked last."},
    method("sweep", py_sweep, "Clears the rows of dead processes; returns how many. At most every 100 ms unless forced."),
    method("allocate", py_allocate,
           R"(A Block of shared memory, 64-byte aligned.

Parameters
----------
nbytes : int
    Its size.
zero : bool, optional
    Whether it is filled with zeros, by default; else its bytes are undefined.
shared : bool, optional
    Whether it is marked as shared from the start.

Returns
-------
Block
    Freed when nothing refers to it.

Raises
------
OutOfSharedMemory
    The shared heap is full.

Examples
--------
>>> block = st.memory.allocate(24)
>>> x = np.frombuffer(block, np.float64)
>>> x, st.memory.is_shared(x)
(array([0., 0., 0.]), True))",
           METH_FASTCALL | METH_KEYWORDS),
    {"is_shared", py_is_shared, METH_O, R"(Whether the memory of an array is shared.

Parameters
----------
array : ndarray, Block or int
    Or an address; of a Tensor `x` its `x.numpy()`.

Returns
-------
bool
    False of NumPy's own memory.

Notes
-----
Copies: none.

Examples
--------
>>> with st.memory.shared_numpy():
...     x = np.zeros(3)
>>> st.memory.is_shared(x), st.memory.is_shared(np.zeros(3))
(True, False))"},
    {"held_elsewhere", py_held_elsewhere, METH_O,
     R"(Whether another process, or a message in flight, has the block of an array.

Parameters
----------
array : ndarray, Block or int
    In shared memory; or an address there.

Returns
-------
bool
    False once all have freed it.

Examples
--------
>>> x = st.ones(3).share_memory_().numpy()
>>> handle = st.memory.export(x)
>>> st.memory.held_elsewhere(x)
True
>>> st.memory.acknowledge(handle)
>>> st.memory.held_elsewhere(x)
False)"},
    {"received_here", py_received_here, METH_O, "How many received Blocks of this process are over the block of an array."},
    {"block_of", py_block_of, METH_O, R"(Address and size in bytes of the block of an array.

Parameters
----------
array : ndarray, Block or int
    In shared memory; or an address there.

Returns
-------
(address, size) : int, int
    The block may be larger than the array.

Examples
--------
>>> x = st.ones(3).numpy()
>>> address, size = st.memory.block_of(x)
>>> address % 64, size >= x.nbytes
(0, True))"},
    method("export", py_export,
           R"(A handle of the block of an array, to send to another process.

Parameters
----------
array : ndarray, Block or int
    In shared memory; or an address there.

Returns
-------
bytes
    72 bytes. It is in flight, and the block lives, until it is acknowledged.

Raises
------
ValueError
    The memory is not shared.

Notes
-----
Copies: none.

Examples
--------
>>> x = st.arange(3).share_memory_().numpy()
>>> handle = st.memory.export(x)
>>> len(handle)
72
>>> st.memory.acknowledge(handle))"),
    method("receive", py_receive,
           R"(The Block of a handle, held until the Block is freed.

Parameters
----------
handle : bytes
    Of `export` in another process of the domain.

Returns
-------
Block
    The same memory.

Raises
------
StaleHandle
    The block is gone.
ForeignHandle
    The handle is of another domain.

Notes
-----
Copies: none.

Examples
--------
>>> x = st.arange(3).share_memory_().numpy()
>>> handle = st.memory.export(x)
>>> block = st.memory.receive(handle)
>>> st.memory.acknowledge(handle)
>>> np.frombuffer(block, x.dtype)[:3]
array([0, 1, 2]))"),
    {"acknowledge", py_acknowledge, METH_O,
     R"(A handle is not in flight any more: it has arrived, or never will.

Parameters
----------
handle : bytes
    Of `export`; a second call does nothing.

Examples
--------
>>> x = st.ones(3).share_memory_().numpy()
>>> handle = st.memory.export(x)
>>> st.memory.acknowledge(handle)
>>> st.memory.acknowledge(handle))"},
    {"gate_open", py_gate_open, METH_NOARGS, "Opens the heap for NumPy allocations of this thread; a token for gate_close."},
    {"gate_shut", py_gate_shut, METH_NOARGS, "Shuts the heap in this thread; a token for gate_close."},
    {"gate_close", py_gate_close, METH_O, "Restores the former state of the gate."},
    {"gate_is_open", py_gate_is_open, METH_NOARGS, "Whether NumPy allocations of this thread go to the heap."},
    {"uninstall", py_uninstall, METH_NOARGS, "Restores NumPy's own allocator in this context."},
    {"install", py_install, METH_NOARGS, "Installs the heap as NumPy's allocator in this context."},
    {"take_allocation_failure", py_take_allocation_failure, METH_NOARGS,
     "The reason of this thread's last allocation failure, or None; clears it."},
    {nullptr, nullptr, 0, nullptr}};

int add_memory(PyObject* module) {
  close_inherited_on_exec();
  arm_fault_from_environment();
  register_cache_exit();
  install_fork_handlers();
  if (!make_handler() || !add_block(module) || !add_gradient_buffer(module) || !add_device_lock(module) ||
      !add_malloc_fast_path(module))
    return -1;
  for (PyMethodDef* table :
       {device_functions, figure_functions, guest_functions, malloc_functions, survey_functions, timeline_functions})
    if (PyModule_AddFunctions(module, table) < 0) return -1;
  return PyModule_AddFunctions(module, functions);
}

}  // namespace shmtensor
