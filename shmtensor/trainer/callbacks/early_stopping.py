"""EarlyStopping: ends a run whose figure no longer improves."""

from __future__ import annotations

from typing import Any

from ..arguments import check_counts
from .callback import Callback
from .figures import check_mode, figure_of, is_better


class EarlyStopping(Callback):
    """Ends the run after `patience` epochs in a row without an improvement.

    Args:
        monitor: the figure to judge, of `trainer.figures`.
        patience: number of epochs.
        min_delta: a smaller improvement counts as none.
        mode: "min" or "max": which way is better.

    Raises:
        ValueError: an argument is wrong. In a run: there is no figure of that name.

    NaN is no improvement. A checkpoint keeps `best` and `bad_epochs`.

    Attributes:
        best: the best figure so far, or None.
        bad_epochs: epochs since then.
        stopped_epoch: the epoch after which this callback has ended the run, or None.

    >>> stopping = EarlyStopping("eval_accuracy", patience=5, mode="max")
    """

    def __init__(
        self,
        monitor: str = "eval_loss",
        patience: int = 3,
        min_delta: float = 0.0,
        mode: str = "min",
    ) -> None:
        check_mode(mode, "EarlyStopping")
        check_counts("EarlyStopping", patience=patience)
        if min_delta < 0:
            raise ValueError(f"EarlyStopping: min_delta is negative: {min_delta}")
        self.monitor = monitor
        self.patience = patience
        self.min_delta = min_delta
        self.mode = mode
        self.best: float | None = None
        self.bad_epochs = 0
        self.stopped_epoch: int | None = None

    def on_epoch_end(self, trainer: Any) -> None:
        value = figure_of(trainer, self.monitor, "EarlyStopping")
        if is_better(value, self.best, self.mode, self.min_delta):
            self.best, self.bad_epochs = value, 0
        else:
            self.bad_epochs += 1
        if self.bad_epochs >= self.patience:
            self.stopped_epoch = trainer.epoch
            trainer.should_stop = True

    def state_dict(self) -> dict[str, Any]:
        return {"best": self.best, "bad_epochs": self.bad_epochs}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.best, self.bad_epochs = state["best"], state["bad_epochs"]
