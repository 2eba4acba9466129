// Python bindings of channel.h: the type Channel; putting and getting are in bind_put_get.cc.
#include <new>

#include "memory/heap/heap.h"
#include "memory/ledger/block.h"
#include "memory/inspect/fault_points.h"
#include "python.h"
#include "ipc/codec/block.h"
#include "ipc/channel/channel_object.h"
#include "ipc/liveness.h"

namespace shmtensor {

bool read_peers(PyObject* object, std::vector<Peer>* peers) {
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

bool wait_for(std::atomic<uint32_t>* word, uint32_t seen, std::atomic<uint32_t>* waiters, const Deadline& deadline,
              const std::vector<Peer>& peers, const char* where, bool* late) {
  Wait result = Wait::Ok;
  int lost = 0;
  *late = false;
  {
    Unlocked unlocked;
    if (!spin_while_equal(word, seen, deadline.remaining())) {  // without counting: a wake costs its sender 0.4 us
      waiters->fetch_add(1, std::memory_order_seq_cst);
      fault("channel.waiting");
      result =
          wait_while_equal(word, seen, deadline.remaining(), peers.data(), static_cast<int>(peers.size()), &lost, false);
      waiters->fetch_sub(1, std::memory_order_seq_cst);
    }
  }
  if (result == Wait::PeerLost) return raise_peer_lost(where, peers[lost].row, peers[lost].inc);
  if (result == Wait::Interrupted && PyErr_CheckSignals() < 0) return false;
  *late = deadline.is_over();
  return true;
}

bool is_open(ChannelObject* self, const char* where) {
  if (self->channel.root()) return true;
  return raise("ValueError", "%s: the channel is closed", where);
}

namespace {

PyObject* channel_new(PyTypeObject* type, PyObject* arguments, PyObject* kwargs) {
  static const char* keywords[] = {"maxsize", "block", "joinable", nullptr};
  long long maxsize = 0;
  PyObject* block = nullptr;
  int joinable = 0;
  if (!PyArg_ParseTupleAndKeywords(arguments, kwargs, "|LOp", const_cast<char**>(keywords), &maxsize, &block, &joinable))
    return nullptr;
  ChannelObject* self = reinterpret_cast<ChannelObject*>(type->tp_alloc(type, 0));
  if (!self) return nullptr;
  new (&self->channel) Channel();
  bool is_new = !block;
  if (is_new) {
    const size_t size = sizeof(Root) + (joinable ? kDebtors * sizeof(uint64_t) : 0);
    void* root = domain_ensure() ? allocate_shared(size) : nullptr;
    if (root) block = new_block(root, size, Origin::Allocated);
    else if (!PyErr_Occurred()) PyErr_NoMemory(), raise_allocation_failure("Channel");
  } else {
    Py_INCREF(block);
  }
  self->block = block;
  void* base;
  size_t nbytes;
  if (!block || !find_buffer(block, &base, &nbytes) ||
      !(is_new ? self->channel.create(base, maxsize > 0 ? static_cast<uint64_t>(maxsize) : 0, joinable)
               : self->channel.attach(base, nbytes))) {
    Py_DECREF(self);
    return nullptr;
  }
  return reinterpret_cast<PyObject*>(self);
}

void channel_dealloc(ChannelObject* self) {
  self->channel.~Channel();
  Py_XDECREF(self->block);
  Py_XDECREF(self->pending);
  Py_TYPE(self)->tp_free(reinterpret_cast<PyObject*>(self));
}

PyObject* channel_close(ChannelObject* self, PyObject*) {
  self->channel.close();
  Py_CLEAR(self->block);
  Py_RETURN_NONE;
}

PyObject* channel_shut_down(ChannelObject* self, PyObject* immediate) {
  int at_once = PyObject_IsTrue(immediate);
  if (at_once < 0 || !is_open(self, "Queue.shutdown")) return nullptr;
  self->channel.shut_down(at_once ? AT_ONCE : NO_MORE);
  if (at_once && !self->channel.drain()) return nullptr;
  Py_RETURN_NONE;
}

PyObject* channel_statistics(ChannelObject* self, PyObject*) {
  MessageCounts x;
  if (!is_open(self, "Queue.statistics") || !self->channel.count(&x)) return nullptr;
  Root* root = self->channel.root();
  auto n = [](uint64_t value) { return static_cast<unsigned long long>(value); };
  return Py_BuildValue("{sKsKsKsKsKsKsKsKsIsIsI}", "maxsize", n(root->maxsize), "sent", n(x.sent), "received", n(x.received),
                       "waiting", n(x.waiting), "reading", n(x.reading), "writing", n(x.writing), "given_up", n(x.given_up),
                       "segments", n(x.segments), "shut", root->shut.load(), "getters", root->readers.load(), "putters",
                       root->writers.load());
}

PyObject* channel_check(ChannelObject* self, PyObject*) {
  std::string violation;
  if (!is_open(self, "Queue.check") || !self->channel.check(&violation)) return nullptr;
  if (violation.empty()) Py_RETURN_NONE;
  return PyUnicode_FromString(violation.c_str());
}

PyObject* channel_size(ChannelObject* self, PyObject*) {
  MessageCounts counts;
  if (!is_open(self, "Channel.size") || !self->channel.count(&counts)) return nullptr;
  return PyLong_FromUnsignedLongLong(counts.waiting);
}

PyObject* channel_full(ChannelObject* self, PyObject*) {
  MessageCounts counts;
  if (!is_open(self, "Channel.full") || !self->channel.count(&counts)) return nullptr;
  uint64_t maxsize = self->channel.root()->maxsize;
  return PyBool_FromLong(maxsize && counts.waiting + counts.reading + counts.writing >= maxsize);
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
    fault("channel.task.done");
    self->channel.owe(-1);
    if (unfinished == 1) {
      root->tasks.fetch_add(1, std::memory_order_seq_cst);
      fault("channel.tasks.over");
      if (root->joiners.load(std::memory_order_seq_cst)) wake(&root->tasks);
    }
    Py_RETURN_NONE;
  }
}

PyObject* channel_join(ChannelObject* self, PyObject* argument) {
  double timeout;
  if (!is_open(self, "Channel.join") || !read_timeout(argument, &timeout)) return nullptr;
  Deadline deadline(timeout);
  Root* root = self->channel.root();
  for (;;) {
    uint32_t tasks = root->tasks.load(std::memory_order_seq_cst);
    int64_t unfinished = self->channel.unfinished_tasks();
    if (unfinished < 0 && PyErr_Occurred()) return nullptr;
    if (unfinished <= 0) Py_RETURN_TRUE;
    bool late = deadline.is_over();
    if (late) Py_RETURN_FALSE;
    if (!wait_for(&root->tasks, tasks, &root->joiners, deadline, {}, "Channel.join", &late) ||
        !is_open(self, "Channel.join"))
      return nullptr;
  }
}

PyObject* channel_check_debtors(ChannelObject* self, PyObject*) {
  Peer lost{};
  bool found;
  if (!is_open(self, "JoinableQueue.join") || !self->channel.find_lost_debtor(&lost, &found)) return nullptr;
  return found ? raise_peer_lost("JoinableQueue.join", lost.row, lost.inc) : Py_NewRef(Py_None);
}

PyObject* channel_block(ChannelObject* self, void*) { return Py_NewRef(self->block ? self->block : Py_None); }
PyObject* channel_maxsize(ChannelObject* self, void*) {
  if (!is_open(self, "Channel.maxsize")) return nullptr;
  return PyLong_FromUnsignedLongLong(self->channel.root()->maxsize);
}

PyMethodDef methods[] = {
    method("put", channel_put,
           "put(data, blocks, timeout) -> bool: sends data and a handle of each block (an array or a Block); False: full."),
    method("get", channel_get,
           "get(timeout, peers=None) -> (data, [Block, ...]) or None after timeout; PeerLostError when a peer died."),
    method(
        "send", channel_send,
        "send(object, dumps, timeout, gpu) -> bool: as put, of an object; dumps(object) -> (data, blocks) if the codec cannot.\n"
        "gpu takes the handles of GPU memory, and is dumps's second argument; it is told which were not sent."),
    method(
        "receive", channel_receive,
        "receive(timeout, peers, loads, missing) -> object, or missing after timeout; loads(data, blocks) reads pickles."),
    method("send_many", channel_send_many,
           "send_many(objects, dumps, timeout, gpu) -> how many; all are encoded before the first is sent."),
    method("receive_many", channel_receive_many,
           "receive_many(n, timeout, peers, loads) -> list of 1 to n; empty after timeout."),
    method("shut_down", channel_shut_down,
           "shut_down(immediate): put raises ShutDown from now on, and so does get once it is empty, or at once.", METH_O),
    method("statistics", channel_statistics, "statistics() -> dict of counts, from the words alone", METH_NOARGS),
    method("check", channel_check, "check() -> None, or the violated invariant", METH_NOARGS),
    method("size", channel_size, "size() -> messages that wait to be read", METH_NOARGS),
    method("full", channel_full, "full() -> whether put would wait", METH_NOARGS),
    method("task_done", channel_task_done, "task_done(): one received message is done", METH_NOARGS),
    method("join", channel_join, "join(timeout) -> bool: waits until all messages are done", METH_O),
    method("check_debtors", channel_check_debtors,
           "check_debtors(): raises PeerLostError if a process died between taking a message and task_done", METH_NOARGS),
    method("close", channel_close, "close(): drops this process's holds; other processes keep theirs", METH_NOARGS),
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
      "Channel(maxsize=0, block=None, joinable=False): messages from any process to any process through shared memory; "
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
