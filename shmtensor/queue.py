"""Queue: a bounded queue whose messages are in shared memory, and which no death can break.

    put ──> | 64 cells | 64 cells | ... ──> get        any process to any process, up to maxsize

A tensor is sent as a handle, so 256 MB cost as much as 64 bytes. A message is in shared memory when
`put` returns. A process killed at any instruction loses only what it alone had.
docs/design/queue.md has the picture.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from . import cupy_runtime
from .errors import ShutDown
from .multiprocessing.queue import Empty, Full, parent_rows, receive_watching
from .multiprocessing.queue import Queue as _Queue
from .multiprocessing.reduce_cuda import Handles
from .multiprocessing.reduction import pickle_dumps, pickle_loads

__all__ = ["Empty", "Full", "Queue", "ShutDown", "Statistics"]


@dataclass(frozen=True)
class Statistics:
    """The state of a queue, which `Queue.statistics` returns.

    All counts are derived from the states of its messages, not from counters that a killed process
    may leave wrong. `sent` = `received` + `reading` + `waiting`.

    Parameters
    ----------
    maxsize : int
        The largest number of messages that may wait.
    sent : int
        Messages whose `put` has finished, since the queue was created.
    received : int
        Sent messages that a `get` has returned.
    reading : int
        Sent messages that a `get` is receiving; they wait again if its process dies.
    waiting : int
        Sent messages to be read.
    writing : int
        Messages that a `put` is writing.
    given_up : int
        Puts that failed: the writer died, or the queue was shut down meanwhile.
    segments : int
        Blocks of 64 messages that exist now.
    getters, putters : int
        Waiters for a message, for room; includes those killed while they waited.
    is_shut_down : bool
        Whether any process called `shutdown`.

    Examples
    --------
    >>> with st.Queue(maxsize=8) as queue:
    ...     queue.put("hello")
    ...     queue.statistics().waiting
    1
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
        """The part of `maxsize` that is in use, 0 to 1."""
        return (self.waiting + self.reading + self.writing) / self.maxsize


class Queue(_Queue):
    """A bounded queue between processes: each message reaches exactly one reader.

    It may be inherited by fork, passed to a Process of any start method, and sent through other
    queues. `put` and `get` have the standard library's arguments. A waiting message keeps its
    blocks alive, even if its sender ends.

    Parameters
    ----------
    maxsize : int, optional
        The largest number of waiting messages, at least 1; `put` waits for room.

    Raises
    ------
    ValueError
        maxsize is less than 1.

    See Also
    --------
    multiprocessing.Queue

    Notes
    -----
    Copies: none of a shared tensor: the reader gets a view of the sender's memory.

    Examples
    --------
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

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Queue(maxsize={self.maxsize}, {self.qsize()} waiting)"

    @property
    def maxsize(self) -> int:
        """The largest number of waiting messages."""
        return self._channel.maxsize

    def put_many(self, messages: Iterable[Any], timeout: float | None = None) -> int:
        """Sends messages in order, and waits for room when the queue is full.

        All messages are encoded before the first is sent: if one cannot be sent, none is.

        Parameters
        ----------
        messages : iterable
            The messages. Copies: none for what is in shared memory.
        timeout : float, optional
            The longest total time to wait for room, in seconds; no limit if None.

        Returns
        -------
        int
            How many were sent: all, or fewer if the time was over.

        Raises
        ------
        Full
            None was sent in time.
        ShutDown
            The queue was shut down; `statistics().sent` counts those sent before.

        Examples
        --------
        >>> with st.Queue(maxsize=8) as queue:
        ...     queue.put_many(["a", "b", "c"]), queue.get_many(2)
        (3, ['a', 'b'])
        """
        messages = list(messages)
        if cupy_runtime.state.initialized:
            n = self._channel.send_many(messages, pickle_dumps, timeout, Handles(self._block))
        else:
            n = self._channel.send_many(messages, pickle_dumps, timeout)
        if messages and not n:
            raise Full
        return n

    def get_many(
        self, n: int, timeout: float | None = None, *, watch: Iterable[Any] = ()
    ) -> list[Any]:
        """Up to `n` messages: waits for the first, then takes those that are ready.

        Parameters
        ----------
        n : int
            At least 1.
        timeout : float, optional
            As of `get`.
        watch : iterable, optional
            As of `get`.

        Returns
        -------
        list
            1 to n messages. If one of them cannot be read, those before it are returned and the
            next call raises its error. Copies: none.

        Raises
        ------
        Empty
            No message came in time.
        ShutDown
            The queue was shut down and is empty.
        """
        if n < 1:
            raise ValueError(f"Queue.get_many: n is at least 1: {n}")

        def receive(seconds: float | None) -> list[Any] | None:
            return self._channel.receive_many(n, seconds, parent_rows(), pickle_loads) or None

        if watch:
            messages = receive_watching(receive, timeout, watch, "Queue.get_many", None)
        else:
            messages = receive(timeout)
        if messages is None:
            raise Empty
        return messages  # type: ignore[no-any-return]

    def shutdown(self, immediate: bool = False) -> None:
        """Ends the queue for all processes: `put` raises ShutDown from now on, and so does `get`
        once the queue is empty.

        A concurrent `put` in another process either sends its message or raises. Killed processes
        do not delay the shutdown; one that is stopped in the middle of a put or get does.

        Parameters
        ----------
        immediate : bool, optional
            Whether `get` raises at once, and unread messages are dropped.
        """
        self._channel.shut_down(immediate)

    def statistics(self) -> Statistics:
        """The present state of the queue. Cost: reads the state of each waiting message."""
        figures: dict[str, int] = self._channel.statistics()
        return Statistics(is_shut_down=bool(figures.pop("shut")), **figures)

    def check(self) -> None:
        """Checks all invariants of the queue; other processes may use it meanwhile.

        Raises:
            AssertionError: an invariant is violated; the message names it and the values.
        """
        violation = self._channel.check()
        if violation is not None:
            raise AssertionError(f"Queue.check: {violation}")
