"""all_reduce of sparse tensors against the sum of the dense ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import shmtensor as st
from shmtensor import distributed as dist
from shmtensor.distributed.collectives.sparse_all_reduce import all_reduce_sparse
from shmtensor.errors import CollectiveMismatch

from ..run_ranks import run, values


def sparse_sample(rank: int, rows: int, dtype: str) -> Any:
    """(rows, 9, 2) with `7 * rank` kept elements, some at the same index."""
    rng = np.random.default_rng(rank)
    places = np.stack([rng.integers(0, rows, 7 * rank), rng.integers(0, 9, 7 * rank)])
    numbers = rng.integers(-9, 9, (7 * rank, 2)).astype(dtype)
    return st.sparse_coo_tensor(places, numbers, (rows, 9, 2))


def reduced(rows: int, dtype: str, op: Any, async_op: bool) -> Any:
    x = sparse_sample(dist.get_rank(), rows, dtype)
    work = dist.all_reduce(x, op, async_op=async_op)
    assert (work is not None) == async_op
    if work is not None:
        work.wait()
    return x.is_coalesced(), x.to_dense().numpy()


@pytest.mark.parametrize(
    ("rows", "dtype", "op", "async_op"),
    [
        (4, "float32", dist.ReduceOp.SUM, False),
        (5_000, "float64", dist.ReduceOp.AVG, True),
        (4, "int64", dist.ReduceOp.SUM, True),
    ],
)
def test_sparse_is_as_dense(rows: int, dtype: str, op: Any, async_op: bool) -> None:
    want = sum(sparse_sample(rank, rows, dtype).to_dense().numpy() for rank in range(3))
    if op is dist.ReduceOp.AVG:
        want = want / 3
    for is_coalesced, result in values(
        run(reduced, 3, rows, dtype, op, async_op, start_method="fork")
    ):
        assert is_coalesced
        assert result.dtype == dtype
        np.testing.assert_allclose(result, want, rtol=1e-14)


def large() -> Any:
    """Larger than the inline limit."""
    rank, n = dist.get_rank(), 30_000
    x = st.sparse_coo_tensor([list(range(rank, n + rank))], np.ones(n), (n + 1,))
    dist.all_reduce(x)
    return x.to_dense().numpy()


def test_many_elements() -> None:
    want = np.full(30_001, 2.0)
    want[[0, -1]] = 1
    for result in values(run(large, 2, start_method="fork")):
        assert np.array_equal(result, want)


def different() -> None:
    x = sparse_sample(2, 4 + dist.get_rank(), "float32")
    with pytest.raises(CollectiveMismatch, match=r"rank 1 has .*5, 9, 2"):
        dist.all_reduce(x)
    with pytest.raises(ValueError, match="SUM and AVG only"):
        all_reduce_sparse(x, dist.ReduceOp.MAX, dist.group.WORLD, False)
    dist.barrier()


def test_different_shapes_are_an_error() -> None:
    values(run(different, 2, start_method="fork"))
