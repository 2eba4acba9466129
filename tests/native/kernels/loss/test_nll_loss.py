"""nll_loss with weights, its reductions and its backward, against NumPy in float64."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from shmtensor import native

RNG = np.random.default_rng(0)
SHAPES = [(4,), (0, 4), (5, 4), (3000, 10), (2, 4, 3), (7, 5, 40, 50)]
IGNORED = 2


def case(shape: tuple[int, ...], dtype: str, weighted: bool) -> Any:
    classes = shape[0] if len(shape) == 1 else shape[1]
    target = RNG.integers(0, classes, shape[:1] + shape[2:] if len(shape) > 1 else ())
    weight = RNG.uniform(0.5, 2, classes).astype(dtype) if weighted else None
    return RNG.standard_normal(shape).astype(dtype), np.asarray(target), weight


def weights_of(target: Any, weight: Any) -> Any:
    """The weight of each target, in float64."""
    counts = target != IGNORED
    return np.where(counts, 1.0 if weight is None else weight.astype("float64")[target], 0.0)


@pytest.mark.parametrize("weighted", [False, True])
def test_classes_are_picked(weighted: bool) -> None:
    for shape, dtype in itertools.product(SHAPES, ("float32", "float64")):
        x, target, weight = case(shape, dtype, weighted)
        axis = 0 if x.ndim == 1 else 1
        at = np.expand_dims(target, axis)
        each = weights_of(target, weight)
        want = -np.take_along_axis(x.astype("float64"), at, axis).squeeze(axis) * each
        close = 1e-6 if dtype == "float32" else 1e-14
        for y, t in ((x, target), (x.copy("F"), target.astype("int32"))):
            got = native.nll_loss(y, t, weight, IGNORED, "none")
            assert got is not None
            assert (got.shape, got.dtype) == (target.shape, x.dtype)
            np.testing.assert_allclose(got, want, rtol=close)
        with np.errstate(all="ignore"):
            sums = {"sum": want.sum(), "mean": np.true_divide(want.sum(), each.sum())}
        for reduction, number in sums.items():
            total = native.nll_loss(x, target, weight, IGNORED, reduction)
            assert total is not None
            assert total.shape == ()
            np.testing.assert_allclose(total, number, rtol=10 * close, atol=10 * close)


@pytest.mark.parametrize("weighted", [False, True])
def test_the_backward_is_the_adjoint(weighted: bool) -> None:
    """<nll_loss(x), g> = <x, nll_loss_backward(g)>, and no other element is written."""
    for shape, reduction in itertools.product(SHAPES, ("none", "sum", "mean")):
        x, target, weight = case(shape, "float64", weighted)
        if reduction == "mean" and not weights_of(target, weight).sum():
            continue
        forward = native.nll_loss(x, target, weight, IGNORED, reduction)
        assert forward is not None
        g = np.asarray(RNG.standard_normal(forward.shape))
        gradient = native.nll_loss_backward(g, target, weight, shape, IGNORED, reduction)
        assert gradient is not None
        assert gradient.shape == x.shape
        np.testing.assert_allclose(
            (gradient * x).sum(), (forward * g).sum(), rtol=1e-12, atol=1e-12
        )
        assert np.count_nonzero(gradient) == np.count_nonzero(weights_of(target, weight))


def test_cases_left_to_the_plain_form() -> None:
    x, target, weight = np.ones((3, 4), "float32"), np.array([0, 1, 3]), np.ones(4, "float32")
    assert native.nll_loss(x, target, weight, -100, "mean") is not None
    assert native.nll_loss(x, target + 1, weight, -100, "mean") is None  # there is no class 4
    assert native.nll_loss(x, target - 1, None, -100, "none") is None
    assert native.nll_loss(x, target[:2], None, -100, "none") is None
    assert native.nll_loss(x, target, weight[:3], -100, "none") is None
    assert native.nll_loss(x, target, weight.astype("float64"), -100, "none") is None
    assert native.nll_loss(x, target.astype("float32"), None, -100, "none") is None
    assert native.nll_loss(x.astype("int64"), target, None, -100, "none") is None
    assert native.nll_loss(x, target, None, -100, "median") is None
    g = np.ones(3, "float32")
    assert native.nll_loss_backward(g, target, None, (3, 4), -100, "none") is not None
    assert native.nll_loss_backward(g, target, None, (3, 4), -100, "mean") is None
    assert native.nll_loss_backward(g, target, None, (2, 4), -100, "none") is None
    assert native.nll_loss_backward(g, target + 1, None, (3, 4), -100, "none") is None
