"""Several ranks on GPUs: each has a copy of weights and optimizer, and all add their gradients.

The memory of a GPU cannot be updated by several processes in place as shared memory is: another
process's writes would need an event for each shard, and most GPUs do not reach each other's memory.
So this is the way of DistributedDataParallel. The calling process is rank 0 and uses a GPU, too.
"""

from __future__ import annotations

from typing import Any

from .. import cupy_runtime, distributed
from ..device import Device
from ..distributed.ddp.bucket import make_buckets
from ..distributed.ddp.replica import broadcast
from ..distributed.group.backend import Backend
from ..distributed.group.process_group import ProcessGroup
from .gradients import parameters_of
from .weights import Clip, OneProcess

BUCKET = 25 << 20  # bytes of gradients that are reduced together


def gpu_of_rank(device: Device, rank: int) -> Device:
    """The GPU of a rank: that of `device`, or without an index one GPU after the other."""
    if device.index is not None:
        return device
    return Device("cuda", rank % max(cupy_runtime.device_count(), 1))


def use_gpu(device: Device) -> None:
    """Makes a GPU this thread's current one."""
    device.xp.cuda.Device(device.index).use()


def group_on_gpus(group: ProcessGroup, device: Device) -> ProcessGroup:
    """The group whose collectives reduce the gradients: of NCCL if each rank has a GPU of its
    own, else the group itself. All ranks call it."""
    has_own_gpu = device.index is None and group.size() <= cupy_runtime.device_count()
    if group.name() != "shm" or not has_own_gpu or not distributed.is_nccl_available():
        return group
    engine = Backend(Backend.NCCL).make_engine(group.native, group.timeout, group.rank())
    on_gpus = ProcessGroup(engine, group.timeout, group.ranks)
    on_gpus.backend = Backend.NCCL
    return on_gpus


class Replicated(OneProcess):
    """A rank's own optimizer, over gradients that are the sums of all ranks'.

    Missing gradients count as zeros, so ranks without samples take part.
    """

    def __init__(self, optimizer: Any, scaler: Any, group: ProcessGroup, clip: Clip) -> None:
        super().__init__(optimizer, scaler, clip)
        self.group = group
        _ = getattr(optimizer, "flats", None)  # where the parameters are now
        self.parameters = [p for p in parameters_of(optimizer) if p.requires_grad]
        self.buckets = make_buckets(self.parameters[::-1], BUCKET)

    def update(self, missing: Any, factor: float) -> None:
        """Sums all gradients over the ranks, and makes the step. Copies: two of the gradients on
        the GPU.
        """
        for bucket in self.buckets:
            bucket.reduce(self.group, 1, None)
        super().update(missing, factor)


def refresh(model: Any, group: ProcessGroup, with_parameters: bool) -> None:
    """Copies rank 0's buffers, and parameters, to the other ranks."""
    for x in [*model.buffers(), *(model.parameters() if with_parameters else ())]:
        broadcast(group, x.array, 0)
