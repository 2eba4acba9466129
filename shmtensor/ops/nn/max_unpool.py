"""`max_unpool`: the inverse of `max_pool`, for images (N, C, *size) or (C, *size)."""

from __future__ import annotations

import math

import numpy as np

from ... import native
from ..table.op_table import ROWS, op
from ..table.samples import ints
from .pooling import chosen_elements
from .sliding_window import as_ints, expand_to_tuple


@op(
    samples=[
        ((2, 3, 4), ints((2, 3, 4), 9, unique=True), (9,)),
        ((1, 2, 2, 3), ints((1, 2, 2, 3), 20, unique=True), (4, 5)),
    ],
    layout="images x",
    vmap="alone",
)
def _max_unpool(xp, x, indices, /, size):
    """Zeros in images of a size, with each number at its index."""
    lead = x.shape[: x.ndim - len(size)]
    rows = (*lead, math.prod(x.shape[len(lead) :]))
    out = xp.zeros((*lead, math.prod(size)), x.dtype)
    source, places = x.reshape(rows), indices.reshape(rows)
    if places.size and not native.scatter(out, source, places, -1, 0):
        out = ROWS["_scatter"].forward(xp, out, source, places, -1)
    return out.reshape(*lead, *size)


_max_unpool.pullback(x=lambda ops, g, indices, size: chosen_elements(ops, g, indices, len(size)))


def max_unpool(ops, n, input, indices, kernel_size, stride, padding, output_size):
    """`max_unpool<n>d`."""
    name = f"max_unpool{n}d"
    kernel = expand_to_tuple(name, "kernel_size", kernel_size, n)
    stride = kernel if stride is None else expand_to_tuple(name, "stride", stride, n)
    padding = expand_to_tuple(name, "padding", padding, n)
    shape = tuple(input.shape)
    if min(kernel) < 1 or min(stride) < 1:
        raise RuntimeError(
            f"{name}: kernel_size and stride must be greater than zero: {kernel}, {stride}"
        )
    if indices.dtype != np.int64:
        raise RuntimeError(f"{name}: indices should be int64: {indices.dtype.name}")
    if shape != tuple(indices.shape):
        raise RuntimeError(
            f"{name}: indices must have input's shape: {tuple(indices.shape)}, {shape}"
        )
    if len(shape) not in (n + 1, n + 2):
        raise RuntimeError(f"{name}: expected {n + 1} or {n + 2} dimensions: {shape}")
    inner = shape[len(shape) - n :]
    default_size = tuple(
        (m - 1) * s + k - 2 * p for m, s, k, p in zip(inner, stride, kernel, padding, strict=True)
    )
    size = default_size if output_size is None else as_ints(name, "output_size", output_size)
    if len(size) == n + 2:
        size = size[2:]
    if len(size) != n:
        raise ValueError(f"{name}: output_size must have {n} or {n + 2} numbers: {output_size}")
    is_near = all(abs(a - b) < s for a, b, s in zip(size, default_size, stride, strict=True))
    if not is_near or min(size) < 0:
        raise ValueError(f"{name}: invalid output_size: {size}, near {default_size} is expected")
    try:
        return ops._max_unpool(input, indices, size)
    except RuntimeError as error:
        raise RuntimeError(f"{name}: output size {size}: {error}") from None
