"""What the design assumes of CUDA where its documents are silent: each a small experiment.

An experiment returns what was seen. The names (I2, lock) are those of the lines that
`make gpu-test` prints; docs/design/cuda-memory.md, "Tried on a GPU", has what an H100 showed.
"""

from __future__ import annotations

import pickle
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

MIB = 2**20
SIZE = 64 * MIB

CHILD = """
import pickle, sys, time
if STANDIN:
    from tests.cuda.standin.install import install
    install()
import cupy
rt = cupy.cuda.runtime
send = lambda x: (pickle.dump(x, sys.stdout.buffer), sys.stdout.buffer.flush())
take = lambda: pickle.load(sys.stdin.buffer)
"""


class Child:
    """A process with CUDA that runs some lines."""

    def __init__(self, code: str, standin: bool) -> None:
        text = f"STANDIN = {standin}\n{CHILD}{code}"
        self.process = subprocess.Popen(
            [sys.executable, "-c", text], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )

    def send(self, value: Any) -> None:
        assert self.process.stdin is not None
        pickle.dump(value, self.process.stdin)
        self.process.stdin.flush()

    def take(self) -> Any:
        assert self.process.stdout is not None
        return pickle.load(self.process.stdout)

    def __enter__(self) -> Child:
        return self

    def __exit__(self, *error: object) -> None:
        self.process.kill()
        self.process.communicate()


def error_of(cupy: Any, call: Callable[[], Any]) -> str:
    """The name of the CUDA error of a call, or "no error"."""
    try:
        call()
    except cupy.cuda.runtime.CUDARuntimeError as error:
        return str(error).partition(":")[0]
    return "no error"


def interior(cupy: Any, standin: bool) -> str:
    rt = cupy.cuda.runtime
    pointer = rt.malloc(SIZE)
    try:
        base = rt.ipcGetMemHandle(pointer)
        try:
            same = rt.ipcGetMemHandle(pointer + 4096) == base
        except rt.CUDARuntimeError as error:
            return str(error).partition(":")[0]
        return "the identical handle" if same else "another handle"
    finally:
        rt.free(pointer)


OPEN_TWICE = """
handle = take()
first = rt.ipcOpenMemHandle(handle)
try:
    second = rt.ipcOpenMemHandle(handle)
    send("same pointer" if first == second else "another pointer")
except rt.CUDARuntimeError as error:
    send(str(error).partition(":")[0])
"""


def opened_twice(cupy: Any, standin: bool) -> str:
    rt = cupy.cuda.runtime
    pointer = rt.malloc(SIZE)
    try:
        with Child(OPEN_TWICE, standin) as child:
            child.send(rt.ipcGetMemHandle(pointer))
            return str(child.take())
    finally:
        rt.free(pointer)


def own_handle(cupy: Any, standin: bool) -> str:
    rt = cupy.cuda.runtime
    pointer = rt.malloc(SIZE)
    try:
        handle = rt.ipcGetMemHandle(pointer)
        return error_of(cupy, lambda: rt.ipcOpenMemHandle(handle))
    finally:
        rt.free(pointer)


def pool_memory(cupy: Any, standin: bool) -> str:
    rt = cupy.cuda.runtime
    try:
        pointer = rt.mallocAsync(SIZE, 0)
    except rt.CUDARuntimeError as error:
        return f"no such memory: {str(error).partition(':')[0]}"
    try:
        return error_of(cupy, lambda: rt.ipcGetMemHandle(pointer))
    finally:
        rt.freeAsync(pointer, 0)
        rt.deviceSynchronize()


EXPORTER = """
x = cupy.cuda.alloc(0)
pointer = rt.malloc(SIZE)
rt.memset(pointer, 77, SIZE)
rt.deviceSynchronize()
send(rt.ipcGetMemHandle(pointer))
time.sleep(100)
"""


UNSEEN = "not to be seen here: "
NOT_ASSUMED = "nothing is assumed"
BY_PROCESS = f"{UNSEEN}this device counts memory by process"


def killed_exporter(cupy: Any, standin: bool) -> str:
    rt = cupy.cuda.runtime
    before = rt.memGetInfo()[0]
    with Child(f"SIZE = {SIZE}\n{EXPORTER}", standin) as child:
        pointer = rt.ipcOpenMemHandle(child.take())
        child.process.kill()
        child.process.wait()
        time.sleep(0.5)
        memory = cupy.cuda.UnownedMemory(pointer, SIZE, None, 0)
        x = cupy.ndarray(SIZE, "u1", memptr=cupy.cuda.MemoryPointer(memory, 0))
        seen = "its bytes stay" if int(x[-1]) == 77 else "other bytes"
        del x, memory
        held = rt.memGetInfo()[0]
        rt.ipcCloseMemHandle(pointer)
    if before - held < SIZE // 2:
        return f"{BY_PROCESS}; {seen}"
    end = time.monotonic() + 5
    while rt.memGetInfo()[0] - held < SIZE // 2 and time.monotonic() < end:
        time.sleep(0.01)
    freed = rt.memGetInfo()[0] - held >= SIZE // 2
    return f"{seen}, and are {'freed' if freed else 'NOT freed'} when the importer closes"


