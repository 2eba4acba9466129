"""The collectives on tensors and arrays, by PyTorch's names; what each computes is its contract in
contract.py.

Operands are Tensors or ndarrays; results are written into them. Every rank of the group has to
make the same calls in the same order with the same shapes and dtypes. All of them raise:

- `CollectiveMismatch` on every rank, when the ranks' calls differ;
- `PeerLostError` on every other rank, within a second, when a rank dies. What the call was to
write is then undefined;
- `CollectiveTimeout` after the group's timeout.

Copies: none between processes beyond what the contract moves: peers' tensors are read, and results
written, where they lie. An operand that is not contiguous in shared memory is copied there first
(counted in the group's statistics).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from .contract import ReduceOp
from .group import Array, ProcessGroup, Work, array_of, touched
from .membership import group_of

if TYPE_CHECKING:
    from ..tensor import Tensor

    Operand: TypeAlias = Tensor | Array

__all__ = [
    "all_gather",
    "all_gather_into_tensor",
    "all_reduce",
    "all_to_all",
    "all_to_all_single",
    "barrier",
    "broadcast",
    "gather",
    "irecv",
    "isend",
    "monitored_barrier",
    "recv",
    "reduce",
    "reduce_scatter",
    "reduce_scatter_tensor",
    "scatter",
    "send",
]

Group = ProcessGroup | None


def finish(async_op: bool, result: object = None) -> Work | None:
    return Work(result) if async_op else None


def root_of(
    where: str, group: ProcessGroup, global_rank: int | None, group_rank: int | None
) -> int:
    if group_rank is not None:
        if global_rank is not None:
            raise ValueError(f"{where}: the rank is given twice: {global_rank} and {group_rank}")
        return group_rank
    return group.rank_of(where, 0 if global_rank is None else global_rank)


def barrier(group: Group = None, async_op: bool = False, device_ids: None = None) -> Work | None:
    """Returns when every rank has called it."""
    found = group_of("barrier", group)
    found.native.barrier(found.timeout)
    return finish(async_op)


def monitored_barrier(
    group: Group = None, timeout: float | None = None, wait_all_ranks: bool = False
) -> None:
    """A barrier with a timeout of its own; like every wait here it names the rank that did not
    come.
    """
    found = group_of("monitored_barrier", group)
    found.native.barrier(found.timeout if timeout is None else float(timeout))


def broadcast(
    tensor: Operand,
    src: int | None = None,
    group: Group = None,
    async_op: bool = False,
    group_src: int | None = None,
) -> Work | None:
    """Writes the tensor of rank `src` into everybody's `tensor`."""
    found = group_of("broadcast", group)
    array = array_of("broadcast", tensor)
    root = root_of("broadcast", found, src, group_src)
    if found.rank() == root:
        found.native.broadcast(found.readable(array), root, found.timeout)
    else:
        staged = found.writable(array)
        found.native.broadcast(staged, root, found.timeout)
        found.settle(array, staged)
        touched(tensor)
    return finish(async_op, [tensor])


def all_reduce(
    tensor: Operand, op: ReduceOp = ReduceOp.SUM, group: Group = None, async_op: bool = False
) -> Work | None:
    """Reduces everybody's `tensor` into everybody's `tensor`, in rank order: all ranks get the
    same bits.

    >>> import shmtensor as st
    >>> import shmtensor.distributed as dist
    >>> dist.init_process_group(rank=0, world_size=1)
    >>> x = st.tensor([1.0, 2.0])
    >>> dist.all_reduce(x)
    >>> x.numpy()
    array([1., 2.], dtype=float32)
    >>> dist.destroy_process_group()
    """
    found = group_of("all_reduce", group)
    array = array_of("all_reduce", tensor)
    staged = found.writable(array)
    found.native.all_reduce(staged, op, found.timeout)
    if staged is not array:
        found.settle(array, staged)
    touched(tensor)
    return finish(async_op, [tensor])


