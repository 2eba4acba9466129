"""Operands of the collectives: their arrays, and timeouts in seconds."""

from __future__ import annotations

from datetime import timedelta
from math import inf
from typing import Any

import numpy as np

from ... import native

Array = np.ndarray[Any, np.dtype[Any]]


def seconds(timeout: float | timedelta | None) -> float:
    """A timeout in the form that native code takes: seconds, negative for no limit."""
    if timeout is None:
        return -1.0
    value = timeout.total_seconds() if isinstance(timeout, timedelta) else float(timeout)
    if value < 0:
        raise ValueError(f"distributed: the timeout is negative: {value} s")
    return -1.0 if value == inf else value


def array_of(where: str, operand: Any) -> Array:
    """The array of a Tensor or ndarray: NumPy's or, for a tensor on a GPU, CuPy's."""
    array: Any = operand if isinstance(operand, np.ndarray) else getattr(operand, "array", None)
    if not native.is_array(array):
        raise TypeError(f"{where}: takes a Tensor or an ndarray: got {type(operand).__name__}")
    result: Array = array
    return result


def bump_version(operand: Any) -> None:
    """Tells autograd that the tensor's memory was written: a backward for which the tensor was
    saved must fail.
    """
    version = getattr(operand, "version", None)
    if version is not None and not isinstance(operand, np.ndarray):
        version.count += 1