RECEIVER = """
import fcntl
if name := take():
    lock = open(name, "w")
    fcntl.flock(lock, fcntl.LOCK_EX)
pointer = rt.malloc(SIZE)
rt.deviceSynchronize()
send(True)
time.sleep(100)
"""


def dead_receiver(cupy: Any, standin: bool, name: str, until: Callable[[Child], object]) -> str:
    """What of a killed process's context is seen after `until`: "gone" if its memory is back in
    less than 5 ms.
    """
    rt = cupy.cuda.runtime
    before = rt.memGetInfo()[0]
    with Child(f"SIZE = {SIZE}\n{RECEIVER}", standin) as child:
        child.send(name)
        child.take()
        held = rt.memGetInfo()[0]
        if before - held < SIZE // 2:
            return BY_PROCESS
        child.process.kill()
        until(child)
        begin = time.monotonic()
        while rt.memGetInfo()[0] - held < SIZE // 2:
            if time.monotonic() - begin > 5:
                return "its memory is still in use after 5 s"
            time.sleep(0.0002)
        waited = time.monotonic() - begin
    return "gone" if waited < 0.005 else f"gone after {waited * 1000:.1f} ms"


def dead_by_lock(cupy: Any, standin: bool) -> str:
    """Nothing depends on this one: it says why a sweep waits for the exit."""
    import fcntl
    import tempfile

    with tempfile.NamedTemporaryFile() as file, open(file.name) as lock:
        # the lock goes with the process's descriptors
        return dead_receiver(cupy, standin, file.name, lambda _: fcntl.flock(lock, fcntl.LOCK_EX))


def dead_by_exit(cupy: Any, standin: bool) -> str:
    return dead_receiver(cupy, standin, "", lambda child: child.process.wait())


# A word in a file that both map and register: `value(name, stream, n)` calls the driver.
WORD = """
import ctypes, mmap
with open(PATH, "r+b") as file:
    shared = mmap.mmap(file.fileno(), 4096)
word = ctypes.c_uint32.from_buffer(shared)
cupy.cuda.runtime.hostRegister(ctypes.addressof(word), 4096, 3)  # portable, mapped
driver, address = ctypes.CDLL("libcuda.so.1"), ctypes.c_uint64()
pointer = ctypes.byref(address), ctypes.c_void_p(ctypes.addressof(word)), 0
assert driver.cuMemHostGetDevicePointer_v2(*pointer) == 0
def value(name, stream, n):
    function = getattr(driver, f"cuStream{name}Value32_v2")
    assert function(ctypes.c_void_p(stream), address, ctypes.c_uint32(n), ctypes.c_uint(0)) == 0
"""
WRITER = """
stream = cupy.cuda.Stream(non_blocking=True)
for n in (1, 2):
    take()
    if n == 1:
        value("Write", stream.ptr, n)
        stream.synchronize()
    else:
        word.value = n
    send(True)
"""


def waits_for_words(cupy: Any, standin: bool) -> str:
    """A stream waits for a word that another process's GPU writes, then its host."""
    import tempfile

    with tempfile.NamedTemporaryFile(dir="/dev/shm") as file:
        file.truncate(4096)
        code = f"PATH = {file.name!r}\n{WORD}"
        names: dict[str, Any] = {"cupy": cupy}
        exec(code, names)
        stream = cupy.cuda.Stream(non_blocking=True)
        seen = []
        with Child(f"cupy.zeros(1)\n{code}{WRITER}", standin) as child:
            for n in (1, 2):
                names["value"]("Wait", stream.ptr, n)
                time.sleep(0.1)
                seen.append(stream.done)
                child.send(True)
                child.take()
                end = time.monotonic() + 5
                while not stream.done and time.monotonic() < end:
                    time.sleep(0.001)
                seen.append(stream.done)
                names["word"].value = n  # should it hang
        stream.synchronize()
        cupy.cuda.runtime.hostUnregister(names["ctypes"].addressof(names["word"]))
        del names
    return "waits, and goes on" if seen == [False, True] * 2 else f"done: {seen}"


# number, what is assumed, the experiment, what is to be seen
EXPERIMENTS: list[tuple[str, str, Callable[[Any, bool], str], str]] = [
    ("I2", "an interior pointer gives", interior, "the identical handle"),
    ("I4", "opening a handle twice gives", opened_twice, "same pointer"),
    ("I5", "opening one's own handle", own_handle, "cudaErrorDeviceUninitialized"),
    ("I10", "a handle of mallocAsync's memory", pool_memory, "cudaErrorInvalidValue"),
    (
        "I12",
        "of a killed exporter",
        killed_exporter,
        "its bytes stay, and are freed when the importer closes",
    ),
    ("wait", "a stream, for a word that others write,", waits_for_words, "waits, and goes on"),
    ("lock", "a dead process's context, when its lock is free:", dead_by_lock, NOT_ASSUMED),
    ("sweep", "a dead process's context is, when it has exited,", dead_by_exit, "gone"),
]


def see(cupy: Any, standin: bool) -> list[tuple[str, str, str, str]]:
    """(number, what, assumed, seen) of each experiment."""
    rows = []
    for number, what, experiment, assumed in EXPERIMENTS:
        try:
            seen = experiment(cupy, standin)
        except Exception as error:  # the others are tried all the same
            seen = f"{type(error).__name__}: {error}"
        rows.append((number, what, assumed, seen))
    return rows
