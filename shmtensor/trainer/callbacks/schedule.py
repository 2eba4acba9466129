"""Schedule: steps a scheduler of the learning rate after each epoch or each step."""

from __future__ import annotations

from typing import Any

from ...optim.lr_scheduler import LRScheduler, ReduceLROnPlateau
from .callback import Callback
from .figures import figure_of


class Schedule(Callback):
    """Steps a scheduler after each epoch, or after each step.

    Parameters
    ----------
    scheduler : LRScheduler
        Of `shmtensor.optim.lr_scheduler`, over the trainer's optimizer.
    interval : str, optional
        "epoch" or "step".
    monitor : str, optional
        The figure that a scheduler whose `step` takes one gets. ReduceLROnPlateau gets "eval_loss"
        by default, or "loss" if there is no evaluation.

    Raises
    ------
    ValueError
        The interval is neither; or a figure is named, and the scheduler takes none. In a run: there
        is no figure of that name.

    Notes
    -----
    A checkpoint keeps the scheduler's state.

    Examples
    --------
    >>> from shmtensor.trainer import Trainer, Schedule
    >>> model = nn.Linear(2, 2)
    >>> batches = [(st.randn(8, 2), st.zeros(8, dtype=st.int64)) for _ in range(4)]
    >>> sgd = st.optim.SGD(model.parameters(), lr=0.1)
    >>> options = {"nprocs": 1, "progress": False}
    >>> warm_up = st.optim.lr_scheduler.LinearLR(sgd, start_factor=0.5, total_iters=2)
    >>> warm_up = Schedule(warm_up, interval="step")
    >>> trainer = Trainer(model, sgd, nn.CrossEntropyLoss(), scheduler=warm_up, **options)
    >>> history = trainer.fit(batches, epochs=1)
    >>> history["lr"]
    [0.05]
    """

    def __init__(self, scheduler: Any, interval: str = "epoch", monitor: str | None = None) -> None:
        if interval not in ("epoch", "step"):
            raise ValueError(f"Schedule: interval is neither 'epoch' nor 'step': {interval!r}")
        if monitor is not None and type(scheduler).step is LRScheduler.step:
            raise ValueError(
                f"Schedule: monitor: {type(scheduler).__name__}.step takes no figure: {monitor!r}"
            )
        self.scheduler = scheduler
        self.interval = interval
        self.monitor = monitor
        self.is_paused = False  # SWA has the learning rate

    def on_step(self, trainer: Any) -> None:
        if self.interval == "step":
            self._step(trainer)

    def on_epoch_end(self, trainer: Any) -> None:
        if self.interval == "epoch":
            self._step(trainer)

    def _step(self, trainer: Any) -> None:
        if self.is_paused:
            return
        monitor = self.monitor
        if monitor is None and isinstance(self.scheduler, ReduceLROnPlateau):
            monitor = "eval_loss" if "eval_loss" in trainer.figures else "loss"
        if monitor is None:
            self.scheduler.step()
        else:
            self.scheduler.step(figure_of(trainer, monitor, "Schedule"))

    def state_dict(self) -> dict[str, Any]:
        return {"type": type(self.scheduler).__name__, "scheduler": self.scheduler.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        name = type(self.scheduler).__name__
        if state["type"] != name:
            raise ValueError(f"Schedule: the state is that of a {state['type']}, not a {name}")
        self.scheduler.load_state_dict(state["scheduler"])
