"""The collectives and messages of the backend nccl: the methods of `native.Group`.

Each calls communicator.py with the addresses of its arrays, which are on this rank's GPU.
Reductions that NCCL does not have run in shared memory (`number_of`): docs/design/distributed.md
has the table.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from math import inf

import numpy as np

from .... import native
from ....cuda_arrays import pointer
from ....memory.layout import empty_shared
from ...group.call_signature import check_list, check_message, check_op, check_pair
from ...group.cuda_operands import assign, host_copy, is_on_gpu
from ...group.operands import Array
from .communicator import Communicator, Part
from .cupy_nccl import number_of
from .member import NcclMember, remaining_seconds, turn

__all__ = ["Engine"]


@contextmanager
def host_form(x: Array) -> Iterator[Array]:
    """The array on the host, where it may be written. Copies: two of an array on a GPU."""
    if not is_on_gpu(x):
        yield x
        return
    host = host_copy(x)
    yield host
    assign(x, host)


def parts_of(arrays: Sequence[Array]) -> list[Part]:
    """Where arrays on a GPU are."""
    return [(pointer(x), x.nbytes) for x in arrays]


class Engine(NcclMember):
    """One rank's end of a group on GPUs: what `native.Group` can do.

    Arrays on the host are the library's own (sizes, pickled objects); shared memory takes them.

    Attributes:
        answers, turns: separate groups for the receivers' answers to messages, and for turns.
    """

    device_type = "cuda"  # of the operands

    def __init__(
        self,
        control: native.Group,
        answers: native.Group,
        turns: native.Group,
        communicator: Communicator,
    ) -> None:
        super().__init__(control, communicator)
        self.answers, self.turns = answers, turns

    # ---------------------------------------------------------------- the collectives
    def barrier(self, timeout: float) -> None:
        """Returns when every rank has called it. Earlier calls are done by then."""
        with self.collective("barrier", None, timeout):
            pass

    def broadcast(self, x: Array, root: int, timeout: float) -> None:
        """Copies x of `root` into everybody's x."""
        with self.collective("broadcast", x, timeout, root=root) as end:
            if x.nbytes:
                with self.work("broadcast", end, [x]):
                    self.communicator.broadcast(pointer(x), x.nbytes, root)

    def all_reduce(self, x: Array, number: int, timeout: float) -> None:
        """Writes the reduction of all ranks into everybody's x."""
        op = check_op("all_reduce", x, number)
        with self.collective("all_reduce", x, timeout, number) as end:
            numbers = number_of(x.dtype, op)
            if numbers is None or not is_on_gpu(x):
                with host_form(x) as host:
                    self.control.all_reduce(host, number, remaining_seconds(end))
            elif x.nbytes:
                with self.work("all_reduce", end, [x]):
                    self.communicator.all_reduce(pointer(x), x.size, *numbers)

    def reduce(self, x: Array, number: int, root: int, timeout: float) -> None:
        """Writes the reduction of all ranks into x of `root`."""
        op = check_op("reduce", x, number)
        with self.collective("reduce", x, timeout, number, root) as end:
            numbers = number_of(x.dtype, op)
            if numbers is None:
                with host_form(x) as host:
                    self.control.reduce(host, number, root, remaining_seconds(end))
            elif x.nbytes:
                with self.work("reduce", end, [x]):
                    self.communicator.reduce(pointer(x), x.size, *numbers, root)

    def reduce_scatter(self, out: Array, x: Array, number: int, timeout: float) -> None:
        """Writes the r-th part of the reduction of all ranks into rank r's `out`."""
        op = check_op("reduce_scatter", x, number)
        check_pair("reduce_scatter", out, x, out.nbytes * self.world, self.world)
        with self.collective("reduce_scatter", x, timeout, number) as end:
            numbers = number_of(x.dtype, op)
            if numbers is None:
                with host_form(out) as host_out, host_form(x) as host:
                    self.control.reduce_scatter(host_out, host, number, remaining_seconds(end))
            elif x.nbytes:
                with self.work("reduce_scatter", end, [x, out]):
                    self.communicator.reduce_scatter(pointer(x), pointer(out), out.size, *numbers)

    def all_gather(self, outs: Sequence[Array], x: Array, timeout: float) -> None:
        """Copies everybody's x into everybody's list."""
        check_list("all_gather", outs, x, self.world)
        with self.collective("all_gather", x, timeout) as end:
            if not is_on_gpu(x):
                self.control.all_gather(outs, x, remaining_seconds(end))
            elif x.nbytes:
                with self.work("all_gather", end, [x, *outs]):
                    self.gather_rows(pointer(x), [pointer(out) for out in outs], x.nbytes)

    def gather_rows(self, source: int, targets: list[int], nbytes: int) -> None:
        """Gathers into rows; NCCL takes those that follow one another, others get copies."""
        rows = [targets[0] + p * nbytes for p in range(self.world)]
        if targets != rows:
            memory = self.communicator.allocate(self.world * nbytes)
            rows = [memory.ptr + p * nbytes for p in range(self.world)]
        self.communicator.all_gather(source, rows[0], nbytes)
        if targets != rows:
            for row, target in zip(rows, targets, strict=True):
                self.communicator.copy(row, target, nbytes)

    def gather(self, x: Array, outs: Sequence[Array], root: int, timeout: float) -> None:
        """Copies everybody's x into the list of `root`."""
        if self.rank == root:
            check_list("gather", outs, x, self.world)
        with self.collective("gather", x, timeout, root=root) as end:
            sends = [(pointer(x), x.nbytes if p == root else 0) for p in range(self.world)]
            receives = outs if self.rank == root else [x[:0]] * self.world
            self.exchange_parts("gather", [x], sends, receives, end)

    def scatter(self, out: Array, xs: Sequence[Array], root: int, timeout: float) -> None:
        """Copies the r-th of the root's list into rank r's `out`."""
        if self.rank == root:
            check_list("scatter", xs, out, self.world)
        with self.collective("scatter", out, timeout, root=root) as end:
            sources = xs if self.rank == root else []
            sends = parts_of(sources) or [(0, 0)] * self.world
            receives = [out if p == root else out[:0] for p in range(self.world)]
            self.exchange_parts("scatter", sources, sends, receives, end)

    def all_to_all(self, out: Array, x: Array, timeout: float) -> None:
        """Copies everybody's r-th part into rank r's `out`, in rank order."""
        check_pair("all_to_all", out, x, out.nbytes, self.world)
        with self.collective("all_to_all", x, timeout) as end:
            sends = parts_of(list(x.reshape(self.world, -1)))
            self.exchange_parts("all_to_all", [x], sends, list(out.reshape(self.world, -1)), end)

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
        with self.collective("exchange", None, timeout) as end:
            if not is_on_gpu(x):
                self.control.exchange(
                    list(outs), x, list(offsets), is_direct, remaining_seconds(end)
                )
                return
            table = np.empty((self.world, *requests.shape), requests.dtype)
            self.control.all_gather(list(table), requests, remaining_seconds(end))
            sends = [(pointer(x) + int(at), int(nbytes)) for at, nbytes in table[:, self.rank]]
            if table[:, :, 1].any():  # on some rank
                self.exchange_parts("exchange", [x], sends, outs, end, is_forced=True)

    def exchange_parts(
        self,
        where: str,
        sources: Sequence[Array],
        sends: Sequence[Part],
        outs: Sequence[Array],
        end: float,
        is_forced: bool = False,
    ) -> None:
        """Sends each rank p the part `sends[p]` of the sources; fills `outs[p]` from rank p.

        Args:
            is_forced: take part also if this rank sends and receives nothing.
        """
        receives = parts_of(outs)
        if is_forced or any(n for _, n in [*sends, *receives]):
            with self.work(where, end, [*sources, *outs]):
                self.communicator.exchange(sends, receives)

    # ---------------------------------------------------------------- messages
    def send(self, x: Array, to: int, tag: int, timeout: float) -> None:
        """Sends x; returns when it is on the other GPU."""
        self.check_peer("send", to)
        end = inf if timeout < 0 else time.monotonic() + timeout
        with self.calling("send"):
            head, expected = self.message_head(x, tag), self.message_head(x, tag)
            self.control.send(head, to, 0, remaining_seconds(end))
            self.answers.recv(expected, to, 0, remaining_seconds(end))
            check_message("send", head, expected, f"rank {to} expects")
            if not is_on_gpu(x):
                self.control.send(x, to, 0, remaining_seconds(end))
                return
            if not x.nbytes:
                return
            self.take_turns_of_two("send", to, self.turns if self.rank < to else self.answers, end)
            with self.work("send", end, [x], to):
                self.communicator.send(pointer(x), x.nbytes, to)

    def recv(self, x: Array, source: int, tag: int, timeout: float) -> None:
        """Receives into x, which has the message's shape and dtype."""
        self.check_peer("recv", source)
        end = inf if timeout < 0 else time.monotonic() + timeout
        with self.calling("recv"):
            head, sent = self.message_head(x, tag), self.message_head(x, tag)
            self.control.recv(sent, source, 0, remaining_seconds(end))
            self.answers.send(head, source, 0, remaining_seconds(end))
            check_message("recv", head, sent, f"rank {source} sends")
            if not is_on_gpu(x):
                self.control.recv(x, source, 0, remaining_seconds(end))
                return
            if not x.nbytes:
                return
            channel = self.answers if self.rank < source else self.turns
            self.take_turns_of_two("recv", source, channel, end)
            with self.work("recv", end, [x], source):
                self.communicator.receive(pointer(x), x.nbytes, source)

    def take_turns_of_two(self, where: str, peer: int, channel: native.Group, end: float) -> None:
        """As `take_turn`, on both ranks of a message: first on the lower rank, which then notifies
        the other. Each direction has its own channel.
        """
        token = empty_shared((1,), np.dtype(np.uint8))
        if self.rank > peer:
            channel.recv(token, peer, 0, remaining_seconds(end))
            self.take_turn(where, end, peer)
            return
        self.take_turn(where, end, peer)
        try:
            channel.send(token, peer, 0, remaining_seconds(end))
        except BaseException:
            turn.release()
            raise

    def find_sender(self, timeout: float) -> int:
        """Waits for a message from any rank; returns the sender."""
        return self.control.find_sender(timeout)

    def _leave(self) -> None:
        super()._leave()
        self.answers.leave()
        self.turns.leave()
