"""Waits on shared words: no longer than told, woken at once, interrupted by signals, aware of
deaths."""

from __future__ import annotations

import os
import signal
import threading
import time

import pytest
from test_channel import end_of, in_child

from shmtensor import native


def word() -> native.Block:
    return native.allocate(64, shared=True)


def test_a_wait_ends_with_its_time() -> None:
    start = time.monotonic()
    assert not native.word_wait(word(), 0, 0, 0.12)
    assert 0.1 < time.monotonic() - start < 2.0
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
    assert time.monotonic() - start < 2.0
    timer.join()


def test_a_signal_handler_runs_during_a_wait() -> None:
    class Alarm(Exception):
        pass

    def ring(*_: object) -> None:
        raise Alarm

    before = signal.signal(signal.SIGALRM, ring)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        with pytest.raises(Alarm):
            native.word_wait(word(), 0, 0, None)
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
