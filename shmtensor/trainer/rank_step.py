"""A rank's step: gradients of its part of the batches, and its share of the update.

forward, backward of the rank's part         its gradients (shared memory, all ranks read them)
barrier                                      all gradients are complete
word += 1, reduce and update, word += 1      one copy of parameters and optimizer state
"""

from __future__ import annotations

import warnings

# The functions of `signal` make enums of handlers, which takes 6 us in each step.
from _signal import getsignal, signal  # type: ignore[import-not-found]
from contextlib import ContextDecorator
from math import isfinite
from signal import SIGINT, default_int_handler
from threading import current_thread, main_thread
from typing import Any

from ..autograd import no_grad
from ..device import Device
from ..optim.arguments import number as number_of
from ..profiler import profiling
from ..random import manual_seed
from ..tensor import Tensor
from ..tensor.from_data import as_tensor
from .batch_loss import NO_CONTEXT, BatchLoss, compute_loss, count_correct, run_step
from .batches import on_device, on_host
from .history import Figures, Unread, numbers_of, unread_of
from .progress_board import ProgressBoard, checksum
from .ranks import Ranks
from .setup import Setup
from .sync_batchnorm import SyncedBatchNorms


class RankStep:
    """A rank's part of each step.

    Args:
        weights: for each optimizer one of weights.py.
        device: where the model is; the rank's part of a batch is moved there.
        batch_norms: the layers that normalize by the samples of all ranks, or None.

    Attributes:
        names: of the figures that the training step has returned in this step.
        is_skipped: this step was left out, because its loss is NaN or infinite.
        totals: of the last update's figures, over the ranks.
        unread: figures that a GPU may not have computed yet.
        evaluated: of an evaluation on a GPU: the figures of this rank's samples.
        kept: of an evaluation: of each batch, outputs and targets of this rank's samples, or None.
    """

    def __init__(
        self,
        setup: Setup,
        ranks: Ranks,
        board: ProgressBoard,
        weights: list[Any],
        device: Device,
        batch_norms: SyncedBatchNorms | None,
    ) -> None:
        self.model, self.steps, self.precision = setup.model, setup.steps, setup.precision
        self.rank, self.ranks, self.barrier = ranks.rank, ranks.size, ranks.barrier
        self.board = board
        self.weights = weights
        self.device = device
        self.batch_norms = batch_norms
        self.names: list[str] = []
        self.is_skipped = False
        self.kept: list[Any] = []
        self.totals = [0.0] * 4
        self.unread: list[Unread] = []
        self.evaluated = Figures()
        # Of the present step: its number and optimizer; whether its losses were divided, by what.
        self.number, self.index, self.is_divided, self.base = 0, 0, False, 1
        self.last_share: tuple[float, Any, Any] = 0.0, None, None
        scaler = setup.precision.scaler
        self.looks_at_loss = scaler is None or not scaler.is_enabled()
        needs_loss = self.looks_at_loss and self.steps.on_nonfinite != "warn"
        self.reads_later = device.type == "cuda" and self.ranks == 1 and not needs_loss

    # ---------------------------------------------------------------- training
    def train(self, group: list[Any], seed: int, number: int, index: int = 0) -> None:
        """One step of one optimizer.

        Args:
            group: of each batch, this rank's samples, their number, and that of the batch's.
            seed: of the rank's random numbers in this step.
            number: of the step.
            index: of the optimizer.
        """
        profiling.poll()
        began = profiling.begin() if profiling.on else 0
        weights, board, rank = self.weights[index], self.board, self.rank
        weights.clear()
        manual_seed(seed)
        self.number, self.index = number, index
        self.base = group[0][2] if len(group) == 1 else sum(total for _, _, total in group)
        self.is_divided = self.ranks > 1 or len(group) > 1
        reads_later = self.reads_later and not self.is_divided
        samples, weight_sum, loss_sum, correct = 0, 0.0, 0.0, 0
        counts_nothing = False
        if self.names:
            board.clear_named(rank)
            self.names = []
        for part, n, total in group:
            if not n:
                if total and self.batch_norms is not None:
                    self.run_without_samples(part, index)
                continue
            samples += n
            with NO_CONTEXT if self.batch_norms is None else self.batch_norms.together(True):
                result = self.loss_of(part, n, index)
                if result is None:
                    continue
                loss = weights.scale(result.loss)
                if result.weight is None:  # a sum
                    self.is_divided = False
                if self.is_divided:
                    loss.backward(self.share_of(result.weight, loss))
                else:
                    loss.backward()
            if result.figures:
                self.add_figures(result.figures, n)
            if reads_later:
                self.unread.append(unread_of(result, n, number, index, self.looks_at_loss))
                continue
            weight, value, right = self.measure(result, n)
            counts_nothing |= weight == 0
            weight_sum += weight
            loss_sum += value
            correct += right
        board.figures[rank] = samples, weight_sum, loss_sum, correct
        # With batch_norms samples that no loss counts have gradients, by the statistics.
        is_zero = counts_nothing and weight_sum == 0 and self.batch_norms is None
        missing = weights.complete(is_zero)
        if missing and rank and weight_sum and not self.has_gradient():
            raise RuntimeError(
                f"Trainer: the loss of rank {rank} does not depend on its model: a training_step "
                "has to use the model that it is given, because other modules of the program are "
                "not trained where it is imported anew"
            )
        board.missing[rank] = missing
        if self.ranks > 1:
            self.barrier()
        self.update()
        if began:
            profiling.end(began, "Trainer.step", profiling.RANGE)

    def share_of(self, weight: Any, loss: Any) -> Any:
        """The gradient of a loss: its weight over that of the step. Steps often have the same."""
        if isinstance(weight, Tensor):  # on a GPU: backward begins before it is known
            return (weight.double() / self.base).to(loss.dtype)
        share, dtype, gradient = self.last_share
        if share != weight / self.base or dtype is not loss.dtype:
            share, dtype = weight / self.base, loss.dtype
            gradient = as_tensor(share, dtype=dtype, device=self.device)
            self.last_share = share, dtype, gradient
        return gradient

    def run_without_samples(self, part: Any, index: int) -> None:
        """Takes part in the all_reduce of BatchNorm layers, by a sample of another rank that counts
        neither in the statistics nor in the gradients."""
        assert self.batch_norms is not None
        with self.batch_norms.together(False):
            result = self.loss_of(part, 1, index)
            if result is not None:
                zero = as_tensor(0.0, dtype=result.loss.dtype, device=self.device)
                result.loss.backward(zero)

    def has_gradient(self) -> bool:
        return any(p.grad is not None for each in self.weights for p, _ in each.gradients.slots)

    def loss_of(self, part: Any, n: int, index: int) -> BatchLoss | None:
        """Forward and loss of n samples for one optimizer, or (-1) in an evaluation."""
        if self.device.type == "cuda":
            part = on_device(part, self.device)
        steps = self.steps
        step = steps.training_step
        if index < 0:
            step = steps.eval_step or step
        with self.precision.context():
            if step is None:
                return compute_loss(self.model, steps.loss, part, n)
            has_index = len(self.weights) > 1 and index >= 0
            return run_step(step, (self.model, part, *([index] if has_index else [])), n)

    def measure(self, result: BatchLoss, n: int) -> tuple[float, float, int]:
        """The weight, the loss times the weight, and the samples classified correctly; one wait."""
        values = [result.weight, result.loss, count_correct(result.outputs, result.targets)]
        figures = numbers_of(values) if result.loss.is_cuda else map(number_of, values)
        weight, value, correct = figures
        if weight is None:  # a sum
            return n, value, correct
        return weight, value * weight if weight else 0.0, correct  # a mean over nothing is NaN

    def add_figures(self, figures: dict[str, float], n: int) -> None:
        """Adds the further figures of n samples."""
        named = self.board.named[self.rank]
        for name, figure in figures.items():
            if name not in self.names:
                self.names.append(name)
                self.board.checksums[self.rank] = checksum(self.names)
            named[self.names.index(name)] += figure * n

    def update(self, has_met: bool = False) -> None:
        """This rank's share of the update, once all gradients are complete. Ctrl-C is taken after
        it: it must not leave the weights torn.

        Args:
            has_met: no other rank runs any more: all have met for the norm of the gradients.
        """
        board, weights = self.board, self.weights[self.index]
        self.totals = board.totals()
        _, weight_sum, loss_sum, _ = self.totals
        self.is_skipped = False
        if self.looks_at_loss and not isfinite(loss_sum):
            if self.steps.on_nonfinite == "raise" and self.rank:
                return  # rank 0 ends the run
            self.is_skipped = self.report_nonfinite()
        factor = 1.0
        if self.is_divided and weight_sum:
            factor = self.base / weight_sum
        if not self.is_skipped:
            factor = weights.prepare(board, factor, None if has_met else self.barrier)
        with interrupts_deferred:
            board.begin_update(self.rank)
            if not self.is_skipped:
                weights.update(board.missing, factor)
            board.end_update(self.rank)

    def report_nonfinite(self) -> bool:
        """Raises or warns on rank 0; returns whether the update is to be skipped."""
        action = self.steps.on_nonfinite
        if self.rank == 0:
            losses = self.board.figures[:, 2].tolist()
            rank = next(r for r, loss in enumerate(losses) if not isfinite(loss))
            text = f"Trainer: the loss is {losses[rank]} at step {self.number + 1} on rank {rank}"
            if action == "raise":
                raise FloatingPointError(
                    f"{text}: the weights are those before it; on_nonfinite='skip' leaves out such "
                    "steps, 'warn' takes them"
                )
            end = ": the step is left out" if action == "skip" else ""
            warnings.warn(text + end, RuntimeWarning, stacklevel=2)
        return action == "skip"

    # ---------------------------------------------------------------- evaluation
    def evaluate(self, part: Any, n: int) -> None:
        """Adds the figures of the rank's part of a batch."""
        result = None
        if n:
            with no_grad():
                result = self.loss_of(part, n, -1)
            if result is not None and result.figures:
                self.add_figures(result.figures, n)
            if result is not None and self.device.type == "cuda":
                self.board.figures[self.rank, 0] += n
                self.evaluated.add_unread([unread_of(result, n)])
            elif result is not None:
                self.board.figures[self.rank] += n, *self.measure(result, n)
        if self.steps.keeps_outputs:
            self.kept.append(result and on_host((result.outputs, result.targets)))


