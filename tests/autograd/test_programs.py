"""Random programs of ops, views, in-place writes and blocks without grad, against finite
differences.

Whatever a program computes in double precision is a function of its leaves; a program that the
engine does not refuse must have that function's gradient.
"""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

import shmtensor as st

REFUSALS = ("inplace", "in-place", "expanded", "read-only")
STEPS = [
    "mul",
    "add",
    "exp",
    "clone",
    "sum",
    "rows",
    "row",
    "last",
    "column",
    "every",
    "transpose",
    "flatten",
    "expand",
    "split",
    "unbind",
    "add_",
    "sub_",
    "mul_",
    "double_",
    "copy_",
    "fill_",
    "set",
    "set_fancy",
]


def step(kind: str, a: Any, b: Any, coin: float) -> list[Any]:
    """One step on two tensors of the same shape: what it makes."""
    deep, long = a.dim() > 0, a.dim() > 0 and a.shape[0] > 1
    if kind == "mul":
        return [a * b]
    if kind == "add":
        return [a + b]
    if kind == "exp":
        return [(a * 0.1).exp()]
    if kind == "clone":
        return [a.clone()]
    if kind == "sum":
        return [a.sum()]
    if kind == "rows" and long:
        return [a[1:]]
    if kind == "row" and deep:
        return [a[0]]
    if kind == "last" and deep:
        return [a[-1]]
    if kind == "column" and a.dim() == 2:
        return [a[:, 0]]
    if kind == "every" and a.dim() == 2:
        return [a[:, ::2]]
    if kind == "transpose" and a.dim() == 2:
        return [a.t()]
    if kind == "flatten" and a.is_contiguous():
        return [a.view(-1)]
    if kind == "expand" and a.dim() == 1:
        return [a.expand(2, a.shape[0])]
    if kind == "split" and long:
        return list(a.split(1))
    if kind == "unbind" and deep:
        return list(a.unbind(0))
    if kind == "add_":
        a.add_(b)
    elif kind == "sub_":
        a.sub_(1.5)
    elif kind == "mul_":
        a.mul_(b)
    elif kind == "double_":
        a *= 2
    elif kind == "copy_":
        a.copy_(b)
    elif kind == "fill_":
        a.fill_(0.5)
    elif kind == "set" and deep:
        a[0] = b[0] if coin < 0.5 else 2.0
    elif kind == "set_fancy" and long:
        a[[1, 0]] = b[[0, 1]]
    return []


def run(seed: int, leaves: list[Any]) -> Any:
    rng = random.Random(seed)
    pool = list(leaves)
    for _ in range(rng.randint(3, 10)):
        a = pool[rng.randrange(len(pool))]
        same = [p for p in pool if p.shape == a.shape]
        pool += step(rng.choice(STEPS), a, rng.choice(same), rng.random())
    total = st.zeros((), dtype=st.float64)
    for p in pool:
        total = total + (p * p * 0.3).sum()
    return total


@pytest.mark.parametrize("block", range(10))
def test_gradients_of_random_programs(block: int) -> None:
    compared = 0
    for seed in range(block * 100, block * 100 + 100):
        rng = np.random.default_rng(seed)
        values = [rng.random((3, 4)) + 0.5, rng.random((3, 4)) + 0.5, rng.random(4) + 0.5]
        leaves = [st.tensor(v, requires_grad=True) for v in values]
        try:
            # A step that writes must not write the leaves themselves.
            out = run(seed, [x * 1 for x in leaves])
            out.backward()
        except RuntimeError as refusal:
            if not any(word in str(refusal) for word in REFUSALS):
                raise
            continue
        ways = [rng.standard_normal(v.shape) for v in values]
        h = 1e-6
        high = run(seed, [st.tensor(v + h * w) for v, w in zip(values, ways)]).item()
        low = run(seed, [st.tensor(v - h * w) for v, w in zip(values, ways)]).item()
        result = sum((x.grad.numpy() * w).sum() for x, w in zip(leaves, ways) if x.grad is not None)
        assert result == pytest.approx((high - low) / (2 * h), rel=1e-5, abs=1e-6), f"seed {seed}"
        compared += 1
    assert compared > 20
