"""Samplers: orders, seeds, and what they refuse."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from shmtensor.dataloaders import (
    BatchSampler,
    RandomSampler,
    Sampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)


def generator(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def test_sequential_is_the_order_of_the_source() -> None:
    sampler = SequentialSampler("abcd")
    assert list(sampler) == [0, 1, 2, 3]
    assert len(sampler) == 4


def test_random_is_a_permutation_and_another_one_each_epoch() -> None:
    sampler = RandomSampler(range(50), generator=generator())
    first, second = list(sampler), list(sampler)
    assert sorted(first) == sorted(second) == list(range(50))
    assert first != second
    assert first == list(RandomSampler(range(50), generator=generator()))


def test_random_without_replacement_goes_round_again_for_more_samples() -> None:
    sampler = RandomSampler(range(4), num_samples=10, generator=generator())
    indices = list(sampler)
    assert len(indices) == len(sampler) == 10
    assert sorted(indices[:4]) == sorted(indices[4:8]) == [0, 1, 2, 3]
    assert len(set(indices[8:])) == 2


def test_random_with_replacement_covers_the_source() -> None:
    indices = list(
        RandomSampler(range(5), replacement=True, num_samples=500, generator=generator())
    )
    assert len(indices) == 500
    assert set(indices) == set(range(5))


def test_random_follows_a_source_that_grows() -> None:
    source = [0, 1]
    sampler = RandomSampler(source, generator=generator())
    source.append(2)
    assert len(sampler) == 3
    assert sorted(sampler) == [0, 1, 2]


@pytest.mark.parametrize("num_samples", [0, -1, 1.5, True])
def test_random_refuses_a_number_that_is_none(num_samples: object) -> None:
    with pytest.raises(ValueError, match="RandomSampler: num_samples is not a positive"):
        RandomSampler(range(3), num_samples=num_samples)  # type: ignore[arg-type]


def test_random_of_nothing_is_nothing_unless_samples_are_asked_for() -> None:
    assert list(RandomSampler([], generator=generator())) == []
    with pytest.raises(ValueError, match="cannot draw 3 samples: the data is empty"):
        list(RandomSampler([], num_samples=3, generator=generator()))


def test_subset_random_permutes_its_indices() -> None:
    sampler = SubsetRandomSampler([7, 3, 9], generator=generator())
    assert sorted(sampler) == [3, 7, 9]
    assert len(sampler) == 3


def test_weighted_draws_in_proportion() -> None:
    sampler = WeightedRandomSampler([0.0, 1.0, 3.0], 40_000, generator=generator())
    counts = np.bincount(list(sampler), minlength=3)
    assert counts[0] == 0
    assert counts[2] / counts[1] == pytest.approx(3, rel=0.1)
    assert len(sampler) == 40_000


def test_weighted_without_replacement_has_no_index_twice() -> None:
    indices = list(WeightedRandomSampler([1, 5, 1, 5], 4, False, generator=generator()))
    assert sorted(indices) == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("weights", "count", "replacement", "message"),
    [
        ([1.0, -1.0], 1, True, "not negative"),
        ([0.0, 0.0], 1, True, "not all 0"),
        ([1.0, float("nan")], 1, True, "finite"),
        ([[1.0]], 1, True, "not a 1-d sequence"),
        ([1.0, 0.0], 2, False, "cannot draw 2 samples without replacement from 1"),
        ([1.0], 0, True, "num_samples is not a positive"),
        ([1.0], 1, "yes", "replacement is not a bool"),
    ],
)
def test_weighted_refuses(weights: list[float], count: int, replacement: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        WeightedRandomSampler(weights, count, replacement)


def test_batches_keep_or_drop_the_remainder() -> None:
    assert list(BatchSampler(range(5), 2, False)) == [[0, 1], [2, 3], [4]]
    assert list(BatchSampler(range(5), 2, True)) == [[0, 1], [2, 3]]
    assert len(BatchSampler(range(5), 2, False)) == 3
    assert len(BatchSampler(range(5), 2, True)) == 2


def test_batch_refuses_a_size_that_is_none() -> None:
    with pytest.raises(ValueError, match="BatchSampler: batch_size is not a positive"):
        BatchSampler(range(3), 0, False)
    with pytest.raises(ValueError, match="BatchSampler: drop_last is not a bool: None"):
        BatchSampler(range(3), 1, None)  # type: ignore[arg-type]


def test_a_sampler_without_an_order_says_so() -> None:
    with pytest.raises(NotImplementedError, match="__iter__ is not implemented"):
        iter(Sampler())
