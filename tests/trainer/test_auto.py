"""nprocs="auto": the measured steps leave no trace, and what speaks against ranks is said."""

from __future__ import annotations

import os
import threading
from typing import Any

import numpy as np
import pytest

import shmtensor as st
from shmtensor import nn, optim
from shmtensor.nn import functional as F
from shmtensor.trainer import Trainer, auto

from .test_trainer import make_data, make_model, make_trainer


@pytest.fixture(autouse=True)
def _measures_ranks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ranks are measured, however short the run and many the processors are."""
    monkeypatch.setattr(auto, "SHORT_STEP", 0.0)
    monkeypatch.setattr(auto, "SHORT_RUN", 0.0)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1})


class Counting(nn.Module):
    """A loss that counts its calls, in an attribute and in a buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0
        self.register_buffer("seen", st.zeros(1))

    def forward(self, outputs: Any, targets: Any) -> Any:
        self.calls += 1
        self.seen += 1
        return F.cross_entropy(outputs, targets)


class Growing:
    """Batches that grow with each pass."""

    def __init__(self) -> None:
        self.passes = 0

    def __iter__(self) -> Any:
        self.passes += 1
        for x, y in make_data():
            yield x * self.passes, y


@pytest.mark.parametrize("make", [make_data, Growing])
def test_the_measured_steps_leave_no_trace(make: Any) -> None:
    def run(nprocs: Any) -> tuple[Trainer, Any]:
        calls: list[str] = []
        model, loss = make_model(), Counting()
        adam = optim.Adam(model.parameters(), lr=0.01)
        model[0].register_forward_pre_hook(lambda *_: calls.append("forward"))
        model[3].register_full_backward_hook(lambda *_: calls.append("backward"))
        model[0].weight.register_hook(lambda g: calls.append("parameter"))
        adam.register_step_post_hook(lambda *_: calls.append("step"))
        trainer = Trainer(model, adam, loss, nprocs=nprocs, progress=False, timeout=60)
        data = make()
        trainer.fit(data, 2)
        return trainer, (calls, loss.calls, float(loss.seen), getattr(data, "passes", None))

    trainer, traces = run("auto")
    assert "on 2 ranks" in trainer.choice
    reference, expected = run(trainer.nprocs)
    assert traces == expected
    assert trainer.history["loss"] == reference.history["loss"]
    for x, y in zip(trainer.model.parameters(), reference.model.parameters(), strict=True):
        np.testing.assert_array_equal(x.detach().numpy(), y.detach().numpy())


class Locked(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(6, 3)
        self.lock = threading.Lock()

    def forward(self, x: Any) -> Any:
        return self.layer(x)


def test_a_model_that_cannot_be_copied_is_trained_by_one_process() -> None:
    model = Locked().double()
    sgd = optim.SGD(model.parameters(), lr=0.1)
    trainer = Trainer(model, sgd, nn.CrossEntropyLoss(), progress=False)
    trainer.fit(make_data(), 1)
    assert trainer.choice.startswith("nprocs=1: a step could not be measured: TypeError")


def test_the_error_of_a_step_is_that_of_fit() -> None:
    def broken(model: Any, batch: Any) -> Any:
        raise KeyError("mine")

    trainer = make_trainer("auto", training_step=broken)  # type: ignore[arg-type]
    with pytest.raises(KeyError, match="mine") as caught:
        trainer.fit(make_data(), 1)
    assert caught.traceback[-1].name == "broken"
    assert caught.value.__context__ is None


def test_the_faster_number_of_ranks_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    for several, nprocs in ((0.5, 2), (0.99, 1)):
        seconds = {1: 1.0, 2: several}
        monkeypatch.setattr(auto, "seconds_of_step", lambda *a, s=seconds: s[a[-1]])
        trainer = make_trainer("auto")  # type: ignore[arg-type]
        trainer.fit(make_data(), 1)
        assert trainer.nprocs == nprocs
        assert f"on one process, {1e3 * several:.3g} ms on 2 ranks" in trainer.choice
