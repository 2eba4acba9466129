"""The allocator in one process: slabs, streams, limbo, figures, errors."""

from __future__ import annotations

import random
from itertools import pairwise
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from shmtensor.errors import OutOfMemoryError
from tests.cuda.memory.peer import until

MIB = 1 << 20
ROUNDS = 40


def stats(mc: ModuleType, name: str) -> int:
    value: int = mc.memory_stats()[name]
    return value


def test_a_freed_block_is_the_next_one_of_its_stream(cp: Any, mc: ModuleType) -> None:
    x = cp.empty(1000, np.float32)
    address = x.data.ptr
    del x
    assert cp.empty(1000, np.float32).data.ptr == address
    assert stats(mc, "segment.all.current") == 1


def test_sizes_go_to_slabs_of_their_kind(cp: Any, mc: ModuleType) -> None:
    for nbytes, slab in ((1, 32), (MIB, 32), (MIB + 1, 64), (32 * MIB, 64), (33 * MIB + 1, 34)):
        x = cp.empty(nbytes, np.uint8)
        assert mc.memory_reserved() == slab * MIB, nbytes
        assert x.data.ptr % 512 == 0
        del x
        mc.empty_cache()
        assert mc.memory_reserved() == 0


def test_neighbours_are_merged_and_the_best_fit_is_taken(cp: Any, mc: ModuleType) -> None:
    thirds = [cp.empty(MIB, np.uint8) for _ in range(32)]  # the whole slab
    base = min(x.data.ptr for x in thirds)
    del thirds[4:6], thirds[10]
    assert stats(mc, "segment.all.current") == 1
    both = cp.empty(MIB - 512, np.uint8)  # the single hole fits best, and no hole is too small
    assert both.data.ptr - base == 12 * MIB
    thirds.clear()
    del both
    large = [cp.empty(MIB, np.uint8) for _ in range(32)]
    assert stats(mc, "segment.all.current") == 1
    assert sorted(x.data.ptr - base for x in large) == [i * MIB for i in range(32)]


def test_a_view_keeps_the_block(cp: Any, mc: ModuleType) -> None:
    x = cp.arange(100, dtype=np.int64)
    y = x[10:20]
    del x
    assert mc.memory_allocated() == 1024
    assert (y.get() == np.arange(10, 20)).all()
    del y
    assert mc.memory_allocated() == 0


def test_an_empty_array_takes_nothing(cp: Any, mc: ModuleType) -> None:
    x = cp.empty((0, 5))
    assert x.size == mc.memory_allocated() == mc.memory_reserved() == 0


def test_another_stream_gets_a_freed_block_after_the_work_on_it(cp: Any, mc: ModuleType) -> None:
    """The only free memory was freed by a stream that still writes to it."""
    rt = cp.cuda.runtime
    one, two = (cp.cuda.Stream(non_blocking=True) for _ in range(2))
    mc.set_limit(32 * MIB, 0)
    try:
        with two:
            copy = cp.zeros(1, np.uint8)
        rest = [cp.empty(MIB, np.uint8) for _ in range(31)]
        for number in range(1, ROUNDS):
            with one:
                x = cp.empty(MIB - 512, np.uint8)
                address = x.data.ptr
                rt.memsetAsync(address, 255, 64, one.ptr)
                del x
            with two:
                y = cp.empty(MIB - 512, np.uint8)
                assert y.data.ptr == address
                rt.memsetAsync(address, number, 64, two.ptr)
                rt.memcpyAsync(copy.data.ptr, address, 1, rt.memcpyDeviceToDevice, two.ptr)
                two.synchronize()
                assert copy.get()[0] == number
                rt.deviceSynchronize()
                rt.memcpyAsync(copy.data.ptr, address, 1, rt.memcpyDeviceToDevice, two.ptr)
                assert copy.get()[0] == number, "the first stream's work came later"
                del y
        del rest
    finally:
        mc.set_limit(None, 0)


def test_limbo_lasts_until_the_other_streams_have_passed(
    cp: Any, mc: ModuleType, late_work: Any
) -> None:
    rt, other = cp.cuda.runtime, cp.cuda.Stream(non_blocking=True)
    x = cp.empty(1000, np.uint8)
    address = x.data.ptr
    late_work(other, 2)
    rt.memsetAsync(address, 1, 1000, other.ptr)
    mc.note_use(x, other)
    with other:
        mc.note_use(x)
    del x
    assert stats(mc, "limbo_blocks") == 1
    assert mc.memory_allocated() == 0
    y = cp.empty(1000, np.uint8)
    assert y.data.ptr != address
    other.synchronize()
    assert until(lambda: stats(mc, "limbo_blocks") == 0)  # by the timer
    del y
    blocks = [cp.empty(1000, np.uint8) for _ in range(3)]
    assert address in [block.data.ptr for block in blocks]


