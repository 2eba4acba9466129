"""Messages between the ranks of a group that spans nodes, over a Transport. Every wait ends.

A wait polls with growing pauses, and also polls for news: a rank that notices that another has
died, given up or left tells all others. Ranks of the same node notice a death in shared memory,
ranks of other nodes by the transport, if it can tell.

```
tag   group number * 8 + kind            kinds   CALL  DATA  BACK  HEADER  VERDICT  BODY  NEWS
```
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, NoReturn

import numpy as np

from ....errors import CollectiveTimeout, PeerLostError
from ...group.operands import Array
from ..transport import Transport

CALL, DATA, BACK, HEADER, VERDICT, BODY, NEWS = range(7)
SPIN = 50e-6  # seconds that a wait polls without a pause
PAUSE = 1e-3  # the longest pause between two polls
NEWS_INTERVAL = 0.02  # seconds between two polls for news
PIECE = 1 << 26  # bytes of one message: counts of MPI are 32 bits wide
NEWS_NBYTES = 2048


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

    def __init__(self, transport: Transport, rank: int, ranks: Sequence[int]) -> None:
        self.transport, self.rank, self.ranks = transport, rank, list(ranks)
        self.failure: dict[str, Any] | None = None
        self.leavers: dict[int, int] = {}
        self._tag = transport.n_groups % (transport.max_tag // 8) * 8
        transport.n_groups += 1
        transport.n_open += 1
        self._under_way: list[Any] = []  # requests of news, and of calls that failed

    # ---------------------------------------------------------------- messages
    def send(self, x: Array, to: int, kind: int, until_received: bool = False) -> list[Any]:
        """Begins to send a contiguous array; `until_received`: done when it is received."""
        with self.transport.lock:
            return [
                self.transport.send(part, self.ranks[to], self._tag + kind, until_received)
                for part in pieces(x)
            ]

    def receive(self, x: Array, source: int, kind: int) -> list[Any]:
        """Begins to receive into a contiguous array."""
        with self.transport.lock:
            return [
                self.transport.receive(part, self.ranks[source], self._tag + kind)
                for part in pieces(x)
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
        with self.transport.lock:
            source = self.transport.find(self._tag + kind)
        return None if source is None else self.ranks.index(source)

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
            with self.transport.lock:
                return self.transport.are_done(flat)

        def missing() -> list[int]:
            with self.transport.lock:
                return sorted(
                    {r for part, who in requests if not self.transport.are_done(part) for r in who}
                )

        try:
            self.wait_until(where, is_done, timeout, missing, number, watch)
        except BaseException:
            self._under_way += flat  # the transport may still write there
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
            except self.transport.error as error:  # a broken connection
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
                        "destroy_process_group() or has ended, and is waited for",
                        f"rank {absent[0]}",
                    )
            if timeout >= 0 and now - began > timeout:
                who = missing()
                ranks = f"ranks {', '.join(map(str, who))} have" if len(who) > 1 else "a rank has"
                if len(who) == 1:
                    ranks = f"rank {who[0]} has"
                raise CollectiveTimeout(f"{where}: timed out after {timeout:g} s: {ranks} not come")
            if now - began > SPIN:
                self.transport.pause(pause)
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
        with suppress(self.transport.error):
            while (received := self.receive_one_news()) is not None:
                source, news = received
                if news["reason"] == "left":
                    self.leavers[source] = news["number"]
                else:
                    self.set_failure(**{"who": news.pop("rank"), **news})
        if self.failure is None:
            self.check_deaths()

    def receive_one_news(self) -> tuple[int, dict[str, Any]] | None:
        """The next piece of news and its sender, or None."""
        message, transport = np.zeros(NEWS_NBYTES, np.uint8), self.transport
        with transport.lock:  # over both calls: else two threads may find the same message
            source = transport.find(self._tag + NEWS)
            if source is None:
                return None
            request = transport.receive(message, source, self._tag + NEWS)
            while not transport.are_done([request]):  # it has come already
                pass
        return self.ranks.index(source), json.loads(message.tobytes().rstrip(b"\0"))

    def check_deaths(self) -> None:
        """If a rank on another node has died without news of it, tells all."""
        dead = self.transport.find_dead()
        lost = [
            r for r, number in enumerate(self.ranks) if number in dead and r not in self.leavers
        ]
        if lost:
            who, (pid, host) = lost[0], dead[self.ranks[lost[0]]]
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
        text, name = news["text"], f"rank {news['rank']}"
        if news["reason"] == "timeout":
            raise CollectiveTimeout(f"{where}: {name} gave up: {text}") from None
        if news["reason"] == "gave up":
            text = (
                f"the group is broken: {name} gave up: {text}, "
                "call destroy_process_group() and begin anew"
            )
        raise PeerLostError(
            f"{where}: {text}",
            news.get("name") or name,
            news.get("pid", 0),
            news.get("exitcode"),
            news.get("host", ""),
        ) from None

    def missing_if_known(self, missing: Callable[[], list[int]]) -> list[int]:
        """The missing ranks; none if that cannot be told."""
        try:
            return missing()
        except self.transport.error:
            return []

    def close(self) -> None:
        """This rank has left the group."""
        self.transport.leave()
