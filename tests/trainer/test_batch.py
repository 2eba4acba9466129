"""Parts of batches are views and cover the batch once; private tensors are moved and counted."""

from __future__ import annotations

from collections import namedtuple

import numpy as np
import pytest

import shmtensor as st
from shmtensor import native
from shmtensor.trainer.batches import Counter, part_of, samples_in, share

Pair = namedtuple("Pair", "x y")


@pytest.mark.parametrize("n", [0, 1, 2, 3, 7, 64])
@pytest.mark.parametrize("ranks", [1, 2, 3, 5])
def test_parts_cover_the_batch_once(n: int, ranks: int) -> None:
    x = st.arange(float(n))
    parts = [part_of((x, {"again": x}), rank, ranks) for rank in range(ranks)]
    gathered = np.concatenate([part[0][0].numpy() for part in parts])
    np.testing.assert_array_equal(gathered, x.numpy())
    assert sum(size for _, size, _ in parts) == n
    assert {total for _, _, total in parts} == {n}
    for (a, mapping), _, _ in parts:
        assert np.shares_memory(a.numpy(), x.numpy()) or not a.numel()
        np.testing.assert_array_equal(mapping["again"].numpy(), a.numpy())


def test_nests_and_sizes() -> None:
    pair, size, total = part_of(Pair(st.zeros(4, 2), [st.ones(4)]), 1, 2)
    assert isinstance(pair, Pair)
    assert (tuple(pair.x.shape), size, total) == ((2, 2), 2, 4)
    assert samples_in(pair) == 2
    with pytest.raises(TypeError, match="no tensor"):
        samples_in("text")


def test_a_number_beside_the_samples_goes_to_all() -> None:
    batch = (st.tensor(0.5), st.arange(6))
    assert samples_in(batch) == 6
    part, n, total = part_of(batch, 1, 2)
    assert (part[0].item(), part[1].tolist(), n, total) == (0.5, [3, 4, 5], 3, 6)
    with pytest.raises(TypeError, match="has no tensor with a dimension"):
        samples_in((st.tensor(0.5),))


def test_sharing_copies_only_private_data() -> None:
    counter = Counter()
    shared = st.zeros(3)
    batch = share((shared, np.ones(4)), counter)
    assert batch[0] is shared
    assert counter.nbytes == 32
    assert native.is_shared(batch[1].array)
