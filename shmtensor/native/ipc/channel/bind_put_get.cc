// Python bindings of putting and getting messages, and objects: by the codec, or by the pickler if the codec cannot.
// Waiting is here, because it releases the GIL.
#include <memory>
#include <new>

#include "memory/ledger/block.h"
#include "ipc/codec/block.h"
#include "ipc/channel/channel_object.h"
#include "ipc/codec/codec.h"

namespace shmtensor {

namespace {

// The object as a message; gpu: see MessageEncoder::write. False: an exception is set.
bool encode_message(PyObject* object, PyObject* dumps, PyObject* gpu, MessageEncoder* encoder) {
  MessageEncoder::Outcome outcome = encoder->write(object, gpu);
  if (outcome != MessageEncoder::Outcome::Unfit) return outcome == MessageEncoder::Outcome::Good;
  PyObject* pair = PyObject_CallFunctionObjArgs(dumps, object, gpu, nullptr);
  bool good = pair && encoder->adopt(pair);
  Py_XDECREF(pair);
  return good;
}

// The handles of GPU memory in messages that were not sent are discarded here, not by the caller: an interrupt could come
// between, and he would not know what was sent. Keeps the exception that is set, if one is.
void discard_unsent(PyObject* gpu, size_t n_sent) {
  PyObject *type, *value, *trace;
  PyErr_Fetch(&type, &value, &trace);
  PyObject* result = PyObject_CallMethod(gpu, "discard_messages", "n", static_cast<Py_ssize_t>(n_sent));
  if (!result) PyErr_WriteUnraisable(gpu);
  Py_XDECREF(result);
  PyErr_Restore(type, value, trace);
}

// Puts a message, waiting for room until the deadline; *done: it was put. timeout 0: no wait. False: an exception is set.
bool put_message(ChannelObject* self, const MessageEncoder& message, const Deadline& deadline, double timeout,
                 const char* where, bool* done) {
  void* spill = nullptr;
  bool good = is_open(self, where);
  *done = false;
  for (bool is_first = true; good && !*done; is_first = false) {
    Root* root = self->channel.root();
    // Readers write to that word often; the first try, which rarely fails, does not read it.
    uint32_t room = is_first ? 0 : root->room.load(std::memory_order_seq_cst);
    Channel::Try result = self->channel.put(message.bytes(), message.nbytes(), message.blocks(), message.n_blocks(), &spill);
    if (result == Channel::Try::Over) raise("ShutDown", "%s: the queue was shut down", where);
    good = result == Channel::Try::Ok || result == Channel::Try::NotNow;
    *done = result == Channel::Try::Ok;
    if (result != Channel::Try::NotNow) break;
    if (is_first) continue;
    bool late = deadline.is_over();
    if (!late) good = wait_for(&root->room, room, &root->writers, deadline, {}, where, &late) && is_open(self, where);
    if (late && timeout == 0.0) break;
    if (late) timeout = 0.0;  // one more look
  }
  Channel::discard(&spill);
  return good;
}

// Receives a message, waiting until the deadline; *done: it was received. False: an exception is set.
bool take_message(ChannelObject* self, ReceivedMessage* message, const Deadline& deadline, double timeout, PyObject* peers,
                  const char* where, bool* done) {
  std::vector<Peer> peers_to_watch;
  bool is_first = true;
  *done = false;
  while (is_open(self, where)) {
    Root* root = self->channel.root();
    uint32_t items = root->items.load(std::memory_order_seq_cst);
    Channel::Try result = self->channel.get(message);
    *done = result == Channel::Try::Ok;
    if (result == Channel::Try::Over) raise("ShutDown", "%s: the queue was shut down", where);
    if (result != Channel::Try::NotNow) return *done;
    bool late = deadline.is_over();
    if (late && timeout == 0.0) return true;
    if (late) {
      timeout = 0.0;  // one more look
      continue;
    }
    if (is_first && !read_peers(peers, &peers_to_watch)) return false;  // only needed if it waits
    is_first = false;
    if (!wait_for(&root->items, items, &root->readers, deadline, peers_to_watch, where, &late)) return false;
  }
  return false;
}

PyObject* decode_message(ReceivedMessage* received, PyObject* loads) {
  if (received->nbytes && received->bytes[0] == kCodecMark)
    return decode(received->bytes, received->nbytes, received->blocks_held.data(), received->blocks_held.size());
  PyObject *data = received->data(), *blocks = data ? received->blocks() : nullptr;
  PyObject* out = blocks ? PyObject_CallFunctionObjArgs(loads, data, blocks, nullptr) : nullptr;
  Py_XDECREF(data);
  Py_XDECREF(blocks);
  return out;
}

// False: sets the error that an earlier receive_many has stored.
bool has_no_pending_error(ChannelObject* self) {
  if (!self->pending) return true;
  PyObject* error = self->pending;
  self->pending = nullptr;
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(error)), error);
  Py_DECREF(error);
  return false;
}

