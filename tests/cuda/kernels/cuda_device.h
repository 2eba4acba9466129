// What the kernels use beyond CUDA's own words, for NVRTC: this text goes ahead of a kernel's source. cuda_host.h has the
// same for a host compiler, and then this one adds nothing.
#pragma once
#ifndef DYNAMIC_SHARED
#define DYNAMIC_SHARED(type, name)                              \
  extern __shared__ __align__(16) unsigned char name##_bytes[]; \
  type* name = reinterpret_cast<type*>(name##_bytes)
#endif
#ifndef INFINITY
#define INFINITY __int_as_float(0x7f800000)
#endif
