"""Objects travel pickled; tensors inside are the same memory at the other end."""

from __future__ import annotations

from typing import Any

import pytest

import shmtensor as st
from shmtensor import distributed as dist

from .crowd import run, values


def everything() -> list[Any]:
    rank, ranks = dist.get_rank(), dist.get_world_size()
    gathered: list[Any] = [None] * ranks
    dist.all_gather_object(gathered, {"rank": rank, "text": "x" * rank * 30_000})
    box = [rank, "mine"]
    dist.broadcast_object_list(box, src=1)
    at_root: list[Any] | None = [None] * ranks if rank == 0 else None
    dist.gather_object(rank * 2, at_root)
    part = [None]
    dist.scatter_object_list(part, ["a", "b"] if rank == 0 else None)
    return [[len(each["text"]) for each in gathered], box, at_root, part[0]]


def test_objects_arrive() -> None:
    zero, one = values(run(everything, 2))
    assert zero == [[0, 30_000], [1, "mine"], [0, 2], "a"]
    assert one == [[0, 30_000], [1, "mine"], None, "b"]


def share() -> float:
    box = [st.zeros(5) if dist.get_rank() == 0 else None]
    dist.broadcast_object_list(box)
    tensor = box[0]
    if dist.get_rank() == 1:
        tensor.add_(3)
    dist.barrier()
    return float(tensor.sum())


def test_a_tensor_in_an_object_is_the_same_memory() -> None:
    assert values(run(share, 2)) == [15.0, 15.0]


def wrong_list() -> None:
    dist.broadcast_object_list([1, 2] if dist.get_rank() == 0 else [1])


def test_lists_of_different_length_are_an_error() -> None:
    outcomes = run(wrong_list, 2)
    assert isinstance(outcomes[1].error, ValueError)
    assert isinstance(outcomes[0].error, RuntimeError)
    with pytest.raises(ValueError, match="no place for each rank"):
        values(run(no_place, 1))


def no_place() -> None:
    dist.all_gather_object([], 1)
