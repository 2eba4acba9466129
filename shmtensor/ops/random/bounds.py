"""Checks of dtypes and bounds of random numbers."""

from __future__ import annotations

import functools
import math
import warnings
from typing import Any

import numpy as np

from ... import dtypes


def check_random_dtype(name: str, dtype: Any, kinds: str = "fc", error: Any = None) -> None:
    """Checks that the distribution is defined for the dtype.

    Args:
        kinds: the possible kinds of dtypes, as in NumPy.
        error: the exception's class, NotImplementedError by default.
    """
    if dtype.kind not in kinds:
        raise (error or NotImplementedError)(f"{name}: not implemented for {dtype.name}")


@functools.cache
def max_exact_integer(dtype: Any) -> int:
    """The largest integer up to which a dtype has all integers: for floating-point dtypes 2 to the
    power of their digits.
    """
    if dtype.kind == "b":
        return 1
    if dtype.kind == "f":
        return int(2 / dtypes.finfo(dtype).eps)
    return min(int(np.iinfo(dtype).max), 2**63 - 1)


@functools.cache
def finite_max(dtype: Any) -> float:
    """The largest finite number of a floating-point dtype, or of a complex one's parts."""
    return float(np.finfo(dtype).max if dtype.kind == "c" else dtypes.finfo(dtype).max)


def check_random_bounds(name: str, low: int, high: int, dtype: Any) -> None:
    """Checks that there are integers in [low, high), and that the dtype holds them; warns if a
    floating-point dtype does not have all of them.
    """
    if low >= high:
        raise RuntimeError(
            f"{name}: expects 'from' to be less than 'to', but got from={low} >= to={high}"
        )
    check_random_dtype(name, dtype, "biuf", RuntimeError)
    exact = max_exact_integer(dtype)
    largest = finite_max(dtype) if dtype.kind == "f" else exact
    smallest = 0 if dtype.kind in "bu" else -largest - (dtype.kind == "i")
    for bound_name, value in (("from", low), ("to - 1", high - 1)):
        if not smallest <= value <= largest:
            raise RuntimeError(f"{name}: {bound_name} is out of bounds for {dtype.name}: {value}")
        if dtype.kind == "f" and abs(value) > exact:
            warnings.warn(
                f"{name}: {bound_name} is out of bounds [-{exact}, {exact}]: {value}, beyond which "
                f"{dtype.name} does not have all whole numbers",
                stacklevel=4,
            )


def check_uniform_bounds(name: str, low: float, high: float, dtype: Any) -> None:
    """Checks that the dtype holds both bounds and their distance."""
    check_random_dtype(name, dtype)
    largest = finite_max(dtype)
    for bound_name, value in (("from", low), ("to", high)):
        if not -largest <= value <= largest:
            raise RuntimeError(f"{name}: {bound_name} is out of bounds for {dtype.name}: {value}")
    if low > high:
        raise RuntimeError(
            f"{name}: expects to return a [from, to) range, but found from={low} > to={high}"
        )
    if not math.isfinite(high - low) or high - low > largest:
        raise RuntimeError(
            f"{name}: expects to - from to be at most the largest {dtype.name}: from={low}, "
            f"to={high}"
        )
