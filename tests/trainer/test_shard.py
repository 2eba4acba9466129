"""Shards cover a flat array once, and begin at cache lines."""

from __future__ import annotations

import pytest

from shmtensor.trainer.weights import shard_start


@pytest.mark.parametrize("count", [0, 1, 15, 16, 17, 1000, 12_345])
@pytest.mark.parametrize("ranks", [1, 2, 3, 7])
@pytest.mark.parametrize("itemsize", [2, 4, 8, 16])
def test_borders(count: int, ranks: int, itemsize: int) -> None:
    borders = [shard_start(count, itemsize, rank, ranks) for rank in range(ranks + 1)]
    assert borders[0] == 0
    assert borders[-1] == count
    assert borders == sorted(borders)
    assert all(b * itemsize % 64 == 0 for b in borders[:-1] if b < count)
