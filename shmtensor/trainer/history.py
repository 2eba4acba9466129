"""The history of a training run: a record for each epoch, and statistics of the run."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from ..html_table import html_table


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