void store_error(ChannelObject* self) {
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
  if (!takes("Channel.send", n, 3, 4)) return nullptr;
  double timeout;
  MessageEncoder encoder;
  bool done = false;
  PyObject* gpu = n == 4 ? a[3] : nullptr;
  if (!read_timeout(a[2], &timeout) || !is_open(self, "Queue.put") || !encode_message(a[0], a[1], gpu, &encoder))
    return nullptr;
  Deadline deadline(timeout);
  bool good = put_message(self, encoder, deadline, timeout, "Queue.put", &done);
  if (gpu && !done) discard_unsent(gpu, 0);
  return good ? PyBool_FromLong(done) : nullptr;
}

PyObject* channel_send_many(ChannelObject* self, PyObject* const* a, Py_ssize_t n) {
  if (!takes("Channel.send_many", n, 3, 4)) return nullptr;
  PyObject* gpu = n == 4 ? a[3] : nullptr;
  double timeout;
  if (!read_timeout(a[2], &timeout) || !is_open(self, "Queue.put_many")) return nullptr;
  PyObject* objects = PySequence_List(a[0]);  // a copy: dumps may run any code
  if (!objects) return nullptr;
  size_t count = static_cast<size_t>(PyList_GET_SIZE(objects)), n_sent = 0;
  std::unique_ptr<MessageEncoder[]> encoders(new (std::nothrow) MessageEncoder[count]);
  bool good = encoders != nullptr;
  if (!good) PyErr_NoMemory();
  for (size_t i = 0; good && i < count; i++) {
    PyObject* begun = gpu ? PyObject_CallMethod(gpu, "begin_message", nullptr) : Py_NewRef(Py_None);
    good = begun && encode_message(PyList_GET_ITEM(objects, static_cast<Py_ssize_t>(i)), a[1], gpu, &encoders[i]);
    Py_XDECREF(begun);
  }
  Deadline deadline(timeout);
  for (bool done = true; good && n_sent < count; n_sent++) {
    good = put_message(self, encoders[n_sent], deadline, timeout, "Queue.put_many", &done);
    if (!done) break;
  }
  Py_DECREF(objects);
  if (gpu && n_sent < count) discard_unsent(gpu, n_sent);
  return good ? PyLong_FromSize_t(n_sent) : nullptr;
}

PyObject* channel_receive(ChannelObject* self, PyObject* const* a, Py_ssize_t n) {
  if (!takes("Channel.receive", n, 4)) return nullptr;
  double timeout;
  bool done;
  ReceivedMessage received;
  if (!read_timeout(a[0], &timeout) || !has_no_pending_error(self)) return nullptr;
  Deadline deadline(timeout);
  if (!take_message(self, &received, deadline, timeout, a[1], "Queue.get", &done)) return nullptr;
  return done ? decode_message(&received, a[2]) : Py_NewRef(a[3]);
}

PyObject* channel_receive_many(ChannelObject* self, PyObject* const* a, Py_ssize_t n) {
  if (!takes("Channel.receive_many", n, 4)) return nullptr;
  Py_ssize_t max_n = PyLong_AsSsize_t(a[0]);
  double timeout;
  if ((max_n == -1 && PyErr_Occurred()) || !read_timeout(a[1], &timeout) || !has_no_pending_error(self)) return nullptr;
  PyObject* out = PyList_New(0);
  if (!out) return nullptr;
  ReceivedMessage received;
  Deadline deadline(timeout), now(0.0);
  for (Py_ssize_t i = 0; i < max_n; i++) {
    bool done;
    bool good = take_message(self, &received, i ? now : deadline, i ? 0.0 : timeout, a[2], "Queue.get_many", &done);
    if (good && !done) break;
    PyObject* message = good ? decode_message(&received, a[3]) : nullptr;
    if (!message || PyList_Append(out, message) < 0) {
      Py_XDECREF(message);
      if (i == 0) {
        Py_DECREF(out);
        return nullptr;
      }
      store_error(self);  // returns the messages before it; the next call raises it
      break;
    }
    Py_DECREF(message);
  }
  return out;
}

