// DevicePointwise(fallback, find, n_in, skip, new_array): a pointwise function of a device's arrays, that launches a kernel
// for each kind of operands. One C object, because the host's time decides for small arrays.
//
// The fast path takes dense arrays of one shape, arrays without dimensions, and numbers. Everything else is a call of
// `fallback`, which also explains errors. `find(key)` makes the DeviceKernel for a kind of operands, or returns None.
#include "dispatch/device_array.h"
#include "dispatch/function_base.h"

#include <dlfcn.h>
#include <structmember.h>

#include <algorithm>
#include <cstddef>

namespace shmtensor {
namespace {

constexpr int kMaxOperands = 8;
constexpr unsigned kThreads = 256;
constexpr int kMaxDevices = 64;

// cuLaunchKernel(function, grid x, y, z, block x, y, z, shared bytes, stream, parameters, extra)
using LaunchFunction = int (*)(void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void*, void**,
                               void**);
using StreamFunction = intptr_t (*)();

struct Device {
  LaunchFunction launch = nullptr;
  StreamFunction stream = nullptr;
  PyObject* number = nullptr;  // number(): the current device; null if there is one device
};
Device device;

PyObject* name_of(const char* text) { return PyUnicode_InternFromString(text); }

// ---------------------------------------------------------------- DeviceKernel

struct DeviceKernel {
  PyObject_HEAD
  PyObject* load;     // load(device): the address of the function, compiled for the current device
  PyObject* dtypes;   // of the operands in the kernel: a tuple; None for what is no parameter
  PyObject* dtype;    // of the result
  int per_thread;     // elements
  void* functions[kMaxDevices];

  template <class Visit>
  void each_reference(Visit visit) {
    for (PyObject** p : {&load, &dtypes, &dtype}) visit(*p);
  }
};
PyTypeObject* kernel_type;

PyObject* kernel_new(PyTypeObject* type, PyObject* args, PyObject*) {
  PyObject *load, *dtypes, *dtype;
  int per_thread;
  if (!PyArg_ParseTuple(args, "OO!Oi", &load, &PyTuple_Type, &dtypes, &dtype, &per_thread)) return nullptr;
  if (per_thread < 1 || PyTuple_GET_SIZE(dtypes) > kMaxOperands)
    return raise("ValueError", "DeviceKernel: %d elements a thread, %zd operands", per_thread, PyTuple_GET_SIZE(dtypes));
  DeviceKernel* kernel = reinterpret_cast<DeviceKernel*>(type->tp_alloc(type, 0));
  if (!kernel) return nullptr;
  kernel->load = Py_NewRef(load);
  kernel->dtypes = Py_NewRef(dtypes);
  kernel->dtype = Py_NewRef(dtype);
  kernel->per_thread = per_thread;
  return reinterpret_cast<PyObject*>(kernel);
}

// The function on a device. Null with an exception set.
void* function_on(DeviceKernel* kernel, int number) {
  void*& function = kernel->functions[number];
  if (!function) {
    Ref address(PyObject_CallFunction(kernel->load, "i", number));
    if (address) function = PyLong_AsVoidPtr(address.get());
  }
  return function;
}

// ---------------------------------------------------------------- a call

struct DevicePointwise {
  PyObject_HEAD
  vectorcallfunc call;
  PyObject *fallback, *find, *new_array, *kernels, *dict, *weak;
  int n_in, skip;

