"""The collectives on tensors and arrays, by PyTorch's names.

Operands are Tensors or ndarrays; results are written into them. Every rank of the group has to
make the same calls in the same order with the same shapes and dtypes. All of them raise:

- `CollectiveMismatch` on every rank, when the ranks' calls differ;
- `PeerLostError` on every other rank, within a second, when a rank dies. The contents of the
outputs are then undefined;
- `CollectiveTimeout` after the group's timeout.

With `async_op=True` they return a Work at once and run after those called before (work.py);
without it they return None when done.

Copies: none between processes beyond what the collective itself moves: peers' tensors are read in
place, and results are written in place. An operand that is not contiguous in shared memory is
copied there first (counted in the group's statistics).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from ...cuda_arrays import array_module
from ...errors import CollectiveMismatch
from ...memory.layout import empty_shared
from ..group.cuda_operands import assign, is_on_gpu
from ..group.operands import Array, array_of, bump_version, seconds
from ..group.process_group import ProcessGroup, functions
from ..group.work import Work
from ..group.world import group_of
from .reference import PremulSum, ReduceOp, op_and_factor

if TYPE_CHECKING:
    from ...tensor import Tensor

    Operand: TypeAlias = Tensor | Array

__all__ = [
    "all_gather",
    "all_gather_into_tensor",
    "all_reduce",
    "barrier",
    "broadcast",
    "gather",
    "monitored_barrier",
    "reduce",
    "reduce_scatter",
    "reduce_scatter_tensor",
    "scatter",
]

Group = ProcessGroup | None
Op = ReduceOp | PremulSum


def root_of(
    where: str, group: ProcessGroup, global_rank: int | None, group_rank: int | None
) -> int:
    if group_rank is not None:
        if global_rank is not None:
            raise ValueError(
                f"{where}: takes a rank or a group rank, not both: {global_rank} and {group_rank}"
            )
        if not 0 <= group_rank < group.size():
            raise ValueError(f"{where}: no such rank in the group: {group_rank} of {group.size()}")
        return group_rank
    return group.rank_of(where, 0 if global_rank is None else global_rank)


def premultiply(array: Array, op: Op) -> tuple[Array, int]:
    """This rank's operand of a reduction, and the number of the operation. Copies: one for a
    PremulSum.
    """
    if op.__class__ is ReduceOp and op is not ReduceOp.PREMUL_SUM:
        return array, op
    number, factor = op_and_factor(op)
    if factor is None:
        return array, number
    if is_on_gpu(array):
        scaled: Any = array
        with scaled.device:
            return (scaled * factor).astype(array.dtype, copy=False), number
    product = empty_shared(array.shape, array.dtype)
    np.multiply(array, np.asarray(factor, array.dtype), out=product, casting="unsafe")
    return product, number


def barrier(
    group: Group = None,
    async_op: bool = False,
    device_ids: None = None,
    timeout: float | timedelta | None = None,
) -> Work | None:
    """Returns when every rank has called it.

    Parameters
    ----------
    group : ProcessGroup, optional
        The ranks that take part; the default group if None.
    async_op : bool, optional
        Whether to return at once, with a Work whose `wait` ends it.
    device_ids : None
        Accepted; has no effect.
    timeout : float or timedelta, optional
        Seconds; that of the group if None.

    Returns
    -------
    Work or None
        A Work if `async_op`, else None when the result is there.

    Raises
    ------
    CollectiveTimeout
        Not all came in time.

    See Also
    --------
    monitored_barrier

    Examples
    --------
    >>> import shmtensor.distributed as dist
    >>> dist.init_process_group(rank=0, world_size=1)
    >>> dist.barrier()
    >>> dist.destroy_process_group()
    """
    pg = group_of("barrier", group)
    limit = pg.timeout if timeout is None else seconds(timeout)
    return pg.issue(lambda: pg.native.barrier(limit), async_op, None)


def monitored_barrier(
    group: Group = None, timeout: float | timedelta | None = None, wait_all_ranks: bool = False
) -> None:
    """A barrier with its own timeout, whose error names a rank that did not come.

    Parameters
    ----------
    group : ProcessGroup, optional
        The ranks that take part; the default group if None.
    timeout : float or timedelta, optional
        Seconds; that of the group if None.
    wait_all_ranks : bool, optional
        Whether the error names all ranks that did not come.

    Raises
    ------
    CollectiveTimeout
        Ranks have not come.

    See Also
    --------
    barrier

    Examples
    --------
    >>> import shmtensor.distributed as dist
    >>> dist.init_process_group(rank=0, world_size=1)
    >>> dist.monitored_barrier(timeout=5.0)
    >>> dist.destroy_process_group()
    """
    pg = group_of("monitored_barrier", group)
    limit = pg.timeout if timeout is None else seconds(timeout)

    def call() -> None:
        from ...errors import CollectiveTimeout

        try:
            pg.native.barrier(limit)
        except CollectiveTimeout as error:
            bits = pg.native.missing()
            missing = [r for r in range(pg.size()) if bits >> r & 1]
            if not wait_all_ranks or len(missing) < 2:
                raise
            raise CollectiveTimeout(
                f"monitored_barrier: ranks have not come: {missing} of {pg.size()}; {error}"
            ) from None

    pg.issue(call, False, None)


def broadcast(
    tensor: Operand,
    src: int | None = None,
    group: Group = None,
    async_op: bool = False,
    group_src: int | None = None,
) -> Work | None:
    """Writes the tensor of rank `src` into everybody's `tensor`.

    Parameters
    ----------
    tensor : Tensor
        What is sent on rank `src`, written on the others; of one shape and dtype.
    src : int, optional
        The sender's rank in the default group.
    group : ProcessGroup, optional
        The ranks that take part; the default group if None.
    async_op : bool, optional
        Whether to return at once, with a Work whose `wait` ends it.
    group_src : int, optional
        The same as its rank in `group`, instead of `src`.

    Returns
    -------
    Work or None
        A Work if `async_op`, else None when the result is there.

    Raises
    ------
    CollectiveMismatch
        The ranks' tensors or arguments differ; on all ranks.

    See Also
    --------
    broadcast_object_list, scatter

    Examples
    --------
    >>> import shmtensor.distributed as dist
    >>> dist.init_process_group(rank=0, world_size=1)
    >>> x = st.tensor([1.0, 2.0])
    >>> dist.broadcast(x, src=0)
    >>> x
    tensor([1., 2.])
    >>> dist.destroy_process_group()
    """
    pg = group_of("broadcast", group)
    array = array_of("broadcast", tensor)
    root = root_of("broadcast", pg, src, group_src)

    def call() -> None:
        if pg.rank() == root:
            pg.native.broadcast(pg.readable(array), root, pg.timeout)
            return
        staged = pg.writable(array)
        pg.native.broadcast(staged, root, pg.timeout)
        pg.copy_back(array, staged)
        bump_version(tensor)

    return pg.issue(call, async_op, [tensor])


def all_reduce(
    tensor: Operand, op: Op = ReduceOp.SUM, group: Group = None, async_op: bool = False
) -> Work | None:
    """Reduces everybody's `tensor` into everybody's `tensor`, in rank order: all ranks get the
    same bits.

    Parameters
    ----------
    tensor : Tensor
        Overwritten by the result; of one shape and dtype on all ranks.
    op : ReduceOp, optional
        How two values are combined.
    group : ProcessGroup, optional
        The ranks that take part; the default group if None.
    async_op : bool, optional
        Whether to return at once, with a Work whose `wait` ends it.

    Returns
    -------
    Work or None
        A Work if `async_op`, else None when the result is there.

    Raises
    ------
    CollectiveMismatch
        The ranks' tensors or arguments differ; on all ranks.
    PeerLostError
        A rank has died.

    See Also
    --------
    reduce, reduce_scatter_single

    Notes
    -----
    The ranks' sparse tensors may have different elements; they take SUM and AVG only.

    Examples
    --------
    >>> import shmtensor.distributed as dist
    >>> dist.init_process_group(rank=0, world_size=1)
    >>> x = st.tensor([1.0, 2.0])
    >>> dist.all_reduce(x)  # with n such ranks: n times as much
    >>> x
    tensor([1., 2.])
    >>> dist.all_reduce(x, op=dist.ReduceOp.AVG, async_op=True).wait()
    True
    >>> dist.destroy_process_group()
    """
    pg = group_of("all_reduce", group)
    if getattr(tensor, "is_sparse", False):
        from .sparse_all_reduce import all_reduce_sparse

        return all_reduce_sparse(tensor, op, pg, async_op)  # type: ignore[arg-type]
    array = array_of("all_reduce", tensor)

    def call() -> None:
        part, number = premultiply(array, op)
        staged = pg.writable(part)
        pg.native.all_reduce(staged, number, pg.timeout)
        if staged is not array:
            pg.copy_back(array, staged)
        bump_version(tensor)

    return pg.issue(call, async_op, [tensor])


def reduce(
    tensor: Operand,
    dst: int | None = None,
    op: Op = ReduceOp.SUM,
    group: Group = None,
    async_op: bool = False,
    group_dst: int | None = None,
) -> Work | None:
    """Reduces everybody's `tensor` into that of rank `dst`; the others' do not change.

    Parameters
    ----------
    tensor : Tensor
        Of one shape and dtype on all ranks.
    dst : int, optional
        The receiver's rank in the default group.
    op : ReduceOp, optional
        How two values are combined.
    group : ProcessGroup, optional
        The ranks that take part; the default group if None.
    async_op : bool, optional
        Whether to return at once, with a Work whose `wait` ends it.
    group_dst : int, optional
        The same as its rank in `group`, instead of `dst`.

    Returns
    -------
    Work or None
        A Work if `async_op`, else None when the result is there.

    See Also
    --------
    all_reduce

    Examples
    --------
    >>> import shmtensor.distributed as dist
    >>> dist.init_process_group(rank=0, world_size=1)
    >>> x = st.tensor([1.0, 2.0])
    >>> dist.reduce(x, dst=0)
    >>> x
    tensor([1., 2.])
    >>> dist.destroy_process_group()
    """
    pg = group_of("reduce", group)
    array = array_of("reduce", tensor)
    root = root_of("reduce", pg, dst, group_dst)

    def call() -> None:
        part, number = premultiply(array, op)
        staged = pg.writable(part)
        pg.native.reduce(staged, number, root, pg.timeout)
        if pg.rank() == root:
            pg.copy_back(array, staged)
            bump_version(tensor)

    return pg.issue(call, async_op, [tensor])


def write_back(
    group: ProcessGroup, outputs: Sequence[Any], arrays: list[Array], staged: list[Array]
) -> None:
    for output, array, copy in zip(outputs, arrays, staged, strict=True):
        group.copy_back(array, copy)
        bump_version(output)


def contiguous_outputs(arrays: list[Array], group: ProcessGroup) -> list[Array]:
    """Contiguous arrays for results that only this rank writes: they need not be shared. They are
    on the host, but for arrays on a GPU in a group whose engine takes such.
    """
    if group.is_on_gpus:
        return [group.readable(x) for x in arrays]
    return [
        x if not is_on_gpu(x) and x.flags.c_contiguous else np.empty(x.shape, x.dtype)
        for x in arrays
    ]


def joined(group: ProcessGroup, arrays: list[Array]) -> Array:
    """The elements of arrays of one dtype, one after another, in memory that the group's engine
    takes. Copies: one.
    """
    if group.is_on_gpus:
        parts = [group.readable(x).reshape(-1) for x in arrays]
        with parts[0].device:  # type: ignore[attr-defined]
            result: Array = array_module(parts[0]).concatenate(parts)
        return result
    result = empty_shared((sum(x.size for x in arrays),), arrays[0].dtype)
    at = 0
    for x in arrays:
        assign(result[at : at + x.size].reshape(x.shape), x)
        at += x.size
    return result


def stack(where: str, group: ProcessGroup, tensors: Sequence[Any]) -> Array:
    """Stacks tensors of one shape and dtype: (n, *shape). Copies: one."""
    arrays = [array_of(where, x) for x in tensors]
    if any(x.shape != arrays[0].shape or x.dtype != arrays[0].dtype for x in arrays):
        raise ValueError(
            f"{where}: the tensors of the list differ: {[(x.shape, str(x.dtype)) for x in arrays]}"
        )
    return joined(group, arrays).reshape(len(arrays), *arrays[0].shape)


def gather_equal_sizes(
    group: ProcessGroup, x: Array, call: Callable[[], None], agree: Callable[[list[Array]], None]
) -> None:
    """Runs a collective that gathers tensors of one size. Where the sizes differ by rank, the error
    of every rank says what to do.

    Args:
        x: this rank's tensor.
        agree: the collective with these outputs, one for each rank: called if those of `call` do
            not fit this rank's tensor, so that ranks whose outputs fit do not wait for this one.
    """
    try:
        try:
            call()
        except ValueError:
            if not is_on_gpu(x):
                agree([np.empty(x.shape, x.dtype) for _ in range(group.size())])
            raise
    except CollectiveMismatch as error:
        calls = re.findall(r"(\w+)\((\w+) \(", str(error))
        if len(set(calls)) != 1:  # they differ in more than the shape
            raise
        hint = "pad the tensors to one size, or use all_gather_object"
        raise CollectiveMismatch(f"{error}, hint: {hint}") from None


def all_gather(
    tensor_list: Sequence[Operand], tensor: Operand, group: Group = None, async_op: bool = False
) -> Work | None:
    """Writes rank r's `tensor` into everybody's `tensor_list[r]`.

    Parameters
    ----------
    tensor_list : list of Tensor
        One for each rank, of the tensor's shape.
    tensor : Tensor
        Of one size on all ranks.
    group : ProcessGroup, optional
        The ranks that take part; the default group if None.
    async_op : bool, optional
        Whether to return at once, with a Work whose `wait` ends it.

    Returns
    -------
    Work or None
        A Work if `async_op`, else None when the result is there.

    Raises
    ------
    CollectiveMismatch
        The ranks' tensors differ in size; on all ranks. Pad them, or use `all_gather_object`.

    See Also
    --------
    all_gather_into_tensor, gather

    Examples
    --------
    >>> import shmtensor.distributed as dist
    >>> dist.init_process_group(rank=0, world_size=1)
    >>> gathered = [st.empty(2) for _ in range(dist.get_world_size())]
    >>> dist.all_gather(gathered, st.tensor([1.0, 2.0]))
    >>> gathered
    [tensor([1., 2.])]
    >>> dist.destroy_process_group()
    """
    pg = group_of("all_gather", group)
    arrays = [array_of("all_gather", output) for output in tensor_list]
    x = array_of("all_gather", tensor)

    def into(outputs: list[Array]) -> None:
        pg.native.all_gather(outputs, pg.readable(x), pg.timeout)

    def call() -> None:
        outputs = contiguous_outputs(arrays, pg)
        gather_equal_sizes(pg, x, lambda: into(outputs), into)
        write_back(pg, tensor_list, arrays, outputs)

    return pg.issue(call, async_op, tensor_list)


def all_gather_into_tensor(
    output_tensor: Operand, input_tensor: Operand, group: Group = None, async_op: bool = False
) -> Work | None:
    """Writes everybody's `input_tensor`, in rank order, into everybody's `output_tensor`.

    Parameters
    ----------
    output_tensor : Tensor
        With room for all: the inputs are concatenated or stacked, as its shape says.
    input_tensor : Tensor
        Of one shape on all ranks.
    group : ProcessGroup, optional
        The ranks that take part; the default group if None.
    async_op : bool, optional
        Whether to return at once, with a Work whose `wait` ends it.

    Returns
    -------
    Work or None
        A Work if `async_op`, else None when the result is there.

    Raises
    ------
    ValueError
        The output does not hold the inputs.

    See Also
    --------
    all_gather

    Examples
    --------
    >>> import shmtensor.distributed as dist
    >>> dist.init_process_group(rank=0, world_size=1)
    >>> out = st.empty(dist.get_world_size(), 2)
    >>> dist.all_gather_into_tensor(out, st.tensor([1.0, 2.0]))
    >>> out
    tensor([[1., 2.]])
    >>> dist.destroy_process_group()
    """
    where = "all_gather_into_tensor"
    pg = group_of(where, group)
    array, x = array_of(where, output_tensor), array_of(where, input_tensor)

    def into(rows: list[Array]) -> None:
        pg.native.all_gather(rows, pg.readable(x), pg.timeout)

    def into_output(staged: Array) -> None:
        if array.size != x.size * pg.size() or array.dtype != x.dtype:
            raise ValueError(
                f"{where}: the output does not hold {pg.size()} inputs: {array.shape} "
                f"{array.dtype} for {x.shape} {x.dtype}"
            )
        into(list(staged.reshape(pg.size(), *x.shape, *(() if x.ndim else (1,)))))

    def call() -> None:
        staged = contiguous_outputs([array], pg)
        gather_equal_sizes(pg, x, lambda: into_output(staged[0]), into)
        write_back(pg, [output_tensor], [array], staged)

    return pg.issue(call, async_op, output_tensor)


def gather(
    tensor: Operand,
    gather_list: Sequence[Operand] | None = None,
    dst: int | None = None,
    group: Group = None,
    async_op: bool = False,
    group_dst: int | None = None,
) -> Work | None:
    """Writes rank r's `tensor` into `gather_list[r]` of rank `dst`.

    Parameters
    ----------
    tensor : Tensor
        Of one shape and dtype on all ranks.
    gather_list : list of Tensor, optional
        On rank `dst`: one for each rank.
    dst : int, optional
        The receiver's rank in the default group.
    group : ProcessGroup, optional
        The ranks that take part; the default group if None.
    async_op : bool, optional
        Whether to return at once, with a Work whose `wait` ends it.
    group_dst : int, optional
        The same as its rank in `group`, instead of `dst`.

    Returns
    -------
    Work or None
        A Work if `async_op`, else None when the result is there.

    See Also
    --------
    all_gather, scatter

    Examples
    --------
    >>> import shmtensor.distributed as dist
    >>> dist.init_process_group(rank=0, world_size=1)
    >>> gathered = [st.empty(2)]
    >>> dist.gather(st.tensor([1.0, 2.0]), gathered, dst=0)
    >>> gathered
    [tensor([1., 2.])]
    >>> dist.destroy_process_group()
    """
    pg = group_of("gather", group)
    root = root_of("gather", pg, dst, group_dst)
    results = list(gather_list or []) if pg.rank() == root else []
    arrays = [array_of("gather", output) for output in results]
    x = array_of("gather", tensor)

    def into(outputs: list[Array]) -> None:
        fitting = outputs if pg.rank() == root else []
        pg.native.gather(pg.readable(x), fitting, root, pg.timeout)

    def call() -> None:
        staged = contiguous_outputs(arrays, pg)
        gather_equal_sizes(pg, x, lambda: into(staged), into)
        write_back(pg, results, arrays, staged)

    return pg.issue(call, async_op, gather_list, [tensor])


def scatter(
    tensor: Operand,
    scatter_list: Sequence[Operand] | None = None,
    src: int | None = None,
    group: Group = None,
    async_op: bool = False,
    group_src: int | None = None,
) -> Work | None:
    """Writes `scatter_list[r]` of rank `src` into rank r's `tensor`.

    Parameters
    ----------
    tensor : Tensor
        What is written.
    scatter_list : list of Tensor, optional
        On rank `src`: one for each rank.
    src : int, optional
        The sender's rank in the default group.
    group : ProcessGroup, optional
        The ranks that take part; the default group if None.
    async_op : bool, optional
        Whether to return at once, with a Work whose `wait` ends it.
    group_src : int, optional
        The same as its rank in `group`, instead of `src`.

    Returns
    -------
    Work or None
        A Work if `async_op`, else None when the result is there.

    See Also
    --------
    gather, broadcast

    Examples
    --------
    >>> import shmtensor.distributed as dist
    >>> dist.init_process_group(rank=0, world_size=1)
    >>> x = st.empty(2)
    >>> dist.scatter(x, [st.tensor([1.0, 2.0])], src=0)
    >>> x
    tensor([1., 2.])
    >>> dist.destroy_process_group()
    """
    pg = group_of("scatter", group)
    root = root_of("scatter", pg, src, group_src)
    inputs = list(scatter_list or []) if pg.rank() == root else []
    sources = [array_of("scatter", x) for x in inputs]
    array = array_of("scatter", tensor)

    def call() -> None:
        arrays = [
            pg.readable(x) if is_on_gpu(x) or pg.is_on_gpus else np.asarray(x, order="C")
            for x in sources
        ]
        staged = pg.writable(array, any_size=True)
        pg.native.scatter(staged, arrays, root, pg.timeout)
        write_back(pg, [tensor], [array], [staged])

    return pg.issue(call, async_op, tensor)


def reduce_scatter_tensor(
    output: Operand,
    input: Operand,
    op: Op = ReduceOp.SUM,
    group: Group = None,
    async_op: bool = False,
) -> Work | None:
    """Writes the r-th equal part of the reduction of everybody's `input` into rank r's `output`.

    Parameters
    ----------
    output : Tensor
        What is written.
    input : Tensor
        With as many elements as all ranks' outputs.
    op : ReduceOp, optional
        How two values are combined.
    group : ProcessGroup, optional
        The ranks that take part; the default group if None.
    async_op : bool, optional
        Whether to return at once, with a Work whose `wait` ends it.

    Returns
    -------
    Work or None
        A Work if `async_op`, else None when the result is there.

    See Also
    --------
    reduce_scatter, all_gather_into_tensor

    Examples
    --------
    >>> import shmtensor.distributed as dist
    >>> dist.init_process_group(rank=0, world_size=1)
    >>> out = st.empty(2)
    >>> dist.reduce_scatter_single(out, st.tensor([1.0, 2.0]))
    >>> out
    tensor([1., 2.])
    >>> dist.destroy_process_group()
    """
    where = "reduce_scatter_tensor"
    pg = group_of(where, group)
    array, x = array_of(where, output), array_of(where, input)
    return pg.issue(reduce_scatter_call(pg, output, array, lambda: x, op), async_op, output)


def reduce_scatter_call(
    group: ProcessGroup, output: Any, array: Array, source: Callable[[], Array], op: Op
) -> Callable[[], None]:
    def call() -> None:
        part, number = premultiply(source(), op)
        x = group.readable(part)
        staged = contiguous_outputs([array], group)
        group.native.reduce_scatter(staged[0], x, number, group.timeout)
        write_back(group, [output], [array], staged)

    return call


def reduce_scatter(
    output: Operand,
    input_list: Sequence[Operand],
    op: Op = ReduceOp.SUM,
    group: Group = None,
    async_op: bool = False,
) -> Work | None:
    """Writes the reduction of everybody's `input_list[r]` into rank r's `output`.

    Parameters
    ----------
    output : Tensor
        What is written.
    input_list : list of Tensor
        One for each rank.
    op : ReduceOp, optional
        How two values are combined.
    group : ProcessGroup, optional
        The ranks that take part; the default group if None.
    async_op : bool, optional
        Whether to return at once, with a Work whose `wait` ends it.

    Returns
    -------
    Work or None
        A Work if `async_op`, else None when the result is there.

    See Also
    --------
    reduce_scatter_single

    Notes
    -----
    Copies: one (it stacks the list).

    Examples
    --------
    >>> import shmtensor.distributed as dist
    >>> dist.init_process_group(rank=0, world_size=1)
    >>> out = st.empty(2)
    >>> dist.reduce_scatter(out, [st.tensor([1.0, 2.0])])
    >>> out
    tensor([1., 2.])
    >>> dist.destroy_process_group()
    """
    pg = group_of("reduce_scatter", group)
    array = array_of("reduce_scatter", output)
    call = reduce_scatter_call(
        pg, output, array, lambda: stack("reduce_scatter", pg, input_list), op
    )
    return pg.issue(call, async_op, output)


functions.all_gather, functions.all_reduce = all_gather, all_reduce
functions.barrier, functions.broadcast, functions.reduce = barrier, broadcast, reduce
