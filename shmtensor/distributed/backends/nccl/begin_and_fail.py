"""How an operation of the backend nccl begins, waits, and fails.

```
 agree     everybody's call in a row of bytes, by shared memory; all compare all rows
 turn      one NCCL operation at a time in a process     Note [Turns]
 work      on the stream; meanwhile: who has died, gave up, the timeout
 settle    everybody says whether it went well: a failure is a failure everywhere
```

Note [Turns]: NCCL hangs when two ranks begin two operations in different orders, be they of one
communicator or of two on the same GPU. Messages and collectives of several groups are begun by
several threads, whose order nobody rules. So a process has one turn, which an operation takes on
all ranks that take part, in the order of the ranks, and holds until the GPU has done it. Whoever
holds a turn waits only for turns of higher ranks: there is no circle. That all ranks take it at
once is tried first; while a turn is held so, nothing is waited for but ranks that are there
already.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from math import inf
from typing import NoReturn

import numpy as np

from .... import native
from ....errors import CollectiveMismatch, CollectiveTimeout, PeerLostError
from ....memory.layout import empty_shared
from ...group.call_signature import HEAD, NO_FOLD, compare, write
from ...group.operands import Array
from ..engine import Member
from .communicator import Communicator
from .host_staging import Staging

__all__ = ["GroupMember", "rest_of"]

LOOK = 0.01  # seconds between two looks at who lives
PAUSE = 0.001  # the longest sleep between two looks at the stream
NEWS = 0.5  # seconds that a death may be known later than NCCL's connections end
GRACE = 2.0  # seconds that others may be later than this rank in noticing a failure

# What calls of the group in shared memory begin their errors with.
CALLS = re.compile(r"^(barrier|broadcast|all_reduce|reduce|all_gather|reduce_scatter|send|recv): ")

turn = threading.Lock()  # Note [Turns]


def rest_of(end: float) -> float:
    """The seconds until then, as the waits of shared memory take them."""
    return -1.0 if end == inf else max(0.0, end - time.monotonic())


@contextmanager
def named(where: str) -> Iterator[None]:
    """Errors of the shared memory's calls bear the name of what is done by them."""
    try:
        yield
    except Exception as error:
        if error.args and isinstance(error.args[0], str):
            error.args = (CALLS.sub(f"{where}: ", error.args[0]), *error.args[1:])
        raise


