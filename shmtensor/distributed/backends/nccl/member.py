"""How an operation of the backend nccl begins, waits, and fails.

```
 compare   each rank's call as a row of bytes, in shared memory; all compare all rows
 turn      one NCCL operation at a time in a process     Note [Turns]
 work      on the stream; meanwhile checks for deaths, failures and the timeout
 end       all ranks exchange whether they succeeded: a failure of one is a failure of all
```

Note [Turns]: NCCL hangs when two ranks begin two operations in different orders, whether of one
communicator or of two on the same GPU. Several threads begin messages and collectives of several
groups, in any order. So a process has one turn. An operation takes it on all participating ranks,
in the order of the ranks, and holds it until the GPU has finished. A rank that holds its turn waits
only for turns of higher ranks, so there is no circle. First all ranks try to take it at once; while
they hold it so, they wait only for ranks that have already called.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from math import inf
from typing import Any, NoReturn

import numpy as np

from .... import native
from ....errors import CollectiveMismatch, CollectiveTimeout, PeerLostError
from ....memory.layout import empty_shared
from ...group.call_signature import HEAD, NO_OP, compare, write
from ...group.operands import Array
from ..member import Member
from .communicator import Communicator

CHECK_INTERVAL = 0.01  # seconds between two checks for deaths
PAUSE = 0.001  # the longest sleep between two polls of the stream
NEWS = 0.5  # seconds from the end of NCCL's connections until a death is visible
GRACE = 2.0  # seconds that others may notice a failure later than this rank

# The beginning of errors of the group in shared memory.
CALLS = re.compile(r"^(barrier|broadcast|all_reduce|reduce|all_gather|reduce_scatter|send|recv): ")

turn = threading.Lock()  # Note [Turns]


def remaining_seconds(end: float) -> float:
    """The seconds until `end`; -1 for no limit, as `native.Group` takes them."""
    return -1.0 if end == inf else max(0.0, end - time.monotonic())


@contextmanager
def rename_errors(where: str) -> Iterator[None]:
    """Errors of the group in shared memory get the name of the operation that uses it."""
    try:
        yield
    except Exception as error:
        if error.args and isinstance(error.args[0], str):
            error.args = (CALLS.sub(f"{where}: ", error.args[0]), *error.args[1:])
        raise


class NcclMember(Member):
    """One rank's end of a group on GPUs: compares calls, takes turns, reports failures.

    Attributes:
        control: the group in shared memory, which has the same ranks.
    """

    def __init__(self, control: native.Group, communicator: Communicator) -> None:
        super().__init__(control.rank, control.world)
        self.control, self.communicator = control, communicator
        self._nbytes = 0
        self._aborted: list[Any] = []  # arrays that an aborted stream may still write to

    # ---------------------------------------------------------------- state
    @property
    def is_broken(self) -> bool:
        """Whether a rank gave up or died."""
        return self.control.is_broken

    def missing(self) -> int:
        """A bit for each rank that has not come to this rank's last collective."""
        return self.control.missing()

    def statistics(self) -> tuple[int, int, int]:
        """Collectives, bytes copied inline, bytes of the operands that NCCL has read or written."""
        return self._number, self.control.statistics()[1], self._nbytes

    def break_off(self, why: str) -> None:
        """Ends the waits of all ranks, for the reason `why`."""
        self.control.break_off(why)

    def _leave(self) -> None:
        self.control.leave()
        if turn.acquire(timeout=GRACE):  # else another thread has the turn, and will abort
            try:
                self.communicator.abort()
            finally:
                turn.release()

    # ---------------------------------------------------------------- errors
    @contextmanager
    def calling(self, where: str) -> Iterator[None]:
        """An operation that other ranks wait for. If it fails, this rank tells all others, except
        after a mismatch, which the ranks concerned all find, and a death, which all see.
        """
        self.check_member(where)
        try:
            with rename_errors(where):
                yield
        except (CollectiveMismatch, PeerLostError):
            raise
        except BaseException as error:
            if not self.is_broken:
                text = str(error).removeprefix(f"{where}: ")
                self.break_off(f"{where}: {type(error).__name__}: {text}")
            raise

    @contextmanager
    def collective(
        self, where: str, x: Array | None, timeout: float, op: int = NO_OP, root: int = -1
    ) -> Iterator[float]:
        """A collective; its body begins when all ranks have made the same call. Yields the time at
        which it times out.
        """
        end = inf if timeout < 0 else time.monotonic() + timeout
        with self.exclusive(where), self.calling(where):
            self.compare_calls(where, x, end, op, root)
            yield end

    def compare_calls(self, where: str, x: Array | None, end: float, op: int, root: int) -> None:
        """Checks that all ranks make the same call.

        Raises:
            CollectiveMismatch: they do not; it names the call of each rank.
        """
        self._number += 1
        row = np.empty(HEAD.itemsize, np.uint8)
        write(row, where, self._number, x, op, root)
        table = np.empty((self.world, row.size), np.uint8)
        self.control.all_gather(list(table), row, remaining_seconds(end))
        compare(table, where)

    def ranks_without(self, flag: bool, end: float) -> list[int]:
        """The ranks whose flag is False; all ranks call it."""
        table = np.empty((self.world, 1), np.uint8)
        self.control.all_gather(list(table), np.array([flag], np.uint8), remaining_seconds(end))
        return [int(rank) for rank in np.flatnonzero(table == 0)]

    # ---------------------------------------------------------------- turns
    def take_turn(self, where: str, end: float, peer: int | None = None) -> None:
        """Takes this process's turn for an operation. Note [Turns].

        Args:
            peer: the other rank of a message; None: a collective.
        """
        while not turn.acquire(timeout=CHECK_INTERVAL):
            self.check_peers(where, peer)
            if time.monotonic() > end:
                raise CollectiveTimeout(
                    f"{where}: another NCCL operation of this process has not ended: "
                    f"rank {self.rank}"
                )
        if self.communicator.is_aborted:
            turn.release()
            self.raise_failure(where)

    def take_turns(self, where: str, end: float) -> None:
        """As `take_turn`, on all ranks."""
        has_turn = turn.acquire(blocking=False)
        try:
            if not self.ranks_without(has_turn and not self.communicator.is_aborted, end):
                return
            if has_turn:
                turn.release()
                has_turn = False
            for rank in range(self.world):
                if rank == self.rank:
                    self.take_turn(where, end)
                    has_turn = True
                self.control.barrier(remaining_seconds(end))
        except BaseException:
            if has_turn:
                turn.release()
            raise

    @contextmanager
    def work(
        self, where: str, end: float, arrays: Sequence[Any], peer: int | None = None
    ) -> Iterator[None]:
        """Waits at its end for the work that its body puts on the stream, and releases the turn: it
        takes that of a collective, the caller has that of a message.

        Args:
            arrays: what NCCL reads and writes: after the work that is queued on them now.
            peer: the other rank of a message; None: a collective.
        """
        if peer is None:
            self.take_turns(where, end)
        try:
            for x in arrays:
                self.communicator.follow(where, x)
            with self.communicator.device:
                yield
                is_done = self.wait(where, end, peer)
            late = [] if is_done else [self.rank]
            if peer is None:
                late = self.ranks_without(is_done, end + GRACE)
            if late:
                raise CollectiveTimeout(
                    f"{where}: NCCL has not finished in time: on ranks {late} of {self.world}"
                )
            self._nbytes += sum(x.nbytes for x in arrays)
        except BaseException as error:
            self._aborted += arrays
            self.communicator.abort()
            if isinstance(error, self.communicator.nccl.NcclError):
                self.await_news(where, peer)  # a death, as NCCL sees it
            raise
        finally:
            turn.release()

    def wait(self, where: str, end: float, peer: int | None) -> bool:
        """Waits for the stream; returns whether it finished in time."""
        event, pause, next_check = self.communicator.mark(), 0.0, time.monotonic() + CHECK_INTERVAL
        while not event.done:
            now = time.monotonic()
            if now > end:
                return False
            if now > next_check:
                self.check_peers(where, peer)
                self.communicator.check()
                next_check = now + CHECK_INTERVAL
            time.sleep(pause)
            pause = min(PAUSE, 2 * pause + 1e-5)
        return True

    # ---------------------------------------------------------------- deaths
    def check_peers(self, where: str, peer: int | None) -> None:
        """Raises if a rank of the operation died, or any rank gave up."""
        if self.is_broken:
            self.raise_failure(where)
        for rank in range(self.world) if peer is None else [peer]:
            if not self.control.is_alive(rank):
                if peer is None:  # a collective: the barrier's error names the same rank on all
                    self.control.barrier(GRACE)
                self.control.raise_lost(where, rank)

    def await_news(self, where: str, peer: int | None) -> None:
        """Waits for NEWS whether a rank of the operation is found dead, and raises then."""
        end = time.monotonic() + NEWS
        while time.monotonic() < end:
            self.check_peers(where, peer)
            time.sleep(CHECK_INTERVAL)

    def raise_failure(self, where: str) -> NoReturn:
        """Raises the error that broke the group."""
        if self.is_broken and self.world > 1:  # any call raises the cause
            other = 1 if self.rank == 0 else 0
            self.control.recv(empty_shared((1,), np.dtype(np.uint8)), other, 0, 0.0)
        raise RuntimeError(f"{where}: the group is broken: rank {self.rank} has aborted NCCL")
