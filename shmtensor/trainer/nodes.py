"""The ranks of a run on several nodes: each node has one copy of weights and optimizer state in its
shared memory, and the nodes exchange figures and gradients over the group's connections.

```
 node 0: ranks 0, 1                              node 1: ranks 2, 3
   rank 0 (first of its node)  <--- rows of the board --->   rank 2        in each barrier
   shard 0 of the node's sum   <------- parts of it ----->   shard 0       in each update
   shard 1                     <------------------------->   shard 1
   weights, state: one copy                                  one copy, the same bits
```

A barrier exchanges the rows in log2(n) rounds. An object of rank 0 goes by value along a binary
tree of the nodes' first ranks, and by handles within a node. Gradients are summed by shards in a
node, in rank order; then each of n nodes sums one n-th of a shard, in the order of the nodes, and
sends it to the others.

Note [Whole weights] A rank updates its shard when all ranks of its node have the sums of all nodes:
they meet in between. So the death of another node leaves this one's weights complete at a step.
"""

from __future__ import annotations

import pickle
import time
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from .. import distributed, native
from ..distributed.collectives.object_collectives import dumps_by_value
from ..distributed.group.process_group import ProcessGroup
from ..errors import PeerLostError
from ..memory.layout import empty_shared
from .gradients import Gradients, multiply_and_clip, parameters_of, sum_of_squares
from .progress_board import ProgressBoard
from .ranks import GRACE, Ranks
from .weights import ByRankZero, Clip, Sharded, limited, shard_start

Array = np.ndarray[Any, np.dtype[Any]]
WHERE = "Trainer"
BYTES = np.dtype(np.uint8)


class NodeBoard(ProgressBoard):
    """A node's board: it has rows for the ranks of all nodes. The words of other nodes are of other
    copies of the weights.

    Args:
        own: this node's ranks.
        rows: of theirs in the process table.
    """

    def __init__(self, array: Array, own: list[int], rows: dict[int, tuple[int, int]]) -> None:
        super().__init__(array)
        self.own = own
        self.rows = rows

    def read(self) -> list[int]:
        """The words of this node's copy."""
        return [native.count_load(self.array.data, self.offsets[rank]) for rank in self.own]

    def complete_step(self) -> int | None:
        """As in the base class; first waits until the node's ranks that are alive have updated
        their shards: another node's death is noticed at any time.
        """
        deadline = time.monotonic() + GRACE
        while time.monotonic() < deadline:
            words = {
                word
                for rank, word in zip(self.own, self.read(), strict=True)
                if rank not in self.rows or native.liveness(*self.rows[rank]) == "alive"
            }
            if len(words) < 2 and not any(word % 2 for word in words):
                break
            time.sleep(1e-3)
        return super().complete_step()


class Interval(NamedTuple):
    """Elements that one rank of each node has summed over its node, from `begin` to `end`."""

    begin: int
    end: int
    holders: list[int]  # of each node, a rank


