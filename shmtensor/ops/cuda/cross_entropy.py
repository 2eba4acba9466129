"""nll_loss and cross entropy on CUDA, and their gradients.

A class that is not there makes its loss NaN: an error would have to wait for the device.
"""

from __future__ import annotations

import math
from typing import Any

import cupy
import numpy as np

from ..table.op_definition import ROWS
from .launch import (
    NULL,
    WARP,
    acc_dtype,
    as_acc,
    blocks_for,
    contiguous,
    is_floating,
    launch,
    pointers,
    row_threads,
)

__all__ = ["cross_entropy", "cross_entropy_backward", "nll_loss", "nll_loss_backward"]


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
    return contiguous(target.astype(np.int64, copy=False))


def finish(sums: Any, dtype: Any, reduction: str, total: Any) -> Any:
    """The reduced loss, from the sums of the blocks; the sum of the weights is written to `total`.

    Args:
        sums: (2, blocks).
        total: one number, or None.
    """
    out = cupy.empty((), dtype)
    blocks = np.int64(sums.shape[1])
    arguments = (sums, out, *pointers(total), blocks, np.int32(reduction == "mean"))
    launch("cross_entropy", "finish", dtype, 1, 256, arguments)
    return out


def per_row(columns: int) -> tuple[str, int, int]:
    """The kernel's suffix, the rows of a block, and its threads."""
    return ("warp", 8, 256) if columns <= WARP else ("block", 1, row_threads(columns))


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
    rows, columns = x.shape
    target = class_numbers("cross_entropy", target, (rows,))
    x, weight = contiguous(x), contiguous(weight)
    suffix, in_block, threads = per_row(columns)
    blocks = blocks_for(rows, in_block)
    saved = cupy.empty(rows + 1, acc_dtype(x.dtype))
    sums = cupy.empty((2, blocks), saved.dtype)
    losses = cupy.empty(rows, x.dtype) if reduction == "none" else None
    numbers = np.int64(rows), np.int64(columns), np.int64(ignore_index)
    arguments = (x, target, *pointers(weight), saved, *pointers(losses), sums, *numbers)
    arguments = (*arguments, as_acc(x.dtype, label_smoothing))
    launch("cross_entropy", f"cross_entropy_{suffix}", x.dtype, blocks, threads, arguments)
    out = finish(sums, x.dtype, reduction, saved[rows:])
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
    rows, columns = x.shape
    target = class_numbers("cross_entropy", target, (rows,))
    g, x, weight = contiguous(g.astype(x.dtype, copy=False)), contiguous(x), contiguous(weight)
    out = cupy.empty(x.shape, x.dtype)
    suffix, in_block, threads = per_row(columns)
    total = saved[rows:] if reduction == "mean" else NULL
    numbers = np.int64(rows), np.int64(columns), np.int64(ignore_index)
    more = as_acc(x.dtype, label_smoothing), np.int32(reduction == "none")
    arguments = (g, x, saved, target, *pointers(weight), total, out, *numbers, *more)
    function = f"cross_entropy_backward_{suffix}"
    launch("cross_entropy", function, x.dtype, blocks_for(rows, in_block), threads, arguments)
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
    xp: Any, x: Any, logits: Any, p: Any, target: Any, ignore_index: int, reduction: str
) -> Any:
    # p is what the forward above saves: not the softmax, but what it follows from
    return cross_entropy_backward(x, logits, p, target, None, ignore_index, reduction)


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
    sums = cupy.empty((2, blocks), acc_dtype(dtype))
    numbers = (outer, classes, inner, ignore_index)
    arguments = (
        *pointers(x),
        target,
        *pointers(weight, losses),
        sums,
        *(np.int64(n) for n in numbers),
    )
    launch("cross_entropy", "nll_loss", dtype, blocks, 256, arguments)
    return sums


def nll_loss(x: Any, target: Any, weight: Any, ignore_index: int, reduction: str) -> Any:
    """-weight[c] * x[c] for each class c of target; the row `_nll_loss`."""
    x, weight = contiguous(x), contiguous(weight)
    target = class_numbers("nll_loss", target, sizes_of(x.shape)[1])
    losses = cupy.empty(target.shape, x.dtype) if reduction == "none" else None
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
        total = cupy.empty(1, acc_dtype(g.dtype))
        sums = sum_targets(None, target, weight, None, shape, ignore_index, g.dtype)
        finish(sums, g.dtype, "sum", total)
    numbers = [np.int64(n) for n in (*sizes, ignore_index)]
    arguments = (g, target, *pointers(weight, total), out, *numbers, np.int32(reduction == "none"))
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
        weight = weight.astype(x.dtype, copy=False)
    return nll_loss_backward(x, target, weight, tuple(shape), ignore_index, reduction)


@ROWS["_nll_loss_total_weight"].on("cuda")
def _nll_loss_total_weight(xp: Any, target: Any, weight: Any, ignore_index: int) -> Any:
    target = contiguous(target.astype(np.int64, copy=False)).reshape(-1)
    shape = (target.size, weight.shape[0])
    total = cupy.empty(1, acc_dtype(weight.dtype))
    sums = sum_targets(None, target, contiguous(weight), None, shape, ignore_index, weight.dtype)
    finish(sums, weight.dtype, "sum", total)
    return total[0].astype(weight.dtype, copy=False)
