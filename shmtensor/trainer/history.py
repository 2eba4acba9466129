"""The history of a training run: a record for each epoch, and statistics of the run."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True)
class Epoch:
    """One epoch.

    Attributes:
        epoch: its number, from 1.
        loss, accuracy: means over the training samples, at the time of their steps (accuracy: None
            if the model is not a classifier).
        eval_loss, eval_accuracy: on the held-out data after the epoch, or None.
        lr: of the first parameter group.
        seconds, samples: of the training part.
    """

    epoch: int
    loss: float
    accuracy: float | None
    eval_loss: float | None
    eval_accuracy: float | None
    lr: float
    samples: int
    seconds: float

    @property
    def samples_per_second(self) -> float:
        return self.samples / self.seconds if self.seconds else 0.0


@dataclass
class History:
    """The epochs so far; `history["loss"]` is the list of their losses."""

    epochs: list[Epoch] = field(default_factory=list)

    def __getitem__(self, name: str) -> list[Any]:
        return [getattr(epoch, name) for epoch in self.epochs]

    def __len__(self) -> int:
        return len(self.epochs)

    def state_dict(self) -> list[dict[str, Any]]:
        return [asdict(epoch) for epoch in self.epochs]

    def load_state_dict(self, state: list[dict[str, Any]]) -> None:
        self.epochs = [Epoch(**record) for record in state]


@dataclass(frozen=True)
class TrainerStatistics:
    """Statistics of a trainer.

    Attributes:
        steps: optimizer steps since the first epoch.
        samples: training samples in this process's runs.
        seconds: training time, without evaluation.
        tensor_bytes_copied: bytes of tensors that were copied for another process: batches that
            were not in shared memory, and small or private operands of collectives.
    """

    steps: int
    samples: int
    seconds: float
    tensor_bytes_copied: int

    @property
    def samples_per_second(self) -> float:
        return self.samples / self.seconds if self.seconds else 0.0