class NodeRanks(Ranks):
    """One rank's end, where the ranks are on several nodes.

    Attributes:
        nodes: the ranks of each node.
        node: the number of this rank's.
        local_rank, local_size: within the node.
    """

    spans_nodes = True

    def __init__(self, group: ProcessGroup) -> None:
        super().__init__(group)
        self.engine = engine = group.native
        self.nodes: list[list[int]] = engine.nodes
        self.node: int = engine.node_index
        self.own = self.nodes[self.node]
        self.local_rank, self.local_size = self.own.index(self.rank), len(self.own)
        self.first = [node[0] for node in self.nodes]
        self.node_group: ProcessGroup | None = None
        if engine.local_group is not None:
            local_ranks = list(range(self.local_size))
            self.node_group = ProcessGroup(engine.local_group, group.timeout, local_ranks)
        self.board: NodeBoard | None = None
        self.has_gradient: list[Array] = []  # of each optimizer

    # ---------------------------------------------------------------- calls that all ranks make
    @contextmanager
    def call(self) -> Iterator[None]:
        """What all ranks do together.

        Raises:
            PeerLostError: a rank is lost; its node is named.
        """
        try:
            with self.engine.combined(WHERE):
                yield
        except PeerLostError as error:
            self.is_lost = True
            raise self.with_node(error) from None

    def with_node(self, error: PeerLostError) -> PeerLostError:
        digits = error.name.removeprefix("rank ")
        if not digits.isdigit():
            return error
        number = self.engine.node_of(int(digits))
        ranks = ", ".join(map(str, self.nodes[number]))
        text = f"{error}; {error.name} is of node {number} of {len(self.nodes)} (ranks {ranks})"
        return PeerLostError(text, error.name, error.pid, error.exitcode, error.host)

    def wait(self, requests: Sequence[tuple[list[Any], Sequence[int]]]) -> None:
        self.engine.wait(WHERE, requests, self.timeout)

    @property
    def timeout(self) -> float:
        assert self.group is not None
        return self.group.timeout

    def node_barrier(self) -> None:
        if self.node_group is not None:
            self.engine.call_local("barrier", self.timeout)

    # ---------------------------------------------------------------- barrier
    def make_board(self, setup: Any) -> NodeBoard:
        self.board = NodeBoard(setup.board, self.own, self.engine.process_rows)
        self.has_gradient = [each.has_gradient for each in setup.shared]
        return self.board

    def barrier(self) -> None:
        """Returns when all ranks have called it; then each node's board has the rows of all ranks,
        and rank 0's signals.
        """
        began = time.perf_counter()
        with self.call():
            self.node_barrier()
            if self.local_rank == 0 and len(self.nodes) > 1:
                self.exchange_rows()
            self.node_barrier()
        self.seconds_waited += time.perf_counter() - began

    def exchange_rows(self) -> None:
        board, n = self.board, self.local_size
        assert board is not None
        rows = board.array.view(np.uint8)  # (ranks + 1, bytes)
        signals = rows[-1]
        used = np.packbits(
            np.concatenate([np.logical_or.reduce(x[:n], axis=0) for x in self.has_gradient])
        )
        own = [rows[self.own[0] : self.own[-1] + 1].reshape(-1), signals, used]
        line = rows.shape[1]
        sizes = [(len(node) + 1) * line + used.size for node in self.nodes]
        for number, (node, data) in enumerate(
            zip(self.nodes, self.all_gather(np.concatenate(own), sizes), strict=True)
        ):
            if number == self.node:
                continue
            end = len(node) * line
            rows[node[0] : node[-1] + 1] = data[:end].reshape(len(node), line)
            if number == 0:
                signals[:] = data[end : end + line]
            bits, first = np.unpackbits(data[end + line :]), 0
            for x in self.has_gradient:
                x[n + number] = bits[first : first + x.shape[1]]
                first += x.shape[1]

    def all_gather(self, own: Array, sizes: list[int]) -> list[Array]:
        """The bytes of all nodes' first ranks, in log2(n) rounds (Bruck et al., Efficient
        algorithms for all-to-all communications, 1997).

        Args:
            own: (bytes,) uint8.
            sizes: of each node.
        """
        n, node = len(self.nodes), self.node
        blocks = [own]  # of this node, and those after it
        while len(blocks) < n:
            count = min(len(blocks), n - len(blocks))
            target, source = (node - len(blocks)) % n, (node + len(blocks)) % n
            incoming = [sizes[(source + i) % n] for i in range(count)]
            data = np.empty(sum(incoming), BYTES)
            self.wait(
                [
                    (self.engine.irecv(data, self.first[source]), self.nodes[source]),
                    (self.engine.isend(np.concatenate(blocks[:count]), self.first[target]), []),
                ]
            )
            blocks += np.split(data, np.cumsum(incoming)[:-1])
        return [blocks[(number - node) % n] for number in range(n)]

    # ---------------------------------------------------------------- objects
    def broadcast(self, obj: Any = None) -> Any:
        """Rank 0's object on every rank. On its node tensors have the same memory; for another node
        they are copied, and have the same memory there.
        """
        with self.call():
            return self.within_node(self.to_first(obj))

    def broadcast_setup(self, setup: Any = None, own_setup: Any = None) -> Any:
        """Rank 0's setup on every rank; other nodes have copies of model and optimizer."""
        with self.call():
            if setup is not None and setup.device.type != "cpu":
                raise ValueError(
                    f"Trainer: several nodes train on the CPU, the model is on {setup.device}: "
                    "wrap it in DistributedDataParallel"
                )
            if self.local_rank == 0:
                copy = None
                if setup is not None:
                    arrays: Any = {"flats": None, "rows": [], "has_gradient": None}
                    shared = [each._replace(**arrays) for each in setup.shared]
                    copy = setup._replace(shared=shared)
                copy = self.to_first(copy)
                setup = setup or own_setup(copy, self)
            return self.within_node(setup)

    @property
    def gradient_rows(self) -> tuple[int, int]:
        """Of this node's ranks; behind their rows `has_gradient` has one for each node."""
        return self.local_size, self.local_size + len(self.nodes)

    def within_node(self, obj: Any) -> Any:
        """The object of the node's first rank; tensors have the same memory."""
        if self.node_group is None:
            return obj
        self.node_barrier()
        objects = [obj]
        distributed.broadcast_object_list(objects, group=self.node_group, group_src=0)
        return objects[0]

    def to_first(self, obj: Any) -> Any:
        """Rank 0's object, by value, on each node's first rank; None on the others."""
        if self.local_rank or len(self.nodes) == 1:
            return obj
        data = np.frombuffer(dumps_by_value(obj), BYTES) if self.node == 0 else np.empty(0, BYTES)
        size = np.array([data.size])
        self.copy_to_first([size])
        if self.node:
            data = np.empty(int(size[0]), BYTES)
        self.copy_to_first([data])
        return obj if self.node == 0 else pickle.loads(data.data)

    def copy_to_first(self, arrays: list[Array]) -> None:
        """Copies rank 0's arrays to those of each node's first rank, along a binary tree."""
        node, after = self.node, 1 << self.node.bit_length()
        flat = [np.ascontiguousarray(x) for x in arrays]
        if node:
            parent = node - after // 2
            source = self.first[parent]
            self.wait([(self.engine.irecv(x, source), self.nodes[parent]) for x in flat])
        sends: list[Any] = []
        while node + after < len(self.nodes):
            sends += [(self.engine.isend(x, self.first[node + after]), []) for x in flat]
            after *= 2
        self.wait(sends)
        for x, each in zip(arrays, flat, strict=True):
            if node and not np.may_share_memory(x, each):
                x[...] = each.reshape(x.shape)

    def copy_to_nodes(self, arrays: list[Array]) -> None:
        with self.call():
            self.node_barrier()
            if self.local_rank == 0:
                self.copy_to_first(arrays)
            self.node_barrier()

    def copy_in_update(self, arrays: list[Array]) -> None:
        """The same, in an update that rank 0 has made. Meanwhile words are even: its weights are
        complete.
        """
        board = self.board
        assert board is not None
        memory, offset = board.array.data, board.offsets[self.rank]
        word = native.count_load(memory, offset)
        native.count_store(memory, offset, word + 1)
        self.copy_to_nodes(arrays)
        native.count_store(memory, offset, word)

    @property
    def bytes_copied(self) -> int:
        """Bytes of tensors copied because memory was not shared, and bytes sent to other nodes."""
        if self.node_group is not None:
            self._bytes_copied = self.node_group.statistics().bytes_staged
        return self._bytes_copied + int(self.engine.statistics()[2])

    # ---------------------------------------------------------------- gradients
    def intervals(self, flat: Array) -> list[Interval]:
        """Where this rank's shard of a flat array meets the other nodes' shards. If all nodes have
        as many ranks, that is the shard itself.
        """
        sizes = [len(node) for node in self.nodes]
        starts = {
            n: [shard_start(flat.size, flat.itemsize, r, n) for r in range(n)] for n in set(sizes)
        }
        edges = sorted({flat.size, *(start for each in starts.values() for start in each)})
        intervals = []
        for begin, end in pairwise(edges):
            holders = [node[bisect_right(starts[len(node)], begin) - 1] for node in self.nodes]
            if holders[self.node] == self.rank:
                intervals.append(Interval(begin, end, holders))
        return intervals

    def sum_among_nodes(self, arrays: Sequence[tuple[Array, list[int]]]) -> None:
        """Makes each array the sum over the nodes, in place.

        Args:
            arrays: (n,) each, and the ranks, one of each node, that have its nodes' sums.

        Copies: the array to a buffer, and from there; 2 (nodes - 1) / nodes of it are sent.
        """
        n, node, engine = len(self.nodes), self.node, self.engine
        parts: list[tuple[list[Array], list[int]]] = []  # part k is summed by node k's holder
        for x, holders in arrays:
            cuts = [shard_start(x.size, x.itemsize, k, n) for k in range(n + 1)]
            parts.append(([x[begin:end] for begin, end in pairwise(cuts)], holders))
        others = [k for k in range(n) if k != node]
        requests: list[tuple[list[Any], Sequence[int]]] = []
        buffers = []
        for part, holders in parts:
            own = part[node]
            rows = empty_shared((n, own.size), own.dtype)
            buffers.append(rows)
            for k in others:
                requests.append((engine.irecv(rows[k], holders[k]), [holders[k]]))
                requests.append((engine.isend(part[k], holders[k]), []))
        self.wait(requests)
        for (part, _), rows in zip(parts, buffers, strict=True):
            own = part[node]
            rows[node] = own
            native.reduce_into(own, list(rows), "sum")
        requests = []
        for part, holders in parts:
            for k in others:
                requests.append((engine.irecv(part[k], holders[k]), [holders[k]]))
                requests.append((engine.isend(part[node], holders[k]), []))
        self.wait(requests)


