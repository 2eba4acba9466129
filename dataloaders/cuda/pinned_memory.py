"""Pinned memory: reusable blocks for batches, registered with the GPU's driver.

    parent   | block | block | ...   allocated here, registered once, unregistered at the end
               |
      sent with a task ──> a worker collates into it ──> its handle returns with the batch
               ^                                                                  |
               └────── free again when no tensor of any process uses it <─────────┘

The driver pins physical pages. The heap may return the pages of a free block to the kernel, and
the next batch at that address would be in other pages. So these blocks stay allocated as long as
they are registered. The ledger counts their users (`native.received_here`,
`native.held_elsewhere`), whatever the consumer did with the batch. If no block is free and large
enough, a batch uses ordinary memory.
"""

from __future__ import annotations

import os
import warnings
import weakref
from importlib import import_module
from typing import Any

import numpy as np

from shmtensor import cupy_runtime, native
from shmtensor.other_names import foreign_module

from ..loader.batch_block import Array

PAGE = 64 << 10  # of the heap: a block of whole pages shares no kernel page with another block
LEAST = 320 << 10  # smaller blocks share a span with others
HANDED_OVER = 4  # batches that the consumer may hold while others are written
PORTABLE = 1  # cudaHostRegisterPortable: pinned for every context of the process


class RuntimeOfTorch:
    """The two functions of the CUDA runtime that are needed, by PyTorch; errors as CuPy's are."""

    def __init__(self, cuda: Any) -> None:
        self.runtime = cuda.cudart()
        self.check_error = cuda.check_error  # raises a RuntimeError

    def hostRegister(self, address: int, nbytes: int, flags: int) -> None:
        self.check_error(self.runtime.cudaHostRegister(address, nbytes, flags))

    def hostUnregister(self, address: int) -> None:
        self.check_error(self.runtime.cudaHostUnregister(address))


def make_pool(in_flight: int) -> PinnedPool | None:
    """The pool of a loader with so many batches in flight, registered by CuPy, else by PyTorch if
    the program has imported it; None, with a warning, where there is no device."""
    torch, limit = foreign_module("torch"), in_flight + HANDED_OVER
    try:
        cupy = import_module("cupy")
        if cupy.cuda.is_available():
            cupy_runtime.device_count()  # notes that children forked from now on have no GPU
            return PinnedPool(cupy.cuda.runtime, limit)
        why = "CuPy finds no device"
    except ImportError:
        why = "CuPy is not installed (shmtensor's extras 'cuda12', 'cuda13')"
    if torch is not None and torch.cuda.is_available():
        return PinnedPool(RuntimeOfTorch(torch.cuda), limit)
    warnings.warn(
        f"DataLoader: pin_memory is set, but there is no GPU to pin memory for: {why}", stacklevel=4
    )
    return None


class Pinned:
    """One block of the pool.

    Attributes:
        array: its bytes, uint8.
        is_reserved: whether a task that has no result yet writes there.
    """

    __slots__ = ("array", "is_reserved")

    def __init__(self, array: Array) -> None:
        self.array = array
        self.is_reserved = False

    def is_free(self) -> bool:
        array = self.array
        return not (self.is_reserved or native.received_here(array) or native.held_elsewhere(array))

    def received(self) -> Array:
        """The block as a received one, so that the ledger counts its views."""
        self.is_reserved = False
        block = native.receive(native.export(self.array))
        return np.ndarray((block.nbytes,), np.uint8, block)


class PinnedPool:
    """At most `limit` blocks for batches, pinned as long as the pool is.

    Args:
        cuda: the runtime that registers (`cupy.cuda.runtime`, or `RuntimeOfTorch`).
        limit: the most blocks.

    A forked child neither reserves nor unregisters blocks: the driver knows its parent only.
    """

    def __init__(self, cuda: Any, limit: int) -> None:
        self.cuda = cuda
        self.limit = limit
        self.owner = os.getpid()
        self.blocks: list[Pinned] = []
        self._finalizer = weakref.finalize(self, unregister, self.owner, cuda, self.blocks)
        self._finalizer.atexit = False  # the driver may be gone by then, and unpins by itself

    def reserve(self, nbytes: int) -> Pinned | None:
        """Reserves a free block of at least `nbytes`; None if there is none."""
        if not nbytes or self.owner != os.getpid():
            return None
        free = [block for block in self.blocks if block.is_free()]
        for block in free:
            if block.array.nbytes >= nbytes:
                block.is_reserved = True
                return block
        for block in free:  # all of them are too small
            unregister(self.owner, self.cuda, [block])
            self.blocks.remove(block)
        if len(self.blocks) >= self.limit:
            return None
        new_block = self.make(nbytes)
        if new_block is not None:
            new_block.is_reserved = True
        return new_block

    def make(self, nbytes: int) -> Pinned | None:
        """A new registered block; None, from then on, if the driver refuses."""
        nbytes = max(-(-nbytes // PAGE) * PAGE, LEAST)
        array = np.ndarray((nbytes,), np.uint8, native.allocate(nbytes, False))
        try:
            self.cuda.hostRegister(array.ctypes.data, nbytes, PORTABLE)
        except RuntimeError as error:
            self.limit = 0
            warnings.warn(
                f"DataLoader: memory cannot be pinned: {nbytes} bytes, {error}; batches use "
                "ordinary memory",
                RuntimeWarning,
                stacklevel=2,
            )
            return None
        self.blocks.append(block := Pinned(array))
        return block

    def clear(self) -> None:
        """Unregisters and drops all blocks; done before a fork, which must not hold them."""
        unregister(self.owner, self.cuda, self.blocks)

    def close(self) -> None:
        """As `clear`; afterwards the pool makes no new blocks."""
        self.limit = 0
        self._finalizer()


def unregister(owner: int, cuda: Any, blocks: list[Pinned]) -> None:
    """Unregisters these blocks; tensors over them keep the memory."""
    if owner == os.getpid():
        for block in blocks:
            cuda.hostUnregister(block.array.ctypes.data)
        blocks.clear()
