// The short way of an allocation and of a free of GPU memory. All other ways are in shmtensor/memory/cuda/allocator.py.
//
//    malloc: the stream's bin has a block of this size, nothing waits    -> take it
//    Own's end: no other stream, message or array of the block remains   -> put it into its stream's bin
//
// The classes of shmtensor/memory/cuda derive from the types here, which hold the attributes that both ways need.
//
// Note [Short way]: it changes what the allocator's lock protects without taking the lock. That is right because
//   - it holds the GIL from the check that no thread has the lock to its last change, and runs no Python code between: it
//     calls no Python function, drops no last reference, and makes no object of the garbage collector's;
//   - a thread that waits for the lock counts itself as its owner only when it has the GIL again;
//   - a finaliser that runs amid Python code of a thread that has the lock, on whichever thread, sees that, and notes
//     the block in `finished` (Note [Finalisers]).
#include <pthread.h>
#include <stddef.h>
#include <unistd.h>

#include <memory>

#include "python.h"

#include <structmember.h>

#include "memory/device/device_lock.h"

namespace shmtensor {
namespace {

constexpr int kUsed = 1, kBinned = 4;  // USED and BINNED of blocks.py
constexpr Py_ssize_t MiB = 1 << 20;

struct Drop {
  void operator()(PyObject* p) const { drop(p); }
};
using Owned = std::unique_ptr<PyObject, Drop>;

// Each begins with its references, of which there are kObjects.
struct DeviceFigures {
  PyObject_HEAD
  long long allocated, peak_allocated, total_allocated, allocations, frees;
  static constexpr int kObjects = 0;
};
struct DeviceSlab {
  PyObject_HEAD
  PyObject* figures;
  Py_ssize_t used;
  static constexpr int kObjects = 1;
};
struct DeviceStream {
  PyObject_HEAD
  PyObject *stream, *bins;
  static constexpr int kObjects = 2;
};
struct DeviceBlock {
  PyObject_HEAD
  PyObject *slab, *stream, *users;
  unsigned long long ptr;
  Py_ssize_t size, count;
  int state;
  char is_exported, is_owned;
  static constexpr int kObjects = 3;
};
struct DeviceAllocator {
  PyObject_HEAD
  PyObject *lock, *finished, *leaving, *devices, *records;
  PyObject *get_device, *get_current_stream, *memory_type, *pointer_type;
  int pid;
  char is_closed;
  static constexpr int kObjects = 9;
};
struct Own {  // nothing that it refers to refers to it: the garbage collector need not know it
  PyObject_HEAD
  PyObject *allocator, *chunk;
};

template <class T>
PyTypeObject* type_of = nullptr;
template <class T>
T* as(PyObject* o) {
  return o && type_of<T> && PyObject_TypeCheck(o, type_of<T>) ? reinterpret_cast<T*>(o) : nullptr;
}

int process_id = 0;  // of this process, without a system call
PyObject *allocate_name, *ended_name, *ptr_name;

// ---- references
template <class T>
PyObject** objects_of(PyObject* self) {
  static_assert(alignof(T) == alignof(PyObject*));
  return reinterpret_cast<PyObject**>(self + 1);
}

template <class T>
int traverse(PyObject* self, visitproc visit, void* arg) {
  for (int i = 0; i < T::kObjects; ++i) Py_VISIT(objects_of<T>(self)[i]);
  Py_VISIT(Py_TYPE(self));
  return 0;
}

template <class T>
int clear(PyObject* self) {
  for (int i = 0; i < T::kObjects; ++i) Py_CLEAR(objects_of<T>(self)[i]);
  return 0;
}

template <class T>
void dealloc(PyObject* self) {
  PyObject_GC_UnTrack(self);
  clear<T>(self);
  PyTypeObject* type = Py_TYPE(self);
  type->tp_free(self);
  Py_DECREF(type);
}

// ---- the short way; Note [Short way]
bool is_quiet(const DeviceAllocator& allocator) {
  return allocator.lock && Py_IS_TYPE(allocator.lock, device_lock_type) &&
         !reinterpret_cast<DeviceLock*>(allocator.lock)->count && PyObject_Size(allocator.finished) == 0;  // a deque
}

// The size of a block for `n` bytes: layout_of of blocks.py.
Py_ssize_t size_of(Py_ssize_t n) {
  const Py_ssize_t granule = n <= MiB ? 512 : n <= 32 * MiB ? 1024 : 2 * MiB;
  return (n + granule - 1) & -granule;
}

PyObject* item_of(PyObject* dict, PyObject* key) {
  return dict && PyDict_Check(dict) ? PyDict_GetItemWithError(dict, key) : nullptr;
}

// A block of the stream's bin, for `own`; false, perhaps with an exception: the long way.
bool take(const DeviceAllocator& allocator, PyObject* index, PyObject* number, PyObject* size, Own* own) {
  if (!is_quiet(allocator) || !allocator.leaving || !PyList_CheckExact(allocator.leaving) ||
      PyList_GET_SIZE(allocator.leaving))
    return false;
  auto* figures = as<DeviceFigures>(item_of(allocator.devices, index));
  auto* stream = as<DeviceStream>(item_of(item_of(allocator.records, index), number));
  PyObject* bin = figures && stream ? item_of(stream->bins, size) : nullptr;
  if (!bin || !PyList_CheckExact(bin) || !PyList_GET_SIZE(bin)) return false;
  const Py_ssize_t last = PyList_GET_SIZE(bin) - 1;
  auto* block = as<DeviceBlock>(PyList_GET_ITEM(bin, last));
  auto* slab = block ? as<DeviceSlab>(block->slab) : nullptr;
  if (!slab) return false;
  own->chunk = Py_NewRef(reinterpret_cast<PyObject*>(block));
  if (PyList_SetSlice(bin, last, last + 1, nullptr) < 0) {
    Py_CLEAR(own->chunk);
    return false;
  }
  block->state = kUsed;
  block->is_owned = true;
  ++slab->used;
  ++figures->allocations;
  figures->total_allocated += block->size;
  figures->allocated += block->size;
  if (figures->allocated > figures->peak_allocated) figures->peak_allocated = figures->allocated;
  return true;
}

// Puts a block whose last array is gone into its stream's bin; false, perhaps with an exception: the long way.
bool give_back(const DeviceAllocator& allocator, PyObject* chunk) {
  auto* block = as<DeviceBlock>(chunk);
  if (!block || !is_quiet(allocator) || block->state != kUsed || block->count || block->is_exported ||
      block->users != Py_None)
    return false;
  auto* slab = as<DeviceSlab>(block->slab);
  auto* stream = as<DeviceStream>(block->stream);
  auto* figures = slab ? as<DeviceFigures>(slab->figures) : nullptr;
  if (!figures || !stream || !stream->stream || stream->stream == Py_None) return false;
  Owned size(PyLong_FromSsize_t(block->size));
  PyObject* bin = size ? item_of(stream->bins, size.get()) : nullptr;  // none: a list is the garbage collector's
  if (!bin || !PyList_CheckExact(bin) || PyList_Append(bin, chunk) < 0) return false;
  block->is_owned = false;
  block->state = kBinned;
  --slab->used;
  figures->allocated -= block->size;
  ++figures->frees;
  return true;
}

// ---- Own
PyObject* new_own(PyObject* allocator, PyObject* chunk) {
  auto* own = PyObject_New(Own, type_of<Own>);
  if (!own) return nullptr;
  own->allocator = Py_NewRef(allocator);
  own->chunk = Py_XNewRef(chunk);
  return reinterpret_cast<PyObject*>(own);
}

PyObject* own_new(PyTypeObject*, PyObject* args, PyObject* kwargs) {
  PyObject *allocator, *chunk;
  static const char* keywords[] = {"", "", nullptr};
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!O!:Own", const_cast<char**>(keywords), type_of<DeviceAllocator>,
                                   &allocator, type_of<DeviceBlock>, &chunk))
    return nullptr;
  return new_own(allocator, chunk);
}

