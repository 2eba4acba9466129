"""Averages of weights, and their schedule."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import shmtensor as st
from shmtensor import nn, optim
from shmtensor.optim import swa_utils
from shmtensor.optim.swa_utils import AveragedModel


def averaged(**kwargs: Any) -> tuple[float, Any]:
    """The average of the weights 1, 2, 6 in this order."""
    model = nn.Linear(1, 1, bias=False)
    average = AveragedModel(model, **kwargs)
    for value in (1.0, 2.0, 6.0):
        model.weight.data.fill_(value)
        average.update_parameters(model)
    return average.module.weight.item(), average


@pytest.mark.parametrize(
    "kwargs",
    [
        {},
        {"avg_fn": swa_utils.get_swa_avg_fn()},
        {"multi_avg_fn": swa_utils.get_swa_multi_avg_fn()},
    ],
)
def test_mean_of_all_updates(kwargs: dict[str, Any]) -> None:
    value, average = averaged(**kwargs)
    assert value == pytest.approx(3)
    assert average.n_averaged.item() == 3
    assert list(average.state_dict()) == ["n_averaged", "module.weight"]


@pytest.mark.parametrize(
    "kwargs",
    [
        {"avg_fn": swa_utils.get_ema_avg_fn(0.5)},
        {"multi_avg_fn": swa_utils.get_ema_multi_avg_fn(0.5)},
    ],
)
def test_exponential_average(kwargs: dict[str, Any]) -> None:
    assert averaged(**kwargs)[0] == pytest.approx(((1 + 2) / 2 + 6) / 2)


def test_buffers_are_copied_or_averaged() -> None:
    for use_buffers, expected in [(False, 6), (True, 3)]:
        model = nn.Module()
        model.register_buffer("n", st.tensor(0.0))
        average = AveragedModel(model, use_buffers=use_buffers)
        for value in (1, 2, 6):
            model.n.fill_(value)
            average.update_parameters(model)
        assert average.module.n.item() == expected


def test_statistics_are_those_of_all_batches() -> None:
    model = nn.Sequential(nn.BatchNorm1d(2), nn.Linear(2, 1))
    model.eval()
    batches = np.random.default_rng(0).normal(size=(3, 8, 2)).astype(np.float32)
    swa_utils.update_bn([(st.tensor(x), "label") for x in batches], model)
    np.testing.assert_allclose(
        model[0].running_mean.numpy(), batches.mean(1).mean(0), rtol=1e-4, atol=1e-6
    )
    assert model[0].momentum == 0.1
    assert not model.training
    swa_utils.update_bn([], nn.Linear(2, 1))  # nothing to do


def test_rate_becomes_constant() -> None:
    o = optim.SGD([nn.Parameter(st.ones(1))], lr=1.0)
    schedule = swa_utils.SWALR(o, swa_lr=0.5, anneal_epochs=4, anneal_strategy="linear")
    rates = []
    for _ in range(6):
        o.step()
        schedule.step()
        rates.append(o.param_groups[0]["lr"])
    np.testing.assert_allclose(rates, [0.875, 0.75, 0.625, 0.5, 0.5, 0.5])


def test_wrong_arguments_are_refused() -> None:
    o = optim.SGD([nn.Parameter(st.ones(1))], lr=1.0)
    with pytest.raises(ValueError, match="'cos' or 'linear', instead got sin"):
        swa_utils.SWALR(o, 0.5, anneal_strategy="sin")
    with pytest.raises(ValueError, match="greater than 0, got -1"):
        swa_utils.SWALR(o, 0.5, anneal_epochs=-1)
    with pytest.raises(ValueError, match=r"Invalid decay value 1\.5"):
        swa_utils.get_ema_avg_fn(1.5)
    with pytest.raises(AssertionError, match="Only one of"):
        AveragedModel(nn.Linear(1, 1), avg_fn=max, multi_avg_fn=max)
