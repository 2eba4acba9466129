"""Numbers at even distances, and powers of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import native

raised = native.parallel(np.power)


def line(start: Any, end: Any, n: int, dtype: Any) -> Any:
    """Evenly spaced numbers; whole ones are cut off, as a cast does."""
    if n > 1 and dtype.char in "fd":
        step, half = (end - start) / (n - 1), n // 2
        low = native.steps(float(start), step, half, dtype.num)
        high = native.steps(float(end), -step, n - half, dtype.num)  # from the end, as `steps_of`
        if low is not None and high is not None:
            return np.concatenate((low, high[::-1]))
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
        return raised(float(base), steps_of(start, end, n, dtype)).astype(dtype)
