"""A checkpoint's path always holds a complete one, which is loaded whole or not at all."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import shmtensor as st
from shmtensor import optim, serialization
from shmtensor.trainer import EarlyStopping, Trainer, checkpoint

from .test_trainer import make_data, make_trainer, weights


def test_a_failed_write_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.ckpt"
    checkpoint.write(path, {"x": st.ones(3), "n": 1})

    def broken(state: object, target: Path) -> None:
        target.write_bytes(b"half")
        raise OSError("disk full")

    monkeypatch.setattr(serialization, "save", broken)
    with pytest.raises(OSError, match="disk full"):
        checkpoint.write(path, {"x": st.zeros(3), "n": 2})
    assert checkpoint.read(path)["n"] == 1
    assert list(tmp_path.iterdir()) == [path]


def test_other_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "weights.pt"
    serialization.save({"w": st.ones(2)}, path)
    with pytest.raises(ValueError, match="not a checkpoint of this format"):
        checkpoint.read(path)


def other_order(trainer: Trainer) -> None:
    parameters = list(trainer.model.parameters())[::-1]
    trainer.optimizers = [optim.Adam(parameters, lr=0.01)]
    trainer.scheduler = optim.lr_scheduler.StepLR(trainer.optimizer, 1)


def other_scheduler(trainer: Trainer) -> None:
    trainer.scheduler = optim.lr_scheduler.CosineAnnealingLR(trainer.optimizer, 5)


class Choosy(EarlyStopping):
    def load_state_dict(self, state: dict[str, Any]) -> None:
        raise KeyError("not mine")


def other_callback(trainer: Trainer) -> None:
    trainer.callbacks.insert(0, type("EarlyStopping", (Choosy,), {})("loss"))


@pytest.mark.parametrize("change", [other_order, other_scheduler, other_callback])
def test_what_is_refused_late_changes_nothing(change: Any, tmp_path: Path) -> None:
    def make() -> Trainer:
        trainer = make_trainer(1, callbacks=[EarlyStopping("loss")])
        trainer.scheduler = optim.lr_scheduler.StepLR(trainer.optimizer, 1)
        return trainer

    saved, trainer, reference = make(), make(), make()
    saved.fit(make_data(), 2)
    saved.save(tmp_path / "a.ckpt")
    for each in (trainer, reference):
        change(each)
        each.fit(make_data(), 1)
    with pytest.raises((RuntimeError, ValueError, KeyError)):
        trainer.load(tmp_path / "a.ckpt")
    for each in (trainer, reference):
        each.fit(make_data(), 3)
    assert (trainer.step, trainer.history["loss"]) == (reference.step, reference.history["loss"])
    for x, y in zip(weights(trainer), weights(reference), strict=True):
        np.testing.assert_array_equal(x, y)
