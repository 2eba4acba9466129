"""What the engines of mpi, tcp and nccl do alike: `native.Group` does the same for shared memory.

A rank is in one collective of a group at a time, numbers its calls, sends to ranks that there are,
and leaves the group once: at the end of the process at the latest.
"""

from __future__ import annotations

import atexit
import os
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from ...memory.layout import empty_shared
from ..group.call_signature import HEAD, write
from ..group.operands import Array

__all__ = ["Member"]


class Member:
    """One rank's end of a group."""

    def __init__(self, rank: int, world: int) -> None:
        self.rank, self.world = rank, world
        self.pid = os.getpid()
        self._number = 0  # of collectives so far
        self._busy = threading.Lock()
        self._has_left = False
        living.add(self)
        atexit.unregister(leave_all)
        atexit.register(leave_all)  # the last to be registered is the first to be called

    def check_member(self, where: str) -> None:
        """Raises RuntimeError unless this process is still of the group."""
        if self.pid != os.getpid():
            raise RuntimeError(f"{where}: this process was forked from rank {self.rank}: no member")
        if self._has_left:
            raise RuntimeError(f"{where}: this rank has left the group: rank {self.rank}")

    def check_peer(self, where: str, peer: int) -> None:
        """Raises ValueError unless there is such another rank."""
        if peer == self.rank:
            raise ValueError(f"{where}: a rank cannot send to itself: rank {peer}")
        if not 0 <= peer < self.world:
            raise ValueError(f"{where}: no such rank: {peer} of {self.world}")

    @contextmanager
    def alone(self, where: str) -> Iterator[None]:
        """A collective: RuntimeError if another thread is in one of this group."""
        if not self._busy.acquire(blocking=False):
            raise RuntimeError(
                f"{where}: another thread is in a collective of this group: rank {self.rank}, make "
                "a new_group for each thread"
            )
        try:
            yield
        finally:
            self._busy.release()

    def message(self, x: Array, tag: int) -> Array:
        """The head of a message, in shared memory."""
        row = empty_shared((HEAD.itemsize,), np.dtype(np.uint8))
        write(row, "send", tag & 0xFFFFFFFF, x)
        return row

    def leave(self) -> None:
        """The others no longer wait for this rank."""
        if not self._has_left and self.pid == os.getpid():
            self._has_left = True
            self._leave()

    def _leave(self) -> None:
        raise NotImplementedError(f"{type(self).__name__}._leave: not defined")


living: weakref.WeakSet[Member] = weakref.WeakSet()


def leave_all() -> None:
    """At the end of the process MPI and NCCL would wait for all ranks, and those for this one."""
    for each in list(living):
        each.leave()
