"""Two stand-in devices, each with its memory, streams and handles; mixing them up is refused."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

from tests.cuda.standin.fixtures import Misuses
from tests.cuda.standin.program import run, start


def test_there_are_two_devices_and_no_third(cp: Any) -> None:
    rt = cp.cuda.runtime
    assert rt.getDeviceCount() == 2
    assert rt.getDeviceProperties(0)["name"] != rt.getDeviceProperties(1)["name"]
    assert rt.deviceGetPCIBusId(0) != rt.deviceGetPCIBusId(1)
    with pytest.raises(rt.CUDARuntimeError, match="InvalidDevice"):
        rt.setDevice(2)
    with pytest.raises(rt.CUDARuntimeError, match="InvalidDevice"):
        rt.setDevice(-1)


def test_memory_and_arrays_are_of_the_current_device(cp: Any) -> None:
    rt = cp.cuda.runtime
    free = rt.memGetInfo()[0]
    with cp.cuda.Device(1):
        x = cp.arange(5, dtype=np.float32) + 1
        assert rt.memGetInfo()[0] < rt.memGetInfo()[1]
        assert rt.pointerGetAttributes(x.data.ptr).device == 1
    assert x.device.id == 1
    assert rt.memGetInfo()[0] == free
    assert (x.get() == np.arange(1, 6)).all()


def test_copies_between_devices_need_no_peer_access(cp: Any) -> None:
    x = cp.arange(5)
    cp.cuda.runtime.deviceSynchronize()  # the streams of two devices know nothing of each other
    with cp.cuda.Device(1):
        y = cp.empty_like(x)
        y.data.copy_from_device(x.data, x.nbytes)
        assert (y.get() == np.arange(5)).all()


def test_streams_and_events_are_of_a_device(cp: Any, misuses: Misuses) -> None:
    rt = cp.cuda.runtime
    with cp.cuda.Device(1):
        stream, event = cp.cuda.Stream(non_blocking=True), cp.cuda.Event()
        event.record(stream)
    zero = cp.cuda.Event()
    with pytest.raises(rt.CUDARuntimeError, match="InvalidResourceHandle"):
        rt.eventRecord(zero.ptr, stream.ptr)
    other = cp.cuda.Stream(non_blocking=True)
    other.wait_event(event)  # a wait across devices is allowed
    other.synchronize()
    misuses.expected = 1


@pytest.mark.usefixtures("no_background")
def test_synchronising_one_device_does_not_wait_for_the_other(cp: Any) -> None:
    rt = cp.cuda.runtime
    with cp.cuda.Device(1):
        x = cp.zeros(4, np.float32)
        stream = cp.cuda.Stream(non_blocking=True)
        rt.deviceSynchronize()
        for _ in range(20):
            rt.memsetAsync(x.data.ptr, 0, 16, stream.ptr)
    rt.deviceSynchronize()  # of device 0
    assert not stream.done
    stream.synchronize()


LAUNCH = """
kernel = cupy.RawKernel('extern "C" __global__ void f(float* x) { x[0] = 1; }', "f")
x = cupy.zeros(1, np.float32)
with cupy.cuda.Device(1):
    y = cupy.zeros(1, np.float32)
    other = cupy.cuda.Stream(non_blocking=True)
    cupy.cuda.Device().synchronize()
"""


def test_a_kernel_is_not_launched_on_another_devices_stream() -> None:
    code = (
        LAUNCH
        + """
import ctypes
arguments = (ctypes.c_void_p * 1)(ctypes.addressof(ctypes.c_void_p(x.data.ptr)))
try:
    cupy.cuda.driver.launchKernel(
        kernel.kernel.ptr, 1, 1, 1, 1, 1, 1, 0, other.ptr, ctypes.addressof(arguments), 0)
except cupy.cuda.driver.CUDADriverError as error:
    print(error)
