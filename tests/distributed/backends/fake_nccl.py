"""A CuPy with NCCL for ranks without GPUs, which checks that it is used as the real one demands.

Ranks exchange files in a folder: collective n of each, the k-th message of each pair. A violation
is raised where it happens and kept in `violations`: memory that is not alive when the work is done,
what is not pinned, groups that are not paired, numbers that NCCL does not have, collectives that
differ between ranks, calls after `abort` or from two threads, two communicators at work on one
device.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import sys
import threading
import time
import types
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from shmtensor import dtypes
from shmtensor.distributed.collectives.reference import ReduceOp, reduce_arrays

from .fake_gpu import (
    Array,
    Device,
    Event,
    Stream,
    alloc,
    alloc_pinned_memory,
    demand,
    local,
    memcpy_async,
    on_a_device,
    settings,
    streams,
    view,
    violations,
)

__all__ = ["installed", "settings", "violations"]

KINDS = [
    dtypes.int8, dtypes.uint8, dtypes.int32, dtypes.uint32, dtypes.int64, dtypes.uint64,
    dtypes.float16, dtypes.float32, dtypes.float64, dtypes.bfloat16,
]  # fmt: skip
OPERATIONS = [ReduceOp.SUM, ReduceOp.PRODUCT, ReduceOp.MAX, ReduceOp.MIN, ReduceOp.AVG]


class NcclError(RuntimeError):
    pass


def get_unique_id() -> tuple[int, ...]:
    return tuple(np.frombuffer(os.urandom(128), np.int8).tolist())


def group_start() -> None:
    local.depth = getattr(local, "depth", 0) + 1
    if local.depth == 1:
        local.calls = []


def group_end() -> None:
    demand(getattr(local, "depth", 0) > 0, "groupEnd without groupStart")
    local.depth -= 1
    if local.depth == 0 and local.calls:
        demand(len(local.calls) <= 2048, "more than 2048 calls in a group")
        comm, stream = local.calls[0][0], local.calls[0][1]
        demand(all(c is comm and s == stream for c, s, *_ in local.calls), "a mixed group")
        comm.begin("messages", stream, Messages(comm, [call[2:] for call in local.calls]))


class Messages:
    """Sends and receives of one NCCL group: a file for each."""

    def __init__(self, comm: NcclCommunicator, calls: list[Any]) -> None:
        self.comm = comm
        self.open: list[Any] = []
        self.calls = calls
        for sends, at, nbytes, peer in calls:
            ends = (comm.rank, peer) if sends else (peer, comm.rank)
            number = comm.counts[ends] = comm.counts.get(ends, 0) + 1
            self.open.append((sends, at, nbytes, f"message.{ends[0]}.{ends[1]}.{number}"))
        self.has_begun = False

    def __call__(self) -> bool:
        if not self.has_begun:
            self.has_begun = True
            for sends, at, nbytes, name in self.open:
                if sends:
                    self.comm.write(name, nbytes, view(at, nbytes, "device"))
        self.open = [each for each in self.open if not self.is_through(*each)]
        return not self.open

    def is_through(self, sends: bool, at: int, nbytes: int, name: str) -> bool:
        view(at, nbytes, "device")
        if sends:  # done once the receiver has read it
            return not (self.comm.folder / name).exists()
        if (data := self.comm.read(name)) is None:
            return False
        demand(data[0] == nbytes, f"{name}: {data[0]} bytes sent, {nbytes} expected")
        view(at, nbytes, "device")[:] = np.frombuffer(data[1], np.uint8)
        (self.comm.folder / name).unlink()
        return True


class NcclCommunicator:
    instances: ClassVar[weakref.WeakSet[NcclCommunicator]] = weakref.WeakSet()

    def __init__(self, ndev: int, commId: tuple[int, ...], rank: int) -> None:
        demand(isinstance(commId, tuple) and len(commId) == 128, "not a unique id")
        demand(all(-128 <= n < 128 for n in commId), "a char of the unique id is out of range")
        demand(0 <= rank < ndev, f"no such rank: {rank} of {ndev}")
        self.device, self.world, self.rank = on_a_device(), ndev, rank
        name = np.array(commId[:12], np.int8).tobytes().hex()
        self.folder = Path(str(settings["folder"])) / name
        self.folder.mkdir(exist_ok=True)
        self.number = 0
        self.under_way = 0
        self.counts: dict[tuple[int, int], int] = {}
        self.is_aborted = False
        self.issuing = threading.Lock()
        self.write(f"here.{rank}", None, np.empty(0, np.uint8))
        while any(self.read(f"here.{p}") is None for p in range(ndev)):
            time.sleep(0.001)
        NcclCommunicator.instances.add(self)

    # a rename: readers never see half a file
    def write(self, name: str, head: Any, data: Array) -> None:
        path = self.folder / f"{name}.part"
        path.write_bytes(pickle.dumps((head, data.tobytes())))
        path.rename(self.folder / name)

    def read(self, name: str) -> Any:
        try:
            return pickle.loads((self.folder / name).read_bytes())
        except FileNotFoundError:
            return None

    def begin(self, call: str, stream: int, work: Callable[[], bool]) -> None:
        demand(not self.is_aborted, f"{call} after abort or destroy")
        demand(stream in streams, f"{call}: not a stream: {stream}")
        demand(on_a_device() == self.device, f"{call}: another device is chosen in this thread")
        for other in list(NcclCommunicator.instances):
            is_busy = other is not self and other.under_way and not other.is_aborted
            demand(not is_busy, f"{call}: another communicator is at work on this GPU")
        demand(self.issuing.acquire(blocking=False), f"{call}: two threads at once")
        self.under_way += 1

        def step() -> bool:
            if self.is_aborted:  # it ends silently, with half-written data
                return True
            if not work():
                return False
            self.under_way -= 1
            return True

        try:
            streams[stream].add(step)
        finally:
            self.issuing.release()

    def together(
        self,
        call: tuple[Any, ...],
        stream: int,
        data: tuple[int, int],
        finish: Callable[[list[Array]], None],
    ) -> None:
        """A collective: passes all ranks' data to `finish` once all have come."""
        demand(not getattr(local, "depth", 0), "a collective in a group of messages")
        view(*data, "device")
        self.number += 1
        number, parts = self.number, [None] * self.world
        has_begun = False

        def work() -> bool:
            nonlocal has_begun
            buffer = view(*data, "device")
            if not has_begun:
                has_begun = True
                self.write(f"call.{number}.{self.rank}", call, buffer)
            for p in range(self.world):
                if parts[p] is None:
                    parts[p] = self.read(f"call.{number}.{p}")
            if any(part is None for part in parts):
                return False
            for p, (theirs, _) in enumerate(parts):  # type: ignore[misc]
                demand(theirs == call, f"call {number}: {call} here, {theirs} on rank {p}")
            # all other ranks have finished the earlier operations
            (self.folder / f"call.{number - 1}.{self.rank}").unlink(missing_ok=True)
            finish([np.frombuffer(part[1], np.uint8) for part in parts])  # type: ignore[index]
            return True

        self.begin(str(call[0]), stream, work)

    def reduced(self, name: str, count: int, kind: int, op: int, root: int = -1) -> Any:
        demand(0 <= kind < len(KINDS) and 0 <= op < len(OPERATIONS), f"{name}: {kind}, {op}")
        demand(count > 0 and -1 <= root < self.world, f"{name}: {count}, root {root}")
        dtype = KINDS[kind]
        nbytes = count * dtype.itemsize

        def join(parts: list[Array]) -> Array:
            return reduce_arrays([each.view(dtype) for each in parts], OPERATIONS[op]).view(
                np.uint8
            )

        return nbytes, join, (name, count, kind, op, root)

    def allReduce(self, send: int, recv: int, count: int, kind: int, op: int, stream: int) -> None:
        nbytes, join, call = self.reduced("allReduce", count, kind, op)

        def finish(parts: list[Array]) -> None:
            view(recv, nbytes, "device")[:] = join(parts)

        self.together(call, stream, (send, nbytes), finish)

    def reduce(
        self, send: int, recv: int, count: int, kind: int, op: int, root: int, stream: int
    ) -> None:
        nbytes, join, call = self.reduced("reduce", count, kind, op, root)

        def finish(parts: list[Array]) -> None:
            if self.rank == root:
                view(recv, nbytes, "device")[:] = join(parts)

        self.together(call, stream, (send, nbytes), finish)

    def reduceScatter(
        self, send: int, recv: int, count: int, kind: int, op: int, stream: int
    ) -> None:
        nbytes, join, call = self.reduced("reduceScatter", count, kind, op)

        def finish(parts: list[Array]) -> None:
            part = slice(self.rank * nbytes, (self.rank + 1) * nbytes)
            view(recv, nbytes, "device")[:] = join([each[part] for each in parts])

        self.together(call, stream, (send, nbytes * self.world), finish)

    def broadcast(
        self, send: int, recv: int, count: int, kind: int, root: int, stream: int
    ) -> None:
        nbytes, _, call = self.reduced("broadcast", count, kind, 0, root)

        def finish(parts: list[Array]) -> None:
            view(recv, nbytes, "device")[:] = parts[root]

        self.together(call, stream, (send, nbytes), finish)

    def allGather(self, send: int, recv: int, count: int, kind: int, stream: int) -> None:
        nbytes, _, call = self.reduced("allGather", count, kind, 0)

        def finish(parts: list[Array]) -> None:
            view(recv, nbytes * self.world, "device")[:] = np.concatenate(parts)

        self.together(call, stream, (send, nbytes), finish)

    def send(self, at: int, count: int, kind: int, peer: int, stream: int) -> None:
        self.message(True, at, count, kind, peer, stream)

    def recv(self, at: int, count: int, kind: int, peer: int, stream: int) -> None:
        self.message(False, at, count, kind, peer, stream)

    def message(self, sends: bool, at: int, count: int, kind: int, peer: int, stream: int) -> None:
        demand(0 <= peer < self.world and count > 0, f"message: {count} to or from {peer}")
        nbytes = count * KINDS[kind].itemsize
        view(at, nbytes, "device")
        group_start()
        local.calls.append((self, stream, sends, at, nbytes, peer))
        group_end()

    def check_async_error(self) -> None:
        demand(not self.is_aborted, "check_async_error after abort")

    def abort(self) -> None:
        self.is_aborted = True

    destroy = abort


