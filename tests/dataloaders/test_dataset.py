"""Datasets made of datasets."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pytest

from shmtensor.dataloaders import (
    BatchSampler,
    ChainDataset,
    ConcatDataset,
    DataLoader,
    Dataset,
    IterableDataset,
    SequentialSampler,
    StackDataset,
    Subset,
    TensorDataset,
    random_split,
)


class Squares(Dataset[int]):
    def __init__(self, n: int, start: int = 0) -> None:
        self.n, self.start = n, start

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, index: int) -> int:
        if not -self.n <= index < self.n:
            raise IndexError(index)
        return (self.start + index) ** 2


class Counted(Squares):
    calls = 0

    def __getitems__(self, indices: Sequence[int]) -> list[int]:
        self.calls += 1
        return [self[i] for i in indices]


class Stream(IterableDataset[int]):
    def __init__(self, n: int) -> None:
        self.n = n

    def __iter__(self) -> Iterator[int]:
        return iter(range(self.n))

    def __len__(self) -> int:
        return self.n


def test_concat_is_one_after_another() -> None:
    both = Squares(3) + Squares(2, 10)
    assert isinstance(both, ConcatDataset)
    assert [both[i] for i in range(len(both))] == [0, 1, 4, 100, 121]
    assert both[-1] == 121
    assert both[-5] == 0
    with pytest.raises(IndexError, match="5 of 5 samples"):
        both[5]
    with pytest.raises(IndexError, match="-6 of 5 samples"):
        both[-6]


def test_concat_refuses_nothing_and_streams() -> None:
    with pytest.raises(ValueError, match="at least one dataset"):
        ConcatDataset([])
    with pytest.raises(TypeError, match="dataset 1 is iterable: Stream, use ChainDataset"):
        ConcatDataset([Squares(1), Stream(1)])


def test_chain_is_one_stream_after_another() -> None:
    both = Stream(2) + Stream(3)
    assert list(both) == [0, 1, 0, 1, 2]
    assert len(both) == 5
    with pytest.raises(TypeError, match="dataset 0 is not iterable: Squares, use ConcatDataset"):
        ChainDataset([Squares(1)])


def test_stack_is_side_by_side() -> None:
    pairs = StackDataset(Squares(3), Squares(3, 1))
    assert pairs[2] == (4, 9)
    assert pairs.__getitems__([0, 2]) == [(0, 1), (4, 9)]
    dataset = StackDataset(x=Squares(3), y=Squares(3, 1))
    assert dataset[1] == {"x": 1, "y": 4}
    assert dataset.__getitems__([1]) == [{"x": 1, "y": 4}]
    assert len(dataset) == 3


def test_stack_refuses_lengths_that_differ_and_mixed_arguments() -> None:
    with pytest.raises(ValueError, match=r"lengths differ: \[3, 2\]"):
        StackDataset(Squares(3), Squares(2))
    with pytest.raises(ValueError, match="either all positional"):
        StackDataset(Squares(3), y=Squares(3))
    with pytest.raises(ValueError, match="either all positional"):
        StackDataset()


def test_subset_asks_once_where_the_dataset_answers_at_once() -> None:
    dataset = Counted(10)
    part = Subset(Subset(dataset, [9, 8, 7, 6]), [0, 2])
    assert [part[0], part[1]] == [81, 49]
    assert part.__getitems__([1, 0]) == [49, 81]
    assert dataset.calls == 1
    assert len(part) == 2


def test_subset_takes_a_list_where_the_dataset_does() -> None:
    rows = Subset(TensorDataset(np.arange(10)), [3, 5, 7])
    order = BatchSampler(SequentialSampler(rows), 2)
    batches = [x.tolist() for (x,) in DataLoader(rows, batch_size=None, sampler=order)]
    assert batches == [[3, 5], [7]]


def test_getitems_must_give_a_sample_per_index() -> None:
    class Short(Squares):
        def __getitems__(self, indices: Sequence[int]) -> list[int]:
            return [0]

    with pytest.raises(ValueError, match=r"Short.__getitems__: one sample per index.*2.*1"):
        Subset(Short(5), [0, 1]).__getitems__([0, 1])


def test_random_split_parts_do_not_overlap() -> None:
    parts = random_split(Squares(10), [7, 3], np.random.default_rng(0))
    assert [len(part) for part in parts] == [7, 3]
    assert sorted([*parts[0].indices, *parts[1].indices]) == list(range(10))
    same_split = random_split(Squares(10), [7, 3], np.random.default_rng(0))
    assert list(parts[0].indices) == list(same_split[0].indices)


def test_random_split_by_fractions_distributes_the_remainder() -> None:
    parts = random_split(Squares(10), [1 / 3, 1 / 3, 1 / 3], np.random.default_rng(0))
    assert [len(part) for part in parts] == [4, 3, 3]


@pytest.mark.parametrize(
    ("lengths", "message"),
    [
        ([5, 6], r"do not sum to the dataset's: \[5, 6\] is 11, not 10"),
        ([1.5, -0.5], "fraction 0 is not between 0 and 1: 1.5"),
        ([2.5, 7.5], "whole numbers or sum to 1"),
    ],
)
def test_random_split_refuses(lengths: list[float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        random_split(Squares(10), lengths, np.random.default_rng(0))


def test_a_dataset_without_samples_says_so() -> None:
    with pytest.raises(NotImplementedError, match="__getitem__ is not implemented"):
        Dataset()[0]
    with pytest.raises(NotImplementedError, match="__iter__ is not implemented"):
        iter(IterableDataset())


def test_parts_that_are_no_lists_are_shown() -> None:
    with pytest.raises(TypeError, match="Subset: indices are not a list: 3"):
        Subset(range(9), 3)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"random_split: lengths are not a list .*: 3"):
        random_split(range(9), 3)  # type: ignore[arg-type]
