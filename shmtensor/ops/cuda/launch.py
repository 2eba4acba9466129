"""Loading and launching our kernels on CuPy arrays.

Launches are queued on the thread's current stream and device. Each argument is an array, or a NumPy
scalar of exactly the parameter's type.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import cupy
import numpy as np

from .kernel_source import FLOATING, kernel_source

__all__ = [
    "NULL",
    "THREADS",
    "as_acc",
    "blocks_for",
    "contiguous",
    "is_floating",
    "launch",
    "load_kernel",
]

OPTIONS = ("-std=c++17",)
THREADS = 256  # of a block, where nothing else decides
MAX_BLOCKS = 4096  # threads go on with further elements
NULL = np.uint64(0)  # the pointer to no array


@functools.cache
def load_kernel(name: str, dtype: str, function: str) -> Any:
    """A kernel of `kernels/<name>.cu` for a dtype; compiled at the first launch on each device."""
    module = cupy.RawModule(code=kernel_source(name, dtype), options=OPTIONS)
    return module.get_function(function)


def launch(
    source: str,
    function: str,
    dtype: Any,
    blocks: int | tuple[int, ...],
    threads: int | tuple[int, ...],
    arguments: Sequence[Any],
    shared: int = 0,
) -> None:
    """Queues a launch.

    Args:
        source: the name of a file, without ".cu".
        dtype: of the elements, NumPy's.
        blocks, threads: a number, or (x, y, z).
        shared: bytes of dynamic shared memory.
    """
    kernel = load_kernel(source, dtype.name, function)
    grid = blocks if isinstance(blocks, tuple) else (blocks, 1, 1)
    block = threads if isinstance(threads, tuple) else (threads, 1, 1)
    kernel(grid, block, tuple(arguments), shared_mem=shared)


def blocks_for(n: int, per_block: int = THREADS) -> int:
    """Blocks for n elements, rows or counters: at least one."""
    return max(1, min(-(-n // per_block), MAX_BLOCKS))


def is_floating(*arrays: Any) -> bool:
    """Whether all arrays (None is left out) are of one dtype that the kernels are compiled for."""
    dtypes = {x.dtype for x in arrays if x is not None}
    return len(dtypes) == 1 and dtypes.pop().name in FLOATING


def contiguous(x: Any) -> Any:
    """The array, or a copy in row-major order."""
    return x if x is None or x.flags.c_contiguous else cupy.ascontiguousarray(x)


def as_acc(dtype: Any, value: float) -> Any:
    """A number in the type that the kernels of a dtype compute in."""
    return np.float64(value) if dtype == np.float64 else np.float32(value)


def split_at(shape: tuple[int, ...], dim: int) -> tuple[int, int, int]:
    """(outer, n, inner): the elements before a dimension, along it, and after it."""
    return math.prod(shape[:dim]), shape[dim], math.prod(shape[dim + 1 :])
