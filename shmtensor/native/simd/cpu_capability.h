// The instruction-set level of this CPU.
//
// setup.py compiles each *.simd.cc once per level, in the namespace SHMTENSOR_LEVEL, with -march for avx2 and avx512 on
// x86-64 (elsewhere only the generic level is used). These files use no inline code of the standard library: the linker
// keeps one copy of it, which might be the AVX-512 one.
#pragma once

#include <stdint.h>

namespace shmtensor {

enum class Level { Generic, Avx2, Avx512 };

// The best level that the CPU supports; SHMTENSOR_ISA (generic, avx2, avx512) can only lower it.
Level isa_level();
const char* isa_name();

}  // namespace shmtensor
