"""nll_loss and cross entropy on CUDA, and their gradients.

A class that is not there makes its loss NaN: an error would have to wait for the device.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import cupy
import numpy as np

from ..table.op_table import ROWS
from .launch import (
    ACC,
    PLANS,
    WARP,
    as_acc,
    blocks_for,
    cast,
    contiguous,
    is_floating,
    launch,
    prepare,
    row_threads,
)

ALONE = 32 * 1024  # logits that one block computes, so that no second launch is needed
INT64 = np.dtype(np.int64)
Launch = Callable[..., None]


def class_numbers(name: str, target: Any, expected: tuple[int, ...]) -> Any:
    """The targets as contiguous int64.

    Raises:
        RuntimeError: they have another shape, or another kind of dtype.
    """
    if target.shape != expected:
        raise RuntimeError(
            f"{name}: target does not fit input: {target.shape}, expected {expected}"
        )
    if target.dtype.kind not in "iu":
        raise RuntimeError(f"{name}: classes must be whole numbers: {target.dtype}")
    return contiguous(cast(target, INT64))


def finish(sums: Any, dtype: Any, reduction: str, total: Any) -> Any:
    """The reduced loss, from the sums of the blocks; the sum of the weights is written to `total`.

    Args:
        sums: (2, blocks).
        total: one number, or None.
    """
    out = cupy.ndarray((), dtype)
    arguments = (sums, out, total, sums.shape[1], np.int32(reduction == "mean"))
    launch("cross_entropy", "finish", dtype, 1, 256, arguments)
    return out


def per_row(columns: int) -> tuple[str, int, int]:
    """The kernel's suffix, the rows of a block, and its threads."""
    return ("warp", 8, 256) if columns <= WARP else ("block", 1, row_threads(columns))


@functools.lru_cache(PLANS)
def prepare_forward(
    shape: tuple[int, int], dtype: Any, ignore_index: int, reduction: str, label_smoothing: float
) -> tuple[int, Launch, Launch | None]:
    """The number of blocks, the launch (x, target, weight, saved, losses, sums, out), and that
    which adds up the sums of the blocks (sums, out, total), if there are several.
    """
    rows, columns = shape
    suffix, in_block, threads = per_row(columns)
    blocks = blocks_for(rows, in_block)
    if rows * columns <= ALONE:
        blocks = 1
        if suffix == "warp":
            threads = min(1024, 32 * rows)
    mean = np.int32(reduction == "mean")
    numbers = rows, columns, ignore_index, as_acc(dtype, label_smoothing), mean
    run = prepare("cross_entropy", f"cross_entropy_{suffix}", dtype, blocks, threads, numbers)
    if blocks == 1:
        return blocks, run, None
    return blocks, run, prepare("cross_entropy", "finish", dtype, 1, 256, (blocks, mean))


@functools.lru_cache(PLANS)
def prepare_backward(
    shape: tuple[int, int], dtype: Any, ignore_index: int, reduction: str, label_smoothing: float
) -> Launch:
    """The launch (g, x, saved, target, weight, out)."""
    rows, columns = shape
    suffix, in_block, threads = per_row(columns)
    flags = np.int32(reduction == "none"), np.int32(reduction == "mean")
    numbers = rows, columns, ignore_index, as_acc(dtype, label_smoothing), *flags
    name, blocks = f"cross_entropy_backward_{suffix}", blocks_for(rows, in_block)
    return prepare("cross_entropy", name, dtype, blocks, threads, numbers)


