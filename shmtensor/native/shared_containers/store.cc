#include "shared_containers/store.h"

#include <new>

namespace shmtensor::packed {

namespace {

PyTypeObject* store_type = nullptr;

void dealloc(PyObject* object) {
  Store* store = reinterpret_cast<Store*>(object);
  Py_XDECREF(store->blocks);
  Py_XDECREF(store->owners);
  store->index.~vector();
  store->data.~vector();
  PyTypeObject* type = Py_TYPE(object);
  type->tp_free(object);
  Py_DECREF(type);
}

bool raise_corrupt(const char* what) {
  PyErr_Format(PyExc_ValueError, "packed data: corrupt: %s", what);
  return false;
}

bool find_buffers(PyObject* blocks, std::vector<Bytes>* out) {
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(blocks); ++i) {
    Py_buffer view;
    PyObject* block = PyTuple_GET_ITEM(blocks, i);
    if (PyObject_GetBuffer(block, &view, PyBUF_SIMPLE) < 0) return false;
    out->push_back({static_cast<const uint8_t*>(view.buf), size_t(view.len), block});
    PyBuffer_Release(&view);  // the block keeps its memory as long as it lives
  }
  return true;
}

bool read_header(Store* store, const std::vector<Bytes>& blocks, Kind kind) {
  if (blocks.empty() || blocks[0].nbytes < sizeof(Header)) return raise_corrupt("no header");
  Header h = load<Header>(blocks[0].base);
  if (memcmp(h.magic, kMagic, sizeof kMagic) != 0) return raise_corrupt("no header");
  if (h.kind != kind) return raise_corrupt(kind == kList ? "it is no list" : "it is no dictionary");
  uint64_t n = uint64_t(h.index_parts) + h.data_parts + (kind == kDict);
  if (!h.index_parts || !h.data_parts || n > (blocks[0].nbytes - sizeof h) / sizeof(Part))
    return raise_corrupt("the parts do not fit into the header's block");
  for (uint64_t i = 0; i < n; ++i) {
    Part part = load<Part>(blocks[0].base + sizeof h + i * sizeof(Part));
    if (part.block >= blocks.size() || part.offset > blocks[part.block].nbytes ||
        part.nbytes > blocks[part.block].nbytes - part.offset || part.offset % 8)
      return raise_corrupt("a part reaches beyond its block");
    const Bytes& block = blocks[part.block];
    Bytes bytes{block.base + part.offset, size_t(part.nbytes), block.owner};
    if (i < h.index_parts)
      store->index.push_back(bytes);
    else if (i < uint64_t(h.index_parts) + h.data_parts)
      store->data.push_back(bytes);
    else
      store->table = bytes;
  }
  uint64_t entries = 0;
  for (size_t i = 0; i < store->index.size(); ++i) {
    uint64_t n_entries = store->index[i].nbytes / 8;
    if (i + 1 < store->index.size() ? n_entries != kIndexEntries : n_entries > kIndexEntries)
      return raise_corrupt("a part of the index has another length");
    entries += n_entries;
  }
  if (h.count > entries) return raise_corrupt("the index is too short");
  if (kind == kDict && ((h.places & (h.places - 1)) || h.places > store->table.nbytes / 8))
    return raise_corrupt("the table is too short");
  store->count = h.count;
  store->seed = h.seed;
  store->places = kind == kDict ? h.places : 0;
  store->readonly = h.flags & kReadOnly;
  return true;
}

// The base of a read-only array is a read-only buffer; else NumPy would allow setting its writeable flag again.
bool make_owners(Store* store) {
  if (!store->readonly) return true;
  Py_ssize_t n = PyTuple_GET_SIZE(store->blocks);
  store->owners = PyTuple_New(n);
  for (Py_ssize_t i = 0; store->owners && i < n; ++i) {
    PyObject* view = readonly_view(PyTuple_GET_ITEM(store->blocks, i));
    if (!view) return false;
    PyTuple_SET_ITEM(store->owners, i, view);
    for (Bytes& part : store->data)
      if (part.owner == PyTuple_GET_ITEM(store->blocks, i)) part.owner = view;
  }
  return store->owners != nullptr;
}

PyType_Slot slots[] = {{Py_tp_dealloc, reinterpret_cast<void*>(dealloc)}, {0, nullptr}};
PyType_Spec spec = {"shmtensor.native.PackedStore", sizeof(Store), 0,
                    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, slots};

}  // namespace

void drop_packed(PyObject* o) {
  Py_XDECREF(store_of(o));
  PyTypeObject* type = Py_TYPE(o);
  type->tp_free(o);
  Py_DECREF(type);
}

PyObject* get_blocks(PyObject* o, void*) { return Py_NewRef(store_of(o)->blocks); }
PyObject* get_nbytes(PyObject* o, void*) { return PyLong_FromSize_t(store_of(o)->nbytes); }
PyObject* get_readonly(PyObject* o, void*) { return PyBool_FromLong(store_of(o)->readonly); }

bool Store::raise_corrupt_index(uint64_t i) const {
  PyErr_Format(PyExc_ValueError, "packed data: corrupt: element %llu is outside the data",
               static_cast<unsigned long long>(i));
  return false;
}

Store* open_store(PyObject* sequence, Kind kind) {
  PyObject* blocks = PySequence_Tuple(sequence);
  if (!blocks) return nullptr;
  Store* store = reinterpret_cast<Store*>(store_type->tp_alloc(store_type, 0));
  if (!store) {
    Py_DECREF(blocks);
    return nullptr;
  }
  new (&store->index) std::vector<Bytes>();
  new (&store->data) std::vector<Bytes>();
  store->blocks = blocks;
  store->kind = kind;
  std::vector<Bytes> buffers;
  if (!find_buffers(blocks, &buffers) || !read_header(store, buffers, kind)) {
    Py_DECREF(store);
    return nullptr;
  }
  for (const Bytes& block : buffers) store->nbytes += block.nbytes;
  if (!make_owners(store)) {
    Py_DECREF(store);
    return nullptr;
  }
  return store;
}

int64_t find_key(const Store* store, PyObject* key, Reader* after) {
  uint32_t hash;
  HashResult result = hash_key(key, store->seed, &hash);
  if (result != HashResult::Good) return result == HashResult::Unsupported ? kMissing : kFailed;
  Query query(key);
  if (!query.good()) return kFailed;
  auto reader_at = [store](int64_t i, Reader* r) {
    return uint64_t(i) < store->count ? store->at(uint64_t(i), r) : store->raise_corrupt_index(uint64_t(i));
  };
  return find(reinterpret_cast<const uint64_t*>(store->table.base), store->places, hash, query,
              reader_at, after);
}

PyObject* read_as(const Store* store, Mode mode, uint64_t i) {
  Reader r;
  if (!store->at(i, &r)) return nullptr;
  PyObject* first = read_value(r);
  if (!first || mode == kElements || mode == kKeys) return first;
  PyObject* value = read_value(r);
  PyObject* result = value && mode == kPairs ? PyTuple_Pack(2, first, value) : nullptr;
  Py_DECREF(first);
  if (mode == kValues) return value;
  Py_XDECREF(value);
  return result;
}

bool add_store(PyObject*) {
  store_type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&spec));
  return store_type != nullptr;
}

}  // namespace shmtensor::packed
