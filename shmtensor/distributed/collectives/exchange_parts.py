"""Parts that differ in size: all ranks say what they have and compare it, and each copies its part
of each peer's memory.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ... import native
from ...errors import CollectiveMismatch
from ..group.operands import Array
from ..group.process_group import ProcessGroup

__all__ = ["everybody", "take_parts"]


CALLS = (  # whose ranks exchange tables first; a table begins with the place in here
    "all_to_all",
    "all_gather_object",
    "broadcast_object_list",
    "gather_object",
    "scatter_object_list",
    "all_reduce of sparse tensors",
)


def everybody(where: str, group: ProcessGroup, row: Sequence[int], root: int = -1) -> Array:
    """Everybody's row of int64 numbers: (n, len(row)).

    Args:
        where: one of CALLS. It is compared, as the root is: what carries the rows is the same
            for all of them, and so takes one for the other.

    Raises:
        CollectiveMismatch: ranks called different ones; on all ranks.
    """
    own = np.array([CALLS.index(where), root, *row], np.int64)
    # The leading dimensions keep it apart from an all_gather of a script's own numbers.
    table: Array = np.empty((group.size(), 1, 1, 1, own.size), np.int64)
    group.native.all_gather(list(table), own.reshape(table.shape[1:]), group.timeout)
    table = table.reshape(group.size(), -1)
    for p in np.flatnonzero((table[:, :2] != table[0, :2]).any(axis=1)):
        first, other = (
            CALLS[code] + (f"(root {at})" if at >= 0 else "()")
            for code, at in (table[0, :2].tolist(), table[p, :2].tolist())
        )
        raise CollectiveMismatch(
            f"{where}: ranks called different collectives: rank 0: {first}; rank {p}: {other}"
        )
    return table[:, 2:]


def take_parts(
    group: ProcessGroup, outputs: list[Array], x: Array, offsets: list[int], largest: int
) -> None:
    """Fills `outputs[p]` from rank p's `x`, beginning at byte `offsets[p]`.

    Args:
        outputs: contiguous arrays, one for each rank.
        largest: the bytes of the largest x of all ranks: which way they go is agreed by it.
    """
    is_direct = largest > native.GROUP_INLINE
    source = group.readable(x, whatever_size=is_direct and x.nbytes > 0)
    group.native.exchange(outputs, source, offsets, is_direct, group.timeout)
