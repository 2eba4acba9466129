"""Collectives of large data: through shared memory in a node, in chunks from node to node.

```
 reduce      node 0: 0 + 1 + 2  ->  node 1: that + 3 + 4 + 5  ->  ...     always in rank order
 broadcast   the last node's head has the result: back along the chain, then within each node
```

While a chunk is under way the next one is reduced. So both directions of the network are in use, as
with a ring, and the order of the sum is that of collectives/reference.py. 16-bit floats are sent as
float32.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .... import native
from ....dtypes import HALVES
from ....memory.layout import empty_shared
from ...collectives.reference import UFUNCS, ReduceOp
from ...group.operands import Array
from .messages import BACK

if TYPE_CHECKING:
    from .member import MpiMember

CHUNK = 1 << 20  # bytes, tunable
Requests = tuple[list[Any], Sequence[int]]  # of messages, and the ranks that they wait for


def working_copy(x: Array) -> Array:
    """A copy in shared memory for partial sums; 16-bit floats become float32."""
    copy = empty_shared(x.shape, np.dtype(np.float32) if x.dtype in HALVES else x.dtype)
    np.copyto(copy, x)
    return copy


def round_into(work: Array, out: Array) -> None:
    """Writes a working copy into `out`; values beyond float16 become infinity without a warning."""
    with np.errstate(over="ignore"):
        np.copyto(out, work.reshape(out.shape), casting="unsafe")


def chunks(x: Array) -> list[Array]:
    flat = x.reshape(-1)
    step = max(1, CHUNK // x.dtype.itemsize)
    return [flat[at : at + step] for at in range(0, flat.size, step)]


def average(x: Array, n: int) -> None:
    """Divides in place; complex numbers by parts, as collectives/reference.py does."""
    parts = x.view(x.real.dtype) if x.dtype.kind == "c" else x
    np.divide(parts, n, out=parts)


def reduce_to_last_node(
    member: MpiMember,
    where: str,
    work: Array,
    op: ReduceOp,
    timeout: float,
    target_rank: int = -1,
    broadcasts: bool = False,
) -> None:
    """Reduces everybody's `work` along the nodes.

    The result is in `work` of the last node's head, or of `target_rank` if that is a rank of the
    last node; with `broadcasts` in everybody's.
    """
    nodes, node_index, local_group = member.nodes, member.node_index, member.local_group
    is_head, is_last = member.local_rank == 0, node_index == len(nodes) - 1
    before = nodes[node_index - 1] if node_index else []
    after = [] if is_last else nodes[node_index + 1]
    target = (
        member.local_ranks.index(target_rank)
        if is_last and target_rank in member.local_ranks
        else 0
    )
    inner = ReduceOp.SUM if op is ReduceOp.AVG else op
    ufunc: Any = UFUNCS[inner]
    parts = chunks(work)
    lag = len(nodes) - 1 - node_index if broadcasts else 0
    requests: list[Requests] = []
    partial = np.empty(parts[0].size, work.dtype)

    def reduce_chunk(part: Array) -> None:
        if is_head and before:
            received = partial[: part.size]
            member.wait(where, [(member.irecv(received, before[0]), before)], timeout)
            with np.errstate(all="ignore"):
                ufunc(received, part, out=part)
        if local_group is not None:
            member.call_local("reduce", part, int(inner), target, timeout)
        if is_last and member.local_rank == target and op is ReduceOp.AVG:
            average(part, member.world)
        if is_head and after:
            requests.append((member.isend(part, after[0]), after))

    def broadcast_chunk(part: Array, index: int) -> None:
        if is_head and after:
            member.wait(where, [requests[index]], timeout)
            member.wait(where, [(member.irecv(part, after[0], BACK), after)], timeout)
        if is_head and before:
            requests.append((member.isend(part, before[0], BACK), before))
        if local_group is not None:
            member.call_local("broadcast", part, 0, timeout)

    for step in range(len(parts) + lag):
        if step < len(parts):
            reduce_chunk(parts[step])
        if broadcasts and step >= lag:
            broadcast_chunk(parts[step - lag], step - lag)
    member.wait(where, requests, timeout)


def reduce_scatter(member: MpiMember, out: Array, x: Array, op: ReduceOp, timeout: float) -> None:
    """Writes the r-th part of the reduction of everybody's x into rank r's `out`."""
    where, work = "reduce_scatter", working_copy(x)
    reduce_to_last_node(member, where, work, op, timeout)
    rows = work.reshape(member.world, -1)
    part = empty_shared(rows.shape[1:], rows.dtype)
    scatter(member, part, list(rows), member.nodes[-1][0], timeout, where)
    round_into(part, out)


def broadcast(member: MpiMember, x: Array, root: int, timeout: float) -> None:
    """Writes x of `root` into everybody's, along the nodes, beginning with the root's."""
    root_node = member.node_of(root)
    order = [root_node, *(i for i in range(len(member.nodes)) if i != root_node)]
    heads = [root if i == root_node else member.nodes[i][0] for i in order]
    at = order.index(member.node_index)
    is_head = member.rank == heads[at]
    requests: list[Requests] = []
    for part in chunks(x):
        if is_head and at:
            source = heads[at - 1]
            member.wait("broadcast", [(member.irecv(part, source), [source])], timeout)
        if is_head and at + 1 < len(order):
            requests.append((member.isend(part, heads[at + 1]), member.nodes[order[at + 1]]))
        if member.local_group is not None:
            member.call_local("broadcast", part, member.local_ranks.index(heads[at]), timeout)
    member.wait("broadcast", requests, timeout)


def all_gather(member: MpiMember, outs: Sequence[Array], x: Array, timeout: float) -> None:
    """Writes everybody's x into everybody's list."""
    where, local_ranks, local_group = "all_gather", member.local_ranks, member.local_group
    is_head = member.local_rank == 0
    rows: Sequence[Array] = outs
    if is_head and local_group is not None:  # shared memory, which the ranks of this node read
        rows = list(empty_shared((member.world, *x.shape, *(() if x.ndim else (1,))), x.dtype))
    if local_group is not None:
        member.call_local(
            "gather", x, [rows[r] for r in local_ranks] if is_head else [], 0, timeout
        )
    else:
        np.copyto(rows[local_ranks[0]], x.reshape(rows[local_ranks[0]].shape))
    requests: list[Requests] = []
    for node in member.nodes if is_head else []:
        if node is local_ranks:
            continue
        requests += [(member.irecv(rows[r], node[0]), node) for r in node]
        requests += [(member.isend(rows[r], node[0]), node) for r in local_ranks]
    member.wait(where, requests, timeout)
    if local_group is None:
        return
    empty = np.empty(0, x.dtype)
    for row, out in zip(rows, outs, strict=True):  # `out` may be private: its rank copies
        local_outs = [empty] * len(local_ranks)
        if not is_head:
            local_outs[0] = out
        source = row if is_head else empty
        is_direct = x.nbytes > native.GROUP_INLINE
        member.call_local(
            "exchange", local_outs, source, [0] * len(local_ranks), is_direct, timeout
        )
        if is_head:
            np.copyto(out, row.reshape(out.shape))


def gather(member: MpiMember, outs: Sequence[Array], x: Array, root: int, timeout: float) -> None:
    """Writes everybody's x into the list of `root`; ranks on other nodes send to it themselves."""
    local_ranks, requests = member.local_ranks, list[Requests]()
    if root not in local_ranks:
        requests = [(member.isend(x, root), [root])]
    elif member.rank == root:
        requests = [(member.irecv(outs[r], r), [r]) for r in member.remote_ranks]
    if root in local_ranks and member.local_group is not None:
        rows = [outs[r] for r in local_ranks] if member.rank == root else []
        member.call_local("gather", x, rows, local_ranks.index(root), timeout)
    elif member.rank == root:
        np.copyto(outs[root], x.reshape(outs[root].shape))
    member.wait("gather", requests, timeout)


