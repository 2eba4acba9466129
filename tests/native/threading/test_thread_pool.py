"""The thread pool: any number of threads, callers and forks."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

import shmtensor as st
from shmtensor import native
from tests.environment import environment

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
    assert thread_count() <= before


def test_forked_child_has_a_separate_pool() -> None:
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
    assert after <= busy - 3  # a thread of another test may have ended, too


@contextmanager
def other_callers(n: int) -> Iterator[None]:
    """Threads that compute meanwhile, each 50 times at least; all get the right results."""
    is_over = threading.Event()
    right: list[bool] = []

    def compute() -> None:
        done = 0
        while done < 50 or not is_over.is_set():
            right.append(works())
            done += 1

    threads = [threading.Thread(target=compute) for _ in range(n)]
    for t in threads:
        t.start()
    try:
        yield
    finally:
        is_over.set()
        for t in threads:
            t.join()
    assert len(right) >= 50 * n
    assert all(right)


def test_fork_while_other_threads_compute() -> None:
    native.set_num_threads(2)
    with other_callers(2):
        for _ in range(20):
            pid = os.fork()
            if pid == 0:
                os._exit(0 if works() else 1)
            assert os.waitpid(pid, 0)[1] == 0


def test_many_callers_at_once() -> None:
    native.set_num_threads(3)
    with other_callers(4):
        assert works()


def test_idle_workers_use_no_processor() -> None:
    """They sleep soon, and nothing wakes them: the kernel gives them the processor no more."""
    native.set_num_threads(4)
    assert works()
    deadline = time.monotonic() + 30
    while True:
        before = turns = [read_of(i, "schedstat") for i in worker_ids()]
        for _ in range(6):
            time.sleep(0.05)
            turns = [read_of(i, "schedstat") for i in worker_ids()]
        if turns and turns == before:
            break
        assert time.monotonic() < deadline, (before, turns)


def read_of(tid: int, name: str) -> str:
    """The kernel's status of a thread, or "" if it has ended since it was listed."""
    try:
        return Path(f"/proc/self/task/{tid}/{name}").read_text().strip()
    except (FileNotFoundError, ProcessLookupError):
        return ""


def sleeps_of(tid: int) -> int:
    """How often a thread has gone to sleep by itself."""
    match = re.search(r"^voluntary_ctxt_switches:\s*(\d+)", read_of(tid, "status"), re.MULTILINE)
    assert match
    return int(match[1])


def worker_ids() -> list[int]:
    tasks = [int(name) for name in os.listdir("/proc/self/task")]
    return [i for i in tasks if read_of(i, "comm") == "shmtensor"]


def the_worker() -> int:
    """The only worker of two threads; it is named when it first runs, and workers of another test
    leave /proc a moment after they are joined.
    """
    native.set_num_threads(2)
    deadline = time.monotonic() + 30
    while len(ids := worker_ids()) != 1:
        assert works()
        assert time.monotonic() < deadline, ids
    return ids[0]


def test_a_thread_that_has_ended_says_nothing() -> None:
    thread = threading.Thread(target=lambda: None)
    thread.start()
    thread.join()
    assert thread.native_id is not None
    deadline = time.monotonic() + 30
    while read_of(thread.native_id, "comm"):
        assert time.monotonic() < deadline


def test_workers_sleep_between_distant_jobs() -> None:
    """Workers poll a little longer after short waits; jobs every 2 ms are not short waits."""
    worker = the_worker()
    x = np.ones(40_000, np.float32)  # three slices
    before, deadline = sleeps_of(worker), time.monotonic() + 30
    while sleeps_of(worker) - before < 50:
        assert time.monotonic() < deadline, sleeps_of(worker) - before
        native.relu(x)
        time.sleep(0.002)


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two CPUs")
def test_a_worker_leaves_the_callers_cpu() -> None:
    """Wherever the caller is moved, a worker on its CPU moves away."""
    allowed = os.sched_getaffinity(0)
    worker = the_worker()
    try:
        for cpu in sorted(allowed)[:2] * 2:
            deadline = time.monotonic() + 30
            os.sched_setaffinity(worker, {cpu})  # as the kernel may place it
            while cpu in os.sched_getaffinity(worker):
                assert time.monotonic() < deadline, (cpu, os.sched_getaffinity(worker))
                os.sched_setaffinity(0, {cpu})
                os.sched_setaffinity(0, allowed)
                assert works()
    finally:
        os.sched_setaffinity(0, allowed)


def last_cpu_of(tid: int) -> int:
    """The CPU on which a thread runs or last ran."""
    return int(read_of(tid, "stat").rpartition(")")[2].split()[36])


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two CPUs")
def test_a_worker_whose_cpu_is_taken_finishes_on_the_callers() -> None:
    """Only the caller can bring the worker to its CPU: the worker's mask has another one alone."""
    allowed = os.sched_getaffinity(0)
    here, there = sorted(allowed)[:2]
    worker = the_worker()
    os.sched_setaffinity(worker, {there})
    os.sched_setaffinity(0, {here})
    endless = f"import os\nos.sched_setaffinity(0, {{{there}}})\nwhile True: pass"
    other = subprocess.Popen([sys.executable, "-c", endless])
    try:
        deadline = time.monotonic() + 60
        for cpu in (there, here):
            while last_cpu_of(worker) != cpu:
                assert time.monotonic() < deadline, last_cpu_of(worker)
                assert works()
        assert os.sched_getaffinity(worker) == {there}
    finally:
        other.kill()
        other.wait()
        os.sched_setaffinity(0, allowed)


