// pack(): elements as bytes, and these in few blocks. Exact types only: subclasses are pickled, so that they keep their
// attributes.
#include <utility>

#include "dispatch/autograd_node.h"
#include "ipc/codec/array_layout.h"
#include "kernels/shape/memcpy.h"
#include "shared_containers/store.h"

namespace shmtensor::packed {

namespace {

bool add_number(Buffer& out, uint64_t n) {
  uint8_t bytes[10];
  return out.add(bytes, encode_number(n, bytes));
}

bool write_counted(Buffer& out, Tag tag, const void* bytes, Py_ssize_t n) {
  return out.add(tag) && add_number(out, uint64_t(n)) && out.add(bytes, size_t(n));
}

// Steals the reference to `bytes`, which may be null with an exception set.
bool write_owned(Buffer& out, Tag tag, PyObject* bytes) {
  Ref owned(bytes);
  return owned && PyBytes_Check(bytes) && write_counted(out, tag, PyBytes_AS_STRING(bytes), PyBytes_GET_SIZE(bytes));
}

bool write_long(Buffer& out, PyObject* value) {
  int overflow;
  const long long n = PyLong_AsLongLongAndOverflow(value, &overflow);
  if (!overflow) {
    uint8_t bytes[9];
    return out.add(bytes, encode_int(n, bytes));
  }
  Ref text(PyNumber_ToBase(value, 16));
  return text && write_counted(out, kBigInt, PyUnicode_1BYTE_DATA(text.get()), PyUnicode_GET_LENGTH(text.get()));
}

bool write_text(Buffer& out, PyObject* text) {
  if (PyUnicode_IS_COMPACT_ASCII(text))
    return write_counted(out, kString, PyUnicode_1BYTE_DATA(text), PyUnicode_GET_LENGTH(text));
  // Not PyUnicode_AsUTF8: that one keeps the UTF-8 in the string as long as the string lives.
  return write_owned(out, kString, PyUnicode_AsEncodedString(text, "utf-8", "surrogatepass"));
}

bool write_pickle(Buffer& out, PyObject* value) {
  return write_owned(out, kPickle, call("pickle", "dumps", "Oi", value, 5));
}

// The elements of a snapshot: pickling one of them may run code that changes the container.
bool write_all(Buffer& out, Tag tag, PyObject* snapshot) {
  Ref owned(snapshot);
  if (!owned) return false;
  const Py_ssize_t n = PySequence_Fast_GET_SIZE(snapshot);
  bool good = out.add(tag) && add_number(out, uint64_t(n));
  for (Py_ssize_t i = 0; good && i < n; ++i) {
    PyObject* item = PySequence_Fast_GET_ITEM(snapshot, i);
    good = tag == kDictTag ? write_value(out, PyTuple_GET_ITEM(item, 0)) && write_value(out, PyTuple_GET_ITEM(item, 1))
                           : write_value(out, item);
  }
  return good;
}

// The array of `value`, which is pickled if the dtype has objects, or no words.
bool write_array(Buffer& out, Tag tag, PyArrayObject* array, PyObject* value) {
  PyArray_Descr* descr = PyArray_DESCR(array);
  const bool is_known = is_plain(descr);
  Ref words;
  if (!is_known) {
    if (!is_packable(descr)) return write_pickle(out, value);
    words = Ref(call("shmtensor.shared_containers.packing", "describe_dtype", "(O)", descr));
    if (!words) return false;
    if (words.get() == Py_None) return write_pickle(out, value);
  }
  if (!out.add(tag) || !out.add(is_known ? uint8_t(wire_of(descr->type_num)) : kOtherType)) return false;
  if (!is_known && !write_value(out, words.get())) return false;
  const bool fortran = PyArray_IS_F_CONTIGUOUS(array) && !PyArray_IS_C_CONTIGUOUS(array);
  if (!out.add(uint8_t(fortran)) || !out.add(uint8_t(PyArray_NDIM(array)))) return false;
  for (int i = 0; i < PyArray_NDIM(array); ++i)
    if (!add_number(out, uint64_t(PyArray_DIM(array, i)))) return false;
  Ref dense(fortran || PyArray_IS_C_CONTIGUOUS(array) ? Py_NewRef(reinterpret_cast<PyObject*>(array))
                                                      : PyArray_NewCopy(array, NPY_CORDER));
  const size_t nbytes = size_t(PyArray_NBYTES(array)), gap = data_offset(out.size, nbytes) - out.size;
  if (!dense || !out.reserve(gap + nbytes)) return false;
  memset(out.base + out.size, 0, gap);
  copy_run(out.base + out.size + gap, data<void>(dense), nbytes);
  out.size += gap + nbytes;
  return true;
}

// An array of another library, if foreign_arrays.packed_parts knows library and memory.
bool write_foreign(Buffer& out, PyObject* value) {
  Ref parts(call("shmtensor.tensor.foreign_arrays", "packed_parts", "(O)", value));
  if (!parts) return false;
  if (parts.get() == Py_None) return write_pickle(out, value);
  return out.add(kForeign) && write_value(out, parts.get());
}

bool write_any(Buffer& out, PyObject* value) {
  if (PyTuple_CheckExact(value)) return write_all(out, kTuple, Py_NewRef(value));
  if (PyList_CheckExact(value)) return write_all(out, kListTag, PyList_AsTuple(value));
  if (PyDict_CheckExact(value)) return write_all(out, kDictTag, PyDict_Items(value));
  if (PyArray_CheckExact(value)) return write_array(out, kArray, as_array(value), value);
  if (Py_TYPE(value) == tensor_type) {
    TensorBase* tensor = reinterpret_cast<TensorBase*>(value);
    const bool is_alone = tensor->node == Py_None && tensor->accumulate_grad == Py_None;
    return is_alone ? write_array(out, kTensor, as_array(tensor->array), value) : write_pickle(out, value);
  }
  if (PyArray_IsScalar(value, Generic)) {
    Ref array(PyArray_FromScalar(value, nullptr));
    return array && write_array(out, kScalar, array.array(), value);
  }
  return write_foreign(out, value);
}

}  // namespace

bool Buffer::reserve(size_t more) {
  if (more <= capacity - size) return true;
  size_t new_capacity = capacity + capacity / 2;
  if (new_capacity < size + more) new_capacity = size + more;
  if (new_capacity < 4096) new_capacity = 4096;
  void* memory = PyMem_RawRealloc(base, new_capacity);
  if (!memory) return PyErr_NoMemory(), false;
  base = static_cast<uint8_t*>(memory);
  capacity = new_capacity;
  return true;
}

size_t encode_int(long long value, uint8_t* out) {
  const int log = value == int8_t(value) ? 0 : value == int16_t(value) ? 1 : value == int32_t(value) ? 2 : 3;
  out[0] = uint8_t(kInt1 + log);
  memcpy(out + 1, &value, sizeof value);
  return 1 + (size_t{1} << log);
}

size_t encode_number(uint64_t n, uint8_t* out) {
  size_t length = 0;
  for (; n > 0x7F; n >>= 7) out[length++] = uint8_t(n | 0x80);
  out[length++] = uint8_t(n);
  return length;
}

bool write_value(Buffer& out, PyObject* value) {
  if (PyUnicode_CheckExact(value)) return write_text(out, value);
  if (PyLong_CheckExact(value)) return write_long(out, value);
  if (PyFloat_CheckExact(value)) {
    const double number = PyFloat_AS_DOUBLE(value);
    return out.add(kFloat) && out.add(&number, sizeof number);
  }
  if (value == Py_None) return out.add(kNone);
  if (value == Py_True) return out.add(kTrue);
  if (value == Py_False) return out.add(kFalse);
  if (PyBytes_CheckExact(value)) return write_counted(out, kBytes, PyBytes_AS_STRING(value), PyBytes_GET_SIZE(value));
  if (PyComplex_CheckExact(value)) {
    const double parts[2] = {PyComplex_RealAsDouble(value), PyComplex_ImagAsDouble(value)};
    return out.add(kComplex) && out.add(parts, sizeof parts);
  }
  if (Py_EnterRecursiveCall(" while packing")) return false;
  const bool good = write_any(out, value);
  Py_LeaveRecursiveCall();
  return good;
}

namespace {

// Note [Bounded memory]: private memory has at most one part with its last element, and the table of a dictionary.
class Packer : Store {
 public:
  Packer(const char* where, Kind kind, bool is_readonly, PyObject* allocate, uint64_t hash_seed)
      : where_(where), kind_(kind), allocate_(allocate), blocks_(PyList_New(0)) {
    readonly = is_readonly, seed = hash_seed;
    parts.push_back({});
  }

