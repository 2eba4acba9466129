"""PairwiseDistance and CosineSimilarity by NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import shmtensor as st
from shmtensor import nn


def test_distances_and_cosines() -> None:
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((2, 4, 3)).astype(np.float32)
    a, b = st.tensor(x), st.tensor(y)
    distances = np.abs(x - y + 1e-6).sum(1, keepdims=True)
    np.testing.assert_allclose(
        nn.PairwiseDistance(1.0, keepdim=True)(a, b).numpy(), distances, 1e-5
    )
    cosines = (x * y).sum(0) / np.linalg.norm(x, axis=0) / np.linalg.norm(y, axis=0)
    np.testing.assert_allclose(nn.CosineSimilarity(dim=0)(a, b).numpy(), cosines, 1e-4)


def test_cosines_are_of_the_common_dtype() -> None:
    whole = st.tensor([[3, 4]], dtype=st.int8)
    assert nn.CosineSimilarity()(whole, st.tensor([[3.0, 4.0]])).item() == pytest.approx(1)
    with pytest.raises(RuntimeError, match="floating point: int8, int8"):
        nn.CosineSimilarity()(whole, whole)
