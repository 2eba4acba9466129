"""Schedules: their formulas, chaining, state; and PyTorch's rates where it is installed."""

from __future__ import annotations

import copy
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
    assert lrs == [0.1] * 4 + [0.05] * 4 + [0.03] * 2
    assert schedule.is_better(0.5, 1.0)
    assert not schedule.is_better(0.99995, 1.0)
    best = schedules.ReduceLROnPlateau(optimizer(), mode="max", threshold_mode="abs", threshold=0.1)
    assert best.is_better(1.2, 1.0)
    assert not best.is_better(1.05, 1.0)


def test_stepping_the_schedule_first_warns() -> None:
    for schedule in (
        schedules.StepLR(optimizer(), 1),
        schedules.CosineAnnealingWarmRestarts(optimizer(), 2),
    ):
        with pytest.warns(UserWarning, match=r"before `optimizer.step\(\)`") as caught:
            schedule.step()
        assert caught[0].filename == __file__


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
        (lambda: schedules.LambdaLR(o, 0.5), "lr_lambda must be a function of the step: got 0.5"),
        (lambda: schedules.MultiStepLR(o, 3), "milestones must be a list of steps: got 3"),
        (lambda: schedules.StepLR(o, 0), "StepLR: step_size must be positive: 0"),
        (lambda: schedules.StepLR(o, "3"), "step_size must be a number of steps: got '3'"),
        (lambda: schedules.CosineAnnealingLR(o, 0), "T_max must be positive: 0"),
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


# ---------------------------------------------------------------- resumed by last_epoch alone


class At:
    """The module of schedules with every schedule resumed after step `last_epoch`."""

    def __init__(self, last_epoch: int, name: str) -> None:
        self.last_epoch = last_epoch
        self.name = name

    def __getattr__(self, name: str) -> Any:
        def make(*args: Any, **kwargs: Any) -> Any:
            schedule = getattr(schedules, name)
            if name == "ChainedScheduler" or (self.name == "SequentialLR" and name != self.name):
                return schedule(*args, **kwargs)  # SequentialLR begins its schedules itself
            return schedule(*args, last_epoch=self.last_epoch, **kwargs)

        return make


def settings(o: Any) -> list[list[float]]:
    return [[group["lr"], group["momentum"]] for group in o.param_groups]


def run(name: str, n: int) -> tuple[list[Any], list[Any]]:
    """The settings after each step, and the states of the optimizer."""
    o = optimizer()
    schedule = SCHEDULES[name](schedules, o)
    history, saved = [settings(o)], [copy.deepcopy(o.state_dict())]
    for _ in range(n):
        o.step()
        schedule.step()
        history.append(settings(o))
        saved.append(copy.deepcopy(o.state_dict()))
    return history, saved


@pytest.mark.parametrize("name", SCHEDULES)
def test_a_resumed_schedule_goes_on_at_every_epoch(name: str) -> None:
    history, saved = run(name, 30)
    for k in range(1, 30):
        o = optimizer()
        o.load_state_dict(saved[k])
        schedule = SCHEDULES[name](At(k - 1, name), o)
        np.testing.assert_allclose(settings(o), history[k], err_msg=f"resumed at {k}")
        np.testing.assert_allclose(schedule.get_last_lr(), [lr for lr, _ in history[k]])
        for j in range(k + 1, 31):
            o.step()
            schedule.step()
            np.testing.assert_allclose(settings(o), history[j], err_msg=f"{j}, resumed at {k}")


@pytest.mark.parametrize("name", sorted(SCHEDULES.keys() - {"ChainedScheduler"}))
def test_a_schedule_resumes_an_optimizer_with_its_initial_rates(name: str) -> None:
    history, saved = run(name, 30)
    for k in range(1, 30):
        o = optimizer()
        for group, was in zip(o.param_groups, saved[0]["param_groups"]):
            group["lr"] = group["initial_lr"] = was["initial_lr"]
        schedule = SCHEDULES[name](At(k - 1, name), o)
        for j in range(k, 31):
            np.testing.assert_allclose(settings(o), history[j], err_msg=f"{j}, resumed at {k}")
            if j < 30:
                o.step()
                schedule.step()


