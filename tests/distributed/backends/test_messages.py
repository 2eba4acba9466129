"""News between the ranks of a group, with a fake communicator."""

from __future__ import annotations

import threading
import time
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from shmtensor.distributed.backends.mpi import large_collectives
from shmtensor.distributed.backends.mpi import messages as wire
from shmtensor.distributed.backends.mpi.messages import Base, Wire
from shmtensor.errors import CollectiveTimeout, PeerLostError


class Comm:
    """An mpi4py communicator that delivers the given messages."""

    def __init__(self) -> None:
        self.messages: list[tuple[int, Any]] = []
        self.rank = 0

    def Get_attr(self, _: int) -> int:
        return 1 << 20

    def Isend(self, data: Any, to: int, tag: int) -> str:
        self.messages.append((self.rank, data.copy()))
        return "request"

    def Iprobe(self, _: int, tag: int, status: Any) -> bool:
        is_there = bool(self.messages)
        if is_there:
            status.source = self.messages[0][0]
        time.sleep(1e-3)  # other threads may probe now, if the lock lets them
        return is_there

    def Recv(self, out: Any, source: int, tag: int) -> None:
        assert self.messages, "waits for ever"
        _, payload = self.messages.pop(0)
        out[: payload.size] = payload


class Status:
    source = -1

    def Get_source(self) -> int:
        return self.source


@pytest.fixture
def comm(monkeypatch: pytest.MonkeyPatch) -> Comm:
    fake = SimpleNamespace(TAG_UB=0, ANY_SOURCE=-1, Status=Status, Exception=OSError, Request=None)
    monkeypatch.setattr(wire, "mpi", lambda: fake)
    monkeypatch.setattr(Base, "wires", [])
    return Comm()


def test_bad_news_arrive_unchanged(comm: Comm) -> None:
    teller, listener = Wire(comm, 0, range(3)), Wire(comm, 1, range(3))
    text = "größer " + "\N{SNAIL}" * 500
    teller.send_news(
        teller.set_failure("lost", 2, text, name="rank 2", pid=77, host="anderswo"), [1]
    )
    listener.receive_news()
    with pytest.raises(PeerLostError, match="größer") as caught:
        listener.raise_failure("barrier")
    assert (caught.value.name, caught.value.pid, caught.value.host) == ("rank 2", 77, "anderswo")


def test_the_first_news_stay(comm: Comm) -> None:
    one = Wire(comm, 0, range(3))
    one.set_failure("timeout", 2, "after 3 s")
    one.set_failure("lost", 1, "later")
    with pytest.raises(CollectiveTimeout, match="rank 2 gave up: after 3 s"):
        one.raise_failure("barrier")


def test_a_departure_is_not_bad_news(comm: Comm) -> None:
    one = Wire(comm, 0, range(3))
    comm.rank = 2
    Wire(comm, 2, range(3)).send_news({"reason": "left", "rank": 2, "number": 5}, [0])
    one.receive_news()
    assert (one.failure, one.leavers) == (None, {2: 5})


@pytest.mark.parametrize("n_barriers", [2, 1, 0], ids=["all", "left", "none"])
def test_mpi_ends_only_if_all_have_come_twice(
    comm: Comm, monkeypatch: pytest.MonkeyPatch, n_barriers: int
) -> None:
    finalized, is_complete = [], iter([True] * n_barriers + [False] * 2)

    def Ibarrier() -> Any:
        is_done = next(is_complete)
        return SimpleNamespace(Test=lambda: is_done)

    monkeypatch.setattr(comm, "Ibarrier", Ibarrier, raising=False)
    monkeypatch.setattr(Base, "comm", comm)
    monkeypatch.setattr(wire, "PATIENCE", 0.02)
    Wire(comm, 0, range(3)).set_failure("lost", 2, "rank 2 died")
    module = SimpleNamespace(
        Is_finalized=lambda: False, Finalize=lambda: finalized.append(1), Exception=OSError
    )
    wire.finalize(module)
    assert len(finalized) == (n_barriers == 2)


def test_threads_that_poll_at_once_do_not_wait_for_one_message(comm: Comm) -> None:
    one, errors = Wire(comm, 0, range(3)), []

    def poll() -> None:
        for _ in range(20):
            try:
                one.receive_news()
            except BaseException as error:
                errors.append(error)

    threads = [threading.Thread(target=poll) for _ in range(4)]
    for thread in threads:
        thread.start()
    for number in range(10):
        comm.rank = number % 2 + 1
        one.send_news({"reason": "left", "rank": comm.rank, "number": number}, [0])
        time.sleep(2e-3)
    for thread in threads:
        thread.join()
    one.receive_news()
    assert not errors
    assert one.leavers == {1: 8, 2: 9}


def test_a_rank_that_ended_silently_is_named(comm: Comm, monkeypatch: pytest.MonkeyPatch) -> None:
    """A group of the ranks 7, 8 and 9 of all; 8 has left before its connection ended."""
    watch = SimpleNamespace(
        dead_ranks=lambda: [8, 9], processes=[(100 + r, f"host{r}") for r in range(10)]
    )
    monkeypatch.setattr(Base, "watch", watch)
    one = Wire(comm, 0, [7, 8, 9])
    one.leavers[1] = 3
    one.receive_news()
    with pytest.raises(PeerLostError, match=r"barrier: rank 2 \(pid 109\) has died") as caught:
        one.raise_failure("barrier")
    assert (caught.value.name, caught.value.pid, caught.value.host) == ("rank 2", 109, "host9")


def test_a_sum_beyond_float16_is_infinity_without_a_warning() -> None:
    out = np.zeros((1, 2), np.float16)
    large_collectives.round_into(
        np.array([1e6, 2.0], np.float32), out
    )  # a warning would be an error here
    assert out.tolist() == [[np.inf, 2.0]]
