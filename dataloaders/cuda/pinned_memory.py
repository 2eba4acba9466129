"""Pinned memory: blocks that batches are written into again and again, known to the GPU's driver.

    parent   | block | block | ...   allocated here, registered once, unregistered at the end
               |
      lent with a task ──> a worker collates into it ──> its handle comes home: the batch lies in it
               ^                                                                       |
               └───────── free again when no tensor of any process lies over it <──────┘

The driver must go on finding the pages that it was told of, so the heap's own blocks will not do:
what is free there may be given back to the kernel, and the next batch at that address would lie in
other pages. These blocks stay allocated as long as they are registered. Who still looks at one is
not counted here: the ledger knows (`native.received_here`, `native.held_elsewhere`), whatever the
consumer did with the batch. Where none is free, or one is too small, a batch lies in ordinary
memory.
"""

from __future__ import annotations

import os
import warnings
import weakref
from importlib import import_module
from typing import Any

import numpy as np

from shmtensor import native

from ..loader.batch_block import Array

__all__ = ["Pinned", "PinnedPool", "find_cuda", "make_pool"]

PAGE = 64 << 10  # of the heap: a block of whole ones shares no page of the kernel's with another
LEAST = 320 << 10  # smaller blocks are parts of a span that others use, too
HANDED_OVER = 4  # batches that the consumer may have while others are being written
PORTABLE = 1  # cudaHostRegisterPortable: pinned for every context of the process


def find_cuda() -> Any:
    """CuPy's CUDA runtime; None, with a warning, where CuPy or a device is missing."""
    try:
        cupy = import_module("cupy")
        if cupy.cuda.is_available():
            return cupy.cuda.runtime
        why = "CuPy finds no device"
    except ImportError:
        why = "CuPy is not installed (shmtensor's extras 'cuda12', 'cuda13')"
    warnings.warn(
        f"DataLoader: pin_memory is set, but there is no GPU to pin memory for: {why}",
        stacklevel=5,
    )
    return None


def make_pool(under_way: int) -> PinnedPool | None:
    """The pool of a loader with so many batches under way; None without a GPU."""
    cuda = find_cuda()
    return None if cuda is None else PinnedPool(cuda, under_way + HANDED_OVER)


class Pinned:
    """One block of the pool.

    Attributes:
        array: its bytes, uint8.
        is_lent: whether a task that has no result yet says to write there.
    """

    __slots__ = ("array", "is_lent")

    def __init__(self, array: Array) -> None:
        self.array = array
        self.is_lent = False

    def is_free(self) -> bool:
        array = self.array
        return not (self.is_lent or native.received_here(array) or native.held_elsewhere(array))

    def received(self) -> Array:
        """The block as it comes to a worker: views of it are then counted in the ledger."""
        self.is_lent = False
        block = native.receive(native.export(self.array))
        return np.ndarray((block.nbytes,), np.uint8, block)


class PinnedPool:
    """At most `limit` blocks for batches, pinned as long as the pool is.

    Args:
        cuda: the runtime that registers (`cupy.cuda.runtime`).
        limit: the most blocks.

    A forked child neither lends nor unregisters: the driver knows its parent.
    """

    def __init__(self, cuda: Any, limit: int) -> None:
        self.cuda = cuda
        self.limit = limit
        self.owner = os.getpid()
        self.blocks: list[Pinned] = []
        self._finalizer = weakref.finalize(self, unregister, self.owner, cuda, self.blocks)
        self._finalizer.atexit = False  # the driver may be gone by then, and unpins by itself

    def lend(self, nbytes: int) -> Pinned | None:
        """A block of at least so many bytes that nobody looks at; None if there is none."""
        if not nbytes or self.owner != os.getpid():
            return None
        free = [block for block in self.blocks if block.is_free()]
        for block in free:
            if block.array.nbytes >= nbytes:
                block.is_lent = True
                return block
        for block in free:  # all of them are too small
            unregister(self.owner, self.cuda, [block])
            self.blocks.remove(block)
        if len(self.blocks) >= self.limit:
            return None
        made = self.make(nbytes)
        if made is not None:
            made.is_lent = True
        return made

    def make(self, nbytes: int) -> Pinned | None:
        """A new block, registered; None, and no more of them, if the driver refuses."""
        nbytes = max(-(-nbytes // PAGE) * PAGE, LEAST)
        array = np.ndarray((nbytes,), np.uint8, native.allocate(nbytes, False))
        try:
            self.cuda.hostRegister(array.ctypes.data, nbytes, PORTABLE)
        except RuntimeError as error:
            self.limit = 0
            warnings.warn(
                f"DataLoader: memory cannot be pinned: {nbytes} bytes, {error}; batches lie in "
                "ordinary memory",
                RuntimeWarning,
                stacklevel=2,
            )
            return None
        self.blocks.append(block := Pinned(array))
        return block

    def clear(self) -> None:
        """Unregisters all blocks and lets go of them: a fork that follows must not hold them."""
        unregister(self.owner, self.cuda, self.blocks)

    def close(self) -> None:
        """As `clear`, for good."""
        self.limit = 0
        self._finalizer()


def unregister(owner: int, cuda: Any, blocks: list[Pinned]) -> None:
    """The driver forgets these blocks; whoever has a batch in one keeps the memory."""
    if owner == os.getpid():
        for block in blocks:
            cuda.hostUnregister(block.array.ctypes.data)
        blocks.clear()