void end_own(PyObject* self) {
  auto* own = reinterpret_cast<Own*>(self);
  auto* allocator = reinterpret_cast<DeviceAllocator*>(own->allocator);
  if (own->chunk && allocator->pid == process_id && !allocator->is_closed) {
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    if (!give_back(*allocator, own->chunk)) {
      PyErr_Clear();
      PyObject* result = PyObject_CallMethodOneArg(own->allocator, ended_name, own->chunk);
      if (!result) PyErr_WriteUnraisable(own->allocator);
      Py_XDECREF(result);
    }
    PyErr_Restore(type, value, trace);
  }
  Py_XDECREF(own->chunk);
  Py_DECREF(own->allocator);
  PyTypeObject* type = Py_TYPE(self);
  PyObject_Free(self);
  Py_DECREF(type);
}

// ---- DeviceAllocator
bool has_functions(const DeviceAllocator& allocator) {
  return allocator.get_device && allocator.get_current_stream && allocator.memory_type && allocator.pointer_type;
}

PyObject* pointer_to(const DeviceAllocator& allocator, PyObject* own, PyObject* index) {
  auto* block = reinterpret_cast<DeviceBlock*>(reinterpret_cast<Own*>(own)->chunk);
  Owned ptr(PyLong_FromUnsignedLongLong(block->ptr));
  Owned size(PyLong_FromSsize_t(block->size));
  if (!ptr || !size) return nullptr;
  PyObject* of_memory[] = {ptr.get(), size.get(), own, index};
  Owned memory(PyObject_Vectorcall(allocator.memory_type, of_memory, 4, nullptr));
  Owned zero(PyLong_FromLong(0));
  if (!memory || !zero) return nullptr;
  PyObject* of_pointer[] = {memory.get(), zero.get()};
  return PyObject_Vectorcall(allocator.pointer_type, of_pointer, 2, nullptr);
}