def run_time_of(tid: int) -> int:
    """Nanoseconds for which a thread has run."""
    return int(read_of(tid, "schedstat").split()[0])


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two CPUs")
def test_in_a_group_a_worker_leaves_a_cpu_that_another_process_needs() -> None:
    """And comes back when that has ended. One that computed or spun would have run within 15 ms."""
    allowed = os.sched_getaffinity(0)
    here, there = sorted(allowed)[:2]
    group = native.Group(st.zeros(native.group_nbytes(2), dtype=st.uint8).numpy(), 0, 2)
    worker = the_worker()
    os.sched_setaffinity(worker, {there})
    os.sched_setaffinity(0, {here})
    endless = f"import os\nos.sched_setaffinity(0, {{{there}}})\nwhile True: pass"
    other = subprocess.Popen([sys.executable, "-c", endless])
    out = X.copy()
    deadline = time.monotonic() + 60
    try:
        is_idle = False
        while not is_idle:
            assert time.monotonic() < deadline
            before, end = run_time_of(worker), time.monotonic() + 0.015
            while time.monotonic() < end:
                ADD(X, X, out=out)
            is_idle = run_time_of(worker) == before
    finally:
        other.kill()
        other.wait()
        os.sched_setaffinity(0, allowed)
    before = run_time_of(worker)
    while run_time_of(worker) - before < 10_000_000:
        assert time.monotonic() < deadline
        ADD(X, X, out=out)
    del group


def has_real_time_scheduling() -> bool:
    """Whether we may use SCHED_FIFO: root, CAP_SYS_NICE or a limit."""
    policy, parameters = os.sched_getscheduler(0), os.sched_getparam(0)
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    except OSError:
        return False
    os.sched_setscheduler(0, policy, parameters)
    return True


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two CPUs")
@pytest.mark.skipif(not has_real_time_scheduling(), reason="needs SCHED_FIFO")
def test_a_worker_that_waits_for_the_callers_cpu_leaves_it() -> None:
    """It cannot say where it is: under SCHED_FIFO it never runs while the caller computes."""
    allowed = os.sched_getaffinity(0)
    here, there = sorted(allowed)[:2]
    policy, parameters = os.sched_getscheduler(0), os.sched_getparam(0)
    os.sched_setaffinity(0, {here})  # no other CPU: the caller changes no mask yet
    worker = the_worker()
    try:
        os.sched_setaffinity(worker, {there})
        deadline = time.monotonic() + 30
        while last_cpu_of(worker) != there:  # the last CPU that the worker stores
            assert time.monotonic() < deadline
            assert works()
        for thread in (0, worker):
            os.sched_setscheduler(thread, os.SCHED_FIFO, os.sched_param(1))
        os.sched_setaffinity(worker, {here})
        caller, out = threading.get_native_id(), X.copy()
        ADD(X, X, out=out)  # wakes the worker, which now waits for the caller's CPU
        os.sched_setaffinity(0, allowed)
        for _ in range(100):
            ADD(X, X, out=out)
            if last_cpu_of(caller) not in os.sched_getaffinity(worker):
                break
        assert last_cpu_of(caller) not in os.sched_getaffinity(worker)
    finally:
        for thread in (0, worker):
            os.sched_setscheduler(thread, policy, parameters)
        os.sched_setaffinity(0, allowed)


def test_workers_stay_on_a_single_cpu() -> None:
    allowed = os.sched_getaffinity(0)
    native.set_num_threads(3)
    try:
        os.sched_setaffinity(0, {min(allowed)})
        for _ in range(5):
            assert works()
    finally:
        os.sched_setaffinity(0, allowed)


def share_of(n: int, **settings: str) -> int:
    """The number of threads of a new process that is one of n."""
    code = f"from shmtensor import native; native.share_threads({n}); "
    code += "print(native.get_num_threads())"
    env = environment(Path(native.__file__ or "").parents[2])
    env = {k: v for k, v in env.items() if not k.endswith("_NUM_THREADS")}
    run = subprocess.run(
        [sys.executable, "-c", code], env={**env, **settings}, capture_output=True, check=True
    )
    return int(run.stdout)


def test_processes_share_the_cpus_unless_told() -> None:
    share = share_of(1)
    assert share_of(2) == max(1, share // 2)
    assert share_of(10_000) == 1
    assert share_of(4, OMP_NUM_THREADS="3") == 3
    assert share_of(4, SHMTENSOR_NUM_THREADS="2", OMP_NUM_THREADS="3") == 2
    with pytest.raises(ValueError, match="share_threads: expected at least 1 process: 0"):
        native.share_threads(0)
