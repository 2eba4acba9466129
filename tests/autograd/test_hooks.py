"""The order of hooks."""

from __future__ import annotations

import pytest

import shmtensor as st


@pytest.mark.parametrize("first", ["retain", "hook"])
def test_a_nodes_hook_does_not_change_what_is_retained(first: str) -> None:
    x = st.ones(1, requires_grad=True)
    y = x * 2
    if first == "retain":
        y.retain_grad()
    assert y.grad_fn is not None
    y.grad_fn.register_prehook(lambda grads: (grads[0] * 3,))
    if first == "hook":
        y.retain_grad()
    y.register_hook(lambda g: g + 1)
    (y * 5).sum().backward()
    assert y.grad is not None
    assert y.grad.item() == 6
    assert x.grad is not None
    assert x.grad.item() == 36


@pytest.mark.parametrize("first", ["node", "tensor"])
def test_a_tensors_hooks_run_before_those_of_its_accumulating_node(first: str) -> None:
    x = st.ones(3, requires_grad=True)
    node = x.view_as(x).grad_fn.next_functions[0][0]
    calls: list[list[float]] = []
    if first == "node":
        node.register_prehook(lambda grads: (grads[0] * 3,))
        node.register_hook(lambda _, grads: calls.append(grads[0].tolist()))
    x.register_hook(lambda g: g - 2)
    if first == "tensor":
        node.register_prehook(lambda grads: (grads[0] * 3,))
        node.register_hook(lambda _, grads: calls.append(grads[0].tolist()))
    x.sum().backward()
    assert x.grad.tolist() == [-3] * 3
    assert calls == [[-3] * 3]


def test_grad_does_not_run_the_prehooks_of_the_nodes_it_asks_for() -> None:
    x = st.ones(1, requires_grad=True)
    y = x * 2
    accumulate = y.grad_fn.next_functions[0][0]
    for node in (accumulate, y.grad_fn):
        node.register_prehook(lambda grads: (grads[0] * 3,))
    y.register_hook(lambda g: g + 1)
    (g,) = st.autograd.grad(y.sum(), y, retain_graph=True)
    assert g.tolist() == [2]
    (g,) = st.autograd.grad(y.sum(), x, retain_graph=True)
    assert g.tolist() == [12]  # through y's node, and up to x's
    g, h = st.autograd.grad(y.sum(), (y, x))
    assert (g.tolist(), h.tolist()) == ([2], [12])


def test_a_hook_of_an_output_that_gets_no_gradient_is_not_called() -> None:
    x = st.ones(2, requires_grad=True)
    first, second = x.split(1)
    second.register_hook(lambda g: g * 100)
    second.retain_grad()
    first.sum().backward()
    assert x.grad.tolist() == [1, 0]
    assert second.grad is None


def test_a_views_retained_gradient_follows_writes() -> None:
    x = st.ones(1, requires_grad=True)
    base = x.clone()
    base.retain_grad()
    view, other = base[:], base[:]
    other.retain_grad()
    view.retain_grad()
    view.mul_(2)
    (view + other).sum().backward()
    assert view.grad.tolist() == other.grad.tolist() == [1]
    assert base.grad.tolist() == [2]
    assert x.grad.tolist() == [4]
    base = x.clone()
    view = base[:]
    view.retain_grad()
    base.mul_(2)
    base[0] = base[0] * 3
    view.sum().backward()
    assert view.grad.tolist() == [1]


def test_hooks_of_a_view_stay_with_its_former_node() -> None:
    calls: list[str] = []
    base = st.ones(1, requires_grad=True).clone()
    view = base[:]
    view.register_hook(lambda g: calls.append("view"))
    base.register_hook(lambda g: calls.append("base"))
    view.mul_(2)
    view.register_hook(lambda g: calls.append("written"))
    view.sum().backward()
    assert calls == ["written", "base"]


@pytest.mark.parametrize("method", ["register_hook", "register_prehook"])
def test_a_node_hook_returns_as_many_gradients_as_it_gets(method: str) -> None:
    x, w = st.ones(2, requires_grad=True), st.ones(2, requires_grad=True)
    y = x * w
    getattr(y.grad_fn, method)(lambda *_: ())
    with pytest.raises(RuntimeError, match=f"{method}: the hook returned an incorrect number of"):
        y.sum().backward()
