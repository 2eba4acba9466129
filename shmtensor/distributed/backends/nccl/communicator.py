"""NCCL calls on device addresses, put on a stream.

Nothing here waits, reads host memory, or compares the ranks' calls. The caller has compared them
(member.py), keeps the memory until `mark()` is reached, and has the process's turn.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .cupy_nccl import BYTE

Part = tuple[int, int]  # device address, bytes


class Communicator:
    """A group's NCCL communicator, and its stream.

    Attributes:
        device: this rank's GPU; callers enter it by `with`.
        is_aborted: after `abort()` no method may be called.
    """

    def __init__(self, cupy: Any, nccl: Any, device: Any, comm: Any, rank: int, world: int) -> None:
        self.cupy, self.nccl, self.device, self.comm = cupy, nccl, device, comm
        self.rank, self.world = rank, world
        self.is_aborted = False
        with device:
            self.stream = cupy.cuda.Stream(non_blocking=True)

    # ---------------------------------------------------------------- reductions
    def all_reduce(self, at: int, count: int, dtype_number: int, op: int) -> None:
        """Replaces the `count` numbers at `at` by the reduction over all ranks."""
        self.comm.allReduce(at, at, count, dtype_number, op, self.stream.ptr)

    def reduce(self, at: int, count: int, dtype_number: int, op: int, root: int) -> None:
        """Replaces the root's numbers by the reduction over all ranks."""
        self.comm.reduce(at, at, count, dtype_number, op, root, self.stream.ptr)

    def reduce_scatter(
        self, source: int, target: int, count: int, dtype_number: int, op: int
    ) -> None:
        """Writes this rank's `count` of the `world * count` numbers' reduction over all ranks."""
        self.comm.reduceScatter(source, target, count, dtype_number, op, self.stream.ptr)

    # ---------------------------------------------------------------- bytes
    def broadcast(self, at: int, nbytes: int, root: int) -> None:
        """Copies the root's bytes to all ranks."""
        self.comm.broadcast(at, at, nbytes, BYTE, root, self.stream.ptr)

    def all_gather(self, source: int, target: int, nbytes: int) -> None:
        """Fills `world * nbytes` bytes from each rank's `nbytes`."""
        self.comm.allGather(source, target, nbytes, BYTE, self.stream.ptr)

    def exchange(self, sends: Sequence[Part], receives: Sequence[Part]) -> None:
        """Sends the bytes of `sends[p]` to each rank p and receives those of `receives[p]`, all at
        once; both sides omit empty parts. NCCL's way to gather, scatter and all_to_all.
        """
        (source, nbytes), (target, _) = sends[self.rank], receives[self.rank]
        if nbytes and source != target:
            self.copy(source, target, nbytes)
        peers = [p for p in range(self.world) if p != self.rank]
        self.nccl.groupStart()
        try:
            for p in peers:
                if sends[p][1]:
                    self.send(*sends[p], p)
                if receives[p][1]:
                    self.receive(*receives[p], p)
        finally:
            self.nccl.groupEnd()

    def copy(self, source: int, target: int, nbytes: int) -> None:
        """Copies bytes on this rank's GPU."""
        runtime = self.cupy.cuda.runtime
        runtime.memcpyAsync(target, source, nbytes, runtime.memcpyDeviceToDevice, self.stream.ptr)

    def allocate(self, nbytes: int) -> Any:
        """New memory, to be used by what comes next; it has the address as `ptr`."""
        with self.stream:  # CuPy's pool reuses memory in the order of this stream
            return self.cupy.cuda.alloc(nbytes)

    def send(self, at: int, nbytes: int, peer: int) -> None:
        """Sends bytes to one rank, which calls `receive`."""
        self.comm.send(at, nbytes, BYTE, peer, self.stream.ptr)

    def receive(self, at: int, nbytes: int, peer: int) -> None:
        """Receives bytes from one rank, which calls `send`."""
        self.comm.recv(at, nbytes, BYTE, peer, self.stream.ptr)

    # ---------------------------------------------------------------- progress
    def follow(self, where: str, array: Any) -> None:
        """What comes next runs after the work that is queued on the array now.

        Raises:
            ValueError: the array is on another GPU.
        """
        if array.device.id != self.device.id:
            raise ValueError(
                f"{where}: the tensor is on another GPU than the group's of rank {self.rank}: "
                f"cuda:{array.device.id}, not cuda:{self.device.id}"
            )
        cuda = self.cupy.cuda
        with array.device:
            event = cuda.get_current_stream().record(cuda.Event(disable_timing=True))
        self.stream.wait_event(event)

    def mark(self) -> Any:
        """An event that is done when all earlier calls are."""
        event = self.cupy.cuda.Event(disable_timing=True)
        event.record(self.stream)
        return event

    def check(self) -> None:
        """Raises NCCL's asynchronous error (NcclError), if there is one."""
        self.comm.check_async_error()

    def abort(self) -> None:
        """Ends what is under way, whose memory may be half written, and frees everything. Unlike
        NCCL's `destroy` it never waits for another rank.
        """
        if not self.is_aborted:
            self.is_aborted = True
            with self.device:
                self.comm.abort()
