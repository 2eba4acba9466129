"""Pointwise losses in one pass, with reductions and derivatives, against formulas in float64."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from scipy.special import expit, xlogy

from shmtensor import native

RNG = np.random.default_rng(0)
SHAPES = [(), (0,), (5,), (3, 7), (17, 33), (50, 1001)]
TOLERANCE = {"float32": 3e-6, "float64": 1e-13}


def soft_plus(x: Any) -> Any:
    return np.logaddexp(x, 0)


def bent(d: Any, knee: float, scale: float) -> Any:
    return np.where(d < knee, d * d * (0.5 * scale / knee), scale * (d - 0.5 * knee))


# Each loss of (x, y), and its derivatives by x and y.
MEASURES: dict[str, tuple[Any, Any, Any]] = {
    "mse": (lambda x, y: (x - y) ** 2, lambda x, y: 2 * (x - y), lambda x, y: 2 * (y - x)),
    "l1": (
        lambda x, y: abs(x - y), lambda x, y: np.sign(x - y), lambda x, y: np.sign(y - x)
    ),
    "huber": (
        lambda x, y: bent(abs(x - y), 0.5, 2.0),
        lambda x, y: 2 * np.clip((x - y) / 0.5, -1, 1),
        lambda x, y: 2 * np.clip((y - x) / 0.5, -1, 1),
    ),
    "bce": (
        lambda x, y: -(y * np.log(x) + (1 - y) * np.log1p(-x)),
        lambda x, y: (x - y) / (x * (1 - x)),
        lambda x, y: np.log1p(-x) - np.log(x),
    ),
    "bce_with_logits": (
        lambda x, y: (1 - y) * x + soft_plus(-x), lambda x, y: expit(x) - y, lambda x, y: -x
    ),
    "soft_margin": (
        lambda x, y: soft_plus(-x * y),
        lambda x, y: -y * expit(-x * y),
        lambda x, y: -x * expit(-x * y),
    ),
    "kl_div": (
        lambda x, y: xlogy(y, y) - y * x, lambda x, y: -y, lambda x, y: np.log(y) + 1 - x
    ),
    "kl_div_log_target": (
        lambda x, y: np.exp(y) * (y - x),
        lambda x, y: -np.exp(y),
        lambda x, y: np.exp(y) * (y - x + 1),
    ),
    "poisson_nll": (lambda x, y: np.exp(x) - x * y, lambda x, y: np.exp(x) - y, lambda x, y: -x),
}  # fmt: skip
PROBABILITIES = {"bce": (True, True), "kl_div": (False, True), "bce_with_logits": (False, True)}


def pair(name: str, shape: tuple[int, ...], dtype: str) -> list[Any]:
    chances = PROBABILITIES.get(name, (False, False))
    draws = [
        RNG.uniform(0.01, 0.99, shape) if p else RNG.standard_normal(shape) * 2 for p in chances
    ]
    return [np.asarray(d).astype(dtype) for d in draws]


@pytest.mark.parametrize("name", MEASURES)
def test_losses_and_their_sums(name: str) -> None:
    for dtype, shape in itertools.product(TOLERANCE, SHAPES):
        x, y = pair(name, shape, dtype)
        want = MEASURES[name][0](x.astype("float64"), y.astype("float64"))
        close = TOLERANCE[dtype]
        strided = np.repeat(y, 2, 0)[::2] if shape else y
        for lhs, right in ((x, y), (x.copy("F"), strided)):
            got = native.pointwise_loss(lhs, right, name, "none", 0.5, 2.0)
            assert got is not None
            assert (got.shape, got.dtype) == (x.shape, x.dtype)
            np.testing.assert_allclose(got, want, rtol=close, atol=close)
        for reduction, number in (
            ("sum", want.sum()),
            ("mean", want.sum() / (want.size or np.nan)),
        ):
            total = native.pointwise_loss(x, y, name, reduction, 0.5, 2.0)
            assert total is not None
            assert (total.shape, total.dtype) == ((), x.dtype)
            np.testing.assert_allclose(total, number, rtol=close, atol=close)


@pytest.mark.parametrize("name", MEASURES)
@pytest.mark.parametrize("side", [0, 1])
def test_slopes(name: str, side: int) -> None:
    for dtype, shape in itertools.product(TOLERANCE, SHAPES):
        x, y = pair(name, shape, dtype)
        slope = MEASURES[name][1 + side](x.astype("float64"), y.astype("float64"))
        close = 2 * TOLERANCE[dtype]
        each, one = np.asarray(RNG.standard_normal(shape), dtype), np.asarray(-1.5, dtype)
        for g, reduction, factor in (
            (each, "none", each),
            (one, "sum", -1.5),
            (one, "mean", -1.5 / max(x.size, 1)),
        ):
            result = native.pointwise_loss_backward(g, x, y, name, side, reduction, 0.5, 2.0)
            assert result is not None
            assert (result.shape, result.dtype) == (x.shape, x.dtype)
            np.testing.assert_allclose(result, factor * slope, rtol=close, atol=close)


def test_a_mean_of_many_is_as_good_as_one_in_double() -> None:
    x, y = (RNG.random(3_000_000).astype("float32") for _ in range(2))
    want = ((x.astype("float64") - y) ** 2).mean()
    np.testing.assert_allclose(
        native.pointwise_loss(x, y, "mse", "mean", 0.0, 0.0), want, rtol=2e-7
    )


def test_certain_probabilities_count_at_most_100() -> None:
    for dtype in TOLERANCE:
        x = np.array([0, 1, 0, 1, 1e-30, 0.5], dtype)
        y = np.array([0, 1, 1, 0, 0, 0], dtype)
        result = native.pointwise_loss(x, y, "bce", "none", 0.0, 0.0)
        np.testing.assert_allclose(result, [0, 0, 100, 100, 1e-30, np.log(2)], rtol=1e-6)
        slopes = native.pointwise_loss_backward(np.ones_like(x), x, y, "bce", 0, "none", 0.0, 0.0)
        np.testing.assert_allclose(slopes, [0, 0, -1e12, 1e12, 1e-18, 2], rtol=1e-6, atol=1e-37)


def test_far_logits_lose_nothing() -> None:
    for dtype in TOLERANCE:
        x = np.array([80, -80, 500, -500, np.inf, -np.inf], dtype)
        y = np.array([1, 0, 1, 0, 0, 1], dtype)
        result = native.pointwise_loss(x, y, "bce_with_logits", "none", 0.0, 0.0)
        small = np.exp(-80)
        np.testing.assert_allclose(
            result, [small, small, 0, 0, np.inf, np.inf], rtol=1e-5, atol=1e-200
        )


def test_nan_stays() -> None:
    nan, half = np.array([np.nan, 0.5], "float32"), np.array([0.5, 0.5], "float32")
    for name in MEASURES:
        for x, y in ((nan, half), (half, nan)):
            result = native.pointwise_loss(x, y, name, "none", 0.5, 2.0)
            assert result is not None
            assert np.isnan(result).tolist() == [True, False], name
            total = native.pointwise_loss(x, y, name, "sum", 0.5, 2.0)
            assert total is not None
            assert np.isnan(total), name


def test_cases_left_to_the_plain_form() -> None:
    x, y = np.ones(3, "float32"), np.ones(3, "float32")
    assert native.pointwise_loss(x, y.astype("float64"), "mse", "mean", 0.0, 0.0) is None
    assert native.pointwise_loss(x, y[:1], "mse", "mean", 0.0, 0.0) is None
    assert native.pointwise_loss(x.astype("int64"), y, "mse", "mean", 0.0, 0.0) is None
    assert native.pointwise_loss(x, y, "cubed", "mean", 0.0, 0.0) is None
    assert native.pointwise_loss(x, y, "mse", "median", 0.0, 0.0) is None
    assert native.pointwise_loss(x + 1, y, "bce", "mean", 0.0, 0.0) is None  # not a probability
    assert native.pointwise_loss(-x, y, "bce", "none", 0.0, 0.0) is None
    assert native.pointwise_loss_backward(x, x, y, "mse", 0, "mean", 0.0, 0.0) is None
    assert native.pointwise_loss_backward(x[:1], x, y, "mse", 0, "none", 0.0, 0.0) is None
    assert native.pointwise_loss_backward(x, x, y, "mse", 2, "none", 0.0, 0.0) is None
