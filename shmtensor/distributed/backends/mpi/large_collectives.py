"""The work on large data: through shared memory in a node, in chunks from node to node.

```
 fold up     node 0: 0 + 1 + 2  ->  node 1: that + 3 + 4 + 5  ->  ...     rank order, always
 hand back   the last node's head has the result: back along the chain, and down in each node
```

While a chunk is on its way the next one is folded: both directions of the network are in use, as
with a ring, and the order of the sum is that of the contract. 16-bit floats travel as float32.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .... import native
from ....dtypes import HALVES
from ....memory.layout import empty_shared
from ...collectives.reference import JOIN, ReduceOp
from ...group.operands import Array
from .messages import BACK

if TYPE_CHECKING:
    from .begin_and_fail import GroupMember

__all__ = [
    "fold_and_scatter",
    "fold_up",
    "gather_all",
    "gather_to",
    "hand_down",
    "scatter_from",
    "scratch",
    "swap",
]

CHUNK = 1 << 20  # bytes, tunable


def scratch(x: Array) -> Array:
    """A copy in shared memory, in which partial sums are rounded as the contract says."""
    made = empty_shared(x.shape, np.dtype(np.float32) if x.dtype in HALVES else x.dtype)
    np.copyto(made, x)
    return made


def rounded(work: Array, out: Array) -> None:
    """What was summed in a scratch, into `out`: beyond float16 it is infinity, without a word."""
    with np.errstate(over="ignore"):
        np.copyto(out, work.reshape(out.shape), casting="unsafe")


def chunks(x: Array) -> list[Array]:
    flat = x.reshape(-1)
    step = max(1, CHUNK // x.dtype.itemsize)
    return [flat[at : at + step] for at in range(0, flat.size, step)]


def average(x: Array, n: int) -> None:
    """Divides in place; complex numbers by parts, as the contract does."""
    parts = x.view(x.real.dtype) if x.dtype.kind == "c" else x
    np.divide(parts, n, out=parts)


def fold_up(
    meeting: GroupMember,
    where: str,
    work: Array,
    op: ReduceOp,
    timeout: float,
    sink: int = -1,
    hands_back: bool = False,
) -> None:
    """Folds everybody's `work` along the nodes.

    The result is in `work` of the last node's head, or of `sink` if that is a rank of the last
    node; with `hands_back` in everybody's.
    """
    nodes, here, local = meeting.nodes, meeting.here, meeting.local
    is_head, is_last = meeting.place == 0, here == len(nodes) - 1
    before = nodes[here - 1] if here else []
    after = [] if is_last else nodes[here + 1]
    target = meeting.near.index(sink) if is_last and sink in meeting.near else 0
    inner = ReduceOp.SUM if op is ReduceOp.AVG else op
    join: Any = JOIN[inner]
    parts = chunks(work)
    lag = len(nodes) - 1 - here if hands_back else 0
    sent: list[tuple[list[Any], Sequence[int]]] = []
    partial = np.empty(parts[0].size, work.dtype)

    def up(part: Array) -> None:
        if is_head and before:
            came = partial[: part.size]
            meeting.wait(where, [(meeting.fetch(came, before[0]), before)], timeout)
            with np.errstate(all="ignore"):
                join(came, part, out=part)
        if local is not None:
            meeting.inside("reduce", part, int(inner), target, timeout)
        if is_last and meeting.place == target and op is ReduceOp.AVG:
            average(part, meeting.world)
        if is_head and after:
            sent.append((meeting.post(part, after[0]), after))

    def down(part: Array, at: int) -> None:
        if is_head and after:
            meeting.wait(where, [sent[at]], timeout)
            meeting.wait(where, [(meeting.fetch(part, after[0], BACK), after)], timeout)
        if is_head and before:
            sent.append((meeting.post(part, before[0], BACK), before))
        if local is not None:
            meeting.inside("broadcast", part, 0, timeout)

    for turn in range(len(parts) + lag):
        if turn < len(parts):
            up(parts[turn])
        if hands_back and turn >= lag:
            down(parts[turn - lag], turn - lag)
    meeting.wait(where, sent, timeout)


def fold_and_scatter(
    meeting: GroupMember, out: Array, x: Array, op: ReduceOp, timeout: float
) -> None:
    """The r-th part of everybody's x, folded, into rank r's `out`."""
    where = "reduce_scatter"
    work = scratch(x)
    fold_up(meeting, where, work, op, timeout)
    rows = work.reshape(meeting.world, -1)
    last = meeting.nodes[-1]
    if meeting.rank == last[0]:
        begun = [(meeting.post(rows[n[0] : n[-1] + 1], n[0]), n) for n in meeting.nodes[:-1]]
        meeting.wait(where, begun, timeout)
    elif meeting.place == 0:
        own = rows[meeting.near[0] : meeting.near[-1] + 1]
        meeting.wait(where, [(meeting.fetch(own, last[0]), last)], timeout)
    if meeting.local is None:
        part = rows[meeting.rank]
    else:
        part = empty_shared(rows.shape[1:], rows.dtype)
        meeting.inside("scatter", part, [rows[r] for r in meeting.near], 0, timeout)
    rounded(part, out)


def hand_down(meeting: GroupMember, x: Array, root: int, timeout: float) -> None:
    """x of `root` into everybody's, along the nodes beginning with the root's."""
    home = meeting.node_of(root)
    order = [home, *(i for i in range(len(meeting.nodes)) if i != home)]
    heads = [root if i == home else meeting.nodes[i][0] for i in order]
    at = order.index(meeting.here)
    is_head = meeting.rank == heads[at]
    begun: list[tuple[list[Any], Sequence[int]]] = []
    for part in chunks(x):
        if is_head and at:
            source = heads[at - 1]
            meeting.wait("broadcast", [(meeting.fetch(part, source), [source])], timeout)
        if is_head and at + 1 < len(order):
            begun.append((meeting.post(part, heads[at + 1]), meeting.nodes[order[at + 1]]))
        if meeting.local is not None:
            meeting.inside("broadcast", part, meeting.near.index(heads[at]), timeout)
    meeting.wait("broadcast", begun, timeout)


def gather_all(meeting: GroupMember, outs: Sequence[Array], x: Array, timeout: float) -> None:
    """Everybody's x into everybody's list."""
    where, near, local = "all_gather", meeting.near, meeting.local
    is_head = meeting.place == 0
    rows: Sequence[Array] = outs
    if is_head and local is not None:  # the neighbours read them there
        rows = list(empty_shared((meeting.world, *x.shape, *(() if x.ndim else (1,))), x.dtype))
    if local is not None:
        meeting.inside("gather", x, [rows[r] for r in near] if is_head else [], 0, timeout)
    else:
        np.copyto(rows[near[0]], x.reshape(rows[near[0]].shape))
    begun: list[tuple[list[Any], Sequence[int]]] = []
    for node in meeting.nodes if is_head else []:
        if node is near:
            continue
        begun += [(meeting.fetch(rows[r], node[0]), node) for r in node]
        begun += [(meeting.post(rows[r], node[0]), node) for r in near]
    meeting.wait(where, begun, timeout)
    if local is None:
        return
    nothing = np.empty(0, x.dtype)
    for row, out in zip(rows, outs, strict=True):  # `out` may be private memory: its rank reads
        wanted = [nothing] * len(near)
        if not is_head:
            wanted[0] = out
        source = row if is_head else nothing
        is_direct = x.nbytes > native.GROUP_INLINE
        meeting.inside("exchange", wanted, source, [0] * len(near), is_direct, timeout)
        if is_head:
            np.copyto(out, row.reshape(out.shape))


def gather_to(
    meeting: GroupMember, outs: Sequence[Array], x: Array, root: int, timeout: float
) -> None:
    """Everybody's x into the list of `root`."""
    near, local, is_root = meeting.near, meeting.local, meeting.rank == root
    begun: list[tuple[list[Any], Sequence[int]]] = []
    if is_root:
        for node in meeting.nodes:
            begun += [(meeting.fetch(outs[r], node[0]), node) for r in node if node is not near]
    if root in near:
        if local is not None:
            rows = [outs[r] for r in near] if is_root else []
            meeting.inside("gather", x, rows, near.index(root), timeout)
        else:
            np.copyto(outs[root], x.reshape(outs[root].shape))
    else:
        block = [x]
        if local is not None:
            block = [np.empty_like(x) for _ in near] if meeting.place == 0 else []
            meeting.inside("gather", x, block, 0, timeout)
        if meeting.place == 0:
            begun += [(meeting.post(each, root), [root]) for each in block]
    meeting.wait("gather", begun, timeout)


