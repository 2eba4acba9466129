"""Arrays that a composite or a pullback makes itself, on the device of its operands."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from ... import cuda_arrays, native
from ...device import CPU


def data_of(x: Any) -> Any:
    """The array of a tensor, or x itself."""
    return x.array if isinstance(x, native.TensorBase) else x


def array_module(x: Any) -> Any:
    """The array module of a tensor or array: NumPy, or CuPy."""
    return cuda_arrays.array_module(data_of(x))


def on_device(x: Any) -> bool:
    """Whether a tensor or array is in other memory than NumPy's."""
    data = data_of(x)
    return hasattr(data, "dtype") and not isinstance(data, (np.ndarray, np.generic, native.dtype))


def constant(array: Any, like: Any) -> Any:
    """An array as an operand beside `like`: unchanged if `like` is in NumPy's memory, else on the
    device of `like`, and a tensor if `like` is one. Numbers are unchanged. Copies: one to a device.
    """
    data = data_of(like)
    if isinstance(data, np.ndarray) or not hasattr(array, "dtype"):
        return array
    array = cuda_arrays.move_array(array, cuda_arrays.device_of(data))
    return native.wrap(array) if data is not like else array


def filled(shape: tuple[int, ...], value: Any, dtype: Any, like: Any) -> Any:
    """An array of one number as an operand beside `like`, as `constant` returns it."""
    data = data_of(like)
    if isinstance(data, np.ndarray):
        return np.full(shape, value, dtype) if value else np.zeros(shape, dtype)
    with data.device:
        result = cuda_arrays.array_module(data).full(shape, value, dtype)
    return native.wrap(result) if data is not like else result


def eye(n: int, m: int, dtype: Any, like: Any) -> Any:
    """Ones on the diagonal and zeros elsewhere, (n, m), as an operand beside `like`."""
    data = data_of(like)
    if isinstance(data, np.ndarray):
        return np.eye(n, m, dtype=dtype)
    with data.device:
        result = cuda_arrays.array_module(data).eye(n, m, dtype=dtype)
    return native.wrap(result) if data is not like else result


def computed(make: Callable[[Any], Any], like: Any) -> Any:
    """`make(xp)`, an array of the array module of `like`, as an operand beside `like`."""
    data = data_of(like)
    if isinstance(data, np.ndarray):
        return make(np)
    xp = cuda_arrays.array_module(data)
    result = cuda_arrays.guard(lambda _: make(xp))(data)
    return native.wrap(result) if data is not like else result


def at_operands(compute: Callable[..., Any]) -> Callable[..., Any]:
    """A function of arrays that also takes tensors, for their arrays. With arrays on a device it
    runs as a kernel does: on their device, and after a kernel's checks.
    """

    @functools.wraps(compute)
    def run(*operands: Any) -> Any:
        data = [data_of(x) for x in operands]
        if any(on_device(x) for x in data):
            return cuda_arrays.guard(compute)(*data)
        return compute(*data)

    return run


def host_array(x: Any) -> Any:
    """A tensor, array or list as a NumPy array. Waits for the device, if it is on one."""
    return np.asarray(cuda_arrays.move_array(data_of(x), CPU) if on_device(x) else data_of(x))


def zeros(ops: Any, shape: tuple[int, ...], dtype: Any, like: Any) -> Any:
    """Zeros as an operand beside `like`."""
    return filled(shape, 0, dtype, like) if on_device(like) else ops.zeros(shape, dtype=dtype)


def zero_gradient(ops: Any, g: Any) -> Any:
    """The gradient of a function whose derivative is 0: zeros, also where g is infinite or NaN.
    Under `create_graph` they have no history.
    """
    return ops.zeros_like(g)
