// pack(): objects into few blocks.
#include <utility>

#include "kernels/shape/memcpy.h"
#include "shared_containers/store.h"

namespace shmtensor::packed {

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
    raise(error, "%s: element %llu %s%s", where_, static_cast<unsigned long long>(count), what, detail);
    return false;
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
    const int is_key = key.init(object.get(), seed);
    if (is_key == 0)
      raise("TypeError", "%s: a key is a str, bytes, number, None or a tuple of these: %s", where_,
            Py_TYPE(object.get())->tp_name);
    if (is_key != 1) return false;
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
