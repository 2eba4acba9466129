"""Waits on shared words: no longer than told, woken at once, interrupted by signals, aware of
deaths."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable

import pytest
from test_channel import end_of, in_child

from shmtensor import native
from tests.interrupts import Alarm


def word() -> native.Block:
    return native.allocate(64, shared=True)


def test_a_wait_ends_with_its_time() -> None:
    start = time.monotonic()
    assert not native.word_wait(word(), 0, 0, 0.12)
    assert 0.1 < time.monotonic() - start < 10
    assert not native.word_wait(word(), 0, 0, 0.0)


def test_another_value_is_no_wait() -> None:
    assert native.word_wait(word(), 0, 1, None)


def test_a_wake_from_another_process() -> None:
    block = word()

    def change() -> None:
        time.sleep(0.1)
        memoryview(block).cast("B").cast("I")[1] = 7
        native.word_wake(block, 4)

    pid = in_child(change)
    assert native.word_wait(block, 4, 0, 20.0)
    assert end_of(pid) == 0


def test_a_change_without_a_wake_is_seen_after_a_slice() -> None:
    block = word()
    timer = threading.Timer(0.05, lambda: memoryview(block).cast("B").cast("I").__setitem__(0, 1))
    timer.start()
    start = time.monotonic()
    assert native.word_wait(block, 0, 0, 20.0)
    assert time.monotonic() - start < 10
    timer.join()


@pytest.mark.parametrize(
    "wait",
    [lambda: native.word_wait(word(), 0, 0, None), lambda: native.Channel().get(20.0)],
    ids=["word", "channel"],
)
def test_a_signal_handler_runs_during_a_wait(wait: Callable[[], object]) -> None:
    def ring(*_: object) -> None:
        raise Alarm

    before = signal.signal(signal.SIGALRM, ring)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        with pytest.raises(Alarm):
            wait()
    finally:
        signal.signal(signal.SIGALRM, before)


def test_waiting_takes_no_cpu() -> None:
    before = sum(os.times()[:2])
    native.word_wait(word(), 0, 0, 0.5)
    assert sum(os.times()[:2]) - before < 0.2


@pytest.mark.parametrize(("offset", "size"), [(1, 64), (64, 64), (-4, 64)])
def test_a_word_that_is_not_there_is_refused(offset: int, size: int) -> None:
    with pytest.raises(ValueError, match="no aligned word"):
        native.word_wait(native.allocate(size, shared=True), offset, 0, 0.0)


def test_a_count_is_added_to_in_one_step_by_many_processes() -> None:
    block = native.allocate(64, shared=True)

    def add() -> None:
        for _ in range(20_000):
            native.count_add(block, 8, 3)

    pids = [in_child(add) for _ in range(3)]
    add()
    assert [end_of(pid) for pid in pids] == [0, 0, 0]
    assert native.count_load(block, 8) == 4 * 20_000 * 3
    assert native.count_load(block, 0) == 0


def test_what_was_written_before_a_count_is_there_for_its_reader() -> None:
    block = native.allocate(4096, shared=True)
    data = memoryview(block).cast("B").cast("Q")
    n, rounds = 64, 2000

    def write() -> None:
        for i in range(1, rounds + 1):
            native.count_add(block, 0, 1)
            for k in range(n):
                data[8 + k] = i
            native.count_add(block, 0, 1)

    pid = in_child(write)
    while True:
        before = native.count_load(block, 0)
        observed = list(data[8 : 8 + n])
        if before % 2 == 0:  # whole, or already a later step
            assert min(observed) >= before // 2, (before, observed)
        if before == 2 * rounds:
            break
    assert end_of(pid) == 0
    assert observed == [rounds] * n


def test_counts_hold_the_largest_number_and_say_what_is_wrong() -> None:
    block = native.allocate(64)
    native.count_store(block, 56, 2**64 - 1)
    assert native.count_load(block, 56) == 2**64 - 1
    assert native.count_add(block, 56, 1) == 0
    for offset in (4, -8, 64):
        with pytest.raises(ValueError, match=f"offset {offset} of 64 bytes"):
            native.count_add(block, offset, 1)
    with pytest.raises(OverflowError):
        native.count_store(block, 0, -1)
    with pytest.raises(BufferError):
        native.count_load(bytes(64), 0)
