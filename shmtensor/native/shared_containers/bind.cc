// Python bindings of shared_containers/: pack(), and the types that read packed blocks.
#include "shared_containers/pack.h"
#include "shared_containers/store.h"

namespace shmtensor {

namespace packed {
namespace {

// pack(where, kind, iterable, readonly, seed, allocate) -> tuple of blocks
PyObject* pack(PyObject*, PyObject* args) {
  const char* where;
  int kind, readonly;
  unsigned long long seed;
  PyObject *iterable, *allocate;
  if (!PyArg_ParseTuple(args, "siOpKO:pack", &where, &kind, &iterable, &readonly, &seed, &allocate))
    return nullptr;
  if (kind != kList && kind != kDict) return raise("ValueError", "pack: no such kind: %d", kind);
  PyObject* iterator = PyObject_GetIter(iterable);
  if (!iterator) return nullptr;
  Packer packer(where, Kind(kind), readonly, seed, allocate);
  bool good = true;
  for (uint64_t n = 1; good; ++n) {
    PyObject* item = PyIter_Next(iterator);
    if (!item) {
      good = !PyErr_Occurred();
      break;
    }
    good = packer.add(item) && (n % 4096 || PyErr_CheckSignals() == 0);
    Py_DECREF(item);
  }
  Py_DECREF(iterator);
  return good ? packer.finish() : nullptr;
}

PyMethodDef functions[] = {
    {"pack", pack, METH_VARARGS,
     "pack(where, kind, iterable, readonly, seed, allocate) -> the blocks of a list (kind 1)\n"
     "or, from pairs, of a dictionary (kind 2). Copies: one."},
    {nullptr, nullptr, 0, nullptr}};

}  // namespace
}  // namespace packed

int add_packed(PyObject* module) {
  using namespace packed;
  if (!add_store(module) || !add_iterator(module) || !add_list(module) || !add_dict(module))
    return -1;
  return PyModule_AddFunctions(module, functions);
}

}  // namespace shmtensor
