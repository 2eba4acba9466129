"""TensorBoardLogger: the figures of a run for TensorBoard."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from ...utils.tensorboard import SummaryWriter, import_tensorboardx
from .figures_logger import FiguresLogger
from .files import check_folder


class TensorBoardLogger(FiguresLogger):
    """Writes the figures to event files that TensorBoard shows, by
    `shmtensor.utils.tensorboard.SummaryWriter`.

    The figures of the training are written every `every` steps and at the end of each epoch, those
    of an evaluation after it; the tags are the figures' names. Of steps that are made again, after
    the death of a rank or from an earlier checkpoint, TensorBoard shows the later values; so after
    a new run in the same folder it shows that one only.

    Parameters
    ----------
    folder : path
        Where to write; it is created if its parent exists.
    every : int, optional
        Number of steps between two values.

    Raises
    ------
    ValueError
        `every` is not a positive whole number.
    ImportError
        At the beginning of a run: tensorboardX is missing.
    OSError
        At the beginning of a run: the folder cannot be created or written.

    See Also
    --------
    CSVLogger

    Examples
    --------
    >>> from shmtensor.trainer import TensorBoardLogger
    >>> log = TensorBoardLogger("runs", every=100)  # an item of Trainer(callbacks=...)
    """

    def __init__(self, folder: str | os.PathLike[str], every: int = 50) -> None:
        super().__init__(every)
        self.folder = Path(folder)
        self._writer: SummaryWriter | None = None
        self._step = 0  # the last one that was written
        self._tags: set[str] = set()  # written for it

    def on_fit_begin(self, trainer: Any) -> None:
        import_tensorboardx()
        check_folder(self.folder, "TensorBoardLogger")
        self._step, self._tags = trainer.step, set()

    def on_fit_end(self, trainer: Any) -> None:
        if self._writer is not None:
            self._writer.close()
            self._writer = None

    def _write(self, trainer: Any, figures: dict[str, float]) -> None:
        step = trainer.step
        if step != self._step:
            self._tags.clear()
        if step < self._step:  # steps are made again: a new file says that the old ones are void
            self.on_fit_end(trainer)
        if self._writer is None:
            # Not earlier: it starts a thread, of which a fork of ranks would warn.
            purge_step = min(step, self._step + 1)
            self._writer = SummaryWriter(self.folder, purge_step=purge_step)
        self._step = step
        for name, value in figures.items():
            if name not in self._tags:
                self._writer.add_scalar(name, value, step)
                self._tags.add(name)
