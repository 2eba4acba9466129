// Reading messages; codec.h has the format.
#include <cstring>

#include "memory/ledger/block.h"
#include "memory/heap/heap.h"
#include "memory/ledger/ledger.h"
#include "ipc/codec/block.h"
#include "ipc/codec/codec.h"
#include "ipc/copy_once.h"
#include "ipc/codec/array_layout.h"

namespace shmtensor {

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
    if (head.ndim > NPY_MAXDIMS || !is_plain_number(head.dtype) || head.flags > 3 || head.zero)
      return malformed("no such array");
    size_t n = head.ndim * sizeof(npy_intp);
    bool strided = head.flags & 2;
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
                                 strided ? strides : nullptr, head.offset, head.flags & 1);
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
    PyObject* message = Py_BuildValue(
        "y#(II)(IIiI)LNNN", handle, static_cast<Py_ssize_t>(head.n_handle), head.owner_row, head.owner_inc, head.sender_row,
        head.sender_inc, head.place, head.number, static_cast<long long>(head.offset), PyArray_IntTupleFromIntp(head.ndim, sizes), PyArray_IntTupleFromIntp(head.ndim, strides), descr);
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
      if (!item)
        Py_CLEAR(out);
      else if (is_tuple)
        PyTuple_SET_ITEM(out, i, item);
      else
        PyList_SET_ITEM(out, i, item);
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
