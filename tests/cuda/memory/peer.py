"""A process of the test's domain that uses the device: it does what it is told, line by line."""

from __future__ import annotations

import gc
import pickle
import select
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

from shmtensor import cupy_runtime, memory, native
from tests.cuda.standin.program import start

PROGRAM = r"""
import gc, time, traceback
import shmtensor.memory.cuda as mc
from shmtensor import errors, native
from tests.cuda.standin.busy import busy
mc.install()
world = dict(cupy=cupy, np=np, rt=rt, mc=mc, gc=gc, time=time, os=os, native=native, pickle=pickle,
             library=library, errors=errors, busy=busy)
world["world"] = world
known = world["known"] = {*world, "known", "__builtins__"}
print("ready", flush=True)
for line in sys.stdin:
    try:
        exec(eval(line), world)
        print("done", repr(world.pop("out", None)), flush=True)
    except Exception as error:
        print(type(error).__name__, repr(str(error)), flush=True)
mc.uninstall()
"""


class Peer:
    """Such a process; `do` gives what its code left in `out`."""

    def __init__(self, **settings: object) -> None:
        settings.setdefault("SHMTENSOR_DOMAIN", memory.domain_environment())
        self.process = start(PROGRAM, **settings)
        self.is_ready = False

    def tell(self, code: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(repr(code).encode() + b"\n")
        self.process.stdin.flush()

    def answer(self) -> Any:
        assert self.process.stdout is not None
        line = self.process.stdout.readline().decode().rstrip("\n")
        kind, _, rest = line.partition(" ")
        if not line:
            assert self.process.stderr is not None
            raise EOFError(self.process.stderr.read().decode())
        value = eval(rest) if rest else None
        if kind == "ready":
            return self.answer()
        if kind != "done":
            raise RuntimeError(f"{kind}: {value}")
        return value

    def do(self, code: str) -> Any:
        self.tell(code)
        return self.answer()

    def answers_within(self, seconds: float) -> bool:
        """Whether the answer to what it was told comes in time."""
        assert self.process.stdout is not None
        return bool(select.select([self.process.stdout], [], [], seconds)[0])

    def receive(self, message: Any, name: str = "a") -> None:
        """The peer receives a message into a variable."""
        self.do(f"{name} = mc.receive(pickle.loads({pickle.dumps(message)!r}))")

    def forget(self) -> None:
        """Its variables go, and the memory that it had."""
        self.do("for name in set(world) - known: del world[name]")
        self.do("gc.collect(); rt.deviceSynchronize(); mc.empty_cache()")

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def end(self) -> str:
        """Ends it; what it has written to stderr."""
        _, errors = self.process.communicate(timeout=60)
        return errors.decode()


@contextmanager
def peers(n: int = 1, **settings: object) -> Iterator[list[Peer]]:
    """Some of them. Each must end without a word on stderr, unless it was killed."""
    started = [Peer(**settings) for _ in range(n)]
    try:
        for peer in started:
            peer.do("pass")
        yield started
        for peer in started:
            if peer.process.poll() is None:
                errors = peer.end()
                assert not errors, errors
    finally:
        for peer in started:
            peer.process.kill()
            peer.process.communicate()


def until(condition: Callable[[], bool], seconds: float = 20.0) -> bool:
    """Whether `condition` becomes true in time."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True


def clean(mc: ModuleType) -> None:
    """Nothing is left: no block, slab, import, bit or message of this process."""
    gc.collect()
    native.sweep(True)

    def is_empty() -> bool:
        mc.uninstall()
        return not any(mc.memory_reserved(i) for i in range(cupy_runtime.device_count()))

    assert until(is_empty), mc.memory_summary()
    unread = [size for row, size, _, has_channel in native.unread() if not has_channel]
    assert not unread, f"messages of so many bytes are neither received nor discarded: {unread}"
    assert native.check() is None


# Of a peer's program: from here on it is dead for the others, its lock is free and it has left the
# domain's memory, but it has not exited yet, and its work on the device goes on. `timer` is the
# thread of ours, which must not look at that memory any more.
LINGER = r"""
import ctypes
from shmtensor.memory.cuda import timer
timer.pause()
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
with open("/proc/self/maps") as maps:
    lines = [line for line in maps if "shmtensor-control" in line]
for line in lines:  # zeros instead of it: PROT_READ; MAP_PRIVATE, FIXED, ANONYMOUS, NORESERVE
    start, end = (int(address, 16) for address in line.split()[0].split("-"))
    assert libc.mmap(start, end - start, 1, 0x4032, -1, 0) == start, ctypes.get_errno()
for name in os.listdir("/proc/self/fd"):
    try:
        is_control = "shmtensor-control" in os.readlink(f"/proc/self/fd/{name}")
    except FileNotFoundError:  # of the listing itself
        continue
    if is_control:
        os.close(int(name))
"""
