"""Distances of pairs of points, against differences in float64."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import shmtensor as st
from shmtensor import native

from ...cases import each

RNG = np.random.default_rng(5)
ORDERS = [0, 1, 2, math.inf]


def lengths(away: Any, p: float) -> Any:
    """The p-norms of rows."""
    size = abs(away.astype("f8"))
    if p == math.inf:
        return size.max(-1, initial=0)
    return (size != 0).sum(-1) if p == 0 else (size**p).sum(-1) ** (1 / p)


def points(dtype: str, *shape: int) -> Any:
    """Some of their differences are 0."""
    return RNG.integers(-9, 9, shape).astype(dtype) / 8


@each("dtype", ["f4", "f8"])
@each("order", ORDERS)
@each(
    ("p", "r", "m"),
    [(0, 3, 2), (3, 0, 2), (2, 3, 0), (1, 1, 1), (5, 70, 3), (40, 300, 16), (3, 17, 200)],
)
def test_distances(p: int, r: int, m: int, order: float, dtype: str) -> None:
    x, y = points(dtype, p, m), points(dtype, r, m)
    want = lengths(x[:, None] - y[None], order)
    for a in (x, np.asfortranarray(x)):
        got = native.cdist(a, np.repeat(y, 2, 0)[::2], order)
        assert got.dtype == np.dtype(dtype)
        np.testing.assert_allclose(got, want, rtol=1e-5)
    assert not np.diag(native.cdist(x, x, order)).any()
    assert native.cdist(x, y.astype("f2"), order) is None
    assert native.cdist(x[0] if p else x[:, 0], y, order) is None
    assert native.cdist(x, y, 3) is None


@each("order", ORDERS)
@each("n", [0, 1, 2, 3, 65, 300])
def test_distances_of_pairs(n: int, order: float) -> None:
    for m in (0, 1, 7):
        x = points("f4", n, m)
        want = native.cdist(x, x, order)[np.triu_indices(n, 1)]
        np.testing.assert_array_equal(native.pdist(x, order), want)
    assert native.pdist(points("f4", 3), order) is None


@each("order", ORDERS)
def test_batches(order: float) -> None:
    x, y = points("f8", 3, 1, 5, 4), points("f8", 2, 37, 4)
    result = st.cdist(st.tensor(x), st.tensor(y), order).numpy()
    np.testing.assert_allclose(result, lengths(x[..., None, :] - y[..., None, :, :], order))
    empty = st.cdist(st.zeros(0, 5, 4), st.zeros(0, 3, 4), order)
    assert empty.shape == (0, 5, 3)


@each("order", ORDERS)
def test_nan_stays(order: float) -> None:
    x = np.ones((2, 40), "f4")
    x[0, 7] = np.nan
    result = native.cdist(x, np.zeros((30, 40), "f4"), order)
    if order:
        assert np.isnan(result[0]).all()
    assert not np.isnan(result[1]).any()


def gradient(x: Any, change: Any, function: Any) -> float:
    """The slope along a direction, by central differences."""
    h = 1e-6
    return float((function(x + h * change) - function(x - h * change)) / (2 * h))


@each("order", [0, 1, 2, 3, math.inf])
def test_gradients(order: float) -> None:
    x, y, change = (RNG.normal(size=(6, 3)) for _ in range(3))
    w, v = RNG.normal(size=(6, 6)), RNG.normal(size=15)
    kinds = [
        lambda a: (st.cdist(st.as_tensor(a), st.tensor(y), order) * st.tensor(w)).sum(),
        lambda a: (st.cdist(st.tensor(y), st.as_tensor(a), order) * st.tensor(w)).sum(),
        lambda a: (st.nn.functional.pdist(st.as_tensor(a), order) * st.tensor(v)).sum(),
    ]
    for kind in kinds:
        leaf = st.tensor(x, requires_grad=True)
        kind(leaf).backward()
        want = gradient(x, change, kind)
        np.testing.assert_allclose((leaf.grad.numpy() * change).sum(), want, rtol=1e-5, atol=1e-6)
