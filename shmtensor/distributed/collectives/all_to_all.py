"""Collectives whose parts differ in size: all_to_all with lists and splits.

```
sizes    all_gather of each rank's table: elements for each rank, elements from each rank
compare  every rank compares all tables: a difference is an error everywhere, naming both sides
parts    every rank copies its part of each peer's memory
```
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from ...errors import CollectiveMismatch
from ..group.operands import Array, array_of
from ..group.process_group import ProcessGroup
from ..group.work import Work
from ..group.world import group_of
from .collectives import Group, contiguous_outputs, joined, write_back
from .exchange_parts import all_gather_rows, exchange_parts

if TYPE_CHECKING:
    from .collectives import Operand


def all_to_all_splits(
    where: str, group: ProcessGroup, outputs: list[Array], x: Array, sends: list[int]
) -> None:
    """Fills `outputs[p]` with rank p's part for this rank; `sends`: elements of x for each rank."""
    n, itemsize = group.size(), x.dtype.itemsize
    number = x.dtype.num
    table = all_gather_rows("all_to_all", group, [number, *sends, *(y.size for y in outputs)])
    send_counts, receive_counts = table[:, 1 : n + 1], table[:, n + 1 :]
    for p, r in np.argwhere(send_counts != receive_counts.T):
        raise CollectiveMismatch(
            f"{where}: sizes differ: rank {p} sends {send_counts[p, r]} elements to rank {r}, "
            f"rank {r} expects {receive_counts[r, p]} from rank {p}"
        )
    for p in np.flatnonzero(table[:, 0] != table[0, 0]):
        raise CollectiveMismatch(
            f"{where}: dtypes differ: rank 0 has type number {table[0, 0]}, "
            f"rank {p} has {table[p, 0]} (here {x.dtype})"
        )
    offsets = [int(send_counts[p, : group.rank()].sum()) * itemsize for p in range(n)]
    exchange_parts(group, outputs, x, offsets, int(send_counts.sum(axis=1).max()) * itemsize)


def all_to_all(
    output_tensor_list: Sequence[Operand],
    input_tensor_list: Sequence[Operand],
    group: Group = None,
    async_op: bool = False,
) -> Work | None:
    """Writes rank p's `input_tensor_list[r]` into rank r's `output_tensor_list[p]`.

    Parameters
    ----------
    output_tensor_list : list of Tensor
        One for each rank.
    input_tensor_list : list of Tensor
        One for each rank; shapes may differ from pair to pair.
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
        A list does not have a tensor for each rank, or dtypes differ.

    See Also
    --------
    all_to_all_single

    Notes
    -----
    Copies: one on each side.

    Examples
    --------
    >>> import shmtensor.distributed as dist
    >>> dist.init_process_group(rank=0, world_size=1)
    >>> out = [st.empty(2)]
    >>> dist.all_to_all(out, [st.tensor([1.0, 2.0])])
    >>> out
    [tensor([1., 2.])]
    >>> dist.destroy_process_group()
    """
    where = "all_to_all"
    pg = group_of(where, group)
    inputs = [array_of(where, x) for x in input_tensor_list]
    arrays = [array_of(where, output) for output in output_tensor_list]
    n = pg.size()
    if len(inputs) != n or len(arrays) != n:
        raise ValueError(
            f"{where}: the lists need a tensor for each rank: {len(inputs)} inputs and "
            f"{len(arrays)} outputs for {n} ranks"
        )
    if len({x.dtype for x in [*inputs, *arrays]}) > 1:
        raise ValueError(f"{where}: dtypes differ: {[str(x.dtype) for x in [*inputs, *arrays]]}")

    def call() -> None:
        staged = contiguous_outputs(arrays, pg)
        all_to_all_splits(where, pg, staged, joined(pg, inputs), [x.size for x in inputs])
        write_back(pg, output_tensor_list, arrays, staged)

    return pg.issue(call, async_op, output_tensor_list)


def splits_of(where: str, x: Array, sizes: Sequence[int] | None, n: int) -> list[int]:
    """Elements for each rank; None: equal parts."""
    length = x.shape[0] if x.ndim else 1
    if sizes is None:
        if length % n:
            raise ValueError(
                f"{where}: the first dimension cannot be split equally: {x.shape}, {n} ranks"
            )
        sizes = [length // n] * n
    if len(sizes) != n or sum(sizes) != length or min(sizes) < 0:
        raise ValueError(
            f"{where}: split sizes do not fit: {list(sizes)} for {n} ranks and shape {x.shape}"
        )
    row = prod(x.shape[1:])
    return [size * row for size in sizes]


def all_to_all_single(
    output: Operand,
    input: Operand,
    output_split_sizes: Sequence[int] | None = None,
    input_split_sizes: Sequence[int] | None = None,
    group: Group = None,
    async_op: bool = False,
) -> Work | None:
    """Writes everybody's r-th part of `input` (of the first dimension), in rank order, into rank
    r's `output`.

    Parameters
    ----------
    output : Tensor
        What is written.
    input : Tensor
        What is divided.
    output_split_sizes, input_split_sizes : sequence of int, optional
        Sizes of the parts. Either all ranks pass split sizes, or none does: then the parts are
        equal.
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
    all_to_all

    Examples
    --------
    >>> import shmtensor.distributed as dist
    >>> dist.init_process_group(rank=0, world_size=1)
    >>> out = st.empty(2)
    >>> dist.all_to_all_single(out, st.tensor([1.0, 2.0]))
    >>> out
    tensor([1., 2.])
    >>> dist.destroy_process_group()
    """
    where = "all_to_all_single"
    pg = group_of(where, group)
    array, x = array_of(where, output), array_of(where, input)
    has_splits = bool(output_split_sizes or input_split_sizes)
    sends: list[int] = []
    receives: list[int] = []
    if has_splits:
        sends = splits_of(where, x, input_split_sizes or None, pg.size())
        receives = splits_of(where, array, output_split_sizes or None, pg.size())

    def call() -> None:
        staged = contiguous_outputs([array], pg)
        if has_splits:
            flat: Any = staged[0].reshape(-1)
            ends = np.cumsum([0, *receives]).tolist()
            parts = [flat[a:b] for a, b in pairwise(ends)]
            all_to_all_splits(where, pg, parts, pg.readable(x).reshape(-1), sends)
        else:
            pg.native.all_to_all(staged[0], pg.readable(x), pg.timeout)
        write_back(pg, [output], [array], staged)

    return pg.issue(call, async_op, output)
