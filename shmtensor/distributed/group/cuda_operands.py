"""Operands on GPUs: copies through shared host memory for backends that do not take them, and the
order of a collective with the caller's work.

A collective may run in another thread, on that thread's current stream. So its GPU part begins
after the work that the caller has queued before the call, and the call is done when its own work on
the GPU has ended.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from ... import cupy_runtime, native
from ...memory.layout import empty_shared

T = TypeVar("T")
Array = np.ndarray[Any, np.dtype[Any]]  # or CuPy's


def is_on_gpu(array: Any) -> bool:
    """Whether an array is CuPy's."""
    return not isinstance(array, np.ndarray)


def host_copy(array: Any) -> Array:
    """A GPU array in shared host memory, when its work has ended. Copies: one."""
    result: Array = empty_shared(array.shape, array.dtype)
    assign(result, array)
    return result


def contiguous_on_gpu(array: Any) -> Array:
    """The array, or a copy in row order. Copies: none or one."""
    with array.device:
        result: Array = cupy_runtime.initialize().ascontiguousarray(array)
    return result


def assign(target: Any, source: Any) -> None:
    """Writes an array to another one, each on the host or on a GPU. Copies: one."""
    if not is_on_gpu(target):
        if is_on_gpu(source):
            with source.device:
                source = source.get()
        np.copyto(target, source)
        return
    with target.device:
        target[...] = source if is_on_gpu(source) else cupy_runtime.initialize().asarray(source)


def devices_of(operands: Any) -> list[Any]:
    """CuPy's devices of the tensors on a GPU among operands."""
    values = operands if isinstance(operands, (list, tuple)) else [operands]
    arrays: list[Any] = [getattr(x, "array", x) for x in values]
    numbers = {a.device.id for a in arrays if native.is_array(a) and is_on_gpu(a)}
    return [cupy_runtime.initialize().cuda.Device(number) for number in sorted(numbers)]


def after_queued_work(call: Callable[[], T], operands: Any) -> Callable[[], T]:
    """The call, on whatever thread, after the work that is queued now on the GPUs of its operands;
    it ends when its own work has. Itself if no operand is on a GPU.
    """
    devices = devices_of(operands) if cupy_runtime.state.initialized else []
    if not devices:
        return call
    cuda = cupy_runtime.initialize().cuda
    queued = []
    for device in devices:
        with device:
            event = cuda.Event(disable_timing=True)
            queued.append(cuda.get_current_stream().record(event) or event)

    def run() -> T:
        for device, event in zip(devices, queued):
            with device:
                cuda.get_current_stream().wait_event(event)
        with devices[0]:
            result = call()
        for device in devices:
            with device:
                cuda.get_current_stream().synchronize()
        return result

    return run
