// A NumPy loop around each elementary function of kernels.h.
#include "loops.h"

#include <cstring>

#include "kernels.h"

namespace shmtensor {
namespace {

// Strided operands go through a small buffer; the results are the same.
template <void (*Elementary::*F)(const float*, float*, int64_t)>
void run(char** args, npy_intp const* dimensions, npy_intp const* steps, void*) {
  constexpr npy_intp kSome = 256;
  const auto f = elementary().*F;
  const npy_intp n = dimensions[0];
  if (steps[0] == sizeof(float) && steps[1] == sizeof(float)) {
    return f(reinterpret_cast<float*>(args[0]), reinterpret_cast<float*>(args[1]), n);
  }
  float buffer[kSome];
  for (npy_intp at = 0; at < n; at += kSome) {
    const npy_intp m = n - at < kSome ? n - at : kSome;
    for (npy_intp i = 0; i < m; ++i)
      buffer[i] = *reinterpret_cast<float*>(args[0] + (at + i) * steps[0]);
    f(buffer, buffer, m);
    for (npy_intp i = 0; i < m; ++i)
      *reinterpret_cast<float*>(args[1] + (at + i) * steps[1]) = buffer[i];
  }
}

struct Own {
  const char* name;
  PyUFuncGenericFunction loop;
};
constexpr Own kOwn[] = {
    {"exp", run<&Elementary::exp>},
    {"log", run<&Elementary::log>},
    {"sin", run<&Elementary::sin>},
    {"cos", run<&Elementary::cos>},
};

}  // namespace

PyUFuncGenericFunction own_loop(const char* name, int type) {
  for (const Own& own : kOwn) {
    if (type == NPY_FLOAT && !strcmp(own.name, name)) return own.loop;
  }
  return nullptr;
}

}  // namespace shmtensor
