"""Memory on the stand-in by the real CuPy: allocator hook, what the host may touch, misuse."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.cuda.standin.fixtures import Misuses
from tests.cuda.standin.program import run

SLAB = 1 << 20


class Owner:
    """Tells its slab at its end that the block is free."""

    def __init__(self, slab: Slab, start: int) -> None:
        self.slab, self.start = slab, start

    def __del__(self) -> None:
        self.slab.freed.append(self.start)


class Slab:
    """The least allocator: one cudaMalloc and a bump pointer."""

    def __init__(self, cp: Any) -> None:
        self.cp = cp
        self.memory = cp.cuda.Memory(SLAB)
        self.end = 0
        self.freed: list[int] = []

    def __call__(self, size: int) -> Any:
        n = max(512, (size + 511) & ~511)
        start, self.end = self.end, self.end + n
        owner = Owner(self, start)
        block = self.cp.cuda.UnownedMemory(self.memory.ptr + start, n, owner, 0)
        return self.cp.cuda.MemoryPointer(block, 0)


def test_an_allocator_gives_arrays_their_memory_and_is_told_their_end(cp: Any) -> None:
    slab = Slab(cp)
    cp.cuda.set_allocator(slab)
    a = cp.arange(10, dtype=np.float32)
    assert slab.memory.ptr <= a.data.ptr < slab.memory.ptr + SLAB
    view = a[3:]
    del a
    assert slab.freed == []  # a view keeps the block
    assert (view.get() == np.arange(3, 10)).all()
    del view
    assert slab.freed == [0]


def test_new_memory_is_poisoned(cp: Any) -> None:
    assert (cp.empty(100, np.uint8).get() == 0xFD).all()


def test_memory_is_limited_and_the_error_is_cupys(cp: Any) -> None:
    with pytest.raises(cp.cuda.memory.OutOfMemoryError):
        cp.empty(1 << 31, np.uint8)


def test_the_host_cannot_read_device_memory() -> None:
    code = "import ctypes; p = cupy.cuda.Memory(64).ptr; ctypes.string_at(p, 4)"
    assert run(code)[0] == -11


def test_asarray_of_a_device_array_is_refused(cp: Any) -> None:
    with pytest.raises(TypeError, match="Implicit conversion"):
        np.asarray(cp.ones(3))


def test_memory_is_registered_once(cp: Any) -> None:
    rt, host = cp.cuda.runtime, np.zeros(1024, np.float32)
    rt.hostRegister(host.ctypes.data, host.nbytes, 0)
    with pytest.raises(rt.CUDARuntimeError, match="AlreadyRegistered"):
        rt.hostRegister(host.ctypes.data, host.nbytes, 0)
    rt.hostUnregister(host.ctypes.data)
    with pytest.raises(rt.CUDARuntimeError, match="NotRegistered"):
        rt.hostUnregister(host.ctypes.data)


@pytest.mark.usefixtures("no_background")
def test_a_copy_to_page_locked_memory_is_not_there_at_once(cp: Any) -> None:
    rt, stream = cp.cuda.runtime, cp.cuda.Stream(non_blocking=True)
    source = cp.ones(4, np.float32)
    pinned = cp.cuda.alloc_pinned_memory(16)
    host = np.frombuffer(pinned, np.float32, 4)
    host[:] = 0
    rt.deviceSynchronize()
    rt.memcpyAsync(host.ctypes.data, source.data.ptr, 16, rt.memcpyDeviceToHost, stream.ptr)
    early = host.copy()
    stream.synchronize()
    assert (early == 0).all()
    assert (host == 1).all()


def test_a_copy_to_pageable_memory_waits(cp: Any) -> None:
    rt, stream = cp.cuda.runtime, cp.cuda.Stream(non_blocking=True)
    source, host = cp.ones(4, np.float32), np.zeros(4, np.float32)
    rt.deviceSynchronize()
    rt.memcpyAsync(host.ctypes.data, source.data.ptr, 16, rt.memcpyDeviceToHost, stream.ptr)
    assert (host == 1).all()


def test_a_second_free_is_an_error(cp: Any, misuses: Misuses) -> None:
    rt = cp.cuda.runtime
    p = rt.malloc(4096)
    rt.free(p)
    with pytest.raises(rt.CUDARuntimeError, match="InvalidValue"):
        rt.free(p)
    misuses.expected = 1


def test_an_interior_pointer_cannot_be_freed(cp: Any, misuses: Misuses) -> None:
    rt = cp.cuda.runtime
    p = rt.malloc(4096)
    with pytest.raises(rt.CUDARuntimeError, match="InvalidValue"):
        rt.free(p + 8)
    rt.free(p)
    misuses.expected = 1


def test_a_copy_beyond_an_allocation_is_an_error(cp: Any, misuses: Misuses) -> None:
    rt = cp.cuda.runtime
    p = rt.malloc(4096)
    with pytest.raises(rt.CUDARuntimeError, match="InvalidValue"):
        rt.memset(p, 0, 4097)
    with pytest.raises(rt.CUDARuntimeError, match="InvalidValue"):
        rt.memcpy(p, np.zeros(5000, np.uint8).ctypes.data, 5000, rt.memcpyHostToDevice)
    with pytest.raises(rt.CUDARuntimeError, match="InvalidValue"):  # the direction is wrong
        rt.memcpy(p, np.zeros(4, np.uint8).ctypes.data, 4, rt.memcpyDeviceToDevice)
    rt.free(p)
    misuses.expected = 3


def test_attributes_say_what_a_pointer_is(cp: Any) -> None:
    rt = cp.cuda.runtime
    p = rt.malloc(4096)
    assert rt.pointerGetAttributes(p + 100).device == 0
    assert rt.pointerGetAttributes(p + 100).devicePointer == p + 100
    assert rt.pointerGetAttributes(np.zeros(4).ctypes.data).device == -2
    rt.free(p)


def test_a_pools_block_has_no_ipc_handle(cp: Any) -> None:
    rt, stream = cp.cuda.runtime, cp.cuda.Stream(non_blocking=True)
    p = rt.mallocAsync(4096, stream.ptr)
    with pytest.raises(rt.CUDARuntimeError, match="InvalidValue"):
        rt.ipcGetMemHandle(p)
    rt.freeAsync(p, stream.ptr)
    stream.synchronize()


def test_what_registration_refuses(cp: Any) -> None:
    rt, host = cp.cuda.runtime, np.zeros(8192, np.uint8)
    p, device = host.ctypes.data, rt.malloc(4096)
    for arguments, error in [
        ((p, 0, 0), "InvalidValue"),
        ((p, 64, 0x100), "InvalidValue"),  # no such flag
        ((4096, 64, 0), "InvalidValue"),  # not mapped
        ((device, 64, 0), "InvalidValue"),
    ]:
        with pytest.raises(rt.CUDARuntimeError, match=error):
            rt.hostRegister(*arguments)
    rt.hostRegister(p, 4096, rt.hostAllocPortable)
    for start, size in [(p + 100, 50), (p + 4000, 4096), (p - 8, 100)]:  # in part registered
        with pytest.raises(rt.CUDARuntimeError, match="AlreadyRegistered"):
            rt.hostRegister(start, size, 0)
    with pytest.raises(rt.CUDARuntimeError, match="NotRegistered"):
        rt.hostUnregister(p + 100)
    attributes = rt.pointerGetAttributes(p + 100)
    assert (attributes.type, attributes.hostPointer) == (1, p + 100)
    rt.hostUnregister(p)
    rt.free(device)


@pytest.mark.usefixtures("no_background")
def test_memory_in_use_is_not_unregistered(cp: Any, misuses: Misuses) -> None:
    rt, stream = cp.cuda.runtime, cp.cuda.Stream(non_blocking=True)
    host, x = np.zeros(16, np.uint8), cp.full(16, 9, np.uint8)
    rt.deviceSynchronize()
    rt.hostRegister(host.ctypes.data, 16, 0)
    rt.memcpyAsync(host.ctypes.data, x.data.ptr, 16, rt.memcpyDeviceToHost, stream.ptr)
    with pytest.raises(rt.CUDARuntimeError, match="IllegalState"):
        rt.hostUnregister(host.ctypes.data)
    stream.synchronize()
    assert (host == 9).all()
    rt.hostUnregister(host.ctypes.data)
    misuses.expected = 1


def test_rows_are_copied_with_their_pitches(cp: Any, misuses: Misuses) -> None:
    rt = cp.cuda.runtime
    x, y = cp.zeros((4, 8), np.uint8), cp.zeros((3, 5), np.uint8)
    host = np.arange(15, dtype=np.uint8).reshape(3, 5)
    rt.memcpy2D(x.data.ptr + 9, 8, host.ctypes.data, 5, 5, 3, rt.memcpyHostToDevice)
    expected = np.zeros((4, 8), np.uint8)
    expected[1:, 1:6] = host
    assert (x.get() == expected).all()
    stream = cp.cuda.Stream(non_blocking=True)
    kind = rt.memcpyDeviceToDevice
    rt.memcpy2DAsync(y.data.ptr, 5, x.data.ptr + 9, 8, 5, 3, kind, stream.ptr)
    stream.synchronize()
    assert (y.get() == host).all()
    with pytest.raises(rt.CUDARuntimeError, match="InvalidPitchValue"):
        rt.memcpy2D(y.data.ptr, 4, x.data.ptr, 8, 5, 3, kind)
    memory = cp.cuda.Memory(32)
    with pytest.raises(rt.CUDARuntimeError, match="InvalidValue"):
        rt.memcpy2D(memory.ptr, 8, x.data.ptr, 8, 8, 5, kind)
    misuses.expected = 1


def test_managed_memory_and_pools_of_ones_own_are_refused(cp: Any) -> None:
    rt = cp.cuda.runtime
    with pytest.raises(rt.CUDARuntimeError, match="NotSupported"):
        rt.mallocManaged(4096)
    with pytest.raises(rt.CUDARuntimeError, match="NotSupported"):
        rt.memPrefetchAsync(0, 64, 0, 0)


def test_the_default_pool_counts_its_bytes(cp: Any) -> None:
    pool = cp.cuda.MemoryAsyncPool()
    before = pool.used_bytes()
    memory = pool.malloc(4096)
    assert pool.used_bytes() == before + 4096
    del memory
    cp.cuda.runtime.deviceSynchronize()
    assert pool.used_bytes() == before
