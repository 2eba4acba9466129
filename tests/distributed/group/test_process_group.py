"""A rank that does not come, calls something else or dies is an error on every rank, and never a
hang.
"""

from __future__ import annotations

import os
import resource
import signal
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import shmtensor as st
from shmtensor import distributed as dist
from shmtensor import native
from shmtensor.distributed.group.process_group import single_tensor
from shmtensor.errors import CollectiveMismatch, CollectiveTimeout, PeerLostError

from ..kills import Watch
from ..run_ranks import START_METHODS, die, run, values

LARGE = native.GROUP_INLINE // 4 + 1
# Seconds after a death; far below one on a quiet machine: processes/death of the benchmarks.
SOON = 10.0


def add_ranks(n: int) -> float:
    x = st.full((n,), float(dist.get_rank() + 1))
    dist.all_reduce(x)
    return float(x.numpy()[-1])


@pytest.mark.parametrize("start_method", START_METHODS)
def test_every_start_method(start_method: str) -> None:
    for n in (3, LARGE):
        assert values(run(add_ranks, 2, n, start_method=start_method)) == [3.0, 3.0]


Call = tuple[Callable[[], object], Callable[[], object], list[str]]
DIFFERENT: dict[str, Call] = {  # the call of rank 0, that of the others, and words of both
    "collective": (
        dist.barrier,
        lambda: dist.all_reduce(st.zeros(3, 4)),
        ["rank 0: barrier()", "ranks 1, 2: all_reduce(float32 (3, 4), SUM)"],
    ),
    "shape": (
        lambda: dist.all_reduce(st.zeros(3, 4)),
        lambda: dist.all_reduce(st.zeros(LARGE)),
        ["float32 (3, 4)", f"float32 ({LARGE},)"],
    ),
    "dtype": (
        lambda: dist.all_reduce(st.zeros(8)),
        lambda: dist.all_reduce(st.zeros(4, dtype=st.float64)),
        ["float32 (8,)", "float64 (4,)"],
    ),
    "operation": (
        lambda: dist.all_reduce(st.zeros(8)),
        lambda: dist.all_reduce(st.zeros(8), dist.ReduceOp.MAX),
        ["SUM", "MAX"],
    ),
    "root": (
        lambda: dist.broadcast(st.zeros(8), 0),
        lambda: dist.broadcast(st.zeros(8), 1),
        ["root 0", "root 1"],
    ),
}


def differ(kind: str) -> float:
    first, others, texts = DIFFERENT[kind]
    with pytest.raises(CollectiveMismatch) as caught:
        others() if dist.get_rank() else first()
    assert all(text in str(caught.value) for text in texts), caught.value
    return add_ranks(5)


@pytest.mark.parametrize("kind", DIFFERENT)
def test_a_mismatch_names_both_sides_on_every_rank_and_the_group_goes_on(kind: str) -> None:
    assert values(run(differ, 3, kind)) == [6.0] * 3


POINTS = ["entered", "published", "arrived", "met", "held", "worked"]


def die_at(point: str, nth: int, large: bool) -> tuple[PeerLostError, float] | None:
    """Rank 1 dies at the n-th pass of a point; the others return their error, and how many seconds
    after the death it came."""
    x = st.ones(LARGE if large else 3)
    dist.all_reduce(x)
    pids: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(pids, os.getpid())
    pidfd = os.pidfd_open(pids[1])
    dist.barrier()
    if dist.get_rank() == 1:
        native.arm_fault(f"group.{point}:{nth}")
    else:
        watch = Watch("kill", pidfd)
    for _ in range(4):
        if dist.get_rank() != 1:
            watch.call()
        try:
            dist.all_reduce(x)
        except PeerLostError as error:
            return error, watch.learnt()[0]
    return None


@pytest.mark.parametrize("large", [False, True], ids=["inline", "direct"])
@pytest.mark.parametrize("nth", [1, 2])
@pytest.mark.parametrize("point", POINTS)
def test_a_rank_killed_at_any_step_is_named_soon(point: str, nth: int, large: bool) -> None:
    outcomes = run(die_at, 3, point, nth, large)
    assert outcomes[1].exitcode == -signal.SIGKILL
    for outcome in (outcomes[0], outcomes[2]):
        assert outcome.value is not None, outcome
        error, late = outcome.value
        assert error.name == "rank 1", error
        assert error.exitcode == -signal.SIGKILL, error
        assert "SIGKILL" in str(error)
        assert late < SOON


