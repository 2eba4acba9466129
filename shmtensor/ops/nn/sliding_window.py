"""Windows over the last dimensions: what convolution, pooling and unfolding have in common.

A window is `kernel` elements, `dilation` apart, one every `stride` elements, over an array in a
frame of `padding` elements on either side. All four are tuples, one number a dimension.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterator
from itertools import product
from typing import Any

__all__ = ["added_back", "counts", "each", "ints", "numbers", "padded", "views"]

Shape = tuple[int, ...]


def numbers(name: str, what: str, value: Any, n: int) -> Shape:
    """One number a dimension, from one number or as many as there are dimensions.

    Raises:
        RuntimeError: another number of them.
        TypeError: something that is no int.
    """
    given = (value,) if isinstance(value, int) else ints(name, what, value)
    if len(given) not in (1, n):
        raise RuntimeError(f"{name}: {what} must be one number or {n}: {value}")
    return given * n if len(given) == 1 else given


def ints(name: str, what: str, value: Any) -> Shape:
    """The numbers as ints.

    Raises:
        TypeError: one of them is none, or these are no numbers at all.
    """
    try:
        return tuple(map(operator.index, value))
    except TypeError:
        raise TypeError(f"{name}: {what} must be an int or a tuple of ints: {value!r}") from None


def counts(
    size: Shape, kernel: Shape, stride: Shape, padding: Shape, dilation: Shape, ceil: bool = False
) -> Shape:
    """How many windows fit in each dimension; `ceil`: the last one may reach beyond the frame, if
    it starts inside the array or its left frame.
    """
    found = []
    for n, k, s, p, d in zip(size, kernel, stride, padding, dilation, strict=True):
        room = n + 2 * p - d * (k - 1) - 1
        fit = (-(-room // s) if ceil else room // s) + 1
        if ceil and (fit - 1) * s >= n + p:
            fit -= 1
        found.append(fit)
    return tuple(found)


def padded(xp: Any, x: Any, before: Shape, after: Shape, value: Any = 0) -> Any:
    """x in a frame of one value; x itself where the frame is empty."""
    if not any(before) and not any(after):
        return x
    n = len(before)
    lead, size = x.shape[: x.ndim - n], x.shape[x.ndim - n :]
    whole = tuple(m + a + b for m, a, b in zip(size, before, after, strict=True))
    out = xp.full((*lead, *whole), value, x.dtype) if value else xp.zeros((*lead, *whole), x.dtype)
    out[(..., *(slice(a, a + m) for m, a in zip(size, before, strict=True)))] = x
    return out


def views(xp: Any, x: Any, kernel: Shape, stride: Shape, dilation: Shape, fit: Shape) -> Any:
    """All windows of x as (..., *kernel, *fit). Copies: none, windows overlap."""
    n = len(kernel)
    lead = x.ndim - n
    steps = x.strides[lead:]
    inside = tuple(s * d for s, d in zip(steps, dilation, strict=True))
    between = tuple(s * d for s, d in zip(steps, stride, strict=True))
    return xp.lib.stride_tricks.as_strided(
        x, (*x.shape[:lead], *kernel, *fit), (*x.strides[:lead], *inside, *between)
    )


def each(
    kernel: Shape, stride: Shape, dilation: Shape, fit: Shape
) -> Iterator[tuple[Shape, tuple[Any, ...]]]:
    """(offset, index) of each element of a window: the index names it in all windows at once."""
    for offset in product(*map(range, kernel)):
        index = tuple(
            slice(o * d, o * d + s * (m - 1) + 1 if m else 0, s)
            for o, d, s, m in zip(offset, dilation, stride, fit, strict=True)
        )
        yield offset, (..., *index)


def added_back(
    xp: Any, x: Any, size: Shape, kernel: Shape, stride: Shape, padding: Shape, dilation: Shape
) -> Any:
    """Windows (..., *kernel, *fit) added up where they came from: (..., *size)."""
    n = len(kernel)
    lead, fit = x.shape[: x.ndim - 2 * n], x.shape[x.ndim - n :]
    reach = tuple(
        max(m + 2 * p, s * (f - 1) + d * (k - 1) + 1)
        for m, k, s, p, d, f in zip(size, kernel, stride, padding, dilation, fit, strict=True)
    )
    out = xp.zeros((*lead, *reach), x.dtype)
    if math.prod(fit):
        for offset, index in each(kernel, stride, dilation, fit):
            part = out[index]
            part += x[(*(slice(None),) * len(lead), *offset)]
    if reach == size:
        return out
    return out[(..., *(slice(p, p + m) for m, p in zip(size, padding, strict=True)))]
