"""Defects in the use of CUDA, each written once on purpose: the stand-in notices each.

The right form of the same program passes.
"""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.cuda.standin.fixtures import Misuses
from tests.cuda.standin.program import run, start

ROUNDS = 40

SENDER = """
memory = cupy.cuda.Memory(1 << 16)
event = rt.eventCreateWithFlags(rt.eventDisableTiming | rt.eventInterprocess)
stream = cupy.cuda.Stream(non_blocking=True)
rt.memset(memory.ptr, 0, 1 << 16)
rt.deviceSynchronize()
rt.memsetAsync(memory.ptr, 1, 1 << 16, stream.ptr)
rt.eventRecord(event, stream.ptr)
sys.stdout.buffer.write(pickle.dumps((rt.ipcGetMemHandle(memory.ptr), rt.ipcGetEventHandle(event))))
sys.stdout.flush()
sys.stdin.read()
"""


@pytest.mark.parametrize("defect", [False, True])
def test_no_event_wait_at_receive(cp: Any, defect: bool) -> None:
    rt = cp.cuda.runtime
    sender = start(SENDER, STANDIN_LATE_US=30_000_000 if defect else 50_000)
    assert sender.stdout is not None
    try:
        memory, event = pickle.load(sender.stdout)
        p, e = rt.ipcOpenMemHandle(memory), rt.ipcOpenEventHandle(event)
        stream = cp.cuda.Stream(non_blocking=True)
        if not defect:
            rt.streamWaitEvent(stream.ptr, e)
        host = np.full(1 << 16, 2, np.uint8)
        rt.memcpyAsync(host.ctypes.data, p, host.nbytes, rt.memcpyDeviceToHost, stream.ptr)
        stream.synchronize()
        assert (host == (0 if defect else 1)).all()
        rt.ipcCloseMemHandle(p)
        rt.eventDestroy(e)
    finally:
        sender.kill()
        sender.communicate()


def test_asarray_of_a_device_array(cp: Any) -> None:
    x = cp.ones(3)
    with pytest.raises(TypeError, match="Implicit conversion"):
        np.asarray(x)
    by_address = """
        import ctypes
        x = cupy.ones(3)
        rt.deviceSynchronize()
        print(np.frombuffer((ctypes.c_char * 24).from_address(x.data.ptr)).sum())
        """
    assert run(by_address)[0] == -11
    assert float(x.get().sum()) == 3


@pytest.mark.parametrize("defect", [False, True])
def test_finaliser_in_a_forked_child(cp: Any, misuses: Misuses, defect: bool) -> None:
    rt, owner = cp.cuda.runtime, os.getpid()
    p = rt.malloc(4096)

    def finalise() -> None:
        if defect or os.getpid() == owner:
            rt.free(p)

    pid = os.fork()
    if not pid:
        try:
            finalise()
        except rt.CUDARuntimeError:
            os._exit(1)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == int(defect)
    finalise()
    misuses.expected = int(defect)


def rounds(cp: Any, one: Callable[[int], int]) -> int:
    """How many of the rounds end with another value than their number."""
    wrong = 0
    for number in range(1, ROUNDS + 1):
        wrong += one(number) != number
        cp.cuda.runtime.deviceSynchronize()
    return wrong


@pytest.mark.parametrize("defect", [False, True])
def test_one_event_for_two_streams(cp: Any, defect: bool) -> None:
    """What the first stream has sent is awaited by an event that the second has recorded since."""
    rt = cp.cuda.runtime
    flags = rt.eventDisableTiming | rt.eventInterprocess
    events = [rt.eventCreateWithFlags(flags) for _ in range(2)]
    first, second, reader = (cp.cuda.Stream(non_blocking=True) for _ in range(3))
    sent, unrelated, copy = (cp.zeros(1, np.uint8) for _ in range(3))
    rt.deviceSynchronize()

    def one(number: int) -> int:
        rt.memsetAsync(sent.data.ptr, number, 1, first.ptr)
        rt.eventRecord(events[0], first.ptr)
        rt.memsetAsync(unrelated.data.ptr, number, 1, second.ptr)
        rt.eventRecord(events[0 if defect else 1], second.ptr)
        rt.streamWaitEvent(reader.ptr, events[0])
        rt.memcpyAsync(copy.data.ptr, sent.data.ptr, 1, rt.memcpyDeviceToDevice, reader.ptr)
        rt.deviceSynchronize()
        return int(copy.get()[0])

    wrong = rounds(cp, one)
    assert wrong > 0 if defect else wrong == 0
    for event in events:
        rt.eventDestroy(event)


