"""Messages between the ranks of a group by MPI, or by its replacement in ../tcp. Every wait ends.

All MPI calls return at once (Isend, Irecv, Testall, Iprobe), and a process makes one at a time, so
any level of thread support suffices. A wait polls with growing pauses, and also polls for news: a
rank that notices that another has died, given up or left tells all others. MPI itself notices no
death (without ULFM); ranks of the same node notice it in shared memory, ranks of other nodes by
liveness_across_nodes.py.

```
tag   group number * 8 + kind            kinds   CALL  DATA  BACK  HEADER  VERDICT  BODY  NEWS
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

__all__ = ["BACK", "BODY", "CALL", "DATA", "HEADER", "VERDICT", "Base", "Wire", "init_mpi"]

CALL, DATA, BACK, HEADER, VERDICT, BODY, NEWS = range(7)
SPIN = 50e-6  # seconds that a wait polls without a pause
PAUSE = 1e-3  # the longest pause between two polls
NEWS_INTERVAL = 0.02  # seconds between two polls for news
PIECE = 1 << 26  # bytes of one message: counts of MPI are 32 bits wide
PATIENCE = 2.0  # seconds that the end of a failed run waits for the others
NEWS_NBYTES = 2048

lock = threading.Lock()  # one MPI call at a time


class Base:
    """The state that all groups of this process share."""

    comm: Any = None
    number = 0  # how many groups there have been
    wires: ClassVar[list[Wire]] = []  # also of groups that were left: news may still come
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
        mpi4py.rc.finalize = False  # it would wait for dead ranks: see `finalize`
    from mpi4py import MPI

    return MPI


def init_mpi(timeout: float) -> Any:
    """A duplicate of MPI's COMM_WORLD, separate from the user's; waits for all ranks.

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
        atexit.register(finalize, module)
    return Base.comm


def finalize(module: Any) -> None:
    """Finalizes MPI when all ranks have come here. It does not if the run has failed and a rank
    does not come soon: Finalize would wait for ever for ranks that died or left without it.

    There are two barriers. A rank that was stopped finds the first one complete when it continues,
    although the other ranks gave up waiting and left; they do not come to the second one.
    """
    if module.Is_finalized():
        return
    with suppress(module.Exception):
        if final_barrier() and final_barrier():
            module.Finalize()


def final_barrier() -> bool:
    """Whether all ranks came to a barrier. A failed run waits PATIENCE for it, counted in pauses:
    the clock goes on while this rank is stopped."""
    request = Base.comm.Ibarrier()
    pauses = 0
    while not request.Test():
        for wire in Base.wires:
            wire.receive_news()
        if pauses > PATIENCE / PAUSE and any(wire.failure for wire in Base.wires):
            return False
        time.sleep(PAUSE)
        pauses += 1
    return True


def pieces(x: Array) -> list[Array]:
    """The bytes of a contiguous array, split into messages."""
    flat = x.reshape(-1).view(np.uint8)
    return [flat[at : at + PIECE] for at in range(0, flat.size, PIECE)]


