// Block: buffer protocol and deallocation.
#include "memory/ledger/block.h"

#include <structmember.h>
#include <stddef.h>
#include <stdlib.h>

#include "memory/heap/address_sanitizer.h"
#include "memory/heap/heap.h"
#include "memory/ledger/ledger.h"

namespace shmtensor {

struct BlockObject {
  PyObject_HEAD
  void* base;
  Py_ssize_t nbytes;
  Origin origin;
  PyObject* weak;
};

PyTypeObject* block_type = nullptr;
void* block_base(PyObject* block) { return reinterpret_cast<BlockObject*>(block)->base; }
size_t block_nbytes(PyObject* block) { return size_t(reinterpret_cast<BlockObject*>(block)->nbytes); }

bool is_of_another_process(const void* p) {
  if (!is_shared(p)) return false;
  if (!domain.contains(p)) return true;  // of a guest's domain
  // No lock: the record of a slot of this process is there as long as a block of it is in use.
  const Arena* a = domain.arenas[size_t(static_cast<const char*>(p) - domain.base) >> kSlotShift];
  return !a || a->ownership != Ownership::Own;
}

static void release_memory(void* base, Origin origin) {
  if (origin == Origin::Received) drop_block(base);
  else if (in_volumes(base)) heap_free(base);
  else free(base);  // a process that was forked without a row allocates privately
}

PyObject* new_block(void* base, size_t nbytes, Origin origin) {
  auto* block = PyObject_New(BlockObject, block_type);
  if (!block) {
    release_memory(base, origin);
    return nullptr;
  }
  block->base = origin == Origin::Received ? unfence(base, nbytes) : base;  // this process may have used it before
  block->nbytes = Py_ssize_t(nbytes);
  block->origin = origin;
  block->weak = nullptr;
  return reinterpret_cast<PyObject*>(block);
}

static void dealloc(PyObject* object) {
  auto* block = reinterpret_cast<BlockObject*>(object);
  if (block->weak) PyObject_ClearWeakRefs(object);
  release_memory(block->base, block->origin);
  PyTypeObject* type = Py_TYPE(object);
  PyObject_Free(object);
  Py_DECREF(type);
}

static int get_buffer(PyObject* object, Py_buffer* view, int flags) {
  auto* block = reinterpret_cast<BlockObject*>(object);
  return PyBuffer_FillInfo(view, object, block->base, block->nbytes, 0, flags);
}

static Py_ssize_t length(PyObject* object) { return reinterpret_cast<BlockObject*>(object)->nbytes; }

static PyObject* repr(PyObject* object) {
  auto* block = reinterpret_cast<BlockObject*>(object);
  return PyUnicode_FromFormat("<%s block of %zd bytes at %p>", block->origin == Origin::Received ? "received" : "allocated",
                              block->nbytes, block->base);
}

static PyObject* get_address(PyObject* object, void*) { return PyLong_FromVoidPtr(block_base(object)); }

static PyMemberDef members[] = {{"nbytes", T_PYSSIZET, offsetof(BlockObject, nbytes), READONLY, "Size in bytes."},
                                {"__weaklistoffset__", T_PYSSIZET, offsetof(BlockObject, weak), READONLY, nullptr},
                                {nullptr, 0, 0, 0, nullptr}};
static PyGetSetDef getset[] = {{"address", get_address, nullptr, "The address of the block in this process.", nullptr},
                               {nullptr, nullptr, nullptr, nullptr, nullptr}};
static PyType_Slot slots[] = {{Py_tp_dealloc, reinterpret_cast<void*>(dealloc)},
                              {Py_tp_repr, reinterpret_cast<void*>(repr)},
                              {Py_tp_members, members},
                              {Py_tp_getset, getset},
                              {Py_sq_length, reinterpret_cast<void*>(length)},
                              {Py_bf_getbuffer, reinterpret_cast<void*>(get_buffer)},
                              {Py_tp_doc, const_cast<char*>(R"(A block of shared memory, which has Python's buffer interface.

Notes
-----
Copies: none. `np.frombuffer(block, ...)` keeps it alive.

Examples
--------
>>> block = st.memory.allocate(24)
>>> len(block)
24
>>> np.frombuffer(block, np.float64).shape
(3,))")},
                              {0, nullptr}};
static PyType_Spec spec = {"shmtensor.native.Block", sizeof(BlockObject), 0,
                           Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, slots};

bool add_block(PyObject* module) {
  block_type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&spec));
  return block_type && PyModule_AddObjectRef(module, "Block", reinterpret_cast<PyObject*>(block_type)) == 0;
}

}  // namespace shmtensor
