"""differentiable=True: gradients flow through steps, against finite differences."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import shmtensor as st
from shmtensor import nn, optim

KINDS: list[tuple[Any, dict[str, Any]]] = [
    (optim.Adadelta, {"weight_decay": 0.1}),
    (optim.Adagrad, {"lr_decay": 0.1, "initial_accumulator_value": 0.1}),
    (optim.Adam, {"amsgrad": True, "lr": 0.1}),
    (optim.AdamW, {"maximize": True, "lr": 0.1}),
    (optim.Adamax, {"lr": 0.1}),
    (optim.ASGD, {"t0": 1, "lambd": 0.1}),
    (optim.NAdam, {"lr": 0.1, "decoupled_weight_decay": True, "weight_decay": 0.1}),
    (optim.RAdam, {"lr": 0.1, "betas": (0.5, 0.6)}),
    (optim.RMSprop, {"momentum": 0.5, "centered": True}),
    (optim.Rprop, {"lr": 0.1}),
    (optim.SGD, {"momentum": 0.9, "nesterov": True}),
]


def after_three_steps(kind: Any, kwargs: dict[str, Any], x: Any, differentiable: bool) -> Any:
    p = x.clone() if differentiable else nn.Parameter(x.clone())
    optimizer = kind([p], differentiable=differentiable, **kwargs)
    for i in range(3):
        p.grad = (x * (i + 1) + 0.5).cos() if differentiable else (x * (i + 1) + 0.5).cos().detach()
        optimizer.step()
    return p


@pytest.mark.parametrize(("kind", "kwargs"), KINDS)
def test_gradient_through_three_steps_is_the_difference(kind: Any, kwargs: dict[str, Any]) -> None:
    x = st.tensor([0.3, -0.8, 1.7], dtype=st.float64, requires_grad=True)
    p = after_three_steps(kind, kwargs, x, True)
    plain = after_three_steps(kind, kwargs, x.detach(), False)
    np.testing.assert_allclose(p.detach().numpy(), plain.detach().numpy(), rtol=1e-12)
    p.sum().backward()
    h, differences = 1e-6, []
    for i in range(3):
        sides = []
        for sign in (1, -1):
            at = x.detach().clone()
            at[i] += sign * h
            sides.append(after_three_steps(kind, kwargs, at, False).sum().item())
        differences.append((sides[0] - sides[1]) / (2 * h))
    np.testing.assert_allclose(x.grad.numpy(), differences, rtol=1e-5, atol=1e-7)


def test_refused_arguments_of_a_differentiable_step() -> None:
    p = nn.Parameter(st.ones(2))
    p.grad = st.ones(2)
    with pytest.raises(RuntimeError, match="leaf Variable"):
        optim.SGD([p], differentiable=True).step()
    with pytest.raises(AssertionError, match="foreach=True"):
        optim.SGD([p], differentiable=True, foreach=True).step()
    with pytest.raises(RuntimeError, match="fused"):
        optim.Adam([p], differentiable=True, fused=True)
    p.grad = st.ones(2).to_sparse()
    with pytest.raises(RuntimeError, match="sparse"):
        optim.SGD([p], differentiable=True).step()
