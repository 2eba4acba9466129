"""Everything of the standard library's Pool; deaths are in test_start_methods.py."""

from __future__ import annotations

import os
import queue
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import tasks

import shmtensor as st
from shmtensor import multiprocessing as mp
from shmtensor.errors import PeerLostError

LONG = 30.0


@contextmanager
def running() -> Iterator[Any]:
    with mp.get_context("fork").Pool(2) as pool:
        yield pool
        pool.close()
        pool.join()


def test_every_way_to_ask() -> None:
    with running() as pool:
        assert pool.apply(tasks.add, (1,), {"y": 2}) == 3
        assert pool.map(tasks.square, range(7), chunksize=3) == [x * x for x in range(7)]
        assert pool.map_async(tasks.square, [3]).get(LONG) == [9]
        assert list(pool.imap(tasks.square, range(7))) == [x * x for x in range(7)]
        assert list(pool.imap(tasks.square, range(7), chunksize=3)) == [x * x for x in range(7)]
        assert sorted(pool.imap_unordered(tasks.square, range(5), 2)) == [0, 1, 4, 9, 16]
        assert pool.starmap(tasks.add, [(1, 2), (3, 4)]) == [3, 7]
        assert pool.starmap_async(tasks.add, [(1, 2), (3, 4)], chunksize=1).get(LONG) == [3, 7]
        assert pool.map(tasks.square, []) == []
        assert pool.map(lambda x: x + 1, [1]) == [2]


def test_results() -> None:
    with running() as pool:
        result = pool.apply_async(tasks.square, (4,))
        result.wait(LONG)
        assert result.ready()
        assert result.successful()
        assert result.get() == 16
        with pytest.raises(mp.TimeoutError):
            pool.apply_async(time.sleep, (0.5,)).get(0.01)
        iterator = pool.imap(tasks.square, [5])
        assert iterator.next(LONG) == 25
        with pytest.raises(StopIteration):
            iterator.next()


def test_callbacks() -> None:
    with running() as pool:
        said: queue.Queue[Any] = queue.Queue()
        pool.apply_async(tasks.square, (3,), callback=said.put)
        assert said.get(timeout=LONG) == 9
        pool.map_async(tasks.square, [1, 2], callback=said.put)
        assert said.get(timeout=LONG) == [1, 4]
        failures = pool.starmap_async(tasks.refuse, [(1,)], error_callback=said.put)
        assert isinstance(said.get(timeout=LONG), ValueError)
        with pytest.raises(ValueError, match="on purpose: 1"):
            failures.get(LONG)


def test_what_cannot_be_unpickled_fails_its_task_and_the_pool_goes_on() -> None:
    with running() as pool:
        for function, argument in [
            (tasks.raise_unreadable, 1),  # the error on its way back
            (tasks.Unreadable, 2),  # the result
            (tasks.square, tasks.Unreadable(3)),  # the argument
        ]:
            with pytest.raises(TypeError, match="missing 1 required"):
                pool.apply_async(function, (argument,)).get(LONG)
        with pytest.raises(TypeError, match="missing 1 required"):
            list(pool.imap(tasks.Unreadable, range(3)))
        assert pool.map(tasks.square, range(4)) == [0, 1, 4, 9]


def test_a_callback_that_fails_is_told_and_holds_nobody_up(monkeypatch: pytest.MonkeyPatch) -> None:
    said: queue.Queue[Any] = queue.Queue()
    monkeypatch.setattr(threading, "excepthook", lambda told: said.put(told.exc_type))

    def fail(_: object) -> None:
        raise ZeroDivisionError

    with running() as pool:
        assert pool.apply_async(tasks.square, (3,), callback=fail).get(LONG) == 9
        assert pool.map_async(tasks.square, [1, 2], callback=fail).get(LONG) == [1, 4]
        with pytest.raises(ValueError, match="on purpose"):
            pool.apply_async(tasks.refuse, (1,), error_callback=fail).get(LONG)
    assert [said.get(timeout=LONG) for _ in range(3)] == [ZeroDivisionError] * 3


def test_an_error_names_where_it_was_raised() -> None:
    with running() as pool:
        with pytest.raises(ValueError, match="on purpose: 2") as caught:
            pool.apply(tasks.refuse, (2,))
        assert "tasks.py" in str(caught.value.__cause__)


def test_tensors_are_the_same_memory_both_ways() -> None:
    with running() as pool:
        x = st.zeros(3)
        result = pool.map(tasks.add_one, [x[i : i + 1] for i in range(3)])
        assert x.tolist() == [1, 1, 1]
        result[0].add_(4)
        assert x[0].item() == 5


def test_initializer_and_its_tensors() -> None:
    x = st.zeros(2)
    with mp.get_context("fork").Pool(2, tasks.begin, (x,)) as pool:
        for result in pool.map(tasks.first_initarg, range(4), chunksize=1):
            assert result.data_ptr() == x.data_ptr()


def test_workers_are_replaced_after_so_many_tasks() -> None:
    with mp.get_context("fork").Pool(1, maxtasksperchild=2) as pool:
        pids = [pool.apply(tasks.whoami, (i,)) for i in range(6)]
    assert [pids.count(pid) for pid in dict.fromkeys(pids)] == [2, 2, 2]
    assert os.getpid() not in pids


def test_wrong_arguments() -> None:
    for arguments, error in (
        ((0,), ValueError),
        ((1, 3), TypeError),
        ((1, None, (), 0), ValueError),
    ):
        with pytest.raises(error, match="Pool"):
            mp.get_context("fork").Pool(*arguments)


def test_terminate_fails_what_waits_and_close_refuses_more() -> None:
    pool = mp.get_context("fork").Pool(1)
    result = pool.apply_async(time.sleep, (60,))
    pool.terminate()
    pool.join()
    with pytest.raises(RuntimeError, match="terminated"):
        result.get(LONG)
    with pytest.raises(ValueError, match="not running"):
        pool.apply(tasks.square, (1,))


def test_pool_of_threads() -> None:
    from shmtensor.multiprocessing.pool import ThreadPool

    with ThreadPool(2) as pool:
        assert pool.map(tasks.square, range(3)) == [0, 1, 4]


def test_workers_that_die_of_their_start_are_not_started_for_ever() -> None:
    with mp.get_context("fork").Pool(2, initializer=os._exit, initargs=(3,)) as pool:
        end = time.monotonic() + 60
        while pool._worker_pool.error is None:
            assert time.monotonic() < end
            time.sleep(0.01)
        with pytest.raises(PeerLostError, match="exited with code 3"):
            pool.apply(os.getpid)
        assert not pool._worker_pool.workers


def test_a_second_result_of_a_task_is_ignored() -> None:
    """A worker sends a second one if a signal handler raises when the first one was just sent."""
    with running() as pool:
        workers = pool._worker_pool
        for number in workers.workers:
            workers.handle_message((number, 0, 0, (True, "again")))
            workers.handle_message((number, "unread", 0, (False, ValueError("again"))))
        assert pool.map(tasks.square, range(10), chunksize=1) == [i * i for i in range(10)]
