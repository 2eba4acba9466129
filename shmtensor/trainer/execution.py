"""Where the steps of a training run happen: in the calling process, or in ranks that it
supervises.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from .. import native
from ..errors import PeerLostError, ShmTensorError, TornWeights
from ..nn import Module
from .progress_board import ProgressBoard
from .rank_step import Replica
from .sharded_optimizer import Shards, Snapshot, Whole
from .split_batch import Counter, share
from .worker_processes import WorkerPool

if TYPE_CHECKING:
    from .trainer import Trainer

__all__ = ["InProcess", "Ranks", "Supervised"]

Progress = Callable[[int], None]


class Ranks:
    """Where the steps happen; `board` has the figures of the last pass."""

    board: ProgressBoard
    is_first = True
    bytes_inline = 0

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def set_options(self, options: list[dict[str, Any]]) -> None:
        pass

    def epoch_done(self, step: int) -> None:
        pass

    def run(
        self, data: Iterable[Any], training: bool, epoch: int, progress: Progress, step: int
    ) -> int:
        """One pass over the data; `progress` is told the steps since the run began. Returns the
        number of batches.
        """
        raise NotImplementedError


class InProcess(Ranks):
    """One rank: the calling process."""

    def __init__(self, trainer: Trainer) -> None:
        self.trainer = trainer
        self.board = ProgressBoard.create(1)
        self.replica = Replica(
            trainer.model, trainer.loss, Whole(trainer.optimizer), self.board, None, 0, 1
        )

    def run(
        self, data: Iterable[Any], training: bool, epoch: int, progress: Progress, step: int
    ) -> int:
        self.board.clear_figures()
        before = self.trainer.model.training
        self.trainer.model.train(training)
        n = 0
        try:
            for batch in data:
                shared = share(batch, Counter())
                self.replica.train(shared) if training else self.replica.evaluate(shared)
                n += 1
                progress(step + n)
        finally:
            self.trainer.model.train(before)
        return n


class Supervised(Ranks):
    """Ranks that are children of the calling process."""

    def __init__(self, trainer: Trainer) -> None:
        self.trainer = trainer
        self.began = trainer.step
        ranks = trainer.nprocs
        self.board = ProgressBoard.create(ranks)
        self.board.start(trainer.step)
        move_into_shared_memory(trainer)
        gradients = Shards.create_gradients(trainer.optimizer, ranks)
        self.shards = Shards(trainer.optimizer, gradients)
        self.kept = (
            Snapshot(trainer.step, self.shards, buffers_of(trainer.model))
            if trainer.snapshots
            else None
        )
        setup = {
            "model": trainer.model,
            "optimizer": trainer.optimizer,
            "loss": trainer.loss,
            "gradients": gradients,
            "shared": self.shards.shared(),
            "board": self.board.array,
            "timeout": trainer.timeout,
            "seed": trainer.seed,
        }
        for p in trainer.model.parameters():
            p.grad = None
        self.crew = WorkerPool(ranks, setup, self.board, trainer.start_method)

    def __exit__(self, *raised: object) -> None:
        self.crew.close(graceful=raised[0] is None)
        if raised[0] is not None and not self.crew.has_failed:
            self.settle()  # the loader failed, or Ctrl-C: the ranks did what they had

    def run(
        self, data: Iterable[Any], training: bool, epoch: int, progress: Progress, step: int
    ) -> int:
        self.board.clear_figures()
        name = "train" if training else "evaluate"

        def look() -> None:
            progress(step + int(self.board.figures[:, 0].min()))

        n = 0
        try:
            self.crew.send("begin", training, epoch)
            for batch in data:
                self.crew.send(name, share(batch, self.trainer._counter))
                n += 1
                look()
            self.crew.send("end")
            self.bytes_inline = sum(self.crew.collect("done", look))
        except ShmTensorError as error:
            if self.crew.has_failed:  # else it is the loader's
                self.recover(error)
            raise
        return n

    def settle(self) -> str:
        """Makes the weights whole when no rank runs any more, and says which they are.

        Raises:
            TornWeights: they are torn, and there is no snapshot.
        """
        step, state = self.board.whole_at(), "whole"
        if step is None:
            words = self.board.read()
            torn = f"torn between steps {min(words) // 2} and {(max(words) + 1) // 2}"
            if self.kept is None:
                raise TornWeights(f"weights are {torn}, and snapshots are off: load a checkpoint")
            step, state = self.kept.restore(), f"were {torn} and are those of the snapshot"
        self.trainer.step = step
        self.shards.set_steps(step - self.began)
        return f"weights {'are whole' if state == 'whole' else state} at step {step}"

    def recover(self, error: ShmTensorError) -> None:
        """After a rank's end: the same error, and what the weights are; or TornWeights."""
        try:
            state = self.settle()
        except TornWeights as torn:
            raise TornWeights(f"{error}; {torn}") from error
        if isinstance(error, PeerLostError):
            raise PeerLostError(
                f"{error}; {state}", error.name, error.pid, error.exitcode
            ) from None
        error.args = (f"{error}\n{state}", *error.args[1:])

    def set_options(self, options: list[dict[str, Any]]) -> None:
        self.crew.send("options", options)

    def epoch_done(self, step: int) -> None:
        self.shards.set_steps(step - self.began)
        if self.kept is not None:
            self.kept.take(step)


def buffers_of(model: Module) -> list[Any]:
    return [buffer.array for buffer in model.buffers()]


def move_into_shared_memory(trainer: Trainer) -> None:
    """Parameters and buffers that lie in private memory, where children would not see the updates.
    Copies: one, of those.
    """
    for x in [*trainer.model.parameters(), *trainer.model.buffers()]:
        if not native.is_shared(x.array) and x.array.nbytes:
            x.share_memory_()
