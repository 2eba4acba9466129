"""CSVLogger: the figures of a run as rows of a CSV file."""

from __future__ import annotations

import csv
import io
import os
from pathlib import Path
from typing import Any

from ...serialization.atomic_write import replacing
from .figures_logger import FiguresLogger
from .files import check_file

Row = dict[str, Any]
FIRST_COLUMNS = ["step", "epoch"]


class CSVLogger(FiguresLogger):
    """Writes rows of step, epoch and figures to a CSV file.

    There is a row every `every` steps, and one for each evaluation and each end of an epoch; a step
    has one row at most. Columns are "step", "epoch" (the number of complete epochs), then the
    figures as they appear; a figure that a row lacks is empty. When a column appears, the file is
    replaced by one with the new header, atomically. Every row is in the file when the call returns.

    A run that goes on appends. Rows of steps that are made again, after the death of a rank or from
    an earlier checkpoint, replace the old ones; so a new run replaces the whole file.

    Parameters
    ----------
    path : path
        The file; its folder has to exist.
    every : int, optional
        Number of steps between two rows.

    Raises
    ------
    ValueError
        `every` is not a positive whole number. At the beginning of a run: the file is there and its
        first columns are not "step" and "epoch".
    OSError
        At the beginning of a run: the path cannot be written.

    See Also
    --------
    TensorBoardLogger

    Examples
    --------
    >>> from shmtensor.trainer import Trainer, CSVLogger
    >>> model = nn.Linear(2, 2)
    >>> batches = [(st.randn(8, 2), st.zeros(8, dtype=st.int64)) for _ in range(4)]
    >>> sgd = st.optim.SGD(model.parameters(), lr=0.1)
    >>> options = {"nprocs": 1, "progress": False}
    >>> log = CSVLogger("training.csv", every=2)
    >>> trainer = Trainer(model, sgd, nn.CrossEntropyLoss(), callbacks=[log], **options)
    >>> history = trainer.fit(batches, epochs=2)
    >>> with open("training.csv") as file:
    ...     [line.split(",")[:2] for line in file]
    [['step', 'epoch'], ['2', '0'], ['4', '1'], ['6', '1'], ['8', '2']]
    """

    def __init__(self, path: str | os.PathLike[str], every: int = 50) -> None:
        super().__init__(every)
        self.path = Path(path)
        self._columns: list[str] = []
        self._row: Row = {}  # the last one
        self._start = 0  # where it begins in the file, in bytes

    def on_fit_begin(self, trainer: Any) -> None:
        check_file(self.path, "CSVLogger")
        self._columns, self._row = list(FIRST_COLUMNS), {}
        rows = self._read()
        self._rewrite([row for row in rows if int(row["step"]) <= trainer.step])

    def _write(self, trainer: Any, figures: dict[str, float]) -> None:
        """Adds figures to the row of this step."""
        step = trainer.step
        row: Row = {"step": step, "epoch": trainer.epoch, **figures}
        last = int(self._row.get("step", -1))
        if step == last:
            row = {**self._row, **row}
        new = [name for name in row if name not in self._columns]
        if new or step < last:
            rows = [old for old in self._read() if int(old["step"]) < step]
            self._columns += new
            self._rewrite([*rows, row])
            return
        text = self._text([row])
        with self.path.open("r+b") as file:
            self._start = file.seek(self._start) if step == last else file.seek(0, io.SEEK_END)
            file.write(text)
            file.truncate()
        self._row = row

    def _read(self) -> list[Row]:
        """The rows of the file; an incomplete last line, of a crash, is left out."""
        if not self.path.exists():
            return []
        text = self.path.read_text(encoding="utf-8")
        reader = csv.DictReader(io.StringIO(text[: text.rfind("\n") + 1]))
        columns = list(reader.fieldnames or FIRST_COLUMNS)
        if columns[:2] != FIRST_COLUMNS or (text and "\n" not in text):
            raise ValueError(
                f"CSVLogger: the file is not one of a CSVLogger: {self.path}: its first line is "
                f"{text[:60].splitlines()[0]!r}"
            )
        self._columns += [name for name in columns if name not in self._columns]
        return list(reader)

    def _rewrite(self, rows: list[Row]) -> None:
        with replacing(self.path) as file:
            file.write(self._text([dict(zip(self._columns, self._columns)), *rows[:-1]]))
            self._start = file.tell()
            file.write(self._text(rows[-1:]))
        self._row = rows[-1] if rows else {}

    def _text(self, rows: list[Row]) -> bytes:
        text = io.StringIO()
        writer = csv.DictWriter(text, self._columns, lineterminator="\n")
        writer.writerows(rows)
        return text.getvalue().encode()