def lost_once_lost_always() -> str:
    if dist.get_rank() == 1:
        die()
    for _ in range(2):
        with pytest.raises(PeerLostError, match="rank 1"):
            dist.barrier()
    return "alive"


def test_a_group_with_a_dead_rank_stays_lost() -> None:
    assert run(lost_once_lost_always, 2)[0].value == "alive"


def come_late() -> str:
    if dist.get_rank() == 0:
        with pytest.raises(CollectiveTimeout, match=r"rank 1 .* has not come") as caught:
            dist.monitored_barrier(timeout=0.3)
        return str(caught.value)
    time.sleep(1.0)
    with pytest.raises(RuntimeError, match="rank 0 gave up: barrier timed out"):
        dist.all_reduce(st.zeros(3))
    return ""


def test_timeout_names_missing_ranks_and_breaks_the_group() -> None:
    text, _ = values(run(come_late, 2))
    assert "0.3 s" in text


def leave_early() -> str:
    if dist.get_rank() == 1:
        return ""
    with pytest.raises(RuntimeError, match="rank 1") as caught:
        dist.barrier()
    return str(caught.value)


def test_a_rank_that_left_is_not_waited_for() -> None:
    text, _ = values(run(leave_early, 2))
    assert "left" in text or "exited" in text


@pytest.mark.parametrize("wait", ["barrier", "recv", "find_sender"])
def test_a_wait_checks_for_departures_before_it_sleeps(wait: str) -> None:
    """A rank that leaves before the wait wakes no waiter: without the check it would sleep."""
    slept = []
    for _ in range(5):  # a page fault may sleep, too
        words = native.allocate(native.group_nbytes(2), shared=True)
        mine, other = native.Group(words, 0, 2), native.Group(words, 1, 2)
        other.leave()
        x = np.zeros(1)
        before = resource.getrusage(resource.RUSAGE_THREAD).ru_nvcsw
        with pytest.raises(RuntimeError, match="left the group"):
            if wait == "recv":
                mine.recv(x, 1, 0, 20.0)
            else:
                getattr(mine, wait)(20.0)
        slept.append(resource.getrusage(resource.RUSAGE_THREAD).ru_nvcsw - before)
    assert min(slept) == 0, slept


def interrupt() -> str:
    if dist.get_rank() == 0:
        threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGUSR1)).start()

        def handler(*_: Any) -> None:
            raise InterruptedError("stop")

        signal.signal(signal.SIGUSR1, handler)
        with pytest.raises(InterruptedError):
            dist.barrier()
        time.sleep(0.5)
        return "interrupted"
    time.sleep(0.7)
    with pytest.raises(RuntimeError, match="rank 0 gave up: barrier was interrupted"):
        dist.barrier()
    return "told"


def test_a_signal_ends_the_wait_and_the_others_get_an_error() -> None:
    assert values(run(interrupt, 2)) == ["interrupted", "told"]


def test_rank_out_of_range_and_small_block_are_refused() -> None:
    block = native.allocate(native.group_nbytes(2), zero=True, shared=True)
    with pytest.raises(ValueError, match="rank 2 of 2"):
        native.Group(block, 2, 2)
    with pytest.raises(ValueError, match="too small"):
        native.Group(block, 0, 4)
    one = native.Group(block, 0, 2)
    with pytest.raises(RuntimeError, match="rank is taken"):
        native.Group(block, 0, 2)
    with pytest.raises(CollectiveMismatch, match="world sizes differ"):
        native.Group(block, 0, 1)
    del one


def deny_fork() -> None:
    from shmtensor import multiprocessing as mp

    def child() -> None:
        with pytest.raises(ValueError, match="no default group"):
            dist.barrier()

    process = mp.get_context("fork").Process(target=child)
    process.start()
    process.join()
    assert process.exitcode == 0
    dist.barrier()


def test_a_forked_child_is_not_in_the_group() -> None:
    values(run(deny_fork, 2))


