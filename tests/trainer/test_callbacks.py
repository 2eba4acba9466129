"""Each callback of a Trainer, on a stand-in for the trainer."""

from __future__ import annotations

import csv
import errno
import fcntl
import io
import math
import os
import pty
import struct
import subprocess
import sys
import termios
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import shmtensor as st
from shmtensor import nn, optim
from shmtensor.optim.lr_scheduler import ExponentialLR, ReduceLROnPlateau
from shmtensor.trainer import Epoch, History
from shmtensor.trainer import checkpoint as checkpoints
from shmtensor.trainer.callbacks import (
    EMA,
    SWA,
    Callback,
    CSVLogger,
    EarlyStopping,
    FileCheckpoint,
    LossCurve,
    ModelCheckpoint,
    ProgressBar,
    Schedule,
    TensorBoardLogger,
)
from shmtensor.trainer.callbacks.progress_bar import is_terminal


class Run:
    """A trainer whose steps add 1 to a weight, and whose figures are given.

    Args:
        losses, eval_losses: of each epoch.
        steps: of each epoch.
    """

    def __init__(
        self,
        *callbacks: Callback,
        losses: Sequence[float] = (),
        eval_losses: Sequence[float] = (),
        steps: int = 2,
    ) -> None:
        self.callbacks = callbacks
        self.losses, self.eval_losses, self.steps = losses, eval_losses, steps
        self.model: Any = nn.Linear(1, 1, bias=False)
        self.optimizer = optim.SGD(self.model.parameters(), lr=1.0)
        self.optimizer._opt_called = True
        self.fill(0)
        self.epoch = self.step = 0
        self.epochs: int | None = None
        self.total_steps: int | None = None
        self.should_stop = False
        self.history = History()
        self.figures: dict[str, float] = {}
        self.evaluated: list[float] = []  # the weight in each evaluation

    @property
    def weight(self) -> float:
        return float(self.model.weight.item())

    @property
    def lr(self) -> float:
        return float(self.optimizer.param_groups[0]["lr"])

    def fill(self, value: float) -> None:
        self.model.weight.data.fill_(value)

    def call(self, name: str) -> None:
        for callback in self.callbacks:
            getattr(callback, name)(self)

    def fit(self, epochs: int) -> Run:
        self.epochs, self.total_steps, self.should_stop = epochs, epochs * self.steps, False
        try:
            self.call("on_fit_begin")
            while self.epoch < epochs and not self.should_stop:
                self.run_epoch()
        finally:
            self.call("on_fit_end")
        return self

    def run_epoch(self) -> None:
        e = self.epoch
        self.call("on_epoch_begin")
        self.figures["loss"] = self.losses[e] if e < len(self.losses) else 1.0
        self.figures |= {"lr": self.lr, "samples_per_second": 1234.5}
        for _ in range(self.steps):
            self.run_step()
        held_out = self.eval_losses[e] if e < len(self.eval_losses) else None
        if held_out is not None:
            self.evaluate(held_out)
        self.epoch += 1
        loss, lr = self.figures["loss"], self.lr
        self.history.epochs.append(Epoch(self.epoch, loss, None, held_out, None, lr, 1, 1.0))
        self.call("on_epoch_end")

    def run_step(self) -> None:
        self.step += 1
        self.fill(self.weight + 1)
        self.call("on_step")

    def evaluate(self, loss: float) -> None:
        try:
            self.call("on_eval_begin")
            self.evaluated.append(self.weight)
            if loss < 0:
                raise RuntimeError("the evaluation failed")
            self.figures["eval_loss"] = loss
        finally:
            self.call("on_eval_end")

    def state_dict(self) -> dict[str, Any]:
        return {
            "model": self.model.state_dict(),
            "step": self.step,
            "epoch": self.epoch,
            "lr": self.lr,
            "callbacks": [callback.state_dict() for callback in self.callbacks],
        }

    def save(self, path: Path) -> None:
        checkpoints.write(path, self.state_dict())

    def load(self, path: Path) -> Run:
        state = checkpoints.read(path)
        self.model.load_state_dict(state["model"])
        self.step, self.epoch = state["step"], state["epoch"]
        self.optimizer.param_groups[0]["lr"] = state["lr"]
        for callback, each in zip(self.callbacks, state["callbacks"], strict=True):
            callback.load_state_dict(each)
        return self


