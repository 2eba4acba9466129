"""The heap: classes, warm reuse, zeroing, realloc, threads, the gate."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from shmtensor import memory, native
from shmtensor.errors import OutOfSharedMemory

from .fresh import isolated

SIZES = [
    0, 1, 63, 64, 65, 128, 1000, 1024, 1025, 2048, 2049, 5000, 65536, 65537,
    256 << 10, (256 << 10) + 1, 1 << 20, (16 << 20), (16 << 20) + 1, 40_000_000, (64 << 20) + 1,
]  # fmt: skip


@pytest.mark.parametrize("nbytes", SIZES)
def test_block_of_any_size_is_zeroed_aligned_and_whole(nbytes: int) -> None:
    for _ in range(2):  # the second is warm: what the first wrote must not show
        block = memory.allocate(nbytes)
        assert block.nbytes == nbytes
        assert block.address % 64 == 0
        x = np.frombuffer(block, np.uint8) if nbytes else np.empty(0, np.uint8)
        assert not x.any()
        x[:] = 255
        if nbytes:
            base, size = memory.block_of(x[-1:])
            assert base == block.address
            assert size >= nbytes
        memory.check()
        del x, block
    memory.check()


def test_arrays_are_shared_only_with_the_gate_open() -> None:
    with memory.shared_numpy():
        x = np.arange(10.0)
        with memory.private_numpy():
            y = np.arange(10.0)
        z = x + y
    w = x + y
    assert [memory.is_shared(a) for a in (x, y, z, w)] == [True, False, True, False]
    assert memory.is_shared(x[3:5])


def test_gate_is_restored_by_an_exception() -> None:
    with pytest.raises(KeyError), memory.shared_numpy():
        raise KeyError("x")
    assert not native.gate_is_open()


def test_gate_in_a_thread_that_never_saw_the_handler() -> None:
    observed: list[bool] = []

    def body() -> None:
        observed.append(memory.is_shared(np.ones(100)))
        with memory.shared_numpy():
            observed.append(memory.is_shared(np.ones(100)))
        observed.append(memory.is_shared(np.ones(100)))

    thread = threading.Thread(target=body)
    thread.start()
    thread.join()
    assert observed == [False, True, False]


def test_blocks_freed_in_another_thread_come_back() -> None:
    with memory.shared_numpy():
        arrays = [
            np.full(n, 1, np.uint8)
            for n in (10, 1000, 30_000, 300_000, 20_000_000)
            for _ in range(50 if n < 10**6 else 2)
        ]
    before = memory.statistics().live_blocks
    thread = threading.Thread(target=arrays.clear)
    thread.start()
    thread.join()
    memory.check()
    assert before - memory.statistics().live_blocks == 202


def test_threads_allocate_at_once() -> None:
    failures: list[BaseException] = []

    def body(seed: int) -> None:
        rng = np.random.default_rng(seed)
        holds: list[np.ndarray] = []
        try:
            with memory.shared_numpy():
                for i in range(3000):
                    n = int(2 ** rng.uniform(0, 19))
                    x = np.full(n, i % 251, np.uint8)
                    holds.append(x)
                    if len(holds) > 20:
                        y = holds.pop(int(rng.integers(len(holds))))
                        assert (y == y[0]).all()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=body, args=(i,)) for i in range(4)]
    for t in threads:
        t.start()
    for _ in range(20):
        memory.check()
    for t in threads:
        t.join()
    assert not failures
    memory.check()


def test_large_temporary_is_reused_warm() -> None:
    with memory.shared_numpy():
        x = np.empty(10_000_000, np.float32)
        where = x.ctypes.data
        del x
        x = np.empty(10_000_000, np.float32)
        assert x.ctypes.data == where
        del x
        cached = memory.statistics().cached_bytes
    assert cached >= 40_000_000
    memory.trim()
    assert memory.statistics().cached_bytes < 2_000_000
    memory.check()


def test_resize_keeps_contents_and_place() -> None:
    with memory.shared_numpy():
        x = np.arange(1000)
    x.resize(100_000, refcheck=False)
    assert memory.is_shared(x)
    assert (x[:1000] == np.arange(1000)).all()
    assert not x[1000:].any()
    x.resize(50, refcheck=False)
    assert (x == np.arange(50)).all()
    y = np.arange(1000)
    with memory.shared_numpy():
        y.resize(5000, refcheck=False)
    assert not memory.is_shared(y)
    memory.check()


def test_absurd_request_is_out_of_shared_memory() -> None:
    with (
        pytest.raises(OutOfSharedMemory, match=r"shared_numpy: no room for \d+ bytes"),
        memory.shared_numpy(),
    ):
        np.empty(1 << 50, np.uint8)
    with pytest.raises(
        OutOfSharedMemory, match=r"allocate: no room for 1125899906842624 bytes: .*volumes"
    ):
        memory.allocate(1 << 50)
    assert native.take_allocation_failure() is None
    with pytest.raises(ValueError, match="allocate: nbytes is negative: -1"):
        memory.allocate(-1)


@isolated
def test_uninstall_leaves_numpys_own_handler_between_ops() -> None:
    from numpy._core.multiarray import get_handler_name

    with memory.shared_numpy():
        x = np.ones(10)
    assert get_handler_name() == "shmtensor"
    memory.uninstall()
    assert get_handler_name() == "default_allocator"
    with memory.shared_numpy():
        with memory.shared_numpy():
            y = x + 1
        z = y + 1
    assert get_handler_name() == "default_allocator"
    assert memory.is_shared(y)
    assert memory.is_shared(z)
    assert get_handler_name(x) == "shmtensor"
    del x, y, z
    memory.check()


@isolated
def test_arrays_may_outlive_the_interpreter() -> None:
    import builtins

    with memory.shared_numpy():
        builtins.survivor = [np.ones(10), np.ones(10**6), memory.allocate(100)]  # type: ignore[attr-defined]
