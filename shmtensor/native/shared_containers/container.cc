// PackedList and PackedDict, the base classes of SharedList and SharedDict: keys and elements of packed blocks.
#include <algorithm>
#include <memory>
#include <new>
#include <utility>

#include "dispatch/autograd_node.h"
#include "shared_containers/store.h"

namespace shmtensor {

namespace packed {

int add_pack(PyObject* module);  // pack.cc

namespace {

constexpr uint64_t kOdd = 0x9E3779B97F4A7C15, kOther = 0xD6E8FEB86659FD93;

uint64_t mix(uint64_t a, uint64_t b) {
  const unsigned __int128 product = static_cast<unsigned __int128>(a) * b;
  return uint64_t(product) ^ uint64_t(product >> 64);
}

uint64_t hash_bytes(const void* bytes, Py_ssize_t length, uint64_t seed) {
  const uint8_t* p = static_cast<const uint8_t*>(bytes);
  size_t n = size_t(length);
  uint64_t h = seed ^ (n * kOdd);
  for (; n >= 8; n -= 8, p += 8) h = mix(h ^ load<uint64_t>(p), kOther);
  if (n) {
    uint64_t tail = 0;
    memcpy(&tail, p, n);
    h = mix(h ^ tail, kOther);
  }
  return mix(h ^ kOdd, kOther);
}

}  // namespace

Answer Key::init(PyObject* object, uint64_t seed) {
  object_ = object;
  if (PyUnicode_Check(object)) {
    Py_ssize_t length;
    if (PyUnicode_IS_COMPACT_ASCII(object)) {
      text_ = PyUnicode_1BYTE_DATA(object), length = PyUnicode_GET_LENGTH(object);
    } else {
      encoded_ = Ref(PyUnicode_AsEncodedString(object, "utf-8", "surrogatepass"));
      if (!encoded_) return Answer::Error;
      text_ = reinterpret_cast<uint8_t*>(PyBytes_AS_STRING(encoded_.get())), length = PyBytes_GET_SIZE(encoded_.get());
    }
    hash_ = hash_bytes(text_, length, seed);
    if (PyUnicode_CheckExact(object)) {
      head_[0] = kString;
      n_head_ = 1 + encode_number(uint64_t(length), head_ + 1);
      n_text_ = size_t(length);
    }
  } else if (PyBytes_Check(object)) {
    hash_ = hash_bytes(PyBytes_AS_STRING(object), PyBytes_GET_SIZE(object), seed + 1);
  } else if (PyTuple_Check(object)) {
    hash_ = seed + 2 + uint64_t(PyTuple_GET_SIZE(object));
    if (Py_EnterRecursiveCall(" while hashing a key")) return Answer::Error;
    Answer result = Answer::Yes;
    for (Py_ssize_t i = 0; result == Answer::Yes && i < PyTuple_GET_SIZE(object); ++i) {
      Key part;
      result = part.init(PyTuple_GET_ITEM(object, i), seed);
      if (result == Answer::Yes) hash_ = mix(hash_ ^ part.hash_, kOther) + kOdd;
    }
    Py_LeaveRecursiveCall();
    return result;
  } else if (object == Py_None) {
    hash_ = mix(seed ^ kOther, kOdd);
  } else {
    const Py_hash_t python_hash = PyObject_Hash(object);  // of a NaN: its address, but it is equal to no key
    if (python_hash == -1) return Answer::Error;
    hash_ = mix(uint64_t(python_hash) ^ seed, kOther);
    int overflow = 1;
    const long long n = PyLong_CheckExact(object) ? PyLong_AsLongLongAndOverflow(object, &overflow) : 0;
    if (!overflow) n_head_ = encode_int(n, head_);
    return PyNumber_Check(object) ? Answer::Yes : Answer::No;
  }
  return Answer::Yes;
}

Answer Key::matches(Reader& r) const {
  if (n_head_ && r.p < r.end) {
    const size_t n = n_head_ + n_text_;
    if (n <= size_t(r.end - r.p) && memcmp(r.p, head_, n_head_) == 0 && memcmp(r.p + n_head_, text_, n_text_) == 0) {
      r.p += n;
      return Answer::Yes;
    }
    const uint8_t tag = load<uint8_t>(r.p);
    if (head_[0] == kString ? tag == kString : tag >= kInt1 && tag <= kBigInt) return Answer::No;
  }
  Ref element(read_value(r));
  const int is_equal = element ? PyObject_RichCompareBool(element.get(), object_, Py_EQ) : -1;
  return is_equal < 0 ? Answer::Error : is_equal ? Answer::Yes : Answer::No;
}

int64_t Store::find(const Key& key, Reader* after) const {
  const uint32_t hash = key.hash();
  for (uint64_t tries = 0, place = hash; tries < places; ++tries, ++place) {
    const uint64_t entry = load<uint64_t>(table + (place & (places - 1)) * 8);
    if (!entry) return kMissing;
    if (uint32_t(entry >> 32) != hash) continue;
    const int64_t number = int64_t(entry & 0xFFFFFFFF) - 1;
    if (!at(uint64_t(number), after)) return kFailed;
    const Answer same = key.matches(*after);
    if (same != Answer::No) return same == Answer::Error ? kFailed : number;
  }
  return kMissing;
}

const Part* Store::later_part_of(uint64_t i) const {
  auto is_before = [](uint64_t x, const Part& part) { return x < part.first; };
  return &*std::upper_bound(parts.begin(), parts.end(), i, is_before) - 1;
}

bool Store::raise_outside(uint64_t i) const {
  PyErr_Format(PyExc_ValueError, "packed data: corrupt: element %lld is outside the data", static_cast<long long>(i));
  return false;
}

namespace {

enum Mode : int { kElements, kKeys = kElements, kValues, kPairs };

struct Blocks : Store {
  Ref blocks;  // tuple
  Ref owners;  // list: what arrays keep, the blocks or read-only views of them
};

// n elements from `start` in steps of `step`: a list or a slice of it, a dictionary, or what an iterator has still to give.
struct View {
  PyObject_HEAD
  std::shared_ptr<const Blocks> store;
  Mode mode;
  int64_t start, step, n;
};

PyTypeObject* iterator_type = nullptr;

View* as_view(PyObject* o) { return reinterpret_cast<View*>(o); }

PyObject* make(PyTypeObject* type, std::shared_ptr<const Blocks> store, Mode mode, int64_t start, int64_t step, int64_t n) {
  PyObject* self = type->tp_alloc(type, 0);
  if (!self) return nullptr;
  View* view = as_view(self);
  new (&view->store) std::shared_ptr<const Blocks>(std::move(store));
  view->mode = mode, view->start = start, view->step = n > 1 ? step : 1, view->n = n;
  return self;
}

void dealloc(PyObject* o) {
  as_view(o)->store.~shared_ptr();
  untrack_and_free(as_view(o));
}

bool raise_corrupt(const char* what) { return raise("ValueError", "packed data: corrupt: %s", what); }

bool add_block(Blocks* store, PyObject* block, Kind kind) {
  Py_buffer view;
  if (PyObject_GetBuffer(block, &view, PyBUF_SIMPLE) < 0) return false;
  PyBuffer_Release(&view);  // the block keeps its memory as long as it lives
  const uint8_t* base = static_cast<const uint8_t*>(view.buf);
  if (size_t(view.len) < kDataStart) return raise_corrupt("no header");
  const Header h = load<Header>(base);
  if (memcmp(h.magic, kMagic, sizeof kMagic) != 0) return raise_corrupt("no header");
  if (h.kind != kind) return raise_corrupt(kind == kList ? "it is no list" : "it is no dictionary");
  const size_t space = (size_t(view.len) - kDataStart) / 8;  // in words of 8 bytes
  if (h.nbytes > space * 8) return raise_corrupt("the data reach beyond their block");
  const size_t words = aligned(h.nbytes, 8) / 8;
  if (h.count > space - words) return raise_corrupt("the index is too short");
  if ((h.places & (h.places - 1)) || h.places > space - words - h.count) return raise_corrupt("the table is too short");
  const uint8_t* positions = base + kDataStart + words * 8;
  store->readonly = h.readonly, store->seed = h.seed;
  store->places = h.places, store->table = positions + h.count * 8;  // of the last block
  // The base of a read-only array is a read-only buffer; else NumPy would allow setting its writeable flag again.
  Ref owner(h.readonly ? readonly_view(block) : Py_NewRef(block));
  if (!owner || PyList_Append(store->owners.get(), owner.get()) < 0) return false;
  store->parts.push_back({base + kDataStart, h.nbytes, positions, store->count, h.count, owner.get()});
  store->count += h.count;
  return true;
}

// PackedList(blocks, start=0, step=1, n=-1), PackedDict(blocks, ...): all of it
template <Kind kind>
PyObject* create(PyTypeObject* type, PyObject* args, PyObject*) {
  PyObject* sequence;
  long long start = 0, step = 1, n = -1, last;
  if (!PyArg_ParseTuple(args, "O|LLL:Packed", &sequence, &start, &step, &n)) return nullptr;
  auto store = std::make_shared<Blocks>();
  store->blocks = Ref(PySequence_Tuple(sequence));
  store->owners = Ref(PyList_New(0));
  if (!store->blocks || !store->owners) return nullptr;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(store->blocks.get()); ++i)
    if (!add_block(store.get(), PyTuple_GET_ITEM(store->blocks.get(), i), kind)) return nullptr;
  if (store->parts.empty()) return raise("ValueError", "packed data: corrupt: no header");
  const long long count = static_cast<long long>(store->count);
  if (n < 0 || kind == kDict) start = 0, step = 1, n = count;
  if (n != 0 && (start < 0 || start >= count || step == 0 || __builtin_mul_overflow(step, n - 1, &last) ||
                 __builtin_add_overflow(start, last, &last) || last < 0 || last >= count))
    return raise("ValueError", "SharedList: the view leaves the list: start %lld, step %lld, length %lld of %lld", start,
                 step, n, count);
  return make(type, std::move(store), kElements, start, step, n);
}

PyObject* list_subscript(PyObject* o, PyObject* key) {
  const View* view = as_view(o);
  if (PyIndex_Check(key)) {
    Py_ssize_t i = PyLong_CheckExact(key) ? PyLong_AsSsize_t(key) : -1;  // nearly always
    if (i == -1) {
      PyErr_Clear();
      i = PyNumber_AsSsize_t(key, PyExc_IndexError);
      if (i == -1 && PyErr_Occurred()) return nullptr;
    }
    const int64_t at = i < 0 ? i + view->n : i;
    if (at < 0 || at >= view->n)
      return PyErr_Format(PyExc_IndexError, "%s: index out of range: %zd, length %zd", Py_TYPE(o)->tp_name, i,
                          Py_ssize_t(view->n));
    Reader r;
    return view->store->at(uint64_t(view->start + at * view->step), &r) ? read_value(r) : nullptr;
  }
  if (!PySlice_Check(key))
    return raise("TypeError", "%s: indices must be integers or slices, not %s", Py_TYPE(o)->tp_name, Py_TYPE(key)->tp_name);
  Py_ssize_t start, stop, step;
  if (PySlice_Unpack(key, &start, &stop, &step) < 0) return nullptr;
  const Py_ssize_t n = PySlice_AdjustIndices(Py_ssize_t(view->n), &start, &stop, step);
  if (n == 0) return make(Py_TYPE(o), view->store, kElements, 0, 1, 0);
  return make(Py_TYPE(o), view->store, kElements, view->start + start * view->step, n > 1 ? step * view->step : 1, n);
}

// The number of the pair, kMissing or kFailed.
int64_t find(PyObject* o, PyObject* object, Reader* after) {
  const Store& store = *as_view(o)->store;
  Key key;
  const Answer is_key = key.init(object, store.seed);
  return is_key == Answer::Yes ? store.find(key, after) : is_key == Answer::No ? kMissing : kFailed;
}

PyObject* dict_subscript(PyObject* o, PyObject* key) {
  Reader r;
  const int64_t number = find(o, key, &r);
  if (number >= 0) return read_value(r);
  Ref args(number == kMissing ? PyTuple_Pack(1, key) : nullptr);  // a tuple as a key is one argument, as dict has it
  if (args) PyErr_SetObject(PyExc_KeyError, args.get());
  return nullptr;
}

PyObject* dict_get(PyObject* o, PyObject* const* a, Py_ssize_t n) {
  if (!takes("SharedDict.get", n, 1, 2)) return nullptr;
  Reader r;
  const int64_t number = find(o, a[0], &r);
  if (number == kMissing) return Py_NewRef(n == 2 ? a[1] : Py_None);
  return number < 0 ? nullptr : read_value(r);
}

int dict_contains(PyObject* o, PyObject* key) {
  Reader r;
  const int64_t number = find(o, key, &r);
  return number == kFailed ? -1 : number >= 0;
}

PyObject* iterate(PyObject* o) {
  const View* view = as_view(o);
  return make(iterator_type, view->store, view->mode, view->start, view->step, view->n);
}

PyObject* dict_iterate(PyObject* o, PyObject* args) {
  const View* view = as_view(o);
  int mode, reverse;
  if (!PyArg_ParseTuple(args, "ip:_iterate", &mode, &reverse)) return nullptr;
  return make(iterator_type, view->store, Mode(mode), reverse ? view->n - 1 : 0, reverse ? -1 : 1, view->n);
}

PyObject* next(PyObject* o) {
  View* view = as_view(o);
  if (!view->n) return nullptr;
  Reader r;
  const int64_t i = view->start;
  --view->n, view->start += view->step;  // before reading, which may run code that calls this
  if (!view->store->at(uint64_t(i), &r)) return nullptr;
  Ref first(read_value(r));  // an element, or a key
  if (!first || view->mode == kElements) return first.release();
  Ref value(read_value(r));
  return value && view->mode == kPairs ? PyTuple_Pack(2, first.get(), value.get()) : value.release();
}

Py_ssize_t length(PyObject* o) { return Py_ssize_t(as_view(o)->n); }
PyObject* length_hint(PyObject* o, PyObject*) { return PyLong_FromSsize_t(length(o)); }
PyObject* get_blocks(PyObject* o, void*) { return Py_NewRef(as_view(o)->store->blocks.get()); }
PyObject* get_readonly(PyObject* o, void*) { return PyBool_FromLong(as_view(o)->store->readonly); }
PyObject* get_view(PyObject* o, void*) {
  const View* view = as_view(o);
  return Py_BuildValue("(nnn)", Py_ssize_t(view->start), Py_ssize_t(view->step), Py_ssize_t(view->n));
}

PyGetSetDef members[] = {{"_blocks", get_blocks, nullptr, "The blocks that hold the data.", nullptr},
                         {"_view", get_view, nullptr, "Start, step and length in them.", nullptr},
                         {"readonly", get_readonly, nullptr, "Whether arrays and tensors come back read-only.", nullptr},
                         {nullptr, nullptr, nullptr, nullptr, nullptr}};
PyMethodDef dict_methods[] = {
    method("get", dict_get, "get(key, default=None): the value of a key, or the default."),
    {"_iterate", dict_iterate, METH_VARARGS, "_iterate(mode, reverse): keys (0), values (1) or pairs (2)."},
    {nullptr, nullptr, 0, nullptr}};
PyMethodDef iterator_methods[] = {{"__length_hint__", length_hint, METH_NOARGS, "The number of remaining elements."},
                                  {nullptr, nullptr, 0, nullptr}};

template <class F>
PyType_Slot slot(int number, F* what) {
  return {number, reinterpret_cast<void*>(what)};
}

PyObject* make_type(const char* name, unsigned flags, std::vector<PyType_Slot> slots) {
  slots.insert(slots.end(), {slot(Py_tp_dealloc, dealloc), {0, nullptr}});
  PyType_Spec spec{name, sizeof(View), 0, static_cast<unsigned>(Py_TPFLAGS_DEFAULT) | flags, slots.data()};
  return PyType_FromSpec(&spec);
}

}  // namespace
}  // namespace packed

