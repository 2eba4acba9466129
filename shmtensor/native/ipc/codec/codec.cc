// Writing and reading messages; codec.h has the format.
#include "ipc/codec/codec.h"

#include <cstdlib>
#include <cstring>

#include "memory/ledger/block.h"
#include "memory/gradient_buffer.h"
#include "memory/heap/heap.h"
#include "memory/ledger/ledger.h"
#include "ipc/codec/block.h"
#include "ipc/codec/array_layout.h"
#include "ipc/copy_once.h"

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
  if (view_.obj) drop_view(&view_);
  else if (bytes_ != inline_bytes_) free(bytes_);
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
                   static_cast<uint8_t>((PyArray_ISWRITEABLE(array) ? kWriteable : 0) | (strided ? kStrided : 0)),
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
                               &head.sender_row, &head.sender_inc, &head.place, &head.number, &offset, &PyTuple_Type, &sizes,
                               &PyTuple_Type, &strides, &name);
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

// ---- reading

namespace {

class Reader {
 public:
  Reader(const char* bytes, size_t n, PyObject* const* blocks, size_t n_blocks)
      : start_(bytes), at_(bytes), end_(bytes + n), blocks_(blocks), n_blocks_(n_blocks) {}

  PyObject* message() {
    char mark;
    if (!take(&mark, 1)) return nullptr;
    if (mark != kCodecMark) return malformed("it does not begin with its mark");
    PyObject* out = value(0);
    if (out && at_ != end_) {
      Py_DECREF(out);
      return malformed("something follows it");
    }
    return out;
  }

 private:
  PyObject* malformed(const char* what) {
    return raise("ValueError", "receive: the message is malformed: %s: byte %zu of %zu", what,
                 static_cast<size_t>(at_ - start_), static_cast<size_t>(end_ - start_));
  }
  size_t remaining() const { return static_cast<size_t>(end_ - at_); }
  bool take(void* out, size_t n) {
    if (remaining() < n) {
      malformed("it ends too early");
      return false;
    }
    copy_once(out, at_, n);
    at_ += n;
    return true;
  }
  // A count of items of at least `each` bytes.
  bool count(uint32_t* n, size_t each) {
    if (!take(n, sizeof *n)) return false;
    if (*n > remaining() / each) {
      malformed("it ends before what it counts");
      return false;
    }
    return true;
  }

  // The memory of an array without elements is shared, too.
  static PyObject* new_empty_block() {
    void* base = allocate_shared(1);
    if (base) return new_block(base, 1, Origin::Allocated);
    PyErr_NoMemory();
    raise_allocation_failure("receive");
    return nullptr;
  }

  PyObject* view(char tag) {
    ViewHead head;
    npy_intp sizes[NPY_MAXDIMS], strides[NPY_MAXDIMS];
    if (!take(&head, sizeof head)) return nullptr;
    bool has_no_block = head.block == kNoBlock;
    if (!has_no_block && head.block >= n_blocks_) return malformed("it names a block that it does not have");
    if (head.ndim > NPY_MAXDIMS || !is_plain_number(head.dtype) || head.flags & ~(kWriteable | kStrided) || head.zero)
      return malformed("no such array");
    size_t n = head.ndim * sizeof(npy_intp);
    bool strided = head.flags & kStrided;
    if (!take(sizes, n) || (strided && !take(strides, n))) return nullptr;
    PyArray_Descr* descr = PyArray_DescrFromType(type_of(head.dtype));
    if (!descr) return nullptr;
    if (PyDataType_ELSIZE(descr) == 0) {
      Py_DECREF(descr);
      return malformed("no such array");
    }
    if (has_no_block) {
      bool empty = false;
      for (int k = 0; k < head.ndim; k++) empty |= sizes[k] == 0;
      if (!empty || head.offset) {
        Py_DECREF(descr);
        return malformed("it names no block");
      }
    }
    PyObject* block = has_no_block ? new_empty_block() : Py_NewRef(blocks_[head.block]);
    if (!block) {
      Py_DECREF(descr);
      return nullptr;
    }
    PyObject* array = view_block(block, static_cast<char*>(block_base(block)), block_nbytes(block), descr, head.ndim, sizes,
                                 strided ? strides : nullptr, head.offset, head.flags & kWriteable);
    Py_DECREF(block);
    if (!array || tag == 'a') return array;
    PyObject* tensor = tensor_access.make(array);
    Py_DECREF(array);
    return tensor;
  }

