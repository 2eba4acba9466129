"""ctc_loss against the sum over all paths, counted one by one; its gradient against differences."""

from __future__ import annotations

from collections.abc import Callable
from itertools import groupby, product
from typing import Any

import numpy as np
import pytest

import shmtensor as st
from shmtensor.nn import functional
from shmtensor.ops import ROWS

random = np.random.default_rng(17)
LABELS = np.array([[1, 1, 3], [2, 0, 0], [3, 2, 3], [0, 0, 0]])
STEPS, COUNTS = (5, 4, 3, 2), (3, 1, 3, 0)
LINE = np.concatenate([row[:n] for row, n in zip(LABELS, COUNTS, strict=True)])


def log_softmax(x: Any) -> Any:
    return x - np.log(np.exp(x).sum(-1, keepdims=True))


X = random.normal(size=(5, 4, 4))
LOGP = log_softmax(X)


def sum_over_paths(logp: Any, labels: Any, blank: int) -> float:
    """-log of the sum over all paths that give the labels without blanks and repetitions."""
    total = 0.0
    for path in product(range(logp.shape[1]), repeat=len(logp)):
        if [c for c, _ in groupby(path) if c != blank] == list(labels):
            total += np.exp(logp[np.arange(len(logp)), path].sum())
    with np.errstate(divide="ignore"):
        return -np.log(total)


def of_numpy(logp: Any, blank: int = 0) -> Any:
    parts = zip(np.moveaxis(logp, 1, 0), LABELS, STEPS, COUNTS, strict=True)
    return np.array([sum_over_paths(x[:t], labels[:n], blank) for x, labels, t, n in parts])


def ctc(logp: Any, targets: Any = LABELS, **kwargs: Any) -> Any:
    kwargs.setdefault("reduction", "none")
    return functional.ctc_loss(st.tensor(logp), st.tensor(targets), STEPS, COUNTS, **kwargs)


def test_the_loss_is_the_sum_over_all_paths() -> None:
    expected = of_numpy(LOGP)
    assert np.isinf(expected).sum() == 0
    assert np.allclose(ctc(LOGP).numpy(), expected, rtol=1e-12)
    assert np.allclose(ctc(LOGP, LINE).numpy(), expected, rtol=1e-12)
    assert np.allclose(ctc(LOGP, LABELS.astype(np.int32)).numpy(), expected, rtol=1e-12)
    single = ctc(LOGP.astype(np.float32))
    assert single.dtype == st.float32
    assert np.allclose(single.numpy(), expected, rtol=1e-5)


def test_any_class_may_be_the_blank() -> None:
    shifted = (LABELS + 3) % 4  # the blank is 3 then
    rolled = LOGP[..., [1, 2, 3, 0]]
    labels = np.where(LABELS == 0, 0, shifted)
    assert np.allclose(ctc(rolled, labels, blank=3).numpy(), of_numpy(LOGP), rtol=1e-12)


def test_reductions() -> None:
    losses = of_numpy(LOGP)
    assert np.allclose(ctc(LOGP, reduction="sum").numpy(), losses.sum())
    assert np.allclose(ctc(LOGP, reduction="mean").numpy(), (losses / [3, 1, 3, 1]).mean())
    pairs = np.array([[1, 2], [2, 3], [3, 1]])  # of one length
    same = functional.ctc_loss(st.tensor(LOGP[:, :3]), st.tensor(pairs), STEPS[:3], (2, 2, 2))
    parts = zip(np.moveaxis(LOGP, 1, 0), pairs, STEPS)
    assert np.allclose(
        same.numpy(), np.mean([sum_over_paths(x[:t], p, 0) for x, p, t in parts]) / 2
    )
    tensors = [st.tensor(STEPS), st.tensor(COUNTS, dtype=st.int32)]
    loss = functional.ctc_loss(st.tensor(LOGP), st.tensor(LINE), *tensors, reduction="sum")
    assert np.allclose(loss.numpy(), losses.sum())


def test_one_sample_needs_no_batch() -> None:
    for targets, lengths in ((LABELS[0], (st.tensor(5), st.tensor(3))), (LABELS[:1], ((5,), (3,)))):
        loss = functional.ctc_loss(
            st.tensor(LOGP[:, 0]), st.tensor(targets), *lengths, reduction="none"
        )
        assert loss.shape == ()
        assert np.allclose(loss.numpy(), of_numpy(LOGP)[0])


