"""Softmax and its logarithm on CUDA, and their gradients: along any dimension."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import cupy
import numpy as np

from ..table.dims import axis
from ..table.op_table import ROWS
from .launch import (
    CACHED,
    FLOAT64,
    PLANS,
    WARP,
    blocks_for,
    contiguous,
    is_aligned,
    is_floating,
    prepare,
    row_threads,
    split_at,
    warp_kernel,
)

__all__: list[str] = []


@functools.lru_cache(PLANS)
def launch_along(
    function: str, dtype: Any, shape: tuple[int, ...], dim: int, is_log: bool, aligned: bool
) -> Callable[..., None]:
    """The launch of `softmax` (x, out) or `softmax_backward` (g, y, out) along a dimension of
    contiguous arrays.
    """
    outer, n, inner = split_at(shape, dim)
    flag = np.int32(is_log)
    if inner > 1:
        grid = (-(-inner // 32), min(outer, 65535), 1)
        rows = next((k for k in (1, 2, 4, 8, 16) if n <= 4 * k), 32)
        numbers: tuple[Any, ...] = outer, n, inner, flag
        return prepare("softmax", f"{function}_columns", dtype, grid, (32, rows, 1), numbers)
    if n <= WARP:
        name = f"{function}_warp_{warp_kernel(n, dtype, aligned)}"
        return prepare(
            "softmax", name, dtype, blocks_for(outer, 8), 256, (outer, np.int32(n), flag)
        )
    threads, blocks = row_threads(n), blocks_for(outer, 1)
    if function == "softmax_backward":
        return prepare("softmax", f"{function}_block", dtype, blocks, threads, (outer, n, flag))
    nbytes = n * (8 if dtype == FLOAT64 else 4)
    shared = nbytes if nbytes <= CACHED else 0
    numbers = outer, n, flag, np.int32(shared > 0)
    return prepare("softmax", "softmax_block", dtype, blocks, threads, numbers, shared)


def declare(name: str, is_log: bool) -> None:
    """Declares the forwards of a row and of its gradient: by the kernels, or, for other dtypes and
    0-d arrays, by the rows' own.
    """
    row, gradient = ROWS[name], ROWS[f"{name}_backward_data"]

    def forward(xp: Any, x: Any, dim: int) -> Any:
        if not is_floating(x) or not x.ndim:
            return row.forward(xp, x, dim)
        x, dim, shape, dtype = contiguous(x), axis(x, dim), x.shape, x.dtype
        out = cupy.ndarray(shape, dtype)
        if x.size:
            launch_along("softmax", dtype, shape, dim, is_log, is_aligned(x))(x, out)
        return out

    def backward(xp: Any, x: Any, y: Any, dim: int) -> Any:
        shape, dtype = y.shape, y.dtype
        if not is_floating(x, y) or not shape or x.shape != shape:
            return gradient.forward(xp, x, y, dim)
        g, y, dim = contiguous(x), contiguous(y), axis(y, dim)
        out = cupy.ndarray(shape, dtype)
        if y.size:
            aligned = is_aligned(g, y)
            launch_along("softmax_backward", dtype, shape, dim, is_log, aligned)(g, y, out)
        return out

    row.on("cuda")(forward)
    gradient.on("cuda")(backward)


declare("_softmax", False)
declare("_log_softmax", True)
