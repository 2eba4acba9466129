"""The thread pool: any number of threads, callers and forks."""

from __future__ import annotations

import os
import threading
import time

import numpy as np
import pytest

from shmtensor import native

ADD = native.parallel(np.add)
X = np.arange(400_000.0)


def works() -> bool:
    return bool((ADD(X, X)[::1000] == 2 * X[::1000]).all())


def thread_count() -> int:
    return len(os.listdir("/proc/self/task"))


@pytest.fixture(autouse=True)
def _threads():  # type: ignore[no-untyped-def]
    before = native.get_num_threads()
    yield
    native.set_num_threads(before)


def test_thread_count_can_be_set() -> None:
    for n in (1, 4, 2):
        native.set_num_threads(n)
        assert native.get_num_threads() == n
        assert works()
    with pytest.raises(ValueError, match="set_num_threads: expected at least 1: 0"):
        native.set_num_threads(0)


def test_one_thread_starts_none() -> None:
    native.set_num_threads(1)
    before = thread_count()
    assert works()
    assert thread_count() == before


def test_forked_child_has_a_pool_of_its_own() -> None:
    native.set_num_threads(3)
    for _ in range(20):
        assert works()
        pid = os.fork()
        if pid == 0:
            os._exit(0 if thread_count() == 1 and works() else 1)
        assert os.waitpid(pid, 0)[1] == 0
        assert works()


def test_no_worker_lives_right_after_a_fork() -> None:
    """Python 3.12 and later warn when /proc/self/stat counts more than one thread."""
    native.set_num_threads(4)
    assert works()
    busy = thread_count()
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    after = thread_count()
    os.waitpid(pid, 0)
    assert after == busy - 3


def test_fork_while_other_threads_compute() -> None:
    native.set_num_threads(2)
    stop = threading.Event()
    failures: list[int] = []

    def compute() -> None:
        while not stop.is_set():
            if not works():
                failures.append(1)

    threads = [threading.Thread(target=compute) for _ in range(2)]
    for t in threads:
        t.start()
    try:
        for _ in range(20):
            pid = os.fork()
            if pid == 0:
                os._exit(0 if works() else 1)
            assert os.waitpid(pid, 0)[1] == 0
    finally:
        stop.set()
        for t in threads:
            t.join()
    assert not failures


def test_many_callers_at_once() -> None:
    native.set_num_threads(3)
    failures: list[int] = []

    def compute() -> None:
        for _ in range(50):
            if not works():
                failures.append(1)

    threads = [threading.Thread(target=compute) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failures


def test_idle_workers_use_no_processor() -> None:
    native.set_num_threads(4)
    assert works()
    time.sleep(0.05)
    before = time.process_time()
    time.sleep(0.3)
    assert time.process_time() - before < 0.1