def gradient(x: Any, weights: Any, **kwargs: Any) -> Any:
    leaf = st.tensor(x, requires_grad=True)
    loss = functional.ctc_loss(
        leaf.log_softmax(-1), st.tensor(LABELS), STEPS, COUNTS, reduction="none", **kwargs
    )
    (loss * st.tensor(weights)).sum().backward()
    return leaf.grad.numpy()


def test_the_gradient_is_differences() -> None:
    weights, step = random.normal(size=4), 1e-6
    slope = gradient(X, weights)
    for at in list(np.ndindex(X.shape))[::3]:
        ends = []
        for sign in (1, -1):
            shifted = X.copy()
            shifted[at] += sign * step
            ends.append(of_numpy(log_softmax(shifted)) @ weights)
        assert abs(slope[at] - (ends[0] - ends[1]) / (2 * step)) < 1e-7
    assert not slope[3:, 2].any()  # beyond a sample's steps
    assert not slope[4:, 1].any()


def test_the_gradient_by_log_probs_is_pytorchs() -> None:
    """Probabilities less each class's share of the alignments: log_softmax passes it unchanged."""
    leaf = st.tensor(LOGP, requires_grad=True)
    functional.ctc_loss(leaf, st.tensor(LABELS), STEPS, COUNTS, reduction="sum").backward()
    assert np.allclose(leaf.grad.numpy(), gradient(X, np.ones(4)), atol=1e-12)
    assert np.allclose(leaf.grad.numpy().sum(-1), 0, atol=1e-12)


def test_impossible_alignments() -> None:
    short = {"targets": LABELS}
    x = np.ascontiguousarray(X[:2])  # three labels in two steps, and 1 1 needs a blank between
    logp, steps = log_softmax(x), (2, 2, 2, 0)

    def run(zero: bool) -> tuple[Any, Any]:
        leaf = st.tensor(logp, requires_grad=True)
        loss = functional.ctc_loss(
            leaf, st.tensor(short["targets"]), steps, (2, 1, 3, 0), 0, "none", zero
        )
        loss.sum().backward()
        return loss.detach().numpy(), leaf.grad.numpy()

    loss, g = run(False)
    assert np.isinf(loss).tolist() == [True, False, True, False]
    assert np.isnan(g[:, [0, 2]]).all()
    unmasked, zeroed = run(True)
    assert unmasked[[0, 2]].tolist() == [0, 0]
    assert not zeroed[:, [0, 2]].any()
    assert np.array_equal(unmasked[[1, 3]], loss[[1, 3]])
    assert np.array_equal(zeroed[:, 1], g[:, 1])
    assert zeroed[:, 1].any()
    assert loss[3] == 0  # no labels in no steps
    assert not zeroed[:, 3].any()


def test_a_class_that_cannot_be_leaves_the_gradient_finite() -> None:
    logp = LOGP.copy()
    logp[:, 0, 2] = -np.inf
    leaf = st.tensor(logp, requires_grad=True)
    functional.ctc_loss(leaf, st.tensor(LABELS), STEPS, COUNTS, reduction="sum").backward()
    assert np.isfinite(leaf.grad.numpy()).all()
    assert not leaf.grad.numpy()[:, 0, 2].any()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("steps", "most", "classes"), [(40, 17, 9), (70, 33, 5), (3, 0, 3)])
