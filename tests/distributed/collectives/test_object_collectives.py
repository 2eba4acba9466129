"""Objects travel pickled; tensors inside are the same memory at the other end."""

from __future__ import annotations

from typing import Any

import pytest

import shmtensor as st
from shmtensor import distributed as dist
from shmtensor.errors import CollectiveMismatch

from ..run_ranks import run, values


def gather_everything() -> list[Any]:
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
    zero, one = values(run(gather_everything, 2))
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


def test_lists_of_different_length_are_an_error_on_every_rank() -> None:
    for outcome in run(wrong_list, 2):
        assert isinstance(outcome.error, CollectiveMismatch), outcome
        assert "rank 1 has length 1, not 2" in str(outcome.error)
    with pytest.raises(CollectiveMismatch, match="rank 0 has length 0, not 1"):
        values(run(no_place, 1))


def no_place() -> None:
    dist.all_gather_object([], 1)


def different(calls: list[str]) -> None:
    rank = dist.get_rank()
    x = st.arange(2)
    objects: list[Any] = [None, None]
    ways = {
        "all_gather_object()": lambda: dist.all_gather_object(objects, rank),
        "gather_object(root 0)": lambda: dist.gather_object(rank, objects if rank == 0 else None),
        "broadcast_object_list(root 0)": lambda: dist.broadcast_object_list(objects, 0),
        "broadcast_object_list(root 1)": lambda: dist.broadcast_object_list(objects, 1),
        "all_to_all()": lambda: dist.all_to_all([x[:1], x[1:]], [x[:1], x[1:]]),
    }
    ways[calls[rank]]()


@pytest.mark.parametrize(
    "calls",
    [
        ["all_gather_object()", "gather_object(root 0)"],
        ["broadcast_object_list(root 0)", "broadcast_object_list(root 1)"],
        ["all_gather_object()", "all_to_all()"],
    ],
    ids=["operation", "root", "all_to_all"],
)
def test_different_calls_are_an_error_that_names_both(calls: list[str]) -> None:
    for outcome in run(different, 2, calls):
        assert isinstance(outcome.error, CollectiveMismatch), outcome
        assert f"rank 0: {calls[0]}; rank 1: {calls[1]}" in str(outcome.error)


def beside_numbers() -> None:
    if dist.get_rank() == 0:
        dist.all_gather_object([None, None], 1)
    else:
        x = st.zeros(7, dtype=st.int64)  # as many as a table of objects has
        dist.all_gather([x.clone(), x.clone()], x)


def test_an_all_gather_of_numbers_is_not_taken_for_one_of_objects() -> None:
    for outcome in run(beside_numbers, 2):
        assert isinstance(outcome.error, CollectiveMismatch), outcome


def wrong_roots() -> None:
    with pytest.raises(ValueError, match="not both: 0 and 1"):
        dist.broadcast_object_list([1], src=0, group_src=1)
    with pytest.raises(ValueError, match="no such rank in the group: 7 of 2"):
        dist.gather_object(1, None, group_dst=7)


def test_roots_that_do_not_fit_are_refused() -> None:
    values(run(wrong_roots, 2))


def to_one_another() -> list[Any]:
    rank, ranks = dist.get_rank(), dist.get_world_size()
    received: list[Any] = [None, None]
    if rank == 0:
        x = st.zeros(20_000)
        dist.send_object_list([x, "to you"], 1)
        dist.barrier()
        return [float(x[0])]
    if rank == 1:
        assert dist.recv_object_list(received) == 0
        received[0].add_(5)
        received = [received[1]]
    dist.barrier()
    return received if ranks > 1 else []


def test_objects_from_one_rank_to_another() -> None:
    zero, one = values(run(to_one_another, 2))
    assert zero == [5.0]
    assert one == ["to you"]


def many(sizes: list[int]) -> list[list[int]]:
    """Every rank to every rank, with messages of very different sizes, and empty ones."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    received = []
    for size in sizes:
        part = [b""]
        dist.scatter_object_list(part, [bytes(r * size) for r in range(ranks)], src=ranks - 1)
        gathered: list[Any] = [None] * ranks
        dist.all_gather_object(gathered, bytes(rank * size))
        assert [len(each) for each in gathered] == [r * size for r in range(ranks)]
        received.append(len(part[0]))
    return received


@pytest.mark.parametrize("ranks", [1, 3])
def test_objects_of_any_size(ranks: int) -> None:
    sizes = [0, 10, 40_000]
    for rank, received in enumerate(values(run(many, ranks, sizes))):
        assert received == [rank * size for size in sizes]
