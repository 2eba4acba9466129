"""A rank killed at a random moment of random collectives: all others name it, nothing is left.

`python -m tests.distributed.kills` is the long form (make kills).
"""

from __future__ import annotations

import signal
import time
from typing import Any

import pytest

import shmtensor as st
from shmtensor import distributed as dist
from shmtensor import multiprocessing as mp
from shmtensor import native, nn, optim
from shmtensor.distributed import DistributedDataParallel
from shmtensor.distributed.group.init_process_group import (
    abort_groups,
    join_group,
    set_default_group,
)
from shmtensor.distributed.rendezvous.find_group import create_block
from shmtensor.errors import PeerLostError

from ..kills import one_round
from ..run_ranks import die, run


@pytest.mark.parametrize(
    ("ending", "ranks"),
    [("kill", 2), ("kill", 3), ("kill", 4), ("kill", 7)]
    + [(ending, 3) for ending in ("point", "exception", "limit", "oom", "stop")],
)
def test_every_end_of_a_rank_is_named_by_all(ending: str, ranks: int) -> None:
    one_round(7 * ranks, ending, ranks)  # "oom" without a memory cgroup is "kill"


def train_until_lost() -> str:
    rank = dist.get_rank()
    model = DistributedDataParallel(nn.Linear(300, 300))
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    for step in range(50):
        optimizer.zero_grad()
        out = model(st.ones(4, 300)).sum()
        if rank == 1 and step == 3:
            die()
        try:
            out.backward()
        except PeerLostError as error:
            return error.name
        optimizer.step()
    return "not missed"


def test_a_death_in_training_is_named_in_backward() -> None:
    outcomes = run(train_until_lost, 3)
    assert outcomes[1].exitcode == -signal.SIGKILL
    assert [outcomes[0].value, outcomes[2].value] == ["rank 1", "rank 1"]


def live_without_net(rank: int, handle: bytes, queue: Any) -> None:
    """A rank with an uncaught exception, whose exit takes as long as its child."""
    set_default_group(join_group(native.receive(handle, False), rank, 2, 60.0, f"rank {rank}"))
    if rank == 1:
        context: Any = mp.get_context("fork")
        context.Process(target=time.sleep, args=(2.0,)).start()
        raise ValueError("no such luck")
    try:
        dist.all_reduce(st.zeros(3))
    except PeerLostError as error:
        queue.put((error.name, str(error)))


def test_an_exception_is_reported_before_the_process_exits(
    capfd: pytest.CaptureFixture[str],
) -> None:
    context: Any = mp.get_context("fork")
    queue = context.Queue()
    block, handle = create_block(2)
    processes = [
        context.Process(target=live_without_net, args=(rank, handle, queue)) for rank in range(2)
    ]
    for process in processes:
        process.start()
    name, text = queue.get(timeout=60)
    for process in processes:
        process.join()
    queue.close()
    native.acknowledge(handle)
    del block
    assert name == "rank 1"
    assert "it raised ValueError: no such luck" in text  # else: has exited with code 1
    assert [process.exitcode for process in processes] == [0, 1]
    assert "no such luck" in capfd.readouterr().err


def hear_of_it() -> Any:
    """Rank 1 dies. Rank 0 notices in a group without rank 2, which waits for rank 0 only."""
    few = dist.new_group([0, 1])
    rank = dist.get_rank()
    if rank == 1:
        die()
    try:
        if rank == 0:
            dist.barrier(few)
        else:
            dist.recv(st.zeros(3), 0)
    except PeerLostError as error:
        return error.name


def test_a_rank_that_ends_because_of_a_death_is_not_named_instead() -> None:
    def live() -> Any:
        name = hear_of_it()
        abort_groups(PeerLostError("of that"))
        return name

    outcomes = run(live, 3)
    assert [outcome.value for outcome in outcomes] == ["rank 1", None, "rank 1"]
