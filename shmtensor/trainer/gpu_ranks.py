"""Ranks on GPUs: each has a copy of the weights and of the optimizer, and all add their gradients.

```
 calling process                         rank 0                        rank 1
   weights, on the host ------- once --->  copy on its GPU               copy on its GPU
   batch: handles ------------------->     its part, copied there        its part, copied there
                                           gradients ---- all_reduce, by buckets ---- gradients
                                           update of all weights         update of all weights
   weights, on the host <--- each epoch -- rank 0's
```

The memory of a GPU cannot be updated by several processes in place as shared memory is: another
process's writes would need an event for each shard, and most GPUs do not reach each other's memory.
So this is the way of DistributedDataParallel.
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

from .. import cupy_runtime, distributed
from ..device import CPU, Device
from ..distributed.ddp.bucket import make_buckets
from ..distributed.ddp.replica import broadcast
from ..distributed.group.process_group import ProcessGroup
from .execution import InWorkers, Ranks, move_into_shared_memory
from .progress_board import ProgressBoard
from .rank_step import Replica
from .sharded_optimizer import FullOptimizer
from .split_batch import on_host
from .under_launcher import InGroup, broadcast_object
from .worker_processes import Barrier, WorkerPool

if TYPE_CHECKING:
    from .trainer import Trainer

BUCKET = 25 << 20  # bytes of gradients that are reduced together


def gpu_of_rank(device: Device, rank: int) -> Device:
    """The GPU of a rank: that of `device`, or without an index one GPU after the other."""
    if device.index is not None:
        return device
    return Device("cuda", rank % max(cupy_runtime.device_count(), 1))


def use_gpu(device: Device) -> None:
    """Makes a GPU this thread's current one."""
    device.xp.cuda.Device(device.index).use()


class ReplicatedOptimizer(FullOptimizer):
    """A rank's own optimizer, over gradients that are the sums of all ranks'.

    Missing gradients count as zeros, so ranks without samples take part.
    """

    def __init__(self, optimizer: Any, scaler: Any, group: ProcessGroup) -> None:
        super().__init__(optimizer, scaler)
        self.group = group
        parameters = [p for g in optimizer.param_groups for p in g["params"] if p.requires_grad]
        self.buckets = make_buckets(parameters[::-1], BUCKET)

    def reduce(self, rank: int) -> None:
        """Sums all gradients over the ranks. Copies: two of the gradients on the GPU."""
        for bucket in self.buckets:
            bucket.reduce(self.group, 1, None)

    def set_steps(self, n: int) -> None:
        """Does nothing: the optimizer has made the steps itself."""


class BuffersOnGpu:
    """The model's buffers: each rank trains with its own, and copies rank 0's before evaluation."""

    def __init__(self, model: Any, group: ProcessGroup) -> None:
        self.model = model
        self.group = group

    def refresh(self) -> None:
        for buffer in self.model.buffers():
            broadcast(self.group, buffer.array, 0)


# ---------------------------------------------------------------- started by the calling process
def make_replica(
    rank: int, ranks: int, barrier: Barrier, board: ProgressBoard, setup: dict[str, Any]
) -> tuple[Replica, BuffersOnGpu]:
    """What a rank process trains with; the first use of CUDA in it."""
    device = gpu_of_rank(setup["device"], rank)
    use_gpu(device)
    has_own_gpu = setup["device"].index is None and ranks <= cupy_runtime.device_count()
    distributed.init_process_group(
        "nccl" if has_own_gpu and distributed.is_nccl_available() else "shm",
        setup["name"],
        timeout=None if setup["timeout"] < 0 else setup["timeout"],
        world_size=ranks,
        rank=rank,
    )
    group = distributed.GroupMember.WORLD
    assert group is not None
    model, optimizer, precision = setup["model"], setup["optimizer"], setup["precision"]
    model.to(device)
    replicated = ReplicatedOptimizer(optimizer, precision.scaler, group)
    replica = Replica(
        model, setup["loss"], replicated, board, barrier, rank, ranks, device, precision
    )
    return replica, BuffersOnGpu(model, group)


