// What became of the arguments of a kernel.
#pragma once

namespace shmtensor {

enum class Prepared {
  Error,     // an exception is set
  NoKernel,  // there is none for these arguments: NumPy or the caller computes without it
  Ready,
};

}  // namespace shmtensor