  template <class Visit>
  void each_reference(Visit visit) {
    for (PyObject** p : {&fallback, &find, &new_array, &kernels, &dict}) visit(*p);
  }
};

struct Operand {
  PyObject* object = nullptr;  // borrowed
  bool is_array = false;
  uint64_t pointer = 0;
  alignas(16) unsigned char number[16];
};

enum class Step { kDone, kFallback, kError };

struct Shape {
  Ref shape;
  Py_ssize_t size = -1;
  bool is_single = false;  // all elements are one in memory, as after `expand`
};

bool are_zeros(PyObject* strides) {
  if (!PyTuple_CheckExact(strides)) return false;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(strides); ++i)
    if (PyLong_AsLong(PyTuple_GET_ITEM(strides, i)) != 0) return false;
  return true;
}

// Size, shape and order of an array. False: its elements are neither contiguous nor one, or an exception is set.
bool read_array(PyObject* array, Shape* out) {
  static PyObject *contiguous = name_of("_c_contiguous"), *size = name_of("size"), *shape = name_of("shape"),
                  *strides_name = name_of("strides");
  Ref is_contiguous(PyObject_GetAttr(array, contiguous));
  if (!is_contiguous) return false;
  if (is_contiguous.get() != Py_True) {
    Ref strides(PyObject_GetAttr(array, strides_name));
    if (!strides || !are_zeros(strides.get())) return false;
    out->is_single = true;
  }
  Ref n(PyObject_GetAttr(array, size));
  if (!n) return false;
  out->size = PyLong_AsSsize_t(n.get());
  out->shape = Ref(PyObject_GetAttr(array, shape));
  return out->shape && PyTuple_CheckExact(out->shape.get());
}

bool same_shape(const Shape& a, const Shape& b) {
  return a.size == b.size && PyObject_RichCompareBool(a.shape.get(), b.shape.get(), Py_EQ) == 1;
}

// The address of an array's memory. False with an exception set, or if the array is on another device than `number`.
bool read_pointer(PyObject* array, int number, uint64_t* pointer) {
  static PyObject *data = name_of("data"), *ptr = name_of("ptr"), *device_id = name_of("device_id");
  Ref memory(PyObject_GetAttr(array, data));
  Ref address(memory ? PyObject_GetAttr(memory.get(), ptr) : nullptr);
  if (!address) return false;
  *pointer = PyLong_AsUnsignedLongLong(address.get());
  if (PyErr_Occurred()) return false;
  if (number < 0) return true;
  Ref id(PyObject_GetAttr(memory.get(), device_id));
  return id && PyLong_AsLong(id.get()) == number;
}

// What a number is in the key: its class, and the value itself of bools and None.
PyObject* key_of_number(PyObject* x) {
  if (PyFloat_CheckExact(x) || PyLong_CheckExact(x) || PyComplex_CheckExact(x) || PyArray_IsScalar(x, Generic))
    return reinterpret_cast<PyObject*>(Py_TYPE(x));
  if (PyBool_Check(x) || x == Py_None || PyUnicode_CheckExact(x)) return x;
  return nullptr;
}

struct Grid {
  unsigned blocks, threads;
};

// Blocks of whole warps for n elements, n > 0.
Grid grid_for(const DeviceKernel* kernel, Py_ssize_t n) {
  const Py_ssize_t threads = (n + kernel->per_thread - 1) / kernel->per_thread;
  const Py_ssize_t block = std::min<Py_ssize_t>(kThreads, (threads + 31) / 32 * 32);
  return {static_cast<unsigned>((threads + block - 1) / block), static_cast<unsigned>(block)};
}

// The driver's status; -1 with an exception set.
int launch(DeviceKernel* kernel, void* function, Py_ssize_t n, void** parameters) {
  const Grid grid = grid_for(kernel, n);
  const intptr_t stream = device.stream();
  if (stream == -1 && PyErr_Occurred()) return -1;
  Unlocked unlocked;
  return device.launch(function, grid.blocks, 1, 1, grid.threads, 1, 1, 0, reinterpret_cast<void*>(stream), parameters,
                       nullptr);
}

PyObject* kernel_grid(PyObject* self, PyObject* size) {
  const Py_ssize_t n = PyLong_AsSsize_t(size);
  if (n <= 0) return PyErr_Occurred() ? Raised{} : raise("ValueError", "DeviceKernel.grid: n must be above 0: %zd", n);
  const Grid grid = grid_for(reinterpret_cast<DeviceKernel*>(self), n);
  return Py_BuildValue("(II)", grid.blocks, grid.threads);
}

// Overlap other than that of the same elements.
bool overlaps(uint64_t a, uint64_t a_bytes, uint64_t b, uint64_t b_bytes) {
  return (a != b || a_bytes != b_bytes) && a < b + b_bytes && b < a + a_bytes;
}

Py_ssize_t itemsize(PyObject* dtype) { return PyDataType_ELSIZE(reinterpret_cast<PyArray_Descr*>(dtype)); }

Step run_fast(DevicePointwise* self, PyObject* const* args, PyObject* out, PyObject** result) {
  static PyObject* dtype_name = name_of("dtype");
  const int n_in = self->n_in;
  Operand operands[kMaxOperands];
  Shape shapes[kMaxOperands];
  int like = -1;
  Ref key(PyTuple_New(n_in + 2));
  if (!key) return Step::kError;
  for (int i = 0; i < n_in; ++i) {
    PyObject* x = args[i];
    operands[i].object = x;
    if (!is_device_array(x)) {
      PyObject* kind = key_of_number(x);
      if (!kind) return Step::kFallback;
      PyTuple_SET_ITEM(key.get(), i, Py_NewRef(kind));
      continue;
    }
    operands[i].is_array = true;
    PyObject* dtype = PyObject_GetAttr(x, dtype_name);
    if (!dtype) return Step::kError;
    PyTuple_SET_ITEM(key.get(), i, dtype);
    if (!PyArray_DescrCheck(dtype)) return Step::kFallback;
    if (like >= 0 && x == operands[like].object) {
      shapes[i].size = -1;  // as `like`
      continue;
    }
    if (!read_array(x, &shapes[i])) return PyErr_Occurred() ? Step::kError : Step::kFallback;
    if (like < 0 || PyTuple_GET_SIZE(shapes[like].shape.get()) == 0) like = i;
  }
  if (like < 0) return Step::kFallback;
  const Shape& shape = shapes[like];
  long singles = 0;
  for (int i = 0; i < n_in; ++i) {
    if (!operands[i].is_array) continue;
    if (i == like || operands[i].object == operands[like].object) {
      singles |= static_cast<long>(shape.is_single) << i;
      continue;
    }
    if (!shapes[i].shape) return Step::kFallback;  // one object twice, of no dimensions
    singles |= static_cast<long>(shapes[i].is_single) << i;
    if (PyTuple_GET_SIZE(shapes[i].shape.get()) == 0 && PyTuple_GET_SIZE(shape.shape.get())) {
      singles |= 1L << i;
    } else if (!same_shape(shapes[i], shape)) {
      return PyErr_Occurred() ? Step::kError : Step::kFallback;
    }
  }
  PyObject* out_dtype = Py_None;
  Ref owned_out_dtype;
  if (out) {
    Shape of_out;
    if (!is_device_array(out) || !read_array(out, &of_out) || of_out.is_single || !same_shape(of_out, shape))
      return PyErr_Occurred() ? Step::kError : Step::kFallback;
    owned_out_dtype = Ref(PyObject_GetAttr(out, dtype_name));
    if (!owned_out_dtype) return Step::kError;
    out_dtype = owned_out_dtype.get();
  }
  PyTuple_SET_ITEM(key.get(), n_in, Py_NewRef(out_dtype));
  PyObject* mask = PyLong_FromLong(singles);
  if (!mask) return Step::kError;
  PyTuple_SET_ITEM(key.get(), n_in + 1, mask);

  PyObject* found = PyDict_GetItemWithError(self->kernels, key.get());
  if (!found) {
    if (PyErr_Occurred()) return Step::kError;
    Ref made(PyObject_CallOneArg(self->find, key.get()));
    if (!made || PyDict_SetItem(self->kernels, key.get(), made.get()) < 0) return Step::kError;
    found = PyDict_GetItemWithError(self->kernels, key.get());
  }
  if (!found || Py_TYPE(found) != kernel_type) return PyErr_Occurred() ? Step::kError : Step::kFallback;
  Ref kernel_owner(Py_NewRef(found));
  DeviceKernel* kernel = reinterpret_cast<DeviceKernel*>(found);

  int number = -1;
  if (device.number) {
    Ref current(PyObject_CallNoArgs(device.number));
    if (!current) return Step::kError;
    number = static_cast<int>(PyLong_AsLong(current.get()));
    if (number < 0 || number >= kMaxDevices) return PyErr_Occurred() ? Step::kError : Step::kFallback;
  }
  void* parameters[kMaxOperands + 2];
  int n_parameters = 0;
  for (int i = 0; i < n_in; ++i) {
    PyObject* dtype = PyTuple_GET_ITEM(kernel->dtypes, i);
    if (operands[i].is_array) {
      if (!read_pointer(operands[i].object, number, &operands[i].pointer))
        return PyErr_Occurred() ? Step::kError : Step::kFallback;
      parameters[n_parameters++] = &operands[i].pointer;
    } else if (PyArray_DescrCheck(dtype)) {
      if (PyArray_Pack(reinterpret_cast<PyArray_Descr*>(dtype), operands[i].number, operands[i].object) < 0) {
        PyErr_Clear();  // too large for the dtype: CuPy raises the error
        return Step::kFallback;
      }
      parameters[n_parameters++] = operands[i].number;
    }
  }
  Ref target;
  if (out) {
    target = Ref(Py_NewRef(out));
  } else {
    PyObject* arguments[2] = {shape.shape.get(), kernel->dtype};
    target = Ref(PyObject_Vectorcall(self->new_array, arguments, 2, nullptr));
    if (!target) return Step::kError;
  }
  Py_ssize_t n = shape.size;
  if (n) {
    uint64_t pointer;
    if (!read_pointer(target.get(), number, &pointer)) return PyErr_Occurred() ? Step::kError : Step::kFallback;
    if (out) {
      const uint64_t bytes = static_cast<uint64_t>(n) * itemsize(out_dtype);
      for (int i = 0; i < n_in; ++i) {
        if (!operands[i].is_array) continue;
        const Py_ssize_t count = singles >> i & 1 ? 1 : n;
        if (overlaps(pointer, bytes, operands[i].pointer, count * itemsize(PyTuple_GET_ITEM(key.get(), i))))
          return Step::kFallback;
      }
    }
    long long count = n;
    parameters[n_parameters++] = &pointer;
    parameters[n_parameters++] = &count;
    void* function = function_on(kernel, std::max(number, 0));
    if (!function) return PyErr_Occurred() ? Step::kError : Step::kFallback;
    // A failure is CuPy's to explain; and a thread without a context has one after CuPy's call.
    if (launch(kernel, function, n, parameters)) return PyErr_Occurred() ? Step::kError : Step::kFallback;
  }
  *result = target.release();
  return Step::kDone;
}

PyObject* pointwise_call(PyObject* object, PyObject* const* args, size_t flags, PyObject* names) {
  DevicePointwise* self = reinterpret_cast<DevicePointwise*>(object);
  static PyObject* out_name = name_of("out");
  const Py_ssize_t n = PyVectorcall_NARGS(flags) - self->skip;
  const Py_ssize_t n_keywords = names ? PyTuple_GET_SIZE(names) : 0;
  PyObject* const* operands = args + self->skip;
  PyObject* out = nullptr;
  bool is_fast = device.launch && n >= self->n_in && n + n_keywords <= self->n_in + 1;
  if (is_fast && n > self->n_in) out = operands[self->n_in];
  if (is_fast && n_keywords) {
    is_fast = PyTuple_GET_ITEM(names, 0) == out_name;
    out = operands[n];
  }
  if (out == Py_None) out = nullptr;
  if (is_fast) {
    PyObject* result = nullptr;
    const Step step = run_fast(self, operands, out, &result);
    if (step == Step::kDone) return result;
    if (step == Step::kError) return nullptr;
  }
  return PyObject_Vectorcall(self->fallback, args, flags & ~PY_VECTORCALL_ARGUMENTS_OFFSET, names);
}

PyObject* pointwise_new(PyTypeObject* type, PyObject* args, PyObject*) {
  PyObject *fallback, *find, *new_array;
  int n_in, skip;
  if (!PyArg_ParseTuple(args, "OOiiO", &fallback, &find, &n_in, &skip, &new_array)) return nullptr;
  if (n_in < 1 || n_in > kMaxOperands) return raise("ValueError", "DevicePointwise: %d operands", n_in);
  DevicePointwise* self = reinterpret_cast<DevicePointwise*>(type->tp_alloc(type, 0));
  if (!self) return nullptr;
  self->call = pointwise_call;
  self->fallback = Py_NewRef(fallback);
  self->find = Py_NewRef(find);
  self->new_array = Py_NewRef(new_array);
  self->n_in = n_in;
  self->skip = skip;
  self->kernels = PyDict_New();
  if (!self->kernels) Py_CLEAR(self);
  return reinterpret_cast<PyObject*>(self);
}

// What the fallback has: methods and names of CuPy's ufunc.
PyObject* pointwise_getattr(PyObject* object, PyObject* name) {
  PyObject* found = PyObject_GenericGetAttr(object, name);
  if (found || !PyErr_ExceptionMatches(PyExc_AttributeError)) return found;
  PyErr_Clear();
  return PyObject_GetAttr(reinterpret_cast<DevicePointwise*>(object)->fallback, name);
}

// set_device_launch(stream, number): the capsule of CuPy's function for the current stream, and the function for the
// current device, or None if there is one device. False: this CuPy or driver has another interface.
PyObject* set_device_launch(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (n != 2) return raise("TypeError", "set_device_launch: (stream, number) is needed");
  const char* signature = PyCapsule_CheckExact(args[0]) ? PyCapsule_GetName(args[0]) : nullptr;
  void* library = dlopen("libcuda.so.1", RTLD_NOW);
  void* launch = library ? dlsym(library, "cuLaunchKernel") : nullptr;
  if (!signature || strcmp(signature, "intptr_t (void)") != 0 || !launch) Py_RETURN_FALSE;
  device.stream = reinterpret_cast<StreamFunction>(PyCapsule_GetPointer(args[0], signature));
  device.launch = reinterpret_cast<LaunchFunction>(launch);
  Py_XSETREF(device.number, args[1] == Py_None ? nullptr : Py_NewRef(args[1]));
  Py_RETURN_TRUE;
}

PyMemberDef kernel_members[] = {
    {"dtypes", T_OBJECT_EX, offsetof(DeviceKernel, dtypes), READONLY, "of the operands in the kernel"},
    {"dtype", T_OBJECT_EX, offsetof(DeviceKernel, dtype), READONLY, "of the result"},
    {"per_thread", T_INT, offsetof(DeviceKernel, per_thread), READONLY, "elements that a thread computes"},
    {nullptr, 0, 0, 0, nullptr},
};
PyMethodDef kernel_methods[] = {
    {"grid", kernel_grid, METH_O, "grid(n): the blocks, and the threads of a block, for n elements."},
    {nullptr, nullptr, 0, nullptr},
};
PyType_Slot kernel_slots[] = {
    {Py_tp_methods, kernel_methods},
    {Py_tp_doc, const_cast<char*>("DeviceKernel(load, dtypes, dtype, per_thread): a kernel for one kind of operands.")},
    {Py_tp_new, reinterpret_cast<void*>(kernel_new)},
    {Py_tp_traverse, reinterpret_cast<void*>(traverse<DeviceKernel>)},
    {Py_tp_clear, reinterpret_cast<void*>(clear<DeviceKernel>)},
    {Py_tp_dealloc, reinterpret_cast<void*>(dealloc<DeviceKernel>)},
    {Py_tp_members, kernel_members},
    {0, nullptr},
};
PyType_Spec kernel_spec = {"shmtensor.native.DeviceKernel", sizeof(DeviceKernel), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
                           kernel_slots};

PyMemberDef members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(DevicePointwise, call), READONLY, nullptr},
    {"__dictoffset__", T_PYSSIZET, offsetof(DevicePointwise, dict), READONLY, nullptr},
    {"__weaklistoffset__", T_PYSSIZET, offsetof(DevicePointwise, weak), READONLY, nullptr},
    {"fallback", T_OBJECT_EX, offsetof(DevicePointwise, fallback), READONLY, "called for all other operands"},
    {"kernels", T_OBJECT_EX, offsetof(DevicePointwise, kernels), READONLY, "by kind of operands"},
    {nullptr, 0, 0, 0, nullptr},
};
PyType_Slot slots[] = {
    {Py_tp_doc, const_cast<char*>("DevicePointwise(fallback, find, n_in, skip, new_array): a pointwise function of a "
                                  "device's arrays.")},
    {Py_tp_new, reinterpret_cast<void*>(pointwise_new)},
    {Py_tp_call, reinterpret_cast<void*>(PyVectorcall_Call)},
    {Py_tp_getattro, reinterpret_cast<void*>(pointwise_getattr)},
    {Py_tp_traverse, reinterpret_cast<void*>(traverse<DevicePointwise>)},
    {Py_tp_clear, reinterpret_cast<void*>(clear<DevicePointwise>)},
    {Py_tp_dealloc, reinterpret_cast<void*>(dealloc<DevicePointwise>)},
    {Py_tp_members, members},
    {0, nullptr},
};
PyType_Spec spec = {"shmtensor.native.DevicePointwise", sizeof(DevicePointwise), 0,
                    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL, slots};

PyMethodDef functions[] = {
    method("set_device_launch", set_device_launch,
           "set_device_launch(stream, number): how DevicePointwise launches; False if this CuPy has another interface."),
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

int add_device_pointwise(PyObject* module) {
  kernel_type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&kernel_spec));
  if (!kernel_type || PyModule_AddObjectRef(module, "DeviceKernel", reinterpret_cast<PyObject*>(kernel_type)) < 0) return -1;
  Ref type(PyType_FromSpec(&spec));
  if (!type || PyModule_AddObjectRef(module, "DevicePointwise", type.get()) < 0) return -1;
  return PyModule_AddFunctions(module, functions);
}

}  // namespace shmtensor