def reduce(
    tensor: Operand,
    dst: int | None = None,
    op: ReduceOp = ReduceOp.SUM,
    group: Group = None,
    async_op: bool = False,
    group_dst: int | None = None,
) -> Work | None:
    """Reduces everybody's `tensor` into that of rank `dst`; the others' stay as they are."""
    found = group_of("reduce", group)
    array = array_of("reduce", tensor)
    root = root_of("reduce", found, dst, group_dst)
    staged = found.writable(array)
    found.native.reduce(staged, op, root, found.timeout)
    if found.rank() == root:
        found.settle(array, staged)
        touched(tensor)
    return finish(async_op, [tensor])


def write_back(
    group: ProcessGroup, outputs: Sequence[Any], arrays: list[Array], staged: list[Array]
) -> None:
    for output, array, copy in zip(outputs, arrays, staged, strict=True):
        group.settle(array, copy)
        touched(output)


def plain(arrays: list[Array]) -> list[Array]:
    """Results that nobody else writes: contiguous is enough."""
    return [x if x.flags.c_contiguous else np.empty(x.shape, x.dtype) for x in arrays]


def all_gather(
    tensor_list: Sequence[Operand], tensor: Operand, group: Group = None, async_op: bool = False
) -> Work | None:
    """Writes rank r's `tensor` into everybody's `tensor_list[r]`."""
    found = group_of("all_gather", group)
    arrays = [array_of("all_gather", output) for output in tensor_list]
    outputs = plain(arrays)
    found.native.all_gather(outputs, found.readable(array_of("all_gather", tensor)), found.timeout)
    write_back(found, tensor_list, arrays, outputs)
    return finish(async_op, tensor_list)


def all_gather_into_tensor(
    output_tensor: Operand, input_tensor: Operand, group: Group = None, async_op: bool = False
) -> Work | None:
    """Writes everybody's `input_tensor`, in rank order, into everybody's `output_tensor` (joined
    or stacked).
    """
    where = "all_gather_into_tensor"
    found = group_of(where, group)
    array, x = array_of(where, output_tensor), array_of(where, input_tensor)
    if array.size != x.size * found.size() or array.dtype != x.dtype:
        raise ValueError(
            f"{where}: the output does not hold {found.size()} inputs: {array.shape} {array.dtype} "
            f"for {x.shape} {x.dtype}"
        )
    staged = plain([array])
    rows = list(staged[0].reshape(found.size(), *x.shape))
    found.native.all_gather(rows, found.readable(x), found.timeout)
    write_back(found, [output_tensor], [array], staged)
    return finish(async_op, output_tensor)


def gather(
    tensor: Operand,
    gather_list: Sequence[Operand] | None = None,
    dst: int | None = None,
    group: Group = None,
    async_op: bool = False,
    group_dst: int | None = None,
) -> Work | None:
    """Writes rank r's `tensor` into `gather_list[r]` of rank `dst`."""
    found = group_of("gather", group)
    root = root_of("gather", found, dst, group_dst)
    wanted = list(gather_list or []) if found.rank() == root else []
    arrays = [array_of("gather", output) for output in wanted]
    outputs = plain(arrays)
    x = found.readable(array_of("gather", tensor))
    found.native.gather(x, outputs, root, found.timeout)
    write_back(found, wanted, arrays, outputs)
    return finish(async_op, gather_list)


def scatter(
    tensor: Operand,
    scatter_list: Sequence[Operand] | None = None,
    src: int | None = None,
    group: Group = None,
    async_op: bool = False,
    group_src: int | None = None,
) -> Work | None:
    """Writes `scatter_list[r]` of rank `src` into rank r's `tensor`."""
    found = group_of("scatter", group)
    root = root_of("scatter", found, src, group_src)
    inputs = list(scatter_list or []) if found.rank() == root else []
    arrays = [np.ascontiguousarray(array_of("scatter", x)) for x in inputs]
    array = array_of("scatter", tensor)
    staged = found.writable(array, whatever_size=True)
    found.native.scatter(staged, arrays, root, found.timeout)
    write_back(found, [tensor], [array], [staged])
    return finish(async_op, tensor)


