"""How a training run executes its steps: in the calling process, or in worker processes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from ..device import CPU
from ..errors import PeerLostError, ShmTensorError, TornWeights
from ..nn import Module
from ..tensor.share_memory import move_to_shared_memory
from .progress_board import ProgressBoard
from .rank_step import Replica
from .sharded_optimizer import FullOptimizer, Shards, Snapshot
from .split_batch import Counter, as_tensors, share
from .worker_processes import WorkerPool, make_replica

if TYPE_CHECKING:
    from .trainer import Trainer

Progress = Callable[[int], None]


class Ranks:
    """Executes the steps; `board` has the figures of the last pass."""

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
        """One pass over the data. Calls `progress` with the number of steps since the run began;
        returns the number of batches.
        """
        raise NotImplementedError


class InProcess(Ranks):
    """One rank: the calling process."""

    def __init__(self, trainer: Trainer) -> None:
        self.trainer = trainer
        self.board = ProgressBoard.create(1)
        device = trainer.device_of_model()
        trainer.model.to(device)
        self.device = device
        precision = trainer.precision(device)
        optimizer = FullOptimizer(trainer.optimizer, precision.scaler)
        self.replica = Replica(
            trainer.model, trainer.loss, optimizer, self.board, None, 0, 1, device, precision
        )

    def run(
        self, data: Iterable[Any], training: bool, epoch: int, progress: Progress, step: int
    ) -> int:
        self.board.clear_figures()
        was_training = self.trainer.model.training
        self.trainer.model.train(training)
        n = 0
        try:
            for batch in data:
                on_gpu = self.device.type == "cuda"
                shared = as_tensors(batch) if on_gpu else share(batch, Counter())
                self.replica.train(shared) if training else self.replica.evaluate(shared)
                n += 1
                progress(step + n)
        finally:
            self.trainer.model.train(was_training)
        return n


class InWorkers(Ranks):
    """Ranks that are child processes of the calling process."""

    def __init__(self, trainer: Trainer) -> None:
        self.trainer = trainer
        self.initial_step = trainer.step
        ranks = trainer.nprocs
        self.board = ProgressBoard.create(ranks)
        self.board.start(trainer.step)
        move_into_shared_memory(trainer)
        gradients = Shards.create_gradients(trainer.optimizer, ranks)
        self.shards = Shards(trainer.optimizer, gradients)
        self.snapshot = (
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
            "precision": trainer.precision(CPU),
            "make_replica": make_replica,
        }
        for p in trainer.model.parameters():
            p.grad = None
        self.workers = WorkerPool(ranks, setup, self.board, trainer.start_method)

    def __exit__(self, *error: object) -> None:
        self.workers.close(graceful=error[0] is None)
        if error[0] is not None and not self.workers.has_failed:
            self.restore_weights()  # the loader failed, or Ctrl-C: the ranks have done their steps

    def run(
        self, data: Iterable[Any], training: bool, epoch: int, progress: Progress, step: int
    ) -> int:
        self.board.clear_figures()
        name = "train" if training else "evaluate"

        def report_progress() -> None:
            progress(step + int(self.board.figures[:, 0].min()))

        n = 0
        try:
            self.workers.send("begin", training, epoch)
            for batch in data:
                self.workers.send(name, share(batch, self.trainer._counter))
                n += 1
                report_progress()
            self.workers.send("end")
            self.bytes_inline = sum(self.workers.collect("done", report_progress))
        except ShmTensorError as error:
            if self.workers.has_failed:  # else it is the loader's error
                self.recover(error)
            raise
        return n

    def restore_weights(self) -> str:
        """Restores the snapshot if the weights are torn; returns a text on their state. Called when
        no rank runs any more.

        Raises:
            TornWeights: they are torn, and there is no snapshot.
        """
        step, state = self.board.complete_step(), "whole"
        if step is None:
            words = self.board.read()
            torn = f"torn between steps {min(words) // 2} and {(max(words) + 1) // 2}"
            if self.snapshot is None:
                raise TornWeights(f"weights are {torn}, and snapshots are off: load a checkpoint")
            step, state = self.snapshot.restore(), f"were {torn} and are those of the snapshot"
        self.trainer.step = step
        self.shards.set_steps(step - self.initial_step)
        return f"weights {'are whole' if state == 'whole' else state} at step {step}"

    def recover(self, error: ShmTensorError) -> None:
        """After a rank's death: adds the weights' state to the error, or raises TornWeights."""
        try:
            state = self.restore_weights()
        except TornWeights as torn:
            raise TornWeights(f"{error}; {torn}") from error
        if isinstance(error, PeerLostError):
            raise PeerLostError(
                f"{error}; {state}", error.name, error.pid, error.exitcode
            ) from None
        where, _, traceback = str(error).partition(":\n")  # the cause is the last line
        error.args = (f"{where}, {state}:\n{traceback.rstrip()}", *error.args[1:])

    def set_options(self, options: list[dict[str, Any]]) -> None:
        self.workers.send("options", options)

    def epoch_done(self, step: int) -> None:
        self.shards.set_steps(step - self.initial_step)
        if self.snapshot is not None:
            self.snapshot.copy_from_shards(step)


def buffers_of(model: Module) -> list[Any]:
    return [buffer.array for buffer in model.buffers()]


def move_into_shared_memory(trainer: Trainer) -> None:
    """Moves parameters and buffers in private memory to shared memory, where children see the
    updates. Copies: one, of those.
    """
    move_to_shared_memory([*trainer.model.parameters(), *trainer.model.buffers()])
