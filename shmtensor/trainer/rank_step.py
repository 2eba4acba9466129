"""A rank's step: gradients of its part of a batch, and the update of its shard of the shared
weights.

forward, backward of the rank's part         its flat gradients (shared memory, all ranks read it)
barrier                                      all gradients are complete
reduce the shard of all ranks' gradients     directly from their memory, rank 0 first
word += 1, update the shard, word += 1       parameters and optimizer state: one copy for all ranks
barrier                                      the weights are complete again
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any, NamedTuple, Protocol

import numpy as np

from .. import native
from ..amp import autocast
from ..autograd import no_grad
from ..device import CPU, Device
from ..nn import Module
from ..tensor import Tensor
from ..tensor.from_data import as_tensor
from .progress_board import ProgressBoard
from .sharded_optimizer import FullOptimizer, Shards
from .split_batch import on_device, part_of

LossFunction = Callable[[Any, Any], Tensor]


class Barrier(Protocol):
    """The method of a group that a replica calls."""

    def barrier(self) -> None: ...


class Precision(NamedTuple):
    """In which dtype forward and loss run under autocast, if in one, and who scales the loss."""

    device_type: str = "cpu"
    dtype: Any = None
    scaler: Any = None

    def context(self) -> Any:
        """The context of forward and loss."""
        return nullcontext() if self.dtype is None else autocast(self.device_type, self.dtype)


class Replica:
    """A rank's model, whose parameters all ranks share unless they are on GPUs, and its gradients.

    Args:
        device: where the model is; the rank's part of a batch is moved there.
        shards: the optimizer's flat arrays and all ranks' gradients.
        barrier: returns when all ranks have called it; None for a single process.
    """

    def __init__(
        self,
        model: Module,
        loss_function: LossFunction,
        shards: Shards | FullOptimizer,
        board: ProgressBoard,
        barrier: Barrier | None,
        rank: int,
        ranks: int,
        device: Device = CPU,
        precision: Precision = Precision(),  # noqa: B008 (it cannot be changed)
    ) -> None:
        self.model = model
        self.device = device
        self.precision = precision
        self.loss_function = loss_function
        self.shards = shards
        self.board = board
        self.barrier = barrier
        self.rank = rank
        self.ranks = ranks
        self.loss_is_sum = getattr(loss_function, "reduction", "mean") == "sum"

    def wait_for_ranks(self) -> None:
        if self.barrier is not None:
            self.barrier.barrier()

    def train(self, batch: Any) -> None:
        """One step of all ranks; every rank calls it with the same batch."""
        part, n, total = part_of(batch, self.rank, self.ranks)
        shards = self.shards
        shards.clear_gradients()
        loss_sum, correct = 0.0, 0
        if n:
            inputs, targets = split(on_device(part, self.device))
            with self.precision.context():
                outputs = self.model(inputs)
                loss = self.loss_function(outputs, targets)
            # The mean over the batch is the sum of the ranks' means, each weighted by its share of
            # the samples.
            weight = 1.0 if self.loss_is_sum or n == total else n / total
            scaled = shards.scale(loss)
            if weight == 1.0:
                scaled.backward()
            else:
                scaled.backward(as_tensor(weight, dtype=scaled.dtype, device=self.device))
            loss_sum, correct = self.measure(outputs, targets, loss, n)
        shards.complete_gradients()
        self.wait_for_ranks()
        shards.reduce(self.rank)
        self.board.begin_update(self.rank)
        shards.update(self.rank)
        self.board.end_update(self.rank)
        self.board.add(self.rank, n, loss_sum, correct)
        self.wait_for_ranks()

    def evaluate(self, batch: Any) -> None:
        """Adds the rank's part of the batch to the board's figures."""
        part, n, _ = part_of(batch, self.rank, self.ranks)
        if not n:
            self.board.add(self.rank, 0, 0.0, 0)
            return
        with no_grad(), self.precision.context():
            inputs, targets = split(on_device(part, self.device))
            outputs = self.model(inputs)
            loss = self.loss_function(outputs, targets)
        self.board.add(self.rank, n, *self.measure(outputs, targets, loss, n))

    def measure(self, outputs: Any, targets: Any, loss: Tensor, n: int) -> tuple[float, int]:
        """The sum of the losses of n samples, and how many were classified correctly."""
        return float(loss.item()) * (1 if self.loss_is_sum else n), count_correct(outputs, targets)


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


def set_threads(ranks: int) -> None:
    """Divides the CPUs among the ranks of this machine."""
    native.share_threads(ranks)
