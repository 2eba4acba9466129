"""ModelCheckpoint, FileCheckpoint: save the trainer's state in a folder, or in one file."""

from __future__ import annotations

import errno
import os
import re
import shutil
from pathlib import Path
from typing import Any

from ...serialization.atomic_write import replacing
from ..arguments import check_counts
from .callback import Callback
from .figures import check_mode, figure_of, is_better
from .files import check_file, check_folder

BEST = "best.ckpt"
NAME = re.compile(r"epoch=(\d+)-step=(\d+)\.ckpt")
FULL = (errno.ENOSPC, errno.EDQUOT)


class ModelCheckpoint(Callback):
    """Saves the trainer's state in a folder, and keeps the last files and the best.

    Each file is written to a temporary name, synced, and renamed: a kill at any moment leaves whole
    files only. Their names have the number of complete epochs and of steps:
    "epoch=3-step=1200.ckpt". `Trainer.load` reads them.

    Parameters
    ----------
    folder : path
        Where to save; it is created if its parent exists.
    every_n_epochs : int, optional
        Number of epochs between two files; None: none after epochs.
    every_n_steps : int, optional
        Number of steps between two files; None: none after steps. Costs one more barrier a step,
        because weights have to be complete.
    keep_last : int, optional
        Number of the latest files that are kept; None is all.
    monitor : str, optional
        The figure, of `trainer.figures`, by which files are compared that were saved after an
        epoch. The best file is also "best.ckpt" (a hard link, or a second file where the file
        system has no links).
    mode : str, optional
        "min" or "max": which figure is better. NaN is never the best.
    keep_best : int, optional
        Number of the best files that are kept, besides the latest.

    Raises
    ------
    ValueError
        An argument is wrong. In a run: there is no figure of that name.
    OSError
        At the beginning of a run: the folder cannot be created or written. Later: a file cannot be
        written; on a full disk the message has the bytes needed and free, and nothing of the file
        remains.

    See Also
    --------
    Trainer.load, EarlyStopping

    Notes
    -----
    A run that was interrupted goes on by

        if (path := ModelCheckpoint.latest(folder)) is not None:
            trainer.load(path)
        trainer.fit(...)

    A new run in a folder with files overwrites those of the same names, and leaves the others. A
    checkpoint keeps the list of files and their figures.

    Examples
    --------
    >>> from shmtensor.trainer import Trainer, ModelCheckpoint
    >>> model = nn.Linear(2, 2)
    >>> batches = [(st.randn(8, 2), st.zeros(8, dtype=st.int64)) for _ in range(4)]
    >>> sgd = st.optim.SGD(model.parameters(), lr=0.1)
    >>> options = {"nprocs": 1, "progress": False}
    >>> saving = ModelCheckpoint("run", keep_last=2, monitor="loss")
    >>> trainer = Trainer(model, sgd, nn.CrossEntropyLoss(), callbacks=[saving], **options)
    >>> history = trainer.fit(batches, epochs=3)
    >>> ModelCheckpoint.latest("run").name
    'epoch=3-step=12.ckpt'
    >>> trainer.load(ModelCheckpoint.latest("run"))
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        every_n_epochs: int | None = 1,
        every_n_steps: int | None = None,
        keep_last: int | None = None,
        monitor: str | None = None,
        mode: str = "min",
        keep_best: int = 1,
    ) -> None:
        where = "ModelCheckpoint"
        check_mode(mode, where)
        check_counts(
            where, every_n_epochs=every_n_epochs, every_n_steps=every_n_steps,
            keep_last=keep_last, keep_best=keep_best,
        )  # fmt: skip
        if every_n_epochs is None and every_n_steps is None:
            raise ValueError(f"{where}: both every_n_epochs and every_n_steps are None")
        self.folder = Path(folder)
        self.every_n_epochs = every_n_epochs
        self.every_n_steps = every_n_steps
        self.keep_last = keep_last
        self.monitor = monitor
        self.mode = mode
        self.keep_best = keep_best
        self.reads_weights = every_n_steps is not None
        self._files: dict[str, float | None] = {}  # name: figure, in the order of saving

    @property
    def best(self) -> float | None:
        """The figure of "best.ckpt", or None."""
        names = self._best_names()
        return self._files[names[0]] if names else None

    def last(self) -> Path | None:
        """The latest file in the folder, or None."""
        return self.latest(self.folder)

    @staticmethod
    def latest(folder: str | os.PathLike[str]) -> Path | None:
        """The file of the highest step in a folder, from which to resume; None if there is none."""
        names = os.listdir(folder) if os.path.isdir(folder) else []
        numbers = [
            (int(match[2]), int(match[1]), name)  # at one step the end of the epoch is later
            for name in names
            if (match := NAME.fullmatch(name))
        ]
        return Path(folder, max(numbers)[2]) if numbers else None

    def on_fit_begin(self, trainer: Any) -> None:
        check_folder(self.folder, "ModelCheckpoint")
        if (best := self._best_names()) and (self.folder / best[0]).exists():
            self._link_best(best[0])  # a kill may have come before

    def on_step(self, trainer: Any) -> None:
        if self.every_n_steps is not None and trainer.step % self.every_n_steps == 0:
            self._save(trainer, None)

    def on_epoch_end(self, trainer: Any) -> None:
        if self.every_n_epochs is None or trainer.epoch % self.every_n_epochs:
            return
        monitor = self.monitor
        figure = None if monitor is None else figure_of(trainer, monitor, "ModelCheckpoint")
        self._save(trainer, figure)

    def state_dict(self) -> dict[str, Any]:
        return {"files": dict(self._files)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._files = dict(state["files"])

    def _save(self, trainer: Any, figure: float | None) -> None:
        """Saves, and then deletes what is not kept. The saved state has this file, and those that
        are deleted after it: a kill in between leaves none that is forgotten."""
        name, before = f"epoch={trainer.epoch}-step={trainer.step}.ckpt", dict(self._files)
        self._files.pop(name, None)  # a run that goes on from an earlier file saves it again
        self._files[name] = figure
        try:
            save(trainer, self.folder / name, "ModelCheckpoint")
        except BaseException:
            self._files = before
            raise
        best = self._best_names()
        if best and best[0] == name:
            self._link_best(name)
        last = list(self._files) if self.keep_last is None else list(self._files)[-self.keep_last :]
        for other in set(self._files) - {*last, *best}:
            (self.folder / other).unlink(missing_ok=True)
            del self._files[other]

    def _best_names(self) -> list[str]:
        """The best files, the best one first; of equal ones the earlier."""
        ranked: list[tuple[str, float]] = [
            (name, value)
            for name, value in self._files.items()
            if value is not None and is_better(value, None, self.mode)
        ]
        ranked.sort(key=lambda item: item[1] if self.mode == "min" else -item[1])
        return [name for name, _ in ranked[: self.keep_best]]

    def _link_best(self, name: str) -> None:
        path, best = self.folder / name, self.folder / BEST
        temporary = self.folder / f".{BEST}.{os.getpid()}.tmp"
        temporary.unlink(missing_ok=True)
        try:
            os.link(path, temporary)
        except OSError:  # the file system has no links
            with path.open("rb") as source, replacing(best) as target:
                shutil.copyfileobj(source, target)
            return
        os.replace(temporary, best)
        temporary.unlink(missing_ok=True)  # it stays if `best` is a link to this file already


class FileCheckpoint(Callback):
    """Saves the trainer's state to one file after every epoch.

    The file is written to a temporary name, synced, and renamed: a kill at any moment leaves the
    old file or the new one.

    Parameters
    ----------
    path : path
        The file; its folder has to exist.

    Raises
    ------
    OSError
        At the beginning of a run: the path cannot be written. Later: the file cannot be written; on
        a full disk the message has the bytes needed and free, and the old file stays.

    See Also
    --------
    ModelCheckpoint

    Examples
    --------
    >>> from shmtensor.trainer.callbacks import FileCheckpoint
    >>> saving = FileCheckpoint("last.ckpt")  # as Trainer.fit(..., checkpoint="last.ckpt")
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)

    def on_fit_begin(self, trainer: Any) -> None:
        check_file(self.path, "FileCheckpoint")

    def on_epoch_end(self, trainer: Any) -> None:
        save(trainer, self.path, "FileCheckpoint")


def save(trainer: Any, path: Path, where: str) -> None:
    """Saves, and explains a full disk."""
    try:
        trainer.save(path)
    except OSError as error:
        if error.errno not in FULL:
            raise
        free = shutil.disk_usage(path.parent).free
        raise OSError(
            error.errno,
            f"{where}: the disk is full: the checkpoint needs about "
            f"{tensor_bytes(trainer.state_dict()):,} bytes, {free:,} are free",
            str(path),
        ) from error


def tensor_bytes(state: Any) -> int:
    """The bytes of the tensors in nested dicts, lists and tuples."""
    if isinstance(state, dict):
        return sum(map(tensor_bytes, state.values()))
    if isinstance(state, (list, tuple)):
        return sum(map(tensor_bytes, state))
    nbytes: int = getattr(state, "nbytes", 0)
    return nbytes