def ranks_of(group: ProcessGroup) -> Ranks:
    """This rank's end, in a process group."""
    return NodeRanks(group) if group.spans_nodes else Ranks(group)


def local_size(group: ProcessGroup) -> int:
    """How many of a group's ranks share this rank's memory."""
    return len(group.native.local_ranks) if group.spans_nodes else group.size()


def weights_on_nodes(
    optimizer: Any, scaler: Any, shared: Any, gradients: Gradients, clip: Clip, ranks: NodeRanks
) -> Any:
    """How a rank updates its node's weights."""
    if shared.is_sharded:
        return ShardedOnNodes(optimizer, gradients, shared.flats, clip, ranks)
    return ByRankZeroOnNodes(optimizer, scaler, gradients, clip, ranks)


class ShardedOnNodes(Sharded):
    """A rank's share of the update of its node's copy, with the sums over all nodes."""

    def __init__(
        self, optimizer: Any, gradients: Gradients, flats: Any, clip: Clip, ranks: NodeRanks
    ) -> None:
        shared = flats if ranks.local_rank else None
        super().__init__(optimizer, gradients, ranks.local_size, shared, clip)
        self.among = ranks
        self.intervals = [ranks.intervals(flat.parameter) for flat in self.flats]

    def own_shards(self) -> list[Array]:
        """Of each flat this rank's shard of the gradients, in its row."""
        rank = self.gradients.rank
        shards = []
        for i, rows in enumerate(self.gradients.rows):
            begin, end = self.ranges[i][rank]
            shards.append(rows[rank, begin:end])
        return shards

    def prepare(
        self, board: ProgressBoard, factor: float, barrier: Callable[[], None] | None
    ) -> float:
        """Sums the shard over all ranks, into this rank's row; and the norm is that of the sums.
        Note [Whole weights].
        """
        ranks, rank = self.among, self.gradients.rank
        with ranks.call():
            for i in range(len(self.flats)):
                self.gradients.reduce(i, *self.ranges[i][rank], 1.0)
            ranks.sum_among_nodes(
                [
                    (rows[rank, begin:end], holders)
                    for rows, intervals in zip(self.gradients.rows, self.intervals, strict=True)
                    for begin, end, holders in intervals
                ]
            )
            ranks.node_barrier()
        if self.clip.norm is None:
            return factor
        board.squares[ranks.rank] = sum(map(sum_of_squares, self.own_shards()))
        ranks.barrier()
        # Nodes with other numbers of ranks add the squares in another order: all take node 0's.
        return limited(factor, board.squares[ranks.nodes[0]], self.clip.norm)

    def update_shard(self, rank: int) -> None:
        """Updates this rank's shard by the sums."""
        for i, (runs, own) in enumerate(zip(self.runs, self.own_shards(), strict=True)):
            multiply_and_clip(own, self.factor, self.clip.value)
            self.optimizer.step_part(i, runs, *self.ranges[i][rank])