def cross_entropy(
    x: Any,
    target: Any,
    weight: Any = None,
    ignore_index: int = -100,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> tuple[Any, Any]:
    """Cross entropy of logits (N, C) and classes (N).

    Args:
        weight: one number for each class, of x's dtype, or None.

    Returns: the loss, and N + 1 numbers for `cross_entropy_backward`: the logarithm of each row's
        sum of exponentials, and the sum of the targets' weights.
    """
    shape, dtype = x.shape, x.dtype
    rows, acc = shape[0], ACC[dtype]
    target = class_numbers("cross_entropy", target, shape[:1])
    x, weight = contiguous(x), contiguous(weight)
    options = ignore_index, reduction, label_smoothing
    blocks, run, add = prepare_forward(shape, dtype, *options)
    saved, out = cupy.ndarray((rows + 1,), acc), cupy.ndarray((), dtype)
    losses = cupy.ndarray((rows,), dtype) if reduction == "none" else None
    sums = None if add is None else cupy.ndarray((2 * blocks,), acc)
    run(x, target, weight, saved, losses, sums, out)
    if add is not None:
        add(sums, out, cupy.ndarray((1,), acc, saved.data + rows * acc.itemsize))
    return (out if losses is None else losses), saved


def cross_entropy_backward(
    g: Any,
    x: Any,
    saved: Any,
    target: Any,
    weight: Any = None,
    ignore_index: int = -100,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Any:
    """The gradient by the logits.

    Args:
        g: of the loss: one number, or N for the reduction "none".
        saved: the second result of `cross_entropy`.
    """
    shape, dtype = x.shape, x.dtype
    target = class_numbers("cross_entropy", target, shape[:1])
    g, x, weight = contiguous(cast(g, dtype)), contiguous(x), contiguous(weight)
    out = cupy.ndarray(shape, dtype)
    options = ignore_index, reduction, label_smoothing
    prepare_backward(shape, dtype, *options)(g, x, saved, target, weight, out)
    return out


@ROWS["_cross_entropy"].on("cuda")
def _cross_entropy(xp: Any, x: Any, target: Any, ignore_index: int, reduction: str) -> Any:
    if not is_floating(x) or not x.size:
        raise NotImplementedError(
            f"cross_entropy: not implemented on CUDA for {x.dtype} of shape {x.shape}"
        )
    return cross_entropy(x, target, None, ignore_index, reduction)


@ROWS["_cross_entropy_backward"].on("cuda")
def _cross_entropy_backward(
    xp: Any, x: Any, logits: Any, normalizers: Any, target: Any, ignore_index: int, reduction: str
) -> Any:
    # normalizers are what the forward above saves
    return cross_entropy_backward(x, logits, normalizers, target, None, ignore_index, reduction)


@ROWS["_cross_entropy_weighted"].on("cuda")
def _cross_entropy_weighted(
    xp: Any, x: Any, target: Any, weight: Any = None, ignore_index: int = -100,
    reduction: str = "mean", label_smoothing: float = 0.0,
) -> Any:  # fmt: skip
    if not is_floating(x, weight) or not x.size:
        raise NotImplementedError(
            f"cross_entropy: not implemented on CUDA for {x.dtype} of shape {x.shape}"
        )
    return cross_entropy(x, target, weight, ignore_index, reduction, label_smoothing)


@ROWS["_cross_entropy_weighted_backward"].on("cuda")
def _cross_entropy_weighted_backward(
    xp: Any, x: Any, logits: Any, p: Any, target: Any, weight: Any = None,
    ignore_index: int = -100, reduction: str = "mean", label_smoothing: float = 0.0,
) -> Any:  # fmt: skip
    options = ignore_index, reduction, label_smoothing
    return cross_entropy_backward(x, logits, p, target, weight, *options)


# ---- nll_loss


def sizes_of(shape: tuple[int, ...]) -> tuple[tuple[int, int, int], tuple[int, ...]]:
    """(outer, classes, inner) of (C,), (N, C) or (N, C, d1, ...), and the shape of the targets."""
    if len(shape) == 1:
        return (1, shape[0], 1), ()
    return (shape[0], shape[1], math.prod(shape[2:])), shape[:1] + shape[2:]


def sum_targets(
    x: Any,
    target: Any,
    weight: Any,
    losses: Any,
    shape: tuple[int, ...],
    ignore_index: int,
    dtype: Any,
) -> Any:
    """Launches `nll_loss`: the sums of losses and weights of the blocks, (2, blocks)."""
    outer, classes, inner = sizes_of(shape)[0]
    blocks = blocks_for(outer * inner)
    sums = cupy.ndarray((2, blocks), ACC[dtype])
    numbers = (outer, classes, inner, ignore_index)
    arguments = (x, target, weight, losses, sums, *numbers)
    launch("cross_entropy", "nll_loss", dtype, blocks, 256, arguments)
    return sums


def nll_loss(x: Any, target: Any, weight: Any, ignore_index: int, reduction: str) -> Any:
    """-weight[c] * x[c] for each class c of target; the row `_nll_loss`."""
    x, weight = contiguous(x), contiguous(weight)
    target = class_numbers("nll_loss", target, sizes_of(x.shape)[1])
    losses = cupy.ndarray(target.shape, x.dtype) if reduction == "none" else None
    if losses is not None and not losses.size:
        return losses
    sums = sum_targets(x, target, weight, losses, x.shape, ignore_index, x.dtype)
    return losses if losses is not None else finish(sums, x.dtype, reduction, None)


def nll_loss_backward(
    g: Any, target: Any, weight: Any, shape: tuple[int, ...], ignore_index: int, reduction: str
) -> Any:
    """The gradient by the input, of a shape; the row `_nll_loss_backward`."""
    sizes, expected = sizes_of(shape)
    g, weight = contiguous(g), contiguous(weight)
    target = class_numbers("nll_loss", target, expected)
    out = cupy.zeros(shape, g.dtype)
    if not target.size:
        return out
    total = None
    if reduction == "mean":
        total = cupy.ndarray((1,), ACC[g.dtype])
        sums = sum_targets(None, target, weight, None, shape, ignore_index, g.dtype)
        finish(sums, g.dtype, "sum", total)
    arguments = (g, target, weight, total, out, *sizes, ignore_index, np.int32(reduction == "none"))
    launch("cross_entropy", "nll_loss_backward", g.dtype, blocks_for(target.size), 256, arguments)
    return out


@ROWS["_nll_loss"].on("cuda")
def _nll_loss(
    xp: Any, x: Any, target: Any, weight: Any = None, ignore_index: int = -100,
    reduction: str = "none",
) -> Any:  # fmt: skip
    if not is_floating(x, weight):
        raise NotImplementedError(f"nll_loss: not implemented on CUDA for {x.dtype}")
    return nll_loss(x, target, weight, ignore_index, reduction)


@ROWS["_nll_loss_backward"].on("cuda")
def _nll_loss_backward(
    xp: Any, x: Any, target: Any, weight: Any = None, shape: tuple[int, ...] = (),
    ignore_index: int = -100, reduction: str = "none",
) -> Any:  # fmt: skip
    if weight is not None:
        weight = cast(weight, x.dtype)
    return nll_loss_backward(x, target, weight, tuple(shape), ignore_index, reduction)


@ROWS["_nll_loss_total_weight"].on("cuda")
def _nll_loss_total_weight(xp: Any, target: Any, weight: Any, ignore_index: int) -> Any:
    target = contiguous(cast(target, INT64)).reshape(-1)
    shape = (target.size, weight.shape[0])
    total = cupy.ndarray((1,), ACC[weight.dtype])
    sums = sum_targets(None, target, contiguous(weight), None, shape, ignore_index, weight.dtype)
    finish(sums, weight.dtype, "sum", total)
    return cast(total[0], weight.dtype)
