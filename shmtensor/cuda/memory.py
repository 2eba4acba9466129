"""The memory of GPUs: what tensors use, what is reserved, and what is free.

The figures are the allocator's (`shmtensor.memory.cuda`). Without a GPU, or before the first use of
one, they are 0, and there is nothing to free.
"""

from __future__ import annotations

import warnings
from collections import OrderedDict
from typing import Any

from .. import cupy_runtime
from ..errors import OutOfMemoryError as OutOfMemoryError
from .absent import absent, cupy_for, current_or, index_of
from .devices import get_device_properties, is_available

__all__ = [
    "OutOfMemoryError",
    "empty_cache",
    "get_per_process_memory_fraction",
    "max_memory_allocated",
    "max_memory_cached",
    "max_memory_reserved",
    "mem_get_info",
    "memory_allocated",
    "memory_cached",
    "memory_reserved",
    "memory_stats",
    "memory_summary",
    "reset_accumulated_memory_stats",
    "reset_max_memory_allocated",
    "reset_max_memory_cached",
    "reset_peak_memory_stats",
    "set_per_process_memory_fraction",
]

fractions: dict[int, float] = {}  # of `set_per_process_memory_fraction`, by device


def allocator() -> Any:
    """The functions of the allocator; imported here, because they import CuPy."""
    from ..memory import cuda

    return cuda


def figure(where: str, device: Any) -> int:
    """A figure of the allocator on a GPU; 0 before the first use of CUDA."""
    index = index_of(where, device)
    if not cupy_runtime.is_initialized():
        return 0
    return int(getattr(allocator(), where)(current_or(where, index)))


def empty_cache() -> None:
    """Returns memory that no tensor uses to the driver."""
    if cupy_runtime.is_initialized():
        allocator().empty_cache()


def memory_allocated(device: Any = None) -> int:
    """Bytes of tensors on a GPU, in whole blocks of 512."""
    return figure("memory_allocated", device)


def max_memory_allocated(device: Any = None) -> int:
    """The maximum of `memory_allocated` so far."""
    return figure("max_memory_allocated", device)


def memory_reserved(device: Any = None) -> int:
    """Bytes that this process has of a GPU, for tensors and for reuse."""
    return figure("memory_reserved", device)


def max_memory_reserved(device: Any = None) -> int:
    """The maximum of `memory_reserved` so far."""
    return figure("max_memory_reserved", device)


def memory_cached(device: Any = None) -> int:
    """The old name of `memory_reserved`."""
    warnings.warn("cuda.memory_cached: use memory_reserved", FutureWarning, stacklevel=2)
    return memory_reserved(device)


def max_memory_cached(device: Any = None) -> int:
    """The old name of `max_memory_reserved`."""
    warnings.warn("cuda.max_memory_cached: use max_memory_reserved", FutureWarning, stacklevel=2)
    return max_memory_reserved(device)


def memory_stats(device: Any = None) -> OrderedDict[str, Any]:
    """Counts of a GPU's memory by name: "allocated_bytes.all.current" and others; empty before the
    first use of CUDA.
    """
    index = index_of("memory_stats", device)
    if not cupy_runtime.is_initialized():
        return OrderedDict()
    stats = allocator().memory_stats(current_or("memory_stats", index))
    return OrderedDict(sorted(stats.items()))


def memory_summary(device: Any = None, abbreviated: bool = False) -> str:
    """What a GPU's memory is used for, as a text.

    Raises:
        ValueError: the device is not a GPU.
    """
    index = index_of("memory_summary", device)
    if not is_available():
        return "cuda.memory_summary: there is no CUDA device: 0 bytes are in use"
    cupy_for("memory_summary")
    return str(allocator().memory_summary(current_or("memory_summary", index)))


def reset_peak_memory_stats(device: Any = None) -> None:
    """Begins the maxima anew, at what is in use now.

    Raises:
        ValueError: the device is not a GPU.
    """
    index = index_of("reset_peak_memory_stats", device)
    if cupy_runtime.is_initialized():
        allocator().reset_peaks(current_or("reset_peak_memory_stats", index))


def reset_max_memory_allocated(device: Any = None) -> None:
    """The same as `reset_peak_memory_stats`.

    Raises:
        ValueError: the device is not a GPU.
    """
    reset_peak_memory_stats(index_of("reset_max_memory_allocated", device))


def reset_max_memory_cached(device: Any = None) -> None:
    """The same as `reset_peak_memory_stats`.

    Raises:
        ValueError: the device is not a GPU.
    """
    reset_peak_memory_stats(index_of("reset_max_memory_cached", device))


def reset_accumulated_memory_stats(device: Any = None) -> None:
    """Checks the device only: the counts of allocations go on, differences of two `memory_stats`
    say what was between them.

    Raises:
        ValueError: the device is not a GPU.
    """
    index_of("reset_accumulated_memory_stats", device)


def mem_get_info(device: Any = None) -> tuple[int, int]:
    """Free and total bytes of a GPU, of all processes.

    Raises:
        DeviceMissing: the GPU is not there.
        ValueError: the device is not a GPU.
    """
    index = current_or("mem_get_info", device)
    cuda = cupy_for("mem_get_info").cuda
    with cuda.Device(index):
        free, total = cuda.runtime.memGetInfo()
    return int(free), int(total)


def set_per_process_memory_fraction(fraction: float, device: Any = None) -> None:
    """Limits the part of a GPU's memory that this process may use.

    Raises:
        DeviceMissing: the GPU is not there.
        ValueError: the fraction is not between 0 and 1.
    """
    if not is_available():
        raise absent("set_per_process_memory_fraction")
    if not 0 <= fraction <= 1:
        raise ValueError(
            f"cuda.set_per_process_memory_fraction: must be between 0 and 1: {fraction}"
        )
    index = current_or("set_per_process_memory_fraction", device)
    fractions[index] = float(fraction)
    limit = None if fraction == 1 else int(fraction * get_device_properties(index).total_memory)
    allocator().set_limit(limit, index)


def get_per_process_memory_fraction(device: Any = None) -> float:
    """The limit of `set_per_process_memory_fraction`; 1 without one.

    Raises:
        DeviceMissing: the GPU is not there.
    """
    return fractions.get(current_or("get_per_process_memory_fraction", device), 1.0)