  bool add(PyObject* item) {  // of a dictionary: a pair
    if (kind_ == kDict) return add_pair(item);
    const uint64_t position = next_position();
    return write_value(data_, item) && end_element(position);
  }

  PyObject* finish() { return blocks_ && end_part(table_) ? blocks_.release() : nullptr; }

 private:
  uint64_t next_position() const { return uint64_t(parts.size() - 1) << kPartShift | data_.size; }

  bool fail(const char* error, const char* what, const char* detail) {
    return raise(error, "%s: element %llu %s%s", where_, static_cast<unsigned long long>(count), what, detail);
  }

  bool end_element(uint64_t position) {
    ++count;
    return positions_.add(&position, sizeof position) && end_full_part();
  }

  bool end_full_part() {
    if (data_.size + positions_.size < kFullPart) return true;
    if (parts.size() >> (64 - kPartShift)) return fail("OverflowError", "is more than can be packed", "");
    if (!end_part(Buffer())) return false;
    parts.push_back({nullptr, 0, nullptr, count, 0, nullptr});
    data_.size = positions_.size = 0;
    return true;
  }

  // The last part, in a block of its own or, until it has one, in private memory.
  void set_part(const uint8_t* data, const uint8_t* positions) {
    parts.back() = {data, data_.size, positions, parts.back().first, positions_.size / 8, nullptr};
  }

