"""FiguresLogger: the base of what writes the figures of a run: when, and which."""

from __future__ import annotations

from typing import Any

from ..arguments import check_counts
from .callback import Callback


class FiguresLogger(Callback):
    """Writes the figures of the training every `every` steps and at the end of each epoch, those of
    an evaluation after it.

    Args:
        every: number of steps between two values.

    Raises:
        ValueError: `every` is not a positive whole number.
    """

    def __init__(self, every: int) -> None:
        check_counts(type(self).__name__, every=every)
        self.every = every

    def on_step(self, trainer: Any) -> None:
        if trainer.step % self.every == 0:
            self._log(trainer, of_evaluation=False)

    def on_eval_end(self, trainer: Any) -> None:
        self._log(trainer, of_evaluation=True)

    def on_epoch_end(self, trainer: Any) -> None:
        self._log(trainer, of_evaluation=False)

    def _log(self, trainer: Any, of_evaluation: bool) -> None:
        figures = {
            name: float(value)
            for name, value in trainer.figures.items()
            if name.startswith("eval_") == of_evaluation
        }
        if figures:  # none: an evaluation has failed
            self._write(trainer, figures)

    def _write(self, trainer: Any, figures: dict[str, float]) -> None:
        """Writes figures of the present step."""
        raise NotImplementedError
