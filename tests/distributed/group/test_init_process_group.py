"""Joining, by the launcher's block or by name; groups of some ranks; and wrong arguments."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import shmtensor as st
from shmtensor import distributed as dist
from shmtensor import multiprocessing as mp
from shmtensor.distributed import distributed_c10d
from shmtensor.errors import CollectiveMismatch, CollectiveTimeout

from ..run_ranks import run, values


def test_a_single_rank_works_alone() -> None:
    assert dist.is_available()
    assert not dist.is_initialized()
    dist.init_process_group(rank=0, world_size=1)
    try:
        assert (dist.get_rank(), dist.get_world_size(), dist.get_backend()) == (0, 1, "shm")
        assert dist.get_backend_config() == "cpu:shm"
        assert dist.get_pg_count() == 1
        assert dist.group.WORLD.timeout == dist.default_pg_timeout.total_seconds()  # type: ignore
        x = st.arange(3.0)
        work = dist.all_reduce(x, async_op=True)
        assert isinstance(work, dist.Work)
        assert isinstance(dist.GroupMember.WORLD, dist.ProcessGroup)
        assert work.wait()
        assert work.is_completed()
        with pytest.raises(ValueError, match="destroy_process_group first"):
            dist.init_process_group(rank=0, world_size=1)
    finally:
        dist.destroy_process_group()
    assert not dist.is_initialized()
    assert dist.get_pg_count() == 0
    with pytest.raises(ValueError, match="call init_process_group first"):
        dist.barrier()


def test_bad_arguments_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RANK", raising=False)
    with pytest.raises(ValueError, match="RANK is None"):
        dist.init_process_group()
    with pytest.raises(ValueError, match="'ucc', there are shm"):
        dist.init_process_group("ucc", rank=0, world_size=1)
    with pytest.raises(ValueError, match="rank 3 of 2"):
        dist.init_process_group(rank=3, world_size=2)
    with pytest.raises(ValueError, match="not both"):
        dist.init_process_group(store=dist.HashStore(), init_method="x", rank=0, world_size=1)
    with pytest.raises(ValueError, match="negative"):
        dist.init_process_group(rank=0, world_size=1, timeout=timedelta(seconds=-1))


def by_name_or_store(rank: int, name: str, path: str, queue: Any) -> None:
    for _ in range(2):  # a name, or a store, can be used again
        store = dist.FileStore(path) if path else None
        dist.init_process_group("gloo", name or None, 60, 3, rank, store)
        x = st.ones(3) * (rank + 1)
        dist.all_reduce(x)
        dist.destroy_process_group()
    queue.put(float(x[0]))


@pytest.mark.parametrize(
    ("name", "start_method"),
    [("tcp://localhost:23456", "fork"), ("tcp://localhost:23456", "spawn"), ("", "fork")],
    ids=["name, fork", "name, spawn", "store"],
)
def test_ranks_find_each_other(name: str, start_method: str, tmp_path: Path) -> None:
    context: Any = mp.get_context(start_method)
    queue, path = context.Queue(), "" if name else str(tmp_path / "store")
    processes = [
        context.Process(target=by_name_or_store, args=(rank, name, path, queue))
        for rank in range(3)
    ]
    for process in processes:
        process.start()
    results = [queue.get(timeout=90) for _ in processes]
    for process in processes:
        process.join()
    queue.close()
    assert results == [6.0] * 3


def test_missing_ranks_end_in_a_timeout() -> None:
    for rank in (0, 1):
        with pytest.raises(CollectiveTimeout, match="not all ranks came in time"):
            dist.init_process_group(init_method="nobody", rank=rank, world_size=2, timeout=0.2)
    assert not dist.is_initialized()


def groups() -> list[Any]:
    rank = dist.get_rank()
    low = dist.new_group([0, 1])
    high = dist.new_group([2, 1])
    out: list[Any] = [dist.get_rank(low), dist.get_world_size(high)]
    if rank in (0, 1):
        x = st.full((3,), float(rank + 1))
        dist.all_reduce(x, group=low)
        out.append(float(x[0]))
    else:
        with pytest.raises(ValueError, match="not in the group"):
            dist.barrier(low)
    if rank in (1, 2):
        y = st.full((9_000,), float(rank))
        dist.broadcast(y, src=2, group=high)
        out += [float(y[0]), dist.get_process_group_ranks(high), dist.get_group_rank(high, 2)]
        assert dist.get_global_rank(high, 0) == 1
        with pytest.raises(ValueError, match=r"not in the group: 0, the group has \[1, 2\]"):
            dist.broadcast(y, src=0, group=high)
    dist.barrier()
    dist.destroy_process_group(low if rank < 2 else high)
    return out


def test_groups_of_some_ranks() -> None:
    zero, one, two = values(run(groups, 3))
    assert zero == [0, -1, 3.0]
    assert one == [1, 2, 3.0, 2.0, [1, 2], 1]
    assert two == [-1, 2, 2.0, [1, 2], 1]


def disagree() -> None:
    dist.new_group([0] if dist.get_rank() == 0 else [0, 1])


def test_disagreement_about_members_is_a_mismatch() -> None:
    for outcome in run(disagree, 2):
        assert isinstance(outcome.error, CollectiveMismatch), outcome
        assert "[[0], [0, 1]]" in str(outcome.error)


def cut_up() -> list[Any]:
    subgroup, groups = dist.new_subgroups(2)
    x = st.full((2,), float(dist.get_rank()))
    dist.all_reduce(x, group=subgroup)
    other, _ = dist.new_subgroups_by_enumeration([[0, 3], [1, 2]])
    y = st.full((2,), float(dist.get_rank()))
    dist.all_reduce(y, group=other)
    third, _ = dist.new_subgroups_by_enumeration([[0, 1]])
    with pytest.raises(ValueError, match="in two subgroups"):
        dist.new_subgroups_by_enumeration([[0, 1], [1]])
    with pytest.raises(ValueError, match=r"there is no list of ranks: \[\]"):
        dist.new_subgroups_by_enumeration([])
    with pytest.raises(ValueError, match="4 ranks are not groups of 3"):
        dist.new_subgroups(3)
    return [len(groups), float(x[0]), float(y[0]), third is None]


def test_subgroups() -> None:
    results = values(run(cut_up, 4))
    assert results == [
        [2, 1.0, 3.0, False],
        [2, 1.0, 3.0, False],
        [2, 5.0, 3.0, True],
        [2, 5.0, 3.0, True],
    ]


def test_node_local_rank(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LOCAL_RANK", raising=False)
    assert dist.get_node_local_rank(5) == 5
    with pytest.raises(RuntimeError, match="LOCAL_RANK"):
        dist.get_node_local_rank()
    monkeypatch.setenv("LOCAL_RANK", "3")
    assert dist.get_node_local_rank() == 3


def mismatch() -> None:
    with pytest.raises(dist.DistBackendError):
        dist.all_reduce(st.ones(1 + dist.get_rank()))


def test_errors_are_caught_by_the_names_of_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    assert dist.DistError is dist.DistNetworkError is dist.DistStoreError
    values(run(mismatch, 2, start_method="fork"))
    monkeypatch.delenv("TORCHELASTIC_RUN_ID", raising=False)
    assert not dist.is_torchelastic_launched()
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "none")
    assert dist.is_torchelastic_launched()


@pytest.mark.parametrize("name", ["rpc", "fsdp", "tensor", "checkpoint", "nn", "ProcessGroupGloo"])
def test_missing_features_are_named(name: str) -> None:
    with pytest.raises(AttributeError, match=f"'shmtensor.distributed' has no attribute '{name}'"):
        getattr(dist, name)


def told_of_groups() -> list[Any]:
    pair = dist.new_group([0, 1], group_desc="pair")
    single, _ = dist.new_subgroups(1, group_desc="alone")
    assert single is not None
    assert dist.group.WORLD is distributed_c10d._get_default_group()
    with pytest.raises(ValueError, match="this process has a default group"):
        dist.init_process_group("gloo")
    with pytest.raises(ValueError, match="use_local_synchronization=True"):
        dist.new_group([0, 1], use_local_synchronization=True)
    with pytest.raises(ValueError, match="ascending order"):
        dist.new_group([1, 0], sort_ranks=False)
    world = dist.group.WORLD
    descriptions = [world.group_desc, pair.group_desc, single.group_desc]
    assert world.bound_device_id is None
    assert pair.group_name != world.group_name
    return [*descriptions, pair.group_name, dist.new_group([1, 0]).ranks]


def test_queries_of_groups_have_pytorchs_names() -> None:
    zero, one = values(run(told_of_groups, 2))
    assert zero == one
    assert zero[:3] == ["default_pg", "pair", "alone"]
    assert zero[4] == [0, 1]
    assert distributed_c10d.ReduceOp is dist.ReduceOp
    assert dist.ReduceOp.RedOpType.SUM is dist.ReduceOp.SUM
    assert str(dist.ReduceOp.SUM).endswith("SUM")
    assert dist.Backend.UCC == "ucc"
    assert not dist.is_backend_available(dist.Backend.XCCL)
