"""The memory of GPUs: none is in use, and there is nothing to free."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

from .absent import absent, index_of

__all__ = [
    "OutOfMemoryError",
    "empty_cache",
    "get_per_process_memory_fraction",
    "max_memory_allocated",
    "max_memory_reserved",
    "mem_get_info",
    "memory_allocated",
    "memory_reserved",
    "memory_stats",
    "memory_summary",
    "reset_accumulated_memory_stats",
    "reset_max_memory_allocated",
    "reset_peak_memory_stats",
    "set_per_process_memory_fraction",
]


class OutOfMemoryError(RuntimeError):
    """A GPU has no memory left: for `except`, nothing here raises it."""


def empty_cache() -> None:
    """Frees cached memory: there is none."""


def memory_allocated(device: Any = None) -> int:
    """Bytes of tensors on a GPU: 0."""
    return 0


def max_memory_allocated(device: Any = None) -> int:
    """The maximum of bytes of tensors on a GPU so far: 0."""
    return 0


def memory_reserved(device: Any = None) -> int:
    """Bytes reserved on a GPU, for tensors and for reuse: 0."""
    return 0


def max_memory_reserved(device: Any = None) -> int:
    """The maximum of bytes reserved on a GPU so far: 0."""
    return 0


def memory_stats(device: Any = None) -> OrderedDict[str, Any]:
    """Counts of a GPU's memory by name: none."""
    return OrderedDict()


def memory_summary(device: Any = None, abbreviated: bool = False) -> str:
    """`memory_stats` as a text.

    Raises:
        ValueError: the device is not a GPU.
    """
    index_of("memory_summary", device)
    return "cuda.memory_summary: there is no CUDA device: 0 bytes are in use"


def reset_peak_memory_stats(device: Any = None) -> None:
    """Resets the maxima, which are 0.

    Raises:
        ValueError: the device is not a GPU.
    """
    index_of("reset_peak_memory_stats", device)


def reset_max_memory_allocated(device: Any = None) -> None:
    """The same as `reset_peak_memory_stats`.

    Raises:
        ValueError: the device is not a GPU.
    """
    index_of("reset_max_memory_allocated", device)


def reset_accumulated_memory_stats(device: Any = None) -> None:
    """Resets the counts of allocations, which are 0.

    Raises:
        ValueError: the device is not a GPU.
    """
    index_of("reset_accumulated_memory_stats", device)


def mem_get_info(device: Any = None) -> tuple[int, int]:
    """Free and total bytes of a GPU.

    Raises:
        DeviceMissing: there is none.
        ValueError: the device is not a GPU.
    """
    index_of("mem_get_info", device)
    raise absent("mem_get_info")


def set_per_process_memory_fraction(fraction: float, device: Any = None) -> None:
    """Limits the part of a GPU's memory that this process may use.

    Raises:
        DeviceMissing: there is none.
    """
    raise absent("set_per_process_memory_fraction")


def get_per_process_memory_fraction(device: Any = None) -> float:
    """The limit of `set_per_process_memory_fraction`.

    Raises:
        DeviceMissing: there is none.
    """
    raise absent("get_per_process_memory_fraction")
