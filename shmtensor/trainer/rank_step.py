"""A rank's step: gradients of its part of a batch, and its share of the update.

forward, backward of the rank's part         its gradients (shared memory, all ranks read them)
barrier                                      all gradients are complete
word += 1, reduce and update, word += 1      one copy of parameters and optimizer state
"""

from __future__ import annotations

import signal
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any, NamedTuple

import numpy as np

from ..amp import autocast
from ..autograd import no_grad
from ..device import CPU, Device
from ..nn import Module
from ..random import manual_seed
from ..tensor import Tensor
from ..tensor.from_data import as_tensor
from .batches import on_device
from .loss_weight import LossFunction, loss_and_weight
from .progress_board import ProgressBoard


class Precision(NamedTuple):
    """In which dtype forward and loss run under autocast, if in one, and who scales the loss."""

    device_type: str = "cpu"
    dtype: Any = None
    scaler: Any = None

    def context(self) -> Any:
        """The context of forward and loss."""
        return nullcontext() if self.dtype is None else autocast(self.device_type, self.dtype)


class RankStep:
    """A rank's part of each step.

    Args:
        weights: one of weights.py.
        barrier: returns when all ranks have called it.
        device: where the model is; the rank's part of a batch is moved there.
    """

    def __init__(
        self,
        model: Module,
        loss_function: LossFunction,
        weights: Any,
        board: ProgressBoard,
        barrier: Callable[[], None],
        rank: int = 0,
        ranks: int = 1,
        device: Device = CPU,
        precision: Precision = Precision(),  # noqa: B008 (it cannot be changed)
    ) -> None:
        self.model = model
        self.loss_function = loss_function
        self.weights = weights
        self.board = board
        self.barrier = barrier
        self.rank = rank
        self.ranks = ranks
        self.device = device
        self.precision = precision
        self.total, self.is_sum = 0, False  # of the present batch

    def train(self, part: Any, n: int, total: int, seed: int) -> None:
        """One step.

        Args:
            part: the rank's samples, n of the batch's total.
            seed: of the rank's random numbers in this step.
        """
        weights, board, rank = self.weights, self.board, self.rank
        weights.clear()
        manual_seed(seed)
        weight: float | None = 0.0
        loss_sum, correct = 0.0, 0
        if n:
            outputs, targets, loss, weight = self.forward(part, n)
            scaled = weights.scale(loss)
            if self.ranks == 1 or weight is None:
                scaled.backward()
            else:
                scaled.backward(as_tensor(weight / total, dtype=scaled.dtype, device=self.device))
            loss_sum, correct = self.measure(outputs, targets, loss, weight)
        self.total, self.is_sum = total, weight is None
        board.figures[rank] = n, n if weight is None else weight, loss_sum, correct
        board.missing[rank] = weights.complete(bool(n) and weight == 0)
        self.barrier()
        self.update()

    def update(self) -> None:
        """This rank's share of the update, once all gradients are complete. Ctrl-C is taken after
        it: it must not leave shared weights torn."""
        board = self.board
        if self.ranks == 1:
            board.begin_update(0)
            self.weights.update(board.missing, 1.0)
            board.end_update(0)
            return
        factor = 1.0
        if not self.is_sum:
            weight_sum = board.figures[:, 1].sum()
            factor = self.total / weight_sum if weight_sum else 1.0
        blocked = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
        try:
            board.begin_update(self.rank)
            self.weights.update(board.missing, factor)
            board.end_update(self.rank)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, blocked)

    def evaluate(self, part: Any, n: int) -> None:
        """Adds the figures of the rank's part of a batch."""
        if n:
            with no_grad():
                outputs, targets, loss, weight = self.forward(part, n)
            figures = self.measure(outputs, targets, loss, weight)
            self.board.figures[self.rank] += n, n if weight is None else weight, *figures

    def forward(self, part: Any, n: int) -> tuple[Any, Any, Tensor, float | None]:
        on_gpu = self.device.type == "cuda"
        inputs, targets = split(on_device(part, self.device) if on_gpu else part)
        with self.precision.context():
            outputs = self.model(inputs)
            loss, weight = loss_and_weight(self.loss_function, outputs, targets, n)
        return outputs, targets, loss, weight

    def measure(
        self, outputs: Any, targets: Any, loss: Tensor, weight: float | None
    ) -> tuple[float, int]:
        """The loss times its weight, and how many samples were classified correctly."""
        value = 0.0 if weight == 0 else float(loss.item())  # a mean over nothing is NaN
        return value * (1 if weight is None else weight), count_correct(outputs, targets)


def seed_of(seed: int, number: int, rank: int) -> int:
    """The seed of a rank's random numbers (dropout) in a step: the same in every run."""
    return (seed * 1_000_003 + number) * 1_009 + rank


def split(batch: Any) -> tuple[Any, Any]:
    if isinstance(batch, (tuple, list)) and len(batch) == 2:
        return batch[0], batch[1]
    raise TypeError(
        f"Trainer: a batch has to be a pair of inputs and targets: got {type(batch).__name__}"
        + (f" of {len(batch)}" if isinstance(batch, (tuple, list)) else "")
    )


def is_classification(outputs: Any, targets: Any) -> bool:
    """Whether outputs are scores (N, classes), and targets class indices (N)."""
    return (
        isinstance(outputs, Tensor)
        and isinstance(targets, Tensor)
        and outputs.ndim == 2
        and targets.ndim == 1
        and targets.array.dtype.kind in "iu"
    )


def count_correct(outputs: Any, targets: Any) -> int:
    """How many samples have their highest score at the target; -1 if it is not a classification."""
    if not is_classification(outputs, targets):
        return -1
    if outputs.is_cuda:
        return int((outputs.detach().argmax(1) == targets).sum().item())
    return int(np.count_nonzero(outputs.array.argmax(1) == targets.array))
