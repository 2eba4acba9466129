"""A group's methods do the same as the functions, and return a Work."""

from __future__ import annotations

import pytest

import shmtensor as st
from shmtensor import distributed as dist
from shmtensor.distributed.group.process_group import single_tensor

from ..run_ranks import run, values


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