def test_a_use_on_the_allocating_stream_needs_no_event(cp: Any, mc: ModuleType) -> None:
    x = cp.empty(10)
    mc.note_use(x)
    mc.check_alive(x)
    del x
    assert stats(mc, "limbo_blocks") == 0


def test_memory_of_another_allocator_is_left_alone(cp: Any, mc: ModuleType) -> None:
    x = cp.ndarray(4, np.uint8, cp.cuda.MemoryPointer(cp.cuda.Memory(512), 0))
    mc.note_use(x, cp.cuda.Stream(non_blocking=True))
    mc.check_alive(x)
    with pytest.raises(ValueError, match="not allocated by shmtensor"):
        mc.export(x)


def test_peaks_and_counts(cp: Any, mc: ModuleType) -> None:
    x = cp.empty(MIB, np.uint8)
    y = cp.empty(2 * MIB, np.uint8)
    assert mc.memory_allocated() == mc.max_memory_allocated() == 3 * MIB
    assert mc.memory_reserved() == mc.max_memory_reserved() == 96 * MIB
    del y
    assert (mc.memory_allocated(), mc.max_memory_allocated()) == (MIB, 3 * MIB)
    mc.empty_cache()
    assert (mc.memory_reserved(), mc.max_memory_reserved()) == (32 * MIB, 96 * MIB)
    mc.reset_peaks()
    assert (mc.max_memory_allocated(), mc.max_memory_reserved()) == (MIB, 32 * MIB)
    free, total = cp.cuda.runtime.memGetInfo()
    assert total - free >= 32 * MIB
    assert "in use by arrays 1.0 MiB, reserved 32.0 MiB in 1 slabs" in mc.memory_summary()
    del x


def test_no_memory_is_said_with_the_figures(cp: Any, mc: ModuleType) -> None:
    x = cp.empty(100 * MIB, np.uint8)
    with pytest.raises(OutOfMemoryError) as caught:
        cp.empty(8 << 40, np.uint8)
    text = str(caught.value)
    assert "8,388,608.0 MiB on GPU 0" in text
    assert "in use by arrays 100.0 MiB" in text
    assert "lent to: nobody" in text
    assert isinstance(caught.value, RuntimeError)
    assert isinstance(caught.value, MemoryError)
    assert stats(mc, "num_alloc_retries") >= 1
    del x, caught


def test_no_memory_waits_for_limbo_and_frees_empty_slabs(
    cp: Any, mc: ModuleType, late_work: Any
) -> None:
    rt, other = cp.cuda.runtime, cp.cuda.Stream(non_blocking=True)
    mc.set_limit(128 * MIB, 0)
    try:
        x, y = cp.empty(100 * MIB, np.uint8), cp.empty(10 * MIB, np.uint8)
        late_work(other, 1)
        rt.memsetAsync(x.data.ptr, 1, 100, other.ptr)
        mc.note_use(x, other)
        del x, y
        assert cp.empty(120 * MIB, np.uint8).nbytes == 120 * MIB
    finally:
        mc.set_limit(None, 0)


def test_each_device_has_its_slabs(two_devices: Any, cp: Any, mc: ModuleType) -> None:
    x = cp.empty(MIB, np.uint8)
    with cp.cuda.Device(1):
        y = cp.empty(2 * MIB, np.uint8)
    assert (mc.memory_allocated(0), mc.memory_allocated(1)) == (MIB, 2 * MIB)
    assert (mc.memory_reserved(0), mc.memory_reserved(1)) == (32 * MIB, 64 * MIB)
    assert y.data.device_id == 1
    del x, y
    assert (mc.memory_allocated(0), mc.memory_allocated(1)) == (0, 0)


def test_many_streams_are_let_go(cp: Any, mc: ModuleType) -> None:
    from shmtensor.memory.cuda import streams

    for _ in range(streams.MANY + 20):
        with cp.cuda.Stream(non_blocking=True):
            cp.empty(100, np.uint8)
    mc.empty_cache()
    x = [cp.empty(100 + 512 * i, np.uint8) for i in range(40)]
    assert len(streams.records[0]) < streams.MANY
    del x


def test_live_blocks_never_overlap(cp: Any, mc: ModuleType) -> None:
    dice = random.Random(7)
    live: list[Any] = []
    for _ in range(2000):
        if live and dice.random() < 0.5:
            live.pop(dice.randrange(len(live)))
        else:
            live.append(cp.empty(int(2 ** dice.uniform(0, 21)), np.uint8))
    spans = sorted((x.data.ptr, x.data.ptr + x.data.mem.size) for x in live)
    assert all(end <= start for (_, end), (start, _) in pairwise(spans))
    assert mc.memory_allocated() == sum(end - start for start, end in spans)
    assert all(x.data.mem.size >= x.nbytes for x in live)
    live.clear()
    assert mc.memory_allocated() == 0
    mc.empty_cache()
    assert mc.memory_reserved() == 0
