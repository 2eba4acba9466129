// Python bindings of group.h: the type Group. shmtensor/distributed/ passes C-contiguous arrays in shared memory.
#include <new>

#include "half/bfloat16.h"
#include "ipc/process_group/group.h"
#include "methods.h"
#include "profiler/events.h"
#include "threading/thread_pool.h"

namespace shmtensor::group {

namespace {

struct GroupObject {  // the Python object
  PyObject_HEAD
  Group* group;
  Py_buffer block;
  PyObject* others;  // the blocks that keep the memberships in further domains
  bool is_counted;   // by the thread pool, until it leaves
};

Group& group_of(PyObject* self) { return *reinterpret_cast<GroupObject*>(self)->group; }

bool read(const char* where, PyObject* object, Operand* x, bool writes) {
  if (!PyArray_Check(object)) return raise("TypeError", "%s: takes an ndarray: got %s", where, Py_TYPE(object)->tp_name);
  auto* array = reinterpret_cast<PyArrayObject*>(object);
  if (!PyArray_IS_C_CONTIGUOUS(array) || (writes && !PyArray_ISWRITEABLE(array)) || PyArray_ISBYTESWAPPED(array) ||
      PyArray_NDIM(array) > kMaxDims || PyDataType_REFCHK(PyArray_DESCR(array)))
    return raise("ValueError", "%s: takes a C-contiguous%s array of numbers with at most %d dimensions: this one is not",
                 where, writes ? ", writable" : "", kMaxDims);
  x->data = PyArray_BYTES(array), x->ndim = PyArray_NDIM(array);
  x->item = static_cast<size_t>(PyArray_ITEMSIZE(array)), x->nbytes = static_cast<size_t>(PyArray_NBYTES(array));
  x->dtype = wire_of(PyArray_TYPE(array));
  if (x->dtype == NPY_LONGLONG) x->dtype = NPY_LONG;
  if (x->dtype == NPY_ULONGLONG) x->dtype = NPY_ULONG;
  for (int i = 0; i < kMaxDims; i++) x->shape[i] = i < x->ndim ? PyArray_DIM(array, i) : 0;
  return true;
}

// `n` arrays of x's size.
bool read_list(const char* where, PyObject* list, const Operand& x, int n, bool writes, std::vector<char*>* out) {
  PyObject* items = PySequence_Fast(list, "takes a list of arrays");
  if (!items) return false;
  bool good = PySequence_Fast_GET_SIZE(items) == n;
  if (!good)
    raise("ValueError", "%s: takes a tensor for each rank: got %zd of %d", where, PySequence_Fast_GET_SIZE(items), n);
  for (int p = 0; p < n && good; p++) {
    Operand other;
    good = read(where, PySequence_Fast_GET_ITEM(items, p), &other, writes);
    if (good && (other.nbytes != x.nbytes || other.dtype != x.dtype)) {
      raise("ValueError", "%s: tensors of the list differ from this rank's in size or dtype: %zu bytes at %d, not %zu",
            where, other.nbytes, p, x.nbytes);
      good = false;
    }
    out->push_back(other.data);
  }
  Py_DECREF(items);
  return good;
}

bool read_number(PyObject* object, double* out) {
  *out = PyFloat_AsDouble(object);
  return !(*out == -1.0 && PyErr_Occurred());
}

bool read_int(PyObject* object, int* out) {
  long value = PyLong_AsLong(object);
  *out = static_cast<int>(value);
  return !(value == -1 && PyErr_Occurred());
}

bool read_rank(const char* where, PyObject* self, PyObject* object, int* out) {
  if (!read_int(object, out)) return false;
  if (*out >= 0 && *out < group_of(self).world()) return true;
  return raise("ValueError", "%s: no such rank: %d of %d", where, *out, group_of(self).world());
}

bool read_op(const char* where, PyObject* object, int dtype, ReduceOp* out) {
  int value;
  if (!read_int(object, &value)) return false;
  *out = static_cast<ReduceOp>(value);
  if (value >= 0 && value < static_cast<int>(ReduceOp::None) && supports_op(dtype, *out)) return true;
  PyArray_Descr* descr = PyArray_DescrFromType(type_of(dtype));
  PyObject* name = descr ? PyObject_Str(reinterpret_cast<PyObject*>(descr)) : nullptr;
  raise("TypeError", "%s: this reduction is not defined for this dtype: %s of %s", where,
        value >= 0 && value < static_cast<int>(ReduceOp::None) ? name_of(*out) : "?", name ? PyUnicode_AsUTF8(name) : "?");
  Py_XDECREF(name);
  Py_XDECREF(descr);
  return false;
}

PyObject* none_or_error(bool good) {
  if (!good) return nullptr;
  Py_RETURN_NONE;
}

// Makes a call, an event of the profile if there is one.
template <class F>
PyObject* run(const char* name, size_t nbytes, F call) {
  return none_or_error(profiler::recorded(name, nbytes, call));
}

using Arguments = PyObject* const*;

PyObject* method_barrier(PyObject* self, Arguments a, Py_ssize_t n) {
  double timeout;
  if (!takes("barrier", n, 1) || !read_number(a[0], &timeout)) return nullptr;
  return run("barrier", 0, [&] { return barrier(group_of(self), timeout); });
}

PyObject* method_broadcast(PyObject* self, Arguments a, Py_ssize_t n) {
  Operand x;
  int root;
  double timeout;
  if (!takes("broadcast", n, 3) || !read_rank("broadcast", self, a[1], &root)) return nullptr;
  if (!read("broadcast", a[0], &x, root != group_of(self).rank()) || !read_number(a[2], &timeout)) return nullptr;
  return run("broadcast", x.nbytes, [&] { return broadcast(group_of(self), x, root, timeout); });
}

PyObject* method_all_reduce(PyObject* self, Arguments a, Py_ssize_t n) {
  Operand x;
  ReduceOp op;
  double timeout;
  if (!takes("all_reduce", n, 3) || !read("all_reduce", a[0], &x, true)) return nullptr;
  if (!read_op("all_reduce", a[1], x.dtype, &op) || !read_number(a[2], &timeout)) return nullptr;
  return run("all_reduce", x.nbytes, [&] { return all_reduce(group_of(self), x, op, timeout); });
}

PyObject* method_reduce(PyObject* self, Arguments a, Py_ssize_t n) {
  Operand x;
  ReduceOp op;
  int root;
  double timeout;
  if (!takes("reduce", n, 4) || !read("reduce", a[0], &x, true) || !read_op("reduce", a[1], x.dtype, &op)) return nullptr;
  if (!read_rank("reduce", self, a[2], &root) || !read_number(a[3], &timeout)) return nullptr;
  return run("reduce", x.nbytes, [&] { return reduce(group_of(self), x, op, root, timeout); });
}

PyObject* method_all_gather(PyObject* self, Arguments a, Py_ssize_t n) {
  Operand x;
  double timeout;
  std::vector<char*> out;
  if (!takes("all_gather", n, 3) || !read("all_gather", a[1], &x, false) || !read_number(a[2], &timeout)) return nullptr;
  if (!read_list("all_gather", a[0], x, group_of(self).world(), true, &out)) return nullptr;
  return run("all_gather", x.nbytes, [&] { return all_gather(group_of(self), x, out.data(), timeout); });
}

PyObject* method_gather(PyObject* self, Arguments a, Py_ssize_t n) {
  Operand x;
  int root;
  double timeout;
  std::vector<char*> out;
  if (!takes("gather", n, 4) || !read("gather", a[0], &x, false)) return nullptr;
  if (!read_rank("gather", self, a[2], &root) || !read_number(a[3], &timeout)) return nullptr;
  if (root == group_of(self).rank() && !read_list("gather", a[1], x, group_of(self).world(), true, &out)) return nullptr;
  return run("gather", x.nbytes, [&] { return gather(group_of(self), x, out.data(), root, timeout); });
}

PyObject* method_scatter(PyObject* self, Arguments a, Py_ssize_t n) {
  Operand x;
  int root;
  double timeout;
  std::vector<char*> in;
  if (!takes("scatter", n, 4) || !read("scatter", a[0], &x, true)) return nullptr;
  if (!read_rank("scatter", self, a[2], &root) || !read_number(a[3], &timeout)) return nullptr;
  if (root == group_of(self).rank() && !read_list("scatter", a[1], x, group_of(self).world(), false, &in)) return nullptr;
  return run("scatter", x.nbytes, [&] { return scatter(group_of(self), x, in.data(), root, timeout); });
}

// The operands of reduce_scatter and all_to_all; checks their sizes before anything is published.
bool read_pair(const char* where, PyObject* self, Arguments a, Operand* out, Operand* x, size_t divisor) {
  if (!read(where, a[0], out, true) || !read(where, a[1], x, false)) return false;
  if (out->dtype == x->dtype && x->nbytes == out->nbytes * divisor &&
      x->nbytes / x->item % static_cast<size_t>(group_of(self).world()) == 0)
    return true;
  return raise("ValueError", "%s: sizes do not fit %d ranks: output %zu bytes, input %zu", where, group_of(self).world(),
               out->nbytes, x->nbytes);
}

PyObject* method_reduce_scatter(PyObject* self, Arguments a, Py_ssize_t n) {
  Operand out, x;
  ReduceOp op;
  double timeout;
  size_t world = static_cast<size_t>(group_of(self).world());
  if (!takes("reduce_scatter", n, 4) || !read_pair("reduce_scatter", self, a, &out, &x, world)) return nullptr;
  if (!read_op("reduce_scatter", a[2], x.dtype, &op) || !read_number(a[3], &timeout)) return nullptr;
  return run("reduce_scatter", x.nbytes, [&] { return reduce_scatter(group_of(self), x, out.data, op, timeout); });
}

PyObject* method_all_to_all(PyObject* self, Arguments a, Py_ssize_t n) {
  Operand out, x;
  double timeout;
  if (!takes("all_to_all", n, 3) || !read_pair("all_to_all", self, a, &out, &x, 1)) return nullptr;
  if (!read_number(a[2], &timeout)) return nullptr;
  return run("all_to_all", x.nbytes, [&] { return all_to_all(group_of(self), x, out.data, timeout); });
}

PyObject* method_exchange(PyObject* self, Arguments a, Py_ssize_t n) {
  Operand x;
  double timeout;
  int is_direct;
  int world = group_of(self).world();
  std::vector<char*> out(world);
  std::vector<size_t> nbytes(world), offsets(world);
  if (!takes("exchange", n, 5) || !read("exchange", a[1], &x, false)) return nullptr;
  if (!read_int(a[3], &is_direct) || !read_number(a[4], &timeout)) return nullptr;
  if (!PyList_Check(a[0]) || !PyList_Check(a[2]) || PyList_GET_SIZE(a[0]) != world || PyList_GET_SIZE(a[2]) != world)
    return raise("ValueError", "exchange: takes lists with an array and an offset for each of %d ranks", world);
  if (!is_direct && x.nbytes > kInline) return raise("ValueError", "exchange: too large to go inline: %zu bytes", x.nbytes);
  for (int p = 0; p < world; p++) {
    Operand part;
    if (!read("exchange", PyList_GET_ITEM(a[0], p), &part, true)) return nullptr;
    out[p] = part.data, nbytes[p] = part.nbytes;
    offsets[p] = PyLong_AsSize_t(PyList_GET_ITEM(a[2], p));
    if (PyErr_Occurred()) return nullptr;
  }
  return run("exchange", x.nbytes,
             [&] { return exchange(group_of(self), x, out.data(), nbytes.data(), offsets.data(), is_direct, timeout); });
}

PyObject* method_find_sender(PyObject* self, PyObject* timeout) {
  double seconds;
  if (!read_number(timeout, &seconds)) return nullptr;
  int sender = group_of(self).find_sender(seconds);
  return sender < 0 ? nullptr : PyLong_FromLong(sender);
}

// [(number, progress, call, bytes, began, ended)] of rank p, the oldest first.
template <bool OfMessages>
PyObject* method_flight_record(PyObject* self, PyObject* rank) {
  static const char* const names[] = {"", "called", "met", "done"};
  constexpr uint64_t capacity = OfMessages ? kMessages : kRecorded;
  Group& group = group_of(self);
  int p;
  if (!read_rank("flight_record", self, rank, &p)) return nullptr;
  PyObject* list = PyList_New(0);
  uint64_t last = group.last_number(p, OfMessages);
  for (uint64_t n = last > capacity ? last - capacity + 1 : 1; list && n <= last; n++) {
    Step step;
    Progress progress;
    if (!group.read_step(p, n, &step, &progress, OfMessages)) continue;
    PyObject* item = Py_BuildValue("KssKdd", n, names[static_cast<int>(progress)], step.call.text().c_str(),
                                   static_cast<unsigned long long>(step.call.nbytes), step.began, step.ended);
    append(&list, item);
  }
  return list;
}

PyObject* method_reaches(PyObject* self, PyObject* array) {
  if (!PyArray_Check(array)) return raise("TypeError", "reaches: takes an ndarray: got %s", Py_TYPE(array)->tp_name);
  return PyBool_FromLong(group_of(self).reaches(PyArray_DATA(reinterpret_cast<PyArrayObject*>(array))));
}

PyObject* method_is_alive(PyObject* self, PyObject* rank) {
  int p;
  if (!read_rank("is_alive", self, rank, &p)) return nullptr;
  return PyBool_FromLong(group_of(self).is_alive(p));
}

PyObject* method_raise_lost(PyObject* self, Arguments a, Py_ssize_t n) {
  int p;
  const char* where = takes("raise_lost", n, 2) ? PyUnicode_AsUTF8(a[0]) : nullptr;
  if (!where || !read_rank("raise_lost", self, a[1], &p)) return nullptr;
  return none_or_error(group_of(self).raise_lost(where, p));
}

PyObject* method_find_dead(PyObject* self, PyObject*) { return PyLong_FromLong(group_of(self).find_dead()); }

PyObject* method_missing(PyObject* self, PyObject*) { return PyLong_FromUnsignedLongLong(group_of(self).missing()); }

template <bool Sends>
PyObject* method_message(PyObject* self, Arguments a, Py_ssize_t n) {
  const char* where = Sends ? "send" : "recv";
  Operand x;
  int peer, tag;
  double timeout;
  if (!takes(where, n, 4) || !read(where, a[0], &x, !Sends) || !read_rank(where, self, a[1], &peer)) return nullptr;
  if (!read_int(a[2], &tag) || !read_number(a[3], &timeout)) return nullptr;
  Group& group = group_of(self);
  if (peer == group.rank()) return raise("ValueError", "%s: a rank cannot send to itself: rank %d", where, peer);
  Record call{};
  call.number = static_cast<uint64_t>(tag), call.what = Collective::Message, call.op = ReduceOp::None, call.root = -1;
  call.dtype = static_cast<int8_t>(x.dtype), call.ndim = static_cast<int8_t>(x.ndim), call.nbytes = x.nbytes;
  for (int i = 0; i < x.ndim; i++) call.shape[i] = x.shape[i];
  return run(where, x.nbytes,
             [&] { return Sends ? group.send(call, x.data, peer, timeout) : group.receive(call, x.data, peer, timeout); });
}

void stop_counting(GroupObject* self) {
  if (self->is_counted) pool_count_groups(-1);
  self->is_counted = false;
}

PyObject* method_leave(PyObject* self, PyObject*) {
  stop_counting(reinterpret_cast<GroupObject*>(self));
  group_of(self).leave();
  Py_RETURN_NONE;
}

PyObject* method_break_off(PyObject* self, PyObject* why) {
  const char* text = PyUnicode_AsUTF8(why);
  if (!text) return nullptr;
  group_of(self).break_off(text);
  Py_RETURN_NONE;
}

PyObject* method_statistics(PyObject* self, PyObject*) {
  Group& g = group_of(self);
  return Py_BuildValue("KKK", g.number(), g.bytes_inline(), g.bytes_direct());
}

PyMethodDef methods[] = {
    method("barrier", method_barrier, "barrier(timeout)"),
    method("broadcast", method_broadcast, "broadcast(x, root, timeout)"),
    method("all_reduce", method_all_reduce, "all_reduce(x, op, timeout)"),
    method("reduce", method_reduce, "reduce(x, op, root, timeout)"),
    method("all_gather", method_all_gather, "all_gather(outs, x, timeout)"),
    method("gather", method_gather, "gather(x, outs, root, timeout)"),
    method("scatter", method_scatter, "scatter(out, xs, root, timeout)"),
    method("reduce_scatter", method_reduce_scatter, "reduce_scatter(out, x, op, timeout)"),
    method("all_to_all", method_all_to_all, "all_to_all(out, x, timeout)"),
    method("send", method_message<true>, "send(x, to, tag, timeout)"),
    method("recv", method_message<false>, "recv(x, from, tag, timeout)"),
    method("exchange", method_exchange, "exchange(outs, x, offsets, is_direct, timeout): parts of sizes agreed before"),
    {"find_sender", method_find_sender, METH_O, "find_sender(timeout) -> a rank with a message for this one"},
    {"reaches", method_reaches, METH_O, "reaches(array): whether all ranks can use its memory directly"},
    {"is_alive", method_is_alive, METH_O, "is_alive(rank): whether the process of a rank lives"},
    method("raise_lost", method_raise_lost,
           "raise_lost(where, rank): raises PeerLostError for a rank, with the cause of its death"),
    {"find_dead", method_find_dead, METH_NOARGS, "find_dead() -> a rank whose process has ended without leaving, or -1"},
    {"missing", method_missing, METH_NOARGS, "missing() -> bits of the ranks that have not arrived at the last meeting"},
    {"flight_record", method_flight_record<false>, METH_O,
     "flight_record(rank) -> [(number, progress, call, bytes, began, ended)]: its last calls, the oldest first"},
    {"messages", method_flight_record<true>, METH_O, "messages(rank): the same of its last messages"},
    {"leave", method_leave, METH_NOARGS, "leave(): the others no longer wait for this rank"},
    {"break_off", method_break_off, METH_O, "break_off(why): ends the waits of all ranks with an error"},
    {"statistics", method_statistics, METH_NOARGS,
     "statistics() -> (collectives, bytes copied inline, bytes sent directly)"},
    {nullptr, nullptr, 0, nullptr},
};

PyObject* make(PyTypeObject* type, PyObject* arguments, PyObject*) {
  PyObject *block, *others = nullptr;
  int rank, world;
  if (!PyArg_ParseTuple(arguments, "Oii|O!:Group", &block, &rank, &world, &PyTuple_Type, &others)) return nullptr;
  std::vector<void*> addresses;
  for (Py_ssize_t i = 0; others && i < PyTuple_GET_SIZE(others); i++) {
    Py_buffer view;
    if (PyObject_GetBuffer(PyTuple_GET_ITEM(others, i), &view, PyBUF_SIMPLE) < 0) return nullptr;
    addresses.push_back(view.buf);
    PyBuffer_Release(&view);
  }
  auto* self = reinterpret_cast<GroupObject*>(type->tp_alloc(type, 0));
  if (!self) return nullptr;
  if (PyObject_GetBuffer(block, &self->block, PyBUF_WRITABLE) < 0) {
    Py_DECREF(self);
    return nullptr;
  }
  self->others = Py_XNewRef(others);
  auto* group = new (std::nothrow) Group;
  if (!group || !group->join(self->block.buf, static_cast<size_t>(self->block.len), rank, world, addresses)) {
    if (!group) PyErr_NoMemory();
    delete group;
    Py_DECREF(self);
    return nullptr;
  }
  self->group = group;
  self->is_counted = world > 1;
  if (self->is_counted) pool_count_groups(1);
  return reinterpret_cast<PyObject*>(self);
}

void destroy(PyObject* object) {
  auto* self = reinterpret_cast<GroupObject*>(object);
  stop_counting(self);
  if (self->group && self->group->is_own()) self->group->leave();
  delete self->group;
  if (self->block.obj) PyBuffer_Release(&self->block);
  Py_XDECREF(self->others);
  Py_TYPE(object)->tp_free(object);
}

PyObject* get_slack(PyObject* self, void*) { return PyFloat_FromDouble(group_of(self).slack); }

int set_slack(PyObject* self, PyObject* value, void*) {
  double slack = value ? PyFloat_AsDouble(value) : -1.0;
  if (slack < 0) return PyErr_Occurred() ? -1 : (raise("ValueError", "Group.slack: is not a number of seconds"), -1);
  group_of(self).slack = slack;
  return 0;
}

PyObject* get_rank(PyObject* self, void*) { return PyLong_FromLong(group_of(self).rank()); }
PyObject* get_world(PyObject* self, void*) { return PyLong_FromLong(group_of(self).world()); }
PyObject* get_broken(PyObject* self, void*) { return PyBool_FromLong(group_of(self).is_broken()); }

PyObject* get_failure(PyObject* self, void*) {
  const Group& group = group_of(self);
  const uint32_t word = group.broken();
  if (!word) Py_RETURN_NONE;
  const char* reason = "lost";
  switch (reason_of_broken(word)) {
    case kLost: break;
    case kGaveUp: reason = "gave up"; break;
    case kStopped: reason = "stopped"; break;
    case kTimedOut: reason = "timeout"; break;
  }
  const std::string why = group.why();
  PyObject* text = PyUnicode_DecodeUTF8(why.data(), static_cast<Py_ssize_t>(why.size()), "replace");
  return text ? Py_BuildValue("siN", reason, rank_of_broken(word), text) : nullptr;
}

PyGetSetDef properties[] = {
    {"rank", get_rank, nullptr, "this process's rank", nullptr},
    {"slack", get_slack, set_slack, "seconds before a timeout at which a wait checks whether a missing rank is stopped",
     nullptr},
    {"world", get_world, nullptr, "number of ranks", nullptr},
    {"is_broken", get_broken, nullptr, "whether a rank gave up or died in a collective", nullptr},
    {"failure", get_failure, nullptr,
     "(reason, rank, text) of a group that is broken, or None; text: what the rank gave to break_off()", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};

PyTypeObject type = {PyVarObject_HEAD_INIT(nullptr, 0)};

PyObject* group_nbytes(PyObject*, PyObject* world) {
  int n;
  if (!read_int(world, &n)) return nullptr;
  if (n < 1 || n > kMaxWorld) return raise("ValueError", "group_nbytes: ranks out of range: %d, at most %d", n, kMaxWorld);
  return PyLong_FromSize_t(Group::nbytes_of(n));
}

PyMethodDef functions[] = {
    {"group_nbytes", group_nbytes, METH_O, "group_nbytes(world) -> int: bytes of the block of a group"},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

static int add(PyObject* module) {
  type.tp_name = "shmtensor.native.Group";
  type.tp_basicsize = sizeof(GroupObject);
  type.tp_flags = Py_TPFLAGS_DEFAULT;
  type.tp_doc =
      "Group(block, rank, world, others=()): one rank's end of a group of processes that meet in a shared block; others: blocks "
      "of further domains in which all ranks are guests";
  type.tp_new = make;
  type.tp_dealloc = destroy;
  type.tp_methods = methods;
  type.tp_getset = properties;
  if (PyType_Ready(&type) < 0 || PyModule_AddFunctions(module, functions) < 0) return -1;
  if (PyModule_AddIntConstant(module, "GROUP_INLINE", kInline) < 0) return -1;
  return PyModule_AddObjectRef(module, "Group", reinterpret_cast<PyObject*>(&type));
}

}  // namespace shmtensor::group

namespace shmtensor {

int add_group(PyObject* module) { return group::add(module); }

}  // namespace shmtensor
