"""Callbacks together on a Trainer of two ranks: evaluations, a resume, a death."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from shmtensor import optim
from shmtensor.trainer import Trainer
from shmtensor.trainer.callbacks import (
    EMA,
    SWA,
    CSVLogger,
    EarlyStopping,
    ModelCheckpoint,
    Schedule,
)

from .test_callbacks import names, rows
from .test_faults import Deadly
from .test_trainer import make_data, make_trainer


def make_real(folder: Path, **options: Any) -> Trainer:
    """A trainer of two ranks, with every callback that has a state."""
    folder.mkdir()
    callbacks = [
        EMA(decay=0.8),
        SWA(2, lr=0.005, evaluates=False),
        EarlyStopping(patience=10),
        ModelCheckpoint(folder / "saved", every_n_steps=3, monitor="eval_loss"),
        CSVLogger(folder / "a.csv", every=1),
    ]
    trainer = make_trainer(2, dropout=0.2, callbacks=callbacks, **options)
    schedule = optim.lr_scheduler.LinearLR(trainer.optimizer, total_iters=3)
    trainer.callbacks.insert(0, Schedule(schedule, interval="step"))
    return trainer


def states(trainer: Trainer) -> dict[str, Any]:
    averages: Any = trainer.callbacks[1:3]
    each = (trainer.model, *(average.averaged for average in averages))
    return {f"{i} {k}": v.tolist() for i, x in enumerate(each) for k, v in x.state_dict().items()}


def test_evaluations_of_all_ranks_use_the_average(tmp_path: Path) -> None:
    trainer, data = make_real(tmp_path / "a"), make_data(20)
    trainer.fit(make_data(), 2, data)
    ema: Any = trainer.callbacks[1]
    training = trainer.evaluate(data)["loss"]
    ema.copy_to(trainer.model)
    average = trainer.evaluate(data)["loss"]
    assert math.isclose(average, trainer.history["eval_loss"][-1], rel_tol=1e-9)
    assert not math.isclose(average, training, rel_tol=1e-6)


def test_a_run_goes_on_from_the_middle_of_an_epoch_with_the_same_bits(tmp_path: Path) -> None:
    trainer, data = make_real(tmp_path / "a"), make_data()
    trainer.fit(data, 4, make_data(20))
    resumed = make_real(tmp_path / "b")
    resumed.load(tmp_path / "a" / "saved" / "epoch=2-step=9.ckpt")
    resumed.fit(data, 4, make_data(20))
    assert states(resumed) == states(trainer)
    for name in ("loss", "eval_loss", "lr"):
        assert resumed.history[name] == trainer.history[name]
    assert names(tmp_path / "b" / "saved") <= names(tmp_path / "a" / "saved")
    steps = [row["step"] for row in rows(tmp_path / "b" / "a.csv")]
    assert steps == [str(step) for step in range(10, 17)]


def test_a_death_leaves_no_trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rank 1 dies in its third step, in the middle of the update: the steps are made again."""
    undisturbed = make_real(tmp_path / "a")
    undisturbed.fit(make_data(), 2, make_data(20))
    monkeypatch.setenv("VICTIM_ONCE", str(tmp_path / "dead"))
    Deadly(monkeypatch, "mid update")
    trainer = make_real(tmp_path / "b", start_method="fork")
    with pytest.warns(RuntimeWarning, match="started again"):
        trainer.fit(make_data(), 2, make_data(20), max_restarts=1)
    assert states(trainer) == states(undisturbed)
    assert names(tmp_path / "a" / "saved") == names(tmp_path / "b" / "saved")
    without_times = [
        [{**row, "samples_per_second": ""} for row in rows(tmp_path / folder / "a.csv")]
        for folder in "ab"
    ]
    assert without_times[0] == without_times[1]
    assert len(without_times[0]) == trainer.step == 8
