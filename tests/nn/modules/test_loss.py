"""Losses against their formulas in NumPy."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest

import shmtensor as st
from shmtensor import nn
from shmtensor.nn import functional as F

RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(4, 3)), RNG.normal(size=(4, 3))
P, Q = RNG.uniform(0.1, 0.9, (4, 3)), RNG.uniform(0.1, 0.9, (4, 3))
SIGNS = np.sign(RNG.normal(size=(4, 3)))


def log_softmax(x: np.ndarray, axis: int) -> np.ndarray:
    x = x - x.max(axis, keepdims=True)
    return x - np.log(np.exp(x).sum(axis, keepdims=True))


def bend(d: np.ndarray, beta: float) -> np.ndarray:
    return np.where(np.abs(d) < beta, d * d / 2 / beta, np.abs(d) - beta / 2)


PAIRS = [
    (nn.L1Loss, {}, X, Y, np.abs(X - Y)),
    (nn.MSELoss, {}, X, Y, (X - Y) ** 2),
    (nn.SmoothL1Loss, {"beta": 0.7}, X, Y, bend(X - Y, 0.7)),
    (nn.HuberLoss, {"delta": 0.7}, X, Y, 0.7 * bend(X - Y, 0.7)),
    (nn.BCELoss, {}, P, Q, -(Q * np.log(P) + (1 - Q) * np.log(1 - P))),
    (nn.BCEWithLogitsLoss, {}, X, Q, np.log1p(np.exp(-X)) + (1 - Q) * X),
    (nn.KLDivLoss, {}, np.log(P), Q, Q * (np.log(Q) - np.log(P))),
    (nn.PoissonNLLLoss, {}, X, Q, np.exp(X) - Q * X),
    (nn.SoftMarginLoss, {}, X, SIGNS, np.log1p(np.exp(-SIGNS * X))),
    (
        nn.HingeEmbeddingLoss,
        {"margin": 1.5},
        X,
        SIGNS,
        np.where(SIGNS == 1, X, np.maximum(0, 1.5 - X)),
    ),
]


@pytest.mark.parametrize(("kind", "kwargs", "x", "y", "expected"), PAIRS)
def test_loss_is_the_formula(kind, kwargs, x, y, expected) -> None:
    for reduction in ("none", "mean", "sum"):
        loss = kind(**kwargs, reduction=reduction)(st.tensor(x), st.tensor(y))
        want = expected if reduction == "none" else getattr(expected, reduction)()
        np.testing.assert_allclose(loss.numpy(), want, rtol=1e-6)


@pytest.mark.parametrize("shape", [(5,), (6, 5), (6, 5, 2)])
def test_cross_entropy_of_classes(shape: tuple[int, ...]) -> None:
    axis = 0 if len(shape) == 1 else 1
    x = RNG.normal(size=shape)
    target = np.asarray(RNG.integers(0, 5, shape[:axis] + shape[axis + 1 :]))
    target.reshape(-1)[0] = 1  # at least one that is not ignored
    logs = log_softmax(x, axis)
    target_logs = np.take_along_axis(logs, np.expand_dims(target, axis), axis).squeeze(axis)
    is_counted = target != 3
    for weighted, smoothing, reduction in product(
        (False, True), (0.0, 0.2), ("none", "mean", "sum")
    ):
        w = RNG.uniform(0.5, 2, 5) if weighted else np.ones(5)
        by_class = w.reshape([-1 if i == axis else 1 for i in range(len(shape))])
        smooth = (logs * by_class).sum(axis)
        each = -((1 - smoothing) * target_logs * w[target] + smoothing / 5 * smooth) * is_counted
        if reduction == "mean":
            each = each.sum() / (w[target] * is_counted).sum()
        elif reduction == "sum":
            each = each.sum()
        loss = nn.CrossEntropyLoss(
            weight=st.tensor(w) if weighted else None,
            ignore_index=3,
            reduction=reduction,
            label_smoothing=smoothing,
        )(st.tensor(x), st.tensor(target))
        np.testing.assert_allclose(loss.numpy(), each, rtol=1e-6, atol=1e-12)


def test_cross_entropy_gradient_is_softmax_minus_one_hot() -> None:
    x = st.tensor(X, requires_grad=True)
    nn.CrossEntropyLoss()(x, st.tensor([0, 2, 1, 2])).backward()
    expected = np.exp(log_softmax(X, 1)) - np.eye(3)[[0, 2, 1, 2]]
    np.testing.assert_allclose(x.grad.numpy(), expected / 4, rtol=1e-6, atol=1e-12)


def test_cross_entropy_of_probabilities() -> None:
    target = P / P.sum(1, keepdims=True)
    expected = -(log_softmax(X, 1) * target).sum(1)
    for reduction, value in {
        "none": expected,
        "mean": expected.mean(),
        "sum": expected.sum(),
    }.items():
        loss = F.cross_entropy(st.tensor(X), st.tensor(target), reduction=reduction)
        np.testing.assert_allclose(loss.numpy(), value)


def test_nll_is_cross_entropy_of_logarithms() -> None:
    logs, target = st.tensor(log_softmax(X, 1)), st.tensor([0, 2, 1, 2])
    for reduction in ("none", "mean", "sum"):
        expected = F.cross_entropy(st.tensor(X), target, reduction=reduction).numpy()
        np.testing.assert_allclose(nn.NLLLoss(reduction=reduction)(logs, target).numpy(), expected)


def test_weights_of_bce() -> None:
    w = np.array([1.0, 2.0, 3.0])
    plain = -(Q * np.log(P) + (1 - Q) * np.log(1 - P))
    loss = nn.BCELoss(weight=st.tensor(w), reduction="none")(st.tensor(P), st.tensor(Q))
    np.testing.assert_allclose(loss.numpy(), plain * w)
    logits = np.log(P / (1 - P))
    loss = nn.BCEWithLogitsLoss(pos_weight=st.tensor(w), reduction="none")(
        st.tensor(logits), st.tensor(Q)
    )
    expected = -(w * Q * np.log(P) + (1 - Q) * np.log(1 - P))
    np.testing.assert_allclose(loss.numpy(), expected, rtol=1e-6)


def test_bce_with_logits_refuses_an_integer_target() -> None:
    for target in (st.tensor([0, 1]), st.tensor([False, True])):
        with pytest.raises(RuntimeError, match=target.dtype.name):
            nn.BCEWithLogitsLoss()(st.zeros(2), target)


def test_bce_with_logits_does_not_overflow() -> None:
    x = st.tensor([1e4, -1e4], requires_grad=True)
    loss = nn.BCEWithLogitsLoss(reduction="sum")(x, st.tensor([0.0, 1.0]))
    assert loss.item() == 2e4
    loss.backward()
    assert x.grad.tolist() == [1.0, -1.0]


def test_kl_batchmean_and_log_target() -> None:
    x, y = st.tensor(np.log(P)), st.tensor(Q)
    expected = (Q * (np.log(Q) - np.log(P))).sum() / 4
    np.testing.assert_allclose(nn.KLDivLoss(reduction="batchmean")(x, y).item(), expected)
    logged = nn.KLDivLoss(reduction="batchmean", log_target=True)(x, y.log())
    np.testing.assert_allclose(logged.item(), expected)


def test_gaussian_nll_of_small_variances() -> None:
    for small in (0.0, 2.0):  # below and above the least variance
        x = st.tensor([1.0, 3.0], dtype=st.float64, requires_grad=True)
        var = st.tensor([small, 4.0], dtype=st.float64, requires_grad=True)
        F.gaussian_nll_loss(x, st.zeros(2), var, eps=0.5, reduction="sum").backward()
        clamped, x0 = np.maximum(var.detach().numpy(), 0.5), x.detach().numpy()
        np.testing.assert_allclose(x.grad.numpy(), x0 / clamped)
        np.testing.assert_allclose(var.grad.numpy(), (1 / clamped - (x0 / clamped) ** 2) / 2)


def test_multi_margin_of_equal_scores_and_nan() -> None:
    x = st.tensor([[1.0, 1.0, 0.0], [2.0, math.nan, 0.0]], requires_grad=True)
    loss = F.multi_margin_loss(x, st.tensor([0, 0]), margin=0.0, reduction="none")
    assert loss.tolist()[0] == 0
    assert math.isnan(loss.tolist()[1])
    loss.sum().backward()
    assert x.grad[0].tolist() == [0.0, 0.0, 0.0]


def test_multi_margin_with_an_infinite_weight_leaves_the_true_class_out() -> None:
    x, weight = st.tensor([[0.0, 3.0]]), st.tensor([1.0, math.inf])
    for p in (1, 2):
        assert F.multi_margin_loss(x, st.tensor([1]), p=p, weight=weight).item() == 0.0


def test_distances_of_vectors() -> None:
    a, b, c = (st.tensor(v) for v in (X, Y, P))
    sign = st.tensor([1, -1, 1, -1])
    cos = (X * Y).sum(1) / np.linalg.norm(X, axis=1) / np.linalg.norm(Y, axis=1)
    expected = np.where(sign.numpy() == 1, 1 - cos, np.maximum(0, cos - 0.1)).mean()
    np.testing.assert_allclose(nn.CosineEmbeddingLoss(0.1)(a, b, sign).item(), expected)
    near, far = (np.linalg.norm(X - v + 1e-6, axis=1) for v in (Y, P))
    np.testing.assert_allclose(
        nn.TripletMarginLoss(2.0)(a, b, c).item(), np.maximum(near - far + 2, 0).mean()
    )
    np.testing.assert_allclose(
        nn.MarginRankingLoss(0.2)(a, b, st.tensor(SIGNS)).item(),
        np.maximum(0, -SIGNS * (X - Y) + 0.2).mean(),
    )


def test_older_flags_choose_the_reduction() -> None:
    assert nn.MSELoss(size_average=False).reduction == "sum"
    assert nn.MSELoss(reduce=False).reduction == "none"
    assert nn.MSELoss(reduce=True).reduction == "mean"


def test_bad_input_is_shown() -> None:
    with pytest.raises(IndexError, match="5"):
        F.cross_entropy(st.ones(2, 3), st.tensor([0, 5]))
    with pytest.raises((ValueError, RuntimeError), match=r"\(3,\)"):
        F.cross_entropy(st.ones(2, 3), st.tensor([0, 1, 2]))
    with pytest.raises(ValueError, match="avg"):
        F.mse_loss(st.ones(2), st.ones(2), reduction="avg")
    with pytest.raises(RuntimeError, match=r"2.0"):
        F.binary_cross_entropy(st.ones(2) * 2, st.ones(2))
    with pytest.raises(ValueError, match="negative"):
        F.gaussian_nll_loss(st.tensor(X), st.tensor(Y), st.tensor(-P))
    with pytest.warns(UserWarning, match=r"target size \(2,\) differs"):
        F.mse_loss(st.ones(2, 1), st.ones(2))


def test_ctc_of_one_step_is_cross_entropy() -> None:
    logp = F.log_softmax(st.randn(1, 2, 4), -1)
    lengths = st.tensor([1, 1])
    loss = nn.CTCLoss(reduction="none")(logp, st.tensor([[1], [3]]), lengths, lengths)
    np.testing.assert_allclose(loss.numpy(), [-logp[0, 0, 1].item(), -logp[0, 1, 3].item()], 1e-5)
    assert nn.CTCLoss(zero_infinity=True)(logp, st.tensor([[1, 2]] * 2), lengths, lengths * 2) == 0


def test_triplets_take_any_distance() -> None:
    a, p, n = st.tensor([[0.0]]), st.tensor([[1.0]]), st.tensor([[3.0]])
    loss = nn.TripletMarginWithDistanceLoss(
        distance_function=lambda x, y: (x - y).abs().sum(-1), margin=2.5, swap=True
    )
    assert loss(a, p, n).item() == pytest.approx(1 - 2 + 2.5)
    x, y, z = (st.tensor(v) for v in (X, Y, P))
    expected = nn.TripletMarginLoss()(x, y, z).item()
    assert nn.TripletMarginWithDistanceLoss()(x, y, z).item() == pytest.approx(expected)
    with pytest.raises(ValueError, match="-1"):
        nn.TripletMarginWithDistanceLoss(margin=-1)


def test_linear_cross_entropy_is_that_of_its_logits() -> None:
    loss = nn.LinearCrossEntropyLoss(4, 3, out_features=(2,), bias=True)
    x, target = st.randn(5, 4), st.tensor(RNG.integers(0, 3, (5, 2)))
    logits = loss.linear(x).reshape(5, 3, 2)
    assert loss(x, target).item() == pytest.approx(F.cross_entropy(logits, target).item(), rel=1e-5)
    with pytest.raises(RuntimeError, match=r"\(3,\): \(4,\)"):
        nn.LinearCrossEntropyLoss(4, 3, weight=st.ones(4))


def test_targets_of_bce_are_probabilities() -> None:
    with pytest.raises(RuntimeError, match=r"target must lie in \[0, 1\]: 0.0 to 2.0"):
        nn.BCELoss()(st.tensor([0.5, 0.5]), st.tensor([0.0, 2.0]))


def test_losses_pass_their_options_on() -> None:
    loss = nn.GaussianNLLLoss(full=True)(st.tensor(X), st.tensor(Y), st.tensor(P))
    expected = 0.5 * (np.log(P) + (X - Y) ** 2 / P + np.log(2 * np.pi))
    np.testing.assert_allclose(loss.item(), expected.mean())
    x = st.tensor([[0.1, 0.5, 0.9], [0.3, 0.2, 0.1]])
    loss = nn.MultiMarginLoss(margin=2.0)(x, st.tensor([2, 0]))
    assert loss.item() == pytest.approx((1.2 + 1.6 + 1.9 + 1.8) / 6)
