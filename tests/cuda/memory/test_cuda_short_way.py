"""The usual malloc and free are in C; each of their conditions, and what they share with Python."""

from __future__ import annotations

import gc
import random
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from tests.cuda.memory.peer import until
from tests.cuda.memory.test_cuda_fork import in_child
from tests.cuda.memory.threads import in_threads
from tests.cuda.standin.program import run

SIZE = 1000
BLOCK = 1024  # of SIZE bytes
MIB = 1 << 20


@pytest.fixture
def calls(mc: ModuleType, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The calls of Python's malloc and free."""
    from shmtensor.memory.cuda.allocator import Allocator

    made: list[str] = []
    allocate, ended = Allocator.allocate, Allocator.ended

    def counted_allocate(self: Any, nbytes: int) -> Any:
        made.append("allocate")
        return allocate(self, nbytes)

    def counted_ended(self: Any, owner: Any) -> None:
        made.append("ended")
        ended(self, owner)

    monkeypatch.setattr(Allocator, "allocate", counted_allocate)
    monkeypatch.setattr(Allocator, "ended", counted_ended)
    return made


@pytest.fixture
def ready(cp: Any, mc: ModuleType, calls: list[str]) -> Iterator[Any]:
    """The allocator, with two free blocks of SIZE in the null stream's bin."""
    from shmtensor.memory.cuda.allocator import allocator

    kept = [cp.empty(SIZE, np.uint8) for _ in range(2)]
    kept.clear()
    calls.clear()
    yield allocator
    assert until(lambda: not (mc.poll() or allocator.leaving))
    assert all(
        not slab.used for device in allocator.devices.values() for slab in device.slabs.values()
    )


@contextmanager
def held_by_another_thread(allocator: Any) -> Iterator[Callable[[], None]]:
    """Another thread has the lock; it releases that when the function is called."""
    has_lock, may_go = threading.Event(), threading.Event()

    def hold() -> None:
        with allocator.lock:
            has_lock.set()
            may_go.wait(20)
        allocator.retry()

    thread = threading.Thread(target=hold)
    thread.start()
    assert has_lock.wait(20)
    try:
        yield may_go.set
    finally:
        may_go.set()
        thread.join()


class Finished:
    """What a finaliser has noted."""

    def end(self) -> None:
        pass


# ---- the short way
def test_both_ways_count_alike(cp: Any, mc: ModuleType, calls: list[str]) -> None:
    def figures() -> list[int]:
        stats = mc.memory_stats(0)
        names = ("allocation.all.allocated", "allocation.all.freed", "active.all.current")
        sums = ("allocated_bytes.all.allocated", "allocated_bytes.all.freed")
        return [mc.memory_allocated(0), *(stats[name] for name in names + sums)]

    seen = []
    for way in (["allocate", "ended"], []):
        mc.reset_peaks(0)
        before = figures()
        x = cp.empty(SIZE, np.uint8)
        assert x.data.mem.size == BLOCK
        assert x.data.device_id == 0
        middle = figures()
        del x
        after = figures()
        seen.append([b - a for a, b in zip(before, middle, strict=True)])
        seen.append([b - a for a, b in zip(before, after, strict=True)])
        seen.append([mc.max_memory_allocated(0)])
        assert calls == way
        calls.clear()
    assert seen[:3] == seen[3:] == [[BLOCK, 1, 0, 1, BLOCK, 0], [0, 1, 1, 0, BLOCK, BLOCK], [BLOCK]]


@pytest.mark.parametrize("nbytes", [1, 512, MIB, MIB + 1, 32 * MIB, 33 * MIB])
def test_sizes(cp: Any, mc: ModuleType, calls: list[str], nbytes: int) -> None:
    x = cp.empty(nbytes, np.uint8)
    ptr, size = x.data.ptr, x.data.mem.size
    del x
    calls.clear()
    x = cp.empty(nbytes, np.uint8)
    assert (x.data.ptr, x.data.mem.size) == (ptr, size)
    del x
    assert not calls


def test_each_stream_has_its_blocks(cp: Any, ready: Any, calls: list[str]) -> None:
    other = cp.cuda.Stream(non_blocking=True)
    with other:
        x = cp.empty(SIZE, np.uint8)
        assert calls == ["allocate"]
        address = x.data.ptr
    del x  # into the bin of the stream that allocated it
    y = cp.empty(SIZE, np.uint8)
    assert y.data.ptr != address
    with other:
        z = cp.empty(SIZE, np.uint8)
        assert z.data.ptr == address
    del y, z
    assert calls == ["allocate", "ended"]  # the first of its bin


def test_each_device_has_its_blocks(cp: Any, mc: ModuleType, ready: Any, calls: list[str]) -> None:
    if len(ready.devices) < 2:
        pytest.skip("one device")
    with cp.cuda.Device(1):
        cp.empty(SIZE, np.uint8)
    calls.clear()
    for device in (0, 1, 1, 0):
        with cp.cuda.Device(device):
            x = cp.empty(SIZE, np.uint8)
        assert x.data.device_id == device
        assert [mc.memory_allocated(i) for i in (0, 1)] == [BLOCK * (i == device) for i in (0, 1)]
        del x
    assert not calls


ONE_DEVICE = """
import shmtensor.memory.cuda as mc
from shmtensor.memory.cuda.allocator import allocator
mc.install()
cupy.empty(100, np.uint8)
allocator.get_device = allocator.allocate = None  # neither is called
x = cupy.ndarray(100, np.uint8)
print(len(allocator.devices), x.data.device_id, mc.memory_allocated(0))
del x, allocator.get_device, allocator.allocate
mc.uninstall()
"""


def test_the_only_device_is_the_current_one(cp: Any) -> None:
    code, out, err = run(ONE_DEVICE, STANDIN_DEVICES=1, CUDA_VISIBLE_DEVICES=0)
    assert out.split() == ["1", "0", "512"], err
    assert not code


def test_nothing_is_left_of_objects(cp: Any, ready: Any, calls: list[str]) -> None:
    def work(n: int) -> None:
        for _ in range(n):
            cp.ndarray(SIZE, np.uint8)

    work(100)
    gc.collect()
    before = sys.getallocatedblocks()
    work(20_000)
    gc.collect()
    assert abs(sys.getallocatedblocks() - before) < 1000
    assert not calls


# ---- the conditions of malloc
def test_a_size_without_a_block(cp: Any, ready: Any, calls: list[str]) -> None:
    kept = [cp.empty(SIZE, np.uint8) for _ in range(2)]
    assert not calls
    kept.append(cp.empty(SIZE, np.uint8))
    assert calls == ["allocate"]
    assert len({x.data.ptr for x in kept}) == 3
    kept.clear()


def test_sizes_that_are_no_plain_numbers(cp: Any, ready: Any, calls: list[str]) -> None:
    assert ready.malloc(0).ptr == 0
    assert ready.malloc(np.int64(SIZE)).mem.size == BLOCK
    assert ready.malloc(True).mem.size == 512
    with pytest.raises(MemoryError):
        ready.malloc(1 << 62)
    with pytest.raises((MemoryError, OverflowError)):
        ready.malloc(1 << 80)
    with pytest.raises(TypeError):
        ready.malloc("1")
    assert calls.count("allocate") == 6


def test_what_waits_is_polled(cp: Any, mc: ModuleType, ready: Any, calls: list[str]) -> None:
    other, done = cp.cuda.Stream(non_blocking=True), threading.Event()
    x = cp.empty(SIZE, np.uint8)
    mc.note_use(x, other)
    other.launch_host_func(lambda _: done.wait(20), None)
    del x
    assert calls == ["ended"]
    assert len(ready.leaving) == 1
    y = cp.empty(SIZE, np.uint8)
    assert calls == ["ended", "allocate"]
    del y
    done.set()


def test_what_finalisers_noted_is_ended(cp: Any, ready: Any, calls: list[str]) -> None:
    ready.finished.append(Finished())
    x = cp.empty(SIZE, np.uint8)
    assert calls == ["allocate"]
    assert not ready.finished
    ready.finished.append(Finished())
    del x
    assert calls == ["allocate", "ended"]
    assert not ready.finished


def test_malloc_waits_for_a_thread_that_has_the_lock(
    cp: Any, ready: Any, calls: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    allocate = type(ready).allocate
    with held_by_another_thread(ready) as let_go:

        def waits(self: Any, nbytes: int) -> Any:
            assert not self.lock.acquire(False)
            let_go()
            return allocate(self, nbytes)

        monkeypatch.setattr(type(ready), "allocate", waits)
        x = cp.empty(SIZE, np.uint8)
    assert calls == ["allocate"]
    assert x.data.mem._owner.chunk.size == BLOCK


def test_an_error_gives_the_block_back(
    cp: Any, mc: ModuleType, ready: Any, calls: list[str]
) -> None:
    def fails(*_: object) -> None:
        raise KeyError("no memory object")

    names = ["memory_type", "pointer_type", "get_current_stream"]
    if len(ready.devices) > 1:
        names.append("get_device")
    for name in names:
        former = getattr(ready, name)
        setattr(ready, name, fails)
        try:
            with pytest.raises(KeyError, match="no memory object"):
                cp.ndarray(SIZE, np.uint8)
        finally:
            setattr(ready, name, former)
        assert mc.memory_allocated(0) == 0
    assert not calls
    assert len({cp.empty(SIZE, np.uint8).data.ptr for _ in range(2)}) == 1


# ---- the conditions of a free
def test_a_block_that_another_stream_used(
    cp: Any, mc: ModuleType, ready: Any, calls: list[str]
) -> None:
    x = cp.empty(SIZE, np.uint8)
    mc.note_use(x, cp.cuda.Stream(non_blocking=True))
    del x
    assert calls == ["ended"]


def test_a_block_that_was_exported(cp: Any, mc: ModuleType, ready: Any, calls: list[str]) -> None:
    x = cp.empty(SIZE, np.uint8)
    message = mc.export(x)
    del x
    assert calls == ["ended"]
    assert mc.memory_stats(0)["lent_blocks"] == 1
    mc.discard(message)
    assert until(lambda: mc.poll() or not ready.lent)


def test_a_block_that_came_home(cp: Any, mc: ModuleType, ready: Any, calls: list[str]) -> None:
    x = cp.empty(SIZE, np.uint8)
    y = mc.receive(mc.export(x))
    chunk = x.data.mem._owner.chunk
    assert chunk.count == 1
    chunk.is_exported = False  # `count` alone
    calls.clear()
    del x
    assert calls == ["ended"]
    assert mc.memory_allocated(0) == 0
    chunk.is_exported = True
    del y
    assert until(lambda: mc.poll() or not ready.lent)


def test_a_stream_that_was_let_go(cp: Any, mc: ModuleType, ready: Any, calls: list[str]) -> None:
    x = cp.empty(SIZE, np.uint8)
    record = x.data.mem._owner.chunk.stream
    former, record.stream = record.stream, None
    try:
        del x
    finally:
        record.stream = former
    assert calls == ["ended"]
    assert len(record.bins[BLOCK]) == 1


def test_bins_that_were_emptied(cp: Any, mc: ModuleType, ready: Any, calls: list[str]) -> None:
    x = cp.empty(SIZE, np.uint8)
    mc.empty_cache()
    del x
    assert calls == ["ended"]


def test_a_free_does_not_wait_for_a_thread_that_has_the_lock(
    cp: Any, mc: ModuleType, ready: Any, calls: list[str]
) -> None:
    x = cp.empty(SIZE, np.uint8)
    with held_by_another_thread(ready):
        del x
        assert calls == ["ended"]
        assert len(ready.finished) == 1
        assert mc.memory_allocated(0) == BLOCK
    assert mc.memory_allocated(0) == 0


class Amid:
    """Its finaliser allocates and frees."""

    def __init__(self, cp: Any, arrays: list[Any], kept: list[Any]) -> None:
        self.me, self.cp, self.arrays, self.kept = self, cp, arrays, kept

    def __del__(self) -> None:
        self.arrays.clear()
        self.kept.append(self.cp.ndarray(SIZE, np.uint8))
        self.cp.ndarray(SIZE, np.uint8)


def test_a_finaliser_amid_the_allocator(
    cp: Any, mc: ModuleType, ready: Any, calls: list[str]
) -> None:
    arrays = [cp.empty(SIZE, np.uint8) for _ in range(2)]
    kept: list[Any] = []
    Amid(cp, arrays, kept)
    with ready.lock:
        gc.collect()  # the finaliser runs
        assert calls == ["ended", "ended", "allocate", "allocate"]
        assert len(ready.finished) == 2
        assert ready.devices[0].allocated == 2 * BLOCK
        assert not hasattr(kept[0].data.mem, "_owner")  # CuPy's own memory
    ready.retry()
    assert not ready.finished
    assert mc.memory_allocated(0) == 0


def test_finalisers_at_the_interpreter_s_end_do_nothing(
    cp: Any, mc: ModuleType, ready: Any, calls: list[str]
) -> None:
    x = cp.empty(SIZE, np.uint8)
    chunk = x.data.mem._owner.chunk
    ready.is_closed = True
    try:
        del x
        assert not calls
        assert mc.memory_allocated(0) == BLOCK
    finally:
        ready.is_closed = False
        ready.ended(chunk)


def test_a_finaliser_s_error_is_reported_and_hides_no_other(
    cp: Any, ready: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(self: Any, chunk: Any) -> None:
        chunks.append(chunk)
        raise KeyError("amid the end")

    chunks: list[Any] = []
    reports: list[Any] = []
    with monkeypatch.context() as patch:
        patch.setattr(type(ready), "ended", fails)
        patch.setattr(sys, "unraisablehook", lambda report: reports.append(report.exc_type))
        memory = [cp.empty(SIZE, np.uint8).data.mem]
        memory[0]._owner.chunk.users = set()  # the long way
        with pytest.raises(TypeError, match="has no len"):
            len(memory.pop())  # ends when the error is there
    assert reports == [KeyError]
    ready.ended(chunks.pop())


def test_a_forked_child(cp: Any, mc: ModuleType, ready: Any, calls: list[str]) -> None:
    x = [cp.empty(SIZE, np.uint8)]

    def child() -> None:
        x.clear()
        assert not calls
        assert ready.devices[0].allocated == BLOCK
        assert not ready.finished
        with pytest.raises(RuntimeError, match="'spawn' or 'forkserver'"):
            cp.empty(SIZE, np.uint8)
        assert calls == ["allocate"]

    assert in_child(child) == 0
    x.clear()
    assert not calls
    assert mc.memory_allocated(0) == 0


# ---- all at once
SECONDS = 3.0


def test_threads(cp: Any, mc: ModuleType) -> None:
    """No block is given out twice, and in the end the figures are those of no array."""
    live: set[int] = set()
    end = time.monotonic() + SECONDS
    shared = cp.cuda.Stream(non_blocking=True)
    counts = [0] * 4

    def work(number: int) -> None:
        dice = random.Random(number)
        own = cp.cuda.Stream(non_blocking=True)
        kept: list[Any] = []

        def drop() -> None:
            x = kept.pop(dice.randrange(len(kept)))
            live.remove(x.data.ptr)
            if dice.random() < 0.1:
                mc.note_use(x, shared)
            if dice.random() < 0.05:
                mc.discard(mc.export(x))
            if dice.random() < 0.2:
                cycle: list[Any] = [x]
                cycle.append(cycle)

        while time.monotonic() < end:
            with own if dice.random() < 0.5 else shared:
                for _ in range(20):
                    x = cp.ndarray(dice.choice((100, 5000, MIB, 2 * MIB)), np.uint8)
                    assert x.data.ptr not in live
                    live.add(x.data.ptr)
                    kept.append(x)
                    counts[number] += 1
                    del x
                    while len(kept) > dice.randrange(4):
                        drop()
            if dice.random() < 0.02:
                mc.empty_cache()
            if dice.random() < 0.05:
                stats = mc.memory_stats(0)
                assert stats["allocation.all.current"] >= 0
        while kept:
            drop()

    before = mc.memory_stats(0)
    in_threads(work)
    cp.cuda.runtime.deviceSynchronize()
    assert until(lambda: not mc.poll() and not mc.memory_stats(0)["active.all.current"])
    after = mc.memory_stats(0)
    names = ("allocation.all.allocated", "allocation.all.freed")
    assert [after[name] - before[name] for name in names] == [sum(counts)] * 2
    assert after["allocated_bytes.all.current"] == after["allocation.all.current"] == 0
    mc.empty_cache()
    assert mc.memory_reserved(0) == 0
