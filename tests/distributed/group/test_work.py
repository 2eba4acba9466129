"""async_op: Work in the order of the calls, its errors, and forks."""

from __future__ import annotations

import os
import threading
import time
import warnings
from typing import Any

import numpy as np
import pytest

import shmtensor as st
from shmtensor import distributed as dist
from shmtensor.distributed.group.work import Lane, Work
from shmtensor.errors import CollectiveMismatch, PeerLostError

from ..run_ranks import die, run, values


def test_a_future_has_a_result_or_an_error() -> None:
    future = dist.Future()
    results: list[Any] = []
    following = future.then(lambda f: f.value() + 1)
    future.add_done_callback(lambda f: results.append(f.value()))
    assert not future.done()
    with pytest.raises(RuntimeError, match="no result yet"):
        future.value()
    with pytest.raises(TimeoutError, match="no result after"):
        future.wait(0.01)
    future.set_result(1)
    future.add_done_callback(lambda f: results.append(f.value() * 10))
    assert (future.wait(), following.wait(), results) == (1, 2, [1, 10])
    with pytest.raises(RuntimeError, match="a result already"):
        future.set_result(2)
    failing = dist.Future()
    after = failing.then(lambda f: f.value())
    failing.set_exception(LookupError("x"))
    assert isinstance(after.exception(), LookupError)
    with pytest.raises(LookupError):
        failing.wait()


def test_a_lane_keeps_the_order_and_its_thread_ends_before_a_fork() -> None:
    lane, order = Lane("test"), []
    works = [lane.put(Work(lambda k=k: order.append(k), k)) for k in range(50)]  # type: ignore[misc]
    assert works[-1].wait(10)
    assert order == list(range(50))
    assert works[3].result() == 3
    assert any(t.name == "test" for t in threading.enumerate())
    lane.stop_if_idle()
    assert not any(t.name == "test" for t in threading.enumerate())
    lane.put(Work(lambda: None, None)).wait(10)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        pid = os.fork()
        if pid == 0:
            os._exit(0 if lane.is_idle() and lane.put(Work(print, 5)).wait(10) else 1)
    assert os.waitpid(pid, 0)[1] == 0


def many_at_once() -> list[float]:
    rank = dist.get_rank()
    xs = [st.full((n,), float(rank + n)) for n in (3, 20_000, 5, 40_000)]
    works: list[Any] = [dist.all_reduce(x, async_op=True) for x in xs]
    y = st.full((4,), float(rank))
    dist.all_reduce(y)  # is queued behind the others
    assert all(work.is_completed() for work in works)
    assert works[1].is_success()
    assert works[1].get_future().wait()[0] is xs[1]
    dist.barrier(async_op=True).wait()
    dist.monitored_barrier()
    return [float(x[-1]) for x in [*xs, y]]


def test_work_is_done_in_the_order_asked_for() -> None:
    for results in values(run(many_at_once, 2)):
        assert results == [7.0, 40_001.0, 11.0, 80_001.0, 1.0]


def fails() -> str:
    if dist.get_rank() == 0:
        work: Any = dist.all_reduce(st.zeros(3), async_op=True)
    else:
        work = dist.all_reduce(st.zeros(4), async_op=True)
    with pytest.raises(CollectiveMismatch):
        work.wait()
    assert isinstance(work.exception(), CollectiveMismatch)
    assert work.is_completed()
    assert not work.is_success()
    x = np.ones(2)
    dist.all_reduce(x)
    return str(x)


def test_errors_are_raised_by_wait_and_the_group_lives_on() -> None:
    assert values(run(fails, 2)) == ["[2. 2.]", "[2. 2.]"]


def lost_rank_names() -> str:
    if dist.get_rank() == 1:
        die()
    works: list[Any] = [dist.all_reduce(st.zeros(3), async_op=True) for _ in range(3)]
    names = []
    for work in works:
        with pytest.raises(PeerLostError) as caught:
            work.wait()
        names.append(caught.value.name)
    return " ".join(names)


def test_a_death_ends_all_work() -> None:
    assert run(lost_rank_names, 2)[0].value == "rank 1 rank 1 rank 1"


def late() -> str:
    if dist.get_rank() == 0:
        work: Any = dist.barrier(async_op=True)
        with pytest.raises(TimeoutError):
            work.wait(0.05)
        dist.send(np.zeros(1), 1)
        return str(work.wait(20))
    dist.recv(np.zeros(1), 0)
    dist.barrier()
    return "True"


def test_after_a_timeout_of_wait_the_work_continues() -> None:
    assert values(run(late, 2)) == ["True", "True"]


def all_missing() -> str:
    if dist.get_rank() == 0:
        with pytest.raises(RuntimeError, match=r"ranks have not come: \[1, 2\] of 3"):
            dist.monitored_barrier(timeout=0.2, wait_all_ranks=True)
        return "told"
    time.sleep(0.6)
    return ""


def test_monitored_barrier_names_all_missing_ranks() -> None:
    assert values(run(all_missing, 3))[0] == "told"


def leave_with_work() -> list[str]:
    group = dist.new_group([0, 1])
    x = st.ones(4)
    if dist.get_rank() == 1:
        dist.barrier()
        dist.destroy_process_group(group)
        return []
    works = [dist.all_reduce(x, group=group, async_op=True) for _ in range(3)]
    dist.destroy_process_group(group)
    messages = []
    for work in works:
        try:
            work.wait()
        except RuntimeError as error:
            messages.append(str(error))
    dist.barrier()
    return messages


def test_work_of_a_group_that_was_left_ends_with_an_error() -> None:
    zero, _ = values(run(leave_with_work, 2))
    assert len(zero) == 3
    assert all("has left the group" in text for text in zero), zero