PyObject* channel_put(ChannelObject* self, PyObject* const* a, Py_ssize_t n) {
  if (!takes("Channel.put", n, 3)) return nullptr;
  double timeout;
  if (!read_timeout(a[2], &timeout)) return nullptr;
  PyObject* pair = PyTuple_Pack(2, a[0], a[1]);
  MessageEncoder draft;
  bool done = false;
  Deadline deadline(timeout);
  bool good = pair && draft.adopt(pair) && put_message(self, draft, deadline, timeout, "Channel.put", &done);
  Py_XDECREF(pair);
  return good ? PyBool_FromLong(done) : nullptr;
}

PyObject* channel_get(ChannelObject* self, PyObject* const* a, Py_ssize_t n) {
  if (!takes("Channel.get", n, 1, 2)) return nullptr;
  double timeout;
  if (!read_timeout(a[0], &timeout)) return nullptr;
  ReceivedMessage message;
  bool done;
  Deadline deadline(timeout);
  if (!take_message(self, &message, deadline, timeout, n > 1 ? a[1] : nullptr, "Channel.get", &done)) return nullptr;
  if (!done) Py_RETURN_NONE;
  PyObject *data = message.data(), *blocks = data ? message.blocks() : nullptr;
  return blocks ? Py_BuildValue("NN", data, blocks) : (Py_XDECREF(data), nullptr);
}

namespace {

PyObject* encode_object(PyObject*, PyObject* const* a, Py_ssize_t n) {
  if (!takes("encode", n, 1, 2)) return nullptr;
  MessageEncoder encoder;
  switch (encoder.write(a[0], n == 2 && a[1] != Py_None ? a[1] : nullptr)) {
    case MessageEncoder::Outcome::Failed: return nullptr;
    case MessageEncoder::Outcome::Unfit: Py_RETURN_NONE;
    case MessageEncoder::Outcome::Good: break;
  }
  PyObject* owners = PyList_New(encoder.n_blocks());
  for (uint32_t i = 0; owners && i < encoder.n_blocks(); i++)
    PyList_SET_ITEM(owners, i, Py_NewRef(encoder.owners().data()[i]));
  return owners ? Py_BuildValue("y#N", encoder.bytes(), static_cast<Py_ssize_t>(encoder.nbytes()), owners) : nullptr;
}

PyObject* decode_object(PyObject*, PyObject* const* a, Py_ssize_t n) {
  if (!takes("decode", n, 2)) return nullptr;
  Py_buffer data;
  PyObject* blocks = PySequence_Fast(a[1], "decode: blocks is a sequence");
  if (!blocks || PyObject_GetBuffer(a[0], &data, PyBUF_SIMPLE) < 0) {
    Py_XDECREF(blocks);
    return nullptr;
  }
  PyObject* out = nullptr;
  Py_ssize_t i = 0, count = PySequence_Fast_GET_SIZE(blocks);
  while (i < count && Py_TYPE(PySequence_Fast_GET_ITEM(blocks, i)) == block_type) i++;
  if (i < count) raise("TypeError", "decode: not a Block: %s", Py_TYPE(PySequence_Fast_GET_ITEM(blocks, i))->tp_name);
  else
    out = decode(static_cast<char*>(data.buf), static_cast<size_t>(data.len), PySequence_Fast_ITEMS(blocks),
                 static_cast<size_t>(count));
  PyBuffer_Release(&data);
  Py_DECREF(blocks);
  return out;
}

PyMethodDef functions[] = {
    method("encode", encode_object,
           "encode(object, gpu=None) -> (bytes, [array, ...]) with an array in each block named, or None: for the pickler."),
    method("decode", decode_object,
           "decode(data, blocks) -> object. Copies: none of blocks. Raises: ValueError: malformed."),
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

int add_messages(PyObject* module) { return PyModule_AddFunctions(module, functions); }

}  // namespace shmtensor
