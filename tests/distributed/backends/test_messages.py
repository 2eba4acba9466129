"""News between the ranks of a group, over a transport that delivers the given messages."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from shmtensor.distributed.backends.mpi import large_collectives
from shmtensor.distributed.backends.mpi.messages import Wire
from shmtensor.distributed.backends.transport import Transport
from shmtensor.errors import CollectiveTimeout, PeerLostError


class Messages(Transport):
    """Delivers every message to whoever asks."""

    def __init__(self) -> None:
        super().__init__(0, 10, 1 << 20, OSError)
        self.messages: list[tuple[int, Any]] = []
        self.dead: dict[int, tuple[int, str]] = {}

    def send(self, x: Any, to: int, tag: int, until_received: bool = False) -> str:
        self.messages.append((self.rank, x.copy()))
        return "request"

    def receive(self, x: Any, source: int, tag: int) -> str:
        assert self.messages, "waits for ever"
        _, payload = self.messages.pop(0)
        x[: payload.size] = payload
        return "request"

    def are_done(self, requests: Sequence[Any]) -> bool:
        return True

    def find(self, tag: int) -> int | None:
        source = self.messages[0][0] if self.messages else None
        time.sleep(1e-3)  # other threads may look now, if the lock lets them
        return source

    def find_dead(self) -> dict[int, tuple[int, str]]:
        return self.dead


@pytest.fixture
def comm() -> Messages:
    return Messages()


def test_bad_news_arrive_unchanged(comm: Messages) -> None:
    teller, listener = Wire(comm, 0, range(3)), Wire(comm, 1, range(3))
    text = "größer " + "\N{SNAIL}" * 500
    teller.send_news(
        teller.set_failure("lost", 2, text, name="rank 2", pid=77, host="anderswo"), [1]
    )
    listener.receive_news()
    with pytest.raises(PeerLostError, match="größer") as caught:
        listener.raise_failure("barrier")
    assert (caught.value.name, caught.value.pid, caught.value.host) == ("rank 2", 77, "anderswo")


def test_the_first_news_stay(comm: Messages) -> None:
    one = Wire(comm, 0, range(3))
    one.set_failure("timeout", 2, "after 3 s")
    one.set_failure("lost", 1, "later")
    with pytest.raises(CollectiveTimeout, match="rank 2 gave up: after 3 s"):
        one.raise_failure("barrier")


def test_a_departure_is_not_bad_news(comm: Messages) -> None:
    one = Wire(comm, 0, range(3))
    comm.rank = 2
    Wire(comm, 2, range(3)).send_news({"reason": "left", "rank": 2, "number": 5}, [0])
    one.receive_news()
    assert (one.failure, one.leavers) == (None, {2: 5})


def test_threads_that_poll_at_once_do_not_wait_for_one_message(comm: Messages) -> None:
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


def test_a_rank_that_ended_silently_is_named(comm: Messages) -> None:
    """A group of the ranks 7, 8 and 9 of all; 8 has left before its connection ended."""
    comm.dead = {r: (100 + r, f"host{r}") for r in (8, 9)}
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