// The index of the current device; CUDA is asked where there are several.
PyObject* current_device(const DeviceAllocator& allocator) {
  PyObject *index, *device;
  Py_ssize_t at = 0;
  const bool is_only_one = allocator.devices && PyDict_CheckExact(allocator.devices) &&
                           PyDict_GET_SIZE(allocator.devices) == 1 && PyDict_Next(allocator.devices, &at, &index, &device);
  return is_only_one ? Py_NewRef(index) : PyObject_CallNoArgs(allocator.get_device);
}

PyObject* allocate(PyObject* self, PyObject* nbytes) { return PyObject_CallMethodOneArg(self, allocate_name, nbytes); }

PyObject* malloc_block(PyObject* self, PyObject* nbytes) {
  auto& allocator = *reinterpret_cast<DeviceAllocator*>(self);
  if (allocator.pid != process_id || !PyLong_CheckExact(nbytes) || !has_functions(allocator)) return allocate(self, nbytes);
  const Py_ssize_t n = PyLong_AsSsize_t(nbytes);
  if (n <= 0 || n > PY_SSIZE_T_MAX - 2 * MiB) {
    PyErr_Clear();
    return allocate(self, nbytes);
  }
  Owned index(current_device(allocator));
  if (!index) return nullptr;
  // It keeps the stream, and so its number and record, until the block is taken.
  Owned stream(PyObject_CallOneArg(allocator.get_current_stream, index.get()));
  Owned number(stream ? PyObject_GetAttr(stream.get(), ptr_name) : nullptr);
  Owned size(number ? PyLong_FromSsize_t(size_of(n)) : nullptr);
  Owned own(size ? new_own(self, nullptr) : nullptr);
  if (!own) return nullptr;
  if (take(allocator, index.get(), number.get(), size.get(), reinterpret_cast<Own*>(own.get())))
    return pointer_to(allocator, own.get(), index.get());  // if that fails, the end of `own` gives the block back
  PyErr_Clear();
  return allocate(self, nbytes);
}

