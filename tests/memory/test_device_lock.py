"""native.DeviceLock: as threading.RLock."""

from __future__ import annotations

import signal
import threading
import time

import pytest

from shmtensor import native


def in_thread(*calls: object) -> list[object]:
    """What another thread gets from calling these functions."""
    results: list[object] = []
    thread = threading.Thread(target=lambda: results.extend(call() for call in calls))  # type: ignore[operator]
    thread.start()
    thread.join()
    return results


def test_a_thread_may_take_it_again() -> None:
    lock = native.DeviceLock()
    assert not lock.is_owned()
    with lock as entered:
        assert entered is lock
        assert lock.acquire()
        assert lock.acquire(False)
        assert in_thread(lock.is_owned, lambda: lock.acquire(False)) == [False, False]
        lock.release()
        lock.release()
        assert lock.is_owned()
    assert not lock.is_owned()
    assert in_thread(lambda: lock.acquire(False), lock.is_owned, lock.release) == [True, True, None]


def test_only_its_owner_releases_it() -> None:
    lock = native.DeviceLock()
    with pytest.raises(RuntimeError, match="this thread does not have the lock"):
        lock.release()
    errors: list[str] = []

    def release() -> None:
        try:
            lock.release()
        except RuntimeError as error:
            errors.append(str(error))

    with lock:
        in_thread(release)
    assert errors == ["DeviceLock.release: this thread does not have the lock"]
    with pytest.raises(TypeError, match="wrong number of arguments: 2, expected 0 to 1"):
        lock.acquire(True, 1)  # type: ignore[call-arg]


def test_one_thread_at_a_time() -> None:
    lock = native.DeviceLock()
    total = 0

    def work() -> None:
        nonlocal total
        for _ in range(300):
            with lock:
                value = total
                time.sleep(0)
                total = value + 1

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert total == 1200


def test_an_error_releases_it() -> None:
    lock = native.DeviceLock()
    with pytest.raises(KeyError), lock:
        raise KeyError
    assert not lock.is_owned()
    assert in_thread(lambda: lock.acquire(False), lock.release) == [True, None]


class Interrupt(BaseException):
    pass


def test_a_signal_handler_s_error_ends_the_wait() -> None:
    lock, has_lock, done = native.DeviceLock(), threading.Event(), threading.Event()

    def hold() -> None:
        with lock:
            has_lock.set()
            done.wait(20)

    def interrupt(number: int, frame: object) -> None:
        raise Interrupt

    thread = threading.Thread(target=hold)
    thread.start()
    assert has_lock.wait(20)
    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        with pytest.raises(Interrupt), lock:
            raise AssertionError("two threads have the lock")
        signal.signal(signal.SIGALRM, lambda *_: done.set())
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        with lock:  # after a handler without an error it waits on
            assert done.is_set()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        done.set()
        thread.join()