  // A Tensor over memory of a GPU, which Python receives.
  PyObject* device_view() {
    DeviceHead head;
    char handle[sizeof(Handle)];
    npy_intp sizes[NPY_MAXDIMS], strides[NPY_MAXDIMS];
    if (!take(&head, sizeof head)) return nullptr;
    bool is_empty = head.n_handle == sizeof(Handle::domain);  // without memory: the GPU's UUID
    uint8_t zeros = 0;
    for (uint8_t byte : head.zero) zeros |= byte;
    if (head.ndim > NPY_MAXDIMS || !is_plain_number(head.dtype) || zeros || (head.n_handle != sizeof handle && !is_empty))
      return malformed("no such array");
    size_t n = head.ndim * sizeof(npy_intp);
    if (!take(handle, head.n_handle) || !take(sizes, n) || !take(strides, n)) return nullptr;
    PyArray_Descr* descr = PyArray_DescrFromType(type_of(head.dtype));
    if (!descr) return nullptr;
    size_t nbytes = 0;
    bool has_elements = true, good = true;
    const npy_intp element = PyDataType_ELSIZE(descr), alignment = PyDataType_ALIGNMENT(descr);
    npy_intp total = element;
    for (int k = 0; k < head.ndim; k++) {
      has_elements &= sizes[k] != 0;
      good = good && !__builtin_mul_overflow(total, sizes[k] ? sizes[k] : 1, &total) && strides[k] % alignment == 0;
    }
    if (!is_empty) memcpy(&nbytes, handle + offsetof(Handle, nbytes), sizeof(Handle::nbytes));
    npy_intp low, high;
    if (!good || element == 0 || has_elements == is_empty || head.offset % alignment ||
        !is_inside(nbytes, element, head.ndim, sizes, strides, head.offset, &low, &high)) {
      Py_DECREF(descr);
      return malformed("no such array");
    }
    PyObject* message =
        Py_BuildValue("y#(II)(IIiI)LNNN", handle, static_cast<Py_ssize_t>(head.n_handle), head.owner_row, head.owner_inc,
                      head.sender_row, head.sender_inc, head.place, head.number, static_cast<long long>(head.offset),
                      PyArray_IntTupleFromIntp(head.ndim, sizes), PyArray_IntTupleFromIntp(head.ndim, strides), descr);
    PyObject* receive = message ? device_receiver() : nullptr;
    PyObject* array = receive ? PyObject_CallOneArg(receive, message) : nullptr;
    Py_XDECREF(message);
    PyObject* tensor = array ? tensor_access.make(array) : nullptr;
    Py_XDECREF(array);
    return tensor;
  }

  // Borrowed.
  static PyObject* device_receiver() {
    static PyObject* function = nullptr;
    if (!function) {
      PyObject* module = PyImport_ImportModule("shmtensor.multiprocessing.reduce_cuda");
      function = module ? PyObject_GetAttrString(module, "rebuild_cupy") : nullptr;
      Py_XDECREF(module);
    }
    return function;
  }

  PyObject* value(int depth) {
    char tag;
    if (!take(&tag, 1)) return nullptr;
    switch (tag) {
      case 'N': Py_RETURN_NONE;
      case 'T': Py_RETURN_TRUE;
      case 'F': Py_RETURN_FALSE;
      case 'i': {
        long long number;
        return take(&number, sizeof number) ? PyLong_FromLongLong(number) : nullptr;
      }
      case 'f': {
        double number;
        return take(&number, sizeof number) ? PyFloat_FromDouble(number) : nullptr;
      }
      case 'c': {
        double parts[2];
        return take(parts, sizeof parts) ? PyComplex_FromDoubles(parts[0], parts[1]) : nullptr;
      }
      case 's':
      case 'b': {
        uint32_t n;
        if (!count(&n, 1)) return nullptr;
        const char* text = at_;
        at_ += n;
        return tag == 'b' ? PyBytes_FromStringAndSize(text, n) : decode_text(text, n);
      }
      case '(':
      case '[': return items(tag == '(', depth);
      case '{': return pairs(depth);
      case 'a':
      case 't': return view(tag);
      case 'g': return device_view();
      default: at_--; return malformed("no such tag");
    }
  }

  // The decoder of UTF-8 reads its bytes more than once, so it gets a copy.
  static PyObject* decode_text(const char* text, size_t n) {
    char short_text[256];
    if (n <= sizeof short_text) {
      copy_once(short_text, text, n);
      return PyUnicode_DecodeUTF8(short_text, static_cast<Py_ssize_t>(n), nullptr);
    }
    PyObject* bytes = PyBytes_FromStringAndSize(text, static_cast<Py_ssize_t>(n));
    PyObject* out = bytes ? PyUnicode_DecodeUTF8(PyBytes_AS_STRING(bytes), static_cast<Py_ssize_t>(n), nullptr) : nullptr;
    Py_XDECREF(bytes);
    return out;
  }

  PyObject* items(bool is_tuple, int depth) {
    uint32_t n;
    if (depth == kMaxDepth) return malformed("it is nested too deeply");
    if (!count(&n, 1)) return nullptr;
    PyObject* out = is_tuple ? PyTuple_New(n) : PyList_New(n);
    for (uint32_t i = 0; out && i < n; i++) {
      PyObject* item = value(depth + 1);
      if (!item) Py_CLEAR(out);
      else if (is_tuple) PyTuple_SET_ITEM(out, i, item);
      else PyList_SET_ITEM(out, i, item);
    }
    return out;
  }

  PyObject* pairs(int depth) {
    uint32_t n;
    if (depth == kMaxDepth) return malformed("it is nested too deeply");
    if (!count(&n, 2)) return nullptr;
    PyObject* out = PyDict_New();
    for (uint32_t i = 0; out && i < n; i++) {
      PyObject* key = value(depth + 1);
      PyObject* item = key ? value(depth + 1) : nullptr;
      if (!item || PyDict_SetItem(out, key, item) < 0) {
        if (item && PyErr_ExceptionMatches(PyExc_TypeError)) {  // a key that cannot be hashed
          PyErr_Clear();
          malformed("no such key");
        }
        Py_CLEAR(out);
      }
      Py_XDECREF(key);
      Py_XDECREF(item);
    }
    return out;
  }

  const char *start_, *at_, *end_;
  PyObject* const* blocks_;
  size_t n_blocks_;
};

}  // namespace

PyObject* decode(const char* bytes, size_t n, PyObject* const* blocks, size_t n_blocks) {
  return Reader(bytes, n, blocks, n_blocks).message();
}

}  // namespace shmtensor
