"""EarlyStopping: ends a run whose figure no longer improves."""

from __future__ import annotations

from typing import Any

from ..arguments import check_counts
from .callback import Callback
from .figures import check_mode, figure_of, is_better


class EarlyStopping(Callback):
    """Ends the run after `patience` epochs in a row without an improvement.

    Parameters
    ----------
    monitor : str, optional
        The figure to judge, of `trainer.figures`.
    patience : int, optional
        Number of epochs.
    min_delta : float, optional
        A smaller improvement counts as none.
    mode : str, optional
        "min" or "max": which way is better.

    Attributes
    ----------
    best : float or None
        The best figure so far.
    bad_epochs : int
        Epochs since then.
    stopped_epoch : int or None
        The epoch after which this callback has ended the run.

    Raises
    ------
    ValueError
        An argument is wrong. In a run: there is no figure of that name.

    Notes
    -----
    NaN is no improvement. A checkpoint keeps `best` and `bad_epochs`.

    Examples
    --------
    >>> from shmtensor.trainer import Trainer, EarlyStopping
    >>> model = nn.Linear(2, 2)
    >>> batches = [(st.randn(8, 2), st.zeros(8, dtype=st.int64)) for _ in range(4)]
    >>> sgd = st.optim.SGD(model.parameters(), lr=0.1)
    >>> options = {"nprocs": 1, "progress": False}
    >>> stopping = EarlyStopping("loss", patience=1, min_delta=10.0)
    >>> trainer = Trainer(model, sgd, nn.CrossEntropyLoss(), callbacks=[stopping], **options)
    >>> history = trainer.fit(batches, epochs=100)
    >>> stopping.stopped_epoch
    2
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
