"""ProgressBar: the progress of a run on standard error, as a bar or as lines."""

from __future__ import annotations

import sys
import time
from typing import Any

from .callback import Callback

INTERVAL = 0.1  # seconds between two drawings
HIDDEN = ("lr", "samples_per_second")


class ProgressBar(Callback):
    """Shows steps, time left, figures and samples per second on standard error.

    In a terminal or a notebook it is a bar of tqdm. Elsewhere, as in a log file, it is a line for
    each epoch. A step on which nothing is drawn costs less than a microsecond.

    >>> bar = ProgressBar()  # as Trainer(progress=True)
    """

    def __init__(self) -> None:
        self._bar: Any = None  # in a terminal or a notebook
        self._drawn = 0.0  # when

    def on_fit_begin(self, trainer: Any) -> None:
        from tqdm.auto import tqdm

        is_notebook = any(each.__module__ == "tqdm.notebook" for each in tqdm.__mro__)
        is_terminal = sys.stderr is not None and sys.stderr.isatty()
        if not is_notebook and not is_terminal:
            return
        # No monitor thread, of which a fork of ranks or loaders would warn.
        bar = type("Bar", (tqdm,), {"monitor_interval": 0})
        self._bar = bar(
            total=trainer.total_steps, initial=trainer.step, unit="step", dynamic_ncols=True,
            mininterval=0, miniters=0,
        )  # fmt: skip
        self._drawn = time.perf_counter()

    def on_epoch_begin(self, trainer: Any) -> None:
        if self._bar is not None:
            self._bar.set_description_str(title(trainer, trainer.epoch + 1), refresh=False)

    def on_step(self, trainer: Any) -> None:
        if self._bar is not None and time.perf_counter() - self._drawn >= INTERVAL:
            self._draw(trainer)

    def on_epoch_end(self, trainer: Any) -> None:
        if self._bar is not None:
            self.on_step(trainer)
        elif sys.stderr is not None:
            line = f"{title(trainer, trainer.epoch)}: {text_of(trainer.figures)}"
            print(line, file=sys.stderr, flush=True)

    def on_fit_end(self, trainer: Any) -> None:
        if self._bar is not None:
            self._draw(trainer)
            self._bar.close()
            self._bar = None

    def _draw(self, trainer: Any) -> None:
        bar = self._bar
        bar.set_postfix_str(text_of(trainer.figures), refresh=False)
        bar.update(trainer.step - bar.n)  # backwards, too, if steps are made again
        self._drawn = time.perf_counter()


def title(trainer: Any, epoch: int) -> str:
    return f"epoch {epoch}" if trainer.epochs is None else f"epoch {epoch}/{trainer.epochs}"


def text_of(figures: dict[str, float]) -> str:
    """The figures but the learning rate, and the samples per second last."""
    texts = [f"{name} {value:.4g}" for name, value in figures.items() if name not in HIDDEN]
    if "samples_per_second" in figures:
        texts.append(f"{figures['samples_per_second']:,.0f} samples/s")
    return ", ".join(texts)
