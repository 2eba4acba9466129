"""Softmax and its logarithm on CUDA, and their gradients: along any dimension."""

from __future__ import annotations

from typing import Any

import cupy
import numpy as np

from ..table.dims import axis
from ..table.op_definition import ROWS
from .launch import CACHED, WARP, blocks_for, contiguous, is_floating, launch, row_threads, split_at

__all__ = ["log_softmax", "log_softmax_backward", "softmax", "softmax_backward"]


def launch_along(
    function: str, arrays: tuple[Any, ...], shape: tuple[int, ...], dim: int, is_log: bool
) -> None:
    """Launches `softmax` or `softmax_backward` along a dimension, for contiguous arrays."""
    outer, n, inner = split_at(shape, dim)
    dtype, flag = arrays[0].dtype, np.int32(is_log)
    if inner > 1:
        sizes: tuple[Any, ...] = np.int64(outer), np.int64(n), np.int64(inner)
        grid = (-(-inner // 32), min(outer, 65535), 1)
        rows = next((k for k in (1, 2, 4, 8, 16) if n <= 4 * k), 32)
        launch(
            "softmax", f"{function}_columns", dtype, grid, (32, rows, 1), (*arrays, *sizes, flag)
        )
        return
    sizes = np.int64(outer), np.int64(n)
    if n <= WARP:
        size = (
            ""
            if function == "softmax_backward"
            else next(f"_{limit}" for limit in (32, 128, 1024) if n <= limit)
        )
        arguments = (*arrays, *sizes, flag)
        launch("softmax", f"{function}_warp{size}", dtype, blocks_for(outer, 8), 256, arguments)
        return
    threads = row_threads(n)
    if function == "softmax_backward":
        launch(
            "softmax",
            f"{function}_block",
            dtype,
            blocks_for(outer, 1),
            threads,
            (*arrays, *sizes, flag),
        )
        return
    nbytes = n * (8 if dtype == np.float64 else 4)
    shared = nbytes if nbytes <= CACHED else 0
    arguments = (*arrays, *sizes, flag, np.int32(shared > 0))
    launch("softmax", "softmax_block", dtype, blocks_for(outer, 1), threads, arguments, shared)


def forward(row: str, x: Any, dim: int, is_log: bool) -> Any:
    """A row's result by the kernels, or by its own forward for other dtypes and 0-d arrays."""
    if not is_floating(x) or not x.ndim:
        return ROWS[row].forward(cupy, x, dim)
    x, dim = contiguous(x), axis(x, dim)
    out = cupy.empty(x.shape, x.dtype)
    if x.size:
        launch_along("softmax", (x, out), x.shape, dim, is_log)
    return out


def backward(row: str, g: Any, y: Any, dim: int, is_log: bool) -> Any:
    """The gradient for g, of a result y."""
    if not is_floating(g, y) or not y.ndim or g.shape != y.shape:
        return ROWS[row].forward(cupy, g, y, dim)
    g, y, dim = contiguous(g), contiguous(y), axis(y, dim)
    out = cupy.empty(y.shape, y.dtype)
    if y.size:
        launch_along("softmax_backward", (g, y, out), y.shape, dim, is_log)
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
