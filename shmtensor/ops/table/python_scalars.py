"""Python numbers as elements of a dtype: which fit, and what they become."""

from __future__ import annotations

from typing import Any

import numpy as np

from ... import dtypes, native
from .constants import constant


def bounds(dtype: Any) -> tuple[Any, Any]:
    """The smallest and the largest number; a negative one wraps around if the dtype is unsigned."""
    if dtype.kind == "b":
        return -np.inf, np.inf
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        return int(-info.max if dtype.kind == "u" else info.min), int(info.max)
    if dtype is dtypes.bfloat16 or dtype.kind == "f":
        return dtypes.finfo(dtype).min, dtypes.finfo(dtype).max
    part = np.finfo(dtype)
    return float(part.min), float(part.max)


BOUNDS = {dtype: bounds(dtype) for dtype in dtypes.ALL}


def fits_dtype(name: str, value: Any, dtype: Any) -> None:
    """Checks that a number can be an element.

    Raises:
        RuntimeError: it is too large for the dtype, or complex or NaN where the dtype is not.
    """
    parts: tuple[Any, ...] = (value,)
    if isinstance(value, complex):
        if value.imag and dtype.kind not in "bc":
            raise overflow_error(name, value, dtype)
        parts = (value.real, value.imag)
    low, high = BOUNDS[dtype]
    if dtype.kind == "u" and not isinstance(value, int):
        low = 0
    for part in parts:
        if not low <= part <= high:
            if dtype.kind in "fc" and (part != part or part in (np.inf, -np.inf)):
                continue
            if dtype.kind != "b":
                if isinstance(part, int):
                    check_64_bits(part)
                raise overflow_error(name, value, dtype)


def overflow_error(name: str, value: Any, dtype: Any) -> RuntimeError:
    reason = "a complex value does not fit: " if isinstance(value, complex) else ""
    return RuntimeError(
        f"{name}: {reason}value cannot be converted to type {dtype} without overflow: {value!r}"
    )


def check_64_bits(value: int) -> int:
    """The number."""
    if not -(1 << 63) <= value < 1 << 64:
        raise OverflowError(f"number: int too big to convert: {value}, 64 bits are the most")
    return value


def as_element(name: str, value: Any, dtype: Any) -> Any:
    """A number that fits, as a 0-d array; below 0 it wraps around if the dtype is unsigned."""
    fits_dtype(name, value, dtype)
    if dtype.kind == "b":
        value = bool(value)
    elif isinstance(value, complex) and dtype.kind != "c":
        value = value.real
    if dtype.kind == "u" and value < 0:
        value = int(value) & ((1 << 8 * dtype.itemsize) - 1)
    return np.asarray(value, dtype)


def as_operand_of(name: str, value: Any, like: Any) -> Any:
    """A number that fits, as an operand for a tensor or an array: 0-d, of its dtype."""
    element = constant(as_element(name, value, like.dtype), like)
    is_tensor = isinstance(like, native.TensorBase) and not isinstance(element, native.TensorBase)
    return native.wrap(element) if is_tensor else element


def as_assigned(value: Any, dtype: Any) -> Any:
    """An assigned number, as a 0-d array. If it is too large for a 16-bit float, it is infinite."""
    if isinstance(value, complex) and value.imag and dtype.kind not in "bc":
        raise RuntimeError(
            f"index assignment: a complex number does not fit into a {dtype} tensor: {value}, "
            f"hint: {value}.real"
        )
    if dtype.kind == "f" and dtype.itemsize == 2 and not isinstance(value, complex):
        with np.errstate(all="ignore"):
            return np.asarray(value).astype(dtype)
    return as_element("index assignment", value, dtype)
