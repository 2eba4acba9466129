// NumPy inner loops for the functions of function_table.h and the elementary functions of kernel_table.h.
#include "numpy_loops/loops.h"

#include <cstring>

#include "kernels/arguments.h"
#include "math/function_table.h"
#include "simd/kernel_table.h"
#include "numpy_loops/parallel_ufunc.h"

namespace shmtensor {
namespace {

constexpr npy_intp kBufferSize = 512;

template <class T, class R = T>
using UnaryKernel = void (*)(const T*, R*, int64_t);
template <class T, class R = T>
using BinaryKernel = void (*)(const T*, const T*, R*, int64_t);

template <class T>
void gather_strided(const char* from, npy_intp step, T* to, npy_intp n) {
  for (npy_intp i = 0; i < n; ++i) to[i] = *reinterpret_cast<const T*>(from + i * step);
}
template <class T>
void scatter_strided(const T* from, char* to, npy_intp step, npy_intp n) {
  for (npy_intp i = 0; i < n; ++i) *reinterpret_cast<T*>(to + i * step) = from[i];
}

// Strided operands are copied through a small buffer; the results, of type R, are the same.
template <class T, class R = T>
void run_unary(char** args, npy_intp const* dimensions, npy_intp const* steps, void* kernel) {
  const auto f = reinterpret_cast<UnaryKernel<T, R>>(kernel);
  const npy_intp n = dimensions[0];
  if (steps[0] == sizeof(T) && steps[1] == sizeof(R))
    return f(reinterpret_cast<T*>(args[0]), reinterpret_cast<R*>(args[1]), n);
  T x[kBufferSize];
  R out[kBufferSize];
  for (npy_intp at = 0; at < n; at += kBufferSize) {
    const npy_intp m = n - at < kBufferSize ? n - at : kBufferSize;
    gather_strided(args[0] + at * steps[0], steps[0], x, m);
    f(x, out, m);
    scatter_strided(out, args[1] + at * steps[1], steps[1], m);
  }
}

template <class T, class R = T>
void run_binary(char** args, npy_intp const* dimensions, npy_intp const* steps, void* kernel) {
  const auto f = reinterpret_cast<BinaryKernel<T, R>>(kernel);
  const npy_intp n = dimensions[0], width = sizeof(T), out_width = sizeof(R);
  if (steps[0] == width && steps[1] == width && steps[2] == out_width)
    return f(reinterpret_cast<T*>(args[0]), reinterpret_cast<T*>(args[1]), reinterpret_cast<R*>(args[2]), n);
  T x[kBufferSize], y[kBufferSize];
  R out[kBufferSize];
  for (npy_intp at = 0; at < n; at += kBufferSize) {
    const npy_intp m = n - at < kBufferSize ? n - at : kBufferSize;
    // A scalar operand is copied once; a contiguous operand is not copied.
    char *const from_x = args[0] + at * steps[0], *const from_y = args[1] + at * steps[1];
    char* const to = args[2] + at * steps[2];
    if (steps[0] != width && (at == 0 || steps[0] != 0)) gather_strided(from_x, steps[0], x, m);
    if (steps[1] != width && (at == 0 || steps[1] != 0)) gather_strided(from_y, steps[1], y, m);
    f(steps[0] == width ? reinterpret_cast<T*>(from_x) : x, steps[1] == width ? reinterpret_cast<T*>(from_y) : y,
      steps[2] == out_width ? reinterpret_cast<R*>(to) : out, m);
    if (steps[2] != out_width) scatter_strided(out, to, steps[2], m);
  }
}

// Negates both parts of complex numbers.
template <class T>
void run_complex_negative(char** args, npy_intp const* dimensions, npy_intp const* steps, void*) {
  const npy_intp n = dimensions[0], width = 2 * sizeof(T);
  const bool dense = steps[0] == width && steps[1] == width;
  const npy_intp parts = dense ? 2 * n : 2, runs = dense ? 1 : n;
  for (npy_intp i = 0; i < runs; ++i) {
    const T* x = reinterpret_cast<T*>(args[0] + i * steps[0]);
    T* out = reinterpret_cast<T*>(args[1] + i * steps[1]);
    for (npy_intp k = 0; k < parts; ++k) out[k] = -x[k];
  }
}

#define NAME(name, ...) #name,
constexpr const char* kIntegerNames[] = {INTEGER_FUNCTIONS(NAME)};
constexpr const char* kLogicalNames[] = {LOGICAL_FUNCTIONS(NAME)};
#undef NAME

// The index of a name in a list, or -1.
template <int n>
int index_of(const char* const (&names)[n], const char* name) {
  for (int i = 0; i < n; ++i) {
    if (!strcmp(names[i], name)) return i;
  }
  return -1;
}

struct ElementaryName {
  const char* name;
  UnaryKernel<float> ElementaryKernels::* which;
};
constexpr ElementaryName kElementaryNames[] = {
    {"exp", &ElementaryKernels::exp},
    {"log", &ElementaryKernels::log},
    {"sin", &ElementaryKernels::sin},
    {"cos", &ElementaryKernels::cos},
};

// The entry of this name, or nullptr.
template <class F>
const NamedFunction<F>* find(const NamedFunctions<F>& functions, const char* name) {
  for (size_t i = 0; i < functions.n; ++i) {
    if (!strcmp(functions.first[i].name, name)) return functions.first + i;
  }
  return nullptr;
}

template <class T>
KernelLoop find_floating(const char* name) {
  const auto* one = find(functions<T>().unary, name);
  if (one && one->function) return {run_unary<T>, reinterpret_cast<void*>(one->function)};
  const auto* two = find(functions<T>().binary, name);
  if (two && two->function) return {run_binary<T>, reinterpret_cast<void*>(two->function)};
  if (!strcmp(name, "logical_not")) return {run_unary<T, uint8_t>, reinterpret_cast<void*>(logical_functions<T>().negation)};
  if (const int i = index_of(kLogicalNames, name); i >= 0)
    return {run_binary<T, uint8_t>, reinterpret_cast<void*>(logical_functions<T>().binary[i])};
  return {nullptr, nullptr};
}

template <class T>
KernelLoop find_integer(const char* name) {
  const int i = index_of(kIntegerNames, name);
  if (i < 0) return {nullptr, nullptr};
  return {run_binary<T>, reinterpret_cast<void*>(integer_functions<T>().binary[i])};
}

// The number of operands of the function of that name; 0 if there is none.
int operand_count(const char* name) {
  if (find(functions<double>().unary, name)) return 1;
  return find(functions<double>().binary, name) ? 2 : 0;
}

}  // namespace

KernelLoop find_loop(const char* name, int type) {
  switch (type) {
    case NPY_DOUBLE: return find_floating<double>(name);
    case NPY_FLOAT:
      for (const auto& entry : kElementaryNames) {
        if (!strcmp(entry.name, name)) return {run_unary<float>, reinterpret_cast<void*>(elementary_kernels().*entry.which)};
      }
      return find_floating<float>(name);
    case NPY_BYTE: return find_integer<int8_t>(name);
    case NPY_UBYTE: return find_integer<uint8_t>(name);
    case NPY_SHORT: return find_integer<int16_t>(name);
    case NPY_INT: return find_integer<int32_t>(name);
    case NPY_LONG:
    case NPY_LONGLONG: return find_integer<int64_t>(name);
    case NPY_CFLOAT: return {strcmp(name, "negative") ? nullptr : run_complex_negative<float>, nullptr};
    case NPY_CDOUBLE: return {strcmp(name, "negative") ? nullptr : run_complex_negative<double>, nullptr};
    default: return {nullptr, nullptr};
  }
}

PyObject* elementwise(PyObject*, PyObject* argument) {
  const char* name = PyUnicode_AsUTF8(argument);
  if (!name) return nullptr;
  const int nin = operand_count(name);
  if (nin == 0) return raise("ValueError", "elementwise: unknown function: %s", name);
  // Never freed: ufuncs live as long as the process.
  constexpr char kTypes[] = {NPY_BYTE, NPY_UBYTE, NPY_SHORT, NPY_INT, NPY_LONG, NPY_FLOAT, NPY_DOUBLE};
  constexpr int kMaxLoops = sizeof kTypes;
  auto* loops = new PyUFuncGenericFunction[kMaxLoops];
  auto* kernels = new void*[kMaxLoops];
  auto* types = new char[kMaxLoops * 3];
  int n = 0;
  for (const char type : kTypes) {
    const KernelLoop entry = find_loop(name, type);
    if (!entry.function) continue;
    loops[n] = entry.function, kernels[n] = entry.kernel;
    for (int i = 0; i <= nin; ++i) types[n * (nin + 1) + i] = type;
    ++n;
  }
  const char* permanent_name = strdup(name);
  if (!permanent_name) return PyErr_NoMemory();
  Ref ufunc(PyUFunc_FromFuncAndData(loops, kernels, types, n, nin, 1, PyUFunc_None, permanent_name, nullptr, 0));
  Ref arguments(ufunc ? PyTuple_Pack(1, ufunc.get()) : nullptr);
  return arguments ? parallel(nullptr, arguments.get()) : nullptr;
}

}  // namespace shmtensor
