// Writing messages; codec.h has the format, decode.cc reads them.
#include "ipc/codec/codec.h"

#include <cstdlib>
#include <cstring>

#include "memory/ledger/block.h"
#include "memory/gradient_buffer.h"
#include "memory/ledger/ledger.h"
#include "ipc/codec/block.h"
#include "ipc/codec/array_layout.h"

namespace shmtensor {

namespace {

constexpr uint32_t kLinear = 8;
constexpr size_t kLong = 256;  // repeated text beyond this length is left to the pickler, which writes it once

}  // namespace

TensorAccess tensor_access;

// ---- writing

Numbering::Entry* Numbering::find(std::vector<Entry>& table, const void* p) {
  size_t mask = table.size() - 1, i = (reinterpret_cast<uintptr_t>(p) >> 4) * 0x9E3779B97F4A7C15u >> 20 & mask;
  while (table[i].p && table[i].p != p) i = (i + 1) & mask;
  return &table[i];
}

uint32_t Numbering::of(const void* p, bool* is_new) {
  if (table_.empty()) {
    uint32_t i = 0;
    while (i < n_ && first_[i] != p) i++;
    *is_new = i == n_;
    if (!*is_new) return i;
    if (n_ < kLinear) {
      first_.push_back(p);
      return n_++;
    }
    table_.resize(4 * kLinear);
    for (uint32_t k = 0; k < n_; k++) *find(table_, first_[k]) = {first_[k], k};
  }
  if (2 * (n_ + 1) > table_.size()) {
    std::vector<Entry> larger(4 * table_.size());
    for (Entry& entry : table_)
      if (entry.p) *find(larger, entry.p) = entry;
    table_.swap(larger);
  }
  Entry* entry = find(table_, p);
  *is_new = !entry->p;
  if (*is_new) *entry = {p, n_++};
  return entry->number;
}

void Numbering::clear() {
  table_.clear();
  first_.clear();
  n_ = 0;
}

void MessageEncoder::clear() {
  for (PyObject* owner : owners_) drop(owner);
  owners_.clear();
  blocks_.clear();
  bases_.clear();
  seen_.clear();
  if (view_.obj)
    drop_view(&view_);
  else if (bytes_ != inline_bytes_)
    free(bytes_);
  bytes_ = inline_bytes_;
  n_ = 0;
  capacity_ = sizeof inline_bytes_;
}

bool MessageEncoder::reserve(size_t more) {
  if (n_ + more <= capacity_) return true;
  size_t capacity = 2 * capacity_ > n_ + more ? 2 * capacity_ : n_ + more;
  char* larger = static_cast<char*>(bytes_ == inline_bytes_ ? malloc(capacity) : realloc(bytes_, capacity));
  if (!larger) {
    PyErr_NoMemory();
    return false;
  }
  if (bytes_ == inline_bytes_) memcpy(larger, inline_bytes_, n_);
  bytes_ = larger;
  capacity_ = capacity;
  return true;
}

bool MessageEncoder::put(const void* data, size_t n) {
  if (!reserve(n)) return false;
  if (n) memcpy(bytes_ + n_, data, n);  // data may be null if n is 0
  n_ += n;
  return true;
}

bool MessageEncoder::put_tag(char tag, uint64_t n) {
  uint32_t count = static_cast<uint32_t>(n);
  return put(&tag, 1) && put(&count, sizeof count);
}

// Whether this object occurs for the first time in this message. An object with one reference, its container's, does.
bool MessageEncoder::is_new(PyObject* object) {
  bool is_new = true;
  if (Py_REFCNT(object) != 1) seen_.of(object, &is_new);
  return is_new;
}

MessageEncoder::Outcome MessageEncoder::view(PyObject* object, char tag) {
  PyArrayObject* array = reinterpret_cast<PyArrayObject*>(object);
  char* data = PyArray_BYTES(array);
  if (!is_shared(data) || !is_plain(PyArray_DESCR(array))) return Outcome::Unfit;
  // An array without elements shares nothing, and may point to the start of another block.
  bool empty = PyArray_SIZE(array) == 0, is_new = false;
  uint32_t i = kNoBlock;
  BlockRef block{};
  block.base = data;
  if (!empty) {
    block = block_around(data, true);
    if (!block.arena) return Outcome::Unfit;
    mark_sent(array);
    i = bases_.of(block.base, &is_new);
  }
  if (is_new) {
    blocks_.push_back(block);
    owners_.push_back(Py_NewRef(object));
  }
  int ndim = PyArray_NDIM(array);
  bool strided = !PyArray_IS_C_CONTIGUOUS(array);
  ViewHead head = {i,
               static_cast<uint8_t>(wire_of(PyArray_DESCR(array)->type_num)),
               static_cast<uint8_t>(ndim),
               static_cast<uint8_t>((PyArray_ISWRITEABLE(array) ? 1 : 0) | (strided ? 2 : 0)),
               0,
               data - block.base};
  size_t sizes = static_cast<size_t>(ndim) * sizeof(npy_intp);
  if (!reserve(1 + sizeof head + 2 * sizes)) return Outcome::Failed;
  char* at = bytes_ + n_;
  *at++ = tag;
  memcpy(at, &head, sizeof head);
  at += sizeof head;
  for (const npy_intp* from : {PyArray_DIMS(array), strided ? PyArray_STRIDES(array) : nullptr})
    for (int k = 0; from && k < ndim; k++, at += sizeof(npy_intp)) memcpy(at, &from[k], sizeof(npy_intp));
  n_ = static_cast<size_t>(at - bytes_);
  return Outcome::Good;
}

// The handle is exported by Python, and the rest of its message is written as numbers.
MessageEncoder::Outcome MessageEncoder::device_view(PyObject* array) {
  static PyObject* const add = PyUnicode_InternFromString("add");
  PyObject* descr = PyObject_GetAttrString(array, "dtype");
  if (!descr) return Outcome::Failed;
  bool fit = PyArray_DescrCheck(descr) && is_plain(reinterpret_cast<PyArray_Descr*>(descr));
  int dtype = fit ? wire_of(reinterpret_cast<PyArray_Descr*>(descr)->type_num) : 0;
  Py_DECREF(descr);
  if (!fit) return Outcome::Unfit;
  PyObject* message = PyObject_CallMethodOneArg(gpu_, add, array);
  if (!message) return Outcome::Failed;
  if (message == Py_None) {  // an array without data, which is pickled
    Py_DECREF(message);
    return Outcome::Unfit;
  }
  n_handles_++;
  const char* handle;
  Py_ssize_t n_handle;
  PyObject *sizes, *strides, *name;
  DeviceHead head{};
  long long offset;
  bool good = PyArg_ParseTuple(message, "y#(II)(IIiI)LO!O!O", &handle, &n_handle, &head.owner_row, &head.owner_inc,
                               &head.sender_row, &head.sender_inc, &head.place, &head.number, &offset, &PyTuple_Type,
                               &sizes, &PyTuple_Type, &strides, &name);
  if (good) {
    head.offset = offset;
    head.dtype = static_cast<uint8_t>(dtype);
    head.ndim = static_cast<uint8_t>(PyTuple_GET_SIZE(sizes));
    head.n_handle = static_cast<uint8_t>(n_handle);
    good = put("g", 1) && put(&head, sizeof head) && put(handle, head.n_handle);
    for (PyObject* from : {sizes, strides})
      for (Py_ssize_t k = 0; good && k < head.ndim; k++) {
        int64_t size = PyLong_AsLongLong(PyTuple_GET_ITEM(from, k));
        good = !(size == -1 && PyErr_Occurred()) && put(&size, sizeof size);
      }
  }
  Py_DECREF(message);
  return good ? Outcome::Good : Outcome::Failed;
}

// The message will not be sent in this form. Keeps the exception that is set, if one is.
void MessageEncoder::discard_handles() {
  PyObject *type, *value, *trace;
  PyErr_Fetch(&type, &value, &trace);
  PyObject* result = PyObject_CallMethod(gpu_, "discard_last", "n", n_handles_);
  n_handles_ = 0;
  if (!result) PyErr_WriteUnraisable(gpu_);
  Py_XDECREF(result);
  PyErr_Restore(type, value, trace);
}

// The export of a handle runs Python's code, and other threads: a container may change meanwhile.
MessageEncoder::Outcome MessageEncoder::item(PyObject* object, int depth) {
  Py_INCREF(object);
  Outcome outcome = value(object, depth);
  Py_DECREF(object);
  return outcome;
}

MessageEncoder::Outcome MessageEncoder::changed(PyObject* object) {
  raise("RuntimeError", "put: a %s changed its size while it was encoded", Py_TYPE(object)->tp_name);
  return Outcome::Failed;
}

MessageEncoder::Outcome MessageEncoder::value(PyObject* object, int depth) {
  auto as = [](bool good) { return good ? Outcome::Good : Outcome::Failed; };
  PyTypeObject* type = Py_TYPE(object);
  if (type == *tensor_access.type) {
    PyObject* array = tensor_access.plain_array(object);
    if (!array || (depth && !is_new(object))) return Outcome::Unfit;
    if (PyArray_CheckExact(array)) return view(array, 't');
    return gpu_ && !PyArray_Check(array) ? device_view(array) : Outcome::Unfit;
  }
  if (type == &PyLong_Type) {
    int overflow;
    long long number = PyLong_AsLongLongAndOverflow(object, &overflow);
    if (overflow) return Outcome::Unfit;
    return as(put("i", 1) && put(&number, sizeof number));
  }
  if (object == Py_None) return as(put("N", 1));
  if (type == &PyBool_Type) return as(put(object == Py_True ? "T" : "F", 1));
  if (type == &PyFloat_Type) {
    double number = PyFloat_AS_DOUBLE(object);
    return as(put("f", 1) && put(&number, sizeof number));
  }
  if (type == &PyComplex_Type) {
    Py_complex number = PyComplex_AsCComplex(object);
    return as(put("c", 1) && put(&number.real, sizeof number.real) && put(&number.imag, sizeof number.imag));
  }
  if (type == &PyUnicode_Type || type == &PyBytes_Type) {
    Py_ssize_t n = 0;
    const char* text;
    if (type == &PyBytes_Type) {
      text = PyBytes_AS_STRING(object);
      n = PyBytes_GET_SIZE(object);
    } else if (!(text = PyUnicode_AsUTF8AndSize(object, &n))) {
      if (!PyErr_ExceptionMatches(PyExc_UnicodeEncodeError)) return Outcome::Failed;
      PyErr_Clear();  // a lone surrogate
      return Outcome::Unfit;
    }
    if (n > UINT32_MAX || (n > static_cast<Py_ssize_t>(kLong) && depth && !is_new(object))) return Outcome::Unfit;
    return as(put_tag(type == &PyBytes_Type ? 'b' : 's', static_cast<uint64_t>(n)) && put(text, static_cast<size_t>(n)));
  }
  bool is_tuple = type == &PyTuple_Type;
  if (is_tuple || type == &PyList_Type) {
    Py_ssize_t n = is_tuple ? PyTuple_GET_SIZE(object) : PyList_GET_SIZE(object);
    if (depth == kMaxDepth || n > UINT32_MAX || (!(is_tuple && n == 0) && !is_new(object))) return Outcome::Unfit;
    if (!put_tag(is_tuple ? '(' : '[', static_cast<uint64_t>(n))) return Outcome::Failed;
    for (Py_ssize_t i = 0; i < n; i++) {
      if (!is_tuple && PyList_GET_SIZE(object) != n) return changed(object);
      Outcome outcome = item(is_tuple ? PyTuple_GET_ITEM(object, i) : PyList_GET_ITEM(object, i), depth + 1);
      if (outcome != Outcome::Good) return outcome;
    }
    return Outcome::Good;
  }
  if (type == &PyDict_Type) {
    Py_ssize_t n = PyDict_GET_SIZE(object), at = 0, n_pairs = 0;
    PyObject *key, *found;
    if (depth == kMaxDepth || n > UINT32_MAX || !is_new(object)) return Outcome::Unfit;
    if (!put_tag('{', static_cast<uint64_t>(n))) return Outcome::Failed;
    for (; n_pairs < n && PyDict_Next(object, &at, &key, &found); n_pairs++) {
      Py_INCREF(found);
      Outcome outcome = item(key, depth + 1);
      if (outcome == Outcome::Good) outcome = value(found, depth + 1);
      Py_DECREF(found);
      if (outcome != Outcome::Good) return outcome;
      if (PyDict_GET_SIZE(object) != n) return changed(object);
    }
    return n_pairs == n ? Outcome::Good : changed(object);
  }
  if (type == &PyArray_Type) {
    if (depth && !is_new(object)) return Outcome::Unfit;
    return view(object, 'a');
  }
  return Outcome::Unfit;
}

MessageEncoder::Outcome MessageEncoder::write(PyObject* object, PyObject* gpu) {
  if (!put(&kCodecMark, 1)) return Outcome::Failed;
  gpu_ = gpu;
  Outcome outcome = value(object, 0);
  if (outcome != Outcome::Good && n_handles_) discard_handles();
  return outcome;
}

bool MessageEncoder::adopt(PyObject* pair) {
  clear();
  PyObject *data, *sequence;
  if (!PyArg_ParseTuple(pair, "OO", &data, &sequence)) return false;
  PyObject* items = PySequence_Fast(sequence, "Channel: blocks is a sequence");
  if (!items) return false;
  bool good = PyObject_GetBuffer(data, &view_, PyBUF_SIMPLE) == 0;
  if (good) {
    bytes_ = static_cast<char*>(view_.buf);
    n_ = static_cast<size_t>(view_.len);
  }
  for (Py_ssize_t i = 0; good && i < PySequence_Fast_GET_SIZE(items); i++) {
    PyObject* item = PySequence_Fast_GET_ITEM(items, i);
    void* address;
    good = find_address(item, &address);
    if (!good) break;
    blocks_.push_back(block_around(address));
    owners_.push_back(Py_NewRef(item));
  }
  Py_DECREF(items);
  return good;
}

}  // namespace shmtensor
