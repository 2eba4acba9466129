"""Arrays that a composite or a pullback computes with NumPy, on the device of its operands."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from ... import native

__all__ = ["array_module", "constant", "data_of", "filled", "on_device"]


def data_of(x: Any) -> Any:
    """The array of a tensor, or x itself."""
    return x.array if isinstance(x, native.TensorBase) else x


def array_module(x: Any) -> Any:
    """The array module of a tensor or array: NumPy, or that of its device."""
    data = data_of(x)
    if isinstance(data, (np.ndarray, np.generic)):
        return np
    return sys.modules[type(data).__module__.partition(".")[0]]


def on_device(x: Any) -> bool:
    """Whether a tensor or array is in other memory than NumPy's."""
    data = data_of(x)
    return hasattr(data, "dtype") and not isinstance(data, (np.ndarray, np.generic))


def filled(shape: tuple[int, ...], value: Any, dtype: Any, like: Any) -> Any:
    """An array of one number as an operand beside `like`, as `constant` returns it."""
    data = data_of(like)
    if isinstance(data, np.ndarray):
        return np.full(shape, value, dtype) if value else np.zeros(shape, dtype)
    with data.device:
        result = array_module(data).full(shape, value, dtype)
    return native.wrap(result) if data is not like else result


def constant(array: Any, like: Any) -> Any:
    """A NumPy array as an operand beside `like`: unchanged if `like` is in NumPy's memory, else a
    tensor (or array, as `like` is one) on the device of `like`. Copies: one to a device.
    """
    data = data_of(like)
    if isinstance(data, np.ndarray) or not isinstance(array, np.ndarray):
        return array
    with data.device:
        result = array_module(data).asarray(array)
    return native.wrap(result) if data is not like else result
