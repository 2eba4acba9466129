"""Checkpoints that keep the results of some ops."""

from __future__ import annotations

import functools
from typing import Any

import pytest

import shmtensor as st
from shmtensor import autograd
from shmtensor.autograd.dispatch import observers
from shmtensor.utils.checkpoint import (
    CheckpointPolicy,
    SelectiveCheckpointContext,
    checkpoint,
    create_selective_checkpoint_contexts,
)


def data() -> tuple[Any, Any]:
    x, w = st.rand(2, 3, 3, dtype=st.float64)
    return x.clone().requires_grad_(), w.clone().requires_grad_()


def part(x: Any, w: Any) -> Any:
    return (x @ w).exp() @ w * w.sum()


def run(policy: Any, x: Any, w: Any, function: Any = part, **options: Any) -> Any:
    contexts = functools.partial(create_selective_checkpoint_contexts, policy, **options)
    return checkpoint(function, x, w, use_reentrant=False, context_fn=contexts)


def always(context: Any, op: Any, *args: Any, **kwargs: Any) -> bool:
    return True


@pytest.mark.parametrize(
    "policy",
    [[st.matmul], [st.mm, st.exp], [st.nn.functional.relu], [], always, lambda *_, **__: False],
)
def test_gradients_do_not_depend_on_the_policy(policy: Any) -> None:
    x, w = data()
    gradients = autograd.grad(run(policy, x, w).sum(), (x, w))
    expected = autograd.grad(part(x, w).sum(), (x, w))
    for a, b in zip(gradients, expected):
        assert st.allclose(a, b)


def test_a_policy_is_called_in_the_first_run() -> None:
    calls: list[Any] = []

    def policy(context: SelectiveCheckpointContext, op: Any, *args: Any, **kwargs: Any) -> Any:
        assert not context.is_recompute
        calls.append((op.event, tuple(context.op_output.shape), len(args)))
        is_product = op.event == "matmul"
        return CheckpointPolicy.MUST_SAVE if is_product else CheckpointPolicy.PREFER_RECOMPUTE

    x, w = data()
    y = run(policy, x, w)
    assert [event for event, _, _ in calls] == ["matmul", "exp", "matmul", "sum", "mul"]
    assert calls[0][1:] == ((3, 3), 2)
    y.sum().backward()
    assert len(calls) == 5


def test_saved_results_are_not_recomputed() -> None:
    tensors: list[Any] = []

    def product(x: Any, w: Any) -> Any:
        tensors.append(x.exp())
        return tensors[-1] * w

    for policy, expected in (([st.exp], 7.0), ([], 1.0)):
        x, w = st.zeros(2, requires_grad=True), st.ones(2, requires_grad=True)
        tensors.clear()
        y = run(policy, x, w, product)
        tensors[0].data.fill_(7)  # unnoticed
        y.sum().backward()
        assert w.grad.tolist() == [expected] * 2


def test_only_chosen_results_are_held() -> None:
    x, w = data()
    y = run([st.matmul], x, w, lambda x, w: (x @ w).exp().sin())
    exp = y.grad_fn.next_functions[0][0]
    product = exp.next_functions[0][0]
    is_held = [
        [item.value.tensor is not None for item in node.raw_saved if hasattr(item, "unpack")]
        for node in (y.grad_fn, exp, product)
    ]
    assert is_held == [[False], [False], [True, True]]


def test_random_numbers_after_a_kept_op_are_the_same() -> None:
    def noisy(x: Any, w: Any) -> Any:
        first = st.nn.functional.dropout(x * w, 0.5)
        return st.nn.functional.dropout(first.exp() * x, 0.5)

    x, w = data()
    for policy in ([], [st.mul], always):
        st.manual_seed(3)
        gradients = autograd.grad(run(policy, x, w, noisy).sum(), (x, w))
        st.manual_seed(3)
        expected = autograd.grad(noisy(x, w).sum(), (x, w))
        for a, b in zip(gradients, expected):
            assert st.allclose(a, b)


def test_wrong_use_is_an_error() -> None:
    x, w = data()
    y = run([st.matmul], x, w)
    y.sum().backward(retain_graph=True)
    with pytest.raises(RuntimeError, match="backward an extra time"):
        y.sum().backward()
    runs: list[int] = []

    def other(x: Any, w: Any) -> Any:
        runs.append(1)
        return (x @ w).exp() if len(runs) == 1 else (x * w * x).sin()

    with pytest.raises(RuntimeError, match="during backward but not in forward"):
        run([st.matmul], x, w, other).sum().backward()

    def writing(x: Any, w: Any) -> Any:
        product = x @ w
        y = product.exp()
        product.mul_(2)
        return y + product

    with pytest.raises(RuntimeError, match="has been mutated"):
        run([st.matmul], x, w, writing).sum().backward()
    with pytest.raises(TypeError, match="a function or a list of ops: int"):
        create_selective_checkpoint_contexts(5)
    with pytest.raises(TypeError, match="not an op"):
        create_selective_checkpoint_contexts([print])
    assert not observers.callers
