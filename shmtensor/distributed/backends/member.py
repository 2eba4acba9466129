"""The common part of the engines of mpi, tcp and nccl; `native.Group` is that of shared memory.

A rank is in one collective of a group at a time, numbers its calls, sends only to ranks that exist,
and leaves the group once, at the latest when the process ends.
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
from ...profiler import profiling
from ..group.call_signature import HEAD, write
from ..group.operands import Array


class Member:
    """One rank's end of a group."""

    def __init__(self, rank: int, world: int) -> None:
        self.rank, self.world = rank, world
        self.pid = os.getpid()
        self._number = 0  # collectives so far
        self._busy = threading.Lock()
        self._has_left = False
        members.add(self)
        atexit.unregister(leave_all)
        atexit.register(leave_all)  # the last to be registered is the first to be called

    def check_member(self, where: str) -> None:
        """Raises RuntimeError unless this process is still in the group."""
        if self.pid != os.getpid():
            raise RuntimeError(f"{where}: this process was forked from rank {self.rank}: no member")
        if self._has_left:
            raise RuntimeError(f"{where}: this rank has left the group: rank {self.rank}")

    def check_peer(self, where: str, peer: int) -> None:
        """Raises ValueError unless `peer` is another rank of the group."""
        if peer == self.rank:
            raise ValueError(f"{where}: a rank cannot send to itself: rank {peer}")
        if not 0 <= peer < self.world:
            raise ValueError(f"{where}: no such rank: {peer} of {self.world}")

    @contextmanager
    def exclusive(self, where: str) -> Iterator[None]:
        """A collective, an event of the profile if there is one. Raises RuntimeError if another
        thread is in a collective of this group.
        """
        if not self._busy.acquire(blocking=False):
            raise RuntimeError(
                f"{where}: another thread is in a collective of this group: rank {self.rank}, make "
                "a new_group for each thread"
            )
        began = profiling.begin() if profiling.on else 0
        try:
            yield
        finally:
            self._busy.release()
        if began:
            profiling.end(began, where, profiling.COLLECTIVE)

    def message_head(self, x: Array, tag: int) -> Array:
        """The head of a message, in shared memory."""
        row = empty_shared((HEAD.itemsize,), np.dtype(np.uint8))
        write(row, "send", tag & 0xFFFFFFFF, x)
        return row

    def leave(self) -> None:
        """Leaves the group: the other ranks no longer wait for this one."""
        if not self._has_left and self.pid == os.getpid():
            self._has_left = True
            self._leave()

    def _leave(self) -> None:
        raise NotImplementedError(f"{type(self).__name__}._leave: not defined")


members: weakref.WeakSet[Member] = weakref.WeakSet()


def leave_all() -> None:
    """Leaves all groups. Else MPI and NCCL would wait for all ranks when the process ends."""
    for member in list(members):
        member.leave()
