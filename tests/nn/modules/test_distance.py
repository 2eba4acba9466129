"""PairwiseDistance and CosineSimilarity against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import shmtensor as st
from shmtensor import nn


def test_distances_are_norms_of_the_difference() -> None:
    x, y = st.randn(3, 4, dtype=st.float64), st.randn(3, 4, dtype=st.float64)
    difference = np.abs(x.numpy() - y.numpy() + 1e-6)
    for p, expected in (
        (2.0, np.sqrt((difference**2).sum(-1))),
        (1, difference.sum(-1)),
        (float("inf"), difference.max(-1)),
    ):
        np.testing.assert_allclose(nn.PairwiseDistance(p)(x, y).numpy(), expected)
    assert nn.PairwiseDistance(keepdim=True)(x, y).shape == (3, 1)
    assert nn.PairwiseDistance(3).norm == 3


def test_cosine_is_the_product_of_unit_vectors() -> None:
    x, y = st.randn(3, 4, 5, dtype=st.float64), st.randn(3, 4, 5, dtype=st.float64)
    a, b = x.numpy(), y.numpy()
    for dim in (1, -1):
        lengths = np.linalg.norm(a, axis=dim) * np.linalg.norm(b, axis=dim)
        expected = (a * b).sum(dim) / lengths
        np.testing.assert_allclose(nn.CosineSimilarity(dim)(x, y).numpy(), expected)
    with pytest.raises(IndexError, match="5"):
        nn.CosineSimilarity(5)(x, y)
    with pytest.raises(RuntimeError, match=r"\(3, 4, 5\)"):
        nn.CosineSimilarity()(x, y[:, :2])


def test_cosines_are_of_the_common_dtype() -> None:
    integral = st.tensor([[3, 4]], dtype=st.int8)
    assert nn.CosineSimilarity()(integral, st.tensor([[3.0, 4.0]])).item() == pytest.approx(1)
    with pytest.raises(RuntimeError, match="floating point: int8, int8"):
        nn.CosineSimilarity()(integral, integral)