def scatter(
    member: MpiMember,
    out: Array,
    xs: Sequence[Array],
    root: int,
    timeout: float,
    where: str = "scatter",
) -> None:
    """Writes the r-th of the root's list into rank r's `out`; it sends to each rank on another node
    itself.
    """
    local_ranks, requests = member.local_ranks, list[Requests]()
    if root not in local_ranks:
        requests = [(member.irecv(out, root), [root])]
    elif member.rank == root:
        requests = [(member.isend(xs[r], r), [r]) for r in member.remote_ranks]
    if root in local_ranks and member.local_group is not None:
        rows = [xs[r] for r in local_ranks] if member.rank == root else []
        member.call_local("scatter", out, rows, local_ranks.index(root), timeout)
    elif member.rank == root:
        np.copyto(out, xs[root].reshape(out.shape))
    member.wait(where, requests, timeout)


def exchange(
    member: MpiMember,
    outs: Sequence[Array],
    x: Array,
    offsets: int | Sequence[int],
    peer_starts: Array,
    peer_sizes: Array,
    is_direct: bool,
    timeout: float,
) -> None:
    """Fills `outs[p]` from rank p's x; each rank sends to ranks on other nodes itself.

    Args:
        offsets: the byte in rank p's x at which the part begins.
        peer_starts, peer_sizes: the part of this rank's x that rank p takes, in bytes.
    """
    where = "exchange"
    local_ranks = member.local_ranks
    starts = [offsets] * member.world if isinstance(offsets, int) else list(offsets)
    flat = x.reshape(-1).view(np.uint8)
    requests: list[Requests] = []
    for p in member.remote_ranks:
        requests.append((member.irecv(outs[p], p), [p]))
        at, n = int(peer_starts[p]), int(peer_sizes[p])
        requests.append((member.isend(flat[at : at + n], p), [p]))
    if member.local_group is None:
        own_out = outs[member.rank]
        at = starts[member.rank]
        own_out.reshape(-1).view(np.uint8)[...] = flat[at : at + own_out.nbytes]
    else:
        local_outs, local_starts = [outs[p] for p in local_ranks], [starts[p] for p in local_ranks]
        member.call_local("exchange", local_outs, x, local_starts, is_direct, timeout)
    member.wait(where, requests, timeout)
