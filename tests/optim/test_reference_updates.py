"""The update rules in NumPy against the formulas of their papers, and the kernels against them."""

from __future__ import annotations

import math
from itertools import product
from typing import Any

import numpy as np
import pytest

from shmtensor import native
from shmtensor.optim import reference_updates

RNG = np.random.default_rng(0)


def test_adam_is_the_papers_algorithm() -> None:
    p, m, v = 1.0, 0.0, 0.0
    lr, b1, b2, eps = 0.1, 0.8, 0.9, 1e-3
    P, M, V = (np.array([x]) for x in (p, m, v))
    for step, g in enumerate([0.5, -2.0, 1.0], 1):
        reference_updates.adam_(
            P, np.array([g]), M, V, None, step, lr, b1, b2, eps, 0.0, False, False
        )
        m = b1 * m + (1 - b1) * g
        v = b2 * v + (1 - b2) * g * g
        p -= lr * (m / (1 - b1**step)) / (math.sqrt(v / (1 - b2**step)) + eps)
        np.testing.assert_allclose([P[0], M[0], V[0]], [p, m, v])


def test_amsgrad_keeps_the_largest_second_moment() -> None:
    P, M, V, X = (np.zeros(1) for _ in range(4))
    for step, g in enumerate([3.0, 0.1, 0.1], 1):
        reference_updates.adam_(
            P, np.array([g]), M, V, X, step, 0.1, 0.9, 0.5, 1e-8, 0, False, False
        )
    assert X[0] == 4.5
    assert V[0] < 4.5


def test_decay_is_added_or_decoupled() -> None:
    for decoupled, expected in [(False, 1 - 0.1), (True, 1 - 0.1 * 0.5)]:
        P, M, V = np.ones(1), np.zeros(1), np.zeros(1)
        g = np.zeros(1)
        reference_updates.adam_(P, g, M, V, None, 1, 0.1, 0.9, 0.99, 1e-12, 0.5, decoupled, False)
        np.testing.assert_allclose(P, expected)
        assert g[0] == 0


@pytest.mark.parametrize("nesterov", [False, True])
def test_sgd_momentum_is_the_recurrence(nesterov: bool) -> None:
    p, b = 1.0, 0.0
    P, B = np.array([p]), np.array([123.0])  # the initial contents of a buffer do not matter
    for i, g in enumerate([0.5, -2.0, 1.0]):
        reference_updates.sgd_(P, np.array([g]), B, 0.1, 0.9, 0.0, 0.01, nesterov, True, i == 0)
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
        for kernel, (a, b, c, d) in ((native.adam_, mine), (reference_updates.adam_, theirs)):
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
        for kernel, (a, b) in ((native.sgd_, mine), (reference_updates.sgd_, theirs)):
            state = b if momentum else None
            kernel(a, g, state, 0.1, momentum, dampening, 0.01, nesterov, maximize, first)
        for x, y in zip(mine, theirs, strict=True):
            np.testing.assert_allclose(x, y, **close(dtype))


def test_rules_take_any_strides() -> None:
    p, g = np.ones((4, 6)).T, np.ones((6, 4))
    reference_updates.sgd_(p, g, None, 0.5, 0, 0, 0, False, False, True)
    assert (p == 0.5).all()


GRADIENTS = [0.5, -2.0, 1.0, 0.25]


def check(rule: Any, states: int, arguments: Any, step: Any, fill: float = 0.0) -> None:
    """Compares a rule on one number with `step(p, g, state, t)`, which returns the new p."""
    P, S = np.array([1.0]), [np.full(1, fill if i else 0.0) for i in range(states)]
    p, state = 1.0, [float(x[0]) for x in S]
    for t, g in enumerate(GRADIENTS, 1):
        rule(P, np.array([g]), *S, *arguments(t))
        p = step(p, g, state, t)
        np.testing.assert_allclose([P[0], *(x[0] for x in S)], [p, *state])


