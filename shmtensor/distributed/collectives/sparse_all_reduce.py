"""all_reduce of sparse tensors: each rank gathers the specified elements of all, and adds them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ...autograd import wrap
from ...errors import CollectiveMismatch
from ..group.operands import Array
from ..group.process_group import ProcessGroup
from ..group.work import Work
from .exchange_parts import all_gather_rows, exchange_parts
from .reference import ReduceOp

if TYPE_CHECKING:
    from ...sparse import SparseTensor


def all_reduce_sparse(x: SparseTensor, op: Any, group: ProcessGroup, async_op: bool) -> Work | None:
    """Replaces x by the sum (or average) of everybody's x, coalesced: the same bits on all ranks.
    The ranks may specify different elements.

    Raises:
        ValueError: another operation.
        CollectiveMismatch: shapes or dtypes differ.

    Copies: the elements of all ranks; of tensors on a GPU two more, to the host and back.
    """
    if op not in (ReduceOp.SUM, ReduceOp.AVG):
        raise ValueError(f"all_reduce: sparse tensors have SUM and AVG only: {op!r}")

    def call() -> None:
        total = sparse_total(x, op, group)
        x.places, x.numbers, x.ordered = total.places, total.numbers, True

    return group.issue(call, async_op, [x], [x._indices(), x._values()])


def sparse_total(x: SparseTensor, op: Any, group: ProcessGroup) -> SparseTensor:
    """The sum (or average) of everybody's x, coalesced, on the device of x; runs on this thread.
    The elements of x on a GPU go through the host's memory.
    """
    from ...sparse import SparseTensor

    device, x = x.device, x.cpu()
    signature = [x.numbers.array.dtype.num, x.sparse_dim(), *x.shape]
    table = all_gather_rows("all_reduce of sparse tensors", group, [*signature, x._nnz()])
    for rank, row in enumerate(table.tolist()):
        if row[:-1] != table[0, :-1].tolist():
            raise CollectiveMismatch(
                "all_reduce: sparse tensors differ (type number, sparse dimensions, shape): "
                f"rank 0 has {table[0, :-1].tolist()}, rank {rank} has {row[:-1]}"
            )
    counts = table[:, -1].tolist()
    # the dimension of the elements comes first, so that the ranks' parts are contiguous
    places = all_gather_parts(group, x.places.array.T, counts)
    numbers = all_gather_parts(group, x.numbers.array, counts)
    uncoalesced = SparseTensor(wrap(np.ascontiguousarray(places.T)), wrap(numbers), x.shape)
    total = uncoalesced.coalesce().detach()
    total = total / group.size() if op is ReduceOp.AVG else total
    return total.to(device)


def all_gather_parts(group: ProcessGroup, x: Array, counts: list[int]) -> Array:
    """Everybody's rows, `counts[r]` of rank r, one after another in rank order."""
    row = x.shape[1:]
    out = np.empty((sum(counts), *row), x.dtype)
    ends = np.cumsum([0, *counts]).tolist()
    parts = [out[a : a + n] for a, n in zip(ends, counts, strict=False)]
    largest = max(part.nbytes for part in parts)
    exchange_parts(group, parts, np.ascontiguousarray(x), [0] * len(counts), largest)
    return out