# ---------------------------------------------------------------- schedules
class Rates(Callback):
    """Keeps the learning rate of each step."""

    def __init__(self) -> None:
        self.rates: list[float] = []

    def on_step(self, trainer: Any) -> None:
        self.rates.append(trainer.lr)


def scheduled(interval: str, kind: Any = ExponentialLR, **options: Any) -> tuple[Run, Rates]:
    rates = Rates()
    run = Run(rates, losses=[1, 2, 3], eval_losses=[3, 2, 1])
    schedule = Schedule(kind(run.optimizer, **options), interval)
    run.callbacks = (schedule, rates)
    return run, rates


def test_a_schedule_steps_after_epochs_or_steps(tmp_path: Path) -> None:
    run, rates = scheduled("epoch", gamma=0.5)
    run.fit(3)
    assert rates.rates == [1, 1, 0.5, 0.5, 0.25, 0.25]
    run, rates = scheduled("step", gamma=0.5)
    run.fit(1).save(tmp_path / "a")
    resumed, later = scheduled("step", gamma=0.5)
    resumed.load(tmp_path / "a").fit(2)
    assert rates.rates + later.rates == [0.5, 0.25, 0.125, 0.0625]


def test_a_plateau_gets_its_figure() -> None:
    held_out, _ = scheduled("epoch", ReduceLROnPlateau, patience=0)
    assert held_out.fit(3).lr == 1.0  # eval_loss falls
    training, _ = scheduled("epoch", ReduceLROnPlateau, patience=0)
    training.eval_losses = []
    assert math.isclose(training.fit(3).lr, 0.01)  # loss rises


def test_a_schedule_names_what_is_wrong() -> None:
    run, _ = scheduled("epoch", ReduceLROnPlateau)
    plateau: Any = run.callbacks[0]
    plateau.monitor = "eval_f1"
    with pytest.raises(ValueError, match="'eval_f1', there are: 'eval_loss', 'loss', 'lr'"):
        run.fit(1)
    with pytest.raises(ValueError, match="neither 'epoch' nor 'step': 'batch'"):
        scheduled("batch", gamma=0.5)
    with pytest.raises(ValueError, match=r"ExponentialLR\.step takes no figure: 'loss'"):
        Schedule(ExponentialLR(run.optimizer, 0.5), monitor="loss")


# ---------------------------------------------------------------- averages of weights
def test_ema_is_evaluated_and_the_weights_come_back(tmp_path: Path) -> None:
    ema = EMA(decay=0.5, start=2)
    assert ema.reads_weights
    run = Run(ema, eval_losses=[1, 1, 1])
    memory = run.model.weight.data_ptr()
    run.fit(2).save(tmp_path / "a")
    # Weights 1, 2, 3, 4; the average begins with the 2nd, and is then 2.5 and 3.25.
    assert run.evaluated == [2, 3.25]
    assert run.weight == 4
    assert run.model.weight.data_ptr() == memory
    resumed = Run(EMA(decay=0.5, start=2), eval_losses=[1, 1, 1]).load(tmp_path / "a")
    other: Any = resumed.callbacks[0]
    model = nn.Linear(1, 1, bias=False)
    other.copy_to(model)  # the average of the file, before there is a run
    assert model.weight.item() == 3.25
    assert run.fit(3).evaluated[-1:] == resumed.fit(3).evaluated == [(3.25 / 2 + 2.5) / 2 + 3]
    assert other.averaged is not None
    assert other.averaged.n_averaged.item() == 5


