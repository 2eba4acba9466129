"""LossCurve: a picture of the losses by epoch."""

from __future__ import annotations

import os
from importlib import import_module
from pathlib import Path
from typing import Any

from ...serialization.atomic_write import replacing
from .callback import Callback
from .files import check_file


class LossCurve(Callback):
    """Draws the losses of all epochs, of the training and of evaluations, to a PNG file after each
    epoch.

    It needs matplotlib, and leaves matplotlib's backend and the program's figures alone. The file
    is replaced atomically.

    Parameters
    ----------
    path : path
        The file; its folder has to exist.

    Raises
    ------
    ImportError
        At the beginning of a run: matplotlib is missing.
    OSError
        At the beginning of a run: the path cannot be written.

    Examples
    --------
    >>> from shmtensor.trainer import LossCurve
    >>> curve = LossCurve("losses.png")  # an item of Trainer(callbacks=...)
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)

    def on_fit_begin(self, trainer: Any) -> None:
        try:
            import_module("matplotlib.figure")
        except ImportError as error:
            raise ImportError(
                f"LossCurve: matplotlib cannot be imported: {error}; "
                'pip install "shmtensor[examples]", which installs it'
            ) from error
        check_file(self.path, "LossCurve")

    def on_epoch_end(self, trainer: Any) -> None:
        figure = import_module("matplotlib.figure").Figure(layout="constrained")
        axes = figure.subplots()
        for name, label in (("loss", "training"), ("eval_loss", "held out")):
            points = [(each.epoch, getattr(each, name)) for each in trainer.history.epochs]
            if points := [point for point in points if point[1] is not None]:
                axes.plot(*zip(*points), marker=".", label=label)
        axes.set(xlabel="epoch", ylabel="loss")
        axes.xaxis.get_major_locator().set_params(integer=True)
        axes.legend()
        with replacing(self.path) as file:
            figure.savefig(file, format="png")
