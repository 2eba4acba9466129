"""The collectives of the backend mpi: the methods of `native.Group`, over memory and
messages between nodes.

Each first gathers the calls of all ranks (member.py). Small data comes with the calls, and every
rank computes its result from it; large data goes through large_collectives.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .... import native
from ....dtypes import HALVES
from ...collectives.reference import reduce_arrays
from ...group.call_signature import (
    HEAD,
    INLINE,
    array_of_call,
    check_list,
    check_message,
    check_op,
    check_pair,
    plain_op,
)
from ...group.operands import Array
from ...rendezvous.find_group import all_gather_json
from . import large_collectives
from .member import MpiMember
from .messages import BODY, HEADER, VERDICT, Wire
from .mpi_messages import init_mpi
from .nodes import describe_self, join_node, subgroup_nodes

__all__ = ["Engine", "world_engine"]

NEVER_CALLED = 1 << 62  # a call number that no rank has reached before it left


class Engine(MpiMember):
    """One rank's end of a group that spans nodes: what `native.Group` can do."""

    # ---------------------------------------------------------------- the collectives
    def barrier(self, timeout: float) -> None:
        with self.calling("barrier"):
            self.gather_calls("barrier", None, timeout)

    def broadcast(self, x: Array, root: int, timeout: float) -> None:
        with self.calling("broadcast"):
            sends = self.rank == root
            parts = self.gather_small("broadcast", x, timeout, root=root, sends=sends)
            if parts is None:
                large_collectives.broadcast(self, x, root, timeout)
            elif self.rank != root:
                x[...] = parts[root]

    def all_reduce(self, x: Array, number: int, timeout: float) -> None:
        op = check_op("all_reduce", x, number)
        with self.calling("all_reduce"):
            parts = self.gather_small("all_reduce", x, timeout, number)
            if parts is not None:
                x[...] = reduce_arrays(parts, plain_op(op))
                return
            work = large_collectives.working_copy(x) if x.dtype in HALVES else x
            large_collectives.reduce_to_last_node(
                self, "all_reduce", work, plain_op(op), timeout, broadcasts=True
            )
            if work is not x:
                large_collectives.round_into(work, x)

    def reduce(self, x: Array, number: int, root: int, timeout: float) -> None:
        op = check_op("reduce", x, number)
        with self.calling("reduce"):
            parts = self.gather_small("reduce", x, timeout, number, root)
            if parts is not None:
                if self.rank == root:
                    x[...] = reduce_arrays(parts, plain_op(op))
                return
            work = large_collectives.working_copy(x)
            last = self.nodes[-1]
            large_collectives.reduce_to_last_node(
                self, "reduce", work, plain_op(op), timeout, target_rank=root
            )
            if root not in last:
                if self.rank == last[0]:
                    self.wait("reduce", [(self.isend(work, root), [root])], timeout)
                elif self.rank == root:
                    self.wait("reduce", [(self.irecv(work, last[0]), last)], timeout)
            if self.rank == root:
                large_collectives.round_into(work, x)

    def all_gather(self, outs: Sequence[Array], x: Array, timeout: float) -> None:
        check_list("all_gather", outs, x, self.world)
        with self.calling("all_gather"):
            parts = self.gather_small("all_gather", x, timeout)
            if parts is None:
                large_collectives.all_gather(self, outs, x, timeout)
                return
            for out, part in zip(outs, parts, strict=True):
                out[...] = part.reshape(out.shape)

    def gather(self, x: Array, outs: Sequence[Array], root: int, timeout: float) -> None:
        if self.rank == root:
            check_list("gather", outs, x, self.world)
        with self.calling("gather"):
            parts = self.gather_small("gather", x, timeout, root=root)
            if parts is None:
                large_collectives.gather(self, outs, x, root, timeout)
            elif self.rank == root:
                for out, part in zip(outs, parts, strict=True):
                    out[...] = part.reshape(out.shape)

    def scatter(self, out: Array, xs: Sequence[Array], root: int, timeout: float) -> None:
        if self.rank == root:
            check_list("scatter", xs, out, self.world)
        with self.calling("scatter"):
            is_small = out.nbytes * self.world <= INLINE
            has_data = is_small and self.rank == root and out.nbytes > 0
            data = np.concatenate([x.reshape(-1) for x in xs]) if has_data else None
            table = self.gather_calls("scatter", out, timeout, root=root, data=data)
            if not is_small:
                large_collectives.scatter(self, out, xs, root, timeout)
            elif out.nbytes:
                all_parts = array_of_call(table[root], out.dtype, (self.world, *out.shape))
                out[...] = all_parts[self.rank]

    def reduce_scatter(self, out: Array, x: Array, number: int, timeout: float) -> None:
        op = check_op("reduce_scatter", x, number)
        check_pair("reduce_scatter", out, x, out.nbytes * self.world, self.world)
        with self.calling("reduce_scatter"):
            parts = self.gather_small("reduce_scatter", x, timeout, number)
            if parts is None:
                large_collectives.reduce_scatter(self, out, x, plain_op(op), timeout)
                return
            mine = [part.reshape(self.world, -1)[self.rank] for part in parts]
            out[...] = reduce_arrays(mine, plain_op(op)).reshape(out.shape)

    def all_to_all(self, out: Array, x: Array, timeout: float) -> None:
        check_pair("all_to_all", out, x, out.nbytes, self.world)
        with self.calling("all_to_all"):
            parts = self.gather_small("all_to_all", x, timeout)
            outs = out.reshape(self.world, -1)
            if parts is not None:
                for each, part in zip(outs, parts, strict=True):
                    each[...] = part.reshape(outs.shape)[self.rank]
                return
            chunk = x.nbytes // self.world
            starts = np.arange(self.world) * chunk
            sizes = np.full(self.world, chunk)
            is_direct = x.nbytes > native.GROUP_INLINE
            large_collectives.exchange(
                self, list(outs), x, self.rank * chunk, starts, sizes, is_direct, timeout
            )

    def exchange(
        self,
        outs: Sequence[Array],
        x: Array,
        offsets: Sequence[int],
        is_direct: bool,
        timeout: float,
    ) -> None:
        """Fills `outs[p]` from rank p's x, beginning at byte `offsets[p]`."""
        requests = np.array([[at, out.nbytes] for at, out in zip(offsets, outs, strict=True)])
        if requests.nbytes > INLINE:  # with many ranks the requests take a call of their own
            table = np.empty((self.world, *requests.shape), np.int64)
            self.all_gather(list(table), requests, timeout)
        with self.calling("exchange"):
            is_small = requests.nbytes <= INLINE
            rows = self.gather_calls("exchange", None, timeout, data=requests if is_small else None)
            if is_small:
                table = np.stack(
                    [array_of_call(row, requests.dtype, requests.shape) for row in rows]
                )
            requested = table[:, self.rank]
            large_collectives.exchange(
                self, outs, x, offsets, requested[:, 0], requested[:, 1], is_direct, timeout
            )

    # ---------------------------------------------------------------- messages
    def check_peer(self, where: str, peer: int) -> None:
        """Raises if `peer` is not another rank of the group, or the group is broken."""
        super().check_peer(where, peer)
        self.check_failure(where)

    def wait_message(self, where: str, requests: list[Any], peer: int, timeout: float) -> None:
        """Waits until a message is sent or received. The death of a peer on this node ends it."""

        def watch(where: str) -> None:
            if peer in self.process_rows and native.liveness(*self.process_rows[peer]) != "alive":
                native.raise_peer_lost(where, *self.process_rows[peer])
            self.check_failure(where)

        try:
            self.wire.wait(where, [(requests, [peer])], timeout, NEVER_CALLED, watch)
        except BaseException as error:
            self.report_failure(where, error)
            raise

    def send(self, x: Array, to: int, tag: int, timeout: float) -> None:
        """Sends x; returns when it has been received."""
        self.check_peer("send", to)
        head, expected = self.message_head(x, tag), np.zeros(HEAD.itemsize, np.uint8)
        requests = self.wire.send(head, to, HEADER) + self.wire.receive(expected, to, VERDICT)
        self.wait_message("send", requests, to, timeout)
        check_message("send", head, expected, f"rank {to} expects")
        if to in self.local_ranks:
            self.call_local("send", x, self.local_ranks.index(to), tag, timeout)
        elif x.nbytes:
            self._bytes_sent += x.nbytes
            self.wait_message("send", self.wire.send(x, to, BODY, until_received=True), to, timeout)

    def recv(self, x: Array, source: int, tag: int, timeout: float) -> None:
        """Receives into x, which has the message's shape and dtype."""
        self.check_peer("recv", source)
        head, sent = self.message_head(x, tag), np.zeros(HEAD.itemsize, np.uint8)
        self.wait_message("recv", self.wire.receive(sent, source, HEADER), source, timeout)
        self.wait_message("recv", self.wire.send(head, source, VERDICT), source, timeout)
        check_message("recv", head, sent, f"rank {source} sends")
        if source in self.local_ranks:
            self.call_local("recv", x, self.local_ranks.index(source), tag, timeout)
        elif x.nbytes:
            self.wait_message("recv", self.wire.receive(x, source, BODY), source, timeout)

    def find_sender(self, timeout: float) -> int:
        """Waits for a message from any rank; returns the sender."""
        senders: list[int] = []

        def has_come() -> bool:
            source = self.wire.find(HEADER)
            senders.extend([] if source is None else [source])
            return bool(senders)

        self.wire.wait_until("recv", has_come, timeout, list, watch=self.check_failure)
        return senders[0]

    # ---------------------------------------------------------------- further groups
    def first_near(self, members: Sequence[int]) -> int:
        """The first of these ranks on this node: it creates the block of their group."""
        return next((rank for rank in self.local_ranks if rank in members), -1)

    def near_size(self, members: Sequence[int]) -> int:
        """How many of these ranks are on this node."""
        return sum(rank in members for rank in self.local_ranks)

    def subgroup(self, members: Sequence[int], block: native.Block | None) -> Engine | None:
        """This rank's end of a group of some ranks. All ranks of this group call it."""
        if self.rank not in members:
            self.wire.transport.n_groups += 1  # the same number on all ranks
            return None
        ranks = [self.wire.ranks[rank] for rank in members]
        wire = Wire(self.wire.transport, members.index(self.rank), ranks)
        nodes = subgroup_nodes(self.nodes, members)
        local_ranks = [rank for rank in self.local_ranks if rank in members]
        local_group = None
        if block is not None and len(local_ranks) > 1:
            local_group = native.Group(block, local_ranks.index(self.rank), len(local_ranks))
        process_rows = {
            members.index(r): row for r, row in self.process_rows.items() if r in members
        }
        return Engine(wire, nodes, local_group, process_rows)


def world_engine(rank: int, world: int, timeout: float) -> Engine:
    """This rank's end of the group of all ranks that MPI has started; waits for all.

    Raises:
        RuntimeError: mpi4py is not installed.
        ValueError: a rank or world size is given that differs from MPI's.
    """
    mpi = init_mpi(timeout)
    if rank not in (-1, mpi.rank) or world not in (-1, mpi.size):
        raise ValueError(
            f"init_process_group: rank and world_size are not those of MPI: rank {rank} of "
            f"{world}, MPI says rank {mpi.rank} of {mpi.size}"
        )
    wire = Wire(mpi, mpi.rank, range(mpi.size))
    infos = all_gather_json(wire.all_gather, mpi.size, describe_self(mpi.rank), timeout)
    nodes, local_group, process_rows = join_node(wire, infos, timeout)
    engine = Engine(wire, nodes, local_group, process_rows)
    engine.barrier(timeout)
    return engine