def test_weights_come_back_after_a_failed_evaluation() -> None:
    run = Run(EMA(decay=0.5), eval_losses=[-1])
    with pytest.raises(RuntimeError, match="evaluation failed"):
        run.fit(1)
    assert run.evaluated == [1.5]
    assert run.weight == 2
    run.call("on_eval_begin")
    assert run.weight == 1.5
    run.call("on_eval_begin")  # a second one without an end takes no average for the weights
    run.call("on_fit_end")
    assert run.weight == 2


def test_an_average_that_does_not_exist_is_no_error_but_for_its_copy(tmp_path: Path) -> None:
    run = Run(EMA(start=100), eval_losses=[1]).fit(1)
    ema: Any = run.callbacks[0]
    assert run.evaluated == [2]
    assert ema.averaged is None
    run.save(tmp_path / "a")
    assert Run(EMA(start=3)).load(tmp_path / "a").fit(2).weight == 4
    with pytest.raises(RuntimeError, match=r"EMA\.copy_to: there is no average yet"):
        ema.copy_to(run.model)
    with pytest.raises(RuntimeError, match=r"SWA\.update_bn: there is no average yet"):
        SWA(1).update_bn([])
    with pytest.raises(ValueError, match="EMA: every is not a positive whole number: 0"):
        EMA(every=0)


def test_buffers_are_evaluated_with_their_average() -> None:
    run = Run(EMA(every=2))
    run.model = norm = nn.BatchNorm1d(1)
    mean = norm.running_mean
    assert mean is not None
    mean.fill_(5)
    run.step = 1
    run.run_step()
    mean.fill_(7)
    run.call("on_eval_begin")
    assert mean.item() == 5
    run.call("on_eval_end")
    assert mean.item() == 7


def averaging(**options: Any) -> tuple[Run, Rates]:
    rates = Rates()
    run = Run(rates, eval_losses=[1] * 6)
    schedule = Schedule(ExponentialLR(run.optimizer, 0.5))
    run.callbacks = (schedule, SWA(3, **options), rates)
    return run, rates


def test_swa_averages_epochs_and_has_the_learning_rate(tmp_path: Path) -> None:
    run, rates = averaging(lr=0.0, anneal_epochs=2, anneal_strategy="linear")
    run.fit(4).save(tmp_path / "a")
    run.fit(5)
    swa: Any = run.callbacks[1]
    assert rates.rates[::2] == [1, 0.5, 0.25, 0.125, 0]  # pauses the schedule after 2 epochs
    assert run.weight == 10
    assert swa.averaged.module.weight.item() == 8  # of 6, 8, 10
    assert run.evaluated == [2, 4, 6, 7, 8]
    resumed, later = averaging(lr=0.0, anneal_epochs=2, anneal_strategy="linear")
    resumed.load(tmp_path / "a").fit(5)
    assert later.rates == rates.rates[8:]
    assert resumed.evaluated == run.evaluated[4:]


def test_swa_without_a_rate_leaves_it_to_the_schedule() -> None:
    run, rates = averaging()
    run.fit(4)
    assert rates.rates[::2] == [1, 0.5, 0.25, 0.125]


def test_swa_recomputes_statistics() -> None:
    swa = SWA(1)
    model = nn.BatchNorm1d(1)
    run = Run(swa)
    run.model = model
    swa._update(model)
    swa.update_bn([(st.tensor([[1.0], [3.0]]), None), (st.tensor([[5.0], [7.0]]), None)])
    swa.copy_to(model)
    assert model.running_mean is not None
    assert model.running_mean.item() == 4