// ---- types
PyMemberDef figures_members[] = {
    {"allocated", T_LONGLONG, offsetof(DeviceFigures, allocated), 0, "bytes of blocks of arrays"},
    {"peak_allocated", T_LONGLONG, offsetof(DeviceFigures, peak_allocated), 0, "the largest `allocated`"},
    {"total_allocated", T_LONGLONG, offsetof(DeviceFigures, total_allocated), 0, "bytes of all allocations"},
    {"allocations", T_LONGLONG, offsetof(DeviceFigures, allocations), 0, "how many there were"},
    {"frees", T_LONGLONG, offsetof(DeviceFigures, frees), 0, "how many of them have ended"},
    {nullptr, 0, 0, 0, nullptr}};
PyMemberDef slab_members[] = {{"figures", T_OBJECT_EX, offsetof(DeviceSlab, figures), 0, "of its device"},
                              {"used", T_PYSSIZET, offsetof(DeviceSlab, used), 0, "chunks that are not free"},
                              {nullptr, 0, 0, 0, nullptr}};
PyMemberDef stream_members[] = {
    {"stream", T_OBJECT_EX, offsetof(DeviceStream, stream), 0, "CuPy's; None: let go, all its work has ended"},
    {"bins", T_OBJECT_EX, offsetof(DeviceStream, bins), 0, "lists of blocks by size"},
    {nullptr, 0, 0, 0, nullptr}};
PyMemberDef block_members[] = {
    {"slab", T_OBJECT_EX, offsetof(DeviceBlock, slab), 0, "that it is of"},
    {"stream", T_OBJECT_EX, offsetof(DeviceBlock, stream), 0, "that allocated it, or freed it last; None: idle"},
    {"users", T_OBJECT_EX, offsetof(DeviceBlock, users), 0, "other streams that used it, or None"},
    {"ptr", T_ULONGLONG, offsetof(DeviceBlock, ptr), 0, "its address"},
    {"size", T_PYSSIZET, offsetof(DeviceBlock, size), 0, "in bytes"},
    {"count", T_PYSSIZET, offsetof(DeviceBlock, count), 0, "arrays that came home by message"},
    {"state", T_INT, offsetof(DeviceBlock, state), 0, "FREE, USED, LEAVING, LENT or BINNED"},
    {"is_exported", T_BOOL, offsetof(DeviceBlock, is_exported), 0, "since it was allocated"},
    {"is_owned", T_BOOL, offsetof(DeviceBlock, is_owned), 0, "whether the array it was allocated for, or a view, exists"},
    {nullptr, 0, 0, 0, nullptr}};
PyMemberDef allocator_members[] = {
    {"lock", T_OBJECT_EX, offsetof(DeviceAllocator, lock), 0, "a DeviceLock"},
    {"finished", T_OBJECT_EX, offsetof(DeviceAllocator, finished), 0, "a deque of what finalisers have noted"},
    {"leaving", T_OBJECT_EX, offsetof(DeviceAllocator, leaving), 0, "a list of what waits for events"},
    {"devices", T_OBJECT_EX, offsetof(DeviceAllocator, devices), 0, "DeviceFigures by index"},
    {"records", T_OBJECT_EX, offsetof(DeviceAllocator, records), 0, "DeviceStreams by index and number"},
    {"get_device", T_OBJECT_EX, offsetof(DeviceAllocator, get_device), 0, "gives the current device's index"},
    {"get_current_stream", T_OBJECT_EX, offsetof(DeviceAllocator, get_current_stream), 0, "gives a device's current stream"},
    {"memory_type", T_OBJECT_EX, offsetof(DeviceAllocator, memory_type), 0, "CuPy's UnownedMemory"},
    {"pointer_type", T_OBJECT_EX, offsetof(DeviceAllocator, pointer_type), 0, "CuPy's MemoryPointer"},
    {"pid", T_INT, offsetof(DeviceAllocator, pid), 0, "of the process that uses CUDA; 0: none has"},
    {"is_closed", T_BOOL, offsetof(DeviceAllocator, is_closed), 0, "the interpreter ends"},
    {nullptr, 0, 0, 0, nullptr}};