def test_adadelta_is_the_papers_algorithm() -> None:
    def step(p: float, g: float, s: list[float], t: int) -> float:
        g += 0.1 * p
        s[0] = 0.8 * s[0] + 0.2 * g * g
        move = math.sqrt(s[1] + 1e-2) / math.sqrt(s[0] + 1e-2) * g
        s[1] = 0.8 * s[1] + 0.2 * move * move
        return p - 0.5 * move

    check(reference_updates.adadelta_, 2, lambda t: (0.5, 0.8, 1 - 0.8, 1e-2, 0.1, False), step)


def test_adagrad_is_the_papers_algorithm() -> None:
    def step(p: float, g: float, s: list[float], t: int) -> float:
        s[0] += g * g
        return p + 0.5 * g / (math.sqrt(s[0]) + 1e-3)

    check(reference_updates.adagrad_, 1, lambda t: (0.5, 1e-3, 0.0, True), step)


def test_adamax_is_the_papers_algorithm() -> None:
    def step(p: float, g: float, s: list[float], t: int) -> float:
        s[0] = 0.9 * s[0] + 0.1 * g
        s[1] = max(0.5 * s[1], abs(g) + 1e-3)
        return p - 0.1 / (1 - 0.9**t) * s[0] / s[1]

    check(
        reference_updates.adamax_,
        2,
        lambda t: (0.1 / (1 - 0.9**t), 0.1, 0.5, 1e-3, 0.0, False),
        step,
    )


def test_asgd_averages_the_parameter() -> None:
    def step(p: float, g: float, s: list[float], t: int) -> float:
        p = p * (1 - 0.01) - 0.1 * g
        s[0] += (p - s[0]) / t
        return p

    check(reference_updates.asgd_, 1, lambda t: (0.1, 1 / t, 1 - 0.01, 0.0, False), step)


def test_nadam_is_the_papers_algorithm() -> None:
    b1, b2, product = 0.8, 0.9, [1.0]

    def sizes(t: int) -> tuple[Any, ...]:
        return 0.1 * (1 - b1) / (1 - b1**t), 0.1 * b1 / (1 - b1 ** (t + 1))

    def step(p: float, g: float, s: list[float], t: int) -> float:
        s[0] = b1 * s[0] + (1 - b1) * g
        s[1] = b2 * s[1] + (1 - b2) * g * g
        product[0] *= b1
        ahead = b1 * s[0] / (1 - product[0] * b1) + (1 - b1) * g / (1 - product[0])
        return p * 0.9 - 0.1 * ahead / (math.sqrt(s[1] / (1 - b2**t)) + 1e-3)

    def arguments(t: int) -> tuple[Any, ...]:
        root = (1 - b2**t) ** -0.5
        return (*sizes(t), 1 - b1, b2, 1 - b2, root, 1e-3, 0.9, 0.0, False)

    check(reference_updates.nadam_, 2, arguments, step)


def test_radam_is_the_papers_algorithm() -> None:
    def step(p: float, g: float, s: list[float], t: int) -> float:
        s[0] = 0.8 * s[0] + 0.2 * g
        s[1] = 0.9 * s[1] + 0.1 * g * g
        trusted = 0.7 / (math.sqrt(s[1]) + 1e-3) if t > 2 else 1.0
        return p - 0.1 * s[0] * trusted

    def arguments(t: int) -> tuple[Any, ...]:
        return 0.1, 0.7 if t > 2 else 0.0, 1 - 0.8, 0.9, 1 - 0.9, 1e-3, 1.0, 0.0, False

    check(reference_updates.radam_, 2, arguments, step)


