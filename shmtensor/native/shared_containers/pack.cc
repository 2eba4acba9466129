#include "shared_containers/pack.h"

#include "kernels/shape/memcpy.h"

namespace shmtensor::packed {

Packer::~Packer() {
  for (Bytes& part : index_parts_) drop_if_set(part.owner);
  for (Bytes& part : data_parts_) drop_if_set(part.owner);
}

// A block of shared memory; null with an exception set (OutOfSharedMemory).
PyObject* Packer::block(size_t nbytes, uint8_t** base) {
  PyObject* block = PyObject_CallFunction(allocate_, "nO", Py_ssize_t(nbytes), Py_False);
  Py_buffer view;
  if (!block || PyObject_GetBuffer(block, &view, PyBUF_WRITABLE) < 0) {
    Py_XDECREF(block);
    return nullptr;
  }
  *base = static_cast<uint8_t*>(view.buf);
  PyBuffer_Release(&view);  // the block keeps its memory as long as it lives
  return block;
}

bool Packer::store(const void* bytes, size_t n, Bytes* out) {
  uint8_t* base;
  out->owner = block(n, &base);
  if (!out->owner) return false;
  copy_run(base, bytes, n);
  out->base = base;
  out->nbytes = n;
  return true;
}

// Note [Bounded memory]: private memory has at most one part of data with its last element, and one part of the index.
bool Packer::end_element() {
  ++count_;
  if (data_.size < kFullPart) return true;
  Bytes full;
  if (data_parts_.size() + 1 == kMaxParts)
    return raise("OverflowError", "%s: too much to pack: %llu elements", where_,
                 static_cast<unsigned long long>(count_)),
           false;
  if (!store(data_.base, data_.size, &full)) return false;
  data_parts_.push_back(full);
  data_.size = 0;
  return true;
}

bool Packer::append(uint64_t position) {
  if (index_.size == kIndexEntries * 8) {
    Bytes full;
    if (!store(index_.base, index_.size, &full)) return false;
    index_parts_.push_back(full);
    index_.size = 0;
  }
  return index_.add(&position, sizeof position);
}

uint64_t& Packer::position(uint64_t i) {
  uint64_t part = i / kIndexEntries;
  const uint8_t* base = part < index_parts_.size() ? index_parts_[part].base : index_.base;
  return reinterpret_cast<uint64_t*>(const_cast<uint8_t*>(base))[i % kIndexEntries];
}

Reader Packer::at(uint64_t i) {
  uint64_t where = position(i), part = where >> kPartShift;
  last_ = {data_.base, data_.size, nullptr};
  const Bytes* bytes = part < data_parts_.size() ? &data_parts_[part] : &last_;
  return {bytes->base + (where & ((1ull << kPartShift) - 1)), bytes->base + bytes->nbytes, bytes,
          false};
}

bool Packer::add(PyObject* item) {
  if (kind_ == kDict) return add_pair(item);
  size_t offset = data_.size;
  if (write_value(data_, item)) {
    uint64_t start = uint64_t(data_parts_.size()) << kPartShift | offset;
    return append(start) && end_element();
  }
  return false;
}

bool Packer::add_pair(PyObject* item) {
  PyObject* pair = PySequence_Fast(item, "");
  if (!pair) {
    if (PyErr_ExceptionMatches(PyExc_TypeError)) {
      PyErr_Clear();
      raise("TypeError", "%s: cannot convert element %llu to a pair: %s", where_,
            static_cast<unsigned long long>(count_), Py_TYPE(item)->tp_name);
    }
    return false;
  }
  bool good = false;
  if (PySequence_Fast_GET_SIZE(pair) != 2) {
    raise("ValueError", "%s: element %llu has length %zd, 2 is required", where_,
          static_cast<unsigned long long>(count_), PySequence_Fast_GET_SIZE(pair));
  } else {
    // own references: hashing and pickling may run code that changes the pair
    PyObject* key = Py_NewRef(PySequence_Fast_GET_ITEM(pair, 0));
    PyObject* value = Py_NewRef(PySequence_Fast_GET_ITEM(pair, 1));
    uint32_t hash;
    HashResult result = hash_key(key, seed_, &hash);
    Query query(key);
    if (result == HashResult::Unsupported)
      raise("TypeError", "%s: a key is a str, bytes, number, None or a tuple of these: %s", where_,
            Py_TYPE(key)->tp_name);
    if (result == HashResult::Good && query.good()) {
      auto reader_at = [this](int64_t i, Reader* r) { return *r = at(uint64_t(i)), true; };
      Reader after;
      int64_t number = table_.empty()
                          ? kMissing
                          : find(table_.data(), table_.size(), hash, query, reader_at, &after);
      uint64_t start = next_position();
      if (number >= 0)
        good = replace_value(uint64_t(number), value);
      else if (number == kMissing && add_to_table(hash, count_))
        good =
            write_value(data_, key) && write_value(data_, value) && append(start) && end_element();
    }
    Py_DECREF(key);
    Py_DECREF(value);
  }
  Py_DECREF(pair);
  return good;
}

// As in a dict: the first key keeps its position and gets the last value. The bytes of the former value are wasted.
bool Packer::replace_value(uint64_t number, PyObject* value) {
  Reader r = at(number);
  PyObject* key = read_value(r);
  uint64_t start = next_position();
  bool good = key && write_value(data_, key) && write_value(data_, value);
  Py_XDECREF(key);
  if (!good) return false;
  position(number) = start;
  --count_;
  return end_element();
}

bool Packer::add_to_table(uint32_t hash, uint64_t number) {
  if (number >= UINT32_MAX - 1)
    return raise("OverflowError", "%s: too many keys: %llu", where_,
                 static_cast<unsigned long long>(number)),
           false;
  auto put = [](std::vector<uint64_t>& table, uint64_t entry) {
    uint64_t place = entry >> 32;
    while (table[place & (table.size() - 1)]) ++place;
    table[place & (table.size() - 1)] = entry;
  };
  if ((number + 1) * 3 > table_.size() * 2) {
    try {
      std::vector<uint64_t> larger(table_.empty() ? 8 : table_.size() * 2);
      for (uint64_t entry : table_)
        if (entry) put(larger, entry);
      table_.swap(larger);
    } catch (const std::bad_alloc&) {
      return PyErr_NoMemory(), false;
    }
  }
  put(table_, uint64_t(hash) << 32 | (number + 1));
  return true;
}

PyObject* Packer::finish() {
  size_t table_bytes = table_.size() * 8;
  bool has_table_block = table_bytes > kSmallTable;
  uint32_t index_parts = uint32_t(index_parts_.size() + 1),
           data_parts = uint32_t(data_parts_.size() + 1);
  size_t n_parts = size_t(index_parts) + data_parts + (kind_ == kDict);
  size_t index_at = aligned(sizeof(Header) + n_parts * sizeof(Part), 64);
  size_t data_at = aligned(index_at + index_.size, 64);
  size_t table_at = has_table_block || !table_bytes ? data_at : aligned(data_at + data_.size, 64);
  size_t total = table_at == data_at ? data_at + data_.size : table_at + table_bytes;

  Bytes table{nullptr, 0, nullptr};
  if (has_table_block && !store(table_.data(), table_bytes, &table)) return nullptr;
  PyObject* blocks = PyTuple_New(Py_ssize_t(index_parts + data_parts - 1 + has_table_block));
  uint8_t* base;
  PyObject* first = blocks ? block(total, &base) : nullptr;
  if (!first) {
    Py_XDECREF(blocks);
    Py_XDECREF(table.owner);
    return nullptr;
  }
  PyTuple_SET_ITEM(blocks, 0, first);
  Header header = {{},          kind_,     readonly_ ? uint32_t(kReadOnly) : 0u,
                   count_,      seed_,     table_.size(),
                   index_parts, data_parts};
  memcpy(header.magic, kMagic, sizeof kMagic);
  memset(base, 0, index_at);
  memcpy(base, &header, sizeof header);
  Part* parts = reinterpret_cast<Part*>(base + sizeof header);
  uint32_t next = 1;
  auto add = [&](const Bytes& part) {
    PyTuple_SET_ITEM(blocks, Py_ssize_t(next), Py_NewRef(part.owner));
    *parts++ = {next++, 0, 0, part.nbytes};
  };
  for (const Bytes& part : index_parts_) add(part);
  *parts++ = {0, 0, index_at, index_.size};
  for (const Bytes& part : data_parts_) add(part);
  *parts++ = {0, 0, data_at, data_.size};
  if (kind_ == kDict) {
    if (has_table_block)
      add(table);
    else
      *parts++ = {0, 0, table_at, table_bytes};
  }
  Py_XDECREF(table.owner);
  if (index_.size) copy_run(base + index_at, index_.base, index_.size);
  if (data_.size) copy_run(base + data_at, data_.base, data_.size);
  if (!has_table_block && table_bytes) copy_run(base + table_at, table_.data(), table_bytes);
  return blocks;
}

}  // namespace shmtensor::packed