class Wire:
    """The messages of one group.

    Attributes:
        failure: the first bad news, or None. If there are any, the group is broken.
        leavers: ranks that have left, with the number of their last call.
    """

    def __init__(self, comm: Any, rank: int, ranks: Sequence[int]) -> None:
        self.comm, self.rank, self.ranks = comm, rank, list(ranks)
        self.mpi: Any = getattr(comm, "library", None) or mpi()
        self.failure: dict[str, Any] | None = None
        self.leavers: dict[int, int] = {}
        self._request: Any = self.mpi.Request
        self._pause: Callable[[float], object] = getattr(comm, "pause", time.sleep)
        highest = comm.Get_attr(self.mpi.TAG_UB) // 8
        self._tag = Base.number % highest * 8
        Base.number += 1
        Base.wires.append(self)
        self._under_way: list[Any] = []  # requests of news, and of calls that failed

    # ---------------------------------------------------------------- messages
    def send(self, x: Array, to: int, kind: int, is_taken: bool = False) -> list[Any]:
        """Begins to send a contiguous array; `is_taken`: by Issend, done when it is received."""
        isend = self.comm.Issend if is_taken else self.comm.Isend
        with lock:
            return [isend(part, self.ranks[to], self._tag + kind) for part in pieces(x)]

    def receive(self, x: Array, source: int, kind: int) -> list[Any]:
        """Begins to receive into a contiguous array."""
        with lock:
            return [
                self.comm.Irecv(part, self.ranks[source], self._tag + kind) for part in pieces(x)
            ]

    def all_gather(self, outs: Sequence[Array], x: Array, timeout: float) -> None:
        """Writes everybody's x into everybody's list, by messages between all pairs. It serves
        before there are nodes.
        """
        requests: list[tuple[list[Any], Sequence[int]]] = []
        for rank, out in enumerate(outs):
            if rank == self.rank:
                out[...] = x
            else:
                requests.append((self.receive(out, rank, CALL), [rank]))
                requests.append((self.send(x, rank, CALL), [rank]))
        self.wait("init_process_group", requests, timeout)

    def find(self, kind: int) -> int | None:
        """A rank from which a message of this kind has come, or None."""
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
        watch: Callable[[str], None] | None = None,
    ) -> None:
        """Waits until all requests are done.

        Args:
            requests: lists of requests, each with the ranks that it waits for.
            number: of the call; it tells whether a rank that has left had come to it.
            watch: called with `where` now and then; what it raises ends the wait, and comes before
                the error of bad news.
        """
        flat = [each for part, _ in requests for each in part]

        def is_done() -> bool:
            with lock:
                return bool(self._request.Testall(flat))

        def missing() -> list[int]:
            with lock:
                return sorted(
                    {r for part, who in requests if not self._request.Testall(part) for r in who}
                )

        try:
            self.wait_until(where, is_done, timeout, missing, number, watch)
        except BaseException:
            self._under_way += flat  # MPI may still write there
            raise

    def wait_until(
        self,
        where: str,
        is_done: Callable[[], bool],
        timeout: float,
        missing: Callable[[], list[int]],
        number: int = 0,
        watch: Callable[[str], None] | None = None,
    ) -> None:
        """Polls until `is_done()`. Raises the error of bad news, or CollectiveTimeout."""
        began = last_news = time.monotonic()
        pause = SPIN
        is_first = True
        while True:
            try:
                if is_done():
                    return
            except self.mpi.Exception as error:  # ULFM, or a broken connection
                who = self.missing_if_known(missing)
                self.set_failure("lost", who[0] if who else -1, f"rank {who} is gone: {error}")
                self.raise_failure(where)
            now = time.monotonic()
            if is_first or now - last_news > NEWS_INTERVAL:
                last_news, is_first = now, False
                self.receive_news()
                if watch is not None:
                    watch(where)
                if self.failure is not None:
                    self.raise_failure(where)
                absent = [r for r in missing() if self.leavers.get(r, number) < number]
                if absent:
                    raise PeerLostError(
                        f"{where}: rank {absent[0]} has left the group: it called "
                        "destroy_process_group() and is waited for",
                        f"rank {absent[0]}",
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
    def set_failure(self, reason: str, who: int, text: str, **details: Any) -> dict[str, Any]:
        """Stores bad news unless there are some already; returns the first ones."""
        if self.failure is None:
            self.failure = {"reason": reason, "rank": who, "text": text[:300], **details}
        return self.failure

    def send_news(self, news: dict[str, Any], to: Sequence[int]) -> None:
        """Sends news to ranks, which may have died."""
        message = np.zeros(NEWS_NBYTES, np.uint8)
        data = json.dumps(news, ensure_ascii=False).encode()  # fits: `set_failure` limits the text
        message[: len(data)] = np.frombuffer(data, np.uint8)
        for rank in to:
            with suppress(Exception):
                self._under_way += self.send(message, rank, NEWS)

    def receive_news(self) -> None:
        """Receives all news that have come."""
        with suppress(self.mpi.Exception):
            while (received := self.receive_one_news()) is not None:
                source, news = received
                if news["reason"] == "left":
                    self.leavers[source] = news["number"]
                else:
                    self.set_failure(**{"who": news.pop("rank"), **news})
        if self.failure is None and Base.watch is not None:
            self.check_deaths(Base.watch)

    def receive_one_news(self) -> tuple[int, dict[str, Any]] | None:
        """The next piece of news and its sender, or None."""
        message, status = np.zeros(NEWS_NBYTES, np.uint8), self.mpi.Status()
        with lock:  # over both calls: else two threads may probe the same message
            if not self.comm.Iprobe(self.mpi.ANY_SOURCE, self._tag + NEWS, status):
                return None
            self.comm.Recv(message, status.Get_source(), self._tag + NEWS)
        return self.ranks.index(status.Get_source()), json.loads(message.tobytes().rstrip(b"\0"))

    def check_deaths(self, watch: Watch | Connections) -> None:
        """If a rank on another node has died without news of it, tells all."""
        dead = watch.dead_ranks()  # MPI's ranks
        lost = [
            r for r, number in enumerate(self.ranks) if number in dead and r not in self.leavers
        ]
        if lost:
            who, (pid, host) = lost[0], watch.processes[self.ranks[lost[0]]]
            text = f"rank {who} (pid {pid}) has died: its connection ended, host {host}"
            news = self.set_failure("lost", who, text, name=f"rank {who}", pid=pid, host=host)
            self.send_news(news, [r for r in range(len(self.ranks)) if r not in (*lost, self.rank)])

    def listen(self, seconds: float) -> None:
        """Waits for bad news for a while."""
        end = time.monotonic() + seconds
        while self.failure is None and time.monotonic() < end:
            self.receive_news()
            time.sleep(PAUSE)

    def raise_failure(self, where: str) -> NoReturn:
        """Raises the error of the bad news."""
        news = self.failure
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

    def missing_if_known(self, missing: Callable[[], list[int]]) -> list[int]:
        """The missing ranks; none if MPI raises an error."""
        try:
            return missing()
        except self.mpi.Exception:
            return []

    def close(self) -> None:
        """This rank has left the group."""
        close = getattr(self.comm, "release", None)
        if close is not None:
            close(self)
