"""The collectives and messages of the backend nccl: the methods of `native.Group`.

Each stages its host arrays, and calls communicator.py with device addresses. Reductions that NCCL
does not have run in shared memory (`number_of`): docs/design/distributed.md has the table.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import accumulate
from math import inf

import numpy as np

from .... import native
from ....memory.layout import empty_shared
from ...group.call_signature import check_list, check_message, check_op, check_pair
from ...group.gpu_operands import assign, host_copy, is_on_gpu
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


class Engine(NcclMember):
    """One rank's end of a group on GPUs: what `native.Group` can do.

    Attributes:
        answers, turns: separate groups for the receivers' answers to messages, and for turns.
    """

    takes_gpu_arrays = True

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
            if not x.nbytes:
                return
            self.take_turns("broadcast", end)
            with self.work("broadcast", end) as staging:
                at = staging.allocate(x.nbytes)
                if self.rank == root:
                    staging.copy_to_device(at, x)
                self.communicator.broadcast(at, x.nbytes, root)
                if self.rank != root:
                    staging.copy_to_host(at, x)

    def all_reduce(self, x: Array, number: int, timeout: float) -> None:
        """Writes the reduction of all ranks into everybody's x."""
        op = check_op("all_reduce", x, number)
        with self.collective("all_reduce", x, timeout, number) as end:
            numbers = number_of(x.dtype, op)
            if numbers is None:
                with host_form(x) as host:
                    self.control.all_reduce(host, number, remaining_seconds(end))
            elif x.nbytes:
                self.take_turns("all_reduce", end)
                with self.work("all_reduce", end) as staging:
                    at = staging.allocate(x.nbytes)
                    staging.copy_to_device(at, x)
                    self.communicator.all_reduce(at, x.size, *numbers)
                    staging.copy_to_host(at, x)

    def reduce(self, x: Array, number: int, root: int, timeout: float) -> None:
        """Writes the reduction of all ranks into x of `root`."""
        op = check_op("reduce", x, number)
        with self.collective("reduce", x, timeout, number, root) as end:
            numbers = number_of(x.dtype, op)
            if numbers is None:
                with host_form(x) as host:
                    self.control.reduce(host, number, root, remaining_seconds(end))
            elif x.nbytes:
                self.take_turns("reduce", end)
                with self.work("reduce", end) as staging:
                    at = staging.allocate(x.nbytes)
                    staging.copy_to_device(at, x)
                    self.communicator.reduce(at, x.size, *numbers, root)
                    if self.rank == root:
                        staging.copy_to_host(at, x)

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
                self.take_turns("reduce_scatter", end)
                with self.work("reduce_scatter", end) as staging:
                    at = staging.allocate(x.nbytes)
                    staging.copy_to_device(at, x)
                    self.communicator.reduce_scatter(at, out.size, out.itemsize, *numbers)
                    staging.copy_to_host(at + self.rank * out.nbytes, out)

    def all_gather(self, outs: Sequence[Array], x: Array, timeout: float) -> None:
        """Copies everybody's x into everybody's list."""
        check_list("all_gather", outs, x, self.world)
        with self.collective("all_gather", x, timeout) as end:
            if not x.nbytes:
                return
            self.take_turns("all_gather", end)
            with self.work("all_gather", end) as staging:
                at = staging.allocate(self.world * x.nbytes)
                staging.copy_to_device(at + self.rank * x.nbytes, x)
                self.communicator.all_gather(at, x.nbytes)
                for p, out in enumerate(outs):
                    staging.copy_to_host(at + p * x.nbytes, out)

    def gather(self, x: Array, outs: Sequence[Array], root: int, timeout: float) -> None:
        """Copies everybody's x into the list of `root`."""
        if self.rank == root:
            check_list("gather", outs, x, self.world)
        with self.collective("gather", x, timeout, root=root) as end:
            sends = [x.nbytes if p == root else 0 for p in range(self.world)]
            receives = [x.nbytes if self.rank == root else 0] * self.world
            parts = [(0, n) for n in sends]
            self.exchange_parts("gather", x, parts, list(outs), receives, end)

    def scatter(self, out: Array, xs: Sequence[Array], root: int, timeout: float) -> None:
        """Copies the r-th of the root's list into rank r's `out`."""
        if self.rank == root:
            check_list("scatter", xs, out, self.world)
        with self.collective("scatter", out, timeout, root=root) as end:
            n = out.nbytes if self.rank == root else 0
            source = np.concatenate([x.reshape(-1) for x in xs]) if n else np.empty(0, out.dtype)
            receives = [out.nbytes if p == root else 0 for p in range(self.world)]
            outs = [out] * self.world  # all parts but the root's have 0 bytes
            parts = [(p * n, n) for p in range(self.world)]
            self.exchange_parts("scatter", source, parts, outs, receives, end)

    def all_to_all(self, out: Array, x: Array, timeout: float) -> None:
        """Copies everybody's r-th part into rank r's `out`, in rank order."""
        check_pair("all_to_all", out, x, out.nbytes, self.world)
        with self.collective("all_to_all", x, timeout) as end:
            n = x.nbytes // self.world
            parts = [(p * n, n) for p in range(self.world)]
            self.exchange_parts(
                "all_to_all", x, parts, list(out.reshape(self.world, -1)), None, end
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
        with self.collective("exchange", None, timeout) as end:
            table = np.empty((self.world, *requests.shape), requests.dtype)
            self.control.all_gather(list(table), requests, remaining_seconds(end))
            parts = [(int(at), int(nbytes)) for at, nbytes in table[:, self.rank]]
            if table[:, :, 1].any():  # on some rank
                self.exchange_parts("exchange", x, parts, list(outs), None, end, is_forced=True)

    def exchange_parts(
        self,
        where: str,
        x: Array,
        parts: Sequence[Part],
        outs: list[Array],
        sizes: Sequence[int] | None,
        end: float,
        is_forced: bool = False,
    ) -> None:
        """Sends each rank p the part (offset, bytes) of x in `parts[p]`; fills `outs`.

        Args:
            sizes: bytes from each rank; None: those of `outs`.
            is_forced: take part also if this rank sends and receives nothing.
        """
        sizes = [out.nbytes for out in outs] if sizes is None else sizes
        if not (is_forced or any(sizes) or any(n for _, n in parts)):
            return
        self.take_turns(where, end)
        with self.work(where, end) as staging:
            source = staging.allocate(max(1, x.nbytes))
            staging.copy_to_device(source, x)
            target = staging.allocate(max(1, sum(sizes)))
            targets = [target + at for at in accumulate(sizes, initial=0)]
            self.communicator.exchange(
                [(source + at, n) for at, n in parts], list(zip(targets, sizes, strict=False))
            )
            for at, n, out in zip(targets, sizes, outs, strict=False):
                if n:
                    staging.copy_to_host(at, out)

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
            if not x.nbytes:
                return
            self.take_turns_of_two("send", to, self.turns if self.rank < to else self.answers, end)
            with self.work("send", end, to) as staging:
                at = staging.allocate(x.nbytes)
                staging.copy_to_device(at, x)
                self.communicator.send(at, x.nbytes, to)

    def recv(self, x: Array, source: int, tag: int, timeout: float) -> None:
        """Receives into x, which has the message's shape and dtype."""
        self.check_peer("recv", source)
        end = inf if timeout < 0 else time.monotonic() + timeout
        with self.calling("recv"):
            head, sent = self.message_head(x, tag), self.message_head(x, tag)
            self.control.recv(sent, source, 0, remaining_seconds(end))
            self.answers.send(head, source, 0, remaining_seconds(end))
            check_message("recv", head, sent, f"rank {source} sends")
            if not x.nbytes:
                return
            channel = self.answers if self.rank < source else self.turns
            self.take_turns_of_two("recv", source, channel, end)
            with self.work("recv", end, source) as staging:
                at = staging.allocate(x.nbytes)
                self.communicator.receive(at, x.nbytes, source)
                staging.copy_to_host(at, x)

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
