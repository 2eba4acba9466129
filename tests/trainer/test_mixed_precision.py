"""Autocast and GradScaler in a trainer, on the CPU; tests/cuda/trainer has those on GPUs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import shmtensor as st
from shmtensor import nn, optim
from shmtensor.trainer import Trainer

from .test_trainer import make_data, make_trainer, weights

DATA = [(x.float(), y) for x, y in make_data()]


def make(nprocs: int, **options: Any) -> Trainer:
    st.manual_seed(1)
    model = nn.Sequential(nn.Linear(6, 33), nn.Tanh(), nn.Linear(33, 3))
    sgd = optim.SGD(model.parameters(), 0.1, momentum=0.9)
    return Trainer(
        model, sgd, nn.CrossEntropyLoss(), nprocs=nprocs, progress=False, timeout=30, **options
    )


@pytest.mark.parametrize("nprocs", [1, 2])
def test_autocast_rounds_and_trains_the_same(nprocs: int) -> None:
    plain, half = make(nprocs), make(nprocs, autocast=st.bfloat16, device="cpu")
    for trainer in (plain, half):
        trainer.fit(DATA, 2, eval=DATA)
    for a, b in zip(weights(half), weights(plain), strict=True):
        assert a.dtype == np.float32
        np.testing.assert_allclose(a, b, rtol=0.1, atol=0.02)
    assert any((a != b).any() for a, b in zip(weights(half), weights(plain), strict=True))


def test_a_scaler_changes_nothing_but_its_scale(tmp_path: Path) -> None:
    plain, scaled = make(1), make(1, scaler=st.amp.GradScaler("cpu", 64.0, growth_interval=2))
    for trainer in (plain, scaled):
        trainer.fit(DATA, 1)
    for a, b in zip(weights(scaled), weights(plain), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
    assert scaled.scaler.get_scale() == 64.0 * 2**2
    scaled.save(tmp_path / "run.ckpt")
    later = make(1, scaler=st.amp.GradScaler("cpu"))
    later.load(tmp_path / "run.ckpt")
    assert later.scaler.get_scale() == 64.0 * 2**2
    make(1).load(tmp_path / "run.ckpt")


def test_an_infinity_skips_the_step_and_halves_the_scale() -> None:
    trainer = make(1, scaler=st.amp.GradScaler("cpu", 64.0))
    before = weights(trainer)
    x, y = DATA[0]
    trainer.fit([(x * float("inf"), y)], 1)
    assert trainer.scaler.get_scale() == 32.0
    assert all((a == b).all() for a, b in zip(weights(trainer), before, strict=True))


def test_an_infinity_of_one_rank_skips_the_step_of_all() -> None:
    trainer = make(2, scaler=st.amp.GradScaler("cpu", 64.0))
    before = weights(trainer)
    x, y = DATA[0]
    x = x.clone()
    x[-1] = float("inf")  # rank 1's
    trainer.fit([(x, y)], 1)
    assert trainer.scaler.get_scale() == 32.0
    assert all((a == b).all() for a, b in zip(weights(trainer), before, strict=True))


@pytest.mark.parametrize("nprocs", [1, 2])
@pytest.mark.parametrize("limit", [None, 1.0])
def test_a_step_without_a_loss_is_left_out(nprocs: int, limit: float | None) -> None:
    def step(model: Any, batch: Any) -> Any:
        return None

    trainer = make_trainer(
        nprocs, training_step=step, scaler=st.amp.GradScaler("cpu"), clip_grad_norm=limit
    )
    before = weights(trainer)
    trainer.fit(make_data(), 1)
    assert (trainer.step, trainer.history["accuracy"]) == (4, [None])
    for x, y in zip(weights(trainer), before, strict=True):
        np.testing.assert_array_equal(x, y)


def test_without_a_gpu_the_error_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    from shmtensor import cupy_runtime

    monkeypatch.setattr(cupy_runtime.state, "devices", 0)
    monkeypatch.setattr(cupy_runtime.state, "initialized", False)
    monkeypatch.setattr(cupy_runtime.state, "reason", "it is not there")
    with pytest.raises(RuntimeError, match="cannot be used: it is not there"):
        make(1, device="cuda").fit(DATA, 1)
    with pytest.raises(RuntimeError, match="no such device: 'tpu'"):
        make(1, device="tpu")
