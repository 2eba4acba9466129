"""ProgressBar: the progress of a run on standard error, as a bar or as lines."""

from __future__ import annotations

import os
import sys
import time
from typing import Any

from .callback import Callback

INTERVAL = 0.1  # seconds between two drawings
HIDDEN = ("lr", "samples_per_second")
FORMAT = "{l_bar}{bar}| {n_fmt}/{total_fmt} [{elapsed}<{remaining}{postfix}]"


class ProgressBar(Callback):
    """Shows steps, time left, figures and samples per second on standard error.

    In a terminal or a notebook it is a bar of tqdm. Elsewhere, as in a log file, it is a line for
    each epoch. A step on which nothing is drawn costs less than a microsecond.

    Examples
    --------
    >>> from shmtensor.trainer import ProgressBar
    >>> bar = ProgressBar()  # as Trainer(progress=True)
    """

    def __init__(self) -> None:
        self._bar: Any = None  # in a terminal or a notebook
        self._drawn = 0.0  # when

    def on_fit_begin(self, trainer: Any) -> None:
        from tqdm.auto import tqdm

        is_notebook = any(each.__module__ == "tqdm.notebook" for each in tqdm.__mro__)
        if not is_notebook and not is_terminal(sys.stderr):
            return
        # No monitor thread, of which a fork of ranks or loaders would warn.
        bar = type("Bar", (tqdm,), {"monitor_interval": 0})
        self._bar = bar(
            total=trainer.total_steps, initial=trainer.step, unit="step", dynamic_ncols=True,
            mininterval=0, miniters=0, bar_format=None if trainer.total_steps is None else FORMAT,
        )  # fmt: skip
        self._drawn = time.perf_counter()

    def on_epoch_begin(self, trainer: Any) -> None:
        if self._bar is not None:
            self._bar.set_description_str(title(trainer, trainer.epoch + 1), refresh=False)

    def on_step(self, trainer: Any) -> None:
        if self._bar is not None and time.perf_counter() - self._drawn >= INTERVAL:
            self._set_text(trainer)
            self._draw(trainer)

    def on_epoch_end(self, trainer: Any) -> None:
        if self._bar is not None:
            self._set_text(trainer)  # which stays until there are figures of the next epoch
            if time.perf_counter() - self._drawn >= INTERVAL:
                self._draw(trainer)
        elif sys.stderr is not None:
            line = f"{title(trainer, trainer.epoch)}: {text_of(trainer.figures)}"
            print(line, file=sys.stderr, flush=True)

    def on_fit_end(self, trainer: Any) -> None:
        if self._bar is not None:
            self._set_text(trainer)
            self._draw(trainer)
            self._bar.close()
            self._bar = None

    def _set_text(self, trainer: Any) -> None:
        figures = trainer.figures
        if "loss" in figures:
            self._bar.set_postfix_str(text_of(figures), refresh=False)

    def _draw(self, trainer: Any) -> None:
        self._bar.update(trainer.step - self._bar.n)  # backwards, too, if steps are made again
        self._drawn = time.perf_counter()


def is_terminal(stream: Any) -> bool:
    """Whether a stream is a terminal on which a bar can be drawn: one without a width, as some
    containers have, cannot."""
    if stream is None or not stream.isatty():
        return False
    try:
        return os.get_terminal_size(stream.fileno()).columns > 0
    except OSError:  # a stream without a descriptor
        return True


def title(trainer: Any, epoch: int) -> str:
    return f"epoch {epoch}" if trainer.epochs is None else f"epoch {epoch}/{trainer.epochs}"


def text_of(figures: dict[str, float]) -> str:
    """The figures but the learning rate, and the samples per second last."""
    texts = [f"{name} {value:.4g}" for name, value in figures.items() if name not in HIDDEN]
    if "samples_per_second" in figures:
        texts.append(f"{figures['samples_per_second']:,.0f} samples/s")
    return ", ".join(texts)
