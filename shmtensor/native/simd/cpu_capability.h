// The instruction-set level of this CPU.
//
// setup.py compiles each *.simd.cc once per level, in the namespace SHMTENSOR_LEVEL, with -march for avx2 and avx512 on
// x86-64; elsewhere only for the generic level. A build with SHMTENSOR_LEVELS=native, as that of `make demo`, may lack
// avx2, too: so the functions of each level are declared weak, and are null where the level is not compiled. These files
// use no inline code of the standard library: the linker keeps one copy of it, which might be the AVX-512 one.
#pragma once

#include <stdint.h>

namespace shmtensor {

enum class Level { Generic, Avx2, Avx512 };

// The best compiled level that the CPU supports; SHMTENSOR_ISA (generic, avx2, avx512, avx512_bf16) can only lower it.
Level isa_level();
bool is_compiled(Level level);
const char* isa_name(Level level);

// Products of bfloat16 by AVX512_BF16, on top of the level avx512. SHMTENSOR_ISA=avx512 turns it off.
bool uses_avx512_bf16();

}  // namespace shmtensor
