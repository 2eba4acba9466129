// The Python face of a channel's traffic: objects in and out, the codec first and the pickler for the rest.
#include <memory>
#include <new>

#include "memory/ledger/block.h"
#include "ipc/codec/block.h"
#include "ipc/channel/channel_object.h"
#include "ipc/codec/codec.h"

namespace shmtensor {

namespace {

// The object as a message. False: an exception is set.
bool write_draft(PyObject* object, PyObject* dumps, Draft* draft) {
  Draft::Outcome outcome = draft->write(object);
  if (outcome != Draft::Outcome::Unfit) return outcome == Draft::Outcome::Good;
  PyObject* pair = PyObject_CallOneArg(dumps, object);
  bool good = pair && draft->adopt(pair);
  Py_XDECREF(pair);
  return good;
}

bool put_draft(ChannelObject* self, const Draft& draft, const Deadline& deadline, double timeout, const char* where,
               bool* done) {
  return put_parcel(self, {draft.bytes(), draft.nbytes(), draft.blocks(), draft.n_blocks()}, deadline, timeout, where, done);
}

PyObject* read_arrival(Arrival* arrival, PyObject* loads) {
  if (arrival->nbytes && arrival->bytes[0] == kCodecMark)
    return decode(arrival->bytes, arrival->nbytes, arrival->held.data(), arrival->held.size());
  PyObject *data = arrival->data(), *blocks = data ? arrival->blocks() : nullptr;
  PyObject* out = blocks ? PyObject_CallFunctionObjArgs(loads, data, blocks, nullptr) : nullptr;
  Py_XDECREF(data);
  Py_XDECREF(blocks);
  return out;
}

// The error that an earlier receive_many left behind; false: it is set now.
bool nothing_pending(ChannelObject* self) {
  if (!self->pending) return true;
  PyObject* error = self->pending;
  self->pending = nullptr;
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(error)), error);
  Py_DECREF(error);
  return false;
}

void keep_error(ChannelObject* self) {
  PyObject *type, *value, *trace;
  PyErr_Fetch(&type, &value, &trace);
  PyErr_NormalizeException(&type, &value, &trace);
  if (trace) PyException_SetTraceback(value, trace);
  Py_XSETREF(self->pending, value);
  Py_XDECREF(type);
  Py_XDECREF(trace);
}

}  // namespace

PyObject* channel_send(ChannelObject* self, PyObject* const* a, Py_ssize_t n) {
  if (n != 3) return raise("TypeError", "Channel.send: takes object, dumps, timeout: got %zd arguments", n);
  double timeout;
  Draft draft;
  bool done;
  if (!read_timeout(a[2], &timeout) || !is_open(self, "Queue.put") || !write_draft(a[0], a[1], &draft)) return nullptr;
  Deadline deadline(timeout);
  return put_draft(self, draft, deadline, timeout, "Queue.put", &done) ? PyBool_FromLong(done) : nullptr;
}

PyObject* channel_send_many(ChannelObject* self, PyObject* const* a, Py_ssize_t n) {
  if (n != 3) return raise("TypeError", "Channel.send_many: takes objects, dumps, timeout: got %zd arguments", n);
  double timeout;
  if (!read_timeout(a[2], &timeout) || !is_open(self, "Queue.put_many")) return nullptr;
  PyObject* objects = PySequence_List(a[0]);  // one of our own: dumps may run any code
  if (!objects) return nullptr;
  size_t count = static_cast<size_t>(PyList_GET_SIZE(objects)), sent = 0;
  std::unique_ptr<Draft[]> drafts(new (std::nothrow) Draft[count]);
  bool good = drafts != nullptr;
  if (!good) PyErr_NoMemory();
  for (size_t i = 0; good && i < count; i++)
    good = write_draft(PyList_GET_ITEM(objects, static_cast<Py_ssize_t>(i)), a[1], &drafts[i]);
  Deadline deadline(timeout);
  for (bool done = true; good && sent < count; sent++) {
    good = put_draft(self, drafts[sent], deadline, timeout, "Queue.put_many", &done);
    if (!done) break;
  }
  Py_DECREF(objects);
  return good ? PyLong_FromSize_t(sent) : nullptr;
}

PyObject* channel_receive(ChannelObject* self, PyObject* const* a, Py_ssize_t n) {
  if (n != 4) return raise("TypeError", "Channel.receive: takes timeout, peers, loads, missing: got %zd arguments", n);
  double timeout;
  bool done;
  Arrival arrival;
  if (!read_timeout(a[0], &timeout) || !nothing_pending(self)) return nullptr;
  Deadline deadline(timeout);
  if (!take_arrival(self, &arrival, deadline, timeout, a[1], "Queue.get", &done)) return nullptr;
  return done ? read_arrival(&arrival, a[2]) : Py_NewRef(a[3]);
}