def test_rmsprop_is_the_lectures_algorithm() -> None:
    def step(p: float, g: float, s: list[float], t: int) -> float:
        s[0] = 0.9 * s[0] + 0.1 * g * g
        s[2] = 0.9 * s[2] + 0.1 * g
        s[1] = 0.5 * s[1] + g / (math.sqrt(s[0] - s[2] ** 2) + 1e-3)
        return p - 0.1 * s[1]

    check(reference_updates.rmsprop_, 3, lambda t: (0.1, 0.9, 1 - 0.9, 1e-3, 0.5, 0.0, False), step)


def test_rprop_steps_grow_and_shrink() -> None:
    def step(p: float, g: float, s: list[float], t: int) -> float:
        if g * s[0] > 0:
            s[1] = min(s[1] * 1.5, 0.4)
        elif g * s[0] < 0:
            s[1], g = max(s[1] * 0.5, 0.2), 0.0
        s[0] = g
        return p - s[1] * float(np.sign(g))

    check(reference_updates.rprop_, 2, lambda t: (0.5, 1.5, 0.2, 0.4, 0.0, False), step, fill=0.3)


# Number of state arrays and the numbers of each rule, without weight_decay and maximize.
FAMILY: dict[str, tuple[int, tuple[float, ...]]] = {
    "adadelta_": (2, (0.5, 0.9, 0.1, 1e-3)),
    "adagrad_": (1, (0.5, 1e-3)),
    "adamax_": (2, (0.5, 0.1, 0.9, 1e-3)),
    "asgd_": (1, (0.1, 0.5, 0.9)),
    "nadam_": (2, (0.1, 0.2, 0.1, 0.9, 0.1, 1.5, 1e-3, 0.9)),
    "radam_": (2, (0.1, 0.8, 0.1, 0.9, 0.1, 1e-3, 0.9)),
    "rmsprop_": (3, (0.1, 0.9, 0.1, 1e-3, 0.8)),
    "rprop_": (2, (0.5, 1.2, 0.2, 2.0)),
}


@pytest.mark.parametrize("n", [0, 7, 30_001])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", sorted(FAMILY))
def test_kernel_is_the_rule(name: str, dtype: Any, n: int) -> None:
    count, numbers = FAMILY[name]
    p, g = (RNG.normal(size=n).astype(dtype) for _ in range(2))
    # squares are larger than 1, so that a centered variance stays positive
    state = [RNG.uniform(1, 2, size=n).astype(dtype) for _ in range(count)]
    if name == "rmsprop_":
        state[2] /= 4
    missing: list[tuple[int, ...]] = [(), (1,), (2,), (1, 2)] if name == "rmsprop_" else [()]
    variants = [numbers]
    if name in ("asgd_", "radam_"):  # mu = 1; not rectified
        variants.append((numbers[0], float(name == "asgd_"), *numbers[2:]))
    for variant, decay, maximize, left_out in product(variants, (0.0, 0.1), FLAGS, missing):
        ends = []
        for module in (native, reference_updates):
            x, s = p.copy(), [a.copy() for a in state]
            arrays = [None if i in left_out else a for i, a in enumerate(s)]
            getattr(module, name)(x, g, *arrays, *variant, decay, maximize)
            ends.append([x, *s])
        for mine, theirs in zip(*ends, strict=True):
            np.testing.assert_allclose(mine, theirs, **close(dtype))


def test_kernels_name_mismatched_arguments() -> None:
    x = np.ones(3)
    with pytest.raises(TypeError, match=r"adagrad_.*float32"):
        native.adagrad_(x, np.ones(3, np.float32), x.copy(), 0.1, 0.0, 0.0, False)
    with pytest.raises(ValueError, match=r"rprop_: step_size has another shape: \(2,?\)"):
        native.rprop_(x, x.copy(), x.copy(), np.ones(2), 0.5, 1.2, 0.1, 1.0, 0.0, False)
    with pytest.raises(TypeError, match="rmsprop_"):
        native.rmsprop_(x, x.copy(), None, None, None, 0.1, 0.9, 0.1, 0.0, 0.0, 0.0, False)  # type: ignore[arg-type]
