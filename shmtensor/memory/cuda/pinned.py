"""Page-locked blocks of the heap: copies between them and a GPU need not wait.

Note [Registered blocks]: `cudaHostRegister` fixes the pages that are there. If the heap returned
those pages to the system, the block's address would get others, and CUDA would go on with the old
ones. So a registered block is held, as by a receiver, until it is unregistered: nobody reclaims it.
CUDA refuses to register memory twice: a map says what is.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from threading import RLock
from typing import Any

import cupy
import numpy as np

from ... import native
from . import streams
from .allocator import allocator, require_own_process

runtime = cupy.cuda.runtime
PAGE = 4096
PORTABLE = 1  # cudaHostRegisterPortable: for all devices
LIMIT = 512 << 20  # bytes; beyond it the oldest blocks are unregistered

lock = RLock()  # a finaliser may pin memory amid our own work
# By address of the block: its first whole page, the end of its last one, what holds it.
registered: OrderedDict[int, tuple[int, int, Any]] = OrderedDict()


class Count:
    """How many there are, and were."""

    def __init__(self) -> None:
        self.current = self.peak = self.allocated = self.freed = 0

    def add(self, n: int) -> None:
        self.current += n
        self.peak = max(self.peak, self.current)
        self.allocated += max(n, 0)
        self.freed += max(-n, 0)


blocks, nbytes_locked = Count(), Count()


def host_figures() -> dict[str, int]:
    """Counts of page-locked blocks of the heap and of their bytes, by PyTorch's names."""
    return {
        f"{name}.{metric}": getattr(count, metric)
        for names, count in (
            (("allocations", "segment"), blocks),
            (("allocated_bytes", "reserved_bytes"), nbytes_locked),
        )
        for name in names
        for metric in ("current", "peak", "allocated", "freed")
    }


def reset_host(peaks: bool) -> None:
    """The maxima begin anew at what is page-locked now; or the figures that only grow, at 0."""
    with lock:
        for count in (blocks, nbytes_locked):
            if peaks:
                count.peak = count.current
            else:
                count.allocated = count.freed = 0


def pin_heap(array: np.ndarray[Any, Any]) -> bool:
    """Page-locks the block of an array of the shared heap, own or received. Idempotent.

    The block is held, and not used again, until `unpin_heap`, or until more than 512 MiB are
    page-locked: then the oldest blocks are released. Memory for many copies is better taken once,
    from `pinned_empty`.

    Returns:
        False if the block has no page of its own, or the system refuses.

    Copies: none

    Raises:
        ValueError: the array is not in shared memory.
        RuntimeError: this process was forked from one that uses CUDA.
    """
    require_own_process()
    start, nbytes = native.block_of(array)
    with lock:
        if start in registered:
            return True
        first, end = (start + PAGE - 1) & -PAGE, (start + nbytes) & -PAGE
        if end <= first:
            return False
        release_down_to(LIMIT - (end - first))
        native.use_device()  # a GPU may write to it until this process has exited
        holder = native.receive(native.export(array))
        try:
            runtime.hostRegister(first, end - first, PORTABLE)
        except runtime.CUDARuntimeError:
            return False
        registered[start] = first, end, holder
        blocks.add(1)
        nbytes_locked.add(end - first)
    return True


def pinned_empty(shape: tuple[int, ...], dtype: Any) -> np.ndarray[Any, Any]:
    """An uninitialised, page-locked array in a block of the shared heap; `unpin_heap` ends the
    lock, not the array.

    Raises:
        OutOfSharedMemory: the heap is full.
    """
    dtype = np.dtype(dtype)
    n = max(1, math.prod(shape)) * dtype.itemsize
    block: Any = native.allocate(max(n, 64 << 10), False)  # in whole pages of its own
    array: np.ndarray[Any, Any] = np.ndarray(shape, dtype, block)
    pin_heap(array)
    return array


def is_pinned(array: np.ndarray[Any, Any]) -> bool:
    """Whether all bytes of an array are page-locked by `pin_heap`.

    Copies: none
    """
    if not (registered and array.size and native.is_shared(array)):
        return False
    found = registered.get(native.block_of(array)[0])
    if found is None:
        return False
    low, high = np.lib.array_utils.byte_bounds(array)
    return found[0] <= low and high <= found[1]


def unpin_heap() -> None:
    """Waits for the devices' work and unregisters every block."""
    require_own_process()
    with lock:
        release_down_to(0)


def release_down_to(nbytes: int) -> None:
    """Unregisters the oldest blocks until no more than `nbytes` are registered."""
    total = sum(end - first for first, end, _ in registered.values())
    if total <= max(nbytes, 0):
        return
    for device in allocator.used_devices():
        with streams.on_device(device.index):
            runtime.deviceSynchronize()
    while registered and total > nbytes:
        _, (first, end, _) = registered.popitem(last=False)
        runtime.hostUnregister(first)
        blocks.add(-1)
        nbytes_locked.add(first - end)
        total -= end - first
