"""The collectives of the backend mpi: the methods of `native.Group`, over memory and MPI.

Each begins with the meeting (begin_and_fail.py). Small data has come along, and is then worked on
by everybody, as its contract says; large data goes by large_collectives.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .... import native
from ....dtypes import HALVES
from ...collectives.reference import fold
from ...group.call_signature import (
    HEAD,
    INLINE,
    array_of_call,
    check_list,
    check_message,
    check_pair,
    checked,
    plain_op,
)
from ...group.operands import Array
from ...rendezvous.find_group import exchange_text
from . import large_collectives
from .begin_and_fail import GroupMember
from .liveness_across_nodes import keep_watch
from .messages import BODY, HEADER, VERDICT, Base, Wire, begin
from .nodes import describe_self, meet_node, runs

__all__ = ["Engine", "world_engine"]

EVER = 1 << 62  # a call that nobody has come to before leaving


class Engine(GroupMember):
    """One rank's end of a group that spans nodes: what `native.Group` can do."""

    # ---------------------------------------------------------------- the collectives
    def barrier(self, timeout: float) -> None:
        """Returns when every rank has called it."""
        with self.calling("barrier"):
            self.agree("barrier", None, timeout)

    def broadcast(self, x: Array, root: int, timeout: float) -> None:
        """x of `root` into everybody's."""
        with self.calling("broadcast"):
            is_small = x.nbytes <= INLINE
            data = x if is_small and self.rank == root else None
            table = self.agree("broadcast", x, timeout, root=root, data=data)
            if not is_small:
                large_collectives.hand_down(self, x, root, timeout)
            elif self.rank != root:
                x[...] = array_of_call(table[root], x.dtype, x.shape)

    def all_reduce(self, x: Array, number: int, timeout: float) -> None:
        """The reduction of all into everybody's x."""
        op = checked("all_reduce", x, number)
        with self.calling("all_reduce"):
            is_small = x.nbytes <= INLINE
            table = self.agree("all_reduce", x, timeout, number, data=x if is_small else None)
            if is_small:
                x[...] = fold([array_of_call(row, x.dtype, x.shape) for row in table], plain_op(op))
                return
            work = large_collectives.scratch(x) if x.dtype in HALVES else x
            large_collectives.fold_up(
                self, "all_reduce", work, plain_op(op), timeout, hands_back=True
            )
            if work is not x:
                large_collectives.rounded(work, x)

    def reduce(self, x: Array, number: int, root: int, timeout: float) -> None:
        """The reduction of all into x of `root`."""
        op = checked("reduce", x, number)
        with self.calling("reduce"):
            is_small = x.nbytes <= INLINE
            table = self.agree("reduce", x, timeout, number, root, x if is_small else None)
            if is_small:
                if self.rank == root:
                    x[...] = fold(
                        [array_of_call(row, x.dtype, x.shape) for row in table], plain_op(op)
                    )
                return
            work = large_collectives.scratch(x)
            last = self.nodes[-1]
            large_collectives.fold_up(self, "reduce", work, plain_op(op), timeout, sink=root)
            if root not in last:
                if self.rank == last[0]:
                    self.wait("reduce", [(self.post(work, root), [root])], timeout)
                elif self.rank == root:
                    self.wait("reduce", [(self.fetch(work, last[0]), last)], timeout)
            if self.rank == root:
                large_collectives.rounded(work, x)

    def all_gather(self, outs: Sequence[Array], x: Array, timeout: float) -> None:
        """Everybody's x into everybody's list."""
        check_list("all_gather", outs, x, self.world)
        with self.calling("all_gather"):
            is_small = x.nbytes <= INLINE
            table = self.agree("all_gather", x, timeout, data=x if is_small else None)
            if is_small:
                for out, row in zip(outs, table, strict=True):
                    out[...] = array_of_call(row, x.dtype, x.shape).reshape(out.shape)
            else:
                large_collectives.gather_all(self, outs, x, timeout)

    def gather(self, x: Array, outs: Sequence[Array], root: int, timeout: float) -> None:
        """Everybody's x into the list of `root`."""
        if self.rank == root:
            check_list("gather", outs, x, self.world)
        with self.calling("gather"):
            is_small = x.nbytes <= INLINE
            table = self.agree("gather", x, timeout, root=root, data=x if is_small else None)
            if not is_small:
                large_collectives.gather_to(self, outs, x, root, timeout)
            elif self.rank == root:
                for out, row in zip(outs, table, strict=True):
                    out[...] = array_of_call(row, x.dtype, x.shape)

    def scatter(self, out: Array, xs: Sequence[Array], root: int, timeout: float) -> None:
        """The r-th of the root's list into rank r's `out`."""
        if self.rank == root:
            check_list("scatter", xs, out, self.world)
        with self.calling("scatter"):
            is_small = out.nbytes * self.world <= INLINE
            has_data = is_small and self.rank == root and out.nbytes > 0
            data = np.concatenate([x.reshape(-1) for x in xs]) if has_data else None
            table = self.agree("scatter", out, timeout, root=root, data=data)
            if not is_small:
                large_collectives.scatter_from(self, out, xs, root, timeout)
            elif out.nbytes:
                all_parts = array_of_call(table[root], out.dtype, (self.world, *out.shape))
                out[...] = all_parts[self.rank]

    def reduce_scatter(self, out: Array, x: Array, number: int, timeout: float) -> None:
        """The r-th part of the reduction of all into rank r's `out`."""
        op = checked("reduce_scatter", x, number)
        check_pair("reduce_scatter", out, x, out.nbytes * self.world, self.world)
        with self.calling("reduce_scatter"):
            is_small = x.nbytes <= INLINE
            data = x if is_small else None
            table = self.agree("reduce_scatter", x, timeout, number, data=data)
            if is_small:
                parts = [
                    array_of_call(row, x.dtype, (self.world, out.size))[self.rank] for row in table
                ]
                out[...] = fold(parts, plain_op(op)).reshape(out.shape)
            else:
                large_collectives.fold_and_scatter(self, out, x, plain_op(op), timeout)

    def all_to_all(self, out: Array, x: Array, timeout: float) -> None:
        """Everybody's r-th part into rank r's `out`, in rank order."""
        check_pair("all_to_all", out, x, out.nbytes, self.world)
        with self.calling("all_to_all"):
            is_small = x.nbytes <= INLINE
            table = self.agree("all_to_all", x, timeout, data=x if is_small else None)
            parts = out.reshape(self.world, -1)
            if is_small:
                for part, row in zip(parts, table, strict=True):
                    part[...] = array_of_call(row, x.dtype, parts.shape)[self.rank]
                return
            chunk = x.nbytes // self.world
            places = np.arange(self.world) * chunk
            sizes = np.full(self.world, chunk)
            is_direct = x.nbytes > native.GROUP_INLINE
            large_collectives.swap(
                self, list(parts), x, self.rank * chunk, places, sizes, is_direct, timeout
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
        wanted = np.array([[at, out.nbytes] for at, out in zip(offsets, outs, strict=True)])
        if wanted.nbytes > INLINE:  # as many ranks as that tell one another in a call of their own
            table = np.empty((self.world, *wanted.shape), np.int64)
            self.all_gather(list(table), wanted, timeout)
        with self.calling("exchange"):
            is_small = wanted.nbytes <= INLINE
            rows = self.agree("exchange", None, timeout, data=wanted if is_small else None)
            if is_small:
                table = np.stack([array_of_call(row, wanted.dtype, wanted.shape) for row in rows])
            asked = table[:, self.rank]
            large_collectives.swap(
                self, outs, x, offsets, asked[:, 0], asked[:, 1], is_direct, timeout
            )

    # ---------------------------------------------------------------- messages
    def check_peer(self, where: str, peer: int) -> None:
        """Raises if there is no such other rank, or the group is broken."""
        super().check_peer(where, peer)
        if self.wire.trouble is not None:
            self.wire.fail(where)

    def carry(self, where: str, begun: list[Any], peer: int, timeout: float) -> None:
        """Until a message has gone or come. A neighbour's death ends it, too."""

        def watch() -> None:
            if peer in self.kin and native.liveness(*self.kin[peer]) != "alive":
                native.raise_peer_lost(where, *self.kin[peer])

        try:
            self.wire.wait(where, [(begun, [peer])], timeout, EVER, watch)
        except BaseException as error:
            self.spread(where, error)
            raise

    def send(self, x: Array, to: int, tag: int, timeout: float) -> None:
        """Sends; returns when it has been received."""
        self.check_peer("send", to)
        own, answer = self.message(x, tag), np.zeros(HEAD.itemsize, np.uint8)
        begun = self.wire.send(own, to, HEADER) + self.wire.receive(answer, to, VERDICT)
        self.carry("send", begun, to, timeout)
        check_message("send", own, answer, f"rank {to} expects")
        if to in self.near:
            self.inside("send", x, self.near.index(to), tag, timeout)
        elif x.nbytes:
            self._sent += x.nbytes
            self.carry("send", self.wire.send(x, to, BODY, is_taken=True), to, timeout)

    def recv(self, x: Array, source: int, tag: int, timeout: float) -> None:
        """Receives into x, which has the message's shape and dtype."""
        self.check_peer("recv", source)
        own, theirs = self.message(x, tag), np.zeros(HEAD.itemsize, np.uint8)
        self.carry("recv", self.wire.receive(theirs, source, HEADER), source, timeout)
        self.carry("recv", self.wire.send(own, source, VERDICT), source, timeout)
        check_message("recv", own, theirs, f"rank {source} sends")
        if source in self.near:
            self.inside("recv", x, self.near.index(source), tag, timeout)
        elif x.nbytes:
            self.carry("recv", self.wire.receive(x, source, BODY), source, timeout)

    def find_sender(self, timeout: float) -> int:
        """A rank whose message lies here."""
        found: list[int] = []

        def has_come() -> bool:
            source = self.wire.find(HEADER)
            found.extend([] if source is None else [source])
            return bool(found)

        self.wire.until("recv", has_come, timeout, list)
        return found[0]

    # ---------------------------------------------------------------- further groups
    def first_near(self, members: Sequence[int]) -> int:
        """Of some ranks, the first of this node: it makes the block of their group."""
        return next((rank for rank in self.near if rank in members), -1)

    def near_size(self, members: Sequence[int]) -> int:
        """How many of some ranks are of this node."""
        return sum(rank in members for rank in self.near)

    def subgroup(self, members: Sequence[int], block: native.Block | None) -> Engine | None:
        """This rank's end of a group of some ranks; all ranks of this group call it."""
        if self.rank not in members:
            Base.number += 1  # groups have the same numbers on all ranks
            return None
        mpi_ranks = [self.wire.ranks[rank] for rank in members]
        wire = Wire(self.wire.comm, members.index(self.rank), mpi_ranks)
        nodes = runs(self.nodes, members)
        near = [rank for rank in self.near if rank in members]
        local = None
        if block is not None and len(near) > 1:
            local = native.Group(block, near.index(self.rank), len(near))
        kin = {members.index(r): at for r, at in self.kin.items() if r in members}
        return Engine(wire, nodes, local, kin)


def world_engine(rank: int, world: int, timeout: float) -> Engine:
    """The group of all ranks that MPI has started; waits for all.

    Raises:
        RuntimeError: mpi4py is not installed.
        ValueError: rank or world size are given, and not MPI's.
    """
    comm = begin(timeout)
    if rank not in (-1, comm.rank) or world not in (-1, comm.size):
        raise ValueError(
            f"init_process_group: rank and world_size are not those of MPI: rank {rank} of "
            f"{world}, MPI says rank {comm.rank} of {comm.size}"
        )
    wire = Wire(comm, comm.rank, range(comm.size))
    said = exchange_text(wire.all_gather, comm.size, describe_self(comm.rank), timeout)
    nodes, local, kin = meet_node(wire, said, timeout)
    if len(nodes) > 1 and Base.watch is None:
        keep_watch(wire, nodes, said, timeout)
    engine = Engine(wire, nodes, local, kin)
    engine.barrier(timeout)
    return engine
