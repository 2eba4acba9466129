"""Parts that differ in size: all ranks gather and compare their sizes, and each copies its part of
each peer's memory.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ... import native
from ...errors import CollectiveMismatch
from ..group.cuda_operands import is_on_gpu
from ..group.operands import Array
from ..group.process_group import ProcessGroup

CALLS = (  # the collectives that gather tables first; a table begins with the index in CALLS
    "all_to_all",
    "all_gather_object",
    "broadcast_object_list",
    "gather_object",
    "scatter_object_list",
    "all_reduce of sparse tensors",
)


def all_gather_rows(where: str, group: ProcessGroup, row: Sequence[int], root: int = -1) -> Array:
    """Gathers everybody's row of int64 numbers: (n, len(row)).

    Args:
        where: one of CALLS. It is compared, and so is the root: the all_gather that carries the
            rows is the same for all CALLS and cannot tell them apart.

    Raises:
        CollectiveMismatch: ranks called different ones; on all ranks.
    """
    mine = np.array([CALLS.index(where), root, *row], np.int64)
    # The leading dimensions distinguish it from a script's own all_gather.
    table: Array = np.empty((group.size(), 1, 1, 1, mine.size), np.int64)
    group.native.all_gather(list(table), mine.reshape(table.shape[1:]), group.timeout)
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


def exchange_parts(
    group: ProcessGroup, outputs: list[Array], x: Array, offsets: list[int], largest: int
) -> None:
    """Fills `outputs[p]` from rank p's `x`, beginning at byte `offsets[p]`.

    Args:
        outputs: contiguous arrays, one for each rank.
        largest: the bytes of the largest x of all ranks; from it all ranks choose the same way.
    """
    is_direct = largest > native.GROUP_INLINE
    source = x if is_on_gpu(x) else group.shared(x, any_size=is_direct and x.nbytes > 0)
    group.native.exchange(outputs, source, offsets, is_direct, group.timeout)
