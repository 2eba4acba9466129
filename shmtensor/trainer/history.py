"""The history of a training run: the figures of a pass, a record for each epoch, and statistics of
the run.
"""

from __future__ import annotations

import warnings
from dataclasses import asdict, dataclass, field
from math import isfinite
from operator import add
from typing import Any, NamedTuple

import numpy as np

from ..functions import stack
from ..html_table import html_table
from ..tensor import Tensor
from .batch_loss import BatchLoss, count_correct
from .progress_board import ProgressBoard

MOST_UNREAD = 64  # batches, until their figures are read from a GPU


class Unread(NamedTuple):
    """Figures of a batch that a GPU may not have computed yet.

    Attributes:
        number: of the step; None: nothing is to be said of its loss.
        optimizer: its index.
        loss, weight, correct: tensors on the GPU, or numbers; weight: as in `BatchLoss`.
        samples: of the batch.
    """

    number: int | None
    optimizer: int
    loss: Any
    weight: Any
    samples: int
    correct: Any


def unread_of(
    result: BatchLoss, n: int, number: int = 0, index: int = 0, warns: bool = False
) -> Unread:
    """The figures of n samples; no wait for the GPU.

    Args:
        number: of the step.
        index: of the optimizer.
        warns: a warning tells of a loss that is NaN or infinite.
    """
    correct = count_correct(result.outputs, result.targets)
    loss = result.loss.detach()
    return Unread(number if warns else None, index, loss, result.weight, n, correct)


class Figures:
    """The figures of a pass over data.

    Attributes:
        samples: how many.
        loss: the mean over the weights of the losses.
        accuracy: the share of samples classified correctly; None if this is no classification.
        named: of each further figure its sum over samples, and their number; of the loss of a
            further optimizer, over its weights.
    """

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        self.sums = [0.0] * 4
        self.named: dict[str, list[float]] = {}
        self.unread: list[Unread] = []

    def add(
        self, board: ProgressBoard, totals: list[float], names: list[str], index: int = 0
    ) -> None:
        """Adds the ranks' figures, in rank order.

        Args:
            totals: the board's.
            names: of the further figures on the board.
            index: of the optimizer; the loss of a further one is a figure, and its samples are
                those of the first.

        Raises:
            ValueError: the names are not those of another rank that has some.
        """
        self.add_sums(totals, index)
        if names:
            checksums = board.checksums
            if np.any((checksums != checksums[0]) & (checksums != 0)):
                raise ValueError(
                    f"Trainer: the step returned other figures on another rank than {names}: with "
                    "several ranks return the same ones, in one order, for each part of a batch"
                )
            for name, value in zip(names, board.named.sum(axis=0), strict=False):
                total = self.named.setdefault(name, [0.0, 0.0])
                total[0] += float(value)
                total[1] += totals[0]

    def add_sums(self, totals: list[float], index: int) -> None:
        if index:
            total = self.named.setdefault(f"loss_{index}", [0.0, 0.0])
            total[0] += totals[2]
            total[1] += totals[1]
        else:
            self.sums = list(map(add, self.sums, totals))

    def add_unread(self, batches: list[Unread]) -> None:
        """Adds figures that are on a GPU; reads them if there are many."""
        self.unread += batches
        if len(self.unread) >= MOST_UNREAD:
            self.read()

    def read(self) -> None:
        """Adds what is unread: waits for the GPU."""
        unread, self.unread = self.unread, []
        losses, weights, corrects = (
            numbers_of([getattr(batch, name) for batch in unread])
            for name in ("loss", "weight", "correct")
        )
        for batch, loss, weight, correct in zip(unread, losses, weights, corrects, strict=True):
            if weight is None:  # a sum
                self.add_sums([0.0, batch.samples, loss, correct], batch.optimizer)
            else:
                self.add_sums(
                    [0.0, weight, loss * weight if weight else 0.0, correct], batch.optimizer
                )
            if weight != 0 and not isfinite(loss) and batch.number is not None:
                text = f"Trainer: the loss was {loss} at step {batch.number + 1} on rank 0"
                warnings.warn(text, RuntimeWarning, stacklevel=2)

    @property
    def samples(self) -> int:
        return int(self.sums[0])

    @property
    def loss(self) -> float:
        self.read()
        return self.sums[2] / self.sums[1] if self.sums[1] else float("nan")

    @property
    def accuracy(self) -> float | None:
        self.read()
        return self.sums[3] / self.sums[0] if self.sums[1] and self.sums[3] >= 0 else None

    def means(self) -> dict[str, float]:
        """All means, by name."""
        out = {"loss": self.loss}
        if self.accuracy is not None:
            out["accuracy"] = self.accuracy
        for name, (total, samples) in self.named.items():
            out[name] = total / samples if samples else float("nan")
        return out

    def state_dict(self) -> dict[str, Any]:
        self.read()
        return {"sums": list(self.sums), "named": {k: list(v) for k, v in self.named.items()}}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.clear()
        self.sums = [float(x) for x in state["sums"]]
        self.named = {name: list(total) for name, total in state["named"].items()}


