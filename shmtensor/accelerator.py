"""`torch.accelerator`: devices other than the CPU; there are none yet."""

from __future__ import annotations

import warnings
from collections import OrderedDict
from typing import Any, NoReturn

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


def is_available() -> bool:
    """Whether there is an accelerator."""
    return False


def device_count() -> int:
    """The number of accelerators."""
    return 0


def current_accelerator(check_available: bool = False) -> Device | None:
    """The kind of accelerator in use, or None."""
    return None


def fail(where: str) -> NoReturn:
    raise DeviceMissing(f"{where}: there is no accelerator: tensors are on the CPU")


def current_device_index() -> int:
    """The number of the accelerator in use.

    Raises: RuntimeError, there is none.
    """
    fail("current_device_index")


def current_device_idx() -> int:
    """The old name of `current_device_index`.

    Raises: RuntimeError, there is none.
    """
    warnings.warn("current_device_idx: use current_device_index", FutureWarning, stacklevel=2)
    return current_device_index()


def set_device_index(device: Any, /) -> None:
    """Sets the accelerator in use; a negative number changes nothing.

    Raises:
        RuntimeError: there is none.
        ValueError: neither a number nor a device with one.
    """
    index = device if isinstance(device, int) or device is None else Device(device).index
    if index is None:
        raise ValueError(f"set_device_index: expected a number or a device with one: {device}")
    if index >= 0:
        fail("set_device_index")


def set_device_idx(device: Any, /) -> None:
    """The old name of `set_device_index`.

    Raises: RuntimeError, ValueError, as there.
    """
    warnings.warn("set_device_idx: use set_device_index", FutureWarning, stacklevel=2)
    set_device_index(device)


class device_index:
    """In a `with`, the accelerator in use; None changes nothing.

    Raises: RuntimeError, on entering; there is none.
    """

    def __init__(self, device: int | None, /) -> None:
        self.idx = device

    def __enter__(self) -> None:
        if self.idx is not None:
            fail("device_index")

    def __exit__(self, *error: object) -> None:
        """Nothing was changed."""


def synchronize(device: Any = None, /) -> None:
    """Waits for an accelerator; ops on the CPU are synchronous.

    Raises: RuntimeError, a device other than the CPU.
    """
    if device is not None and str(device) != "cpu":
        fail("synchronize")


def current_stream(device: Any = None, /) -> Any:
    """The accelerator's queue of work.

    Raises: RuntimeError, there is none.
    """
    fail("current_stream")


def set_stream(stream: Any) -> None:
    """Sets the accelerator's queue of work.

    Raises: RuntimeError, there is none.
    """
    fail("set_stream")


def get_device_capability(device: Any = None, /) -> dict[str, Any]:
    """The capability of an accelerator.

    Raises: RuntimeError, there is none.
    """
    fail("get_device_capability")


def empty_cache() -> None:
    """Releases cached memory of an accelerator.

    Raises: RuntimeError, there is none.
    """
    fail("empty_cache")


def empty_host_cache() -> None:
    """Releases cached CPU memory for copies to an accelerator.

    Raises: RuntimeError, there is none.
    """
    fail("empty_host_cache")


def get_memory_info(device_index: Any = None, /) -> tuple[int, int]:
    """Free and total bytes.

    Raises: RuntimeError, there is none.
    """
    fail("get_memory_info")


def memory_allocated(device_index: Any = None, /) -> int:
    """Bytes of tensors.

    Raises: RuntimeError, there is none.
    """
    fail("memory_allocated")


def max_memory_allocated(device_index: Any = None, /) -> int:
    """The peak number of bytes of tensors.

    Raises: RuntimeError, there is none.
    """
    fail("max_memory_allocated")


def memory_reserved(device_index: Any = None, /) -> int:
    """Bytes reserved, for tensors and in the cache.

    Raises: RuntimeError, there is none.
    """
    fail("memory_reserved")


def max_memory_reserved(device_index: Any = None, /) -> int:
    """The peak number of bytes reserved.

    Raises: RuntimeError, there is none.
    """
    fail("max_memory_reserved")


def memory_stats(device_index: Any = None, /) -> OrderedDict[str, Any]:
    """Memory statistics by name.

    Raises: RuntimeError, there is none.
    """
    fail("memory_stats")


def reset_peak_memory_stats(device_index: Any = None, /) -> None:
    """Resets the peak numbers.

    Raises: RuntimeError, there is none.
    """
    fail("reset_peak_memory_stats")


def reset_accumulated_memory_stats(device_index: Any = None, /) -> None:
    """Resets the counts of allocations.

    Raises: RuntimeError, there is none.
    """
    fail("reset_accumulated_memory_stats")
