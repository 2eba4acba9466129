"""DistributedSampler: the shards of PyTorch's rule."""

from __future__ import annotations

from itertools import chain

import pytest

from shmtensor.dataloaders import DistributedSampler


def shards(n: int, replicas: int, epoch: int = 0, **options: bool) -> list[list[int]]:
    samplers = [DistributedSampler(range(n), replicas, rank, **options) for rank in range(replicas)]
    for sampler in samplers:
        sampler.set_epoch(epoch)
    shards = [list(sampler) for sampler in samplers]
    assert [len(shard) for shard in shards] == [len(sampler) for sampler in samplers]
    if not options.get("uneven"):
        assert {len(shard) for shard in shards} == {len(samplers[0])}
    return shards


def test_shards_interleave_and_are_padded_with_the_beginning_or_cut() -> None:
    assert shards(7, 3, shuffle=False) == [[0, 3, 6], [1, 4, 0], [2, 5, 1]]
    assert shards(7, 3, shuffle=False, drop_last=True) == [[0, 3], [1, 4], [2, 5]]
    assert shards(2, 5, shuffle=False) == [[0], [1], [0], [1], [0]]


def test_uneven_shards_have_every_sample_once() -> None:
    assert shards(7, 3, shuffle=False, uneven=True) == [[0, 3, 6], [1, 4], [2, 5]]
    assert shards(2, 4, shuffle=False, uneven=True) == [[0], [1], [], []]
    assert sorted(chain(*shards(23, 4, uneven=True))) == list(range(23))
    assert DistributedSampler(range(7), 3, 1, uneven=True).total_size == 7
    with pytest.raises(ValueError, match="drop_last and uneven exclude each other"):
        DistributedSampler(range(7), 3, 1, drop_last=True, uneven=True)


def test_shuffled_shards_cover_all_and_change_with_the_epoch() -> None:
    first, same, second = shards(100, 4), shards(100, 4), shards(100, 4, epoch=1)
    assert sorted(chain(*first)) == list(range(100))
    assert first == same
    assert first != second


def test_a_rank_out_of_range_is_refused() -> None:
    with pytest.raises(ValueError, match="rank is not between 0 and 1: 2"):
        DistributedSampler(range(3), 2, 2)


def test_without_a_group_the_sampler_asks_for_ranks() -> None:
    with pytest.raises(RuntimeError, match="no default process group"):
        DistributedSampler(range(3))


@pytest.mark.torch
def test_shards_are_those_of_pytorch() -> None:
    from torch.utils.data.distributed import DistributedSampler as TheirSampler

    for n in (1, 2, 7, 8, 9):
        for replicas in (1, 2, 3, 5):
            for drop_last in (False, True):
                for rank in range(replicas):
                    settings = {"shuffle": False, "drop_last": drop_last}
                    theirs = TheirSampler(range(n), replicas, rank, **settings)
                    ours = DistributedSampler(range(n), replicas, rank, **settings)
                    assert list(ours) == list(theirs), (n, replicas, rank, drop_last)
