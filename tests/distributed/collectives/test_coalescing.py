"""Several collectives as one piece of work."""

from __future__ import annotations

from typing import Any

import pytest

import shmtensor as st
from shmtensor import distributed as dist
from shmtensor.distributed.collectives.coalescing import _coalescing_manager
from shmtensor.errors import CollectiveMismatch

from ..run_ranks import run, values


def together() -> Any:
    rank = dist.get_rank()
    xs = [st.full((n,), rank + float(n)) for n in (1, 3, 50_000)]
    out = st.zeros(3, dtype=st.int64)
    with _coalescing_manager() as manager:
        for x in xs:
            assert dist.all_reduce(x) is None
        dist.all_gather_into_tensor(out, st.tensor([rank]))
        before = [x[0].item() for x in xs]
    assert before == [rank + 1.0, rank + 3.0, rank + 50_000.0]  # nothing has run inside
    assert manager.works == []
    with _coalescing_manager(async_ops=True) as manager:
        for x in xs:
            dist.all_reduce(x, dist.ReduceOp.MAX)
            x += rank  # the collective runs after the block
    manager.wait()
    assert len(manager.works) == 1
    return [x[-1].item() for x in xs], out.tolist()


def test_collectives_are_done_at_the_end_in_their_order() -> None:
    want = [3.0 * n + 3 + 2 for n in (1, 3, 50_000)], [0, 1, 2]
    assert values(run(together, 3, start_method="fork")) == [want] * 3


def wrong() -> Any:
    x = st.ones(2)
    with pytest.raises(KeyError), _coalescing_manager():
        dist.all_reduce(x)
        raise KeyError
    assert x.tolist() == [1, 1]
    with _coalescing_manager(), pytest.raises(ValueError, match="open already, with 1"):
        dist.all_reduce(x)
        with _coalescing_manager():
            pass
    assert x.tolist() == [2, 2]
    with pytest.raises(ValueError, match="lists of 1 outputs"):
        dist.all_gather_coalesced([[x]], [x])
    y = st.ones(2 + dist.get_rank())
    with pytest.raises(CollectiveMismatch), _coalescing_manager():
        dist.all_reduce(y)
    dist.barrier()


def test_wrong_use() -> None:
    values(run(wrong, 2, start_method="fork"))


def lists() -> Any:
    rank = dist.get_rank()
    xs = [st.full((2,), rank + 1.0), st.full((2, 1), rank + 10)]
    dist.all_reduce_coalesced(xs)
    work = dist.all_reduce_coalesced(xs, dist.ReduceOp.MIN, async_op=True)
    assert work is not None
    assert work.wait()
    outs = [[st.zeros(2), st.zeros(2, 1, dtype=st.int64)] for _ in range(2)]
    dist.all_gather_coalesced(outs, [xs[0] + rank, xs[1] + rank])
    return [x.tolist() for x in xs], [[y.tolist() for y in ys] for ys in outs]


def test_lists_of_tensors() -> None:
    want = ([[3.0, 3.0], [[21], [21]]], [[[3.0, 3.0], [[21], [21]]], [[4.0, 4.0], [[22], [22]]]])
    assert values(run(lists, 2, start_method="fork")) == [want] * 2
    assert dist.all_gather_single is dist.all_gather_into_tensor
    assert dist.reduce_scatter_single is dist.reduce_scatter_tensor