PyObject* channel_receive_many(ChannelObject* self, PyObject* const* a, Py_ssize_t n) {
  if (n != 4) return raise("TypeError", "Channel.receive_many: takes n, timeout, peers, loads: got %zd arguments", n);
  Py_ssize_t most = PyLong_AsSsize_t(a[0]);
  double timeout;
  if ((most == -1 && PyErr_Occurred()) || !read_timeout(a[1], &timeout) || !nothing_pending(self)) return nullptr;
  PyObject* out = PyList_New(0);
  if (!out) return nullptr;
  Arrival arrival;
  Deadline deadline(timeout), now(0.0);
  for (Py_ssize_t i = 0; i < most; i++) {
    bool done;
    bool good = take_arrival(self, &arrival, i ? now : deadline, i ? 0.0 : timeout, a[2], "Queue.get_many", &done);
    if (good && !done) break;
    PyObject* message = good ? read_arrival(&arrival, a[3]) : nullptr;
    if (!message || PyList_Append(out, message) < 0) {
      Py_XDECREF(message);
      if (i == 0) {
        Py_DECREF(out);
        return nullptr;
      }
      keep_error(self);  // what came before it is not lost; the next call raises it
      break;
    }
    Py_DECREF(message);
  }
  return out;
}

PyObject* channel_shut_down(ChannelObject* self, PyObject* immediate) {
  int at_once = PyObject_IsTrue(immediate);
  if (at_once < 0 || !is_open(self, "Queue.shutdown")) return nullptr;
  self->channel.shut_down(at_once ? AT_ONCE : NO_MORE);
  if (at_once && !self->channel.drain()) return nullptr;
  Py_RETURN_NONE;
}

PyObject* channel_statistics(ChannelObject* self, PyObject*) {
  Account x;
  if (!is_open(self, "Queue.statistics") || !self->channel.count(&x)) return nullptr;
  Root* root = self->channel.root();
  auto n = [](uint64_t value) { return static_cast<unsigned long long>(value); };
  return Py_BuildValue("{sKsKsKsKsKsKsKsKsIsIsI}", "maxsize", n(root->maxsize), "sent", n(x.sent), "received", n(x.received),
                       "waiting", n(x.waiting), "reading", n(x.reading), "writing", n(x.writing), "given_up", n(x.given_up),
                       "segments", n(x.segments), "shut", root->shut.load(), "getters", root->readers.load(), "putters",
                       root->writers.load());
}

PyObject* channel_check(ChannelObject* self, PyObject*) {
  std::string broken;
  if (!is_open(self, "Queue.check") || !self->channel.check(&broken)) return nullptr;
  if (broken.empty()) Py_RETURN_NONE;
  return PyUnicode_FromString(broken.c_str());
}

namespace {

PyObject* encode_object(PyObject*, PyObject* object) {
  Draft draft;
  switch (draft.write(object)) {
    case Draft::Outcome::Failed: return nullptr;
    case Draft::Outcome::Unfit: Py_RETURN_NONE;
    case Draft::Outcome::Good: break;
  }
  PyObject* carriers = PyList_New(draft.n_blocks());
  for (uint32_t i = 0; carriers && i < draft.n_blocks(); i++) PyList_SET_ITEM(carriers, i, Py_NewRef(draft.carriers().data()[i]));
  return carriers ? Py_BuildValue("y#N", draft.bytes(), static_cast<Py_ssize_t>(draft.nbytes()), carriers) : nullptr;
}

PyObject* decode_object(PyObject*, PyObject* const* a, Py_ssize_t n) {
  if (n != 2) return raise("TypeError", "decode: takes data and blocks: got %zd arguments", n);
  Py_buffer data;
  PyObject* blocks = PySequence_Fast(a[1], "decode: blocks is a sequence");
  if (!blocks || PyObject_GetBuffer(a[0], &data, PyBUF_SIMPLE) < 0) {
    Py_XDECREF(blocks);
    return nullptr;
  }
  PyObject* out = nullptr;
  Py_ssize_t i = 0, count = PySequence_Fast_GET_SIZE(blocks);
  while (i < count && Py_TYPE(PySequence_Fast_GET_ITEM(blocks, i)) == block_type) i++;
  if (i < count)
    raise("TypeError", "decode: not a Block: %s", Py_TYPE(PySequence_Fast_GET_ITEM(blocks, i))->tp_name);
  else
    out = decode(static_cast<char*>(data.buf), static_cast<size_t>(data.len), PySequence_Fast_ITEMS(blocks),
                 static_cast<size_t>(count));
  PyBuffer_Release(&data);
  Py_DECREF(blocks);
  return out;
}

PyMethodDef functions[] = {
    {"encode", encode_object, METH_O,
     "encode(object) -> (bytes, [array, ...]) with an array in each block named, or None: for the pickler."},
    {"decode", reinterpret_cast<PyCFunction>(decode_object), METH_FASTCALL,
     "decode(data, blocks) -> object. Copies: none of blocks. Raises: ValueError: malformed."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

int add_traffic(PyObject* module) { return PyModule_AddFunctions(module, functions); }

}  // namespace shmtensor
