"""Memory, streams and events of a simulated GPU, for the stand-in of CuPy (fake_nccl.py).

Device memory is memory of this process; given up it is overwritten, and known as dead. A stream
does its work in order, as far as it can, when somebody looks (`Event.done`), or at once (`eager`).
"""

from __future__ import annotations

import ctypes
import itertools
import threading
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np

DEAD = 0xDB  # overwrites freed memory
Array = Any
violations: list[str] = []


class Violation(AssertionError):
    def __init__(self, text: str) -> None:
        super().__init__(text)
        violations.append(text)


def demand(holds: bool, text: str) -> None:
    if not holds:
        raise Violation(text)


# ---------------------------------------------------------------- memory
alive: dict[int, tuple[int, str]] = {}  # address -> bytes, "device" or "pinned"


def bury(address: int, memory: Array) -> None:
    memory[:] = DEAD
    del alive[address]


class MemoryPointer:
    def __init__(self, nbytes: int) -> None:
        memory = np.full(nbytes, DEAD, np.uint8)
        self.ptr = memory.ctypes.data
        alive[self.ptr] = nbytes, "device"
        weakref.finalize(self, bury, self.ptr, memory)


def alloc(nbytes: int) -> MemoryPointer:
    on_a_device()
    demand(getattr(local, "stream", None) is not None, "memory of the default stream")
    return MemoryPointer(nbytes)


def alloc_pinned_memory(nbytes: int) -> Any:
    class Pinned(ctypes.c_uint8 * nbytes):  # type: ignore[misc]
        def __del__(self) -> None:
            alive.pop(ctypes.addressof(self), None)

    memory = Pinned()
    alive[ctypes.addressof(memory)] = nbytes, "pinned"
    return memory


def view(address: int, nbytes: int, kind: str) -> Array:
    """The bytes at an address, which must be alive and of this kind."""
    for first, (size, block) in list(alive.items()):
        if first <= address and address + nbytes <= first + size:
            demand(block == kind, f"{block} memory, not {kind}: {address:#x}")
            return np.frombuffer((ctypes.c_uint8 * nbytes).from_address(address), np.uint8)
    raise Violation(f"no {kind} memory is alive at {address:#x}, {nbytes} bytes")


# ---------------------------------------------------------------- devices, streams, events
local = threading.local()
streams: dict[int, Stream] = {}
settings = {"folder": "", "eager": False, "devices": 8, "version": 22703, "same": False}


def on_a_device() -> int:
    device = getattr(local, "device", None)
    demand(device is not None, "no device was chosen in this thread")
    return int(device)  # type: ignore[arg-type]


class Device:
    def __init__(self, index: int) -> None:
        self.id = index

    def __enter__(self) -> None:
        local.stack = [*getattr(local, "stack", []), getattr(local, "device", None)]
        local.device = self.id

    def __exit__(self, *error: object) -> None:
        local.device = local.stack.pop()


class Stream:
    numbers = itertools.count(1 << 20)

    def __init__(self, non_blocking: bool) -> None:
        demand(non_blocking, "a stream that waits for the default stream")
        self.device, self.ptr = on_a_device(), next(self.numbers)
        self.queue: list[Callable[[], bool]] = []
        self.ran = 0
        self.lock = threading.RLock()
        streams[self.ptr] = self

    def __enter__(self) -> None:
        local.stream = self

    def __exit__(self, *error: object) -> None:
        local.stream = None

    def add(self, work: Callable[[], bool]) -> None:
        self.queue.append(work)
        if settings["eager"]:
            self.run()

    def run(self) -> None:
        """Runs the queue as far as it goes without waiting for other ranks."""
        with self.lock:
            while self.ran < len(self.queue) and self.queue[self.ran]():
                self.queue[self.ran] = is_done
                self.ran += 1


def is_done() -> bool:
    return True


class Event:
    def __init__(self, disable_timing: bool) -> None:
        self.stream: Stream | None = None

    def record(self, stream: Stream) -> None:
        demand(not getattr(local, "depth", 0), "an event inside a group of NCCL calls")
        self.stream, self.place = stream, len(stream.queue)

    @property
    def done(self) -> bool:
        demand(self.stream is not None, "an event that was not recorded")
        assert self.stream is not None
        self.stream.run()
        return self.stream.ran >= self.place


WAYS = {1: ("device", "pinned"), 2: ("pinned", "device"), 3: ("device", "device")}


def memcpy_async(target: int, source: int, nbytes: int, kind: int, stream: int) -> None:
    into, out_of = WAYS[kind]
    demand(nbytes > 0, "a copy of nothing")

    def copy() -> bool:
        view(target, nbytes, into)[:] = view(source, nbytes, out_of)
        return True

    view(target, nbytes, into), view(source, nbytes, out_of)
    streams[stream].add(copy)
