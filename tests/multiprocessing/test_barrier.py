"""Barrier between processes."""

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


def test_all_meet_again_and_again() -> None:
    barrier, numbers = mp.Barrier(3, timeout=20.0), mp.SimpleQueue()

    def meet() -> None:
        for _ in range(50):
            numbers.put(barrier.wait())

    pids = [in_child(meet) for _ in range(2)]
    mine = [barrier.wait() for _ in range(50)]
    assert [end_of(pid) for pid in pids] == [0, 0]
    theirs = [numbers.get(1.0) for _ in range(100)]
    assert sorted(mine + theirs) == sorted([0, 1, 2] * 50)


def test_action_runs_once_before_the_others_go_on() -> None:
    calls = mp.RawValue("i", 0)

    def act() -> None:
        calls.value += 1

    barrier = mp.Barrier(2, act, timeout=20.0)
    pid = in_child(lambda: (barrier.wait(), calls.value == 1 or os._exit(3)))
    barrier.wait()
    assert calls.value == 1
    assert end_of(pid) == 0


def test_timeout_breaks_it_and_reset_mends_it() -> None:
    barrier = mp.Barrier(2)
    with pytest.raises(threading.BrokenBarrierError, match="in time"):
        barrier.wait(0.1)
    assert barrier.broken
    with pytest.raises(threading.BrokenBarrierError, match="broken"):
        barrier.wait(0.1)
    barrier.reset()
    pid = in_child(lambda: barrier.wait(20.0))
    barrier.wait(20.0)
    assert end_of(pid) == 0


def test_abort_reaches_those_that_wait() -> None:
    barrier = mp.Barrier(2)

    def wait() -> None:
        try:
            barrier.wait(20.0)
        except threading.BrokenBarrierError:
            os._exit(5)

    pid = in_child(wait)
    while barrier.n_waiting == 0:
        time.sleep(0.01)
    barrier.abort()
    assert end_of(pid) == 5


@pytest.mark.parametrize("met_before", [False, True])
def test_a_killed_party_is_named(met_before: bool) -> None:
    barrier = mp.Barrier(2 if met_before else 3)

    def wait() -> None:
        native.set_role("party 1")
        barrier.wait(20.0)
        signal.pause()

    pid = in_child(wait)
    if met_before:
        barrier.wait(20.0)
    else:
        while barrier.n_waiting == 0:
            time.sleep(0.01)
    os.kill(pid, signal.SIGKILL)
    native.record_exit_pid(pid, end_of(pid))
    start = time.monotonic()
    with pytest.raises(PeerLostError, match=r"party 1 .*SIGKILL") as caught:
        barrier.wait(20.0)
    assert caught.value.pid == pid
    assert time.monotonic() - start < 10  # the benchmarks' processes/death has the time


def test_a_party_killed_in_its_action_is_named_to_those_that_wait() -> None:
    barrier = mp.Barrier(2, lambda: os.kill(os.getpid(), signal.SIGKILL), timeout=20.0)

    def arrive_last() -> None:
        native.set_role("party 1")
        while barrier.n_waiting == 0:
            time.sleep(0.01)
        barrier.wait()

    pid = in_child(arrive_last)  # it has the lock when it dies
    with pytest.raises(PeerLostError, match=r"party 1") as caught:
        barrier.wait()
    assert caught.value.pid == pid
    end_of(pid)
    with pytest.raises(PeerLostError, match=r"party 1"):
        barrier.wait()