def test_a_rate_that_was_saved_before_the_schedules_step_is_advanced() -> None:
    o = optimizer()
    for group in o.param_groups:
        group["initial_lr"], group["lr"] = 1.0, 0.25  # of epoch 2
    schedules.ExponentialLR(o, 0.5, last_epoch=2)
    assert [group["lr"] for group in o.param_groups] == [0.125, 0.125]


def test_a_rate_that_something_else_changed_stays() -> None:
    o = optimizer()
    for group in o.param_groups:
        group["initial_lr"], group["lr"] = 1.0, 0.01
    schedule = schedules.ExponentialLR(o, 0.5, last_epoch=2)
    assert schedule.get_last_lr() == [0.01, 0.01]
    o.step()
    schedule.step()
    assert schedule.get_last_lr() == [0.005, 0.005]


def test_restarts_are_not_missed_by_rounding() -> None:
    """(3**5 - 1) / 2 is a restart; a logarithm of 243 is 4.999."""
    o = optimizer()
    for group in o.param_groups:
        group["initial_lr"] = group["lr"]
    schedule = schedules.CosineAnnealingWarmRestarts(o, 1, 3, last_epoch=120)
    assert schedule.get_last_lr() == [0.1, 0.05]
    assert (schedule.T_cur, schedule.T_i) == (0, 243)


def test_the_rate_of_swa_goes_on() -> None:
    def make(last_epoch: int, o: Any) -> Any:
        return optim.swa_utils.SWALR(o, [0.01, 0.2], 5, "linear", last_epoch)

    o = optimizer()
    schedule = make(-1, o)
    history, saved = [settings(o)], [copy.deepcopy(o.state_dict())]
    for _ in range(8):
        o.step()
        schedule.step()
        history.append(settings(o))
        saved.append(copy.deepcopy(o.state_dict()))
    np.testing.assert_allclose(history[2], [[0.1 + (0.01 - 0.1) * 2 / 5, 0.9], [0.11, 0.9]])
    for k in range(1, 8):
        o = optimizer()
        o.load_state_dict(saved[k])
        schedule = make(k - 1, o)
        for j in range(k, 9):
            np.testing.assert_allclose(settings(o), history[j], err_msg=f"{j}, resumed at {k}")
            o.step()
            schedule.step()


def test_the_state_of_a_plateau_continues() -> None:
    metrics = [1.0, 0.9, 0.95, 0.95, 0.95, 0.8, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9]

    def make(o: Any) -> Any:
        return schedules.ReduceLROnPlateau(o, patience=1, factor=0.5, cooldown=1)

    o = optimizer()
    schedule = make(o)
    for i, metric in enumerate(metrics):
        schedule.step(metric)
        q = optimizer()
        q.load_state_dict(o.state_dict())
        other = make(q)
        other.load_state_dict(schedule.state_dict())
        for later in metrics[i + 1 :]:
            other.step(later)
        assert settings(q) == [[0.0125, 0.9], [0.00625, 0.9]], i


def test_a_constant_rate_of_zero_ends() -> None:
    o = optimizer()
    history = rates(o, schedules.ConstantLR(o, 0.0, 3), 4)
    assert [r[0] for r in history] == [0, 0, 0.1, 0.1]


def test_users_schedules_read_pytorchs_names() -> None:
    calls = []

    class Mine(schedules.LRScheduler):
        def get_lr(self) -> list[Any]:
            assert self._get_lr_called_within_step
            calls.append(self._is_initial)
            return [base / (1 + self.last_epoch) for base in self.base_lrs]

    o = optimizer()
    schedule = Mine(o)
    rates(o, schedule, 1)
    assert calls == [True, False]
    assert not schedule._is_initial
    assert Mine(o, last_epoch=2).get_last_lr() == [0.1 / 4, 0.05 / 4]


# ---------------------------------------------------------------- skipped steps


@pytest.mark.parametrize("n_skipped", [1, 3])
@pytest.mark.parametrize("name", SCHEDULES)
def test_a_step_that_a_scaler_skips_is_no_missing_step(name: str, n_skipped: int) -> None:
    o = optimizer()
    schedule, scaler = SCHEDULES[name](schedules, o), st.amp.GradScaler("cpu")
    for _ in range(n_skipped):
        o.zero_grad()
        scaler.scale(o.param_groups[0]["params"][0].sum() * math.inf).backward()
        scaler.step(o)
        scaler.update()
        schedule.step()  # warnings are errors
    assert o.param_groups[0]["params"][0].tolist() == [1]
