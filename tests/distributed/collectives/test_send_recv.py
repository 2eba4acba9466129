"""Point to point: any order without a circle works; messages that do not fit are an error."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import shmtensor as st
from shmtensor import distributed as dist
from shmtensor.errors import CollectiveMismatch, CollectiveTimeout

from ..run_ranks import run, values


def messages() -> list[float]:
    rank = dist.get_rank()
    received = []
    for n in (0, 3, 9_000):
        x = st.full((n,), float(rank + 7))
        if rank == 0:
            dist.send(x, 1)
            assert dist.irecv(x, 1).wait()
        else:
            y = st.empty(n)
            assert dist.recv(y, 0) == 0
            work = dist.isend(x, 0)
            assert work.wait()
            assert work.is_completed()
            x = y
        received.append(float(x.sum()))
    return received


def test_send_and_receive() -> None:
    zero, one = values(run(messages, 2))
    assert zero == [0.0, 24.0, 72_000.0]
    assert one == [0.0, 21.0, 63_000.0]


def wrong_message() -> None:
    dist.send(st.zeros(3), 1) if dist.get_rank() == 0 else dist.recv(st.zeros(4), 0)


def test_a_message_that_does_not_fit_is_an_error_on_both_sides() -> None:
    for outcome in run(wrong_message, 2):
        assert isinstance(outcome.error, CollectiveMismatch), outcome


def ring() -> list[list[float]]:
    """All ranks begin with isend: none waits for another."""
    rank, n = dist.get_rank(), dist.get_world_size()
    after, before = (rank + 1) % n, (rank - 1) % n
    works, received = [], []
    for k in range(4):
        works.append(dist.isend(st.full((20_000,), float(10 * k + rank)), after, tag=k))
    for k in range(4):
        x = st.empty(20_000)
        works.append(dist.irecv(x, before, tag=k))
        received.append(x)
    for work in works:
        assert work.wait()
    y = st.empty(5)
    operations = [
        dist.P2POp(dist.irecv, y, before),
        dist.P2POp(dist.isend, st.full((5,), float(rank)).t(), after),
    ]
    for work in dist.batch_isend_irecv(operations):
        work.wait()
    with pytest.raises(ValueError, match="list of P2POp"):
        dist.batch_isend_irecv([])
    with pytest.raises(ValueError, match="neither isend nor irecv"):
        dist.P2POp(dist.send, y, before)
    return [[float(x[-1]) for x in received], [float(y[0])]]


@pytest.mark.parametrize("ranks", [2, 3])
def test_a_ring_in_which_everybody_sends_first(ranks: int) -> None:
    for rank, (received, last) in enumerate(values(run(ring, ranks))):
        before = (rank - 1) % ranks
        assert received == [10.0 * k + before for k in range(4)]
        assert last == [float(before)]


def first_come() -> list[int]:
    rank, n = dist.get_rank(), dist.get_world_size()
    if rank != 0:
        dist.send(np.array([rank, rank * rank]), 0)
        dist.barrier()
        return []
    received = []
    for k in range(n - 1):
        x = np.zeros(2, np.int64)
        if k == 0:
            work = dist.irecv(x)
            work.wait()
            source = work.source_rank()
        else:
            source = dist.recv(x)
        assert x.tolist() == [source, source * source]
        received.append(source)
    dist.barrier()
    return sorted(received)


def test_receive_from_any_rank() -> None:
    assert values(run(first_come, 3))[0] == [1, 2]


def nobody_sends() -> None:
    if dist.get_rank() == 0:
        world: Any = dist.GroupMember.WORLD
        world.timeout = 0.2
        with pytest.raises(CollectiveTimeout, match="no rank has sent anything"):
            dist.recv(st.zeros(3))
        return
    with pytest.raises(RuntimeError, match="rank 0"):
        dist.barrier()


def test_a_late_sender_is_a_timeout() -> None:
    values(run(nobody_sends, 2))


def while_a_collective_waits() -> float:
    """Messages are not queued behind collectives."""
    rank = dist.get_rank()
    x, y = st.full((3,), float(rank)), st.full((3,), 7.0 if rank == 0 else 0.0)
    work: Any = None
    if rank == 0:
        work = dist.all_reduce(x, async_op=True)  # rank 1 enters only after it has the message
        dist.send(y, 1)
    else:
        dist.recv(y, 0)
        work = dist.all_reduce(x, async_op=True)
    work.wait()
    return float(x[0] + y[0])


def test_a_message_passes_a_collective_that_waits() -> None:
    assert values(run(while_a_collective_waits, 2)) == [8.0, 8.0]
