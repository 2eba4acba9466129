// The Python face of channel.h: the type Channel. Waiting is here, because only here the GIL is let go.
#include <algorithm>
#include <new>

#include "memory/heap.h"
#include "python.h"
#include "sync/block.h"
#include "sync/channel.h"
#include "sync/life.h"

namespace shmtensor {

namespace {

struct ChannelObject {
  PyObject_HEAD
  Channel channel;
  PyObject* block;  // the root's
};


bool find_buffer(PyObject* object, void** base, size_t* nbytes) {
  Py_buffer view;
  if (PyObject_GetBuffer(object, &view, PyBUF_SIMPLE) < 0) return false;
  *base = view.buf;
  *nbytes = static_cast<size_t>(view.len);
  PyBuffer_Release(&view);  // the object keeps its memory as long as it lives
  return true;
}

// The address that tells which block an argument of put() means: an array, a Block, anything with a buffer.
bool find_address(PyObject* object, void** address) {
  if (PyArray_Check(object)) {
    *address = PyArray_DATA(reinterpret_cast<PyArrayObject*>(object));
    return true;
  }
  size_t nbytes;
  return find_buffer(object, address, &nbytes);
}

bool seconds(PyObject* object, double* out) {
  if (object == Py_None) {
    *out = -1.0;
    return true;
  }
  double value = PyFloat_AsDouble(object);
  if (value == -1.0 && PyErr_Occurred()) return false;
  *out = value > 0 ? value : 0.0;
  return true;
}

bool find_peers(PyObject* object, std::vector<Peer>* peers) {
  if (!object || object == Py_None) return true;
  PyObject* pairs = PySequence_Fast(object, "Channel.get: peers is a sequence of (row, incarnation)");
  if (!pairs) return false;
  bool good = true;
  for (Py_ssize_t i = 0; good && i < PySequence_Fast_GET_SIZE(pairs); i++) {
    int row;
    unsigned long inc;
    good = PyArg_ParseTuple(PySequence_Fast_GET_ITEM(pairs, i), "ik", &row, &inc);
    peers->push_back({row, static_cast<uint32_t>(inc)});
  }
  Py_DECREF(pairs);
  return good;
}

// Waits until *word is not `seen`. False: an exception is set. *late: the deadline passed.
bool wait_for(std::atomic<uint32_t>* word, uint32_t seen, std::atomic<uint32_t>* waiters, const Deadline& deadline,
              const std::vector<Peer>& peers, const char* where, bool* late) {
  Wait result;
  int lost = 0;
  *late = false;
  Py_BEGIN_ALLOW_THREADS
  waiters->fetch_add(1, std::memory_order_seq_cst);
  result = wait_while_equal(word, seen, deadline.left(), peers.data(), static_cast<int>(peers.size()), &lost);
  waiters->fetch_sub(1, std::memory_order_seq_cst);
  Py_END_ALLOW_THREADS
  if (result == Wait::PeerLost) return raise_peer_lost(where, peers[lost].row, peers[lost].inc);
  if (result == Wait::Interrupted && PyErr_CheckSignals() < 0) return false;
  *late = deadline.passed();
  return true;
}

bool is_open(ChannelObject* self, const char* where) {
  if (self->channel.root()) return true;
  raise("ValueError", "%s: the channel is closed", where);
  return false;
}

PyObject* channel_new(PyTypeObject* type, PyObject* arguments, PyObject* named) {
  static const char* names[] = {"maxsize", "block", nullptr};
  long long maxsize = 0;
  PyObject* block = nullptr;
  if (!PyArg_ParseTupleAndKeywords(arguments, named, "|LO", const_cast<char**>(names), &maxsize, &block)) return nullptr;
  ChannelObject* self = reinterpret_cast<ChannelObject*>(type->tp_alloc(type, 0));
  if (!self) return nullptr;
  new (&self->channel) Channel();
  bool fresh = !block;
  if (fresh) {
    void* root = domain_ensure() ? allocate_shared(sizeof(Root)) : nullptr;
    if (root)
      block = new_block(root, sizeof(Root), Origin::Allocated);
    else if (!PyErr_Occurred())
      PyErr_NoMemory(), raise_allocation_failure("Channel");
  } else {
    Py_INCREF(block);
  }
  self->block = block;
  void* base;
  size_t nbytes;
  if (!block || !find_buffer(block, &base, &nbytes) ||
      !(fresh ? self->channel.create(base, maxsize > 0 ? static_cast<uint64_t>(maxsize) : 0)
              : self->channel.attach(base, nbytes))) {
    Py_DECREF(self);
    return nullptr;
  }
  return reinterpret_cast<PyObject*>(self);
}

void channel_dealloc(ChannelObject* self) {
  self->channel.~Channel();
  Py_XDECREF(self->block);
  Py_TYPE(self)->tp_free(reinterpret_cast<PyObject*>(self));
}

PyObject* channel_close(ChannelObject* self, PyObject*) {
  self->channel.close();
  Py_CLEAR(self->block);
  Py_RETURN_NONE;
}

PyObject* channel_put(ChannelObject* self, PyObject* const* a, Py_ssize_t n) {
  if (n != 3) return raise("TypeError", "Channel.put: takes bytes, blocks, timeout: got %zd arguments", n);
  if (!is_open(self, "Channel.put")) return nullptr;
  double timeout;
  if (!seconds(a[2], &timeout)) return nullptr;
  PyObject* sequence = PySequence_Fast(a[1], "Channel.put: blocks is a sequence");
  if (!sequence) return nullptr;
  Py_buffer bytes;
  if (PyObject_GetBuffer(a[0], &bytes, PyBUF_SIMPLE) < 0) {
    Py_DECREF(sequence);
    return nullptr;
  }
  std::vector<void*> pointers(static_cast<size_t>(PySequence_Fast_GET_SIZE(sequence)));
  bool good = true, done = false;
  for (size_t i = 0; good && i < pointers.size(); i++)
    good = find_address(PySequence_Fast_GET_ITEM(sequence, static_cast<Py_ssize_t>(i)), &pointers[i]);
  Deadline deadline(timeout);
  void* spill = nullptr;
  Root* root = self->channel.root();
  while (good && !done) {
    uint32_t room = root->room.load(std::memory_order_seq_cst);
    Channel::Try result = self->channel.put(static_cast<const char*>(bytes.buf), static_cast<size_t>(bytes.len),
                                            pointers.data(), static_cast<uint32_t>(pointers.size()), &spill);
    good = result != Channel::Try::Failed;
    done = result == Channel::Try::Ok;
    if (result != Channel::Try::NotNow) break;
    bool late = deadline.passed();
    if (!late) good = wait_for(&root->room, room, &root->writers, deadline, {}, "Channel.put", &late) &&
                      is_open(self, "Channel.put");
    if (late && timeout == 0.0) break;
    if (late) timeout = 0.0;  // one more look
  }
  Channel::discard(&spill);
  PyBuffer_Release(&bytes);
  Py_DECREF(sequence);
  return good ? PyBool_FromLong(done) : nullptr;
}

PyObject* channel_get(ChannelObject* self, PyObject* const* a, Py_ssize_t n) {
  if (n < 1 || n > 2) return raise("TypeError", "Channel.get: takes timeout and peers: got %zd arguments", n);
  if (!is_open(self, "Channel.get")) return nullptr;
  double timeout;
  std::vector<Peer> peers;
  if (!seconds(a[0], &timeout) || !find_peers(n > 1 ? a[1] : nullptr, &peers)) return nullptr;
  Deadline deadline(timeout);
  Root* root = self->channel.root();
  for (;;) {
    uint32_t items = root->items.load(std::memory_order_seq_cst);
    PyObject* out;
    Channel::Try result = self->channel.get(&out);
    if (result == Channel::Try::Failed) return nullptr;
    if (result == Channel::Try::Ok) return out;
    bool late = deadline.passed();
    if (late && timeout == 0.0) Py_RETURN_NONE;
    if (late) {
      timeout = 0.0;  // one more look
      continue;
    }
    if (!wait_for(&root->items, items, &root->readers, deadline, peers, "Queue.get", &late) ||
        !is_open(self, "Channel.get"))
      return nullptr;
  }
}

PyObject* channel_size(ChannelObject* self, PyObject*) {
  if (!is_open(self, "Channel.size")) return nullptr;
  bool full;
  uint64_t n = self->channel.size(&full);
  return n == UINT64_MAX ? nullptr : PyLong_FromUnsignedLongLong(n);
}

PyObject* channel_full(ChannelObject* self, PyObject*) {
  if (!is_open(self, "Channel.full")) return nullptr;
  bool full;
  return self->channel.size(&full) == UINT64_MAX ? nullptr : PyBool_FromLong(full);
}

PyObject* channel_task_done(ChannelObject* self, PyObject*) {
  if (!is_open(self, "Channel.task_done")) return nullptr;
  Root* root = self->channel.root();
  for (;;) {
    uint64_t done = root->tasks_done.load(std::memory_order_acquire);
    int64_t unfinished = self->channel.unfinished_tasks();
    if (unfinished < 0 && PyErr_Occurred()) return nullptr;
    if (root->tasks_done.load(std::memory_order_acquire) != done) continue;
    if (unfinished <= 0) return raise("ValueError", "task_done: called too many times");
    if (!root->tasks_done.compare_exchange_strong(done, done + 1, std::memory_order_seq_cst)) continue;
    if (unfinished == 1) {
      root->tasks.fetch_add(1, std::memory_order_seq_cst);
      if (root->joiners.load(std::memory_order_seq_cst)) wake(&root->tasks);
    }
    Py_RETURN_NONE;
  }
}

PyObject* channel_join(ChannelObject* self, PyObject* argument) {
  double timeout;
  if (!is_open(self, "Channel.join") || !seconds(argument, &timeout)) return nullptr;
  Deadline deadline(timeout);
  Root* root = self->channel.root();
  for (;;) {
    uint32_t tasks = root->tasks.load(std::memory_order_seq_cst);
    int64_t unfinished = self->channel.unfinished_tasks();
    if (unfinished < 0 && PyErr_Occurred()) return nullptr;
    if (unfinished <= 0) Py_RETURN_TRUE;
    bool late = deadline.passed();
    if (late) Py_RETURN_FALSE;
    if (!wait_for(&root->tasks, tasks, &root->joiners, deadline, {}, "Channel.join", &late) ||
        !is_open(self, "Channel.join"))
      return nullptr;
  }
}

PyObject* channel_block(ChannelObject* self, void*) { return Py_NewRef(self->block ? self->block : Py_None); }
PyObject* channel_maxsize(ChannelObject* self, void*) {
  if (!is_open(self, "Channel.maxsize")) return nullptr;
  return PyLong_FromUnsignedLongLong(self->channel.root()->maxsize);
}

#define METHOD(name) reinterpret_cast<PyCFunction>(name)
PyMethodDef methods[] = {
    {"put", METHOD(channel_put), METH_FASTCALL,
     "put(data, blocks, timeout) -> bool: sends data and a handle of each block (an array or a Block); False: full."},
    {"get", METHOD(channel_get), METH_FASTCALL,
     "get(timeout, peers=None) -> (data, [Block, ...]) or None after timeout; PeerLostError when a peer died."},
    {"size", METHOD(channel_size), METH_NOARGS, "size() -> messages that wait to be read"},
    {"full", METHOD(channel_full), METH_NOARGS, "full() -> whether put would wait"},
    {"task_done", METHOD(channel_task_done), METH_NOARGS, "task_done(): one message got has been worked on"},
    {"join", METHOD(channel_join), METH_O, "join(timeout) -> bool: waits until every message was worked on"},
    {"close", METHOD(channel_close), METH_NOARGS, "close(): drops this process's holds; others go on"},
    {nullptr, nullptr, 0, nullptr},
};
PyGetSetDef getters[] = {
    {"block", reinterpret_cast<getter>(channel_block), nullptr, "The root's block: Channel(block=it) elsewhere.", nullptr},
    {"maxsize", reinterpret_cast<getter>(channel_maxsize), nullptr, "0: no bound.", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};

PyTypeObject channel_type = {PyVarObject_HEAD_INIT(nullptr, 0)};

}  // namespace

int add_channel(PyObject* module) {
  channel_type.tp_name = "shmtensor.native.Channel";
  channel_type.tp_doc =
      "Channel(maxsize=0, block=None): messages from any process to any process through shared memory; "
      "docs/design/multiprocessing.md.";
  channel_type.tp_basicsize = sizeof(ChannelObject);
  channel_type.tp_flags = Py_TPFLAGS_DEFAULT;
  channel_type.tp_new = channel_new;
  channel_type.tp_dealloc = reinterpret_cast<destructor>(channel_dealloc);
  channel_type.tp_methods = methods;
  channel_type.tp_getset = getters;
  if (PyType_Ready(&channel_type) < 0) return -1;
  return PyModule_AddObjectRef(module, "Channel", reinterpret_cast<PyObject*>(&channel_type));
}

}  // namespace shmtensor
