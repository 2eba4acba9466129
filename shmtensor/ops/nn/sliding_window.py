"""Sliding windows over the last dimensions, for convolution, pooling and unfold.

A window has `kernel` elements with the distance `dilation`; there is one every `stride` elements of
an array that is padded with `padding` elements at both ends. All four are tuples with a number for
each dimension; `fit` is the number of windows in each dimension.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterator
from itertools import product
from typing import Any

Shape = tuple[int, ...]

MAX_SIZE = 2**40  # of sizes, strides and paddings: their products with a kernel's fit in 64 bits


def expand_to_tuple(name: str, parameter: str, value: Any, n: int) -> Shape:
    """A number for each dimension, from one number or n.

    Raises:
        RuntimeError: neither one number nor n, or a number that is too large.
        TypeError: not ints.
    """
    if isinstance(value, int):
        if not -MAX_SIZE < value < MAX_SIZE:
            raise too_large(name, parameter, value)
        return (value,) * n
    values = as_ints(name, parameter, value)
    if len(values) not in (1, n):
        raise RuntimeError(f"{name}: {parameter} must be one number or {n}: {value}")
    return values * n if len(values) == 1 else values


def are_plain(values: tuple[Any, ...]) -> bool:
    """Whether all are an int, a bool, None or a tuple of ints: what is equal to such a value means
    the same, so that a check of it may be remembered. (1.0, which is no size, is equal to 1.)
    """
    for value in values:
        kind = value.__class__
        if kind is tuple:
            for v in value:
                if v.__class__ is not int:
                    return False
        elif kind is not int and kind is not bool and value is not None:
            return False
    return True


def as_ints(name: str, parameter: str, value: Any) -> Shape:
    """The numbers as ints.

    Raises:
        TypeError: not a sequence of ints.
        RuntimeError: a number that is too large.
    """
    try:
        values = tuple(map(operator.index, value))
    except TypeError:
        raise TypeError(
            f"{name}: {parameter} must be an int or a tuple of ints: {value!r}"
        ) from None
    for v in values:
        if not -MAX_SIZE < v < MAX_SIZE:
            raise too_large(name, parameter, values)
    return values


def too_large(name: str, parameter: str, value: Any) -> RuntimeError:
    """The error of a number that no size, stride or padding can be."""
    return RuntimeError(
        f"{name}: {parameter}: integer out of range: {value}, absolute values must be less than "
        f"{MAX_SIZE}"
    )


def output_sizes(
    size: Shape, kernel: Shape, stride: Shape, padding: Shape, dilation: Shape, ceil: bool = False
) -> Shape:
    """The number of windows in each dimension; `ceil`: the last one may extend beyond the padding,
    if it starts inside the array or its left padding.
    """
    sizes = []
    for n, k, s, p, d in zip(size, kernel, stride, padding, dilation, strict=True):
        room = n + 2 * p - d * (k - 1) - 1
        fit = (-(-room // s) if ceil else room // s) + 1
        if ceil and (fit - 1) * s >= n + p:
            fit -= 1
        sizes.append(fit)
    return tuple(sizes)


def pad_with(xp: Any, x: Any, before: Shape, after: Shape, value: Any = 0) -> Any:
    """x padded with one value; x itself if there is no padding."""
    if not any(before) and not any(after):
        return x
    n = len(before)
    lead, size = x.shape[: x.ndim - n], x.shape[x.ndim - n :]
    padded_size = tuple(m + a + b for m, a, b in zip(size, before, after, strict=True))
    out = (
        xp.full((*lead, *padded_size), value, x.dtype)
        if value
        else xp.zeros((*lead, *padded_size), x.dtype)
    )
    out[(..., *(slice(a, a + m) for m, a in zip(size, before, strict=True)))] = x
    return out


def window_views(xp: Any, x: Any, kernel: Shape, stride: Shape, dilation: Shape, fit: Shape) -> Any:
    """All windows of x as (..., *kernel, *fit). Copies: none, windows overlap."""
    n = len(kernel)
    lead = x.ndim - n
    steps = x.strides[lead:]
    inside = tuple(s * d for s, d in zip(steps, dilation, strict=True))
    between = tuple(s * d for s, d in zip(steps, stride, strict=True))
    return xp.lib.stride_tricks.as_strided(
        x, (*x.shape[:lead], *kernel, *fit), (*x.strides[:lead], *inside, *between)
    )


def window_elements(
    kernel: Shape, stride: Shape, dilation: Shape, fit: Shape
) -> Iterator[tuple[Shape, tuple[Any, ...]]]:
    """(offset, index) of each element of a window; the index selects it in all windows at once."""
    for offset in product(*map(range, kernel)):
        index = tuple(
            slice(o * d, o * d + s * (m - 1) + 1 if m else 0, s)
            for o, d, s, m in zip(offset, dilation, stride, fit, strict=True)
        )
        yield offset, (..., *index)


def add_windows(
    xp: Any, x: Any, size: Shape, kernel: Shape, stride: Shape, padding: Shape, dilation: Shape
) -> Any:
    """Windows (..., *kernel, *fit), each added at its position: (..., *size)."""
    n = len(kernel)
    lead, fit = x.shape[: x.ndim - 2 * n], x.shape[x.ndim - n :]
    padded_size = tuple(
        max(m + 2 * p, s * (f - 1) + d * (k - 1) + 1)
        for m, k, s, p, d, f in zip(size, kernel, stride, padding, dilation, fit, strict=True)
    )
    out = xp.zeros((*lead, *padded_size), x.dtype)
    if math.prod(fit):
        for offset, index in window_elements(kernel, stride, dilation, fit):
            part = out[index]
            part += x[(*(slice(None),) * len(lead), *offset)]
    if padded_size == size:
        return out
    return out[(..., *(slice(p, p + m) for m, p in zip(size, padding, strict=True)))]
