// The Python type Channel, for the files with its methods.
#pragma once

#include <vector>

#include "methods.h"
#include "ipc/channel/channel.h"

namespace shmtensor {

struct ChannelObject {
  PyObject_HEAD
  Channel channel;
  PyObject* block;    // the root's
  PyObject* pending;  // nullptr, or the error of a message in receive_many after others were received
};

// ---- arguments and waits (bind.cc). False: an exception is set
bool read_peers(PyObject* object, std::vector<Peer>* peers);
bool is_open(ChannelObject* self, const char* where);
// Waits until *word is not `seen`. *late: the deadline passed.
bool wait_for(std::atomic<uint32_t>* word, uint32_t seen, std::atomic<uint32_t>* waiters, const Deadline& deadline,
              const std::vector<Peer>& peers, const char* where, bool* late);

// ---- methods (bind_put_get.cc)
PyObject* channel_put(ChannelObject* self, PyObject* const* a, Py_ssize_t n);
PyObject* channel_get(ChannelObject* self, PyObject* const* a, Py_ssize_t n);
PyObject* channel_send(ChannelObject* self, PyObject* const* a, Py_ssize_t n);
PyObject* channel_send_many(ChannelObject* self, PyObject* const* a, Py_ssize_t n);
PyObject* channel_receive(ChannelObject* self, PyObject* const* a, Py_ssize_t n);
PyObject* channel_receive_many(ChannelObject* self, PyObject* const* a, Py_ssize_t n);

}  // namespace shmtensor
