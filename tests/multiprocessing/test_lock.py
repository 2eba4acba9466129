"""Locks, semaphores, conditions, events between processes, and what a kill does to them."""

from __future__ import annotations

import os
import signal
import threading
import time

import pytest
from test_channel import end_of, in_child

from shmtensor import multiprocessing as mp
from shmtensor import native
from shmtensor.errors import PeerLostError


def killed_child(deed) -> int:
    """A child that does `deed`, says so, and is killed. Returns its pid; reaped."""
    said = mp.Event()

    def run() -> None:
        native.set_role("the victim")
        deed()
        said.set()
        signal.pause()

    pid = in_child(run)
    assert said.wait(20.0)
    os.kill(pid, signal.SIGKILL)
    native.record_exit_pid(pid, end_of(pid))
    return pid


@pytest.mark.parametrize("kind", [mp.Lock, mp.RLock])
def test_exclusion(kind) -> None:
    lock, total = kind(), mp.RawValue("i", 0)

    def count() -> None:
        for _ in range(2000):
            with lock:
                total.value += 1

    pids = [in_child(count) for _ in range(3)]
    assert [end_of(pid) for pid in pids] == [0, 0, 0]
    assert total.value == 6000


def test_lock_times_out_and_is_not_reentrant() -> None:
    lock = mp.Lock()
    assert lock.acquire()
    assert not lock.acquire(block=False)
    assert not lock.acquire(timeout=0.05)
    lock.release()
    with pytest.raises(ValueError, match="not held"):
        lock.release()


def test_rlock_counts_and_belongs_to_its_thread() -> None:
    lock = mp.RLock()
    assert lock.acquire()
    assert lock.acquire()
    lock.release()
    got = []
    thread = threading.Thread(target=lambda: got.append(lock.acquire(False)))
    thread.start()
    thread.join()
    assert got == [False]
    lock.release()
    with pytest.raises(AssertionError, match="not owned"):
        lock.release()


@pytest.mark.parametrize("kind", [mp.Lock, mp.RLock])
def test_a_lock_of_a_dead_process_says_so_and_can_be_recovered(kind) -> None:
    lock = kind()
    start = time.monotonic()
    pid = killed_child(lock.acquire)
    for _ in range(2):  # everybody is told, until somebody recovers it
        with pytest.raises(PeerLostError, match=r"the victim .*SIGKILL") as caught:
            lock.acquire(timeout=20.0)
        assert caught.value.pid == pid
    assert time.monotonic() - start < 10
    assert lock.recover()
    lock.release()
    with lock:
        assert not mp.Lock().locked()


def test_a_waiter_is_told_within_a_second() -> None:
    lock, said = mp.Lock(), mp.Event()

    def hold() -> None:
        lock.acquire()
        said.set()
        signal.pause()

    pid = in_child(hold)
    assert said.wait(20.0)
    killer = threading.Timer(0.2, os.kill, (pid, signal.SIGKILL))
    killer.start()
    start = time.monotonic()
    with pytest.raises(PeerLostError):
        lock.acquire()
    assert time.monotonic() - start < 1.5
    end_of(pid)
    killer.join()


def test_semaphore() -> None:
    semaphore = mp.Semaphore(2)
    assert semaphore.acquire()
    assert semaphore.acquire()
    assert not semaphore.acquire(block=False)
    assert not semaphore.acquire(timeout=0.05)

    def release() -> None:
        time.sleep(0.1)
        semaphore.release()

    pid = in_child(release)
    assert semaphore.acquire(timeout=20.0)
    assert end_of(pid) == 0
    assert semaphore.get_value() == 0
    with pytest.raises(ValueError, match="from 0"):
        mp.Semaphore(-1)


def test_bounded_semaphore_refuses_more_than_it_had() -> None:
    semaphore = mp.BoundedSemaphore(1)
    semaphore.acquire()
    semaphore.release()
    with pytest.raises(ValueError, match="too many times"):
        semaphore.release()


def test_event() -> None:
    event = mp.Event()
    assert not event.wait(0.05)
    pid = in_child(lambda: event.wait(20.0) or os._exit(3))
    event.set()
    assert end_of(pid) == 0
    assert event.is_set()
    event.clear()
    assert not event.is_set()


def test_condition_wakes_as_many_as_are_notified() -> None:
    condition, woken = mp.Condition(), mp.Semaphore(0)
    ready = mp.Semaphore(0)

    def wait() -> None:
        with condition:
            ready.release()
            condition.wait()
        woken.release()

    pids = [in_child(wait) for _ in range(3)]
    for _ in pids:
        assert ready.acquire(timeout=20.0)
    with condition:  # all are inside wait() once the lock is free
        condition.notify()
    assert woken.acquire(timeout=20.0)
    assert not woken.acquire(timeout=0.3)
    with condition:
        condition.notify_all()
    assert woken.acquire(timeout=20.0)
    assert woken.acquire(timeout=20.0)
    assert [end_of(pid) for pid in pids] == [0, 0, 0]


def test_condition_needs_its_lock() -> None:
    condition = mp.Condition()
    with pytest.raises(AssertionError, match="acquire"):
        condition.wait()
    with pytest.raises(AssertionError, match="acquire"):
        condition.notify()
    with condition:
        assert not condition.wait(0.05)
        assert not condition.wait_for(lambda: False, 0.05)
        assert condition.wait_for(lambda: 7) == 7


def test_a_killed_waiter_takes_no_notification_away() -> None:
    condition = mp.Condition()
    ready = mp.Semaphore(0)

    def wait() -> None:
        with condition:
            ready.release()
            condition.wait()

    first = in_child(wait)
    assert ready.acquire(timeout=20.0)
    with condition:
        pass
    second = in_child(wait)
    assert ready.acquire(timeout=20.0)
    with condition:
        pass
    os.kill(first, signal.SIGKILL)
    assert end_of(first) == -signal.SIGKILL
    end = time.monotonic() + 20
    while os.waitpid(second, os.WNOHANG)[0] == 0:
        assert time.monotonic() < end
        with condition:
            condition.notify()
        time.sleep(0.01)