@pytest.mark.parametrize("defect", [False, True])
def test_reuse_that_ignores_a_second_stream(cp: Any, defect: bool) -> None:
    """A block is freed and allocated again while another stream still reads it."""
    rt = cp.cuda.runtime
    owner, reader = (cp.cuda.Stream(non_blocking=True) for _ in range(2))
    block, copy = (cp.zeros(1, np.uint8) for _ in range(2))
    written, read = (cp.cuda.Event(disable_timing=True) for _ in range(2))
    rt.deviceSynchronize()

    def one(number: int) -> int:
        rt.memsetAsync(block.data.ptr, number, 1, owner.ptr)
        written.record(owner)
        reader.wait_event(written)
        rt.memcpyAsync(copy.data.ptr, block.data.ptr, 1, rt.memcpyDeviceToDevice, reader.ptr)
        read.record(reader)
        if not defect:
            owner.wait_event(read)
        rt.memsetAsync(block.data.ptr, 255, 1, owner.ptr)  # its next user
        rt.deviceSynchronize()
        return int(copy.get()[0])

    wrong = rounds(cp, one)
    assert wrong > 0 if defect else wrong == 0


IMPORTER = """
p = rt.ipcOpenMemHandle(pickle.load(sys.stdin.buffer))
print("open", flush=True)
sys.stdin.buffer.read(1)
rt.ipcCloseMemHandle(p)
print("closed", flush=True)
sys.stdin.buffer.read()
"""


@pytest.mark.parametrize("end", ["free at once", "close", "kill"])
def test_free_while_another_process_has_it_open(cp: Any, misuses: Misuses, end: str) -> None:
    rt = cp.cuda.runtime
    p = rt.malloc(1 << 16)
    importer = start(IMPORTER)
    assert importer.stdin is not None
    assert importer.stdout is not None
    try:
        importer.stdin.write(pickle.dumps(rt.ipcGetMemHandle(p)))
        importer.stdin.flush()
        assert importer.stdout.readline() == b"open\n"
        if end == "free at once":
            with pytest.raises(rt.CUDARuntimeError, match="IllegalState"):
                rt.free(p)
            misuses.expected = 1
        elif end == "close":
            importer.stdin.write(b"x")
            importer.stdin.flush()
            assert importer.stdout.readline() == b"closed\n"
            rt.free(p)
    finally:
        importer.kill()
        importer.communicate()
    if end != "close":
        rt.free(p)


@pytest.mark.usefixtures("no_background")
@pytest.mark.parametrize("defect", [False, True])
def test_no_wait_before_a_host_read(cp: Any, defect: bool) -> None:
    rt, stream = cp.cuda.runtime, cp.cuda.Stream(non_blocking=True)
    source = cp.full(16, 9, np.uint8)
    host = np.frombuffer(cp.cuda.alloc_pinned_memory(16), np.uint8, 16)
    host[:] = 0
    rt.deviceSynchronize()
    rt.memcpyAsync(host.ctypes.data, source.data.ptr, 16, rt.memcpyDeviceToHost, stream.ptr)
    if not defect:
        stream.synchronize()
    seen = int(host[0])
    assert seen == (0 if defect else 9)
    stream.synchronize()


def test_a_host_function_that_calls_the_device(cp: Any, misuses: Misuses) -> None:
    rt, stream = cp.cuda.runtime, cp.cuda.Stream(non_blocking=True)
    errors: list[str] = []

    def call(_: Any) -> None:
        try:
            rt.malloc(64)
        except rt.CUDARuntimeError as error:
            errors.append(str(error))

    stream.launch_host_func(call, None)
    stream.synchronize()
    assert "NotPermitted" in errors[0]
    misuses.expected = 1
