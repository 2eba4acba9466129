"""In which order hooks see a gradient."""

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