  bool end_part(const Buffer& table_bytes) {
    const size_t positions_at = kDataStart + aligned(data_.size, 8), table_at = positions_at + positions_.size;
    Ref block(PyObject_CallFunction(allocate_, "nO", Py_ssize_t(table_at + table_bytes.size), Py_False));
    Py_buffer view;
    if (!block || PyObject_GetBuffer(block.get(), &view, PyBUF_WRITABLE) < 0) return false;
    uint8_t* base = static_cast<uint8_t*>(view.buf);
    PyBuffer_Release(&view);  // the block keeps its memory as long as it lives
    Header header{{}, kind_, readonly, seed, data_.size, positions_.size / 8, table_bytes.size / 8};
    memcpy(header.magic, kMagic, sizeof kMagic);
    memset(base, 0, kDataStart);
    memset(base + positions_at - 8, 0, 8);
    memcpy(base, &header, sizeof header);
    if (data_.size) copy_run(base + kDataStart, data_.base, data_.size);
    if (positions_.size) copy_run(base + positions_at, positions_.base, positions_.size);
    if (table_bytes.size) copy_run(base + table_at, table_bytes.base, table_bytes.size);
    set_part(base + kDataStart, base + positions_at);
    return PyList_Append(blocks_.get(), block.get()) == 0;
  }

