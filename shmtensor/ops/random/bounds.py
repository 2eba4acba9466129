"""Which numbers can be drawn for a dtype: the checks before random numbers are."""

from __future__ import annotations

import functools
import math
import warnings
from typing import Any

import numpy as np

from ... import dtypes

__all__ = ["check_drawable", "check_random_bounds", "check_uniform_bounds", "most_exact"]


def check_drawable(where: str, dtype: Any, kinds: str = "fc", error: Any = None) -> None:
    """Nothing, if numbers of the distribution can be elements of the dtype.

    Args:
        kinds: the kinds of dtypes that can, as NumPy writes them.
        error: the exception's class, NotImplementedError by default.
    """
    if dtype.kind not in kinds:
        raise (error or NotImplementedError)(f"{where}: not implemented for {dtype}")


@functools.cache
def most_exact(dtype: Any) -> int:
    """The largest whole number up to which a dtype has all of them: of floating-point ones 2 to the
    power of their digits.
    """
    if dtype.kind == "b":
        return 1
    if dtype.kind == "f":
        return int(2 / dtypes.finfo(dtype).eps)
    return min(int(np.iinfo(dtype).max), 2**63 - 1)


@functools.cache
def largest_of(dtype: Any) -> float:
    """The largest finite number of a floating-point dtype, or of a complex one's parts."""
    return float(np.finfo(dtype).max if dtype.kind == "c" else dtypes.finfo(dtype).max)


def check_random_bounds(where: str, low: int, high: int, dtype: Any) -> None:
    """Nothing, if there are whole numbers in [low, high), and the dtype can hold them; a warning if
    a floating-point dtype does not have all of them.

    Raises:
        RuntimeError: there is none, or some do not fit.
    """
    if low >= high:
        raise RuntimeError(
            f"{where}: expects 'from' to be less than 'to', but got from={low} >= to={high}"
        )
    check_drawable(where, dtype, "biuf", RuntimeError)
    exact = most_exact(dtype)
    largest = largest_of(dtype) if dtype.kind == "f" else exact
    least = 0 if dtype.kind in "bu" else -largest - (dtype.kind == "i")
    for name, value in (("from", low), ("to - 1", high - 1)):
        if not least <= value <= largest:
            raise RuntimeError(f"{where}: {name} is out of bounds for {dtype}: {value}")
        if dtype.kind == "f" and abs(value) > exact:
            warnings.warn(
                f"{where}: {name} is out of bounds [-{exact}, {exact}]: {value}, beyond which "
                f"{dtype} does not have all whole numbers",
                stacklevel=4,
            )


def check_uniform_bounds(where: str, low: float, high: float, dtype: Any) -> None:
    """Nothing, if the dtype can hold both bounds and their distance.

    Raises:
        RuntimeError: it cannot, or low is above high. NotImplementedError: whole numbers.
    """
    check_drawable(where, dtype)
    largest = largest_of(dtype)
    for name, value in (("from", low), ("to", high)):
        if not -largest <= value <= largest:
            raise RuntimeError(f"{where}: {name} is out of bounds for {dtype}: {value}")
    if low > high:
        raise RuntimeError(
            f"{where}: expects to return a [from, to) range, but found from={low} > to={high}"
        )
    if not math.isfinite(high - low) or high - low > largest:
        raise RuntimeError(
            f"{where}: expects to - from to be at most the largest {dtype}: from={low}, to={high}"
        )
