"""softmax, log_softmax, cross_entropy and their backwards against their formulas in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from shmtensor import native

from ...cases import each

RNG = np.random.default_rng(0)
CASES = [
    ((5,), 0), ((3, 10), 1), ((3, 10), 0), ((64, 100), -1), ((2, 3, 70), 1), ((2, 3, 70), 0),
    ((300, 1000), 1), ((300, 130), 0), ((0, 4), 1), ((4, 0), 1), ((), 0), ((1, 40_000), 1),
]  # fmt: skip
TOLERANCE = {"float32": 5e-6, "float64": 1e-13, "float16": 2e-3}


def softmax(x: Any, dim: int) -> Any:
    e = np.exp(x - x.max(dim, keepdims=True)) if x.size else x
    return e / e.sum(dim, keepdims=True) if x.size else x


def check_values_and_backwards(shape: tuple[int, ...], dim: int, dtype: str) -> None:
    tolerance = {"rtol": TOLERANCE[dtype], "atol": TOLERANCE[dtype]}
    x = np.asarray(RNG.standard_normal(shape) * 3).astype(dtype)
    g = np.asarray(RNG.standard_normal(shape)).astype(dtype)
    for a, b in ((x, g), (np.asfortranarray(x), np.repeat(g, 2, 0)[::2] if g.ndim else g)):
        y = native.softmax(a, dim)
        assert y.dtype == a.dtype
        assert y.shape == a.shape
        if not shape:
            assert y == 1
            continue
        want = softmax(a.astype("float64"), dim)
        np.testing.assert_allclose(y, want, **tolerance)
        log = native.log_softmax(a, dim)
        np.testing.assert_allclose(np.exp(log.astype("float64")), want, **tolerance)
        y64, g64 = y.astype("float64"), b.astype("float64")
        np.testing.assert_allclose(
            native.softmax_backward(b, y, dim),
            y64 * (g64 - (g64 * y64).sum(dim, keepdims=True)),
            **tolerance,
        )
        factor = abs(g64.sum(dim, keepdims=True)).max() + 1 if a.size else 1
        np.testing.assert_allclose(
            native.log_softmax_backward(b, log, dim),
            g64 - np.exp(log.astype("float64")) * g64.sum(dim, keepdims=True),
            rtol=TOLERANCE[dtype],
            atol=TOLERANCE[dtype] * factor,
        )


@each("dtype", TOLERANCE)
def test_values_and_backwards(dtype: str) -> None:
    for shape, dim in CASES:
        check_values_and_backwards(shape, dim, dtype)


@pytest.mark.parametrize("dim", [0, 1])
def test_special_values(dim: int) -> None:
    inf, nan = np.inf, np.nan
    x = np.array([[-inf, -inf], [inf, 0], [nan, 1], [-inf, 0], [1000, 1000]], "float32")
    if dim == 0:
        x = x.T
    with np.errstate(all="ignore"):
        want = softmax(x.astype("float64"), dim)
    np.testing.assert_array_equal(native.softmax(x, dim), want)


def check_cross_entropy(shape: tuple[int, ...], reduction: str, dtype: str) -> None:
    x = (RNG.standard_normal(shape) * 3).astype(dtype)
    target = RNG.integers(0, shape[-1], shape[:-1])
    mask = np.ones(target.shape, bool)
    if len(shape) > 1 and shape[0] > 1:
        mask[1] = False
    y = softmax(x.astype("float64"), -1)
    rows = y.reshape(-1, shape[-1])
    losses = -np.log(rows[np.arange(len(rows)), target.reshape(-1)]).reshape(target.shape) * mask
    want = {"mean": losses.sum() / mask.sum(), "sum": losses.sum(), "none": losses}[reduction]
    targets = target.reshape(-1)
    target = np.where(mask, target, -100)
    loss, normalizers = native.cross_entropy(x, target, -100, reduction)
    assert loss.dtype == dtype
    np.testing.assert_allclose(loss, want, rtol=1e-5, atol=1e-5)
    assert normalizers.shape == (len(rows), 2)
    top, log_total = normalizers.T.astype("float64")
    logits = x.reshape(rows.shape)
    np.testing.assert_array_equal(top, logits.max(1))
    np.testing.assert_allclose(
        np.exp(logits - top[:, None] - log_total[:, None]), rows, rtol=1e-5, atol=1e-6
    )
    g = RNG.standard_normal(loss.shape).astype(dtype)
    one_hot = np.zeros_like(rows)
    one_hot[np.arange(len(rows)), targets] = 1
    gx = (rows - one_hot).reshape(shape) * np.asarray(mask)[..., None] * np.asarray(g)[..., None]
    if reduction == "mean":
        gx = gx / mask.sum()
    got = native.cross_entropy_backward(g, x, normalizers, target, -100, reduction)
    np.testing.assert_allclose(got, gx, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_cross_entropy(dtype: str) -> None:
    for reduction in ("mean", "sum", "none"):
        for shape in ((10,), (1, 3), (64, 10), (3000, 17), (5, 9000)):
            check_cross_entropy(shape, reduction, dtype)


def test_all_targets_ignored_is_nan_as_in_pytorch() -> None:
    x = np.ones((2, 3), "float32")
    assert np.isnan(native.cross_entropy(x, np.array([-1, -1]), -1, "mean")[0])
    assert native.cross_entropy(x, np.array([-1, -1]), -1, "sum")[0] == 0


def test_errors_show_the_values() -> None:
    x = np.ones((2, 3), "float32")
    with pytest.raises(IndexError, match="softmax: dim is out of range: 2, expected -2 to 1"):
        native.softmax(x, 2)
    with pytest.raises(IndexError, match="out of range: 3 at position 1, expected 0 to 2"):
        native.cross_entropy(x, np.array([0, 3]), -100, "mean")
    with pytest.raises(TypeError, match="target is not class indices: float32"):
        native.cross_entropy(x, np.ones(2, "float32"), -100, "mean")
    with pytest.raises(ValueError, match=r"sizes differ: logits \(2, 3\), target \(3,\)"):
        native.cross_entropy(x, np.array([0, 1, 2]), -100, "mean")
    with pytest.raises(ValueError, match="unknown reduction: 'max'"):
        native.cross_entropy(x, np.array([0, 1]), -100, "max")
    with pytest.raises(ValueError, match=r"g has another size: \(3,\), expected 2"):
        native.cross_entropy_backward(np.ones(3), x, x[:, :2], np.array([0, 1]), -100, "none")
    with pytest.raises(ValueError, match=r"normalizers have another size: \(2, 3\), expected 2"):
        native.cross_entropy_backward(np.ones(2), x, x, np.array([0, 1]), -100, "none")
