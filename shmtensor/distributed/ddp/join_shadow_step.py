"""The shadow steps of a joined DistributedDataParallel, during the steps of the other ranks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...autograd import wrap
from ..collectives.reference import ReduceOp
from .bucket import GradBucket
from .join import JoinHook, all_reduce_int
from .replica import copy_from_root
from .unused_parameters import used_on_any_rank

if TYPE_CHECKING:
    from .distributed_data_parallel import DistributedDataParallel

__all__ = ["ShadowReductions"]


class ShadowReductions(JoinHook):
    """The hook of a joined DistributedDataParallel: contributes zeros to every reduction."""

    def __init__(self, ddp: DistributedDataParallel) -> None:
        self.ddp = ddp

    def main_hook(self) -> None:
        ddp, group = self.ddp, self.ddp.process_group
        active = all_reduce_int(group, 0)
        flags = all_reduce_int(group, 0, ReduceOp.MAX)
        if flags & 2:
            ddp._broadcast_buffers(-1)
        if not flags & 1:
            return
        ddp._follow_parameters()
        ddp._divisor = None if ddp._divides_by_world_size else active
        for at, bucket in enumerate(ddp._buckets):
            bucket.allocate_grad_buffers()
            hook = ddp._hook
            if bucket.is_sparse:
                bucket.reduce_without_gradient(group, ddp._divisor, ddp._precision.reduce_dtype)
                continue
            offsets, total = (
                (bucket.offsets, bucket.total) if hook is None else bucket.contiguous_offsets()
            )
            flat = bucket.zeros(total)
            if hook is not None:
                last = at + 1 == len(ddp._buckets)
                grad_bucket = GradBucket(at, wrap(flat), bucket.parameters, last)
                hook(ddp._hook_state, grad_bucket).wait()
            else:
                bucket.average(group, flat, ddp._divisor, ddp._precision.reduce_dtype)
            # a ZeroRedundancyOptimizer goes on updating this rank's part of the parameters
            bucket.copy_to_gradients(flat, offsets, None)
        if ddp._finds_unused:
            used_on_any_rank(group, ddp._trainable, None)

    def post_hook(self, is_last_joiner: bool) -> None:
        group = self.ddp.process_group
        root = all_reduce_int(group, group.rank() if is_last_joiner else -1, ReduceOp.MAX)
        copy_from_root(group, self.ddp._replica(), root)