# ---------------------------------------------------------------- early stopping
def test_early_stopping_counts_epochs_without_improvement(tmp_path: Path) -> None:
    losses = [3, 2, math.nan, 1.95, 1.9, 1]
    run = Run(EarlyStopping(patience=3, min_delta=0.2), eval_losses=losses)
    run.fit(4).save(tmp_path / "a")
    assert run.epoch == 4
    assert not run.should_stop
    resumed = Run(EarlyStopping(patience=3, min_delta=0.2), eval_losses=losses)
    resumed.load(tmp_path / "a").fit(6)
    stopping: Any = resumed.callbacks[0]
    assert resumed.epoch == stopping.stopped_epoch == 5
    assert stopping.best == 2
    assert Run(EarlyStopping("loss", 1, mode="max"), losses=[1, 2, 2, 3]).fit(4).epoch == 3


def test_early_stopping_names_what_is_wrong() -> None:
    with pytest.raises(ValueError, match="EarlyStopping: no figure of this name: 'eval_loss'"):
        Run(EarlyStopping()).fit(1)
    with pytest.raises(ValueError, match="mode is neither 'min' nor 'max': 'least'"):
        EarlyStopping(mode="least")
    with pytest.raises(ValueError, match="min_delta is negative"):
        EarlyStopping(min_delta=-1)
    with pytest.raises(ValueError, match="patience is not a positive whole number: 0"):
        EarlyStopping(patience=0)


@pytest.mark.parametrize("logger", [CSVLogger, TensorBoardLogger])
def test_loggers_write_after_a_whole_number_of_steps(logger: Any) -> None:
    for every in (0, 2.5):
        text = f"{logger.__name__}: every is not a positive whole number: {every}"
        with pytest.raises(ValueError, match=text):
            logger("log", every=every)


# ---------------------------------------------------------------- checkpoints
def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_the_last_and_the_best_files_are_kept(tmp_path: Path) -> None:
    folder = tmp_path / "a"
    saving = ModelCheckpoint(folder, keep_last=1, monitor="eval_loss", keep_best=2)
    run = Run(saving, eval_losses=[3, 1, math.nan, 2, 4])
    assert ModelCheckpoint.latest(folder) is None
    run.fit(5)
    kept = {"epoch=2-step=4.ckpt", "epoch=4-step=8.ckpt", "epoch=5-step=10.ckpt"}
    assert names(folder) == {*kept, "best.ckpt"}
    assert checkpoints.read(folder / "best.ckpt")["epoch"] == 2
    assert saving.best == 1
    assert saving.last() == folder / "epoch=5-step=10.ckpt"
    # A run that goes on keeps what is better, and deletes what an earlier one saved.
    resumed = Run(
        ModelCheckpoint(folder, keep_last=1, monitor="eval_loss", keep_best=2),
        eval_losses=[0] * 5 + [0.5, 5],
    )
    resumed.load(folder / "epoch=5-step=10.ckpt").fit(7)
    kept = {"epoch=2-step=4.ckpt", "epoch=6-step=12.ckpt", "epoch=7-step=14.ckpt"}
    assert names(folder) == {*kept, "best.ckpt"}
    assert checkpoints.read(folder / "best.ckpt")["epoch"] == 6


def test_files_after_steps(tmp_path: Path) -> None:
    saving = ModelCheckpoint(tmp_path, every_n_epochs=None, every_n_steps=3, keep_last=2)
    assert saving.reads_weights
    assert not ModelCheckpoint(tmp_path).reads_weights
    Run(saving, steps=5).fit(2)
    assert names(tmp_path) == {"epoch=1-step=6.ckpt", "epoch=1-step=9.ckpt"}
    Run(ModelCheckpoint(tmp_path, 2, every_n_steps=5), steps=5).fit(2)
    latest = ModelCheckpoint.latest(tmp_path)
    assert latest is not None
    assert latest.name == "epoch=2-step=10.ckpt"
    with pytest.raises(ValueError, match="both every_n_epochs and every_n_steps are None"):
        ModelCheckpoint(tmp_path, every_n_epochs=None)


