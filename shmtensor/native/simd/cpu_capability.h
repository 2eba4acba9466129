// The kernels of all folders, once per instruction-set level, and which level this CPU runs.
//
// kernel_table.simd.cc, kernel_table.simd.cc and kernel_table.simd.cc include the same kernel headers in namespaces of their own;
// setup.py gives avx2 and avx512 their -march on x86-64 (elsewhere the generic level is NEON and the only
// one). Those files use no inline code of the standard library: the linker keeps one copy of it,
// and might keep the AVX-512 one.
#pragma once

#include <stdint.h>

namespace shmtensor {

enum class Level { Generic, Avx2, Avx512 };

// The best level that CPU and compiler have; SHMTENSOR_ISA (generic, avx2, avx512) can only lower it.
Level isa_level();
const char* isa_name();

}  // namespace shmtensor
