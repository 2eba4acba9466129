"""Losses against their formulas in NumPy, for every reduction; gradients of cross entropy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import shmtensor as st
from shmtensor.nn import functional

random = np.random.default_rng(3)
LOGITS, SPACE = random.normal(size=(6, 4)), random.normal(size=(2, 4, 3))
CLASSES, PLACES = np.array([0, 3, 1, 2, 2, 0]), np.array([[0, 3, 1], [2, 1, 1]])
WEIGHT = np.array([0.5, 1.0, 2.0, 0.25])
SOFT = random.dirichlet(np.ones(4), 6)
X, Y = random.normal(size=(3, 4)), random.normal(size=(3, 4))
P, T = random.uniform(0.1, 0.9, (3, 4)), random.uniform(0, 1, (3, 4))


def log_softmax(x: Any, dim: int = 1) -> Any:
    return x - np.log(np.exp(x).sum(dim, keepdims=True))


def reduced(losses: Any, reduction: str, over: Any = None) -> Any:
    if reduction == "none":
        return losses
    over = losses.size if over is None else over
    return losses.sum() / (over if reduction == "mean" else 1)


def entropy(x: Any, c: Any, reduction: str, weight: Any, ignored: int, smoothing: float) -> Any:
    """Cross entropy by its definition; the mean weighs classes and leaves out the ignored ones."""
    logp = np.moveaxis(log_softmax(x), 1, -1)
    w = np.ones(x.shape[1]) if weight is None else weight
    counts = c != ignored
    safe = np.where(counts, c, 0)
    nll = -w[safe] * np.take_along_axis(logp, safe[..., None], -1)[..., 0]
    even = -(logp * w).mean(-1)
    losses = np.where(counts, (1 - smoothing) * nll + smoothing * even, 0)
    return reduced(losses, reduction, (w[safe] * counts).sum())


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize("smoothing", [0.0, 0.2])
@pytest.mark.parametrize("ignored", [-100, 2])
@pytest.mark.parametrize("weight", [None, WEIGHT])
@pytest.mark.parametrize(("x", "c"), [(LOGITS, CLASSES), (SPACE, PLACES)])
def test_cross_entropy(
    x: Any, c: Any, weight: Any, ignored: int, smoothing: float, reduction: str
) -> None:
    ours = functional.cross_entropy(
        st.tensor(x),
        st.tensor(c),
        weight=None if weight is None else st.tensor(weight),
        ignore_index=ignored,
        reduction=reduction,
        label_smoothing=smoothing,
    )
    assert np.allclose(ours.numpy(), entropy(x, c, reduction, weight, ignored, smoothing))


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
def test_nll_loss_and_probabilities(reduction: str) -> None:
    logp = log_softmax(LOGITS)
    ours = functional.nll_loss(st.tensor(logp), st.tensor(CLASSES), reduction=reduction)
    assert np.allclose(ours.numpy(), reduced(-logp[np.arange(6), CLASSES], reduction))
    ours = functional.cross_entropy(st.tensor(LOGITS), st.tensor(SOFT), reduction=reduction)
    assert np.allclose(ours.numpy(), reduced(-(logp * SOFT).sum(1), reduction))


def bent(d: Any, knee: float) -> Any:
    return np.where(d < knee, d * d / (2 * knee), d - knee / 2)


LOSSES: dict[str, tuple[Any, Any, dict[str, Any], Any]] = {
    "mse_loss": (X, Y, {}, (X - Y) ** 2),
    "l1_loss": (X, Y, {}, np.abs(X - Y)),
    "smooth_l1_loss": (X, Y, {"beta": 0.5}, bent(np.abs(X - Y), 0.5)),
    "huber_loss": (X, Y, {"delta": 0.5}, 0.5 * bent(np.abs(X - Y), 0.5)),
    "binary_cross_entropy": (P, T, {}, -(T * np.log(P) + (1 - T) * np.log(1 - P))),
    "binary_cross_entropy_with_logits": (
        X,
        T,
        {"pos_weight": st.tensor(WEIGHT)},
        WEIGHT * T * np.log1p(np.exp(-X)) + (1 - T) * np.log1p(np.exp(X)),
    ),
    "kl_div": (np.log(P), T, {}, T * (np.log(T) - np.log(P))),
}


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize("name", LOSSES)
def test_loss_is_its_formula(name: str, reduction: str) -> None:
    x, y, kwargs, losses = LOSSES[name]
    loss = getattr(functional, name)
    if name == "kl_div" and reduction == "mean":
        reduction = "batchmean"  # the definition of the divergence; "mean" divides by all elements
        ours = loss(st.tensor(x), st.tensor(y), reduction=reduction)
        assert ours.item() == pytest.approx(losses.sum() / len(x))
        return
    ours = loss(st.tensor(x), st.tensor(y), reduction=reduction, **kwargs)
    assert np.allclose(ours.numpy(), reduced(losses, reduction))


@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_gradients_of_the_fused_cross_entropy(reduction: str) -> None:
    """The kernel, its backward, and the second derivative, which kernels do not compute."""
    x, c = st.tensor(LOGITS, requires_grad=True), st.tensor(CLASSES)

    def loss(x: Any) -> Any:
        return functional.cross_entropy(x, c, ignore_index=2, reduction=reduction)

    assert st.autograd.gradcheck(loss, (x,))
    assert st.autograd.gradgradcheck(loss, (x,))


def test_there_is_one_weight_for_each_class() -> None:
    x, classes, chances = st.zeros(2, 3), st.tensor([0, 2]), st.ones(2, 3) / 3
    for shape in ((4,), (1,), (), (1, 3), (3, 1)):
        weight = st.ones(shape)
        for call in (
            lambda w: functional.nll_loss(x, classes, w),
            lambda w: functional.cross_entropy(x, classes, w),
            lambda w: functional.cross_entropy(x, classes, w, label_smoothing=0.1),
            lambda w: functional.cross_entropy(x, chances, w),
            lambda w: functional.cross_entropy(x[0], chances[0], w),
        ):
            with pytest.raises(RuntimeError, match="one weight for each of 3 classes"):
                call(weight)


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize("weight", [None, np.full(20_000, 0.5)])
def test_smoothing_over_many_classes_in_half_precision(weight: Any, reduction: str) -> None:
    x, c = np.random.default_rng(0).normal(size=(3, 20_000)) * 10, np.array([5, 1, 19_999])
    x = x.astype("float16")
    ours = functional.cross_entropy(
        st.tensor(x),
        st.tensor(c),
        weight=None if weight is None else st.tensor(weight.astype("float16")),
        label_smoothing=0.2,
        reduction=reduction,
    )
    assert ours.dtype is st.float16
    want = entropy(x.astype(float), c, reduction, weight, -100, 0.2)
    np.testing.assert_allclose(ours.float().numpy(), want, 5e-3)
