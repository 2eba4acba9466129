"""NCCL calls on device addresses, put on a stream: the inside of the backend.

Nothing here waits, looks at host memory, or asks whether the other ranks call the same: who calls
has agreed with them (begin_and_fail.py), keeps the memory until `mark()` is reached, and has the
process's turn.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .cupy_nccl import BYTE

__all__ = ["Communicator", "Part"]

Part = tuple[int, int]  # device address, bytes


class Communicator:
    """A group's NCCL communicator, and its stream.

    Attributes:
        device: this rank's GPU, to be entered (`with`) by whoever calls.
        is_aborted: after `abort()` nothing may be called.
    """

    def __init__(
        self, cupy: Any, nccl: Any, device: Any, inner: Any, rank: int, world: int
    ) -> None:
        self.cupy, self.nccl, self.device, self.inner = cupy, nccl, device, inner
        self.rank, self.world = rank, world
        self.is_aborted = False
        with device:
            self.stream = cupy.cuda.Stream(non_blocking=True)

    # ---------------------------------------------------------------- reductions
    def all_reduce(self, at: int, count: int, kind: int, op: int) -> None:
        """The reduction of all ranks' `count` numbers at `at`, in their place."""
        self.inner.allReduce(at, at, count, kind, op, self.stream.ptr)

    def reduce(self, at: int, count: int, kind: int, op: int, root: int) -> None:
        """The reduction of all, in the place of the root's; the others' stay."""
        self.inner.reduce(at, at, count, kind, op, root, self.stream.ptr)

    def reduce_scatter(self, at: int, count: int, itemsize: int, kind: int, op: int) -> None:
        """Of `world * count` numbers, the reduction of this rank's part, in its place."""
        own = at + self.rank * count * itemsize
        self.inner.reduceScatter(at, own, count, kind, op, self.stream.ptr)

    # ---------------------------------------------------------------- bytes that only move
    def broadcast(self, at: int, nbytes: int, root: int) -> None:
        """The root's bytes into everybody's."""
        self.inner.broadcast(at, at, nbytes, BYTE, root, self.stream.ptr)

    def all_gather(self, at: int, nbytes: int) -> None:
        """Fills `world * nbytes` from everybody's own part of it."""
        self.inner.allGather(at + self.rank * nbytes, at, nbytes, BYTE, self.stream.ptr)

    def swap(self, sends: Sequence[Part], receives: Sequence[Part]) -> None:
        """To each rank p the bytes of `sends[p]`, from each those of `receives[p]`, all at once;
        parts of no bytes are left out, on both sides. NCCL's way to gather, scatter, all_to_all.
        """
        (source, nbytes), (target, _) = sends[self.rank], receives[self.rank]
        if nbytes and source != target:
            runtime = self.cupy.cuda.runtime
            runtime.memcpyAsync(
                target, source, nbytes, runtime.memcpyDeviceToDevice, self.stream.ptr
            )
        others = [p for p in range(self.world) if p != self.rank]
        self.nccl.groupStart()
        try:
            for p in others:
                if sends[p][1]:
                    self.send(*sends[p], p)
                if receives[p][1]:
                    self.receive(*receives[p], p)
        finally:
            self.nccl.groupEnd()

    def send(self, at: int, nbytes: int, peer: int) -> None:
        """Bytes to one rank, which calls `receive`."""
        self.inner.send(at, nbytes, BYTE, peer, self.stream.ptr)

    def receive(self, at: int, nbytes: int, peer: int) -> None:
        """Bytes from one rank, which calls `send`."""
        self.inner.recv(at, nbytes, BYTE, peer, self.stream.ptr)

    # ---------------------------------------------------------------- how far it is
    def mark(self) -> Any:
        """An event that is done when all is done that was called so far."""
        event = self.cupy.cuda.Event(disable_timing=True)
        event.record(self.stream)
        return event

    def check(self) -> None:
        """Raises what NCCL noticed while it was at work (NcclError)."""
        self.inner.check_async_error()

    def abort(self) -> None:
        """Ends what is under way, which then leaves its memory half written, and frees all. Waits
        for nobody, where NCCL's `destroy` might.
        """
        if not self.is_aborted:
            self.is_aborted = True
            with self.device:
                self.inner.abort()