def reduce_scatter_tensor(
    output: Operand,
    input: Operand,
    op: ReduceOp = ReduceOp.SUM,
    group: Group = None,
    async_op: bool = False,
) -> Work | None:
    """Writes the r-th equal part of the reduction of everybody's `input` into rank r's `output`."""
    found = group_of("reduce_scatter_tensor", group)
    array = array_of("reduce_scatter_tensor", output)
    x = found.readable(array_of("reduce_scatter_tensor", input))
    staged = plain([array])
    found.native.reduce_scatter(staged[0], x, op, found.timeout)
    write_back(found, [output], [array], staged)
    return finish(async_op, output)


def reduce_scatter(
    output: Operand,
    input_list: Sequence[Operand],
    op: ReduceOp = ReduceOp.SUM,
    group: Group = None,
    async_op: bool = False,
) -> Work | None:
    """Writes the reduction of everybody's `input_list[r]` into rank r's `output`. Copies: one (the
    list into one block).
    """
    joined = np.stack([array_of("reduce_scatter", x) for x in input_list])
    return reduce_scatter_tensor(output, joined, op, group, async_op)


def all_to_all_single(
    output: Operand, input: Operand, group: Group = None, async_op: bool = False
) -> Work | None:
    """Writes everybody's r-th equal part of `input`, in rank order, into rank r's `output`."""
    found = group_of("all_to_all_single", group)
    array = array_of("all_to_all_single", output)
    x = found.readable(array_of("all_to_all_single", input))
    staged = plain([array])
    found.native.all_to_all(staged[0], x, found.timeout)
    write_back(found, [output], [array], staged)
    return finish(async_op, output)


def all_to_all(
    output_tensor_list: Sequence[Operand],
    input_tensor_list: Sequence[Operand],
    group: Group = None,
    async_op: bool = False,
) -> Work | None:
    """Writes rank p's `input_tensor_list[r]` into rank r's `output_tensor_list[p]`; all of one
    shape. Copies: two.
    """
    joined = np.stack([array_of("all_to_all", x) for x in input_tensor_list])
    arrays = [array_of("all_to_all", output) for output in output_tensor_list]
    result = np.empty_like(joined)
    all_to_all_single(result, joined, group)
    for output, array, row in zip(output_tensor_list, arrays, result, strict=True):
        np.copyto(array, row)
        touched(output)
    return finish(async_op, output_tensor_list)


def send(
    tensor: Operand,
    dst: int | None = None,
    group: Group = None,
    tag: int = 0,
    group_dst: int | None = None,
) -> None:
    """Sends to rank `dst`; returns when it has been received there."""
    found = group_of("send", group)
    array = array_of("send", tensor)
    staged = found.writable(array, whatever_size=True) if array.flags.writeable else array
    if staged is array and not array.flags.writeable:
        staged = found.writable(array.copy(), whatever_size=True)
    found.native.send(staged, root_of("send", found, dst, group_dst), tag, found.timeout)


def recv(
    tensor: Operand,
    src: int | None = None,
    group: Group = None,
    tag: int = 0,
    group_src: int | None = None,
) -> int:
    """Receives what rank `src` sends into `tensor`, which has its shape and dtype. Copies: one.
    Returns `src`.
    """
    found = group_of("recv", group)
    if src is None and group_src is None:
        raise ValueError("recv: from any source is not offered: name src")
    root = root_of("recv", found, src, group_src)
    array = array_of("recv", tensor)
    staged = plain([array])
    found.native.recv(staged[0], root, tag, found.timeout)
    write_back(found, [tensor], [array], staged)
    return found.ranks[root]


def isend(tensor: Operand, dst: int | None = None, group: Group = None, tag: int = 0) -> Work:
    """`send`, as Work that has completed: two ranks that both begin with isend wait for each other
    for ever.
    """
    send(tensor, dst, group, tag)
    return Work()


def irecv(tensor: Operand, src: int | None = None, group: Group = None, tag: int = 0) -> Work:
    """`recv`, as Work that has completed."""
    recv(tensor, src, group, tag)
    return Work()
