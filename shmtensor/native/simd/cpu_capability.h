// The kernels of all folders, once per instruction-set level, and which level this CPU runs.
//
// kernel_table.simd.cc, kernel_table.simd.cc and kernel_table.simd.cc include the same kernel headers in namespaces of their own;
// setup.py gives v3 and v4 their -march on x86-64 (elsewhere the base level is NEON and the only
// one). Those files use no inline code of the standard library: the linker keeps one copy of it,
// and might keep the AVX-512 one.
#pragma once

#include <stdint.h>

namespace shmtensor {

enum class Level { Base, V3, V4 };

// The best level that CPU and compiler have; SHMTENSOR_ISA (base, v3, v4) can only lower it.
Level isa_level();
const char* isa_name();

}  // namespace shmtensor