  bool add_pair(PyObject* item) {
    Ref pair(PySequence_Fast(item, ""));
    if (!pair) {
      if (!PyErr_ExceptionMatches(PyExc_TypeError)) return false;
      PyErr_Clear();
      return fail("TypeError", "is no pair: ", Py_TYPE(item)->tp_name);
    }
    if (PySequence_Fast_GET_SIZE(pair.get()) != 2)
      return fail("ValueError", "is no pair, its length is ", std::to_string(PySequence_Fast_GET_SIZE(pair.get())).c_str());
    // own references: hashing and pickling may run code that changes the pair
    Ref object(Py_NewRef(PySequence_Fast_GET_ITEM(pair.get(), 0)));
    Ref value(Py_NewRef(PySequence_Fast_GET_ITEM(pair.get(), 1)));
    Key key;
    const Answer is_key = key.init(object.get(), seed);
    if (is_key == Answer::No)
      raise("TypeError", "%s: a key is a str, bytes, number, None or a tuple of these: %s", where_,
            Py_TYPE(object.get())->tp_name);
    if (is_key != Answer::Yes) return false;
    set_part(data_.base, positions_.base);
    Reader r;
    const int64_t number = find(key, &r);
    const uint64_t position = next_position();
    if (number == kMissing)
      return add_to_table(key.hash()) && write_value(data_, object.get()) && write_value(data_, value.get()) &&
             end_element(position);
    // As in a dict: the first key keeps its position and gets the last value. The bytes of the former value are wasted.
    if (number == kFailed || !at(uint64_t(number), &r)) return false;
    Ref first(read_value(r));
    if (!first || !write_value(data_, first.get()) || !write_value(data_, value.get())) return false;
    const Part& part = part_of(uint64_t(number));
    memcpy(const_cast<uint8_t*>(part.positions) + (uint64_t(number) - part.first) * 8, &position, sizeof position);
    return end_full_part();
  }

  bool add_to_table(uint32_t hash) {
    if (count >= UINT32_MAX - 1) return fail("OverflowError", "is more than can be packed", "");
    if ((count + 1) * 3 > places * 2) {
      Buffer former;
      std::swap(former.base, table_.base);
      table_.size = table_.capacity = 0;
      const uint64_t n = places;
      places = n ? 2 * n : 8;
      if (!table_.reserve(places * 8)) return false;
      memset(table_.base, 0, table_.size = places * 8);
      for (uint64_t i = 0; i < n; ++i)
        if (const uint64_t entry = reinterpret_cast<uint64_t*>(former.base)[i]) put(entry);
      table = table_.base;
    }
    put(uint64_t(hash) << 32 | (count + 1));
    return true;
  }

  void put(uint64_t entry) {
    uint64_t place = entry >> 32, *entries = reinterpret_cast<uint64_t*>(table_.base);
    while (entries[place & (places - 1)]) ++place;
    entries[place & (places - 1)] = entry;
  }

  const char* where_;
  Kind kind_;
  PyObject* allocate_;
  Ref blocks_;                       // list
  Buffer data_, positions_, table_;  // of the last part, and of all
};

// pack(where, kind, iterable, readonly, seed, allocate) -> list of blocks
PyObject* pack(PyObject*, PyObject* args) {
  const char* where;
  int kind, readonly;
  unsigned long long seed;
  PyObject *iterable, *allocate;
  if (!PyArg_ParseTuple(args, "siOpKO:pack", &where, &kind, &iterable, &readonly, &seed, &allocate)) return nullptr;
  if (kind != kList && kind != kDict) return raise("ValueError", "pack: no such kind: %d", kind);
  Ref iterator(PyObject_GetIter(iterable));
  if (!iterator) return nullptr;
  Packer packer(where, Kind(kind), readonly, allocate, seed);
  for (uint64_t n = 1;; ++n) {
    Ref item(PyIter_Next(iterator.get()));
    if (!item) return PyErr_Occurred() ? nullptr : packer.finish();
    if (!packer.add(item.get()) || (n % 4096 == 0 && PyErr_CheckSignals() < 0)) return nullptr;
  }
}

PyMethodDef functions[] = {{"pack", pack, METH_VARARGS,
                            "pack(where, kind, iterable, readonly, seed, allocate) -> the blocks of a list (kind 1)\n"
                            "or, from pairs, of a dictionary (kind 2). Copies: one."},
                           {nullptr, nullptr, 0, nullptr}};

}  // namespace

int add_pack(PyObject* module) { return PyModule_AddFunctions(module, functions); }

}  // namespace shmtensor::packed
