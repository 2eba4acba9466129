"""Functions of nn.functional that no layer's test calls."""

from __future__ import annotations

import numpy as np
import pytest

import shmtensor as st
from shmtensor.nn import functional as F


def test_poisson_of_integers_is_a_float():
    x = st.tensor([[1, 2], [3, 4]])
    loss = F.poisson_nll_loss(x, x)
    assert loss.dtype == st.float32
    expected = (np.exp([1, 2, 3, 4]) - [1, 4, 9, 16]).mean()
    np.testing.assert_allclose(loss, expected, rtol=1e-6)


def test_embeddings_with_the_weight_first() -> None:
    w = st.tensor(np.arange(12.0).reshape(4, 3))
    indices, offsets = st.tensor([1, 3, 0, 2]), st.tensor([0, 2, 2])
    assert st.embedding(w, indices).tolist() == w[indices].tolist()
    out, bag, sizes, rows = st.embedding_bag(w, indices, offsets, mode=2)
    assert out.tolist() == [w[3].tolist(), [0, 0, 0], w[2].tolist()]
    assert bag.tolist() == [0, 0, 2, 2]
    assert sizes.tolist() == [2, 0, 2]
    assert rows.tolist() == [[3] * 3, [0] * 3, [2] * 3]
    total, _, sizes, _ = st.embedding_bag(w, indices, offsets, padding_idx=3)
    assert total.tolist() == [w[1].tolist(), [0, 0, 0], (w[0] + w[2]).tolist()]
    assert sizes.tolist() == [1, 0, 2]
    with pytest.raises(ValueError, match=r"mode must be .*: 3"):
        st.embedding_bag(w, indices, offsets, mode=3)


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_offsets_of_embedding_bag_begin_with_0_and_do_not_decrease(mode: str) -> None:
    weight, indices = st.ones(5, 2), st.tensor([0, 1, 2, 3])

    def bags(*offsets: int, include_last_offset: bool = False) -> st.Tensor:
        return F.embedding_bag(
            indices, weight, st.tensor(offsets, dtype=st.int64), mode=mode,
            include_last_offset=include_last_offset,
        )  # fmt: skip

    for wrong, message in (
        ((1, 2), "begin with 0: 1"),
        ((-1, 2), "begin with 0: -1"),
        ((0, -1), "must not decrease"),
        ((0, 3, 1), "must not decrease"),
        ((0, 5), "out of range: 5"),
        ((0, 2**62), "out of range"),
    ):
        for last in (False, True):
            with pytest.raises(RuntimeError, match=message):
                bags(*wrong, include_last_offset=last)
    assert bags(0, 0, 4).shape == (3, 2)
    assert bags().shape == (0, 2)
    none = st.tensor([], dtype=st.int64)
    assert F.embedding_bag(indices, weight, none, mode=mode, padding_idx=0).shape == (0, 2)
    with pytest.raises(RuntimeError, match="at least one offset"):
        bags(include_last_offset=True)