"""
    )
    status, out, err = run(code)
    assert status == 0, err
    assert "InvalidResourceHandle" in out
    assert "current device 0, the stream is of device 1" in err


def test_a_kernel_reaches_another_device_only_by_peer_access() -> None:
    use = LAUNCH + "kernel((1,), (1,), (y,))\nrt.deviceSynchronize()\nprint(y.get()[0])\n"
    assert run(use)[0] == -11  # an illegal address
    allowed = "assert rt.deviceCanAccessPeer(0, 1)\nrt.deviceEnablePeerAccess(1)\n"
    status, out, err = run(allowed + use)
    assert (status, out.split()) == (0, ["1.0"]), err
    again = allowed + "rt.deviceEnablePeerAccess(1)\n"
    assert "PeerAccessAlreadyEnabled" in run(again)[2]


def test_devices_without_peer_access_say_so() -> None:
    code = """
        assert not rt.deviceCanAccessPeer(0, 1)
        rt.deviceEnablePeerAccess(1)
        """
    assert "PeerAccessUnsupported" in run(code, STANDIN_PEER=0)[2]


def test_one_device_can_be_asked_for() -> None:
    assert run("print(rt.getDeviceCount())", STANDIN_DEVICES=1)[1] == "1\n"


EXPORTER = """
rt.setDevice(1)
memory = cupy.cuda.Memory(1 << 16)
rt.memset(memory.ptr, 7, 1 << 16)
rt.deviceSynchronize()
sys.stdout.buffer.write(pickle.dumps(rt.ipcGetMemHandle(memory.ptr)))
sys.stdout.flush()
sys.stdin.read()
"""


def test_a_memory_handle_is_opened_under_its_own_device(cp: Any, misuses: Misuses) -> None:
    rt = cp.cuda.runtime
    exporter = start(EXPORTER)
    assert exporter.stdout is not None
    try:
        handle = pickle.load(exporter.stdout)
        with pytest.raises(rt.CUDARuntimeError, match="InvalidDevice"):
            rt.ipcOpenMemHandle(handle)
        with cp.cuda.Device(1):
            p = rt.ipcOpenMemHandle(handle)
            assert rt.pointerGetAttributes(p).device == 1
            block = cp.cuda.UnownedMemory(p, 64, None, 1)
            x = cp.ndarray((64,), np.uint8, cp.cuda.MemoryPointer(block, 0))
            assert (x.get() == 7).all()
            rt.ipcCloseMemHandle(p)
    finally:
        exporter.kill()
        exporter.communicate()
    misuses.expected = 1


def test_library_handles_are_of_a_device(cp: Any, misuses: Misuses) -> None:
    from cupy_backends.cuda.libs import cublas

    x = cp.ones((2, 2))
    handle = cp.cuda.device.get_cublas_handle()
    with cp.cuda.Device(1):
        y = cp.ones((2, 2))
        assert float((y @ y).sum()) == 8
        with pytest.raises(cublas.CUBLASError):
            cublas.setMathMode(handle, 0)
    assert float((x @ x).sum()) == 8
    misuses.expected = 0


VISIBLE = """
print(rt.getDeviceCount(), [rt.deviceGetPCIBusId(i) for i in range(rt.getDeviceCount())])
print(rt.deviceGetByPCIBusId(rt.deviceGetPCIBusId(0)), cupy.ones(3).sum())
"""


def test_a_process_sees_the_devices_that_it_is_told() -> None:
    status, out, err = run(VISIBLE, STANDIN_DEVICES=4, CUDA_VISIBLE_DEVICES="2,0")
    assert (status, out.splitlines()) == (
        0, ["2 ['0000:02:00.0', '0000:00:00.0']", "0 3.0"]
    ), err  # fmt: skip
    assert run(VISIBLE, CUDA_VISIBLE_DEVICES="1,7,0")[1].startswith("1 ['0000:01:00.0']")


def test_a_process_may_see_no_device() -> None:
    code = """
        print(cupy.cuda.is_available())
        try:
            cupy.ones(3)
        except rt.CUDARuntimeError as error:
            print(error)
        """
    _, out, err = run(code, CUDA_VISIBLE_DEVICES="")
    assert out.startswith("False\ncudaErrorNoDevice"), (out, err)
