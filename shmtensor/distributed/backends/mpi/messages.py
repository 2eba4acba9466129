"""Messages between the ranks of a group by MPI, whose waits end; or by what stands in for MPI
(../tcp).

Only MPI calls that return at once are made (Isend, Irecv, Testall, Iprobe), one at a time in a
process, so any level of thread support will do. A wait looks again and again, more and more seldom,
and between looks for news: a rank that has died, given up or left is told to all, by whoever
noticed. MPI itself notices no death (without ULFM): neighbours do, in memory, and else
liveness_across_nodes.py.

```
tag   group number * 8 + kind            kinds   CALL  DATA  BACK  HEAD  VERDICT  BODY  NEWS
```
"""

from __future__ import annotations

import atexit
import json
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

import numpy as np

from ....errors import CollectiveTimeout, PeerLostError
from ...group.operands import Array

if TYPE_CHECKING:
    from ..tcp.mpi4py_interface import Connections
    from .liveness_across_nodes import Watch

__all__ = ["BACK", "BODY", "CALL", "DATA", "HEADER", "VERDICT", "Base", "Wire", "begin"]

CALL, DATA, BACK, HEADER, VERDICT, BODY, NEWS = range(7)
SPIN = 50e-6  # seconds that a wait looks without a pause
PAUSE = 1e-3  # the longest pause between two looks
LOOK = 0.02  # seconds between two looks for news
PIECE = 1 << 26  # bytes of one message: counts of MPI are 32 bits wide
PATIENCE = 2.0  # seconds that the end of a run in trouble waits for the others
LETTER = 2048  # bytes of a piece of news

lock = threading.Lock()  # one MPI call at a time


class Base:
    """What all groups of this process have in common."""

    comm: Any = None
    number = 0  # how many groups there were
    wires: ClassVar[list[Wire]] = []  # all, as news come after a group was left, too
    watch: ClassVar[Watch | Connections | None] = None  # of the ranks on other nodes


def mpi() -> Any:
    """mpi4py's module.

    Raises:
        RuntimeError: it is not installed.
    """
    try:
        import mpi4py
    except ImportError:
        raise RuntimeError(
            "init_process_group: the backend mpi needs mpi4py, which is not installed: "
            "pip install 'shmtensor[mpi]'"
        ) from None
    if Base.comm is None:
        mpi4py.rc.finalize = False  # it would wait for the dead: see `finish`
    from mpi4py import MPI

    return MPI


def begin(timeout: float) -> Any:
    """The communicator of all ranks that MPI started, apart from the user's; waits for all.

    Raises:
        CollectiveTimeout: not all came in time.
    """
    if Base.comm is None:
        module = mpi()
        with lock:
            comm, request = module.COMM_WORLD.Idup()
        end = time.monotonic() + timeout
        pause = PAUSE / 50
        while True:
            with lock:
                if request.Test():
                    break
            if timeout >= 0 and time.monotonic() > end:
                raise CollectiveTimeout(
                    f"init_process_group: timed out after {timeout:g} s: not all "
                    f"{module.COMM_WORLD.size} ranks have come"
                )
            time.sleep(pause)
            pause = min(2 * pause, PAUSE)
        Base.comm = comm
        atexit.register(finish, module)
    return Base.comm


def finish(module: Any) -> None:
    """Ends MPI when all have come here; unless something went wrong, and somebody does not come
    soon: for the dead, and for who left without it, Finalize would wait for ever.

    All meet twice: a rank that was stopped finds the first barrier done on waking, as the others
    had come to it, though they gave up waiting and have left. They do not come to the second.
    """
    if module.Is_finalized():
        return
    with suppress(module.Exception):
        if meet() and meet():
            module.Finalize()


def meet() -> bool:
    """Whether all came to a barrier, for which a run in trouble waits PATIENCE: counted in pauses,
    not by the clock, which goes on while a rank is stopped."""
    request = Base.comm.Ibarrier()
    pauses = 0
    while not request.Test():
        for wire in Base.wires:
            wire.receive_news()
        if pauses > PATIENCE / PAUSE and any(wire.trouble for wire in Base.wires):
            return False
        time.sleep(PAUSE)
        pauses += 1
    return True


def pieces(x: Array) -> list[Array]:
    """The bytes of a contiguous array, in messages."""
    flat = x.reshape(-1).view(np.uint8)
    return [flat[at : at + PIECE] for at in range(0, flat.size, PIECE)]


