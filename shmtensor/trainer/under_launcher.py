"""The ranks of a process group that exists already (`python -m shmtensor.run`): every one of them
calls `fit`.

Rank 0's model, optimizer and loader count: the others take over its weights, which from then on
are one copy, and get its batches as handles. A rank's own model shows the shared weights from the
first `fit` on.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from .. import distributed
from ..distributed.group.init_process_group import is_launched
from ..errors import PeerLostError, TornWeights
from .execution import Progress, Ranks, move_into_shared_memory
from .progress_board import ProgressBoard
from .rank_step import Replica
from .sharded_optimizer import Shards
from .split_batch import share
from .worker_processes import Barrier, Buffers, seed_rank, set_options

if TYPE_CHECKING:
    from .trainer import Trainer

__all__ = ["Joined", "is_joined"]


def is_joined() -> bool:
    """Whether this process is a rank of a group, or was launched to be one."""
    if distributed.is_initialized():
        return distributed.get_world_size() > 1
    if is_launched():
        distributed.init_process_group()
        return distributed.get_world_size() > 1
    return False


def broadcast(thing: Any) -> Any:
    """Rank 0's object on every rank."""
    box = [thing]
    distributed.broadcast_object_list(box, 0)
    return box[0]


class Joined(Ranks):
    """This process is one of the ranks."""

    def __init__(self, trainer: Trainer) -> None:
        self.trainer = trainer
        self.rank, self.ranks = distributed.get_rank(), distributed.get_world_size()
        self.is_first = self.rank == 0
        group = distributed.GroupMember.WORLD
        assert group is not None
        if group.spans_nodes:
            raise RuntimeError(
                "Trainer: its ranks share parameters in memory, so they are of one machine: on "
                "several wrap the model in DistributedDataParallel"
            )
        self.group = group.native
        self.began = trainer.step
        setup = None
        if self.is_first:
            move_into_shared_memory(trainer)
            board = ProgressBoard.create(self.ranks)
            board.start(trainer.step)
            gradients = Shards.create_gradients(trainer.optimizer, self.ranks)
            trainer.optimizer.zero_grad()
            shared = Shards(trainer.optimizer, gradients).shared()
            setup = (trainer.model, trainer.optimizer, gradients, board.array, shared)
        setup = broadcast(setup)
        assert setup is not None
        model, self.optimizer, gradients, board_array, shared = setup
        if self.is_first:
            model, self.optimizer = trainer.model, trainer.optimizer
        else:
            show(trainer.model, model)
        self.model = model
        self.board = ProgressBoard(board_array)
        self.shards = Shards(self.optimizer, gradients, None if self.is_first else shared)
        self.shards.use_grad_buffers(self.rank)
        self.buffers = Buffers(model, self.rank)
        self.barrier = Barrier(self.group, group.timeout)
        self.replica = Replica(
            model, trainer.loss, self.shards, self.board, self.barrier, self.rank, self.ranks
        )

    def run(
        self, data: Iterable[Any], training: bool, epoch: int, progress: Progress, step: int
    ) -> int:
        self.barrier.barrier()
        if self.is_first:
            self.board.clear_figures()
        seed_rank(self.trainer.seed, epoch, self.rank)
        self.model.train(training)
        self.barrier.barrier()
        if not training:
            self.buffers.refresh()
        n = 0
        batches = iter(data) if self.is_first else None
        act = self.replica.train if training else self.replica.evaluate
        try:
            while True:
                batch = None
                if batches is not None and (batch := next(batches, None)) is not None:
                    batch = share(batch, self.trainer._counter)
                if (batch := broadcast(batch)) is None:
                    break
                act(batch)
                n += 1
                progress(step + n)
        except PeerLostError as error:
            if self.board.whole_at() is None:
                raise TornWeights(
                    f"{error}; weights are torn in the middle of a step: load a checkpoint"
                ) from error
            raise
        except BaseException as error:
            self.group.break_off(f"rank {self.rank} raised {type(error).__name__}")
            raise
        self.barrier.barrier()  # all figures are on the board
        self.bytes_inline = 0
        return n

    def epoch_done(self, step: int) -> None:
        self.shards.set_steps(step - self.began)
        self.trainer.optimizer._opt_called = True  # a scheduler asks its own

    def set_options(self, options: list[dict[str, Any]]) -> None:
        set_options(self.optimizer, broadcast(options))


def show(own: Any, shared: Any) -> None:
    """Points the tensors of a rank's own model at the shared ones' memory."""
    for x, y in zip(
        [*own.parameters(), *own.buffers()], [*shared.parameters(), *shared.buffers()], strict=True
    ):
        if x.array.shape != y.array.shape or x.array.dtype != y.array.dtype:
            raise ValueError(
                "Trainer: this rank's model is not rank 0's: a tensor is "
                f"{tuple(x.array.shape)} {x.array.dtype}, "
                f"not {tuple(y.array.shape)} {y.array.dtype}"
            )
        x.array = y.array
