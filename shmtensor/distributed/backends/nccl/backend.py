"""The collectives and messages of the backend nccl: the methods of `native.Group`.

Each stages its host arrays, and calls the inside (communicator.py) with device addresses. What NCCL
cannot reduce, shared memory does (`number_of`): docs/design/distributed.md has the table.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from itertools import accumulate
from math import inf

import numpy as np

from .... import native
from ....memory.layout import empty_shared
from ...group.call_signature import check_list, check_message, check_pair, checked
from ...group.operands import Array
from .begin_and_fail import GroupMember, rest_of, turn
from .communicator import Communicator, Part
from .cupy_nccl import number_of

__all__ = ["Engine"]


class Engine(GroupMember):
    """One rank's end of a group on GPUs: what `native.Group` can do.

    Attributes:
        answers, turns: what a message's receiver says, and whose turn has come: groups of their
            own, so that they are not taken for messages.
    """

    def __init__(
        self,
        control: native.Group,
        answers: native.Group,
        turns: native.Group,
        communicator: Communicator,
        kin: list[tuple[int, int]],
    ) -> None:
        super().__init__(control, communicator, kin)
        self.answers, self.turns = answers, turns

    # ---------------------------------------------------------------- the collectives
    def barrier(self, timeout: float) -> None:
        """Returns when every rank has called it. What was called before is done by then."""
        with self.collective("barrier", None, timeout):
            pass  # they have agreed

    def broadcast(self, x: Array, root: int, timeout: float) -> None:
        """x of `root` into everybody's."""
        with self.collective("broadcast", x, timeout, root=root) as end:
            if not x.nbytes:
                return
            self.take_turns("broadcast", end)
            with self.work("broadcast", end) as staging:
                at = staging.take(x.nbytes)
                if self.rank == root:
                    staging.put(at, x)
                self.communicator.broadcast(at, x.nbytes, root)
                if self.rank != root:
                    staging.get(at, x)

    def all_reduce(self, x: Array, number: int, timeout: float) -> None:
        """The reduction of all into everybody's x."""
        op = checked("all_reduce", x, number)
        with self.collective("all_reduce", x, timeout, number) as end:
            numbers = number_of(x.dtype, op)
            if numbers is None:
                self.control.all_reduce(x, number, rest_of(end))
            elif x.nbytes:
                self.take_turns("all_reduce", end)
                with self.work("all_reduce", end) as staging:
                    at = staging.take(x.nbytes)
                    staging.put(at, x)
                    self.communicator.all_reduce(at, x.size, *numbers)
                    staging.get(at, x)

    def reduce(self, x: Array, number: int, root: int, timeout: float) -> None:
        """The reduction of all into x of `root`."""
        op = checked("reduce", x, number)
        with self.collective("reduce", x, timeout, number, root) as end:
            numbers = number_of(x.dtype, op)
            if numbers is None:
                self.control.reduce(x, number, root, rest_of(end))
            elif x.nbytes:
                self.take_turns("reduce", end)
                with self.work("reduce", end) as staging:
                    at = staging.take(x.nbytes)
                    staging.put(at, x)
                    self.communicator.reduce(at, x.size, *numbers, root)
                    if self.rank == root:
                        staging.get(at, x)

    def reduce_scatter(self, out: Array, x: Array, number: int, timeout: float) -> None:
        """The r-th part of the reduction of all into rank r's `out`."""
        op = checked("reduce_scatter", x, number)
        check_pair("reduce_scatter", out, x, out.nbytes * self.world, self.world)
        with self.collective("reduce_scatter", x, timeout, number) as end:
            numbers = number_of(x.dtype, op)
            if numbers is None:
                self.control.reduce_scatter(out, x, number, rest_of(end))
            elif x.nbytes:
                self.take_turns("reduce_scatter", end)
                with self.work("reduce_scatter", end) as staging:
                    at = staging.take(x.nbytes)
                    staging.put(at, x)
                    self.communicator.reduce_scatter(at, out.size, out.itemsize, *numbers)
                    staging.get(at + self.rank * out.nbytes, out)

    def all_gather(self, outs: Sequence[Array], x: Array, timeout: float) -> None:
        """Everybody's x into everybody's list."""
        check_list("all_gather", outs, x, self.world)
        with self.collective("all_gather", x, timeout) as end:
            if not x.nbytes:
                return
            self.take_turns("all_gather", end)
            with self.work("all_gather", end) as staging:
                at = staging.take(self.world * x.nbytes)
                staging.put(at + self.rank * x.nbytes, x)
                self.communicator.all_gather(at, x.nbytes)
                for p, out in enumerate(outs):
                    staging.get(at + p * x.nbytes, out)

    def gather(self, x: Array, outs: Sequence[Array], root: int, timeout: float) -> None:
        """Everybody's x into the list of `root`."""
        if self.rank == root:
            check_list("gather", outs, x, self.world)
        with self.collective("gather", x, timeout, root=root) as end:
            sends = [x.nbytes if p == root else 0 for p in range(self.world)]
            receives = [x.nbytes if self.rank == root else 0] * self.world
            parts = [(0, n) for n in sends]
            self.swap("gather", x, parts, list(outs), receives, end)

    def scatter(self, out: Array, xs: Sequence[Array], root: int, timeout: float) -> None:
        """The r-th of the root's list into rank r's `out`."""
        if self.rank == root:
            check_list("scatter", xs, out, self.world)
        with self.collective("scatter", out, timeout, root=root) as end:
            n = out.nbytes if self.rank == root else 0
            whole = np.concatenate([x.reshape(-1) for x in xs]) if n else np.empty(0, out.dtype)
            receives = [out.nbytes if p == root else 0 for p in range(self.world)]
            outs = [out] * self.world  # all but the root's part are of no bytes
            parts = [(p * n, n) for p in range(self.world)]
            self.swap("scatter", whole, parts, outs, receives, end)

    def all_to_all(self, out: Array, x: Array, timeout: float) -> None:
        """Everybody's r-th part into rank r's `out`, in rank order."""
        check_pair("all_to_all", out, x, out.nbytes, self.world)
        with self.collective("all_to_all", x, timeout) as end:
            n = x.nbytes // self.world
            parts = [(p * n, n) for p in range(self.world)]
            self.swap("all_to_all", x, parts, list(out.reshape(self.world, -1)), None, end)

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
        with self.collective("exchange", None, timeout) as end:
            table = np.empty((self.world, *wanted.shape), wanted.dtype)
            self.control.all_gather(list(table), wanted, rest_of(end))
            parts = [(int(at), int(nbytes)) for at, nbytes in table[:, self.rank]]
            if table[:, :, 1].any():  # on some rank
                self.swap("exchange", x, parts, list(outs), None, end, is_due=True)

    def swap(
        self,
        where: str,
        x: Array,
        parts: Sequence[Part],
        outs: list[Array],
        sizes: Sequence[int] | None,
        end: float,
        is_due: bool = False,
    ) -> None:
        """To each rank a part of x, (offset, bytes), from each what fills its `outs`.

        Args:
            sizes: bytes from each rank; None: those of `outs`.
            is_due: whether it is done though this rank has nothing to do in it.
        """
        sizes = [out.nbytes for out in outs] if sizes is None else sizes
        if not (is_due or any(sizes) or any(n for _, n in parts)):
            return
        self.take_turns(where, end)
        with self.work(where, end) as staging:
            source = staging.take(max(1, x.nbytes))
            staging.put(source, x)
            target = staging.take(max(1, sum(sizes)))
            places = [target + at for at in accumulate(sizes, initial=0)]
            self.communicator.swap(
                [(source + at, n) for at, n in parts], list(zip(places, sizes, strict=False))
            )
            for at, n, out in zip(places, sizes, outs, strict=False):
                if n:
                    staging.get(at, out)

    # ---------------------------------------------------------------- messages
    def send(self, x: Array, to: int, tag: int, timeout: float) -> None:
        """Sends; returns when it has gone to the other GPU."""
        self.check_peer("send", to)
        end = inf if timeout < 0 else time.monotonic() + timeout
        with self.calling("send"):
            own, answer = self.message(x, tag), self.message(x, tag)
            self.control.send(own, to, 0, rest_of(end))
            self.answers.recv(answer, to, 0, rest_of(end))
            check_message("send", own, answer, f"rank {to} expects")
            if not x.nbytes:
                return
            self.take_turns_of_two("send", to, self.turns if self.rank < to else self.answers, end)
            with self.work("send", end, to) as staging:
                at = staging.take(x.nbytes)
                staging.put(at, x)
                self.communicator.send(at, x.nbytes, to)

    def recv(self, x: Array, source: int, tag: int, timeout: float) -> None:
        """Receives into x, which has the message's shape and dtype."""
        self.check_peer("recv", source)
        end = inf if timeout < 0 else time.monotonic() + timeout
        with self.calling("recv"):
            own, theirs = self.message(x, tag), self.message(x, tag)
            self.control.recv(theirs, source, 0, rest_of(end))
            self.answers.send(own, source, 0, rest_of(end))
            check_message("recv", own, theirs, f"rank {source} sends")
            if not x.nbytes:
                return
            channel = self.answers if self.rank < source else self.turns
            self.take_turns_of_two("recv", source, channel, end)
            with self.work("recv", end, source) as staging:
                at = staging.take(x.nbytes)
                self.communicator.receive(at, x.nbytes, source)
                staging.get(at, x)

    def take_turns_of_two(self, where: str, peer: int, channel: native.Group, end: float) -> None:
        """As `take_turn`, here and on the other rank of a message: the lower rank first, which then
        tells the other. A channel is of messages of one direction.
        """
        note = empty_shared((1,), np.dtype(np.uint8))
        if self.rank > peer:
            channel.recv(note, peer, 0, rest_of(end))
            self.take_turn(where, end, peer)
            return
        self.take_turn(where, end, peer)
        try:
            channel.send(note, peer, 0, rest_of(end))
        except BaseException:
            turn.release()
            raise

    def find_sender(self, timeout: float) -> int:
        """A rank whose message lies here."""
        return self.control.find_sender(timeout)

    def _leave(self) -> None:
        super()._leave()
        self.answers.leave()
        self.turns.leave()
