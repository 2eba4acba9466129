"""Numbers at even distances, and powers of them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .. import native

raised = native.parallel(np.power)
times = native.parallel(np.multiply)
RUN = 1024  # numbers whose powers are products of one


def line(start: Any, end: Any, n: int, dtype: Any) -> Any:
    """Evenly spaced numbers; whole ones are cut off, as a cast does."""
    if n > 1 and dtype.kind in "iuf":
        if dtype.kind in "iu":
            start, end = int(start), int(end)
        out = native.line(start, end, (end - start) / (n - 1), n, dtype.num)
        if out is not None:
            return out
    return steps_of(start, end, n, dtype).astype(dtype)


def steps_of(start: Any, end: Any, n: int, dtype: Any) -> Any:
    """n numbers in float64: the first half counted from the start, the second from the end, as
    PyTorch does.
    """
    if dtype.kind in "iu":
        start, end = int(start), int(end)
    i = np.arange(n)
    step = (end - start) / (n - 1) if n > 1 else 0.0
    return (
        np.where(i < n // 2, start + step * i, end - step * (n - 1 - i))
        if n != 1
        else np.array([start])
    )


def power(base: float, start: Any, end: Any, n: int, dtype: Any) -> Any:
    """Powers of one base."""
    with np.errstate(all="ignore"):
        if dtype == np.float32 and n > 2 * RUN and within_double(base, start, end):
            return power_runs(float(base), start, end, n)
        return raised(float(base), steps_of(start, end, n, dtype)).astype(dtype)


def within_double(base: Any, start: Any, end: Any) -> bool:
    """Whether every product of two of the powers, and of their quotients, is a normal double."""
    if isinstance(start, complex) or isinstance(end, complex) or not 0 < base < math.inf:
        return False
    return bool((abs(start) + abs(end)) * abs(math.log2(base)) < 500)


def power_runs(base: float, start: float, end: float, n: int) -> Any:
    """Powers in float32, as products in double: of each run's first power and those of the
    distances from it. The second half is counted from the end.
    """
    step, half = (end - start) / (n - 1), n // 2
    out = np.empty(n, np.float32)
    for part, first, way in ((out[:half], start, step), (out[half:][::-1], end, -step)):
        runs = -(-len(part) // RUN)
        firsts = raised(base, first + way * (np.arange(runs) * RUN))[:, None]
        products = times(firsts, raised(base, way * np.arange(RUN))).reshape(-1)
        part[...] = native.cast(products[: len(part)], part.dtype.num)
    return out
