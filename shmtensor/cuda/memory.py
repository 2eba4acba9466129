"""The memory of GPUs: what tensors use, what is reserved, and what is free.

The figures are the allocator's (`shmtensor.memory.cuda`). Without a GPU, or before the first use of
one, they are 0, and there is nothing to free.
"""

from __future__ import annotations

import warnings
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from .. import cupy_runtime
from ..errors import OutOfMemoryError as OutOfMemoryError
from .absent import absent, cupy_for, current_or, index_of, refuse
from .devices import get_device_properties, is_available
from .management import list_gpu_processes as list_gpu_processes
from .refused import CUDAPluggableAllocator as CUDAPluggableAllocator
from .refused import MemPool as MemPool
from .refused import change_current_allocator as change_current_allocator
from .refused import use_mem_pool as use_mem_pool
from .streams import ExternalStream

__all__ = [
    "CUDAPluggableAllocator",
    "MemPool",
    "OutOfMemoryError",
    "caching_allocator_alloc",
    "caching_allocator_delete",
    "caching_allocator_disabled",
    "caching_allocator_enable",
    "change_current_allocator",
    "empty_cache",
    "get_allocator_backend",
    "get_per_process_memory_fraction",
    "host_memory_stats",
    "host_memory_stats_as_nested_dict",
    "list_gpu_processes",
    "max_memory_allocated",
    "max_memory_cached",
    "max_memory_reserved",
    "mem_get_info",
    "memory_allocated",
    "memory_cached",
    "memory_reserved",
    "memory_snapshot",
    "memory_stats",
    "memory_stats_as_nested_dict",
    "memory_summary",
    "reset_accumulated_host_memory_stats",
    "reset_accumulated_memory_stats",
    "reset_max_memory_allocated",
    "reset_max_memory_cached",
    "reset_peak_host_memory_stats",
    "reset_peak_memory_stats",
    "set_per_process_memory_fraction",
    "use_mem_pool",
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
    """Returns memory that no tensor uses to the driver.

    Notes
    -----
    Before the first use of CUDA it does nothing.

    Examples
    --------
    >>> st.cuda.empty_cache()
    """
    if cupy_runtime.is_initialized():
        allocator().empty_cache()


blocks: dict[int, Any] = {}  # of `caching_allocator_alloc`, by address


def caching_allocator_alloc(size: int, device: Any = None, stream: Any = None) -> int:
    """Allocates memory of a GPU for other libraries.

    Parameters
    ----------
    size : int
        Bytes.
    device : device, int or str, optional
        The GPU, by default the current one.
    stream : Stream or int, optional
        A `Stream`, or its address, that uses it; by default the current one.

    Returns
    -------
    int
        The address, for `caching_allocator_delete`.

    Raises
    ------
    DeviceMissing
        The GPU is not there.
    OutOfMemoryError
        It has no memory left.

    Examples
    --------
    >>> if st.cuda.is_available():
    ...     address = st.cuda.caching_allocator_alloc(1024)
    ...     st.cuda.caching_allocator_delete(address)
    """
    index = current_or("caching_allocator_alloc", device)
    cuda = cupy_for("caching_allocator_alloc").cuda
    with cuda.Device(index):
        if stream is None:
            block = cuda.alloc(max(int(size), 1))
        else:
            address = getattr(stream, "cuda_stream", stream)
            with ExternalStream(address, index):
                block = cuda.alloc(max(int(size), 1))
    blocks[block.ptr] = block
    return int(block.ptr)


def caching_allocator_delete(mem_ptr: int) -> None:
    """Frees memory of `caching_allocator_alloc`.

    Parameters
    ----------
    mem_ptr : int
        The address.

    Raises
    ------
    DeviceMissing
        There is no GPU.
    ValueError
        It is no such address.

    Examples
    --------
    >>> if st.cuda.is_available():
    ...     address = st.cuda.caching_allocator_alloc(1024)
    ...     st.cuda.caching_allocator_delete(address)
    """
    cupy_for("caching_allocator_delete")
    if blocks.pop(mem_ptr, None) is None:
        raise ValueError(
            f"cuda.caching_allocator_delete: not of caching_allocator_alloc: {mem_ptr:#x}"
        )


def caching_allocator_enable(value: bool = True) -> None:
    """Does nothing for True: freed memory is always kept for reuse.

    Parameters
    ----------
    value : bool, optional
        True.

    Raises
    ------
    DeviceMissing
        There is no GPU.
    NotImplementedError
        The value is False.

    Examples
    --------
    >>> if st.cuda.is_available():
    ...     st.cuda.caching_allocator_enable(True)
    """
    cupy_for("caching_allocator_enable")
    if not value:
        refuse(
            "caching_allocator_enable",
            "freed memory is always kept for reuse, hint: empty_cache returns it",
        )


@contextmanager
def caching_allocator_disabled() -> Iterator[None]:
    """A `with` at whose end freed memory goes back to the driver; within, it is kept for reuse.

    Returns
    -------
    context manager
        Without a value.

    Examples
    --------
    >>> with st.cuda.caching_allocator_disabled():
    ...     x = st.ones(3)
    """
    try:
        yield
    finally:
        empty_cache()


def get_allocator_backend() -> str:
    """The name of the allocator of GPU memory in PyTorch's terms.

    Returns
    -------
    str
        "native": cudaMalloc, not cudaMallocAsync, whose memory cannot be sent to processes.

    Examples
    --------
    >>> st.cuda.get_allocator_backend()
    'native'
    """
    return "native"


def memory_allocated(device: Any = None) -> int:
    """Bytes of tensors on a GPU, in whole blocks of 512.

    Parameters
    ----------
    device : device, int or str, optional
        The GPU, by default the current one.

    Returns
    -------
    int
        Bytes; 0 before the first use of CUDA.

    Raises
    ------
    ValueError
        The device is not a GPU.

    Examples
    --------
    >>> if st.cuda.is_available():
    ...     x = st.ones(1000, device="cuda")
    ...     assert st.cuda.memory_allocated() >= 4000
    """
    return figure("memory_allocated", device)


def max_memory_allocated(device: Any = None) -> int:
    """The maximum of `memory_allocated` so far.

    Parameters
    ----------
    device : device, int or str, optional
        The GPU, by default the current one.

    Returns
    -------
    int
        Bytes; 0 before the first use of CUDA.

    Raises
    ------
    ValueError
        The device is not a GPU.

    Examples
    --------
    >>> if st.cuda.is_available():
    ...     x = st.ones(1000, device="cuda")
    ...     assert st.cuda.max_memory_allocated() >= 4000
    """
    return figure("max_memory_allocated", device)


def memory_reserved(device: Any = None) -> int:
    """Bytes that this process has of a GPU, for tensors and for reuse.

    Parameters
    ----------
    device : device, int or str, optional
        The GPU, by default the current one.

    Returns
    -------
    int
        Bytes; 0 before the first use of CUDA.

    Raises
    ------
    ValueError
        The device is not a GPU.

    Examples
    --------
    >>> if st.cuda.is_available():
    ...     x = st.ones(1000, device="cuda")
    ...     assert st.cuda.memory_reserved() >= 4000
    """
    return figure("memory_reserved", device)


def max_memory_reserved(device: Any = None) -> int:
    """The maximum of `memory_reserved` so far.

    Parameters
    ----------
    device : device, int or str, optional
        The GPU, by default the current one.

    Returns
    -------
    int
        Bytes; 0 before the first use of CUDA.

    Raises
    ------
    ValueError
        The device is not a GPU.

    Examples
    --------
    >>> if st.cuda.is_available():
    ...     x = st.ones(1000, device="cuda")
    ...     assert st.cuda.max_memory_reserved() >= 4000
    """
    return figure("max_memory_reserved", device)


def memory_cached(device: Any = None) -> int:
    """The old name of `memory_reserved`, with a FutureWarning.

    Parameters
    ----------
    device : device, int or str, optional
        The GPU, by default the current one.

    Returns
    -------
    int
        Bytes; 0 before the first use of CUDA.

    Raises
    ------
    ValueError
        The device is not a GPU.

    Examples
    --------
    >>> import warnings
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     number = st.cuda.memory_cached()
    >>> caught[0].category
    <class 'FutureWarning'>
    """
    warnings.warn("cuda.memory_cached: use memory_reserved", FutureWarning, stacklevel=2)
    return memory_reserved(device)


def max_memory_cached(device: Any = None) -> int:
    """The old name of `max_memory_reserved`, with a FutureWarning.

    Parameters
    ----------
    device : device, int or str, optional
        The GPU, by default the current one.

    Returns
    -------
    int
        Bytes; 0 before the first use of CUDA.

    Raises
    ------
    ValueError
        The device is not a GPU.

    Examples
    --------
    >>> import warnings
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     number = st.cuda.max_memory_cached()
    >>> caught[0].category
    <class 'FutureWarning'>
    """
    warnings.warn("cuda.max_memory_cached: use max_memory_reserved", FutureWarning, stacklevel=2)
    return max_memory_reserved(device)


def memory_stats(device: Any = None) -> OrderedDict[str, Any]:
    """Counts of a GPU's memory by name.

    Parameters
    ----------
    device : device, int or str, optional
        The GPU, by default the current one.

    Returns
    -------
    OrderedDict
        "allocated_bytes.all.current" and others; empty before the first use of CUDA.

    Raises
    ------
    ValueError
        The device is not a GPU.

    Examples
    --------
    >>> if st.cuda.is_available():
    ...     x = st.ones(1000, device="cuda")
    ...     assert st.cuda.memory_stats()["allocated_bytes.all.current"] >= 4000
    """
    index = index_of("memory_stats", device)
    if not cupy_runtime.is_initialized():
        return OrderedDict()
    stats = allocator().memory_stats(current_or("memory_stats", index))
    return OrderedDict(sorted(stats.items()))


def nested(stats: dict[str, Any]) -> dict[str, Any]:
    """Names like "a.b" as dictionaries in dictionaries."""
    result: dict[str, Any] = {}
    for name, number in stats.items():
        *outer, last = name.split(".")
        inner = result
        for part in outer:
            inner = inner.setdefault(part, {})
        inner[last] = number
    return result


def memory_stats_as_nested_dict(device: Any = None) -> dict[str, Any]:
    """`memory_stats` as dictionaries in dictionaries.

    Parameters
    ----------
    device : device, int or str, optional
        The GPU, by default the current one.

    Returns
    -------
    dict
        `["allocated_bytes"]["all"]["current"]` and others; empty before the first use of CUDA.

    Raises
    ------
    ValueError
        The device is not a GPU.

    Examples
    --------
    >>> if st.cuda.is_available():
    ...     x = st.ones(1000, device="cuda")
    ...     stats = st.cuda.memory_stats_as_nested_dict()
    ...     assert stats["allocated_bytes"]["all"]["current"] >= 4000
    """
    return nested(memory_stats(device))


def memory_snapshot(mempool_id: Any = None, include_traces: bool = True) -> list[dict[str, Any]]:
    """The slabs of all GPUs, with their blocks, their sizes and states.

    Parameters
    ----------
    mempool_id, include_traces : object, optional
        Accepted; have no effect: where blocks were allocated is not recorded.

    Returns
    -------
    list of dict
        Empty before the first use of CUDA.

    Examples
    --------
    >>> if st.cuda.is_available():
    ...     x = st.ones(3, device="cuda")
    ...     assert len(st.cuda.memory_snapshot()) > 0
    """
    snapshot: list[dict[str, Any]] = []
    if cupy_runtime.is_initialized():
        snapshot = allocator().memory_snapshot()
    return snapshot


def host_memory_stats() -> OrderedDict[str, int]:
    """Counts of page-locked blocks of the shared heap, and of their bytes, by name.

    Returns
    -------
    OrderedDict
        Empty before the first use of CUDA.

    Examples
    --------
    >>> isinstance(st.cuda.host_memory_stats(), dict)
    True
    """
    if not cupy_runtime.is_initialized():
        return OrderedDict()
    return OrderedDict(sorted(allocator().host_figures().items()))


def host_memory_stats_as_nested_dict() -> dict[str, Any]:
    """`host_memory_stats` as dictionaries in dictionaries.

    Returns
    -------
    dict
        Empty before the first use of CUDA.

    Examples
    --------
    >>> isinstance(st.cuda.host_memory_stats_as_nested_dict(), dict)
    True
    """
    return nested(host_memory_stats())


def reset_peak_host_memory_stats() -> None:
    """Begins the maxima of `host_memory_stats` anew, at what is page-locked now.

    Notes
    -----
    Before the first use of CUDA it does nothing.

    Examples
    --------
    >>> st.cuda.reset_peak_host_memory_stats()
    """
    if cupy_runtime.is_initialized():
        allocator().reset_host(True)


def reset_accumulated_host_memory_stats() -> None:
    """Begins the counts of `host_memory_stats` that only grow anew, at 0.

    Notes
    -----
    Before the first use of CUDA it does nothing.

    Examples
    --------
    >>> st.cuda.reset_accumulated_host_memory_stats()
    """
    if cupy_runtime.is_initialized():
        allocator().reset_host(False)


def memory_summary(device: Any = None, abbreviated: bool = False) -> str:
    """What a GPU's memory is used for, as a text.

    Parameters
    ----------
    device : device, int or str, optional
        The GPU, by default the current one.
    abbreviated : bool, optional
        Accepted; has no effect.

    Returns
    -------
    str
        Without a GPU it says that there is none.

    Raises
    ------
    ValueError
        The device is not a GPU.

    Examples
    --------
    >>> len(st.cuda.memory_summary()) > 0
    True
    """
    index = index_of("memory_summary", device)
    if not is_available():
        return "cuda.memory_summary: there is no CUDA device: 0 bytes are in use"
    cupy_for("memory_summary")
    return str(allocator().memory_summary(current_or("memory_summary", index)))


def reset_peak_memory_stats(device: Any = None) -> None:
    """Begins the maxima anew, at what is in use now.

    Parameters
    ----------
    device : device, int or str, optional
        The GPU, by default the current one.

    Raises
    ------
    ValueError
        The device is not a GPU.

    Notes
    -----
    Before the first use of CUDA it does nothing.

    Examples
    --------
    >>> st.cuda.reset_peak_memory_stats()
    """
    index = index_of("reset_peak_memory_stats", device)
    if cupy_runtime.is_initialized():
        allocator().reset_peaks(current_or("reset_peak_memory_stats", index))


def reset_max_memory_allocated(device: Any = None) -> None:
    """The same as `reset_peak_memory_stats`, which resets all maxima.

    Parameters
    ----------
    device : device, int or str, optional
        The GPU, by default the current one.

    Raises
    ------
    ValueError
        The device is not a GPU.

    Notes
    -----
    Before the first use of CUDA it does nothing.

    Examples
    --------
    >>> st.cuda.reset_max_memory_allocated()
    """
    reset_peak_memory_stats(index_of("reset_max_memory_allocated", device))


def reset_max_memory_cached(device: Any = None) -> None:
    """The same as `reset_peak_memory_stats`, which resets all maxima.

    Parameters
    ----------
    device : device, int or str, optional
        The GPU, by default the current one.

    Raises
    ------
    ValueError
        The device is not a GPU.

    Notes
    -----
    Before the first use of CUDA it does nothing.

    Examples
    --------
    >>> st.cuda.reset_max_memory_cached()
    """
    reset_peak_memory_stats(index_of("reset_max_memory_cached", device))


def reset_accumulated_memory_stats(device: Any = None) -> None:
    """Begins the counts of allocations, frees, retries and errors anew, at 0.

    Parameters
    ----------
    device : device, int or str, optional
        The GPU, by default the current one.

    Raises
    ------
    ValueError
        The device is not a GPU.

    Notes
    -----
    Before the first use of CUDA it does nothing.

    Examples
    --------
    >>> st.cuda.reset_accumulated_memory_stats()
    """
    index = index_of("reset_accumulated_memory_stats", device)
    if cupy_runtime.is_initialized():
        allocator().reset_accumulated(current_or("reset_accumulated_memory_stats", index))


def mem_get_info(device: Any = None) -> tuple[int, int]:
    """Free and total bytes of a GPU, of all processes.

    Parameters
    ----------
    device : device, int or str, optional
        The GPU, by default the current one.

    Returns
    -------
    (free, total) : int, int
        Bytes.

    Raises
    ------
    DeviceMissing
        The GPU is not there.
    ValueError
        The device is not a GPU.

    Examples
    --------
    >>> if st.cuda.is_available():
    ...     free, total = st.cuda.mem_get_info()
    ...     assert free <= total
    """
    index = current_or("mem_get_info", device)
    cuda = cupy_for("mem_get_info").cuda
    with cuda.Device(index):
        free, total = cuda.runtime.memGetInfo()
    return int(free), int(total)


def set_per_process_memory_fraction(fraction: float, device: Any = None) -> None:
    """Limits the part of a GPU's memory that this process may use.

    Parameters
    ----------
    fraction : float
        Between 0 and 1; 1 is no limit.
    device : device, int or str, optional
        The GPU, by default the current one.

    Raises
    ------
    DeviceMissing
        The GPU is not there.
    ValueError
        The fraction is not between 0 and 1.

    Examples
    --------
    >>> if st.cuda.is_available():
    ...     st.cuda.set_per_process_memory_fraction(0.5)
    ...     assert st.cuda.get_per_process_memory_fraction() == 0.5
    ...     st.cuda.set_per_process_memory_fraction(1.0)
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
    """The limit of `set_per_process_memory_fraction`.

    Parameters
    ----------
    device : device, int or str, optional
        The GPU, by default the current one.

    Returns
    -------
    float
        1 without a limit.

    Raises
    ------
    DeviceMissing
        The GPU is not there.

    Examples
    --------
    >>> if st.cuda.is_available():
    ...     assert st.cuda.get_per_process_memory_fraction() <= 1
    """
    return fractions.get(current_or("get_per_process_memory_fraction", device), 1.0)
