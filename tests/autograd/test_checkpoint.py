"""Checkpointing, both variants."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import pytest

import shmtensor as st
from shmtensor import autograd, nn
from shmtensor.utils import checkpoint as door
from shmtensor.utils.checkpoint import (
    CheckpointError,
    checkpoint,
    checkpoint_sequential,
    set_checkpoint_debug_enabled,
    set_checkpoint_early_stop,
)

FLAVOURS = pytest.mark.parametrize("use_reentrant", [False, True])


def data(*shape: int) -> st.Tensor:
    return st.randn(*shape, dtype=st.float64, requires_grad=True)


@FLAVOURS
def test_gradients_are_the_same_and_the_part_runs_twice(use_reentrant: bool) -> None:
    x, w = data(3, 4), data(4)
    runs = []

    def part(x: st.Tensor, w: st.Tensor) -> st.Tensor:
        runs.append(1)
        return ((x * w).exp() * x).sum(1).tanh()

    part(x, w).sum().backward()
    expected = x.grad, w.grad
    x.grad = w.grad = None
    runs.clear()
    y = checkpoint(part, x, w, use_reentrant=use_reentrant)
    assert len(runs) == 1
    y.sum().backward()
    assert len(runs) == 2
    assert st.equal(x.grad, expected[0])
    assert st.equal(w.grad, expected[1])


@FLAVOURS
def test_a_checkpoint_saves_nothing(use_reentrant: bool) -> None:
    counts: list[int] = []
    x = data(1000)

    def part(x: st.Tensor) -> st.Tensor:
        return x.exp().sin().cos().tanh()

    def nodes(node: Any) -> int:
        if node is None or not hasattr(node, "saved"):
            return 0
        nbytes = sum(getattr(v, "nbytes", 0) for v in node.saved) if node.row.name != "part" else 0
        return nbytes + sum(nodes(n) for n, _ in node.next_functions)

    counts.append(nodes(part(x).grad_fn))
    y = checkpoint(part, x, use_reentrant=use_reentrant)
    if use_reentrant:
        counts.append(nodes(y.grad_fn))
        assert counts == [32_000, 8_000]  # its input
    assert counts[0] == 32_000
    y.sum().backward()


@FLAVOURS
def test_the_same_random_numbers_are_drawn(use_reentrant: bool) -> None:
    x = data(50)
    noises = []

    def part(x: st.Tensor) -> st.Tensor:
        noise = st.rand(50, dtype=st.float64)
        noises.append(noise)
        return (x * noise).exp()

    checkpoint(part, x, use_reentrant=use_reentrant).sum().backward()
    assert st.equal(noises[0], noises[1])
    after = st.rand(3)
    assert not st.equal(after, noises[0][:3].float())


def test_keyword_arguments_nested_results_and_grad() -> None:
    x, w = data(3), data(3)

    def part(x: st.Tensor, *, w: st.Tensor) -> dict[str, Any]:
        return {"a": x * w, "b": [x.exp()]}

    outputs = checkpoint(part, x, w=w, use_reentrant=False)
    g = autograd.grad(outputs["a"].sum() + outputs["b"][0].sum(), (x, w))
    assert st.equal(g[1], x.detach())
    assert st.allclose(g[0], w.detach() + x.detach().exp())


def test_second_order_and_a_second_backward() -> None:
    x = data(3)
    y = checkpoint(lambda x: x**3, x, use_reentrant=False)
    (g,) = autograd.grad(y.sum(), x, create_graph=True)
    (h,) = autograd.grad(g.sum(), x, retain_graph=True)
    assert st.allclose(h, 6 * x.detach())
    (second,) = autograd.grad(y.sum(), x)
    assert st.allclose(second, g.detach())


def test_nested() -> None:
    x = data(3)

    def inner(x: st.Tensor) -> st.Tensor:
        return checkpoint(lambda x: x.exp().sin(), x, use_reentrant=False) * x

    y = checkpoint(inner, x, use_reentrant=False)
    (g,) = autograd.grad(y.sum(), x)
    (expected,) = autograd.grad((x.exp().sin() * x).sum(), x)
    assert st.allclose(g, expected)


def test_a_second_run_that_differs_is_an_error() -> None:
    x = data(3)
    runs = []

    def part(x: st.Tensor) -> st.Tensor:
        runs.append(1)
        return x.exp() if len(runs) == 1 else x * 2

    y = checkpoint(part, x, use_reentrant=False)
    with pytest.raises(CheckpointError, match="different number of tensors"):
        y.sum().backward()
    runs.clear()

    def other(x: st.Tensor) -> st.Tensor:
        runs.append(1)
        return x.exp() if len(runs) == 1 else x[:2].exp()

    y = checkpoint(other, x, use_reentrant=False)
    with pytest.raises(CheckpointError, match="different metadata"):
        y.sum().backward()


def test_early_stop() -> None:
    x = data(3)
    ends = []

    def part(x: st.Tensor) -> st.Tensor:
        y = x.exp()
        ends.append(1)
        return y + 1

    checkpoint(part, x, use_reentrant=False).sum().backward()
    assert len(ends) == 1
    with set_checkpoint_early_stop(False):
        y = checkpoint(part, x, use_reentrant=False)
    y.sum().backward()  # the mode at the checkpoint's call counts
    assert len(ends) == 3
    y = checkpoint(part, x, use_reentrant=False)
    with set_checkpoint_early_stop(False):
        y.sum().backward()
    assert len(ends) == 4
    checkpoint(part, x, use_reentrant=False, early_stop=False).sum().backward()
    assert len(ends) == 6
    with set_checkpoint_early_stop(True):
        checkpoint(part, x, use_reentrant=False, early_stop=False).sum().backward()
    assert len(ends) == 7


def test_debug_lists_the_saved_tensors_of_both_runs() -> None:
    runs = []

    def part(x: st.Tensor) -> st.Tensor:
        runs.append(1)
        y = x.exp()
        return y.sin() if len(runs) == 1 else y

    x = data(3)
    for enabled, debug in ((None, True), (True, False)):
        runs.clear()
        with set_checkpoint_debug_enabled(enabled):
            y = checkpoint(part, x, use_reentrant=False, debug=debug)
        message = (
            r"(?s)number.*original forward saved.*y\.sin.*recomputation saved\ntensor 0: \(3,\) f"
        )
        with pytest.raises(CheckpointError, match=message):
            y.sum().backward()
    with set_checkpoint_debug_enabled(True), pytest.raises(ValueError, match="non-default context"):
        checkpoint(part, x, use_reentrant=False, context_fn=lambda: (nullcontext(), nullcontext()))
    runs.clear()
    with set_checkpoint_debug_enabled(False):
        y = checkpoint(part, x, use_reentrant=False, debug=True)
    with pytest.raises(CheckpointError, match=r"different number.*: 2 and 1$"):
        y.sum().backward()


def test_wrong_use_is_an_error() -> None:
    x = data(3)
    with pytest.raises(ValueError, match="Unexpected keyword arguments"):
        checkpoint(lambda x, w: x, x, w=x, use_reentrant=True)
    with pytest.warns(UserWarning, match="None of the inputs have requires_grad"):
        checkpoint(lambda x: x * 2, x.detach(), use_reentrant=True)
    with st.no_grad():
        assert not checkpoint(lambda x: x * 2, x).requires_grad


@FLAVOURS
def test_sequential(use_reentrant: bool) -> None:
    model = nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 3), nn.Tanh(), nn.Linear(3, 1))
    x = st.randn(6, 4, requires_grad=True)
    y = checkpoint_sequential(model, 2, x, use_reentrant=use_reentrant)
    y.sum().backward()
    gradients = [p.grad for p in model.parameters()]
    model.zero_grad()
    model(x).sum().backward()
    for g, p in zip(gradients, model.parameters()):
        assert st.allclose(g, p.grad)
    assert door.checkpoint is checkpoint


def test_a_checkpoint_that_re_enters_refuses_gradients_of_some_inputs() -> None:
    x, w = data(3), data(3)
    y = (checkpoint(lambda x: x * w, x, use_reentrant=True) * 2).sum()
    for call in (lambda: autograd.grad(y, x), lambda: y.backward(inputs=[x])):
        with pytest.raises(
            RuntimeError, match=r"use_reentrant=True, .* is incompatible with \.grad"
        ):
            call()
    assert x.grad is w.grad is None
    y.backward()
    assert x.grad is not None
    assert w.grad is not None
    assert x.grad.tolist() == (2 * w).tolist()
    assert w.grad.tolist() == (2 * x).tolist()
    first, number = checkpoint(lambda x: (x * 2, 5), x, use_reentrant=True)
    assert number == 5
    with pytest.raises(RuntimeError, match="incompatible"):
        autograd.grad(first.sum(), x)
    other = data(3)
    both = first.sum() + (other * 3).sum()
    assert autograd.grad(both, other)[0].tolist() == [3, 3, 3]  # not through the checkpoint
