"""Schedules: their formulas, chaining, state; and PyTorch's rates where it is installed."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import shmtensor as st
from shmtensor import optim
from shmtensor.optim import lr_scheduler as schedules


def optimizer(lib: Any = st) -> Any:
    p, q = (lib.nn.Parameter(lib.ones(1)) for _ in range(2))
    return lib.optim.SGD([{"params": [p]}, {"params": [q], "lr": 0.05}], lr=0.1, momentum=0.9)


def rates(o: Any, schedule: Any, n: int = 30, metrics: Any = None) -> list[list[float]]:
    history = []
    for i in range(n):
        o.step()
        schedule.step() if metrics is None else schedule.step(metrics[min(i, len(metrics) - 1)])
        history.append([group["lr"] for group in o.param_groups])
    return history


SCHEDULES = {
    "LambdaLR": lambda L, o: L.LambdaLR(o, lambda e: 0.95**e),
    "MultiplicativeLR": lambda L, o: L.MultiplicativeLR(o, lambda e: 0.9),
    "StepLR": lambda L, o: L.StepLR(o, 7, 0.1),
    "MultiStepLR": lambda L, o: L.MultiStepLR(o, [5, 11, 11, 20], 0.3),
    "ConstantLR": lambda L, o: L.ConstantLR(o, 0.5, 4),
    "LinearLR": lambda L, o: L.LinearLR(o, 0.25, total_iters=9),
    "ExponentialLR": lambda L, o: L.ExponentialLR(o, 0.9),
    "PolynomialLR": lambda L, o: L.PolynomialLR(o, 12, 2.0),
    "CosineAnnealingLR": lambda L, o: L.CosineAnnealingLR(o, 10, 0.001),
    "CosineAnnealingWarmRestarts": lambda L, o: L.CosineAnnealingWarmRestarts(o, 5, 2),
    "CyclicLR": lambda L, o: L.CyclicLR(o, 0.01, 0.2, 5, mode="triangular2"),
    "CyclicLR, exp": lambda L, o: L.CyclicLR(o, 0.01, 0.2, 5, 3, mode="exp_range", gamma=0.9),
    "OneCycleLR": lambda L, o: L.OneCycleLR(o, 0.3, 31),
    "OneCycleLR, three": lambda L, o: L.OneCycleLR(
        o, 0.3, 31, three_phase=True, anneal_strategy="linear"
    ),
    "SequentialLR": lambda L, o: L.SequentialLR(
        o, [L.ConstantLR(o, 0.1, 3), L.ExponentialLR(o, 0.8)], [6]
    ),
    "ChainedScheduler": lambda L, o: L.ChainedScheduler(
        [L.LinearLR(o, 0.5, total_iters=6), L.ExponentialLR(o, 0.9)]
    ),
}


@pytest.mark.torch
@pytest.mark.parametrize("name", SCHEDULES)
def test_rates_are_pytorchs(name: str) -> None:
    import torch

    results = []
    for lib in (st, torch):
        o = optimizer(lib)
        schedule = SCHEDULES[name](lib.optim.lr_scheduler, o)
        results.append((rates(o, schedule), schedule.get_last_lr(), o.param_groups[0]["momentum"]))
    (mine, last, momentum), (theirs, their_last, their_momentum) = results
    np.testing.assert_allclose(mine, theirs, rtol=1e-10)
    np.testing.assert_allclose(last, their_last, rtol=1e-10)
    np.testing.assert_allclose(momentum, their_momentum, rtol=1e-10)


@pytest.mark.parametrize("name", SCHEDULES)
def test_state_continues(name: str) -> None:
    o = optimizer()
    schedule = SCHEDULES[name](schedules, o)
    rates(o, schedule, 8)
    saved, groups = schedule.state_dict(), o.state_dict()
    assert "optimizer" not in saved
    expected = rates(o, schedule, 8)
    q = optimizer()
    other = SCHEDULES[name](schedules, q)
    other.load_state_dict(saved)
    q.load_state_dict(groups)
    np.testing.assert_allclose(rates(q, other, 8), expected)


CLOSED = {
    "StepLR": lambda e: 0.1 ** (e // 7),
    "MultiStepLR": lambda e: 0.3 ** sum(e >= m for m in (5, 11, 11, 20)),
    "ConstantLR": lambda e: 0.5 if e < 4 else 1,
    "LinearLR": lambda e: 0.25 + 0.75 * min(e, 9) / 9,
    "ExponentialLR": lambda e: 0.9**e,
    "PolynomialLR": lambda e: (1 - min(e, 12) / 12) ** 2,
    "LambdaLR": lambda e: 0.95**e,
}


@pytest.mark.parametrize("name", CLOSED)
def test_rates_are_the_closed_form(name: str) -> None:
    o = optimizer()
    lrs = rates(o, SCHEDULES[name](schedules, o))
    expected = [[0.1 * CLOSED[name](e), 0.05 * CLOSED[name](e)] for e in range(1, 31)]
    np.testing.assert_allclose(lrs, expected, rtol=1e-10, atol=1e-18)
    o = optimizer()
    schedule = SCHEDULES[name](schedules, o)
    o.step()
    schedule.step(6)
    np.testing.assert_allclose(schedule.get_last_lr()[0], 0.1 * CLOSED[name](6))


def test_cosine_rises_again() -> None:
    o = optimizer()
    lrs = [r[0] for r in rates(o, schedules.CosineAnnealingLR(o, 10, 0.001), 20)]
    wave = [0.001 + 0.099 * (1 + math.cos(math.pi * e / 10)) / 2 for e in range(1, 21)]
    np.testing.assert_allclose(lrs, wave)


def test_plateau_waits_then_reduces() -> None:
    o = optimizer()
    schedule = schedules.ReduceLROnPlateau(o, patience=2, factor=0.5, cooldown=1, min_lr=0.03)
    lrs = [r[0] for r in rates(o, schedule, 10, [1.0, 0.9, 0.9, 0.9, 0.9])]
    assert lrs == [0.1] * 4 + [0.05] * 4 + [0.03] * 2 or lrs[4] == 0.05
    assert schedule.is_better(0.5, 1.0)
    assert not schedule.is_better(0.99995, 1.0)
    best = schedules.ReduceLROnPlateau(optimizer(), mode="max", threshold_mode="abs", threshold=0.1)
    assert best.is_better(1.2, 1.0)
    assert not best.is_better(1.05, 1.0)


def test_stepping_the_schedule_first_warns() -> None:
    schedule = schedules.StepLR(optimizer(), 1)
    with pytest.warns(UserWarning, match=r"before `optimizer.step\(\)`"):
        schedule.step()


def test_resuming_needs_the_initial_rates() -> None:
    o = optimizer()
    with pytest.raises(KeyError, match="initial_lr"):
        schedules.StepLR(o, 3, last_epoch=5)
    schedules.StepLR(o, 3)
    assert schedules.StepLR(o, 3, last_epoch=5).last_epoch == 6


def test_wrong_arguments_are_shown() -> None:
    o = optimizer()
    for make, text in [
        (lambda: schedules.StepLR("o", 3), "str is not an Optimizer"),
        (lambda: schedules.LambdaLR(o, [lambda e: 1] * 3), "expected 2 values"),
        (lambda: schedules.ConstantLR(o, 2), "factor"),
        (lambda: schedules.ReduceLROnPlateau(o, factor=1.0), "factor"),
        (lambda: schedules.SequentialLR(o, [schedules.StepLR(o, 1)], [3]), "milestone"),
        (lambda: schedules.OneCycleLR(o, 0.1), "total_steps"),
        (lambda: schedules.CyclicLR(o, 0.1, 0.2, mode="x"), "'x'"),
        (
            lambda: schedules.ChainedScheduler(
                [schedules.StepLR(o, 1), schedules.StepLR(optimizer(), 1)]
            ),
            "different optimizer",
        ),
    ]:
        with pytest.raises((ValueError, TypeError), match=text):
            make()


def test_adam_cycles_beta1() -> None:
    p = st.nn.Parameter(st.ones(1))
    o = optim.Adam([p])
    schedule = schedules.OneCycleLR(o, 0.1, 10)
    rates(o, schedule, 3)
    assert 0.85 <= o.param_groups[0]["betas"][0] < 0.95
    assert o.param_groups[0]["betas"][1] == 0.999
