"""all_reduce of sparse tensors: everybody gets everybody's kept elements, and adds them up."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ...autograd import wrap
from ...errors import CollectiveMismatch
from ..group.operands import Array
from ..group.process_group import ProcessGroup
from ..group.work import Work
from .exchange_parts import everybody, take_parts
from .reference import ReduceOp

if TYPE_CHECKING:
    from ...sparse import SparseTensor

__all__ = ["all_reduce_sparse", "total_of"]


def all_reduce_sparse(x: SparseTensor, op: Any, group: ProcessGroup, async_op: bool) -> Work | None:
    """Puts the sum (or average) of everybody's x, coalesced, in the place of x: the same bits on
    all ranks. They may keep different elements.

    Raises:
        ValueError: another operation.
        CollectiveMismatch: shapes or dtypes differ.

    Copies: the elements of all ranks.
    """
    if op not in (ReduceOp.SUM, ReduceOp.AVG):
        raise ValueError(f"all_reduce: sparse tensors have SUM and AVG only: {op!r}")

    def call() -> None:
        total = total_of(x, op, group)
        x.places, x.numbers, x.ordered = total.places, total.numbers, True

    return group.issue(call, async_op, [x])


def total_of(x: SparseTensor, op: Any, group: ProcessGroup) -> SparseTensor:
    """The sum (or average) of everybody's x, coalesced: at once, on this thread."""
    from ...sparse import SparseTensor

    kind = [x.numbers.array.dtype.num, x.sparse_dim(), *x.shape]
    table = everybody("all_reduce of sparse tensors", group, [*kind, x._nnz()])
    for rank, row in enumerate(table.tolist()):
        if row[:-1] != table[0, :-1].tolist():
            raise CollectiveMismatch(
                "all_reduce: sparse tensors differ (type number, sparse dimensions, shape): "
                f"rank 0 has {table[0, :-1].tolist()}, rank {rank} has {row[:-1]}"
            )
    counts = table[:, -1].tolist()
    # kept elements first, so that those of all ranks follow one another
    places = all_gather_rows(group, x.places.array.T, counts)
    numbers = all_gather_rows(group, x.numbers.array, counts)
    whole = SparseTensor(wrap(np.ascontiguousarray(places.T)), wrap(numbers), x.shape)
    total = whole.coalesce().detach()
    return total / group.size() if op is ReduceOp.AVG else total


def all_gather_rows(group: ProcessGroup, own: Array, counts: list[int]) -> Array:
    """Everybody's rows, `counts[r]` of rank r, one after another in rank order."""
    row = own.shape[1:]
    out = np.empty((sum(counts), *row), own.dtype)
    ends = np.cumsum([0, *counts]).tolist()
    parts = [out[a : a + n] for a, n in zip(ends, counts, strict=False)]
    largest = max(part.nbytes for part in parts)
    take_parts(group, parts, np.ascontiguousarray(own), [0] * len(counts), largest)
    return out