class ByRankZeroOnNodes(ByRankZero):
    """Rank 0 calls `optimizer.step()`, and the other nodes get its weights. The optimizer's state
    is on rank 0 alone.
    """

    def __init__(
        self, optimizer: Any, scaler: Any, gradients: Gradients, clip: Clip, ranks: NodeRanks
    ) -> None:
        super().__init__(optimizer, scaler, gradients, clip)
        self.among = ranks

    def prepare(
        self, board: ProgressBoard, factor: float, barrier: Callable[[], None] | None
    ) -> float:
        """Sums the gradients over all ranks, into the rows of the nodes' first ranks."""
        ranks, gradients = self.among, self.gradients
        with ranks.call():
            if ranks.local_rank == 0:
                super().reduce(factor)
                rows = [
                    (row[0, : part.size], ranks.first)
                    for row, part in zip(gradients.rows, gradients.parts, strict=True)
                ]
                ranks.sum_among_nodes(rows)
            ranks.node_barrier()
        return factor

    def reduce(self, factor: float) -> None:
        """Nothing: `prepare` has done it."""

    def update(self, missing: Array, factor: float) -> None:
        if self.among.rank == 0:
            super().update(missing, factor)
        self.among.copy_in_update([p.array for p in parameters_of(self.optimizer)])
