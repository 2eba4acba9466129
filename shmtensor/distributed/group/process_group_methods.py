"""The collectives and messages as methods of a group, by the names of PyTorch's ProcessGroup."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..collectives.reference import PremulSum, ReduceOp
    from .work import Work

__all__ = ["GroupMethods"]


def only(where: str, tensors: Any) -> Any:
    """The tensor of a list of one, as PyTorch's methods take it; a tensor is itself."""
    if not isinstance(tensors, (list, tuple)):
        return tensors
    if len(tensors) != 1:
        raise ValueError(f"{where}: takes a tensor or a list of one: got {len(tensors)}")
    return tensors[0]


class GroupMethods:
    """Of ProcessGroup. Each begins what the function of its kind does, and returns its Work (None
    inside a `_coalescing_manager`). Ranks are the group's own. Tensors come as they are or each in
    a list of one. Errors are those of the functions, raised by `wait()` if the call had begun.

    >>> import shmtensor as st
    >>> import shmtensor.distributed as dist
    >>> dist.init_process_group(rank=0, world_size=1)
    >>> x = st.tensor([1.0, 2.0])
    >>> dist.group.WORLD.allreduce([x], dist.ReduceOp.SUM).wait()
    True
    >>> dist.destroy_process_group()
    """

    def allreduce(self, tensors: Any, op: ReduceOp | PremulSum | None = None) -> Work | None:
        """`all_reduce`; None: SUM."""
        from ..collectives.collectives import all_reduce
        from ..collectives.reference import ReduceOp

        chosen = ReduceOp.SUM if op is None else op
        return all_reduce(only("allreduce", tensors), chosen, self, True)  # type: ignore[arg-type]

    def broadcast(self, tensors: Any, root: int = 0) -> Work | None:
        """`broadcast` of rank `root`."""
        from ..collectives.collectives import broadcast

        x = only("broadcast", tensors)
        return broadcast(x, None, self, True, root)  # type: ignore[arg-type]

    def reduce(
        self, tensors: Any, root: int = 0, op: ReduceOp | PremulSum | None = None
    ) -> Work | None:
        """`reduce` into rank `root`; None: SUM."""
        from ..collectives.collectives import reduce
        from ..collectives.reference import ReduceOp

        chosen = ReduceOp.SUM if op is None else op
        x = only("reduce", tensors)
        return reduce(x, None, chosen, self, True, root)  # type: ignore[arg-type]

    def allgather(self, output_tensors: Sequence[Any], input_tensors: Any) -> Work | None:
        """`all_gather`: the outputs are a list of tensors, or that in a list of one."""
        from ..collectives.collectives import all_gather

        nested = len(output_tensors) == 1 and isinstance(output_tensors[0], (list, tuple))
        outputs = output_tensors[0] if nested else output_tensors
        x = only("allgather", input_tensors)
        return all_gather(outputs, x, self, True)  # type: ignore[arg-type]

    def barrier(self) -> Work | None:
        """`barrier`."""
        from ..collectives.collectives import barrier

        return barrier(self, True)  # type: ignore[arg-type]

    def send(self, tensors: Any, dst: int, tag: int = 0) -> Work:
        """`isend` to rank `dst`."""
        from ..collectives.send_recv import isend

        return isend(only("send", tensors), None, self, tag, dst)  # type: ignore[arg-type]

    def recv(self, tensors: Any, src: int, tag: int = 0) -> Work:
        """`irecv` from rank `src`."""
        from ..collectives.send_recv import irecv

        return irecv(only("recv", tensors), None, self, tag, src)  # type: ignore[arg-type]