def test_the_kernel_is_the_plain_form(dtype: str, steps: int, most: int, classes: int) -> None:
    n = 3
    logp = log_softmax(2 * random.normal(size=(steps, n, classes))).astype(dtype)
    targets = random.integers(1, classes, (n, most))
    lengths = (steps, steps - 2, steps - 1), (most, most // 2, max(most - 1, 0)), 0, False
    plain, fast = ROWS["_ctc_loss"], ROWS["_ctc_loss_backward"]
    with np.errstate(all="ignore"):
        loss, alpha = plain.forward(np, logp.astype("float64"), targets, *lengths)
        g = random.normal(size=n)
        slope = fast.forward(np, g, logp.astype("float64"), targets, loss, alpha, *lengths)
    result, rows = plain.numpy(logp, targets, *lengths)
    assert np.allclose(result, loss, rtol=1e-12 if dtype == "float64" else 1e-5)
    assert result.dtype == dtype
    gradient = fast.numpy(g.astype(dtype), logp, targets, result, rows, *lengths)
    assert np.allclose(gradient, slope, atol=1e-11 if dtype == "float64" else 2e-4)
    assert gradient.dtype == dtype


def test_the_same_bits_on_any_number_of_threads() -> None:
    logp = log_softmax(random.normal(size=(60, 8, 11))).astype("float32")
    targets = random.integers(1, 11, (8, 25))

    def run(threads: int) -> tuple[bytes, bytes]:
        before = st.get_num_threads()
        st.set_num_threads(threads)
        try:
            x = st.tensor(logp, requires_grad=True)
            loss = functional.ctc_loss(
                x, st.tensor(targets), (60,) * 8, (25,) * 8, reduction="none"
            )
            loss.sum().backward()
            return loss.detach().numpy().tobytes(), x.grad.numpy().tobytes()
        finally:
            st.set_num_threads(before)

    assert run(1) == run(4)


def test_the_gradient_has_no_derivative() -> None:
    x = st.tensor(LOGP, requires_grad=True)
    loss = functional.ctc_loss(x, st.tensor(LABELS), STEPS, COUNTS)
    (g,) = st.autograd.grad(loss, x, create_graph=True)
    with pytest.raises(RuntimeError, match="ctc_loss: derivative of its gradient is not implem"):
        st.autograd.grad(g.square().sum(), x)


def call(logp: Any = LOGP, targets: Any = LABELS, t: Any = STEPS, n: Any = COUNTS, **kwargs: Any):
    return lambda: functional.ctc_loss(st.tensor(logp), st.tensor(targets), t, n, **kwargs)


WRONG: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "half": (call(LOGP.astype("float16")), NotImplementedError, "not implemented for float16"),
    "whole": (call(LOGP.astype("int64")), NotImplementedError, "not implemented for int64"),
    "long": (call(t=(6, 4, 3, 2)), RuntimeError, "input_lengths .* at most 5: 6"),
    "negative": (call(n=(3, 1, -3, 0)), RuntimeError, "target_lengths .* at least 0 .*: -3"),
    "few": (call(t=(5, 4)), RuntimeError, "input_lengths must be of size batch_size: 2, not 4"),
    "labels": (call(n=(3, 4, 3, 0)), RuntimeError, r"at least 4 at dimension 1, but got \(4, 3\)"),
    "line": (call(targets=LINE[1:]), RuntimeError, "size 7, .* but got size 6"),
    "rows": (call(targets=LABELS[:2]), RuntimeError, r"size 4 at dimension 0.*\(2, 3\)"),
    "blank": (call(blank=4), RuntimeError, "blank must be in label range: 4 of 4"),
    "class": (call(targets=LABELS + 2), IndexError, "out of range: 5, there are 4 classes"),
    "below": (call(targets=LABELS - 2), IndexError, "out of range: -1, there are 4 classes"),
    "number": (call(t=5), TypeError, "input_lengths must be a tensor or a tuple of ints, not int"),
    "real": (call(t=st.ones(4)), RuntimeError, "input_lengths must be integral: float32"),
    "ranks": (call(LOGP[None]), RuntimeError, r"2 or 3 dimensions: \(1, 5, 4, 4\)"),
    "deep": (call(targets=LABELS[None]), RuntimeError, r"1 or 2 dimensions: \(1, 4, 3\)"),
    "empty": (call(LOGP[:0]), RuntimeError, r"must not be empty: \(0, 4, 4\)"),
    "reduction": (call(reduction="most"), ValueError, "'most'"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_wrong_use_is_named(name: str) -> None:
    wrong, error, message = WRONG[name]
    with pytest.raises(error, match=message):
        wrong()


@pytest.mark.torch
@pytest.mark.parametrize("seed", range(5))
def test_pytorchs_loss_and_gradient(seed: int) -> None:
    import torch

    draw = np.random.default_rng(seed)
    steps, n, classes = (int(v) for v in draw.integers((3, 1, 2), (30, 5, 9)))
    blank = int(draw.integers(0, classes))
    lengths = [tuple(map(int, draw.integers(0, m, n))) for m in (steps + 1, 7)]
    labels = draw.choice([c for c in range(classes) if c != blank], (n, 7))
    logp = log_softmax(draw.normal(size=(steps, n, classes)))
    for reduction, zero in product(("none", "mean", "sum"), (False, True)):
        results = []
        for module in (torch, st):
            x = module.tensor(logp, requires_grad=True)
            args = (module.tensor(labels), *lengths, blank, reduction, zero)
            loss = module.nn.functional.ctc_loss(x, *args)
            loss.sum().backward()
            results.append((loss.detach().numpy(), x.grad.numpy()))
        for theirs, ours in zip(*results, strict=True):
            assert np.allclose(ours, theirs, rtol=1e-9, atol=1e-9, equal_nan=True)
