"""GPU memory in the ledger: CuPy's allocator, and arrays that travel between processes by handle.

Importing this package imports CuPy; `install()` makes it CuPy's allocator. The states, and what
happens when a process dies at each arrow, are in docs/design/cuda-memory.md.
"""

from __future__ import annotations

import cupy

from ...cuda_arrays import watch
from . import lending, streams, timer, waits
from .allocator import allocator, require_own_process
from .lending import Message, check_alive, discard, export, note_use, receive
from .pinned import host_figures, is_pinned, pin_heap, pinned_empty, reset_host, unpin_heap
from .statistics import (
    max_memory_allocated,
    max_memory_reserved,
    memory_allocated,
    memory_reserved,
    memory_snapshot,
    memory_stats,
    memory_summary,
    reset_accumulated,
    reset_peaks,
)

__all__ = [
    "Message",
    "check_alive",
    "discard",
    "empty_cache",
    "export",
    "host_figures",
    "install",
    "is_pinned",
    "max_memory_allocated",
    "max_memory_reserved",
    "memory_allocated",
    "memory_reserved",
    "memory_snapshot",
    "memory_stats",
    "memory_summary",
    "note_use",
    "pin_heap",
    "pinned_empty",
    "poll",
    "receive",
    "reset_accumulated",
    "reset_host",
    "reset_peaks",
    "set_limit",
    "uninstall",
    "unpin_heap",
]


def install() -> None:
    """Makes this CuPy's allocator, in every thread. Idempotent. Existing arrays keep their memory.

    Raises:
        RuntimeError: this process was forked from one that uses CUDA.
    """
    require_own_process()
    timer.start()
    cupy.cuda.set_allocator(allocator.malloc)
    watch.check_alive, watch.note_use, watch.check_waits = check_alive, note_use, waits.check


def uninstall() -> None:
    """CuPy's own pool allocates again; free memory and imports are returned. For tests: what arrays
    still use is returned by a later call.
    """
    require_own_process()
    cupy.cuda.set_allocator(cupy.get_default_memory_pool().malloc)
    unpin_heap()
    empty_cache()
    if not (lending.holds or lending.imports or any(d.slabs for d in allocator.devices.values())):
        timer.pause()
        waits.forget()
        streams.forget()


def poll() -> None:
    """Ends holds and frees blocks whose work has ended. Costs nothing if none waits."""
    require_own_process()
    if (allocator.leaving or allocator.lent) and not allocator.is_inside():
        try:
            with allocator.lock:
                allocator.poll()
                allocator.reclaim()
        finally:
            allocator.retry()


def empty_cache() -> None:
    """Waits for the devices' work, closes slabs of other processes that nothing is held of, and
    returns all slabs without blocks to the driver. What another process has open stays.
    """
    require_own_process()
    if allocator.is_inside():
        raise allocator.inside("empty_cache")
    try:
        with allocator.lock:
            for device in allocator.used_devices():
                with streams.on_device(device.index):
                    cupy.cuda.runtime.deviceSynchronize()
            allocator.poll()
            lending.close_idle()
            allocator.reclaim()
            for device in allocator.used_devices():
                allocator.release_slabs(device)
    finally:
        allocator.retry()


def set_limit(nbytes: int | None, index: int) -> None:
    """Limits what this process reserves of a device; None: no limit."""
    require_own_process()
    allocator.devices[index].limit = nbytes
