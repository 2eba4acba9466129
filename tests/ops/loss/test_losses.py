"""Cross entropy: gradients, wrong weights, many classes; tests/nn/modules has the other values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import shmtensor as st
from shmtensor.nn import functional

random = np.random.default_rng(3)
LOGITS, CLASSES = random.normal(size=(6, 4)), np.array([0, 3, 1, 2, 2, 0])


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


@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_gradients_of_the_fused_cross_entropy(reduction: str) -> None:
    """The kernel, its backward, and the second derivative, which kernels do not compute."""
    x, c = st.tensor(LOGITS, requires_grad=True), st.tensor(CLASSES)

    def loss(x: Any) -> Any:
        return functional.cross_entropy(x, c, ignore_index=2, reduction=reduction)

    assert st.autograd.gradcheck(loss, (x,))
    assert st.autograd.gradgradcheck(loss, (x,))


@pytest.mark.parametrize("dtype", [st.float32, st.bfloat16])
def test_cross_entropy_saves_two_numbers_a_row(dtype: Any) -> None:
    """Beside its operands; the softmax is computed again."""
    x = st.randn(20, 300, dtype=dtype, requires_grad=True)
    c, saved = st.arange(20), []

    def pack(tensor: Any) -> Any:
        saved.append(tensor)
        return tensor

    with st.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        loss = functional.cross_entropy(x, c)
    others = [v for v in saved if tuple(v.shape) not in ((20, 300), (20,))]
    assert [(tuple(v.shape), v.dtype) for v in others] == [((20, 2), st.float32)]
    assert sum(v.numel() == x.numel() for v in saved) == 1
    loss.backward()
    softmax = functional.softmax(x.detach().float(), 1)
    expected = (softmax - functional.one_hot(c, 300)) / 20
    bound = 1e-6 if dtype == st.float32 else 1e-3
    assert np.allclose(x.grad.float().numpy(), expected.numpy(), atol=bound)


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