int add_packed(PyObject* module) {
  using namespace packed;
  iterator_type = reinterpret_cast<PyTypeObject*>(
      make_type("shmtensor.native.PackedIterator", Py_TPFLAGS_DISALLOW_INSTANTIATION,
                {slot(Py_tp_iter, PyObject_SelfIter), slot(Py_tp_iternext, next), slot(Py_tp_methods, iterator_methods)}));
  Ref list(make_type("shmtensor.native.PackedList", Py_TPFLAGS_BASETYPE,
                     {slot(Py_tp_new, create<kList>), slot(Py_tp_iter, iterate), slot(Py_mp_length, length),
                      slot(Py_mp_subscript, list_subscript), slot(Py_tp_getset, members)}));
  Ref dict(make_type("shmtensor.native.PackedDict", Py_TPFLAGS_BASETYPE,
                     {slot(Py_tp_new, create<kDict>), slot(Py_tp_iter, iterate), slot(Py_mp_length, length),
                      slot(Py_mp_subscript, dict_subscript), slot(Py_tp_getset, members), slot(Py_tp_methods, dict_methods),
                      slot(Py_sq_contains, dict_contains)}));
  const bool good = iterator_type && list && dict && PyModule_AddObjectRef(module, "PackedList", list.get()) == 0 &&
                    PyModule_AddObjectRef(module, "PackedDict", dict.get()) == 0;
  return good ? add_pack(module) : -1;
}

}  // namespace shmtensor
