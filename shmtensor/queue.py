"""Queue: a bounded queue whose messages lie in shared memory, and which no death can break.

    put ──> | 64 cells | 64 cells | ... ──> get        any process to any process, up to maxsize

A tensor travels as a handle, so one of 256 MB costs what one of 64 bytes does. What is put is in
shared memory when `put` returns; a process killed at any instruction loses what it alone had and
nothing else. docs/design/queue.md has the picture.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from .errors import ShutDown
from .multiprocessing.queue import Empty, Full, parent_row, watched
from .multiprocessing.queue import Queue as _Queue
from .multiprocessing.reduction import pickled, unpickled

__all__ = ["Empty", "Full", "Queue", "ShutDown", "Statistics"]


@dataclass(frozen=True)
class Statistics:
    """How a queue stands. Each count is derived from the state of its messages, none from a counter
    that a killed process could have left wrong; `sent` = `received` + `reading` + `waiting`.

    Attributes:
        maxsize: so many messages wait at most.
        sent: messages whose `put` has come to its end, since the queue was made.
        received: of these, taken for good.
        reading: of these, being taken at this moment; given back if that process dies.
        waiting: of these, to be read.
        writing: being put at this moment.
        given_up: puts that came to nothing: the writer died, or the queue was shut down meanwhile.
        segments: blocks of 64 messages that exist now.
        getters, putters: how many wait for a message, for room; too high by those killed waiting.
        is_shut_down: whether `shutdown` was called anywhere.
    """

    maxsize: int
    sent: int
    received: int
    reading: int
    waiting: int
    writing: int
    given_up: int
    segments: int
    getters: int
    putters: int
    is_shut_down: bool

    @property
    def fill(self) -> float:
        """The part of `maxsize` that is taken, 0 to 1."""
        return (self.waiting + self.reading + self.writing) / self.maxsize


class Queue(_Queue):
    """A bounded queue between processes: each message put by one reaches one that gets.

    It may be inherited by fork, passed to a Process of any start method, and sent through other
    queues. `put` and `get` have the standard library's arguments; a message that waits keeps its
    blocks alive, whoever sent it.

    Args:
        maxsize: at most so many messages wait; `put` waits for room. At least 1.

    Example:
        >>> import shmtensor as st
        >>> with st.Queue(maxsize=8) as queue:
        ...     queue.put({"x": st.ones(2), "epoch": 1})
        ...     queue.get()["x"]
        tensor([1., 1.])
    """

    def __init__(self, maxsize: int = 1024) -> None:
        if maxsize < 1:
            raise ValueError(f"Queue: maxsize is at least 1: {maxsize}")
        super().__init__(maxsize)

    def __enter__(self) -> Queue:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def maxsize(self) -> int:
        """At most so many messages wait."""
        return self._channel.maxsize

    def put_many(self, messages: Iterable[Any], timeout: float | None = None) -> int:
        """Sends each message, in order, waiting for room where there is none.

        All of them are written down before the first is sent, so one that cannot be sent stops none
        halfway. Copies: none for what lies in shared memory.

        Args:
            messages: what to send.
            timeout: seconds to wait for room at most, over all of them; None: no limit.

        Returns:
            How many were sent: all, or fewer when the time was over.

        Raises:
            Full: not one had room in time.
            ShutDown: the queue was shut down; `statistics().sent` tells what still went.
        """
        messages = list(messages)
        sent = self._channel.send_many(messages, pickled, timeout)
        if messages and not sent:
            raise Full
        return sent

    def get_many(
        self, n: int, timeout: float | None = None, *, watch: Iterable[Any] = ()
    ) -> list[Any]:
        """Up to `n` messages: waits for the first, then takes what is there. Copies: none.

        Args:
            n: at least 1.
            timeout, watch: as of `get`.

        Returns:
            1 to n messages. If one of them cannot be read, those before it are returned and the
            next call raises its error.

        Raises:
            Empty: none came in time.
            ShutDown: the queue was shut down, and nothing will come.
        """
        if n < 1:
            raise ValueError(f"Queue.get_many: n is at least 1: {n}")

        def receive(seconds: float | None) -> list[Any] | None:
            return self._channel.receive_many(n, seconds, parent_row(), unpickled) or None

        if watch:
            messages = watched(receive, timeout, watch, "Queue.get_many", None)
        else:
            messages = receive(timeout)
        if messages is None:
            raise Empty
        return messages  # type: ignore[no-any-return]

    def shutdown(self, immediate: bool = False) -> None:
        """Ends the queue for everybody: `put` raises ShutDown from now on, and so does `get` when
        nothing is left.

        A `put` under way in another process either sends its message or raises. Processes that are
        killed hold nobody up; one that is stopped in the middle of a put or get delays the end.

        Args:
            immediate: `get` raises at once, and what was not read is given up.
        """
        self._channel.shut_down(immediate)

    def statistics(self) -> Statistics:
        """How the queue stands now. Cost: a look at each waiting message's state."""
        figures: dict[str, int] = self._channel.statistics()
        return Statistics(is_shut_down=bool(figures.pop("shut")), **figures)

    def check(self) -> None:
        """Checks every invariant of the queue, whatever others do meanwhile.

        Raises:
            AssertionError: one is broken; the message names it and the values.
        """
        broken = self._channel.check()
        if broken is not None:
            raise AssertionError(f"Queue.check: {broken}")
