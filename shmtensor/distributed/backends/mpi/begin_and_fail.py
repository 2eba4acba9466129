"""How a collective of the backend mpi begins, and how it fails.

Rows of what everybody calls go up to the heads, between them, and down again, and are compared.
Whoever fails afterwards tells all others, so that nobody waits for who will not come.
"""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn

import numpy as np

from .... import native
from ....errors import CollectiveMismatch, CollectiveTimeout, PeerLostError
from ....memory.layout import empty_shared
from ...group.call_signature import HEAD, NO_FOLD, ROW, compare, write
from ...group.operands import Array
from ..engine import Member
from .messages import CALL, DATA, Wire
from .nodes import Node

__all__ = ["GroupMember"]

SEE_NEWS = "the news say why"  # what a node hears in memory of what MPI brings
SLACK = 2.0  # seconds that a node waits longer than its head, which can say more
GRACE = 0.5  # seconds that neighbours of who has not come have to say that it is stopped


def myself(rank: int) -> dict[str, Any]:
    """Who gives up, for the others' errors."""
    return {"name": f"rank {rank}", "pid": os.getpid(), "host": socket.gethostname()}


class GroupMember(Member):
    """One rank's end of a group that spans nodes: who comes, what all call, who fails.

    Attributes:
        nodes: the ranks of each node, in rank order.
        near: the ranks of this node; the first is its head.
        local: their group in shared memory, or None if this rank is alone.
        kin: their rows in the domain.
    """

    spans_nodes = True

    def __init__(
        self,
        wire: Wire,
        nodes: list[Node],
        local: native.Group | None,
        kin: dict[int, tuple[int, int]],
    ) -> None:
        super().__init__(wire.rank, len(wire.ranks))
        self.wire, self.nodes, self.local, self.kin = wire, nodes, local, kin
        self.here = next(i for i, node in enumerate(nodes) if self.rank in node)
        self.near = nodes[self.here]
        self.place = self.near.index(self.rank)
        self.others = [r for r in range(self.world) if r != self.rank]
        self.far = [r for r in self.others if r not in self.near]
        self._table = empty_shared((self.world, ROW), np.dtype(np.uint8))
        self._absent = 0
        self._inline = 0
        self._sent = 0
        self._where = ""
        if local is not None and self.place:
            local.slack = SLACK  # but whether the head is stopped it asks at the timeout

    # ---------------------------------------------------------------- what native.Group tells
    @property
    def is_broken(self) -> bool:
        """Whether somebody gave up or died."""
        return self.wire.trouble is not None or (self.local is not None and self.local.is_broken)

    def node_of(self, rank: int) -> int:
        """The number of a rank's node."""
        return next(i for i, node in enumerate(self.nodes) if rank in node)

    def missing(self) -> int:
        """A bit for each rank that has not come to this rank's last meeting."""
        bits = self._absent
        if self.local is not None:
            inside = self.local.missing()
            bits |= sum(1 << r for i, r in enumerate(self.near) if inside >> i & 1)
        return bits

    def statistics(self) -> tuple[int, int, int]:
        """Collectives, bytes copied inline, bytes sent by MPI."""
        return self._number, self._inline, self._sent

    def _leave(self) -> None:
        if self.local is not None:
            self.local.leave()
        if self.wire.trouble is None:
            news = {"reason": "left", "rank": self.rank, "number": self._number}
            self.wire.tell(news, self.far)
        self.wire.close()

    def break_off(self, why: str) -> None:
        """Ends the waits of all ranks."""
        self.wire.tell(self.wire.note("gave up", self.rank, why, **myself(self.rank)), self.others)
        if self.local is not None:
            self.local.break_off(SEE_NEWS)

    # ---------------------------------------------------------------- errors
    @contextmanager
    def calling(self, where: str) -> Iterator[None]:
        """A collective. Whoever fails in it, but for a mismatch that all find alike, tells all."""
        self.check_member(where)
        with self.alone(where):
            try:
                if self.is_broken:
                    self.fail(where)
                self._where = where
                yield
            except CollectiveMismatch:
                raise
            except BaseException as error:
                self.spread(where, error)
                raise

    def fail(self, where: str) -> NoReturn:
        """Raises why the group is broken."""
        if self.wire.trouble is None and self.local is not None:
            self.local.barrier(0.0)  # raises what this node knows
        self.wire.fail(where)

    def note(self, where: str, error: BaseException) -> dict[str, Any]:
        """Remembers an error of one's own, as the news that the others get."""
        text = str(error).removeprefix(f"{where}: ")
        if isinstance(error, PeerLostError):
            digits = error.name.removeprefix("rank ")
            who = int(digits) if digits.isdigit() else -1
            details = {name: getattr(error, name) for name in ("name", "pid", "exitcode", "host")}
            return self.wire.note("lost", who, f"{text}, host {error.host}", **details)
        if isinstance(error, CollectiveTimeout):
            return self.wire.note("timeout", self.rank, text)
        text = f"{type(error).__name__}: {text}"
        return self.wire.note("gave up", self.rank, text, **myself(self.rank))

    def spread(self, where: str, error: BaseException) -> None:
        """Tells the others what happened here, unless they told us; raises what they told."""
        wire, local = self.wire, self.local
        is_echo = SEE_NEWS in str(error)
        if is_echo and wire.trouble is None:  # a neighbour gave up: why, comes as news
            wire.listen(1.0)
        if wire.trouble is None:
            wire.tell(self.note(where, error), self.others)
            is_echo = False
        if local is not None:
            local.break_off(SEE_NEWS)
        if is_echo:
            wire.fail(where)

    def inside(self, method: str, *arguments: Any) -> None:
        """A step in this node's shared memory. Its errors name ranks by their place in the node."""
        *operands, timeout = arguments
        if timeout >= 0 and self.place:
            timeout += SLACK
        try:
            getattr(self.local, method)(*operands, timeout)
        except (CollectiveTimeout, RuntimeError) as error:
            is_dead = isinstance(error, PeerLostError) and error.exitcode is not None
            if is_dead or " has died" in str(error):  # named by its role
                raise
            text = re.sub(r"\brank (\d+)\b", lambda m: f"rank {self.near[int(m[1])]}", str(error))
            text = text.removeprefix(f"{method}: ").partition(", its last call was")[0]
            told = f"{self._where}: {text}"
            if isinstance(error, PeerLostError):
                raise PeerLostError(told, error.name, error.pid) from None
            raise type(error)(told) from None

    # ---------------------------------------------------------------- the first step
    def agree(
        self,
        what: str,
        x: Array | None,
        timeout: float,
        op: int = NO_FOLD,
        root: int = -1,
        data: Array | None = None,
    ) -> Array:
        """Everybody's data, (n, INLINE) bytes, after all have compared what they call."""
        table, local = self._table, self.local
        self._number += 1
        self._absent = 0
        self._where = what
        row = np.empty(ROW, np.uint8)
        write(row, what, self._number, x, op, root)
        if data is not None:
            flat = data.reshape(-1).view(np.uint8)
            row[HEAD.itemsize : HEAD.itemsize + flat.size] = flat
            self._inline += flat.size
        table[self.rank] = row
        if local is not None:
            rows = list(table[self.near[0] : self.near[-1] + 1]) if self.place == 0 else []
            self.inside("gather", row, rows, 0, timeout)
        if self.place == 0 and len(self.nodes) > 1:
            begun: list[tuple[list[Any], Sequence[int]]] = []
            own = table[self.near[0] : self.near[-1] + 1]
            for node in self.nodes:
                if node is not self.near:
                    begun.append((self.fetch(table[node[0] : node[-1] + 1], node[0], CALL), node))
                    begun.append((self.post(own, node[0], CALL), []))
            try:
                self.wait(what, begun, timeout)
            except CollectiveTimeout:
                done = [all(r.Test() for r in each) for each, _ in begun]
                for (_, who), is_done in zip(begun, done, strict=True):
                    self._absent |= 0 if is_done else sum(1 << r for r in who)
                raise
        if local is not None:
            self.inside("broadcast", table, 0, timeout)
        compare(table, what)
        return table[:, HEAD.itemsize :]

    def post(self, x: Array, to: int, kind: int = DATA) -> list[Any]:
        """Begins to send by MPI."""
        self._sent += x.nbytes
        return self.wire.send(x, to, kind)

    def fetch(self, x: Array, source: int, kind: int = DATA) -> list[Any]:
        """Begins to receive by MPI."""
        return self.wire.receive(x, source, kind)

    def wait(
        self, where: str, begun: Sequence[tuple[list[Any], Sequence[int]]], timeout: float
    ) -> None:
        """Until messages of a collective have gone and come."""
        try:
            self.wire.wait(where, begun, timeout, self._number)
        except CollectiveTimeout:
            if any(len(node) > 1 for node in self.nodes if node is not self.near):
                self.wire.listen(GRACE)
            if self.wire.trouble is not None:
                self.wire.fail(where)
            raise
