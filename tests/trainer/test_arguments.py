"""Wrong arguments and data are named before anything has begun, or where they are met."""

from __future__ import annotations

from typing import Any

import pytest

import shmtensor as st
from shmtensor import nn, optim
from shmtensor.nn import functional as F
from shmtensor.trainer import EMA, Trainer

from .test_trainer import make_data, make_model, make_trainer


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"accumulate": 0}, "accumulate is not a positive whole number: 0"),
        ({"accumulate": 1.5}, r"accumulate is not a positive whole number: 1\.5"),
        ({"clip_grad_norm": -1.0}, r"clip_grad_norm is not a number from 0 on: -1\.0"),
        ({"clip_grad_value": "1"}, "clip_grad_value is not a number from 0 on: '1'"),
        ({"snapshots": -1}, "snapshots is not a number from 0 on: -1"),
        ({"on_nonfinite": "ignore"}, "on_nonfinite is not .*: 'ignore'"),
        ({"callbacks": [EMA]}, "not a Callback: <class .*EMA'>"),
        ({"metrics": {"f1": 3}}, r"metrics\['f1'\] cannot be called: 3"),
        ({"training_step": "step"}, "training_step cannot be called: 'step'"),
        ({"scheduler": 3}, "not a scheduler: 3"),
    ],
)
def test_wrong_arguments(options: dict[str, Any], message: str) -> None:
    with pytest.raises((ValueError, TypeError), match=f"^Trainer: {message}"):
        make_trainer(1, **options)


@pytest.mark.parametrize(
    "name", ["epochs", "max_steps", "eval_every", "limit_train_batches", "limit_eval_batches"]
)
@pytest.mark.parametrize("value", [0, -1, 1.5, "2"])
def test_wrong_arguments_of_fit(name: str, value: Any) -> None:
    trainer = make_trainer(1)
    arguments = {"epochs": 1, "eval": make_data(), name: value}
    with pytest.raises(ValueError, match=rf"Trainer\.fit: {name} is not a positive whole number"):
        trainer.fit(make_data(), **arguments)
    with pytest.raises(ValueError, match=r"Trainer\.fit: max_time is not a number from 0 on: -1"):
        trainer.fit(make_data(), max_time=-1)
    assert trainer.step == 0


@pytest.mark.parametrize("name", ["fit", "evaluate"])
def test_what_gives_no_batches(name: str) -> None:
    arguments = {"epochs": 1} if name == "fit" else {}
    with pytest.raises(TypeError, match=rf"Trainer\.{name}: batches come from .*: got None"):
        getattr(make_trainer(1), name)(None, **arguments)


def test_an_optimizer_is_made_first() -> None:
    for wrong in ("adam", optim.SGD):
        with pytest.raises(TypeError, match=r"not an optimizer .*: .*, pass one, as optim\.SGD"):
            Trainer(make_model(), wrong, nn.CrossEntropyLoss())  # type: ignore[arg-type]


def test_an_optimizer_that_needs_a_closure() -> None:
    model = make_model()
    with pytest.raises(TypeError, match=r"LBFGS\.step needs a closure"):
        Trainer(model, optim.LBFGS(model.parameters()), nn.CrossEntropyLoss())


@pytest.mark.parametrize("nprocs", [1, 2])
@pytest.mark.parametrize("data", [[], iter(())])
def test_held_out_data_without_batches(data: Any, nprocs: int) -> None:
    trainer = make_trainer(nprocs, metrics=[F.cross_entropy])
    with pytest.raises(ValueError, match=r"Trainer\.fit: the held-out data gave no batch"):
        trainer.fit(make_data(), 1, eval=data)
    with pytest.raises(ValueError, match=r"Trainer\.evaluate: the held-out data gave no batch"):
        trainer.evaluate(data)


def test_metrics_without_outputs() -> None:
    def step(model: Any, batch: Any) -> Any:
        return F.cross_entropy(model(batch[0]), batch[1])

    trainer = make_trainer(2, metrics=[F.cross_entropy], training_step=step)
    with pytest.raises(TypeError, match=r'metrics need outputs: .*"loss", "outputs" and "targets"'):
        trainer.fit(make_data(), 1, eval=make_data())


def test_evaluations_of_several_optimizers() -> None:
    model = make_model()
    optimizers = [optim.Adam(model[i].parameters()) for i in (0, 3)]
    trainer = Trainer(model, optimizers, training_step=lambda model, batch, i: None)
    with pytest.raises(ValueError, match=r"Trainer\.evaluate: .* pass an eval_step"):
        trainer.evaluate(make_data())


def test_a_prediction_of_what_is_no_batches() -> None:
    with pytest.raises(TypeError, match=r"batches: got one of shape .*4, 6.*, pass \[x\]"):
        make_trainer(1).predict(st.zeros(4, 6))
