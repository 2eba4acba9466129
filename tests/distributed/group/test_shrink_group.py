"""shrink_group: the remaining ranks continue."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import shmtensor as st
from shmtensor import distributed as dist
from shmtensor import native, nn
from shmtensor.errors import PeerLostError

from ..run_ranks import die, run


def survive() -> Any:
    """Rank 1 of 3 dies; the others average gradients with one another afterwards."""
    if dist.get_rank() == 1:
        die()
    x = st.ones(50_000)
    with pytest.raises(PeerLostError) as caught:
        dist.all_reduce(x)
    dead = int(caught.value.name.removeprefix("rank "))
    before = dist.get_rank()
    group = dist.shrink_group([dead])
    assert group is dist.group.WORLD
    assert dist.get_pg_count() == 1
    rank = dist.get_rank()
    x = st.full((50_000,), 1.0 + rank)
    dist.all_reduce(x)
    model = nn.parallel.DistributedDataParallel(nn.Linear(1, 1).double())
    model(st.full((1, 1), 4.0 * rank, dtype=st.float64)).sum().backward()
    dist.barrier(dist.new_group([0, 1]))
    return before, rank, x[-1].item(), model.module.weight.grad.item()


def test_survivors_go_on() -> None:
    first, dead, last = run(survive, 3, start_method="fork")
    assert dead.exitcode == -9
    assert first.value == (0, 0, 3.0, 2.0), first
    assert last.value == (2, 1, 3.0, 2.0), last


def own_role() -> str:
    """What others' errors call this process."""
    own = native.statistics()
    return native.describe(own["row"], own["incarnation"])[0].partition(" (")[0]


def leave() -> Any:
    """A rank leaves a subgroup; then the world, which keeps one rank."""
    rank = dist.get_rank()
    part = dist.new_group([0, 1, 2])
    assert dist.get_pg_count() == 2
    group: Any = None
    if rank != 1:
        group = dist.shrink_group([1], part, dist.SHRINK_ABORT)
        assert dist.get_process_group_ranks(group) == [0, 2]
        assert dist.get_rank(group) == (0 if rank == 0 else 1)
        assert dist.get_pg_count() == 2
        assert own_role() == f"rank {rank}"  # of the default group
        x = st.tensor([1.0 + rank])
        dist.all_reduce(x, group=group)
        assert x.item() == 4
    dist.barrier()  # the world is unchanged
    if rank == 1:
        with pytest.raises(PeerLostError):
            dist.barrier(part)
    dist.barrier()
    with pytest.raises(RuntimeError, match="this rank is among the excluded"):
        dist.shrink_group([rank])
    for wrong in ([], [0, 0], [3], [-1], [0, 1, 2]):
        with pytest.raises(ValueError, match="cannot exclude all ranks"):
            dist.shrink_group(wrong)
    with pytest.raises(ValueError, match="shrink_flags"):
        dist.shrink_group([1], shrink_flags=7)
    dist.barrier()
    if rank == 2:
        dist.shrink_group([0, 1], None, dist.SHRINK_DEFAULT)
        x = st.tensor([5.0])
        dist.all_reduce(x)
        assert (dist.get_rank(), dist.get_world_size(), x.item()) == (0, 1, 5.0)
    else:
        with pytest.raises(PeerLostError):  # of the former group
            dist.barrier()
    return np.array(rank)


def test_subgroups_shrink_and_wrong_use_is_named() -> None:
    for outcome in run(leave, 3, start_method="fork"):
        assert outcome.error is None, outcome
        assert outcome.exitcode == 0