PyMemberDef own_members[] = {{"chunk", T_OBJECT_EX, offsetof(Own, chunk), READONLY, "the block"},
                             {nullptr, 0, 0, 0, nullptr}};
PyMethodDef no_methods[] = {{nullptr, nullptr, 0, nullptr}};
PyMethodDef allocator_methods[] = {
    {"malloc", malloc_block, METH_O,
     "malloc(nbytes): CuPy's allocator: a MemoryPointer to memory of the current device, uninitialised. A block of the\n"
     "current stream's bin, if nothing waits; else `self.allocate(nbytes)`. Its end may call `self.ended(block)`."},
    {nullptr, nullptr, 0, nullptr}};

template <class T>
bool add_base(PyObject* module, const char* name, const char* doc, PyMemberDef* members, PyMethodDef* methods = no_methods) {
  PyType_Slot slots[] = {{Py_tp_doc, const_cast<char*>(doc)},
                         {Py_tp_traverse, reinterpret_cast<void*>(traverse<T>)},
                         {Py_tp_clear, reinterpret_cast<void*>(clear<T>)},
                         {Py_tp_dealloc, reinterpret_cast<void*>(dealloc<T>)},
                         {Py_tp_members, members},
                         {Py_tp_methods, methods},
                         {0, nullptr}};
  PyType_Spec spec = {name, sizeof(T), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC, slots};
  type_of<T> = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&spec));
  return type_of<T> && PyModule_AddType(module, type_of<T>) == 0;
}

bool add_own(PyObject* module) {
  PyType_Slot slots[] = {
      {Py_tp_doc,
       const_cast<char*>("Own(allocator, block): owns the block for the arrays over it: CuPy's memory object refers "
                         "to it.")},
      {Py_tp_new, reinterpret_cast<void*>(own_new)},
      {Py_tp_dealloc, reinterpret_cast<void*>(end_own)},
      {Py_tp_members, own_members},
      {0, nullptr}};
  PyType_Spec spec = {"shmtensor.native.Own", sizeof(Own), 0, Py_TPFLAGS_DEFAULT, slots};
  type_of<Own> = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&spec));
  return type_of<Own> && PyModule_AddType(module, type_of<Own>) == 0;
}

}  // namespace

bool is_sole_owner_of_block(PyObject* owner) {
  if (!type_of<Own> || Py_TYPE(owner) != type_of<Own>) return false;
  const DeviceBlock* block = as<DeviceBlock>(reinterpret_cast<Own*>(owner)->chunk);
  return block && !block->is_exported && !block->count;
}

bool add_malloc_fast_path(PyObject* module) {
  process_id = getpid();
  pthread_atfork(nullptr, nullptr, [] { process_id = getpid(); });
  allocate_name = PyUnicode_InternFromString("allocate");
  ended_name = PyUnicode_InternFromString("ended");
  ptr_name = PyUnicode_InternFromString("ptr");
  return allocate_name && ended_name && ptr_name &&
         add_base<DeviceFigures>(module, "shmtensor.native.DeviceFigures", "What is allocated on a GPU.", figures_members) &&
         add_base<DeviceSlab>(module, "shmtensor.native.DeviceSlab", "An allocation of the driver.", slab_members) &&
         add_base<DeviceStream>(module, "shmtensor.native.DeviceStream", "A stream and its free blocks.", stream_members) &&
         add_base<DeviceBlock>(module, "shmtensor.native.DeviceBlock", "A block of GPU memory.", block_members) &&
         add_base<DeviceAllocator>(module, "shmtensor.native.DeviceAllocator", "The short way of malloc and free.",
                                   allocator_members, allocator_methods) &&
         add_own(module);
}

}  // namespace shmtensor
