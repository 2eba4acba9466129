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


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("scale", [1e-30, 1e-7, 1.0, 1e25])
def test_cosines_and_gradients_of_vectors_of_any_length(scale: float, dtype: type) -> None:
    """Squares of float32 overflow or vanish; vectors shorter than eps have a constant length."""
    rng = np.random.default_rng(0)
    eps = 1e-8
    a, b = ((rng.standard_normal((3, 70)) * scale).astype(dtype) for _ in range(2))
    x, y = (st.tensor(v, requires_grad=True) for v in (a, b))
    out = nn.CosineSimilarity(eps=eps)(x, y)
    out.sum().backward()
    # the largest elements are 1, so that float64 squares are exact enough
    u, v = (np.linalg.norm(w.astype(np.float64) / scale, axis=1, keepdims=True) for w in (a, b))
    n, o = (np.maximum(w * scale, eps) for w in (u, v))
    cosine = (a / n * (b / o)).sum(1, keepdims=True)
    tolerance = 1e-5 if dtype is np.float32 else 1e-12
    np.testing.assert_allclose(out.detach().numpy(), cosine[:, 0], rtol=1e-4, atol=tolerance)
    for z, own, other, m, p in ((x, a, b, n, o), (y, b, a, o, n)):
        gradient = (other / p - np.where(m > eps, cosine, 0) * (own / m)) / m
        assert z.grad is not None
        bound = tolerance * np.abs(gradient).max()
        np.testing.assert_allclose(z.grad.numpy(), gradient, rtol=1e-3, atol=bound)


def test_cosines_of_16_bit_floats_are_computed_in_float32() -> None:
    x = st.full((1, 100), 300.0, dtype=st.float16)  # the squares of it overflow
    assert nn.CosineSimilarity()(x, x).dtype == st.float16
    assert nn.CosineSimilarity()(x, x).item() == pytest.approx(1, abs=1e-3)
    loss = nn.CosineEmbeddingLoss()(x, x, st.ones(1))
    assert loss.dtype == st.float16
    assert loss.item() == pytest.approx(0, abs=1e-3)
