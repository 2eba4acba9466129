"""The update rules in NumPy against the formulas of their papers, and the kernels against them."""

from __future__ import annotations

import math
from itertools import product
from typing import Any

import numpy as np
import pytest

from shmtensor import native
from shmtensor.optim import reference_updates as rules

RNG = np.random.default_rng(0)


def test_adam_is_the_papers_algorithm() -> None:
    p, m, v = 1.0, 0.0, 0.0
    lr, b1, b2, eps = 0.1, 0.8, 0.9, 1e-3
    P, M, V = (np.array([x]) for x in (p, m, v))
    for step, g in enumerate([0.5, -2.0, 1.0], 1):
        rules.adam_(P, np.array([g]), M, V, None, step, lr, b1, b2, eps, 0.0, False, False)
        m = b1 * m + (1 - b1) * g
        v = b2 * v + (1 - b2) * g * g
        p -= lr * (m / (1 - b1**step)) / (math.sqrt(v / (1 - b2**step)) + eps)
        np.testing.assert_allclose([P[0], M[0], V[0]], [p, m, v])


def test_amsgrad_keeps_the_largest_second_moment() -> None:
    P, M, V, X = (np.zeros(1) for _ in range(4))
    for step, g in enumerate([3.0, 0.1, 0.1], 1):
        rules.adam_(P, np.array([g]), M, V, X, step, 0.1, 0.9, 0.5, 1e-8, 0, False, False)
    assert X[0] == 4.5
    assert V[0] < 4.5


def test_decay_is_added_or_decoupled() -> None:
    for decoupled, expected in [(False, 1 - 0.1), (True, 1 - 0.1 * 0.5)]:
        P, M, V = np.ones(1), np.zeros(1), np.zeros(1)
        g = np.zeros(1)
        rules.adam_(P, g, M, V, None, 1, 0.1, 0.9, 0.99, 1e-12, 0.5, decoupled, False)
        np.testing.assert_allclose(P, expected)
        assert g[0] == 0


@pytest.mark.parametrize("nesterov", [False, True])
def test_sgd_momentum_is_the_recurrence(nesterov: bool) -> None:
    p, b = 1.0, 0.0
    P, B = np.array([p]), np.array([123.0])  # what is in a fresh buffer does not matter
    for i, g in enumerate([0.5, -2.0, 1.0]):
        rules.sgd_(P, np.array([g]), B, 0.1, 0.9, 0.0, 0.01, nesterov, True, i == 0)
        d = -g + 0.01 * p
        b = d if i == 0 else 0.9 * b + d
        p -= 0.1 * (d + 0.9 * b if nesterov else b)
        np.testing.assert_allclose([P[0], B[0]], [p, b])


FLAGS = (False, True)


def close(dtype: Any) -> dict[str, float]:
    return {"rtol": 2e-5, "atol": 1e-6} if dtype is np.float32 else {"rtol": 1e-12, "atol": 1e-14}


@pytest.mark.parametrize("n", [0, 7, 300_001])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_adam_kernel_is_the_rule(dtype: Any, n: int) -> None:
    p, g, m = (RNG.normal(size=n).astype(dtype) for _ in range(3))
    v, vmax = (np.abs(RNG.normal(size=n)).astype(dtype) for _ in range(2))
    for decay, decoupled, maximize, amsgrad in product((0.0, 0.1), FLAGS, FLAGS, FLAGS):
        mine, theirs = ([x.copy() for x in (p, m, v, vmax)] for _ in range(2))
        for kernel, (a, b, c, d) in ((native.adam_, mine), (rules.adam_, theirs)):
            most = d if amsgrad else None
            kernel(a, g, b, c, most, 3, 1e-2, 0.9, 0.99, 1e-8, decay, decoupled, maximize)
        for x, y in zip(mine, theirs, strict=True):
            np.testing.assert_allclose(x, y, **close(dtype))


@pytest.mark.parametrize("n", [0, 7, 300_001])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sgd_kernel_is_the_rule(dtype: Any, n: int) -> None:
    p, g, buf = (RNG.normal(size=n).astype(dtype) for _ in range(3))
    kinds = ((0.0, 0.3, False), (0.9, 0.3, False), (0.9, 0.0, True))
    for (momentum, dampening, nesterov), first, maximize in product(kinds, FLAGS, FLAGS):
        mine, theirs = ([x.copy() for x in (p, buf)] for _ in range(2))
        for kernel, (a, b) in ((native.sgd_, mine), (rules.sgd_, theirs)):
            state = b if momentum else None
            kernel(a, g, state, 0.1, momentum, dampening, 0.01, nesterov, maximize, first)
        for x, y in zip(mine, theirs, strict=True):
            np.testing.assert_allclose(x, y, **close(dtype))


def test_rules_take_any_strides() -> None:
    p, g = np.ones((4, 6)).T, np.ones((6, 4))
    rules.sgd_(p, g, None, 0.5, 0, 0, 0, False, False, True)
    assert (p == 0.5).all()
