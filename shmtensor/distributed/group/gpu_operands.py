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

from ... import cupy_runtime
from ...memory.layout import empty_shared

T = TypeVar("T")
Array = np.ndarray[Any, np.dtype[Any]]  # or CuPy's

__all__ = ["after_queued_work", "assign", "contiguous_on_gpu", "host_copy", "is_on_gpu"]


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


def after_queued_work(call: Callable[[], T]) -> Callable[[], T]:
    """The call, on whatever thread, after the work that is queued now on the current GPU; it ends
    when its own work has.
    """
    if not cupy_runtime.state.initialized:
        return call
    cuda = cupy_runtime.initialize().cuda
    device = cuda.Device()
    queued = cuda.get_current_stream().record(cuda.Event(disable_timing=True))

    def run() -> T:
        with device:
            stream = cuda.get_current_stream()
            stream.wait_event(queued)
            result = call()
            stream.synchronize()
        return result

    return run