@contextlib.contextmanager
def installed(folder: str, **options: Any) -> Iterator[None]:
    """`import cupy` gives this, in this process.

    Args:
        folder: where ranks exchange files; the same on all ranks.
        options: `eager`, `devices` (how many), `same` (one GPU for all), `version`, `nccl` (False:
            CuPy has none).
    """
    has_nccl = options.pop("nccl", True)
    before = dict(settings)
    settings.update(folder=folder, **options)
    nccl = types.SimpleNamespace(
        available=has_nccl,
        NcclCommunicator=NcclCommunicator,
        NcclError=NcclError,
        get_unique_id=get_unique_id,
        get_version=lambda: settings["version"],
        groupStart=group_start,
        groupEnd=group_end,
    )
    runtime = types.SimpleNamespace(
        getDeviceCount=lambda: settings["devices"],
        deviceGetPCIBusId=lambda i: "0000:07:00.0" if settings["same"] else f"0000:{i:02x}:00.0",
        memcpyAsync=memcpy_async,
        memcpyHostToDevice=1,
        memcpyDeviceToHost=2,
        memcpyDeviceToDevice=3,
    )
    module: Any = types.ModuleType("cupy")
    module.cuda = types.SimpleNamespace(
        nccl=nccl,
        runtime=runtime,
        is_available=lambda: settings["devices"] != 0,
        Device=Device,
        Stream=Stream,
        Event=Event,
        alloc=alloc,
        alloc_pinned_memory=alloc_pinned_memory,
    )
    previous = sys.modules.get("cupy")
    sys.modules["cupy"] = module
    try:
        yield
    finally:
        NcclCommunicator.instances.clear()
        streams.clear()
        settings.clear()
        settings.update(before)
        del sys.modules["cupy"]
        if previous is not None:
            sys.modules["cupy"] = previous
