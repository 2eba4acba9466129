"""Memory and events of the stand-in across processes: IPC handles, forks, deaths."""

from __future__ import annotations

import os
import pickle
from typing import Any

import numpy as np
import pytest

from tests.cuda.standin.fixtures import Misuses
from tests.cuda.standin.program import start

RECEIVER = r"""
handle, offset, event = pickle.load(sys.stdin.buffer)
p = rt.ipcOpenMemHandle(handle)
again = rt.ipcOpenMemHandle(handle)
assert p == again, "a second open gives the same pointer"
rt.ipcCloseMemHandle(again)
try:
    rt.ipcGetMemHandle(p)
    raise SystemExit("an importer can export")
except rt.CUDARuntimeError:
    pass
stream = cupy.cuda.Stream(non_blocking=True)
rt.streamWaitEvent(stream.ptr, rt.ipcOpenEventHandle(event))
block = cupy.cuda.UnownedMemory(p + offset, 4000, None, 0)
a = cupy.ndarray((1000,), np.float32, cupy.cuda.MemoryPointer(block, 0))
with stream:
    print(float(a.sum()), flush=True)
    a += 1
    stream.synchronize()
print("written", flush=True)
sys.stdin.buffer.read()
"""
SENDER = """
memory = cupy.cuda.Memory(1 << 16)
sys.stdout.buffer.write(pickle.dumps(rt.ipcGetMemHandle(memory.ptr)))
sys.stdout.flush()
sys.stdin.read()
"""


def test_a_forked_child_has_no_context(cp: Any, misuses: Misuses) -> None:
    cp.zeros(3)
    pid = os.fork()
    if not pid:
        try:
            cp.cuda.runtime.malloc(64)
        except cp.cuda.runtime.CUDARuntimeError as error:
            os._exit(7 if "InitializationError" in str(error) else 8)
        os._exit(9)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7
    misuses.expected = 1


def test_a_handle_is_of_the_allocation_and_not_for_its_own_process(cp: Any) -> None:
    rt = cp.cuda.runtime
    p = rt.malloc(1 << 16)
    handle = rt.ipcGetMemHandle(p)
    assert rt.ipcGetMemHandle(p + 4096) == handle
    with pytest.raises(rt.CUDARuntimeError, match="DeviceUninitialized"):
        rt.ipcOpenMemHandle(handle)
    rt.free(p)
    again = rt.malloc(1 << 16)
    assert rt.ipcGetMemHandle(again) != handle
    rt.free(again)


def test_an_event_orders_the_work_of_two_processes_and_a_killed_receiver_costs_nothing(
    cp: Any,
) -> None:
    rt = cp.cuda.runtime
    memory = cp.cuda.Memory(1 << 16)
    offset = 8192
    sent = cp.ndarray((1000,), np.float32, cp.cuda.MemoryPointer(memory, offset))
    sent.fill(3)
    stream = cp.cuda.Stream(non_blocking=True)
    rt.deviceSynchronize()
    event = rt.eventCreateWithFlags(rt.eventDisableTiming | rt.eventInterprocess)
    with stream:
        sent *= 2  # queued, not done
        rt.eventRecord(event, stream.ptr)
    message = rt.ipcGetMemHandle(sent.data.ptr), offset, rt.ipcGetEventHandle(event)
    receiver = start(RECEIVER)
    assert receiver.stdin is not None
    assert receiver.stdout is not None
    assert receiver.stderr is not None
    try:
        receiver.stdin.write(pickle.dumps(message))
        receiver.stdin.flush()
        assert float(receiver.stdout.readline() or receiver.stderr.read()) == 6000.0
        assert receiver.stdout.readline() == b"written\n"
        assert float(sent.sum()) == 7000.0
    finally:
        receiver.kill()
        receiver.communicate()
    assert float(sent.sum()) == 7000.0
    rt.eventDestroy(event)


def test_a_dead_senders_handle_is_refused_and_what_is_open_stays(cp: Any) -> None:
    rt = cp.cuda.runtime
    sender = start(SENDER)
    assert sender.stdout is not None
    try:
        handle = pickle.load(sender.stdout)
        p = rt.ipcOpenMemHandle(handle)
    finally:
        sender.kill()
        sender.communicate()
    block = cp.cuda.UnownedMemory(p, 64, None, 0)
    assert (cp.ndarray((64,), np.uint8, cp.cuda.MemoryPointer(block, 0)).get() == 0xFD).all()
    rt.ipcCloseMemHandle(p)
    with pytest.raises(rt.CUDARuntimeError, match="MapBufferObjectFailed"):
        rt.ipcOpenMemHandle(handle)


HOLDER = """
p = rt.ipcOpenMemHandle(pickle.load(sys.stdin.buffer))
print("open", flush=True)
sys.stdin.buffer.readline()
block = cupy.cuda.UnownedMemory(p, 4096, None, 0)
x = cupy.ndarray((4096,), np.uint8, cupy.cuda.MemoryPointer(block, 0))
print(int(x.get().sum()), flush=True)
rt.ipcCloseMemHandle(p)
"""
WRITER = """
memory = cupy.cuda.Memory(4096)
rt.memset(memory.ptr, 7, 4096)
rt.deviceSynchronize()
sys.stdout.buffer.write(pickle.dumps(rt.ipcGetMemHandle(memory.ptr)))
sys.stdout.flush()
sys.stdin.read()
"""


def test_a_killed_owners_memory_stays_until_its_last_importer_closes(misuses: Misuses) -> None:
    owner = start(WRITER)
    assert owner.stdout is not None
    holders = []
    try:
        handle = pickle.load(owner.stdout)
        for _ in range(2):
            holders.append(start(HOLDER))
            holders[-1].stdin.write(pickle.dumps(handle))  # type: ignore[union-attr]
            holders[-1].stdin.flush()  # type: ignore[union-attr]
            assert holders[-1].stdout.readline() == b"open\n"  # type: ignore[union-attr]
        owner.kill()
        owner.communicate()
        for holder in holders:  # the first one closes, and takes nothing from the second
            out, err = holder.communicate(b"\n", timeout=100)
            assert (holder.returncode, out) == (0, b"28672\n"), err
    finally:
        for process in (owner, *holders):
            process.kill()
            process.communicate()