class InWorkersOnGpus(InWorkers):
    """Ranks that are child processes, each with a GPU or a part of one.

    The calling process does not use a GPU: it has the weights of the last epoch, on the host.
    """

    def __init__(self, trainer: Trainer, device: Device) -> None:
        if trainer.start_method == "fork":
            raise ValueError(
                f"Trainer: start_method: a forked rank cannot use {device}: 'fork', use 'spawn' "
                "or 'forkserver'"
            )
        self.trainer = trainer
        self.complete = trainer.step
        self.home = next((p.device for p in trainer.model.parameters()), CPU)
        self.board = ProgressBoard.create(trainer.nprocs)
        self.board.start(trainer.step)
        trainer.model.to("cpu")
        move_into_shared_memory(trainer)
        trainer.optimizer.zero_grad()
        _ = trainer.optimizer.flats  # moves the state there
        setup = {
            "make_replica": make_replica,
            "model": trainer.model,
            "optimizer": trainer.optimizer,
            "loss": trainer.loss,
            "board": self.board.array,
            "timeout": trainer.timeout,
            "seed": trainer.seed,
            "device": device,
            "precision": trainer.precision(device),
            "name": f"trainer/{uuid.uuid4().hex}",
        }
        try:
            method = trainer.start_method or "spawn"
            self.workers = WorkerPool(trainer.nprocs, setup, self.board, method)
        except BaseException:
            self.move_home()
            raise

    def move_home(self) -> None:
        """Moves the calling process's model to where it was."""
        self.trainer.model.to(self.home)

    def __exit__(self, *error: object) -> None:
        try:
            super().__exit__(*error)
        finally:
            self.move_home()

    def epoch_done(self, step: int) -> None:
        """Copies rank 0's weights and state to the calling process's."""
        self.workers.send("state")
        state = self.workers.collect("state", lambda: None)[0]
        trainer = self.trainer
        trainer.model.load_state_dict(state["model"])
        trainer.optimizer.load_state_dict(state["optimizer"])
        if trainer.scaler is not None:
            trainer.scaler.load_state_dict(state["scaler"])
        trainer.optimizer._opt_called = True  # this process's scheduler checks it
        self.complete = step

    def restore_weights(self) -> str:
        """Nothing is torn: this process has the weights of the last epoch."""
        self.trainer.step = self.complete
        return f"weights are those after the last epoch, at step {self.complete}"


# ---------------------------------------------------------------- ranks of a process group
class InGroupOnGpus(InGroup):
    """Executes the steps as one rank of a process group, each with a GPU or a part of one."""

    def __init__(self, trainer: Trainer, device: Device) -> None:
        self.trainer = trainer
        self.rank, self.ranks = distributed.get_rank(), distributed.get_world_size()
        self.is_first = self.rank == 0
        group = self.group_on_one_machine()
        self.group = group.native
        device = gpu_of_rank(device, self.rank)
        use_gpu(device)
        trainer.model.to(device)
        self.model, self.optimizer = trainer.model, trainer.optimizer
        self.optimizer.zero_grad()
        setup = None
        if self.is_first:
            board = ProgressBoard.create(self.ranks)
            board.start(trainer.step)
            states = self.model.state_dict(), self.optimizer.state_dict()
            setup = board.array, *map(on_host, states)
        setup = broadcast_object(setup)
        assert setup is not None
        board_array, model_state, optimizer_state = setup
        if not self.is_first:
            self.model.load_state_dict(model_state)
            self.optimizer.load_state_dict(optimizer_state)
        self.board = ProgressBoard(board_array)
        precision = trainer.precision(device)
        replicated = ReplicatedOptimizer(self.optimizer, precision.scaler, group)
        self.shards: Any = replicated
        self.buffers: Any = BuffersOnGpu(self.model, group)
        self.barrier = Barrier(self.group, group.timeout)
        self.initial_step = trainer.step
        self.replica = Replica(
            self.model, trainer.loss, replicated, self.board, self.barrier, self.rank, self.ranks,
            device, precision,
        )  # fmt: skip

    def is_torn(self) -> bool:
        """False: each rank has weights of its own."""
        return False


def ranks_on_gpus(trainer: Trainer, device: Device, in_group: bool) -> Ranks:
    """The ranks of a trainer whose device is a GPU."""
    return InGroupOnGpus(trainer, device) if in_group else InWorkersOnGpus(trainer, device)
