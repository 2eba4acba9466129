"""What a joined DistributedDataParallel does in the steps of the others."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...autograd import wrap
from ...memory.layout import zeros_shared
from ..collectives.reference import ReduceOp
from .bucket import GradBucket
from .join import JoinHook, summed
from .replica import take_over
from .unused_parameters import used_anywhere

if TYPE_CHECKING:
    from .distributed_data_parallel import DistributedDataParallel

__all__ = ["ShadowReductions"]


class ShadowReductions(JoinHook):
    """Of a joined DistributedDataParallel: zeros for every reduction."""

    def __init__(self, ddp: DistributedDataParallel) -> None:
        self.ddp = ddp

    def main_hook(self) -> None:
        ddp, group = self.ddp, self.ddp.process_group
        active = summed(group, 0)
        what = summed(group, 0, ReduceOp.MAX)
        if what & 2:
            ddp._broadcast_buffers(-1)
        if not what & 1:
            return
        ddp._divisor = None if ddp._divides_by_all else active
        for at, bucket in enumerate(ddp._buckets):
            bucket.settle()
            hook = ddp._hook
            if bucket.is_sparse:
                bucket.reduce_without_gradient(group, ddp._divisor, ddp._precision.reduce_dtype)
                continue
            offsets, total = (
                (bucket.offsets, bucket.total) if hook is None else bucket.contiguous_offsets()
            )
            flat = zeros_shared((total,), bucket.dtype())
            if hook is not None:
                last = at + 1 == len(ddp._buckets)
                given = GradBucket(at, wrap(flat), bucket.parameters, last)
                hook(ddp._hook_state, given).wait()
            else:
                bucket.join(group, flat, ddp._divisor, ddp._precision.reduce_dtype)
            # an optimizer with a part of the parameters on this rank goes on with them
            bucket.copy_to_gradients(flat, offsets, None)
        if ddp._looks:
            used_anywhere(group, ddp._trained, None)

    def post_hook(self, is_last_joiner: bool) -> None:
        group = self.ddp.process_group
        root = summed(group, group.rank() if is_last_joiner else -1, ReduceOp.MAX)
        take_over(group, self.ddp._replica, root)
