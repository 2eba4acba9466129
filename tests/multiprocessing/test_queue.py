"""Queues behave as the standard library's: the same calls, the same answers."""

from __future__ import annotations

import os
import queue
import signal
import threading
import time
from typing import Any

import pytest

from shmtensor import multiprocessing as mp
from shmtensor.errors import PeerLostError


def calls(q: Any) -> list[Any]:
    """What a sequence of calls answers."""
    log: list[Any] = []

    def do(name: str, *arguments: Any, **kwargs: Any) -> None:
        try:
            log.append((name, getattr(q, name)(*arguments, **kwargs)))
        except Exception as error:
            log.append((name, type(error).__name__))

    do("get", False)
    do("get", timeout=0.01)
    do("get_nowait")
    do("put", 1)
    do("put", 2, True, 1.0)
    do("put_nowait", 3)
    do("put", 4, timeout=0.01)
    do("put_nowait", 4)
    do("full")
    do("qsize")
    do("get", timeout=5.0)
    do("get", True, 5.0)
    do("get", timeout=5.0)
    do("empty")
    do("full")
    do("close")
    do("join_thread")
    do("put", 1)
    do("get", False)
    return log


def test_bounded_queue_as_the_standard_librarys() -> None:
    assert calls(mp.Queue(3)) == [
        ("get", "Empty"),
        ("get", "Empty"),
        ("get_nowait", "Empty"),
        ("put", None),
        ("put", None),
        ("put_nowait", None),
        ("put", "Full"),
        ("put_nowait", "Full"),
        ("full", True),
        ("qsize", 3),
        ("get", 1),
        ("get", 2),
        ("get", 3),
        ("empty", True),
        ("full", False),
        ("close", None),
        ("join_thread", None),
        ("put", "ValueError"),
        ("get", "ValueError"),
    ]


def test_exceptions_are_the_standard_librarys() -> None:
    with pytest.raises(queue.Empty):
        mp.Queue().get(False)
    bounded = mp.Queue(1)
    bounded.put(0)
    with pytest.raises(queue.Full):
        bounded.put(0, False)


def test_simple_queue() -> None:
    q = mp.SimpleQueue()
    assert q.empty()
    q.put("x")
    assert not q.empty()
    assert q.get() == "x"
    with pytest.raises(queue.Empty):
        q.get(0.01)
    q.close()
    with pytest.raises(ValueError, match="closed"):
        q.put(1)


def test_joinable_queue() -> None:
    q = mp.JoinableQueue()
    for i in range(5):
        q.put(i)

    def work() -> None:
        for _ in range(5):
            q.get()
            time.sleep(0.01)
            q.task_done()

    thread = threading.Thread(target=work)
    thread.start()
    q.join()
    thread.join()
    with pytest.raises(ValueError, match="too many"):
        q.task_done()


def test_join_names_a_worker_that_died_at_its_task() -> None:
    q = mp.JoinableQueue()
    q.put(1)

    def work() -> None:
        q.get()
        os.kill(os.getpid(), signal.SIGKILL)

    process = mp.get_context("fork").Process(target=work)
    process.start()
    with pytest.raises(PeerLostError, match="SIGKILL"):
        q.join(watch=[process])
    q.task_done()
    q.join(watch=[process])  # nothing is left: its death does not matter
    process.join()
    q.close()


def test_join_ends_when_whoever_took_a_task_is_gone() -> None:
    """Nobody named the worker; one that ended at a task of its own has nothing to do with it."""
    q, out = mp.JoinableQueue(), mp.SimpleQueue()
    for i in range(3):
        q.put(i)

    def work() -> None:
        q.get()
        q.task_done()
        q.get()
        out.put("took two, did one")
        os.kill(os.getpid(), signal.SIGKILL)

    process = mp.get_context("fork").Process(target=work)
    process.start()
    assert out.get(timeout=60.0) == "took two, did one"
    process.join()
    with pytest.raises(PeerLostError, match="SIGKILL"):
        q.join()
    q.put("again")
    q.task_done()  # for the one that was lost
    waiters = threading.Timer(0.3, lambda: [(q.get(), q.task_done()) for _ in range(2)])
    waiters.start()
    q.join()  # two wait in the queue: nothing is lost, whoever has died
    waiters.join()
    q.close()


def test_join_waits_for_what_another_process_gives_back() -> None:
    """A dead one that owed nothing, and tasks of the living, end no wait."""
    q, took = mp.JoinableQueue(), mp.SimpleQueue()
    context = mp.get_context("fork")

    def brief() -> None:
        q.get()
        q.task_done()
        os.kill(os.getpid(), signal.SIGKILL)

    def slow() -> None:
        q.get()
        took.put(1)
        time.sleep(0.3)  # several looks of the one that joins
        q.task_done()

    for target in (brief, slow):
        q.put(target.__name__)
        process = context.Process(target=target)
        process.start()
        if target is brief:
            process.join()
    took.get(timeout=60.0)
    q.join()
    process.join()
    q.close()


def test_threads_share_a_queue() -> None:
    q, out = mp.Queue(2), mp.Queue()
    threads = [threading.Thread(target=lambda: [q.put(i) for i in range(100)]) for _ in range(3)]
    threads += [
        threading.Thread(target=lambda: [out.put(q.get()) for _ in range(100)]) for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(out.get() for _ in range(300)) == sorted(list(range(100)) * 3)
