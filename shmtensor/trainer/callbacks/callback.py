"""Callback: what a Trainer calls at the points of a run."""

from __future__ import annotations

from typing import Any


class Callback:
    """The base of what a Trainer calls on rank 0 at the points of a run, while the other ranks
    wait.

    Methods that are not overridden do nothing. Each gets the trainer, of which it may read `model`,
    `optimizer`, `step`, `epoch`, `history`, and `figures`: the means of this epoch so far ("loss",
    "accuracy", what the training step returned), "lr", and after an evaluation "eval_loss",
    "eval_accuracy" and "eval_" with the name of each metric. It may change options of the
    optimizer, write, replace or load its state, replace it in `trainer.optimizers`, add groups,
    freeze or replace parameters, and end the run by `trainer.should_stop = True`. What is replaced
    or added starts the other ranks anew.

    A run calls on_fit_begin; for each epoch on_epoch_begin, on_step after each step, on_epoch_end;
    on_eval_begin and on_eval_end around each evaluation; and on_fit_end.

    Attributes
    ----------
    reads_weights : bool
        `on_step` needs weights and the optimizer's state complete, to read or write them; costs a
        barrier a step (on several nodes a copy of them, too), so it is False in the base.

    Examples
    --------
    >>> from shmtensor.trainer import Callback, Trainer
    >>> class StopAt(Callback):
    ...     def __init__(self, step):
    ...         self.last = step
    ...
    ...     def on_step(self, trainer):
    ...         trainer.should_stop = trainer.step >= self.last
    >>> model = nn.Linear(2, 1)
    >>> sgd = st.optim.SGD(model.parameters(), lr=0.1)
    >>> options = {"nprocs": 1, "progress": False, "callbacks": [StopAt(5)]}
    >>> trainer = Trainer(model, sgd, nn.MSELoss(), **options)
    >>> history = trainer.fit([(st.ones(8, 2), st.ones(8, 1))] * 4, epochs=10)
    >>> trainer.step
    5
    """

    reads_weights = False

    def on_fit_begin(self, trainer: Any) -> None:
        """Called before ranks are started. An error that is raised here ends `fit` with nothing
        changed."""

    def on_epoch_begin(self, trainer: Any) -> None:
        """Called before an epoch, or before what remains of one; `trainer.epoch` is the number of
        those that are complete."""

    def on_step(self, trainer: Any) -> None:
        """Called after a training step, whose number is `trainer.step`."""

    def on_eval_begin(self, trainer: Any) -> None:
        """Called before an evaluation on held-out data, with complete weights."""

    def on_eval_end(self, trainer: Any) -> None:
        """Called after it, also if it has failed; `trainer.figures` has its figures."""

    def on_epoch_end(self, trainer: Any) -> None:
        """Called after an epoch, its evaluation, and the schedules; its record is
        `trainer.history.epochs[-1]`. The weights are complete."""

    def on_fit_end(self, trainer: Any) -> None:
        """Called at the end of `fit`, also if it has failed, once for each on_fit_begin."""

    def state_dict(self) -> dict[str, Any]:
        """What a checkpoint keeps of this callback: what later calls depend on."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restores what `state_dict` returned."""


class StepFunction(Callback):
    """The function `on_step` of `Trainer.fit`."""

    reads_weights = True

    def __init__(self, function: Any) -> None:
        self.function = function

    def on_step(self, trainer: Any) -> None:
        self.function(trainer.step)


class EpochFunction(Callback):
    """The function `on_epoch` of `Trainer.fit`."""

    def __init__(self, function: Any) -> None:
        self.function = function

    def on_epoch_end(self, trainer: Any) -> None:
        self.function(trainer.history.epochs[-1])
