"""The collectives and messages as methods of a group, by the names of PyTorch's ProcessGroup."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..collectives.reference import PremulSum, ReduceOp
from .work import Work

__all__ = ["GroupMethods"]


class Functions:
    """What the methods call: collectives.py and send_recv.py set their functions here."""

    all_gather: Callable[..., Work | None]
    all_reduce: Callable[..., Work | None]
    barrier: Callable[..., Work | None]
    broadcast: Callable[..., Work | None]
    reduce: Callable[..., Work | None]
    irecv: Callable[..., Work]
    isend: Callable[..., Work]


functions = Functions()


def single_tensor(where: str, tensors: Any) -> Any:
    """The tensor of a list of one, which PyTorch's methods take; a tensor is returned as it is."""
    if not isinstance(tensors, (list, tuple)):
        return tensors
    if len(tensors) != 1:
        raise ValueError(f"{where}: takes a tensor or a list of one: got {len(tensors)}")
    return tensors[0]


class GroupMethods:
    """Methods of ProcessGroup. Each calls the function of the same name with `async_op=True` and
    returns its Work (None inside a `_coalescing_manager`). Ranks are those in the group. A tensor
    may come alone or in a list of one. Errors are those of the functions, raised by `wait()` if the
    call had begun.

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
        reduce_op = ReduceOp.SUM if op is None else op
        return functions.all_reduce(single_tensor("allreduce", tensors), reduce_op, self, True)

    def broadcast(self, tensors: Any, root: int = 0) -> Work | None:
        """`broadcast` of rank `root`."""
        x = single_tensor("broadcast", tensors)
        return functions.broadcast(x, None, self, True, root)

    def reduce(
        self, tensors: Any, root: int = 0, op: ReduceOp | PremulSum | None = None
    ) -> Work | None:
        """`reduce` into rank `root`; None: SUM."""
        reduce_op = ReduceOp.SUM if op is None else op
        x = single_tensor("reduce", tensors)
        return functions.reduce(x, None, reduce_op, self, True, root)

    def allgather(self, output_tensors: Sequence[Any], input_tensors: Any) -> Work | None:
        """`all_gather`: the outputs are a list of tensors, or such a list in a list of one."""
        nested = len(output_tensors) == 1 and isinstance(output_tensors[0], (list, tuple))
        outputs = output_tensors[0] if nested else output_tensors
        x = single_tensor("allgather", input_tensors)
        return functions.all_gather(outputs, x, self, True)

    def barrier(self) -> Work | None:
        """`barrier`."""
        return functions.barrier(self, True)

    def send(self, tensors: Any, dst: int, tag: int = 0) -> Work:
        """`isend` to rank `dst`."""
        return functions.isend(single_tensor("send", tensors), None, self, tag, dst)

    def recv(self, tensors: Any, src: int, tag: int = 0) -> Work:
        """`irecv` from rank `src`."""
        return functions.irecv(single_tensor("recv", tensors), None, self, tag, src)
