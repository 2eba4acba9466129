"""Work that takes time, for tests of what happens while it is queued."""

from __future__ import annotations

from functools import cache
from typing import Any

from tests.cuda.standin.install import ON_GPU

# One thread; the timer counts nanoseconds.
SOURCE = r"""
__device__ __forceinline__ unsigned long long now() {
  unsigned long long ns;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns));
  return ns;
}
extern "C" __global__ void busy(unsigned long long ns) {
  const unsigned long long begin = now();
  while (now() - begin < ns) __nanosleep(1000);
}
"""


@cache
def kernel() -> Any:
    import cupy

    return cupy.RawKernel(SOURCE, "busy", options=("-std=c++17",))


def busy(stream: Any, seconds: float) -> None:
    """Queues work on a stream of the current device that takes so long on a GPU: what is queued
    behind it has not been done when the host looks. On the stand-in it does nothing: there work is
    late by itself (STANDIN_LATE_US, the fixture `no_background`).

    Args:
        stream: a CuPy stream. Streams that block wait for work on the default one, too.
    """
    if ON_GPU:
        import numpy as np

        with stream:
            kernel()((1,), (1,), (np.uint64(seconds * 1e9),))