def wait_for_a_sleeper() -> float:
    """The CPU time that a wait of two seconds uses."""
    dist.barrier()
    began = time.process_time()
    if dist.get_rank() == 0:
        time.sleep(2.0)
    dist.all_reduce(st.ones(LARGE))
    return time.process_time() - began


def test_waits_take_no_cpu() -> None:
    assert max(values(run(wait_for_a_sleeper, 4))) < 0.4


def count_bytes() -> tuple[int, int, int]:
    x = st.zeros(8)
    dist.all_reduce(x)
    dist.all_reduce(st.zeros(LARGE))
    figures = dist.GroupMember.WORLD.statistics()
    return figures.collectives, figures.bytes_inline, figures.bytes_staged


def test_statistics_count_what_was_copied() -> None:
    for collectives, inline, staged in values(run(count_bytes, 2)):
        assert collectives == 3  # the barrier of joining included
        assert (inline, staged) == (32, 0)


def several_threads() -> str:
    group = dist.new_group([0, 1])
    x, y = st.ones(4), st.ones(LARGE)
    thread = threading.Thread(
        target=lambda: [dist.all_reduce(x, dist.ReduceOp.AVG, group) for _ in range(200)]
    )
    thread.start()
    for _ in range(200):
        dist.all_reduce(y, dist.ReduceOp.AVG)
    thread.join()
    assert (np.asarray(x) == 1).all()
    assert (np.asarray(y) == 1).all()
    return "done"


def test_a_group_for_each_thread() -> None:
    assert values(run(several_threads, 2)) == ["done", "done"]


# ---------------------------------------------------------------- its methods
def by_methods() -> list[list[float]]:
    group = dist.group.WORLD
    assert group is not None
    rank = group.rank()
    summed, large, broadcasted, reduced = (st.full((2,), rank + 1.0) for _ in range(4))
    works = [
        group.allreduce([summed]),
        group.allreduce(large, dist.ReduceOp.MAX),
        group.broadcast([broadcasted], 1),
        group.reduce(reduced, 1),
    ]
    outputs = [st.zeros(2), st.zeros(2)]
    works.append(group.allgather([outputs], [st.full((2,), 3.0 * (rank + 1))]))
    works.append(group.barrier())
    for work in works:
        assert work is not None
        work.synchronize()
        assert work.wait()
        assert work.is_success()
    message = st.full((2,), 7.0 if rank == 0 else 0.0)
    message_work = group.send([message], 1, 3) if rank == 0 else group.recv([message], 0, 3)
    assert message_work.wait()
    tensors = [summed, large, broadcasted, reduced, *outputs, message]
    return [[float(v) for v in x.numpy()] for x in tensors]


def test_methods_do_what_the_functions_do() -> None:
    first, second = values(run(by_methods, 2))
    both = [[3.0, 3.0], [2.0, 2.0], [2.0, 2.0]]
    expected = [[3.0, 3.0], [6.0, 6.0], [7.0, 7.0]]
    assert first == [*both, [1.0, 1.0], *expected]
    assert second == [*both, [3.0, 3.0], *expected]


def in_a_part() -> float:
    part = dist.new_group([1, 2])
    if dist.get_rank() == 0:
        return 0.0
    x = st.full((1,), float(dist.get_rank()))
    work = part.broadcast(x, 1)
    assert work is not None
    work.wait()
    return float(x.numpy()[0])


def test_the_root_is_the_groups_own_rank() -> None:
    assert values(run(in_a_part, 3)) == [0.0, 2.0, 2.0]


def test_more_than_one_tensor_is_refused() -> None:
    with pytest.raises(ValueError, match="allreduce: takes a tensor or a list of one: got 2"):
        single_tensor("allreduce", [1, 2])


def break_off_and_read() -> tuple[Any, Any]:
    group = dist.group.WORLD.native
    before = group.failure
    dist.barrier()
    if dist.get_rank() == 1:
        group.break_off("why")
    with pytest.raises(RuntimeError, match="rank 1 gave up: why"):
        dist.barrier()
    return before, group.failure


def test_the_group_says_who_broke_it() -> None:
    assert values(run(break_off_and_read, 2)) == [(None, ("gave up", 1, "why"))] * 2