def numbers_of(values: list[Any]) -> list[Any]:
    """Tensors of one element as numbers, read at once; others as they are."""
    tensors = [x.detach().reshape(()).double() for x in values if isinstance(x, Tensor)]
    numbers = iter(stack(tensors).tolist() if tensors else [])
    return [next(numbers) if isinstance(x, Tensor) else x for x in values]


@dataclass(frozen=True)
class Epoch:
    """The record of one epoch.

    Parameters
    ----------
    epoch : int
        Its number, from 1.
    loss, accuracy : float
        Means over the training samples, at the time of their steps (accuracy: None if the model is
        not a classifier).
    eval_loss, eval_accuracy : float or None
        On the held-out data after the epoch.
    lr : float
        Of the first parameter group.
    samples : int
        Of the training part.
    seconds : float
        Of the training part.
    metrics : dict, optional
        Other figures, by name: those of the training step, and with "eval_" those of the last
        evaluation.

    See Also
    --------
    History

    Examples
    --------
    >>> from shmtensor.trainer import Epoch
    >>> Epoch(1, 0.5, 0.9, None, None, lr=0.1, samples=8, seconds=1.0).loss
    0.5
    """

    epoch: int
    loss: float
    accuracy: float | None
    eval_loss: float | None
    eval_accuracy: float | None
    lr: float
    samples: int
    seconds: float
    metrics: dict[str, float] = field(default_factory=dict)

    @property
    def samples_per_second(self) -> float:
        return self.samples / self.seconds if self.seconds else 0.0


@dataclass
class History:
    """The epochs so far, and their figures by name.

    Parameters
    ----------
    epochs : list of Epoch, optional
        The records.

    Raises
    ------
    KeyError
        `history[name]`: there is no such figure.

    Notes
    -----
    `history["loss"]` is the list of their losses, and `history["eval_f1"]` that of a metric (None
    where an epoch has none).

    Examples
    --------
    >>> from shmtensor.trainer import Epoch, History
    >>> history = History([Epoch(1, 0.5, 0.9, None, None, lr=0.1, samples=8, seconds=1.0)])
    >>> history["loss"], history["lr"], len(history)
    ([0.5], [0.1], 1)
    """

    epochs: list[Epoch] = field(default_factory=list)

    def __getitem__(self, name: str) -> list[Any]:
        if name in Epoch.__dataclass_fields__:
            return [getattr(epoch, name) for epoch in self.epochs]
        names = {name for epoch in self.epochs for name in epoch.metrics}
        if name not in names:
            raise KeyError(
                f"History: no {name!r}: there are {[*Epoch.__dataclass_fields__, *names]}"
            )
        return [epoch.metrics.get(name) for epoch in self.epochs]

    def __len__(self) -> int:
        return len(self.epochs)

    def _table(self) -> tuple[list[str], list[list[str]]]:
        """Columns that have a value in an epoch, and a row of texts for each epoch."""
        records = [{**vars(epoch), **epoch.metrics} for epoch in self.epochs]
        names = dict.fromkeys(name for record in records for name in record)
        used = [n for n in names if n != "metrics" and any(r.get(n) is not None for r in records)]
        return used, [[figure(record.get(name)) for name in used] for record in records]

    def __str__(self) -> str:
        if not self.epochs:
            return "no epoch yet"
        names, rows = self._table()
        widths = [max(map(len, column)) for column in zip(names, *rows, strict=True)]
        return "\n".join(
            "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True))
            for row in [names, *rows]
        )

    def _repr_html_(self) -> str:
        return html_table(*self._table())

    def state_dict(self) -> list[dict[str, Any]]:
        return [asdict(epoch) for epoch in self.epochs]

    def load_state_dict(self, state: list[dict[str, Any]]) -> None:
        self.epochs = [Epoch(**record) for record in state]