def scatter_from(
    meeting: GroupMember, out: Array, xs: Sequence[Array], root: int, timeout: float
) -> None:
    """The r-th of the root's list into rank r's `out`."""
    near, local, is_root = meeting.near, meeting.local, meeting.rank == root
    begun: list[tuple[list[Any], Sequence[int]]] = []
    if is_root:
        for node in meeting.nodes:
            begun += [(meeting.post(xs[r], node[0]), node) for r in node if node is not near]
    head, rows = near.index(root) if root in near else 0, [xs[r] for r in near] if is_root else []
    if root not in near and meeting.place == 0:
        home = meeting.nodes[meeting.node_of(root)]
        rows = [np.empty_like(out) for _ in near]
        came = [(meeting.fetch(row, root), home) for row in rows]
        meeting.wait("scatter", came, timeout)
    if local is not None:
        meeting.inside("scatter", out, rows, head, timeout)
    else:
        np.copyto(out, rows[0].reshape(out.shape))
    meeting.wait("scatter", begun, timeout)


def swap(
    meeting: GroupMember,
    outs: Sequence[Array],
    x: Array,
    offsets: int | Sequence[int],
    places: Array,
    sizes: Array,
    is_direct: bool,
    timeout: float,
) -> None:
    """Fills `outs[p]` from rank p's x; each rank sends to those on other nodes itself.

    Args:
        offsets: where in rank p's x that begins, in bytes.
        places, sizes: what rank p takes of this rank's x, in bytes.
    """
    where = "exchange"
    near = meeting.near
    starts = [offsets] * meeting.world if isinstance(offsets, int) else list(offsets)
    flat = x.reshape(-1).view(np.uint8)
    begun: list[tuple[list[Any], Sequence[int]]] = []
    for p in meeting.far:
        begun.append((meeting.fetch(outs[p], p), [p]))
        at, n = int(places[p]), int(sizes[p])
        begun.append((meeting.post(flat[at : at + n], p), [p]))
    if meeting.local is None:
        own = outs[meeting.rank]
        at = starts[meeting.rank]
        own.reshape(-1).view(np.uint8)[...] = flat[at : at + own.nbytes]
    else:
        wanted, begins = [outs[p] for p in near], [starts[p] for p in near]
        meeting.inside("exchange", wanted, x, begins, is_direct, timeout)
    meeting.wait(where, begun, timeout)
