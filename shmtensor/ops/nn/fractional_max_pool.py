"""Fractional max pooling (Graham 2014): windows of one size at random distances."""

from __future__ import annotations

import math
from itertools import product
from typing import Any

import numpy as np

from ... import native
from ..table.constants import on_device
from ..table.op_table import composite, op
from ..table.samples import reals
from .pooling import lowest, max_pool_backward, update_maximum
from .sliding_window import Shape, expand_to_tuple


def starts(xp: Any, samples: Any, n: int, out: int, k: int) -> Any:
    """The first element of each of `out` windows of k elements among n: (N, C, out), from a number
    of [0, 1) for each image. The last window ends with the image.
    """
    positions = xp.full((*samples.shape, out), n - k, np.int64)
    if out > 1:
        step = samples.dtype.type(n - k) / samples.dtype.type(out - 1)
        i = xp.arange(out - 1).astype(samples.dtype)
        offsets = ((i + samples[..., None]) * step).astype(np.int64)
        positions[..., :-1] = offsets - (samples * step).astype(np.int64)[..., None]
    return positions


@op(
    native=native.fractional_max_pool,
    outputs="values indices",
    samples=[
        ((2, 3, 7, 6), reals((2, 3, 2), 0.0, 1.0), (2, 3), (3, 2)),
        ((1, 2, 5, 4, 6), reals((1, 2, 3), 0.0, 1.0), (2, 1, 2), (2, 3, 4)),
    ],
)
def _fractional_max_pool(xp, x, samples, /, kernel, size):
    """The largest element of each window (NaN is larger than any), and its index in the image."""
    n, batch, inner = len(kernel), x.shape[:2], x.shape[2:]
    window_starts = []
    for d in range(n):
        numbers = samples[
            : len(x), :, n - 1 - d if n == 2 else d
        ]  # PyTorch samples the width first
        along = (size[d] if d == e else 1 for e in range(n))
        window_starts.append(
            starts(xp, numbers, inner[d], size[d], kernel[d]).reshape(*batch, *along)
        )
    best = xp.full((*batch, *size), lowest(x.dtype), x.dtype)
    indices = xp.zeros(best.shape, np.int64)
    images = x.reshape(*batch, math.prod(inner))
    for offset in product(*map(range, kernel)):
        index = 0
        for m, first, o in zip(inner, window_starts, offset, strict=True):
            index = index * m + (first + o)
        rows = xp.broadcast_to(index, best.shape).reshape(*batch, math.prod(size))
        if not any(offset):
            indices[...] = index  # where nothing is larger than the smallest number
        update_maximum(
            xp, best, indices, xp.take_along_axis(images, rows, 2).reshape(best.shape), index
        )
    return best, indices


_fractional_max_pool.pullback(
    x=lambda ops, g, indices, x_shape, kernel: max_pool_backward(
        ops, g, indices, x_shape, len(kernel)
    )
)


def output_size_of(name: str, shape: Shape, kernel: Shape, size: Any, ratio: Any) -> Shape:
    """The size of the result: `size`, or the image's size times `ratio`."""
    n = len(kernel)
    inner = shape[len(shape) - n :]
    if size is None and ratio is None:
        raise ValueError(f"{name} requires specifying either an output_size or an output_ratio")
    if size is None:
        ratios = [ratio] * n if isinstance(ratio, (int, float)) else list(ratio)
        if len(ratios) != n:
            raise ValueError(f"{name}: output_ratio must be one number or {n}: {ratio}")
        size = tuple(int(m * r) for m, r in zip(inner, ratios, strict=True))
    output_size = expand_to_tuple(name, "output_size", size, n)
    if min(output_size) < 0:
        raise RuntimeError(f"{name}: output_size must not be negative: {output_size}")
    for m, k, out in zip(inner, kernel, output_size, strict=True):
        if out + k - 1 > m:
            raise RuntimeError(
                f"{name}: pool size {k} too large relative to input size {m}: {out} windows of "
                f"{kernel} in {shape}, {m - k + 1} at most"
            )
    return output_size


def check_samples(name: str, samples: Any, shape: Shape, dtype: Any) -> None:
    """Raises RuntimeError unless there is a number for each image and dimension."""
    n = len(shape) - 2
    samples_shape = tuple(samples.shape)
    if samples.dtype != dtype:
        raise RuntimeError(
            f"{name}: Expect _random_samples to have the same dtype as input: "
            f"{samples.dtype.name}, "
            f"{dtype.name}"
        )
    if len(samples_shape) != 3 or samples_shape[0] < shape[0] or samples_shape[1:] != (shape[1], n):
        raise RuntimeError(
            f"{name}: Expect _random_samples to have shape {(*shape[:2], n)}: {samples_shape}"
        )


