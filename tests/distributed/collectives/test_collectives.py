"""Collectives that gather tensors whose sizes differ by rank: each rank's error has a hint."""

from __future__ import annotations

from typing import Any

import pytest

import shmtensor as st
from shmtensor import distributed as dist
from shmtensor.errors import CollectiveMismatch

from ..run_ranks import run, values


def outputs(sizes: str) -> list[Any]:
    """Of the own size, of each rank's, or of rank 0's."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    size = {"own": lambda r: 2 + rank, "right": lambda r: 2 + r, "first": lambda r: 2}[sizes]
    return [st.zeros(size(r)) for r in range(ranks)]


CALLS = {
    "all_gather": lambda xs, x: dist.all_gather(xs, x),
    "async": lambda xs, x: dist.all_gather(xs, x, async_op=True).wait(),
    "method": lambda xs, x: dist.group.WORLD.allgather([xs], [x]).wait(),
    "all_gather_into_tensor": lambda xs, x: dist.all_gather_into_tensor(st.cat(xs), x),
    "gather": lambda xs, x: dist.gather(x, None if dist.get_rank() else xs, 0),
    "all_gather_coalesced": lambda xs, x: dist.all_gather_coalesced([[y] for y in xs], [x]),
}


def gather(name: str, sizes: str) -> None:
    CALLS[name](outputs(sizes), st.ones(2 + dist.get_rank()))


@pytest.mark.parametrize("node", [0, 1])
@pytest.mark.parametrize("sizes", ["own", "right", "first"])
@pytest.mark.parametrize("name", CALLS)
def test_sizes_that_differ_by_rank_are_an_error_with_a_hint(
    name: str, sizes: str, node: int
) -> None:
    for outcome in run(gather, 2, name, sizes, node=node):
        assert type(outcome.error) is CollectiveMismatch, outcome
        text = str(outcome.error)
        assert "float32 (2,)" in text
        assert "float32 (3,)" in text
        assert text.endswith("hint: pad the tensors to one size, or use all_gather_object")


def wrong_list() -> tuple[str, list[float]]:
    rank = dist.get_rank()
    good, result = [st.zeros(2), st.zeros(2)], ""
    if rank:
        with pytest.raises(ValueError, match="tensors of the list differ"):
            dist.all_gather([st.zeros(3), st.zeros(3)], st.ones(2))
    else:
        dist.all_gather(good, st.ones(2))
        result = str(good[1].tolist())
    total = st.ones(1)
    dist.all_reduce(total)  # the ranks go on together
    return result, total.tolist()


def test_a_wrong_list_is_an_error_of_its_rank_alone() -> None:
    assert values(run(wrong_list, 2)) == [("[1.0, 1.0]", [2.0]), ("", [2.0])]


def other_dtypes() -> None:
    x = st.ones(2, dtype=st.float32 if dist.get_rank() else st.int32)
    dist.all_gather([st.zeros(2), st.zeros(2)], x)


def test_other_dtypes_get_no_hint_about_sizes() -> None:
    for outcome in run(other_dtypes, 2):
        assert type(outcome.error) is CollectiveMismatch
        assert "hint" not in str(outcome.error)
