// A NumPy loop around each function of function_table.h, and around the elementary ones of kernel_table.h.
#include "ufunc/loops.h"

#include <cstring>

#include "kernels/arguments.h"
#include "math/function_table.h"
#include "simd/kernel_table.h"
#include "ufunc/parallel_ufunc.h"

namespace shmtensor {
namespace {

constexpr npy_intp kSome = 512;

template <class T>
using OfOne = void (*)(const T*, T*, int64_t);
template <class T>
using OfTwo = void (*)(const T*, const T*, T*, int64_t);

template <class T>
void collect(const char* from, npy_intp step, T* to, npy_intp n) {
  for (npy_intp i = 0; i < n; ++i) to[i] = *reinterpret_cast<const T*>(from + i * step);
}
template <class T>
void spread(const T* from, char* to, npy_intp step, npy_intp n) {
  for (npy_intp i = 0; i < n; ++i) *reinterpret_cast<T*>(to + i * step) = from[i];
}

// Strided operands go through a small buffer; the results are the same.
template <class T>
void run_one(char** args, npy_intp const* dimensions, npy_intp const* steps, void* kernel) {
  const auto f = reinterpret_cast<OfOne<T>>(kernel);
  const npy_intp n = dimensions[0], width = sizeof(T);
  if (steps[0] == width && steps[1] == width)
    return f(reinterpret_cast<T*>(args[0]), reinterpret_cast<T*>(args[1]), n);
  T buffer[kSome];
  for (npy_intp at = 0; at < n; at += kSome) {
    const npy_intp m = n - at < kSome ? n - at : kSome;
    collect(args[0] + at * steps[0], steps[0], buffer, m);
    f(buffer, buffer, m);
    spread(buffer, args[1] + at * steps[1], steps[1], m);
  }
}

template <class T>
void run_two(char** args, npy_intp const* dimensions, npy_intp const* steps, void* kernel) {
  const auto f = reinterpret_cast<OfTwo<T>>(kernel);
  const npy_intp n = dimensions[0], width = sizeof(T);
  if (steps[0] == width && steps[1] == width && steps[2] == width)
    return f(reinterpret_cast<T*>(args[0]), reinterpret_cast<T*>(args[1]),
             reinterpret_cast<T*>(args[2]), n);
  T x[kSome], y[kSome], out[kSome];
  for (npy_intp at = 0; at < n; at += kSome) {
    const npy_intp m = n - at < kSome ? n - at : kSome;
    // A number beside an array is copied once, what lies side by side not at all.
    char *const from_x = args[0] + at * steps[0], *const from_y = args[1] + at * steps[1];
    char* const to = args[2] + at * steps[2];
    if (steps[0] != width && (at == 0 || steps[0] != 0)) collect(from_x, steps[0], x, m);
    if (steps[1] != width && (at == 0 || steps[1] != 0)) collect(from_y, steps[1], y, m);
    f(steps[0] == width ? reinterpret_cast<T*>(from_x) : x,
      steps[1] == width ? reinterpret_cast<T*>(from_y) : y,
      steps[2] == width ? reinterpret_cast<T*>(to) : out, m);
    if (steps[2] != width) spread(out, to, steps[2], m);
  }
}

// As run_one and run_two, of truth values.
template <class T>
void run_truth_of_one(char** args, npy_intp const* dimensions, npy_intp const* steps, void* kernel) {
  const auto f = reinterpret_cast<void (*)(const T*, uint8_t*, int64_t)>(kernel);
  const npy_intp n = dimensions[0], width = sizeof(T);
  if (steps[0] == width && steps[1] == 1)
    return f(reinterpret_cast<T*>(args[0]), reinterpret_cast<uint8_t*>(args[1]), n);
  T x[kSome];
  uint8_t out[kSome];
  for (npy_intp at = 0; at < n; at += kSome) {
    const npy_intp m = n - at < kSome ? n - at : kSome;
    collect(args[0] + at * steps[0], steps[0], x, m);
    f(x, out, m);
    spread(out, args[1] + at * steps[1], steps[1], m);
  }
}

template <class T>
void run_truth_of_two(char** args, npy_intp const* dimensions, npy_intp const* steps, void* kernel) {
  const auto f = reinterpret_cast<void (*)(const T*, const T*, uint8_t*, int64_t)>(kernel);
  const npy_intp n = dimensions[0], width = sizeof(T);
  if (steps[0] == width && steps[1] == width && steps[2] == 1)
    return f(reinterpret_cast<T*>(args[0]), reinterpret_cast<T*>(args[1]),
             reinterpret_cast<uint8_t*>(args[2]), n);
  T x[kSome], y[kSome];
  uint8_t out[kSome];
  for (npy_intp at = 0; at < n; at += kSome) {
    const npy_intp m = n - at < kSome ? n - at : kSome;
    collect(args[0] + at * steps[0], steps[0], x, m);
    collect(args[1] + at * steps[1], steps[1], y, m);
    f(x, y, out, m);
    spread(out, args[2] + at * steps[2], steps[2], m);
  }
}

// Of complex numbers both parts.
template <class T>
void run_negative(char** args, npy_intp const* dimensions, npy_intp const* steps, void*) {
  const npy_intp n = dimensions[0], width = 2 * sizeof(T);
  const bool dense = steps[0] == width && steps[1] == width;
  const npy_intp parts = dense ? 2 * n : 2, runs = dense ? 1 : n;
  for (npy_intp i = 0; i < runs; ++i) {
    const T* x = reinterpret_cast<T*>(args[0] + i * steps[0]);
    T* out = reinterpret_cast<T*>(args[1] + i * steps[1]);
    for (npy_intp k = 0; k < parts; ++k) out[k] = -x[k];
  }
}

struct NamedUnary {
  const char* name;
  Unary which;
};
constexpr NamedUnary kUnaryNames[] = {
    {"erf", kErrorFunction}, {"erfc", kErrorComplement}, {"erfinv", kErrorInverse},
    {"lgamma", kLogGamma},   {"digamma", kDigamma},      {"i0", kI0},
    {"i1", kI1},             {"i0e", kI0e},              {"i1e", kI1e},
    {"sinc", kSinc},         {"sin", kSine},             {"cos", kCosine},
    {"frac", kFraction},     {"signs", kSignOf},       {"relu", kPositivePart},
    {"j0", kJ0}, {"j1", kJ1}, {"y0", kY0}, {"y1", kY1}, {"k0", kK0}, {"k1", kK1}, {"k0e", kK0e},
    {"k1e", kK1e}, {"spherical_j0", kSphericalJ0}, {"erfcx", kErfcScaled}, {"ndtr", kNormal},
    {"log_ndtr", kLogNormal}, {"ndtri", kNormalQuantile}, {"trigamma", kTrigamma},
    {"exp", kExp}, {"exp2", kExp2}, {"expm1", kExpm1}, {"log", kLog},
    {"log2", kLog2}, {"log10", kLog10}, {"log1p", kLog1p}, {"tan", kTangent}, {"arcsin", kArcsine},
    {"arccos", kArccosine}, {"arctan", kArctangent}, {"sinh", kSinh}, {"cosh", kCosh}, {"tanh", kTanh},
    {"arcsinh", kArcsinh}, {"arccosh", kArccosh}, {"arctanh", kArctanh},
};
struct NamedBinary {
  const char* name;
  Binary which;
};
constexpr NamedBinary kBinaryNames[] = {
    {"fmod", kFmod},           {"remainder", kRemainder},   {"floor_divide", kFloorDivide},
    {"hypot", kHypot},         {"logaddexp", kLogAddExp},   {"logaddexp2", kLogAddExp2},
    {"nextafter", kNextAfter}, {"prelu", kLeak},             {"trunc_divide", kTruncDivide},
    {"gammainc", kGammaLower}, {"gammaincc", kGammaUpper},
    {"copysign", kCopySign},   {"arctan2", kArctangent2},   {"power", kPower},
};
struct NamedWhole {
  const char* name;
  Whole which;
};
constexpr NamedWhole kWholeNames[] = {
    {"fmod", kWholeFmod},
    {"remainder", kWholeRemainder},
    {"floor_divide", kWholeFloorDivide},
    {"trunc_divide", kWholeTruncDivide},
};
struct NamedLogical {
  const char* name;
  Logical which;
};
constexpr NamedLogical kLogicalNames[] = {{"logical_and", kAnd}, {"logical_or", kOr}, {"logical_xor", kXor}};
struct NamedElementary {
  const char* name;
  OfOne<float> Elementary::*which;
};
constexpr NamedElementary kElementaryNames[] = {
    {"exp", &Elementary::exp},
    {"log", &Elementary::log},
    {"sin", &Elementary::sin},
    {"cos", &Elementary::cos},
};

template <class T>
OwnLoop found(const char* name) {
  for (const auto& own : kUnaryNames) {
    if (strcmp(own.name, name)) continue;
    if (auto f = functions<T>().unary[own.which]) return {run_one<T>, reinterpret_cast<void*>(f)};
  }
  for (const auto& own : kBinaryNames) {
    if (strcmp(own.name, name)) continue;
    if (auto f = functions<T>().binary[own.which]) return {run_two<T>, reinterpret_cast<void*>(f)};
  }
  if (!strcmp(name, "logical_not"))
    return {run_truth_of_one<T>, reinterpret_cast<void*>(truths<T>().negation)};
  for (const auto& own : kLogicalNames) {
    if (!strcmp(own.name, name))
      return {run_truth_of_two<T>, reinterpret_cast<void*>(truths<T>().binary[own.which])};
  }
  return {nullptr, nullptr};
}

template <class T>
OwnLoop found_whole(const char* name) {
  for (const auto& own : kWholeNames) {
    if (!strcmp(own.name, name))
      return {run_two<T>, reinterpret_cast<void*>(whole_functions<T>().binary[own.which])};
  }
  return {nullptr, nullptr};
}

// How many operands the function of that name takes; 0: there is none.
int operands(const char* name) {
  for (const auto& own : kUnaryNames) {
    if (!strcmp(own.name, name)) return 1;
  }
  for (const auto& own : kBinaryNames) {
    if (!strcmp(own.name, name)) return 2;
  }
  return 0;
}

}  // namespace

OwnLoop own_loop(const char* name, int type) {
  switch (type) {
    case NPY_DOUBLE:
      return found<double>(name);
    case NPY_FLOAT:
      for (const auto& own : kElementaryNames) {
        if (!strcmp(own.name, name))
          return {run_one<float>, reinterpret_cast<void*>(elementary().*own.which)};
      }
      return found<float>(name);
    case NPY_BYTE:
      return found_whole<int8_t>(name);
    case NPY_UBYTE:
      return found_whole<uint8_t>(name);
    case NPY_SHORT:
      return found_whole<int16_t>(name);
    case NPY_INT:
      return found_whole<int32_t>(name);
    case NPY_LONG:
    case NPY_LONGLONG:
      return found_whole<int64_t>(name);
    case NPY_CFLOAT:
      return {strcmp(name, "negative") ? nullptr : run_negative<float>, nullptr};
    case NPY_CDOUBLE:
      return {strcmp(name, "negative") ? nullptr : run_negative<double>, nullptr};
    default:
      return {nullptr, nullptr};
  }
}

PyObject* elementwise(PyObject*, PyObject* argument) {
  const char* name = PyUnicode_AsUTF8(argument);
  if (!name) return nullptr;
  const int nin = operands(name);
  if (nin == 0) return raise("ValueError", "elementwise: no such function: %s", name);
  // They live as long as the process, as the ufuncs do.
  constexpr char kTypes[] = {NPY_BYTE, NPY_UBYTE, NPY_SHORT, NPY_INT, NPY_LONG, NPY_FLOAT, NPY_DOUBLE};
  constexpr int kMost = sizeof kTypes;
  auto* loops = new PyUFuncGenericFunction[kMost];
  auto* kernels = new void*[kMost];
  auto* types = new char[kMost * 3];
  int n = 0;
  for (const char type : kTypes) {
    const OwnLoop own = own_loop(name, type);
    if (!own.function) continue;
    loops[n] = own.function, kernels[n] = own.kernel;
    for (int i = 0; i <= nin; ++i) types[n * (nin + 1) + i] = type;
    ++n;
  }
  const char* lasting = strdup(name);
  Ref plain(PyUFunc_FromFuncAndData(loops, kernels, types, n, nin, 1, PyUFunc_None, lasting, nullptr, 0));
  Ref arguments(plain ? PyTuple_Pack(1, plain.get()) : nullptr);
  return arguments ? parallel(nullptr, arguments.get()) : nullptr;
}

}  // namespace shmtensor