def fractional(ops, n, input, kernel_size, output_size, ratio, indices, samples):
    """`fractional_max_pool<n>d`."""
    name = f"fractional_max_pool{n}d"
    kernel = expand_to_tuple(name, "kernel_size", kernel_size, n)
    input_shape = tuple(input.shape)
    if min(kernel) < 1:
        raise RuntimeError(f"{name}: kernel_size must be greater than zero: {kernel}")
    if len(input_shape) < n + 1:
        raise IndexError(
            f"{name}: Dimension out of range: {input_shape}, {n + 1} or {n + 2} are needed"
        )
    if len(input_shape) > n + 2 or not all(input_shape[len(input_shape) - n - 1 :]):
        raise RuntimeError(
            f"{name}: expected {n + 1} or {n + 2} dimensions, of which only the batch's may be 0: "
            f"{input_shape}"
        )
    size = output_size_of(name, input_shape, kernel, output_size, ratio)
    if input.dtype.kind != "f":
        raise NotImplementedError(f"{name}: not implemented for {input.dtype.name}")
    x = ops.unsqueeze(input, 0) if len(input_shape) == n + 1 else input
    shape = tuple(x.shape)
    if samples is None:
        device = input.device if on_device(input) else None
        samples = ops.rand(*shape[:2], n, dtype=input.dtype, device=device)
    check_samples(name, samples, shape, input.dtype)
    results = ops._fractional_max_pool(x, samples, kernel, size)
    if len(input_shape) == n + 1:
        results = tuple(ops.squeeze(part, 0) for part in results)
    return tuple(results) if indices else results[0]


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
    """The largest element of each window, whose positions are random and irregular (Graham 2014).

    Parameters
    ----------
    input : Tensor
        `(N, C, H, W)` or `(C, H, W)`.
    kernel_size : int or (int, int)
        Elements of a window.
    output_size : int or (int, int), optional
        How many windows there are.
    output_ratio : float or 2 of them, optional
        How many windows there are as a share of the input's size, instead of output_size.
    return_indices : bool, optional
        Whether the elements' places are returned, too.
    _random_samples : Tensor, optional
        `(N, C, 2)`: numbers from [0, 1) instead of random ones, for width and height.

    Returns
    -------
    Tensor
        `(N, C, *output_size)` or `(C, *output_size)`. With return_indices a pair with their int64
        indices in the flattened `(H, W)`.

    Raises
    ------
    ValueError
        Neither output_size nor output_ratio is given.
    RuntimeError
        Windows or shapes do not fit.

    See Also
    --------
    nn.FractionalMaxPool2d

    Examples
    --------
    >>> F.fractional_max_pool2d(st.ones(1, 3, 9, 9), 2, output_size=5).shape
    Size([1, 3, 5, 5])
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
    """The largest element of each window, whose positions are random and irregular (Graham 2014).

    Parameters
    ----------
    input : Tensor
        `(N, C, D, H, W)` or `(C, D, H, W)`.
    kernel_size : int or (int, int, int)
        Elements of a window.
    output_size : int or (int, int, int), optional
        How many windows there are.
    output_ratio : float or 3 of them, optional
        How many windows there are as a share of the input's size, instead of output_size.
    return_indices : bool, optional
        Whether the elements' places are returned, too.
    _random_samples : Tensor, optional
        `(N, C, 3)`: numbers from [0, 1) instead of random ones, for depth, height and width.

    Returns
    -------
    Tensor
        `(N, C, *output_size)` or `(C, *output_size)`. With return_indices a pair with their int64
        indices in the flattened `(D, H, W)`.

    Raises
    ------
    ValueError
        Neither output_size nor output_ratio is given.
    RuntimeError
        Windows or shapes do not fit.

    See Also
    --------
    nn.FractionalMaxPool3d

    Examples
    --------
    >>> F.fractional_max_pool3d(st.ones(1, 3, 9, 9, 9), 2, output_ratio=0.5).shape
    Size([1, 3, 4, 4, 4])
    """
    return fractional(
        ops, 3, input, kernel_size, output_size, output_ratio, return_indices, _random_samples
    )