def test_the_best_file_where_there_are_no_links(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = os.link

    def refused(source: Any, target: Any, **options: Any) -> None:
        if not options:  # a new file's link to its name is another matter
            raise PermissionError(errno.EPERM, "no links")
        link(source, target, **options)

    monkeypatch.setattr("shmtensor.trainer.callbacks.model_checkpoint.os.link", refused)
    saving = ModelCheckpoint(tmp_path, keep_last=1, monitor="loss", mode="max")
    Run(saving, losses=[1, 2, 0]).fit(3)
    assert names(tmp_path) == {"best.ckpt", "epoch=2-step=4.ckpt", "epoch=3-step=6.ckpt"}
    assert checkpoints.read(tmp_path / "best.ckpt")["epoch"] == 2


def fit_until(run: Run, epochs: int, moment: int) -> bool:
    """Calls `fit` in a child, which ends without cleaning up at its n-th call that opens, links,
    renames or removes a file. Returns whether `fit` came to its end."""
    if pid := os.fork():
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        assert code in (0, 1)
        return code == 0
    calls, code = 0, 2

    def end(name: str, args: Any) -> None:
        nonlocal calls
        calls += name in ("open", "os.link", "os.rename", "os.remove")
        if calls == moment:
            os._exit(1)

    try:
        sys.addaudithook(end)
        run.fit(epochs)
        code = 0
    finally:
        os._exit(code)


def test_a_kill_at_any_moment_leaves_whole_files(tmp_path: Path) -> None:
    moment, has_ended, epochs = 0, False, set()
    while not has_ended:
        moment += 1
        folder = tmp_path / str(moment)
        run = Run(ModelCheckpoint(folder, keep_last=1, monitor="loss"), losses=[3, 2, 1]).fit(2)
        has_ended = fit_until(run, 3, moment)
        latest = ModelCheckpoint.latest(folder)
        assert latest is not None
        epochs.add(
            tuple(checkpoints.read(path)["epoch"] for path in (latest, folder / "best.ckpt"))
        )
        resumed = Run(ModelCheckpoint(folder, keep_last=1, monitor="loss"), losses=[3, 2, 1, 0])
        resumed.load(latest).fit(4)
        assert {n for n in names(folder) if n[0] != "."} == {"best.ckpt", "epoch=4-step=8.ckpt"}
        assert checkpoints.read(folder / "best.ckpt")["epoch"] == 4
    assert epochs == {(2, 2), (3, 2), (3, 3)}  # also between the file and its link


@pytest.mark.parametrize(
    ("path", "error", "text"),
    [
        ("missing/a", FileNotFoundError, "because its parent is no folder"),
        ("file", NotADirectoryError, "the path is a file"),
        ("/proc/a", OSError, "cannot create the folder"),
    ],
)
def test_the_folder_is_checked_before_a_run(
    tmp_path: Path, path: str, error: type[OSError], text: str
) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(error, match=f"ModelCheckpoint: .*{text}.*{path}"):
        Run(ModelCheckpoint(tmp_path / path)).fit(1)
    assert names(tmp_path) == {"file"}


def test_the_file_is_checked_before_a_run(tmp_path: Path) -> None:
    with pytest.raises(IsADirectoryError, match="the path is a folder"):
        Run(FileCheckpoint(tmp_path)).fit(1)
    with pytest.raises(FileNotFoundError, match="cannot write a file in the folder"):
        Run(FileCheckpoint(tmp_path / "missing" / "a")).fit(1)
    run = Run(FileCheckpoint(tmp_path / "a")).fit(2)
    assert Run(*run.callbacks).load(tmp_path / "a").step == 4
    assert names(tmp_path) == {"a"}


@pytest.mark.parametrize("kind", [ModelCheckpoint, FileCheckpoint])
def test_a_full_disk_is_explained(
    tmp_path: Path, kind: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path if kind is ModelCheckpoint else tmp_path / "a"
    run = Run(kind(path)).fit(1)
    before, state = names(tmp_path), run.callbacks[0].state_dict()

    def full(target: Path, state: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(checkpoints, "write", full)
    with pytest.raises(OSError, match=rf"needs about 4 bytes, [\d,]+ are free: .*{tmp_path}"):
        run.fit(2)
    assert names(tmp_path) == before
    assert run.callbacks[0].state_dict() == state


# ---------------------------------------------------------------- logs
def rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return [{k: v for k, v in row.items() if v} for row in csv.DictReader(file)]


def test_csv_rows_and_columns_that_appear_later(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    run = Run(CSVLogger(path, every=2), losses=[0.1, 0.2], eval_losses=[5], steps=3)
    run.fit(2)
    first, second, third, fourth = rows(path)
    assert list(first) == ["step", "epoch", "loss", "lr", "samples_per_second"]
    assert (first["step"], first["epoch"], first["loss"]) == ("2", "0", "0.1")
    assert (second["step"], second["epoch"], second["eval_loss"]) == ("3", "1", "5.0")
    assert (third["step"], third["loss"]) == ("4", "0.2")
    assert "eval_loss" not in third
    assert (fourth["step"], fourth["epoch"]) == ("6", "2")
    run.fit(3)
    assert [row["step"] for row in rows(path)] == ["2", "3", "4", "6", "8", "9"]


def test_csv_steps_that_are_made_again_replace_rows(tmp_path: Path) -> None:
    path, run = tmp_path / "a.csv", Run(steps=2)
    run.callbacks = (CSVLogger(path, every=1),)
    run.fit(3)
    run.step = 3  # as after the death of a rank
    run.figures["loss"] = 0.25
    run.run_step()
    assert [row["step"] for row in rows(path)] == ["1", "2", "3", "4"]
    assert rows(path)[-1]["loss"] == "0.25"
    with path.open("a") as file:
        file.write("5,1,0.5")  # of a crash in the middle of a line
    run.step = run.epoch = 1
    run.callbacks = (CSVLogger(path, every=1),)
    run.fit(2)
    assert [row["step"] for row in rows(path)] == ["1", "2", "3"]
    run.step = run.epoch = 0
    run.fit(1)
    assert [row["step"] for row in rows(path)] == ["1", "2"]


def test_csv_refuses_other_files(tmp_path: Path) -> None:
    for text in ("a,b\n1,2\n", "a sentence"):
        (tmp_path / "a.csv").write_text(text)
        with pytest.raises(ValueError, match="not one of a CSVLogger"):
            Run(CSVLogger(tmp_path / "a.csv")).fit(1)
        assert (tmp_path / "a.csv").read_text() == text


class Writer:
    """Stands in for tensorboardX's writer."""

    files: list[Writer] = []  # noqa: RUF012

    def __init__(self, log_dir: Any, comment: str, purge_step: int, *options: Any) -> None:
        self.purge_step, self.is_open = purge_step, True
        self.values: list[tuple[str, float, int]] = []
        self.files.append(self)

    def add_scalar(self, name: str, value: float, step: int) -> None:
        self.values.append((name, value, step))

    def close(self) -> None:
        self.is_open = False


def test_tensorboard_values(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    library: Any = ModuleType("tensorboardX")
    library.SummaryWriter = Writer
    monkeypatch.setitem(sys.modules, "tensorboardX", library)
    monkeypatch.setattr(Writer, "files", [])
    run = Run(TensorBoardLogger(tmp_path / "a", every=2), eval_losses=[5], steps=3)
    run.fit(1)
    (first,) = Writer.files
    assert first.purge_step == 1
    assert not first.is_open
    steps = {n: [s for name, _, s in first.values if name == n] for n in ("loss", "eval_loss")}
    assert steps == {"loss": [2, 3], "eval_loss": [3]}
    run.run_epoch()
    run.step = 3  # as after the death of a rank
    run.run_epoch()
    run.call("on_fit_end")
    _, second, third = Writer.files
    assert [file.purge_step for file in Writer.files] == [1, 4, 4]
    loss = [s for file in (second, third) for name, _, s in file.values if name == "loss"]
    assert loss == [4, 6, 4, 6]
    assert not any(file.is_open for file in Writer.files)


def test_what_a_log_lacks_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("matplotlib.figure", "tensorboardX"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ImportError, match=r"LossCurve: matplotlib .* pip install"):
        Run(LossCurve(tmp_path / "a.png")).fit(1)
    with pytest.raises(ImportError, match=r"tensorboardX .* pip install"):
        Run(TensorBoardLogger(tmp_path)).fit(1)


CURVE = """
import sys
from types import SimpleNamespace as Of
from shmtensor.trainer import Epoch
from shmtensor.trainer.callbacks import LossCurve

curve = LossCurve("a.png")
epochs = [Epoch(n, 1 / n, None, 2 / n if n % 2 else None, None, 0.1, 1, 1.0) for n in (1, 2, 3)]
trainer = Of(history=Of(epochs=epochs))
curve.on_fit_begin(trainer)
curve.on_epoch_end(trainer)
assert "matplotlib.pyplot" not in sys.modules, "the program's backend is chosen"
"""


def test_the_loss_curve_is_a_picture(tmp_path: Path) -> None:
    """In a program of its own, because matplotlib keeps fonts open."""
    pytest.importorskip("matplotlib")
    subprocess.run([sys.executable, "-W", "error", "-c", CURVE], cwd=tmp_path, check=True)
    assert (tmp_path / "a.png").read_bytes()[1:4] == b"PNG"
    assert names(tmp_path) == {"a.png"}


# ---------------------------------------------------------------- progress
class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_line_for_each_epoch_where_there_is_no_terminal(
    capsys: pytest.CaptureFixture[str],
) -> None:
    Run(ProgressBar(), losses=[0.123456, 2], eval_losses=[5]).fit(2)
    assert capsys.readouterr().err.splitlines() == [
        "epoch 1/2: loss 0.1235, eval_loss 5, 1,234 samples/s",
        "epoch 2/2: loss 2, eval_loss 5, 1,234 samples/s",
    ]


def test_a_bar_in_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    bar = ProgressBar()
    run = Run(bar, losses=[0.5, 0.25]).fit(1)
    assert "epoch 1/1: 100%" in screen.getvalue()
    assert "2/2" in screen.getvalue()
    assert "loss 0.5, 1,234 samples/s" in screen.getvalue()
    monkeypatch.setattr("shmtensor.trainer.callbacks.progress_bar.INTERVAL", 0)
    run.epochs, run.total_steps = None, None
    run.call("on_fit_begin")
    run.run_epoch()
    run.step = 1  # as after the death of a rank
    run.run_step()
    assert bar._bar.n == 2
    del run.figures["loss"]  # as after the end of an epoch
    run.call("on_fit_end")
    last = screen.getvalue().rpartition("\r")[2]
    assert "epoch 2: " in last
    assert "loss 0.25, " in last


def test_a_terminal_without_a_width_is_none() -> None:
    ours, theirs = pty.openpty()
    try:
        with os.fdopen(theirs, "w") as screen:
            for columns in (0, 80):
                fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("4H", 24, columns, 0, 0))
                assert is_terminal(screen) == bool(columns)
        with open(os.devnull) as other:
            assert not is_terminal(other)
    finally:
        os.close(ours)


def test_a_step_without_a_drawing_draws_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setattr("shmtensor.trainer.callbacks.progress_bar.INTERVAL", math.inf)
    run = Run(ProgressBar(), steps=50)
    run.epochs, run.total_steps = 1, 50
    run.call("on_fit_begin")
    before = screen.getvalue()
    run.run_epoch()
    assert screen.getvalue() == before
    run.call("on_fit_end")
