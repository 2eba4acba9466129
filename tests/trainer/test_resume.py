"""A run that goes on from any of its checkpoints ends with the bits of an uninterrupted one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import shmtensor as st
from shmtensor.dataloaders import DataLoader, Dataset
from shmtensor.trainer import Trainer
from shmtensor.trainer.callbacks import ModelCheckpoint

from .test_trainer import make_data, make_trainer, weights


def assert_same_bits(x: Trainer, y: Trainer) -> None:
    assert (x.step, x.epoch, x.position) == (y.step, y.epoch, y.position)
    for name in ("loss", "lr", "samples"):
        assert x.history[name] == y.history[name]
    for a, b in zip(weights(x), weights(y), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("nprocs", [1, 2])
def test_what_on_step_and_on_epoch_change_is_in_the_checkpoint(nprocs: int, tmp_path: Path) -> None:
    def run(trainer: Trainer, **options: Any) -> Trainer:
        def on_step(step: int) -> None:
            trainer.optimizer.param_groups[0]["lr"] = 0.05 / step

        def on_epoch(record: Any) -> None:
            trainer.optimizer.param_groups[0]["weight_decay"] = 0.1 * record.epoch

        trainer.fit(make_data(), 2, on_step=on_step, on_epoch=on_epoch, **options)
        return trainer

    saving = ModelCheckpoint(tmp_path, every_n_steps=3)
    whole = run(make_trainer(nprocs, callbacks=[saving]), checkpoint=tmp_path / "last.ckpt")
    for name in ("epoch=0-step=3.ckpt", "epoch=1-step=4.ckpt", "epoch=1-step=6.ckpt"):
        trainer = make_trainer(nprocs, callbacks=[ModelCheckpoint(tmp_path / "again")])
        trainer.load(tmp_path / name)
        assert_same_bits(run(trainer), whole)
    last = make_trainer(nprocs, callbacks=[ModelCheckpoint(tmp_path / "again")])
    last.load(tmp_path / "last.ckpt")
    assert last.optimizer.param_groups[0]["weight_decay"] == 0.2


def test_a_resumed_run_has_what_was_logged(tmp_path: Path) -> None:
    def run(folder: str) -> Trainer:
        saving = ModelCheckpoint(tmp_path / folder, every_n_steps=1)
        return make_trainer(1, callbacks=[saving])

    def on_step(step: int) -> None:
        if step < 3:
            whole.log("noise", 0.5 * step)

    whole, resumed = run("whole"), run("again")
    whole.fit(make_data(), 1, on_step=on_step)
    resumed.load(tmp_path / "whole" / "epoch=0-step=3.ckpt")
    resumed.fit(make_data(), 1)
    assert resumed.history["noise"] == whole.history["noise"] == [1.0]


class Noisy(Dataset[Any]):
    """Samples with random numbers, which come from a loader's seeds."""

    def __len__(self) -> int:
        return 18

    def __getitem__(self, index: int) -> Any:
        return st.randn(6).double() + index, index % 3


class Stream:
    """Batches that draw from this library's generator and NumPy's."""

    def __iter__(self) -> Any:
        for _ in range(5):
            noise = st.randn(4, 6).double() * float(np.random.rand())
            yield noise, st.tensor([0, 1, 2, 0])


def of_torch() -> Any:
    data = pytest.importorskip("torch.utils.data")
    samples = [(np.full(6, float(i)), i % 3) for i in range(18)]
    return data.DataLoader(samples, 4, shuffle=True)


LOADERS = {
    "no workers": lambda: DataLoader(Noisy(), 4, shuffle=True),
    "workers": lambda: DataLoader(Noisy(), 4, shuffle=True, num_workers=2),
    "NumPy's generator": lambda: DataLoader(
        Noisy(), 4, shuffle=True, generator=np.random.default_rng()
    ),
    "stream": Stream,
}
CASES = [
    *(pytest.param(nprocs, make, id=f"{name}-{nprocs}")
      for name, make in LOADERS.items() for nprocs in (1, 2)),
    pytest.param(1, of_torch, id="torch", marks=pytest.mark.torch),
]  # fmt: skip


@pytest.mark.parametrize(("nprocs", "make_loader"), CASES)
def test_random_samples_of_a_resumed_epoch(nprocs: int, make_loader: Any, tmp_path: Path) -> None:
    def run(trainer: Trainer) -> Trainer:
        loader = make_loader()
        trainer.fit(loader, 2)
        if isinstance(loader, DataLoader):
            loader.close()
        return trainer

    whole = run(make_trainer(nprocs, callbacks=[ModelCheckpoint(tmp_path, every_n_steps=1)]))
    for name in ("epoch=0-step=2.ckpt", "epoch=1-step=8.ckpt"):
        trainer = make_trainer(nprocs, callbacks=[ModelCheckpoint(tmp_path / "again")])
        trainer.load(tmp_path / name)
        assert_same_bits(run(trainer), whole)