class Wire:
    """The messages of one group.

    Attributes:
        trouble: the first bad news, or None; the group is broken then.
        left: ranks that have left, with the number of their last call.
    """

    def __init__(self, comm: Any, rank: int, ranks: Sequence[int]) -> None:
        self.comm, self.rank, self.ranks = comm, rank, list(ranks)
        self.mpi: Any = getattr(comm, "library", None) or mpi()
        self.trouble: dict[str, Any] | None = None
        self.left: dict[int, int] = {}
        self._request: Any = self.mpi.Request
        self._pause: Callable[[float], object] = getattr(comm, "pause", time.sleep)
        highest = comm.Get_attr(self.mpi.TAG_UB) // 8
        self._tag = Base.number % highest * 8
        Base.number += 1
        Base.wires.append(self)
        self._under_way: list[Any] = []  # news, and what a broken call left behind

    # ---------------------------------------------------------------- messages
    def send(self, x: Array, to: int, kind: int, is_taken: bool = False) -> list[Any]:
        """Begins to send a contiguous array; with `is_taken` it is done when it is being taken."""
        begun = self.comm.Issend if is_taken else self.comm.Isend
        with lock:
            return [begun(part, self.ranks[to], self._tag + kind) for part in pieces(x)]

    def receive(self, x: Array, source: int, kind: int) -> list[Any]:
        """Begins to receive into a contiguous array."""
        with lock:
            return [
                self.comm.Irecv(part, self.ranks[source], self._tag + kind) for part in pieces(x)
            ]

    def all_gather(self, outs: Sequence[Array], x: Array, timeout: float) -> None:
        """Everybody's x into everybody's list, by messages between all pairs: for the beginning."""
        begun: list[tuple[list[Any], Sequence[int]]] = []
        for rank, out in enumerate(outs):
            if rank == self.rank:
                out[...] = x
            else:
                begun.append((self.receive(out, rank, CALL), [rank]))
                begun.append((self.send(x, rank, CALL), [rank]))
        self.wait("init_process_group", begun, timeout)

    def find(self, kind: int) -> int | None:
        """A rank from which a message of this kind waits."""
        status = self.mpi.Status()
        with lock:
            if not self.comm.Iprobe(self.mpi.ANY_SOURCE, self._tag + kind, status):
                return None
        return self.ranks.index(status.Get_source())

    def wait(
        self,
        where: str,
        requests: Sequence[tuple[list[Any], Sequence[int]]],
        timeout: float,
        number: int = 0,
        watch: Callable[[], None] | None = None,
    ) -> None:
        """Until all is done.

        Args:
            requests: each with the ranks that it waits for.
            number: of the call, by which a rank that has left is known to have come or not.
            watch: called now and then; what it raises ends the wait.
        """
        flat = [each for begun, _ in requests for each in begun]

        def is_done() -> bool:
            with lock:
                return bool(self._request.Testall(flat))

        def missing() -> list[int]:
            with lock:
                return sorted(
                    {r for begun, who in requests if not self._request.Testall(begun) for r in who}
                )

        try:
            self.until(where, is_done, timeout, missing, number, watch)
        except BaseException:
            self._under_way += flat  # MPI may still write there
            raise

    def until(
        self,
        where: str,
        is_done: Callable[[], bool],
        timeout: float,
        missing: Callable[[], list[int]],
        number: int = 0,
        watch: Callable[[], None] | None = None,
    ) -> None:
        """Looks until `is_done`. Raises what news say, or CollectiveTimeout."""
        began = looked = time.monotonic()
        pause = SPIN
        is_first = True
        while True:
            try:
                if is_done():
                    return
            except self.mpi.Exception as error:  # ULFM, or a connection that broke
                who = self.found(missing)
                self.note("lost", who[0] if who else -1, f"rank {who} is gone: {error}")
                self.fail(where)
            now = time.monotonic()
            if is_first or now - looked > LOOK:
                looked, is_first = now, False
                self.receive_news()
                if self.trouble is not None:
                    self.fail(where)
                if watch is not None:
                    watch()
                gone = [r for r in missing() if self.left.get(r, number) < number]
                if gone:
                    raise PeerLostError(
                        f"{where}: rank {gone[0]} has left the group: it called "
                        "destroy_process_group() and is waited for",
                        f"rank {gone[0]}",
                    )
            if timeout >= 0 and now - began > timeout:
                who = missing()
                ranks = f"ranks {', '.join(map(str, who))} have" if len(who) > 1 else "a rank has"
                if len(who) == 1:
                    ranks = f"rank {who[0]} has"
                raise CollectiveTimeout(f"{where}: timed out after {timeout:g} s: {ranks} not come")
            if now - began > SPIN:
                self._pause(pause)
                pause = min(1.5 * pause, PAUSE)

    # ---------------------------------------------------------------- news
    def note(self, reason: str, who: int, text: str, **more: Any) -> dict[str, Any]:
        """Remembers bad news, and returns the first of them."""
        if self.trouble is None:
            self.trouble = {"reason": reason, "rank": who, "text": text[:300], **more}
        return self.trouble

    def tell(self, news: dict[str, Any], to: Sequence[int]) -> None:
        """Sends news to ranks, which may be gone."""
        letter = np.zeros(LETTER, np.uint8)
        data = json.dumps(news, ensure_ascii=False).encode()  # its text is cut by `note`
        letter[: len(data)] = np.frombuffer(data, np.uint8)
        for rank in to:
            with suppress(Exception):
                self._under_way += self.send(letter, rank, NEWS)

    def receive_news(self) -> None:
        """Takes the news that have come."""
        with suppress(self.mpi.Exception):
            while (found := self.open_letter()) is not None:
                source, news = found
                if news["reason"] == "left":
                    self.left[source] = news["number"]
                else:
                    self.note(**{"who": news.pop("rank"), **news})
        if self.trouble is None and Base.watch is not None:
            self.miss(Base.watch)

    def open_letter(self) -> tuple[int, dict[str, Any]] | None:
        """The next piece of news, and who sent it."""
        letter, status = np.zeros(LETTER, np.uint8), self.mpi.Status()
        with lock:  # over both: another thread would wait for a letter that this one has taken
            if not self.comm.Iprobe(self.mpi.ANY_SOURCE, self._tag + NEWS, status):
                return None
            self.comm.Recv(letter, status.Get_source(), self._tag + NEWS)
        return self.ranks.index(status.Get_source()), json.loads(letter.tobytes().rstrip(b"\0"))

    def miss(self, watch: Watch | Connections) -> None:
        """If a rank on another node has died, and nobody has told so, tells all."""
        gone = watch.gone()  # by their ranks among all that MPI started
        lost = [r for r, number in enumerate(self.ranks) if number in gone and r not in self.left]
        if lost:
            who, (pid, host) = lost[0], watch.who[self.ranks[lost[0]]]
            text = f"rank {who} (pid {pid}) has died: its connection ended, host {host}"
            news = self.note("lost", who, text, name=f"rank {who}", pid=pid, host=host)
            self.tell(news, [r for r in range(len(self.ranks)) if r not in (*lost, self.rank)])

    def listen(self, seconds: float) -> None:
        """Waits for bad news for a while."""
        end = time.monotonic() + seconds
        while self.trouble is None and time.monotonic() < end:
            self.receive_news()
            time.sleep(PAUSE)

    def fail(self, where: str) -> NoReturn:
        """Raises what the bad news say."""
        news = self.trouble
        assert news is not None
        if news["reason"] == "lost":
            raise PeerLostError(
                f"{where}: {news['text']}",
                news.get("name") or f"rank {news['rank']}",
                news.get("pid", 0),
                news.get("exitcode"),
                news.get("host", ""),
            )
        if news["reason"] == "timeout":
            raise CollectiveTimeout(f"{where}: rank {news['rank']} gave up: {news['text']}")
        raise PeerLostError(
            f"{where}: the group is broken: rank {news['rank']} gave up: {news['text']}, "
            "call destroy_process_group() and begin anew",
            f"rank {news['rank']}",
            news.get("pid", 0),
            host=news.get("host", ""),
        )

    def found(self, missing: Callable[[], list[int]]) -> list[int]:
        """Who is missing; nobody that can be named where MPI refuses to be asked."""
        try:
            return missing()
        except self.mpi.Exception:
            return []

    def close(self) -> None:
        """This rank has left the group."""
        close = getattr(self.comm, "release", None)
        if close is not None:
            close(self)
