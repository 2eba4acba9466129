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
    "CACHED",
    "NULL",
    "THREADS",
    "WARP",
    "acc_dtype",
    "as_acc",
    "blocks_for",
    "contiguous",
    "is_floating",
    "launch",
    "load_kernel",
    "pointers",
    "row_threads",
    "split_at",
]

OPTIONS = ("-std=c++17",)
THREADS = 256  # of a block, where nothing else decides
MAX_BLOCKS = 4096  # threads go on with further elements
WARP = 1024  # a warp computes rows up to this length, a block longer ones
CACHED = 40 * 1024  # bytes of a row that a block keeps in shared memory
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


def row_threads(columns: int) -> int:
    """The threads of a block for one row."""
    return min(1024, max(128, 32 * (columns // 256)))


def acc_dtype(dtype: Any) -> Any:
    """The dtype that the kernels of a dtype compute in."""
    return np.dtype(np.float64 if dtype == np.float64 else np.float32)


def as_acc(dtype: Any, value: float) -> Any:
    """A number in the type that the kernels of a dtype compute in."""
    return acc_dtype(dtype).type(value)


def pointers(*arrays: Any) -> tuple[Any, ...]:
    """The arguments of arrays, of which some may be None."""
    return tuple(NULL if x is None else x for x in arrays)


def split_at(shape: tuple[int, ...], dim: int) -> tuple[int, int, int]:
    """(outer, n, inner): the elements before a dimension, along it, and after it."""
    return math.prod(shape[:dim]), shape[dim], math.prod(shape[dim + 1 :])
