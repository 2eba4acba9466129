"""A CuPy of a few calls without a GPU: its streams run as late or as early as real ones may.

Work is queued and runs when a result is needed: a stream runs up to an event that another one waits
for, or that the program synchronises with. With `eager` copies run at once unless they wait for an
event; so both kinds of wrong order show as wrong values. Freed device memory is reused at once, as
in CuPy's pool.
"""

from __future__ import annotations

import contextlib
import ctypes
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from shmtensor import cupy_runtime


class Event:
    def __init__(self, stream: Stream) -> None:
        self.stream, self.place = stream, len(stream.queue)

    @property
    def done(self) -> bool:
        return self.stream.ran >= self.place

    def synchronize(self) -> None:
        self.stream.run(self.place)


class Stream:
    def __init__(self, cuda: FakeCuda, eager: bool) -> None:
        self.cuda, self.eager = cuda, eager
        self.queue: list[Callable[[], None]] = []
        self.ran = 0

    def add(self, work: Callable[[], None]) -> None:
        self.queue.append(work)
        if self.eager:
            self.run(len(self.queue))

    def run(self, place: int) -> None:
        while self.ran < place:
            self.ran += 1
            self.queue[self.ran - 1]()

    def record(self) -> Event:
        return Event(self)

    def wait_event(self, event: Event) -> None:
        self.add(event.synchronize)

    def synchronize(self) -> None:
        self.run(len(self.queue))

    def __enter__(self) -> None:
        self.before, self.cuda.current = self.cuda.current, self

    def __exit__(self, *error: object) -> None:
        self.cuda.current = self.before


class Array:
    """Device memory, which only `FakeCuda.use` may read."""

    def __init__(self, cuda: FakeCuda, memory: Any, owner: Any = None) -> None:
        self.cuda, self.memory, self.owner = cuda, memory, owner
        self.shape, self.dtype = memory.shape, memory.dtype

    def set(self, host: Any, stream: Stream) -> None:
        assert host.flags.c_contiguous
        assert (host.shape, host.dtype) == (self.shape, self.dtype)
        self.cuda.copied.append(host.shape)
        memory, address, nbytes = self.memory, host.ctypes.data, host.nbytes
        # Pageable memory is staged at once; of pinned memory the driver keeps only the address.
        staged = None if self.cuda.is_pinned(host) else host.tobytes()

        def copy() -> None:
            data = ctypes.string_at(address, nbytes) if staged is None else staged
            memory[...] = np.frombuffer(data, memory.dtype).reshape(memory.shape)

        stream.add(copy)

    def transpose(self, *axes: int) -> Array:
        return Array(self.cuda, self.memory.transpose(axes), owner=self)

    def __del__(self) -> None:
        if self.owner is None:
            self.cuda.free.append(self.memory)


class FakeCuda:
    """`module` is what `import cupy` gives; `pinned` the registered ranges, `calls` all of them."""

    def __init__(self, eager: bool = False) -> None:
        self.eager = eager
        self.pinned: dict[int, int] = {}
        self.calls: list[tuple[str, int]] = []
        self.copied: list[tuple[int, ...]] = []
        self.free: list[Any] = []
        self.current = Stream(self, eager=False)
        self.refuses = False
        runtime = types.SimpleNamespace(hostRegister=self.register, hostUnregister=self.unregister)
        cuda = types.SimpleNamespace(
            runtime=runtime,
            is_available=lambda: True,
            Device=lambda number: contextlib.nullcontext(),
            Stream=lambda non_blocking: Stream(self, self.eager),
            get_current_stream=lambda: self.current,
        )
        self.module: Any = types.ModuleType("cupy")
        self.module.cuda = cuda
        self.module.empty = self.empty

    def register(self, address: int, nbytes: int, flags: int) -> None:
        if self.refuses:
            raise RuntimeError("cudaErrorMemoryAllocation: out of memory")
        assert address % 4096 == 0
        assert nbytes % 4096 == 0
        for other, size in self.pinned.items():
            assert address + nbytes <= other or other + size <= address, "registered twice"
        self.pinned[address] = nbytes
        self.calls.append(("register", address))

    def unregister(self, address: int) -> None:
        del self.pinned[address]
        self.calls.append(("unregister", address))

    def registered(self) -> int:
        """The number of registrations so far."""
        return sum(name == "register" for name, _ in self.calls)

    def is_pinned(self, array: Any) -> bool:
        at, n = array.ctypes.data, array.nbytes
        return any(first <= at and at + n <= first + size for first, size in self.pinned.items())

    def empty(self, shape: tuple[int, ...], dtype: Any) -> Array:
        for place, memory in enumerate(self.free):
            if memory.shape == shape and memory.dtype == dtype:
                return Array(self, self.free.pop(place))
        return Array(self, np.full(shape, 77, dtype))

    def use(self, array: Array) -> list[Any]:
        """Has the current stream read the values: they are in the list once it has run."""
        copies: list[Any] = []
        memory = array.memory
        self.current.add(lambda: copies.append(memory.copy()))
        return copies


@contextlib.contextmanager
def installed(monkeypatch: Any, eager: bool = False) -> Iterator[FakeCuda]:
    fake = FakeCuda(eager)
    monkeypatch.setitem(sys.modules, "cupy", fake.module)
    monkeypatch.setattr(cupy_runtime.state, "devices", 1)
    yield fake
