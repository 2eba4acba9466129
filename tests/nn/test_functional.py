"""Functions of nn.functional that no layer's test calls: values against formulas in NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import shmtensor as st
from shmtensor import nn
from shmtensor.nn import functional as F

Array = np.ndarray[Any, Any]
RANDOM = np.random.default_rng(0)
X, Y, Z = (RANDOM.normal(size=(5, 4)) for _ in range(3))
SIGN = np.sign(RANDOM.normal(size=5))


def softmax(x: Array) -> Array:
    e = np.exp(x - x.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


def distance(x: Array, y: Array) -> Array:
    return np.linalg.norm(x - y + 1e-6, axis=1)


def cosine(x: Array, y: Array) -> Array:
    return (x * y).sum(1) / np.linalg.norm(x, axis=1) / np.linalg.norm(y, axis=1)


SCALE, ALPHA = 1.0507009873554805, 1.6732632423543772

FORMULAS: list[tuple[str, Callable[..., Any], tuple[Array, ...], Array | np.floating[Any]]] = [
    ("relu6", F.relu6, (9 * X,), np.clip(9 * X, 0, 6)),
    ("softsign", F.softsign, (X,), X / (1 + abs(X))),
    ("tanhshrink", F.tanhshrink, (X,), X - np.tanh(X)),
    ("softmin", lambda x: F.softmin(x, dim=1), (X,), softmax(-X)),
    ("celu_", F.celu_, (X.copy(),), np.where(X > 0, X, np.expm1(X))),
    ("selu_", F.selu_, (X.copy(),), SCALE * np.where(X > 0, X, ALPHA * np.expm1(X))),
    ("rms_norm", lambda x: F.rms_norm(x, [4], eps=1e-6), (X,),
     X / np.sqrt((X * X).mean(1, keepdims=True) + 1e-6)),
    ("poisson_nll_loss", F.poisson_nll_loss, (X, abs(Y)), (np.exp(X) - abs(Y) * X).mean()),
    ("hinge_embedding_loss", F.hinge_embedding_loss, (X[:, 0], SIGN),
     np.where(SIGN == 1, X[:, 0], np.maximum(0, 1 - X[:, 0])).mean()),
    ("soft_margin_loss", F.soft_margin_loss, (X[:, 0], SIGN),
     np.log1p(np.exp(-SIGN * X[:, 0])).mean()),
    ("margin_ranking_loss", lambda x, y, t: F.margin_ranking_loss(x, y, t, margin=0.5),
     (X[:, 0], Y[:, 0], SIGN), np.maximum(0, -SIGN * (X[:, 0] - Y[:, 0]) + 0.5).mean()),
    ("cosine_embedding_loss", F.cosine_embedding_loss, (X, Y, SIGN),
     np.where(SIGN == 1, 1 - cosine(X, Y), np.maximum(0, cosine(X, Y))).mean()),
    ("triplet_margin_loss", F.triplet_margin_loss, (X, Y, Z),
     np.maximum(0, distance(X, Y) - distance(X, Z) + 1).mean()),
    ("bilinear", F.bilinear, (X, Y[:, :3], RANDOM.normal(size=(2, 4, 3))), np.empty(0)),
]  # fmt: skip
FORMULAS[-1] = (
    *FORMULAS[-1][:3],
    np.einsum("ni,oij,nj->no", X, FORMULAS[-1][2][2].transpose(0, 1, 2), Y[:, :3]),
)


@pytest.mark.parametrize(
    ("function", "inputs", "expected"), [f[1:] for f in FORMULAS], ids=[f[0] for f in FORMULAS]
)
def test_formula(function: Callable[..., Any], inputs: tuple[Array, ...], expected: Array) -> None:
    out = function(*(st.tensor(x) for x in inputs))
    np.testing.assert_allclose(out.numpy(), expected, rtol=1e-6, atol=1e-9)


def test_glu_halves() -> None:
    expected = X[:, :2] / (1 + np.exp(-X[:, 2:]))
    np.testing.assert_allclose(nn.GLU(1)(st.tensor(X)).numpy(), expected, rtol=1e-6)


@pytest.mark.parametrize(
    ("function", "ndim"), [(F.dropout1d, 3), (F.dropout2d, 4), (F.dropout3d, 5)]
)
def test_dropout_of_channels_drops_entire_ones(function: Callable[..., Any], ndim: int) -> None:
    st.manual_seed(0)
    out = function(st.ones(20, 30, *([3] * (ndim - 2))), p=0.4).numpy().reshape(20 * 30, -1)
    is_kept = out[:, 0] != 0
    assert (out == out[:, :1]).all()  # an entire channel is kept or dropped
    np.testing.assert_allclose(out[is_kept], 1 / 0.6, rtol=1e-6)
    assert 0.5 < is_kept.mean() < 0.7


def test_alpha_dropout_keeps_mean_and_variance() -> None:
    st.manual_seed(0)
    x = st.randn(200_000)
    out = F.alpha_dropout(x, p=0.3, training=True).numpy()
    assert abs(out.mean()) < 0.02
    assert abs(out.std() - 1) < 0.02
    assert (
        F.alpha_dropout(x, p=0.3, training=False) is x
        or (F.alpha_dropout(x, p=0.3, training=False).numpy() == x.numpy()).all()
    )


def test_norms_of_gradients() -> None:
    parameters = [nn.Parameter(st.tensor(x)) for x in (X, Y)]
    for p, g in zip(parameters, (Y, Z), strict=True):
        p.grad = st.tensor(g)
    total = np.sqrt((Y**2).sum() + (Z**2).sum())
    norm = nn.utils.get_total_norm([p.grad for p in parameters])
    np.testing.assert_allclose(float(norm), total, rtol=1e-6)
    nn.utils.clip_grads_with_norm_(parameters, 1.0, norm)
    np.testing.assert_allclose(parameters[0].grad.numpy(), Y / (total + 1e-6), rtol=1e-6)
    total_norm = nn.utils.clip_grad_norm_(parameters, 0.5)
    np.testing.assert_allclose(float(total_norm), 1, rtol=1e-4)


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
