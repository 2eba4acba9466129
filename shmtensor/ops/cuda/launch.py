"""Loading and launching our kernels on CuPy arrays.

Launches are queued on the thread's current stream and device. Each argument is an array, None (a
null pointer), an int for a parameter `index_t`, or a NumPy scalar of exactly the parameter's type.

Note [Prepared launches] A small op takes less time on the GPU than its launch takes on the host.
What depends on shapes, dtypes and attributes only is therefore made once: a family caches, by
these, the launch that `prepare` makes, with its numbers as C values. A call then allocates its
results, and passes its arrays.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import cupy
import numpy as np
from cupy._core._scalar import CScalar

from ... import cupy_runtime
from .kernel_source import FLOATING, kernel_source

OPTIONS = ("-std=c++17",)
THREADS = 256  # of a block, where nothing else decides
MAX_BLOCKS = 4096  # threads go on with further elements
WARP = 1024  # a warp computes rows up to this length, a block longer ones
CACHED = 40 * 1024  # bytes of a row that a block keeps in shared memory
PACK = 16  # bytes that a thread loads at once
PLANS = 1024  # prepared launches that a family keeps

FLOAT32, FLOAT64 = np.dtype(np.float32), np.dtype(np.float64)
# Keys are dtypes: their names are slow properties.
ACC = {np.dtype(name): FLOAT64 if name == "float64" else FLOAT32 for name in FLOATING}

current_device: Callable[[], int] = cupy.cuda.runtime.getDevice


@functools.cache
def load_kernel(source: str, dtype: Any, function: str, device: int) -> Any:
    """A kernel of `kernels/<source>.cu` for a dtype on the current device, whose number is given;
    compiled at the first launch there.
    """
    module = cupy.RawModule(code=kernel_source(source, dtype.name), options=OPTIONS)
    return module.get_function(function).kernel


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
    grid = blocks if isinstance(blocks, tuple) else (blocks, 1, 1)
    block = threads if isinstance(threads, tuple) else (threads, 1, 1)
    load_kernel(source, dtype, function, current_device())(grid, block, arguments, shared)


def prepare(
    source: str,
    function: str,
    dtype: Any,
    blocks: int | tuple[int, ...],
    threads: int | tuple[int, ...],
    numbers: Sequence[Any],
    shared: int = 0,
) -> Callable[..., None]:
    """A launch, to be called with its arrays: Note [Prepared launches]. `numbers` follow these
    among the kernel's parameters; the other arguments are those of `launch`.
    """
    values = tuple(CScalar(n) for n in numbers)
    grid = blocks if isinstance(blocks, tuple) else (blocks, 1, 1)
    block = threads if isinstance(threads, tuple) else (threads, 1, 1)
    if cupy_runtime.device_count() > 1:

        def queue_on_current(*arrays: Any) -> None:
            kernel = load_kernel(source, dtype, function, current_device())
            kernel(grid, block, arrays + values, shared)

        return queue_on_current
    kernel = load_kernel(source, dtype, function, current_device())
    if not (isinstance(blocks, int) and isinstance(threads, int)):

        def queue_grid(*arrays: Any) -> None:
            kernel(grid, block, arrays + values, shared)

        return queue_grid
    start, n = kernel.linear_launch, blocks * threads

    def queue(*arrays: Any) -> None:
        start(n, arrays + values, shared, threads)

    return queue


def blocks_for(n: int, per_block: int = THREADS) -> int:
    """Blocks for n elements, rows or counters: at least one."""
    return max(1, min(-(-n // per_block), MAX_BLOCKS))


def even_chunks(n: int, size: int, most: int) -> tuple[int, int]:
    """How many chunks n elements are split into, none of them empty, and the size of all but the
    last: at least `size`, if there are several. There are at most `most` chunks, but at least one.
    """
    chunks = max(1, min(n // size, most))
    size = -(-n // chunks)
    return -(-n // size), size


def is_floating(*arrays: Any) -> bool:
    """Whether all arrays (None is left out) are of one dtype that the kernels are compiled for."""
    dtype = None
    for x in arrays:
        if x is not None:
            if dtype is None:
                dtype = x.dtype
            elif x.dtype != dtype:
                return False
    return dtype in ACC


def contiguous(x: Any) -> Any:
    """The array, or a copy in row-major order."""
    return x if x is None or x._c_contiguous else cupy.ascontiguousarray(x)


def cast(x: Any, dtype: Any) -> Any:
    """The array in a dtype. Copies: none if it has it."""
    return x if x is None or x.dtype == dtype else x.astype(dtype)


def two_of(n: int, dtype: Any) -> tuple[Any, Any]:
    """Two arrays of n elements in one block of memory: half the cost of two blocks."""
    first = cupy.ndarray((2 * n,), dtype)
    memory = first.data
    return cupy.ndarray((n,), dtype, memory), cupy.ndarray((n,), dtype, memory + n * dtype.itemsize)


def warp_kernel(
    columns: int, dtype: Any, aligned: bool, sizes: Sequence[int] = (1, 2, 4, 8, 16, 32)
) -> str:
    """The suffix of the kernel for rows of up to 1,024 elements: the packs that each lane has, or
    the elements, of which there are kernels for `sizes`.
    """
    pack = PACK // int(dtype.itemsize)
    if aligned and columns % pack == 0:
        return f"packs_{next(k for k in (1, 2, 4, 8, 16) if columns <= 32 * pack * k)}"
    return str(next(k for k in sizes if columns <= 32 * k))


def is_aligned(*arrays: Any) -> bool:
    """Whether the arrays' memory can be read by packs."""
    bits = 0
    for x in arrays:
        if x is not None:
            bits |= x.data.ptr
    return not bits % PACK


def row_threads(columns: int) -> int:
    """The threads of a block for one row."""
    return min(1024, max(128, 32 * (columns // 256)))


def acc_dtype(dtype: Any) -> Any:
    """The dtype that the kernels of a dtype compute in."""
    return ACC.get(dtype, FLOAT32)


def as_acc(dtype: Any, value: float) -> Any:
    """A number in the type that the kernels of a dtype compute in."""
    return acc_dtype(dtype).type(value)


def split_at(shape: tuple[int, ...], dim: int) -> tuple[int, int, int]:
    """(outer, n, inner): the elements before a dimension, along it, and after it."""
    return math.prod(shape[:dim]), shape[dim], math.prod(shape[dim + 1 :])
