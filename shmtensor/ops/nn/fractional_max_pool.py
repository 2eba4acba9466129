"""Fractional max pooling (Graham 2014): windows of one size whose distances are drawn at random."""

from __future__ import annotations

import math
from itertools import product
from typing import Any

import numpy as np

from ..table.op_definition import composite, op
from ..table.samples import reals
from .pooling import lowest, take_better, unpool
from .sliding_window import Shape, numbers


def starts(xp: Any, samples: Any, n: int, out: int, k: int) -> Any:
    """Where `out` windows of k elements begin among n: (N, C, out), by a number from [0, 1) for
    each image. The last one ends with the image.
    """
    found = xp.full((*samples.shape, out), n - k, np.int64)
    if out > 1:
        step = samples.dtype.type(n - k) / samples.dtype.type(out - 1)
        i = xp.arange(out - 1).astype(samples.dtype)
        ahead = ((i + samples[..., None]) * step).astype(np.int64)
        found[..., :-1] = ahead - (samples * step).astype(np.int64)[..., None]
    return found


@op(
    method=False,
    function=False,
    outputs="values indices",
    samples=[
        ((2, 3, 7, 6), reals((2, 3, 2), 0.0, 1.0), (2, 3), (3, 2)),
        ((1, 2, 5, 4, 6), reals((1, 2, 3), 0.0, 1.0), (2, 1, 2), (2, 3, 4)),
    ],
)
def _fractional_max_pool(xp, x, samples, /, kernel, size):
    """The largest element of each window (NaN is larger than any), and its index in the image."""
    n, lead, inner = len(kernel), x.shape[:2], x.shape[2:]
    begin = []
    for d in range(n):
        drawn = samples[: len(x), :, n - 1 - d if n == 2 else d]  # PyTorch draws the width first
        along = (size[d] if d == e else 1 for e in range(n))
        begin.append(starts(xp, drawn, inner[d], size[d], kernel[d]).reshape(*lead, *along))
    best = xp.full((*lead, *size), lowest(x.dtype), x.dtype)
    at = xp.zeros(best.shape, np.int64)
    images = x.reshape(*lead, math.prod(inner))
    for offset in product(*map(range, kernel)):
        place = 0
        for m, first, o in zip(inner, begin, offset, strict=True):
            place = place * m + (first + o)
        rows = xp.broadcast_to(place, best.shape).reshape(*lead, math.prod(size))
        if not any(offset):
            at[...] = place  # where nothing is larger than the smallest number
        take_better(xp, best, at, xp.take_along_axis(images, rows, 2).reshape(best.shape), place)
    return best, at


_fractional_max_pool.pullback(
    x=lambda ops, g, indices, x_shape, kernel: unpool(ops, g, indices, x_shape, len(kernel))
)


def size_of(name: str, shape: Shape, kernel: Shape, size: Any, ratio: Any) -> Shape:
    """The size of the result, in numbers or as parts of the image's.

    Raises:
        ValueError: neither is given, or too many ratios.
        RuntimeError: the windows are too many.
    """
    n = len(kernel)
    inner = shape[len(shape) - n :]
    if size is None and ratio is None:
        raise ValueError(f"{name} requires specifying either an output_size or an output_ratio")
    if size is None:
        parts = [ratio] * n if isinstance(ratio, (int, float)) else list(ratio)
        if len(parts) != n:
            raise ValueError(f"{name}: output_ratio must be one number or {n}: {ratio}")
        size = tuple(int(m * r) for m, r in zip(inner, parts, strict=True))
    found = numbers(name, "output_size", size, n)
    if min(found) < 0:
        raise RuntimeError(f"{name}: output_size must not be negative: {found}")
    for m, k, out in zip(inner, kernel, found, strict=True):
        if out + k - 1 > m:
            raise RuntimeError(
                f"{name}: pool size {k} too large relative to input size {m}: {out} windows of "
                f"{kernel} in {shape}, {m - k + 1} at most"
            )
    return found


def check_samples(name: str, samples: Any, shape: Shape, dtype: Any) -> None:
    """Raises RuntimeError unless there is a number for each image and dimension."""
    n = len(shape) - 2
    given = tuple(samples.shape)
    if samples.dtype != dtype:
        raise RuntimeError(
            f"{name}: Expect _random_samples to have the same dtype as input: {samples.dtype}, "
            f"{dtype}"
        )
    if len(given) != 3 or given[0] < shape[0] or given[1:] != (shape[1], n):
        raise RuntimeError(
            f"{name}: Expect _random_samples to have shape {(*shape[:2], n)}: {given}"
        )


def fractional(ops, n, input, kernel_size, wanted, ratio, indices, samples):
    """`fractional_max_pool<n>d`."""
    name = f"fractional_max_pool{n}d"
    kernel = numbers(name, "kernel_size", kernel_size, n)
    given = tuple(input.shape)
    if min(kernel) < 1:
        raise RuntimeError(f"{name}: kernel_size must be greater than zero: {kernel}")
    if len(given) < n + 1:
        raise IndexError(f"{name}: Dimension out of range: {given}, {n + 1} or {n + 2} are needed")
    if len(given) > n + 2 or not all(given[len(given) - n - 1 :]):
        raise RuntimeError(
            f"{name}: expected {n + 1} or {n + 2} dimensions, of which only the batch's may be 0: "
            f"{given}"
        )
    size = size_of(name, given, kernel, wanted, ratio)
    if input.dtype.kind != "f":
        raise NotImplementedError(f"{name}: not implemented for {input.dtype}")
    x = ops.unsqueeze(input, 0) if len(given) == n + 1 else input
    shape = tuple(x.shape)
    if samples is None:
        samples = ops.rand(*shape[:2], n, dtype=input.dtype)
    check_samples(name, samples, shape, input.dtype)
    found = ops._fractional_max_pool(x, samples, kernel, size)
    if len(given) == n + 1:
        found = tuple(ops.squeeze(part, 0) for part in found)
    return tuple(found) if indices else found[0]


@composite(method=False, function=False, autocast="full")
def fractional_max_pool2d(
    ops,
    input,
    kernel_size,
    output_size=None,
    output_ratio=None,
    return_indices=False,
    _random_samples=None,
):
    """The largest element of each window of (N, C, H, W), as many windows as output_size, or as
    output_ratio times the image's size; where they begin is drawn at random (Graham 2014).

    Args:
        return_indices: also the places in the flattened image.
        _random_samples: (N, C, 2), numbers from [0, 1) in the place of drawn ones, for the width
            and the height.

    Raises:
        ValueError: neither output_size nor output_ratio.
        RuntimeError: windows that do not fit, or shapes.
    """
    return fractional(
        ops, 2, input, kernel_size, output_size, output_ratio, return_indices, _random_samples
    )


@composite(method=False, function=False, autocast="full")
def fractional_max_pool3d(
    ops,
    input,
    kernel_size,
    output_size=None,
    output_ratio=None,
    return_indices=False,
    _random_samples=None,
):
    """The largest element of each window of (N, C, D, H, W), as many windows as output_size, or as
    output_ratio times the image's size; where they begin is drawn at random (Graham 2014).

    Args:
        return_indices: also the places in the flattened image.
        _random_samples: (N, C, 3), numbers from [0, 1) in the place of drawn ones, for depth,
            height and width.

    Raises:
        ValueError: neither output_size nor output_ratio.
        RuntimeError: windows that do not fit, or shapes.
    """
    return fractional(
        ops, 3, input, kernel_size, output_size, output_ratio, return_indices, _random_samples
    )
