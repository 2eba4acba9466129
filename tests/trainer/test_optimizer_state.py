"""State of the optimizer that a callback changes counts on all ranks, as in one process."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from copy import deepcopy
from typing import Any

import numpy as np
import pytest

import shmtensor as st
from shmtensor import nn, optim
from shmtensor.trainer import Trainer

from .test_same_numbers import EPOCHS, STEPS, adam, check_same, classes, fit, momentum, net


def write_zeros(optimizer: Any, saved: Any) -> None:
    for entry in optimizer.state.values():
        entry["exp_avg"].zero_()


def write_counts(optimizer: Any, saved: Any) -> None:
    for entry in optimizer.state.values():
        entry["step"].fill_(1)


def replace_state(optimizer: Any, saved: Any) -> None:
    for entry in optimizer.state.values():
        entry["exp_avg"] = st.zeros_like(entry["exp_avg"])


STATES: dict[str, Callable[[Any, Any], None]] = {
    "write zeros": write_zeros,
    "write counts": write_counts,
    "replace": replace_state,
    "clear": lambda optimizer, saved: optimizer.state.clear(),
    "load": lambda optimizer, saved: optimizer.load_state_dict(saved),
}


@pytest.mark.parametrize("how", STATES)
@pytest.mark.parametrize("when", ["on_step", "on_epoch"])
def test_state_of_the_optimizer_changed_by_a_callback(how: str, when: str) -> None:
    def prepare(trainer: Trainer) -> dict[str, Any]:
        saved: list[Any] = []

        def change(_: Any) -> None:
            saved.append(deepcopy(trainer.optimizer.state_dict()))
            if len(saved) == 3:
                STATES[how](trainer.optimizer, saved[1])

        return {when: change}

    check_same(nn.CrossEntropyLoss(), classes(), prepare=prepare, ranks=(2,))


@pytest.mark.parametrize("make_optimizer", [adam, lambda m: optim.SGD(m.parameters(), lr=0.1)])
@pytest.mark.parametrize("when", ["on_step", "on_epoch"])
def test_an_option_that_needs_more_state(make_optimizer: Any, when: str) -> None:
    options = {"amsgrad": True, "momentum": 0.9}
    kept = []
    for nprocs in (1, 2):
        model = net()
        optimizer = make_optimizer(model)
        trainer = Trainer(
            model, optimizer, nn.CrossEntropyLoss(), nprocs=nprocs, progress=False, timeout=60
        )
        group, calls = optimizer.param_groups[0], itertools.count()

        def change(_: Any, group: Any = group, calls: Any = calls) -> None:
            if next(calls) == 2:
                group.update({name: x for name, x in options.items() if name in group})

        trainer.fit(classes(), EPOCHS, **{when: change})
        kept.append([x for entry in optimizer.state.values() for x in entry.values()])
    for x, y in zip(*kept, strict=True):
        np.testing.assert_allclose(y.numpy(), x.numpy(), rtol=1e-9, atol=1e-13)


@pytest.mark.parametrize("when", ["on_step", "on_epoch"])
def test_an_optimizer_replaced_by_a_callback(when: str) -> None:
    calls = itertools.count(1)

    def prepare(trainer: Trainer) -> dict[str, Any]:
        def change(_: Any) -> None:
            if next(calls) % 5 == 2:
                trainer.optimizers[0] = momentum(trainer.model)

        return {when: change}

    two = check_same(nn.CrossEntropyLoss(), classes(), prepare=prepare, ranks=(2,))
    assert [*two.optimizer.state[two.model[0].weight]] == ["momentum_buffer"]


def test_state_that_is_the_programs() -> None:
    def outside(model: Any) -> Any:
        optimizer = adam(model)
        for p in model.parameters():
            zeros = {name: st.zeros_like(p) for name in ("exp_avg", "exp_avg_sq")}
            optimizer.state[p] = {"step": st.tensor(0.0), **zeros}
        return optimizer

    one = fit(1, nn.CrossEntropyLoss(), classes(), make_optimizer=outside)
    two = check_same(nn.CrossEntropyLoss(), classes(), make_optimizer=outside, ranks=(2,))
    for x, y in zip(one.optimizer.state.values(), two.optimizer.state.values(), strict=True):
        assert x["step"] == y["step"] == EPOCHS * STEPS
        np.testing.assert_allclose(x["exp_avg"].numpy(), y["exp_avg"].numpy(), rtol=1e-9)