class InterruptsDeferred(ContextDecorator):
    """Calls the program's handler of Ctrl-C after the block, not within it.

    To block the signal is not enough: then another thread of the process gets it (NumPy's library
    has some), and Python calls the handler in the main thread all the same. So `note` is the
    handler, from the first block in the main thread until `restore`: system calls in each step
    would take longer than a small model's share of the update.

    Attributes:
        depth: of the blocks around what the main thread runs.
        handler: the program's.
    """

    def __init__(self) -> None:
        self.depth, self.has_come = 0, False
        self.handler: Any = None

    def __enter__(self) -> None:
        if current_thread() is main_thread():
            self.has_come &= self.depth > 0
            handler = getsignal(SIGINT)
            if handler != self.note and callable(handler):
                self.handler = handler
                signal(SIGINT, self.note)
            self.depth += 1

    def __exit__(self, *error: object) -> None:
        if self.depth and current_thread() is main_thread():
            self.depth -= 1
            if self.has_come and not self.depth:
                self.has_come = False
                self.handler(SIGINT, None)

    def note(self, number: int, frame: Any) -> None:
        if self.depth:
            self.has_come = True
        else:
            (self.handler or default_int_handler)(number, frame)

    def restore(self) -> None:
        """Gives the program its handler back."""
        if current_thread() is main_thread():
            if getsignal(SIGINT) == self.note:
                signal(SIGINT, self.handler)
            self.handler = None


interrupts_deferred = InterruptsDeferred()
