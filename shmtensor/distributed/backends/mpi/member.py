"""How a collective of the backend mpi begins, and how it fails.

Rows with the ranks' calls go to the heads of the nodes, between the heads, and back to all ranks,
which compare them. A rank that fails afterwards tells all others, so that none waits for it.
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
from ...group.call_signature import HEAD, INLINE, NO_OP, ROW, array_of_call, compare, write
from ...group.operands import Array
from ..member import Member
from .messages import CALL, DATA, Wire
from .nodes import Node

SEE_NEWS = "the news say why"  # break_off's reason within a node; the cause comes as news
SLACK = 2.0  # seconds that a node waits longer than its head, whose error says more
GRACE = 0.5  # seconds in which the node of a missing rank may report that it is stopped


def describe_process(rank: int) -> dict[str, Any]:
    """This process, for the errors of the other ranks."""
    return {"name": f"rank {rank}", "pid": os.getpid(), "host": socket.gethostname()}


class MpiMember(Member):
    """One rank's end of a group that spans nodes: gathers the calls, and reports failures.

    Attributes:
        nodes: the ranks of each node, in rank order.
        local_ranks: the ranks of this node; the first is its head.
        local_group: their group in shared memory, or None if this rank is alone on its node.
        process_rows: their rows in the domain's process table: (row, incarnation).
    """

    spans_nodes = True

    def __init__(
        self,
        wire: Wire,
        nodes: list[Node],
        local_group: native.Group | None,
        process_rows: dict[int, tuple[int, int]],
    ) -> None:
        super().__init__(wire.rank, len(wire.ranks))
        self.wire, self.nodes = wire, nodes
        self.local_group, self.process_rows = local_group, process_rows
        self.node_index = next(i for i, node in enumerate(nodes) if self.rank in node)
        self.local_ranks = nodes[self.node_index]
        self.local_rank = self.local_ranks.index(self.rank)
        self.peers = [r for r in range(self.world) if r != self.rank]
        self.remote_ranks = [r for r in self.peers if r not in self.local_ranks]
        self._table = empty_shared((self.world, ROW), np.dtype(np.uint8))
        self._absent = 0
        self._inline = 0
        self._bytes_sent = 0
        self._where = ""
        if local_group is not None and self.local_rank:
            local_group.slack = SLACK  # a stopped head is still noticed at the timeout

    # ---------------------------------------------------------------- state
    @property
    def is_broken(self) -> bool:
        """Whether a rank gave up or died."""
        return self.wire.failure is not None or (
            self.local_group is not None and self.local_group.is_broken
        )

    def node_of(self, rank: int) -> int:
        """The number of a rank's node."""
        return next(i for i, node in enumerate(self.nodes) if rank in node)

    def missing(self) -> int:
        """A bit for each rank that has not come to this rank's last collective."""
        bits = self._absent
        if self.local_group is not None:
            local_bits = self.local_group.missing()
            bits |= sum(1 << r for i, r in enumerate(self.local_ranks) if local_bits >> i & 1)
        return bits

    def statistics(self) -> tuple[int, int, int]:
        """Collectives, bytes copied inline, bytes sent to other nodes."""
        return self._number, self._inline, self._bytes_sent

    def _leave(self) -> None:
        if self.local_group is not None:
            self.local_group.leave()
        if self.wire.failure is None:
            news = {"reason": "left", "rank": self.rank, "number": self._number}
            self.wire.send_news(news, self.remote_ranks)
        self.wire.close()

    def break_off(self, why: str) -> None:
        """Ends the waits of all ranks, for the reason `why`."""
        self.wire.send_news(
            self.wire.set_failure("gave up", self.rank, why, **describe_process(self.rank)),
            self.peers,
        )
        if self.local_group is not None:
            self.local_group.break_off(SEE_NEWS)

    # ---------------------------------------------------------------- errors
    @contextmanager
    def calling(self, where: str) -> Iterator[None]:
        """A collective. If it fails, this rank tells all others, except after a mismatch, which all
        ranks find.
        """
        self.check_member(where)
        with self.exclusive(where):
            try:
                if self.is_broken:
                    self.raise_failure(where)
                self._where = where
                yield
            except CollectiveMismatch:
                raise
            except BaseException as error:
                self.report_failure(where, error)
                raise

    @contextmanager
    def combined(self, where: str) -> Iterator[None]:
        """A collective that its caller makes of `isend`, `irecv`, `wait` and `call_local`, on all
        ranks.
        """
        with self.calling(where):
            self._number += 1
            yield

    def check_failure(self, where: str) -> None:
        """Raises the error that broke the group, if one did."""
        if self.wire.failure is not None:
            self.raise_failure(where)

    def check_node(self, where: str) -> None:
        """Raises the error that broke the group, or PeerLostError if a rank of this node died."""
        self.check_failure(where)
        if self.local_group is not None and (dead := self.local_group.find_dead()) >= 0:
            native.raise_peer_lost(where, *self.process_rows[self.local_ranks[dead]])

    def raise_failure(self, where: str) -> NoReturn:
        """Raises the error that broke the group. The death of a rank of this node is raised with
        its cause: ranks on other nodes, which may have sent the news, see only ended connections.
        """
        failure = self.wire.failure
        if failure is not None and failure["reason"] == "lost":
            process = self.process_rows.get(failure["rank"])
            if process is not None and native.liveness(*process) != "alive":
                native.raise_peer_lost(where, *process)
        if self.wire.failure is None and self.local_group is not None:
            self.local_group.barrier(0.0)  # raises the error, if this node knows it
        self.wire.raise_failure(where)

    def set_failure(self, where: str, error: BaseException) -> dict[str, Any]:
        """Stores this rank's error as the group's failure; returns it as news for the others."""
        text = str(error).removeprefix(f"{where}: ")
        if isinstance(error, PeerLostError):
            digits = error.name.removeprefix("rank ")
            who = int(digits) if digits.isdigit() else -1
            details = {name: getattr(error, name) for name in ("name", "pid", "exitcode", "host")}
            return self.wire.set_failure("lost", who, f"{text}, host {error.host}", **details)
        if isinstance(error, CollectiveTimeout):
            return self.wire.set_failure("timeout", self.rank, text)
        text = f"{type(error).__name__}: {text}"
        return self.wire.set_failure("gave up", self.rank, text, **describe_process(self.rank))

    def node_failure(self) -> tuple[str, int, str] | None:
        """Who broke the node's group, and why, as `native.Group.failure`; None: nobody."""
        return None if self.local_group is None else self.local_group.failure

    def has_news(self) -> bool:
        """Whether a rank of this node has broken its group for a reason that comes as news."""
        failure = self.node_failure()
        return failure is not None and failure[0] == "gave up" and failure[2] == SEE_NEWS

    def report_failure(self, where: str, error: BaseException) -> None:
        """Tells the other ranks of this rank's error; raises theirs if it is the cause."""
        wire, local_group = self.wire, self.local_group
        is_echo = isinstance(error, PeerLostError) and self.has_news()
        if is_echo and wire.failure is None:  # a rank of this node gave up: the cause comes as news
            wire.listen(1.0)
        if wire.failure is None:
            wire.send_news(self.set_failure(where, error), self.peers)
            is_echo = False
        if local_group is not None:
            local_group.break_off(SEE_NEWS)
        if is_echo:
            self.raise_failure(where)

    def call_local(self, method: str, *args: Any) -> None:
        """Calls a method of the node's group. Its errors name local ranks; they are translated."""
        *operands, timeout = args
        if timeout >= 0 and self.local_rank:
            timeout += SLACK
        try:
            getattr(self.local_group, method)(*operands, timeout)
        except (CollectiveTimeout, RuntimeError) as error:
            failure = self.node_failure()
            is_lost = failure is not None and failure[0] == "lost"
            if isinstance(error, PeerLostError) and (is_lost or error.exitcode is not None):
                raise  # it names the process by its role
            text = re.sub(
                r"\brank (\d+)\b", lambda m: f"rank {self.local_ranks[int(m[1])]}", str(error)
            )
            text = text.removeprefix(f"{method}: ").partition(", its last call was")[0]
            message = f"{self._where}: {text}"
            if isinstance(error, PeerLostError):
                raise PeerLostError(message, error.name, error.pid) from None
            raise type(error)(message) from None

    # ---------------------------------------------------------------- the first step
    def gather_calls(
        self,
        what: str,
        x: Array | None,
        timeout: float,
        op: int = NO_OP,
        root: int = -1,
        data: Array | None = None,
    ) -> Array:
        """Gathers and compares the calls of all ranks; returns their data, (n, INLINE) bytes."""
        table, local_group = self._table, self.local_group
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
        node_rows = table[self.local_ranks[0] : self.local_ranks[-1] + 1]
        if local_group is not None:
            self.call_local(
                "gather", row, list(node_rows) if self.local_rank == 0 else [], 0, timeout
            )
        if self.local_rank == 0 and len(self.nodes) > 1:
            requests: list[tuple[list[Any], Sequence[int]]] = []
            for node in self.nodes:
                if node is not self.local_ranks:
                    rows = table[node[0] : node[-1] + 1]
                    requests.append((self.irecv(rows, node[0], CALL), node))
                    requests.append((self.isend(node_rows, node[0], CALL), []))
            try:
                self.wait(what, requests, timeout)
            except CollectiveTimeout:
                with self.wire.transport.lock:
                    for each, ranks in requests:
                        if not self.wire.transport.are_done(each):
                            self._absent |= sum(1 << r for r in ranks)
                raise
        if local_group is not None:
            self.call_local("broadcast", table, 0, timeout)
        compare(table, what)
        return table[:, HEAD.itemsize :]

    def gather_small(
        self,
        what: str,
        x: Array,
        timeout: float,
        op: int = NO_OP,
        root: int = -1,
        sends: bool = True,
    ) -> list[Array] | None:
        """Gathers and compares the calls; returns everybody's x if it is small enough to come with
        them (of ranks that do not send theirs: anything), else None.
        """
        is_small = x.nbytes <= INLINE
        data = x if is_small and sends else None
        table = self.gather_calls(what, x, timeout, op, root, data)
        return [array_of_call(row, x.dtype, x.shape) for row in table] if is_small else None

    def isend(self, x: Array, to: int, kind: int = DATA) -> list[Any]:
        self._bytes_sent += x.nbytes
        return self.wire.send(x, to, kind)

    def irecv(self, x: Array, source: int, kind: int = DATA) -> list[Any]:
        return self.wire.receive(x, source, kind)

    def wait(
        self, where: str, requests: Sequence[tuple[list[Any], Sequence[int]]], timeout: float
    ) -> None:
        """Waits until messages of a collective are sent and received."""
        try:
            self.wire.wait(where, requests, timeout, self._number, self.check_node)
        except CollectiveTimeout:
            if any(len(node) > 1 for node in self.nodes if node is not self.local_ranks):
                self.wire.listen(GRACE)
            self.check_failure(where)
            raise
