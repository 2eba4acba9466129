"""Batches by length and weighted draws for several ranks."""

from __future__ import annotations

import numpy as np
import pytest

from shmtensor.dataloaders import BucketBatchSampler, DataLoader, DistributedWeightedSampler

LENGTHS = np.random.default_rng(0).integers(1, 200, 1003)


def padding(batches: list[list[int]]) -> float:
    """The share of padding in the padded batches."""
    padded = sum(len(batch) * int(LENGTHS[batch].max()) for batch in batches)
    return 1 - int(sum(LENGTHS[batch].sum() for batch in batches)) / padded


def test_every_sample_is_used_once_with_little_padding() -> None:
    sampler = BucketBatchSampler(LENGTHS, 16)
    batches = list(sampler)
    assert sorted(i for batch in batches for i in batch) == list(range(1003))
    assert len(batches) == len(sampler) == 63
    assert padding(batches) < 0.05
    shuffled = np.random.default_rng(0).permutation(1003)
    assert padding([shuffled[at : at + 16].tolist() for at in range(0, 1003, 16)]) > 0.4


def test_order_is_that_of_seed_and_epoch() -> None:
    sampler = BucketBatchSampler(LENGTHS, 16, seed=4)
    first = list(sampler)
    assert list(sampler) == first
    sampler.set_epoch(1)
    assert list(sampler) != first
    assert list(BucketBatchSampler(LENGTHS, 16, seed=5)) != first
    means = [LENGTHS[batch].mean() for batch in first]
    assert abs(np.corrcoef(means, np.arange(len(means)))[0, 1]) < 0.5  # not from short to long
    batches = list(BucketBatchSampler(LENGTHS, 16, shuffle=False))
    assert [LENGTHS[i] for batch in batches for i in batch] == sorted(LENGTHS)


def test_tokens_bound_a_batch() -> None:
    sampler = BucketBatchSampler(LENGTHS, max_tokens=600)
    batches = list(sampler)
    assert sorted(i for batch in batches for i in batch) == list(range(1003))
    assert all(len(batch) * LENGTHS[batch].max() <= 600 for batch in batches)
    assert padding(batches) < 0.1
    both = list(BucketBatchSampler(LENGTHS, batch_size=4, max_tokens=600))
    assert max(map(len, both)) == 4
    assert list(BucketBatchSampler([50, 1, 1], max_tokens=10, shuffle=False)) == [[1, 2], [0]]


@pytest.mark.parametrize("drop_last", [False, True])
def test_ranks_share_the_batches(drop_last: bool) -> None:
    ranks = [
        BucketBatchSampler(LENGTHS, 16, drop_last=drop_last, num_replicas=4, rank=rank)
        for rank in range(4)
    ]
    shares = [list(rank) for rank in ranks]
    assert len({len(share) for share in shares}) == 1
    assert len(shares[0]) == len(ranks[0])
    indices = [i for share in shares for batch in share for i in batch]
    if drop_last:
        assert len(indices) == len(set(indices)) == 60 * 16
    else:
        assert set(indices) == set(range(1003))
        assert len(indices) <= 1003 + 16


def test_few_batches_for_many_ranks_and_none_at_all() -> None:
    shares = [list(BucketBatchSampler([1, 2], 2, num_replicas=5, rank=r)) for r in range(5)]
    assert all(len(share) == 1 and sorted(share[0]) == [0, 1] for share in shares)
    assert list(BucketBatchSampler([], 2)) == []


def test_a_loader_takes_it() -> None:
    loader = DataLoader(LENGTHS, batch_sampler=BucketBatchSampler(LENGTHS, 32), num_workers=1)
    batches = [batch.numpy() for batch in loader]
    assert sorted(np.concatenate(batches)) == sorted(LENGTHS)
    assert len(loader) == 32


def test_weighted_ranks_take_parts_of_one_draw() -> None:
    weights = [0.0, 1.0, 3.0]
    ranks = [
        DistributedWeightedSampler(weights, 9001, num_replicas=2, rank=rank, seed=7)
        for rank in range(2)
    ]
    shares = [list(rank) for rank in ranks]
    assert [len(share) for share in shares] == [len(rank) for rank in ranks] == [4500, 4500]
    counts = np.bincount(shares[0] + shares[1], minlength=3)
    assert counts[0] == 0
    assert counts[2] / counts[1] == pytest.approx(3, rel=0.2)
    assert shares[0] != shares[1]
    assert list(ranks[0]) == shares[0]
    ranks[0].set_epoch(1)
    assert list(ranks[0]) != shares[0]
    samplers = [
        DistributedWeightedSampler(np.ones(10), 10, False, num_replicas=2, rank=rank)
        for rank in range(2)
    ]
    assert sorted([*samplers[0], *samplers[1]]) == list(range(10))


def test_invalid_arguments_are_refused() -> None:
    with pytest.raises(ValueError, match="batch_size or max_tokens is needed"):
        BucketBatchSampler([1])
    with pytest.raises(ValueError, match="max_tokens is not a positive whole number: 0"):
        BucketBatchSampler([1], max_tokens=0)
    with pytest.raises(ValueError, match="lengths are not a row of numbers"):
        BucketBatchSampler([-1], 2)
    with pytest.raises(ValueError, match="rank is not between 0 and 1: 2"):
        BucketBatchSampler([1], 2, num_replicas=2, rank=2)
    with pytest.raises(RuntimeError, match="there is no default process group"):
        DistributedWeightedSampler([1.0], 1)