@dataclass
class TrainerStatistics:
    """Statistics of a trainer's runs in this process; `str()` says what bounds a step.

    Parameters
    ----------
    steps : int, optional
        Optimizer steps since the first epoch.
    samples : int, optional
        Training samples.
    seconds : float, optional
        Training time, with evaluations in the middle of an epoch.
    tensor_bytes_copied : int, optional
        Bytes of tensors that were copied for another process: batches that were not in shared
        memory, and small or private operands of collectives.
    nprocs : int, optional
        Ranks of the last run.
    seconds_of_data : float, optional
        Of these seconds, for which rank 0 has waited for batches.
    seconds_waited : float, optional
        And for the other ranks.

    Examples
    --------
    >>> from shmtensor.trainer import Trainer
    >>> model = nn.Linear(2, 1)
    >>> sgd = st.optim.SGD(model.parameters(), lr=0.1)
    >>> trainer = Trainer(model, sgd, nn.MSELoss(), nprocs=1, progress=False)
    >>> history = trainer.fit([(st.ones(8, 2), st.ones(8, 1))], epochs=3)
    >>> trainer.statistics().steps, trainer.statistics().samples
    (3, 24)
    """

    steps: int = 0
    samples: int = 0
    seconds: float = 0.0
    tensor_bytes_copied: int = 0
    nprocs: int = 1
    seconds_of_data: float = 0.0
    seconds_waited: float = 0.0

    def add(self, seconds: float, samples: int, of_data: float, waited: float) -> None:
        self.seconds += seconds
        self.samples += samples
        self.seconds_of_data += of_data
        self.seconds_waited += waited

    def end(self, run: Any, step: int) -> None:
        """Adds what a run has counted."""
        self.steps, self.nprocs = step, run.size
        self.tensor_bytes_copied += run.bytes_copied

    @property
    def samples_per_second(self) -> float:
        return self.samples / self.seconds if self.seconds else 0.0

    def __str__(self) -> str:
        if not self.seconds:
            return "no step yet"
        shares = {
            "batches": self.seconds_of_data / self.seconds,
            "the other ranks": self.seconds_waited / self.seconds,
        }
        shares["compute"] = max(0.0, 1.0 - sum(shares.values()))
        most = max(shares, key=lambda name: shares[name])
        advice = {
            "batches": ": more num_workers may help",
            "the other ranks": ": the steps are short, or the parts unequal; try nprocs=1",
            "compute": "",
        }[most]
        ranks = "one rank" if self.nprocs == 1 else f"{self.nprocs} ranks"
        return (
            f"{self.samples_per_second:,.0f} samples/s on {ranks}: {shares['compute']:.0%} of the "
            f"time computes, {shares['batches']:.0%} waits for batches, "
            f"{shares['the other ranks']:.0%} for other ranks; {most} "
            f"bound{'s' * (most == 'compute')} it{advice}"
        )


def figure(value: Any) -> str:
    """A value as a table shows it: four digits; nothing for None."""
    if value is None:
        return ""
    return f"{value:.4g}" if isinstance(value, float) else str(value)
