"""Softmax and its logarithm on CUDA, and their gradients: along any dimension."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import cupy
import numpy as np

from ..table.dims import axis
from ..table.op_definition import ROWS
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

__all__ = ["log_softmax", "log_softmax_backward", "softmax", "softmax_backward"]


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


def forward(row: str, x: Any, dim: int, is_log: bool) -> Any:
    """A row's result by the kernels, or by its own forward for other dtypes and 0-d arrays."""
    if not is_floating(x) or not x.ndim:
        return ROWS[row].forward(cupy, x, dim)
    x, dim, shape, dtype = contiguous(x), axis(x, dim), x.shape, x.dtype
    out = cupy.ndarray(shape, dtype)
    if x.size:
        launch_along("softmax", dtype, shape, dim, is_log, is_aligned(x))(x, out)
    return out


def backward(row: str, g: Any, y: Any, dim: int, is_log: bool) -> Any:
    """The gradient for g, of a result y."""
    shape, dtype = y.shape, y.dtype
    if not is_floating(g, y) or not shape or g.shape != shape:
        return ROWS[row].forward(cupy, g, y, dim)
    g, y, dim = contiguous(g), contiguous(y), axis(y, dim)
    out = cupy.ndarray(shape, dtype)
    if y.size:
        aligned = is_aligned(g, y)
        launch_along("softmax_backward", dtype, shape, dim, is_log, aligned)(g, y, out)
    return out


def softmax(x: Any, dim: int) -> Any:
    """exp(x) over its sum along a dimension."""
    return forward("_softmax", x, dim, False)


def log_softmax(x: Any, dim: int) -> Any:
    """The logarithm of `softmax`."""
    return forward("_log_softmax", x, dim, True)


def softmax_backward(g: Any, y: Any, dim: int) -> Any:
    """The gradient of a softmax with the result y, for the gradient g."""
    return backward("_softmax_backward_data", g, y, dim, False)


def log_softmax_backward(g: Any, y: Any, dim: int) -> Any:
    """The gradient of a log_softmax with the result y, for the gradient g."""
    return backward("_log_softmax_backward_data", g, y, dim, True)


ROWS["_softmax"].on("cuda")(lambda xp, x, dim: softmax(x, dim))
ROWS["_log_softmax"].on("cuda")(lambda xp, x, dim: log_softmax(x, dim))
ROWS["_softmax_backward_data"].on("cuda")(lambda xp, x, y, dim: softmax_backward(x, y, dim))
ROWS["_log_softmax_backward_data"].on("cuda")(lambda xp, x, y, dim: log_softmax_backward(x, y, dim))
