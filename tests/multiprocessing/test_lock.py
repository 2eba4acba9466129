"""Locks, semaphores, conditions, events between processes, and what a kill does to them."""

from __future__ import annotations

import os
import signal
import threading
import time

import pytest
from test_channel import end_of, in_child, killed_at

from shmtensor import multiprocessing as mp
from shmtensor import native
from shmtensor.errors import PeerLostError


def child_after(deed) -> int:
    """The pid of a child that has done `deed`, and waits."""
    said = mp.Event()

    def run() -> None:
        native.set_role("the victim")
        deed()
        said.set()
        signal.pause()

    pid = in_child(run)
    assert said.wait(20.0)
    return pid


def killed_child(deed) -> int:
    """The pid of a child that has done `deed` and was killed; reaped."""
    pid = child_after(deed)
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
    result = []
    thread = threading.Thread(target=lambda: result.append(lock.acquire(False)))
    thread.start()
    thread.join()
    assert result == [False]
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


def test_a_waiter_is_told_soon() -> None:
    lock = mp.Lock()
    pid = child_after(lock.acquire)
    killer = threading.Timer(0.2, os.kill, (pid, signal.SIGKILL))
    killer.start()
    start = time.monotonic()
    with pytest.raises(PeerLostError):
        lock.acquire()
    assert time.monotonic() - start < 10  # the benchmarks' processes/death has the time
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


@pytest.mark.parametrize("kind", [mp.Lock, mp.RLock])
@pytest.mark.parametrize("point", ["lock.taken", "lock.freed", "lock.recovered"])
def test_a_lock_after_a_kill_at(point: str, kind) -> None:
    lock = kind()
    if point == "lock.recovered":
        killed_at("lock.taken", lock.acquire)

    def use() -> None:
        lock.recover() if point == "lock.recovered" else lock.acquire()
        lock.release()

    killed_at(point, use)
    if point != "lock.freed":
        with pytest.raises(PeerLostError):
            lock.acquire(timeout=20.0)
        assert lock.recover(timeout=20.0)
    else:
        assert lock.acquire(timeout=20.0)
    lock.release()
    with lock:
        pass


def test_a_waiter_gets_a_lock_whose_holder_died_while_it_let_go() -> None:
    lock, said = mp.Lock(), mp.Event()

    def hold() -> None:
        lock.acquire()
        said.set()
        time.sleep(0.2)
        native.arm_fault("lock.freed")
        lock.release()

    pid = in_child(hold)
    assert said.wait(20.0)
    assert lock.acquire(timeout=20.0)
    assert end_of(pid) == -signal.SIGKILL
    lock.release()


@pytest.mark.parametrize("kind", [mp.Semaphore, mp.BoundedSemaphore])
def test_permits_of_a_killed_process_come_back(kind) -> None:
    semaphore = kind(3)
    assert semaphore.acquire()
    killed_child(lambda: semaphore.acquire() and semaphore.acquire())
    assert semaphore.get_value() == 0  # until somebody asks
    assert semaphore.acquire(timeout=20.0)
    assert semaphore.acquire(block=False)
    assert not semaphore.acquire(block=False)
    for _ in range(3):
        semaphore.release()
    assert semaphore.get_value() == 3


def test_a_waiter_gets_the_permit_of_a_holder_that_is_killed() -> None:
    semaphore = mp.Semaphore(1)
    pid = child_after(semaphore.acquire)
    killer = threading.Timer(0.2, os.kill, (pid, signal.SIGKILL))
    killer.start()
    start = time.monotonic()
    waiter = threading.Thread(target=semaphore.acquire)  # the pid has to be reaped meanwhile
    waiter.start()
    assert end_of(pid) == -signal.SIGKILL
    waiter.join(20.0)
    assert not waiter.is_alive()
    assert time.monotonic() - start < 10
    killer.join()


def test_permits_stay_taken_by_who_left_in_order() -> None:
    semaphore = mp.Semaphore(2)
    process = mp.get_context("fork").Process(target=semaphore.acquire)
    process.start()
    process.join(20.0)
    assert process.exitcode == 0
    assert semaphore.acquire(timeout=20.0)
    assert not semaphore.acquire(timeout=0.3)
    process.close()


def test_permits_handed_over_are_not_counted_twice() -> None:
    """Room in a buffer: taken by who fills, given back by who empties; the one who fills is
    killed."""
    room = mp.BoundedSemaphore(2)
    killed_child(lambda: room.acquire() and room.acquire())
    room.release()  # what it had put was used
    assert room.get_value() == 1
    assert room.acquire(timeout=20.0)
    assert room.acquire(timeout=20.0)  # the other one came back by its death
    assert not room.acquire(block=False)
    room.release()
    room.release()
    with pytest.raises(ValueError, match="too many times"):
        room.release()
    assert room.get_value() == 2


def test_a_signal_belongs_to_nobody() -> None:
    signals, result = mp.Semaphore(0), mp.Semaphore(0)
    signals.release(5)

    def take() -> None:
        for _ in range(3):
            assert signals.acquire(timeout=20.0)
            result.release()

    killed_child(take)
    assert result.get_value() == 3
    assert signals.acquire(timeout=20.0)
    assert signals.acquire(timeout=20.0)
    assert not signals.acquire(timeout=0.3)  # what the dead one took was used


def test_a_large_semaphore_counts() -> None:
    semaphore = mp.BoundedSemaphore(5000)
    assert semaphore.get_value() == 5000
    for _ in range(3000):
        assert semaphore.acquire(block=False)
    assert semaphore.get_value() == 2000
    semaphore.release(3000)
    assert semaphore.get_value() == 5000
    with pytest.raises(ValueError, match="limit is 5000"):
        semaphore.release()
    with pytest.raises(ValueError, match="too many"):
        mp.BoundedSemaphore(0).release()


def test_a_condition_after_the_notifier_was_killed() -> None:
    condition, ready = mp.Condition(), mp.Semaphore(0)
    ends = []

    def wait() -> None:
        with condition:
            ready.release()
            condition.wait(20.0)

    def notify() -> None:
        with condition:
            native.arm_fault("condition.notified")
            condition.notify_all()

    pid = in_child(wait)
    assert ready.acquire(timeout=20.0)
    with condition:
        pass
    assert end_of(in_child(notify)) == -signal.SIGKILL
    ends.append(end_of(pid))  # it was told, and says that the lock's holder is lost
    assert ends == [1]
    assert condition._lock.recover()
    condition.release()


def test_places_of_killed_waiters_are_used_again() -> None:
    condition = mp.Condition(mp.Lock())

    def wait() -> None:
        with condition:
            condition.wait()

    native.arm_fault("")
    for _ in range(3):
        killed_at("condition.waiting", wait)
        condition._lock.recover()
        condition.release()
    with condition:
        condition.notify_all()
        assert not condition.wait(0.05)


def test_an_event_outlives_who_set_it() -> None:
    event = mp.Event()
    killed_child(event.set)
    assert event.wait(20.0)
