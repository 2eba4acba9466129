"""Training by the ranks of an existing process group (`python -m shmtensor.run`): each rank calls
`fit`.

Rank 0's model, optimizer and loader are used: the others share its weights and get its batches as
handles. From the first `fit` on a rank's own model has the shared weights.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from .. import distributed
from ..device import CPU
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


def is_in_group() -> bool:
    """Whether this process is a rank of a group, or was launched to be one."""
    if distributed.is_initialized():
        return distributed.get_world_size() > 1
    if is_launched():
        distributed.init_process_group()
        return distributed.get_world_size() > 1
    return False


def broadcast_object(obj: Any) -> Any:
    """Rank 0's object on every rank."""
    objects = [obj]
    distributed.broadcast_object_list(objects, 0)
    return objects[0]


class InGroup(Ranks):
    """Executes the steps as one rank of a process group."""

    def __init__(self, trainer: Trainer) -> None:
        self.trainer = trainer
        self.rank, self.ranks = distributed.get_rank(), distributed.get_world_size()
        self.is_first = self.rank == 0
        group = self.group_on_one_machine()
        self.group = group.native
        self.initial_step = trainer.step
        setup = None
        if self.is_first:
            move_into_shared_memory(trainer)
            board = ProgressBoard.create(self.ranks)
            board.start(trainer.step)
            gradients = Shards.create_gradients(trainer.optimizer, self.ranks)
            trainer.optimizer.zero_grad()
            shared = Shards(trainer.optimizer, gradients).shared()
            setup = (trainer.model, trainer.optimizer, gradients, board.array, shared)
        setup = broadcast_object(setup)
        assert setup is not None
        model, self.optimizer, gradients, board_array, shared = setup
        if self.is_first:
            model, self.optimizer = trainer.model, trainer.optimizer
        else:
            use_shared_memory(trainer.model, model)
        self.model = model
        self.board = ProgressBoard(board_array)
        self.shards = Shards(self.optimizer, gradients, None if self.is_first else shared)
        self.shards.use_grad_buffers(self.rank)
        self.buffers = Buffers(model, self.rank)
        self.barrier = Barrier(self.group, group.timeout)
        self.replica = Replica(
            model, trainer.loss, self.shards, self.board, self.barrier, self.rank, self.ranks,
            CPU, trainer.precision(CPU),
        )  # fmt: skip

    @staticmethod
    def group_on_one_machine() -> distributed.ProcessGroup:
        """The default group.

        Raises:
            RuntimeError: it spans several machines.
        """
        group = distributed.GroupMember.WORLD
        assert group is not None
        if group.spans_nodes:
            raise RuntimeError(
                "Trainer: its ranks share memory, so they must be on one machine: "
                "for several machines wrap the model in DistributedDataParallel"
            )
        return group

    def is_torn(self) -> bool:
        """Whether a rank has died in the middle of an update of the shared weights."""
        return self.board.complete_step() is None

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
        run_batch = self.replica.train if training else self.replica.evaluate
        try:
            while True:
                batch = None
                if batches is not None and (batch := next(batches, None)) is not None:
                    batch = share(batch, self.trainer._counter)
                if (batch := broadcast_object(batch)) is None:
                    break
                run_batch(batch)
                n += 1
                progress(step + n)
        except PeerLostError as error:
            if self.is_torn():
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
        self.shards.set_steps(step - self.initial_step)
        self.trainer.optimizer._opt_called = True  # this rank's scheduler checks it

    def set_options(self, options: list[dict[str, Any]]) -> None:
        set_options(self.optimizer, broadcast_object(options))


def use_shared_memory(model: Any, shared_model: Any) -> None:
    """Makes the tensors of a rank's own model use the memory of the shared model."""
    for x, y in zip(
        [*model.parameters(), *model.buffers()],
        [*shared_model.parameters(), *shared_model.buffers()],
        strict=True,
    ):
        if x.array.shape != y.array.shape or x.array.dtype != y.array.dtype:
            raise ValueError(
                "Trainer: this rank's model is not rank 0's: a tensor is "
                f"{tuple(x.array.shape)} {x.array.dtype}, "
                f"not {tuple(y.array.shape)} {y.array.dtype}"
            )
        x.array = y.array
