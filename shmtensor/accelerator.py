"""`torch.accelerator`: the GPUs, by names that are not CUDA's; without one, PyTorch's answers.

Functions that need a GPU raise `DeviceMissing`, a RuntimeError and an AssertionError.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, TypeVar

from . import cuda, cupy_runtime, dtypes
from .device import Device, DeviceMissing

__all__ = [
    "current_accelerator",
    "current_device_idx",
    "current_device_index",
    "current_stream",
    "device_count",
    "device_index",
    "empty_cache",
    "empty_host_cache",
    "get_device_capability",
    "get_memory_info",
    "is_available",
    "max_memory_allocated",
    "max_memory_reserved",
    "memory_allocated",
    "memory_reserved",
    "memory_stats",
    "reset_accumulated_memory_stats",
    "reset_peak_memory_stats",
    "set_device_idx",
    "set_device_index",
    "set_stream",
    "synchronize",
]

R = TypeVar("R")

SUPPORTED = (
    dtypes.float64, dtypes.float32, dtypes.float16, dtypes.complex128, dtypes.complex64,
    dtypes.int64, dtypes.int32, dtypes.int16, dtypes.int8, dtypes.uint8, dtypes.bool,
)  # fmt: skip


def is_available() -> bool:
    """Whether there is an accelerator."""
    return cupy_runtime.is_available()


def device_count() -> int:
    """The number of accelerators."""
    return cupy_runtime.device_count()


def current_accelerator(check_available: bool = False) -> Device | None:
    """The kind of accelerator: `device("cuda")`, or None if there is none."""
    return Device("cuda") if is_available() else None


def require(where: str) -> None:
    """Raises unless there is an accelerator."""
    if not is_available():
        raise DeviceMissing(f"{where}: there is no accelerator: tensors are on the CPU")


def current_device_index() -> int:
    """The number of the accelerator in use.

    Raises: DeviceMissing, there is none.
    """
    require("current_device_index")
    return cuda.current_device()


def current_device_idx() -> int:
    """The old name of `current_device_index`.

    Raises: DeviceMissing, there is none.
    """
    warnings.warn("current_device_idx: use current_device_index", FutureWarning, stacklevel=2)
    return current_device_index()


def set_device_index(device: Any, /) -> None:
    """Sets the accelerator in use; a negative number changes nothing.

    Raises:
        DeviceMissing: it is not there.
        ValueError: neither a number nor a device with one.
    """
    index = device if isinstance(device, int) or device is None else Device(device).index
    if index is None:
        raise ValueError(f"set_device_index: expected a number or a device with one: {device}")
    if index >= 0:
        require("set_device_index")
        cuda.set_device(index)


def set_device_idx(device: Any, /) -> None:
    """The old name of `set_device_index`.

    Raises: DeviceMissing, ValueError, as there.
    """
    warnings.warn("set_device_idx: use set_device_index", FutureWarning, stacklevel=2)
    set_device_index(device)


class device_index:
    """In a `with`, the accelerator in use; None changes nothing.

    Raises: DeviceMissing, on entering; it is not there.
    """

    def __init__(self, device: int | None, /) -> None:
        self.idx = device
        self.context = cuda.device(device)

    def __enter__(self) -> None:
        if self.idx is not None:
            require("device_index")
            self.context.__enter__()

    def __exit__(self, *error: object) -> None:
        """Restores the accelerator in use."""
        self.context.__exit__(*error)


def synchronize(device: Any = None, /) -> None:
    """Waits for an accelerator; without one, or for the CPU, there is nothing to wait for.

    Raises: DeviceMissing, an accelerator that is not there.
    """
    if device is None and not is_available():
        return
    if str(device) != "cpu":
        require("synchronize")
        cuda.synchronize(device)


def get_device_capability(device: Any = None, /) -> dict[str, Any]:
    """What an accelerator can do: the dtypes that tensors there may have, by "supported_dtypes".

    Raises: DeviceMissing, there is none.
    """
    require("get_device_capability")
    cuda.get_device_properties(device)
    return {"supported_dtypes": set(SUPPORTED)}


def empty_host_cache() -> None:
    """Releases cached CPU memory for copies to an accelerator.

    Raises: DeviceMissing, there is none.
    """
    require("empty_host_cache")
    cupy_runtime.initialize().get_default_pinned_memory_pool().free_all_blocks()


def current_stream(device: Any = None, /) -> cuda.Stream:
    """The accelerator's queue of work.

    Raises: DeviceMissing, there is none.
    """
    require("current_stream")
    return cuda.current_stream(device)


def set_stream(stream: Any) -> None:
    """Sets the accelerator's queue of work.

    Raises: DeviceMissing, there is none.
    """
    require("set_stream")
    cuda.set_stream(stream)


def empty_cache() -> None:
    """Releases cached memory of an accelerator.

    Raises: DeviceMissing, there is none.
    """
    require("empty_cache")
    cuda.empty_cache()


def of_device(name: str, function: Callable[..., R], doc: str) -> Callable[..., R]:
    """A function of `cuda` that takes a device, under a name of this module."""

    def call(device_index: Any = None, /) -> R:
        require(name)
        return function(device_index)

    call.__name__ = call.__qualname__ = name
    call.__doc__ = f"{doc}\n\n    Raises: DeviceMissing, there is none.\n    "
    return call


get_memory_info = of_device("get_memory_info", cuda.mem_get_info, "Free and total bytes.")
memory_allocated = of_device("memory_allocated", cuda.memory_allocated, "Bytes of tensors.")
max_memory_allocated = of_device(
    "max_memory_allocated", cuda.max_memory_allocated, "The peak number of bytes of tensors."
)
memory_reserved = of_device(
    "memory_reserved", cuda.memory_reserved, "Bytes reserved, for tensors and in the cache."
)
max_memory_reserved = of_device(
    "max_memory_reserved", cuda.max_memory_reserved, "The peak number of bytes reserved."
)
memory_stats = of_device("memory_stats", cuda.memory_stats, "Memory statistics by name.")
reset_peak_memory_stats = of_device(
    "reset_peak_memory_stats", cuda.reset_peak_memory_stats, "Resets the peak numbers."
)
reset_accumulated_memory_stats = of_device(
    "reset_accumulated_memory_stats",
    cuda.reset_accumulated_memory_stats,
    "Checks the device only, as `cuda.reset_accumulated_memory_stats`.",
)
