"""What pinning uses of CuPy, without a GPU: registrations of host memory, each checked."""

from __future__ import annotations

import contextlib
import sys
import types
from collections.abc import Iterator
from typing import Any

from shmtensor import cupy_runtime


class FakeCuda:
    """`module` is what `import cupy` gives; `pinned` the registered ranges, `calls` all of them."""

    def __init__(self) -> None:
        self.pinned: dict[int, int] = {}
        self.calls: list[tuple[str, int]] = []
        self.refuses = False
        runtime = types.SimpleNamespace(hostRegister=self.register, hostUnregister=self.unregister)
        self.module: Any = types.ModuleType("cupy")
        self.module.cuda = types.SimpleNamespace(runtime=runtime, is_available=lambda: True)

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


@contextlib.contextmanager
def installed(monkeypatch: Any) -> Iterator[FakeCuda]:
    fake = FakeCuda()
    monkeypatch.setitem(sys.modules, "cupy", fake.module)
    monkeypatch.setattr(cupy_runtime.state, "devices", 1)
    yield fake