class GroupMember(Member):
    """One rank's end of a group on GPUs: who comes, what all call, who fails.

    Attributes:
        control: the group in shared memory, whose members are the same.
        kin: the ranks' rows in the domain.
    """

    def __init__(
        self, control: native.Group, communicator: Communicator, kin: list[tuple[int, int]]
    ) -> None:
        super().__init__(control.rank, control.world)
        self.control, self.communicator, self.kin = control, communicator, kin
        self._staged = 0
        self._kept: list[Staging] = []  # what an aborted stream may still write to

    # ---------------------------------------------------------------- what native.Group tells
    @property
    def is_broken(self) -> bool:
        """Whether somebody gave up or died."""
        return self.control.is_broken

    def missing(self) -> int:
        """A bit for each rank that has not come to this rank's last meeting."""
        return self.control.missing()

    def statistics(self) -> tuple[int, int, int]:
        """Collectives, bytes copied inline, bytes copied to the GPU."""
        return self._number, self.control.statistics()[1], self._staged

    def break_off(self, why: str) -> None:
        """Ends the waits of all ranks."""
        self.control.break_off(why)

    def _leave(self) -> None:
        self.control.leave()
        if turn.acquire(timeout=GRACE):  # else a thread of this process is at it, and will abort
            try:
                self.communicator.abort()
            finally:
                turn.release()

    # ---------------------------------------------------------------- errors
    @contextmanager
    def calling(self, where: str) -> Iterator[None]:
        """Something that others wait for. Whoever fails in it tells all, but for a mismatch, which
        all concerned find alike, and a death, which all see.
        """
        self.check_member(where)
        try:
            with named(where):
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
        self, where: str, x: Array | None, timeout: float, op: int = NO_FOLD, root: int = -1
    ) -> Iterator[float]:
        """A collective, from when all have agreed on it; gives the time when it is too late."""
        end = inf if timeout < 0 else time.monotonic() + timeout
        with self.alone(where), self.calling(where):
            self.agree(where, x, end, op, root)
            yield end

    def agree(self, where: str, x: Array | None, end: float, op: int, root: int) -> None:
        """All call the same.

        Raises:
            CollectiveMismatch: they do not; it names all sides.
        """
        self._number += 1
        row = np.empty(HEAD.itemsize, np.uint8)
        write(row, where, self._number, x, op, root)
        table = np.empty((self.world, row.size), np.uint8)
        self.control.all_gather(list(table), row, rest_of(end))
        compare(table, where)

    def all_but(self, is_so: bool, end: float) -> list[int]:
        """The ranks on which it is not so; all ask."""
        table = np.empty((self.world, 1), np.uint8)
        self.control.all_gather(list(table), np.array([is_so], np.uint8), rest_of(end))
        return [int(rank) for rank in np.flatnonzero(table == 0)]

    # ---------------------------------------------------------------- turns
    def take_turn(self, where: str, end: float, peer: int | None = None) -> None:
        """This process's turn is this operation's. Note [Turns].

        Args:
            peer: the other rank of a message; None: a collective.
        """
        while not turn.acquire(timeout=LOOK):
            self.check_peers(where, peer)
            if time.monotonic() > end:
                raise CollectiveTimeout(
                    f"{where}: another NCCL operation of this process has not ended: "
                    f"rank {self.rank}"
                )
        if self.communicator.is_aborted:
            turn.release()
            self.fail(where)

    def take_turns(self, where: str, end: float) -> None:
        """As `take_turn`, on all ranks."""
        is_mine = turn.acquire(blocking=False)
        try:
            if not self.all_but(is_mine and not self.communicator.is_aborted, end):
                return
            if is_mine:
                turn.release()
                is_mine = False
            for rank in range(self.world):
                if rank == self.rank:
                    self.take_turn(where, end)
                    is_mine = True
                self.control.barrier(rest_of(end))
        except BaseException:
            if is_mine:
                turn.release()
            raise

    @contextmanager
    def work(self, where: str, end: float, peer: int | None = None) -> Iterator[Staging]:
        """What is put on the stream inside is done when this ends. The caller has the turn, which
        ends with it.

        Args:
            peer: the other rank of a message; None: a collective.
        """
        staging = Staging(self.communicator)
        try:
            with self.communicator.device:
                yield staging
                is_done = self.wait(where, end, peer)
            late = [] if is_done else [self.rank]
            if peer is None:
                late = self.all_but(is_done, end + GRACE)
            if late:
                raise CollectiveTimeout(
                    f"{where}: NCCL has not done it in time: on ranks {late} of {self.world}"
                )
            staging.settle()
            self._staged += staging.copied
        except BaseException as error:
            self._kept.append(staging)
            self.communicator.abort()
            if isinstance(error, self.communicator.nccl.NcclError):
                self.await_news(where, peer)  # a death, as NCCL sees it
            raise
        finally:
            turn.release()

    def wait(self, where: str, end: float, peer: int | None) -> bool:
        """Until the stream has done its work: whether it has in time."""
        event, pause, next_check = self.communicator.mark(), 0.0, time.monotonic() + LOOK
        while not event.done:
            now = time.monotonic()
            if now > end:
                return False
            if now > next_check:
                self.check_peers(where, peer)
                self.communicator.check()
                next_check = now + LOOK
            time.sleep(pause)
            pause = min(PAUSE, 2 * pause + 1e-5)
        return True

    # ---------------------------------------------------------------- who lives
    def check_peers(self, where: str, peer: int | None) -> None:
        """Raises if somebody concerned died, or anybody gave up."""
        if self.is_broken:
            self.fail(where)
        for row, inc in self.kin if peer is None else [self.kin[peer]]:
            if native.liveness(row, inc) != "alive":
                if peer is None:  # a meeting: all find the same rank
                    self.control.barrier(GRACE)
                native.raise_peer_lost(where, row, inc)

    def await_news(self, where: str, peer: int | None) -> None:
        """Raises if somebody concerned is about to be seen dead."""
        end = time.monotonic() + NEWS
        while time.monotonic() < end:
            self.check_peers(where, peer)
            time.sleep(LOOK)

    def fail(self, where: str) -> NoReturn:
        """Raises why the group is broken."""
        if self.is_broken and self.world > 1:  # it refuses every call, in any thread, and says why
            other = 1 if self.rank == 0 else 0
            self.control.recv(empty_shared((1,), np.dtype(np.uint8)), other, 0, 0.0)
        raise RuntimeError(f"{where}: the group is broken: rank {self.rank} has aborted NCCL")
