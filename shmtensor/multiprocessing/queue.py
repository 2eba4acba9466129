"""Queue, JoinableQueue and SimpleQueue over a channel in shared memory.

Beside the standard library's: a message is there when `put` returns (no feeder thread, so nothing
is lost when the sender exits at once), what cannot be pickled raises in `put`, and a reader killed
while it takes a message gives it back.
"""

from __future__ import annotations

import os
import queue
import time
from collections.abc import Callable, Iterable
from typing import Any

from shmtensor import native
from shmtensor.errors import PeerLostError

from .queue_fd import Bell
from .reduction import loads, pickled, unpickled
from .shared_object import Shared

__all__ = ["Empty", "Full", "JoinableQueue", "Queue", "SimpleQueue"]

Empty = queue.Empty
Full = queue.Full

_SLICE = 0.025  # seconds between two looks at watched processes
_NOTHING: Any = object()  # what a receive returns that found no message in time


_parent: tuple[tuple[int, int], ...] = ()


def watch_parent(row: tuple[int, int]) -> None:
    """Waits for messages end with PeerLostError when the process of this row dies.

    Called in a child that Process started: without it, the children of a killed process would wait
    for ever.
    """
    global _parent
    _parent = (row,)


def parent_row() -> tuple[tuple[int, int], ...]:
    """The row of the process without which this one is not to wait, if there is such a one."""
    return _parent


def check_watched(watch: Iterable[Any], where: str) -> None:
    """Raises PeerLostError if one of the processes has ended otherwise than with exit code 0.

    A watched item is a Process that this one started, or a (row, incarnation) of the ledger.
    """
    for item in watch:
        if isinstance(item, tuple):
            if native.liveness(*item) != "alive":
                text, pid, code = native.describe(*item)
                raise PeerLostError(f"{where}: {text}", text.split(" (")[0], pid, code)
        elif item.exitcode not in (None, 0):
            raise lost(where, item)


def watched(
    receive: Callable[[float], Any],
    timeout: float | None,
    watch: Iterable[Any],
    where: str,
    nothing: Any,
) -> Any:
    """What `receive(seconds)` returns when it is not `nothing`, looking at the watched processes
    now and then; `nothing` at the end of the time."""
    watch = tuple(watch)
    end = None if timeout is None else time.monotonic() + timeout
    while True:
        left = _SLICE if end is None else min(_SLICE, end - time.monotonic())
        message = receive(left)
        if message is not nothing or (end is not None and time.monotonic() >= end):
            return message
        try:
            check_watched(watch, where)
        except PeerLostError:
            message = receive(0.0)  # what it sent before it died still counts
            if message is nothing:
                raise
            return message


def lost(where: str, process: Any) -> PeerLostError:
    """The error that names a dead Process."""
    how = describe_exit(process.exitcode)
    return PeerLostError(
        f"{where}: {process.name} (pid {process.pid}) {how}",
        process.name,
        process.pid,
        process.exitcode,
    )


def describe_exit(code: int | None) -> str:
    """`was killed by SIGKILL (-9)`, `exited with code 3`."""
    import signal

    if code is None:
        return "is gone, exit code unknown"
    if code >= 0:
        return f"exited with code {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    return f"was killed by {name} ({code})"


class SimpleQueue(Shared):
    """An unbounded queue with `put`, `get`, `empty` and `close`."""

    _maxsize = 0
    _joinable = False  # whether processes that take messages are kept account of

    def __init__(self, *, ctx: Any = None) -> None:
        self._open(native.Channel(self._maxsize, joinable=self._joinable))

    def _open(self, channel: native.Channel) -> None:
        self._channel = channel
        self._block = channel.block
        self._closed = False
        self._bell: Bell | None = None

    @classmethod
    def _attach(cls, block: Any, *details: Any) -> Any:
        self = cls.__new__(cls)
        self._open(native.Channel(block=block))
        return self

    def _check(self) -> None:
        if self._closed:
            raise ValueError(f"{type(self).__name__} {self!r} is closed")

    def put(self, obj: Any) -> None:
        """Sends `obj`. Copies: none for tensors and arrays in shared memory."""
        self._channel.send(obj, pickled, None)

    def get(self, timeout: float | None = None, *, watch: Iterable[Any] = ()) -> Any:
        """The next message; waits for it.

        Args:
            timeout: seconds to wait at most (queue.Empty then); None: no limit.
            watch: processes without which no message can come (Process objects of this process's
                children, or (row, incarnation) pairs); when one has failed and no message is left,
                the wait ends.
        Raises: PeerLostError: a watched process has failed.
        """
        message = self._receive(timeout, watch)
        if message is _NOTHING:
            raise Empty
        return message

    def _receive(self, timeout: float | None, watch: Iterable[Any]) -> Any:
        """The next message, or _NOTHING at the end of the time."""
        if self._bell is not None and self._bell.pid == os.getpid():
            taken = self._bell.receive(timeout)
            return _NOTHING if taken is None else loads(*taken)
        if not watch:
            return self._channel.receive(timeout, _parent, unpickled, _NOTHING)

        def receive(seconds: float) -> Any:
            return self._channel.receive(seconds, _parent, unpickled, _NOTHING)

        return watched(receive, timeout, watch, f"{type(self).__name__}.get", _NOTHING)

    @property
    def _reader(self) -> Bell:
        """What the standard library's queues have under this name, for `concurrent.futures`."""
        self._check()
        if self._bell is None or self._bell.pid != os.getpid():
            self._bell = Bell(self._channel, _parent)
        return self._bell

    def empty(self) -> bool:
        """Whether nothing waits to be read (another process may change that at once)."""
        self._check()
        if self._bell is not None and self._bell.poll():
            return False
        return self._channel.size() == 0

    def close(self) -> None:
        """Lets this process's part go; others that have the queue go on."""
        self._closed = True
        if self._bell is not None:
            self._bell.close()
            self._bell = None
        self._channel.close()
        self._block = None


class Queue(SimpleQueue):
    """`multiprocessing.Queue`: many processes put, many get, each message goes to one of them.

    Args:
        maxsize: at most so many messages wait, `put` waits for room; 0: no bound (each takes 512
            bytes, or its size).
    """

    def __init__(self, maxsize: int = 0, *, ctx: Any = None) -> None:
        self._maxsize = max(maxsize, 0)
        super().__init__(ctx=ctx)

    def put(self, obj: Any, block: bool = True, timeout: float | None = None) -> None:
        """Sends `obj`; raises Full when there is no room in time. Copies: none for what lies in
        shared memory."""
        if not self._channel.send(obj, pickled, timeout if block else 0.0):
            raise Full

    def get(  # type: ignore[override]
        self, block: bool = True, timeout: float | None = None, *, watch: Iterable[Any] = ()
    ) -> Any:
        """The next message; raises Empty when none comes in time. `watch`: see
        `SimpleQueue.get`."""
        message = self._receive(timeout if block else 0.0, watch)
        if message is _NOTHING:
            raise Empty
        return message

    def put_nowait(self, obj: Any) -> None:
        """`put(obj, False)`."""
        self.put(obj, False)

    def get_nowait(self) -> Any:
        """`get(False)`."""
        return self.get(False)

    def qsize(self) -> int:
        """How many messages wait to be read."""
        self._check()
        return self._channel.size()

    def full(self) -> bool:
        """Whether `put` would wait."""
        self._check()
        return self._channel.full()

    def join_thread(self) -> None:
        """Nothing to do: there is no feeder thread. As in the standard library, only after
        close()."""
        if not self._closed:
            raise AssertionError(f"Queue {self!r} not closed")

    def cancel_join_thread(self) -> None:
        """Nothing to do: a message is in shared memory when `put` returns."""


class JoinableQueue(Queue):
    """A Queue whose readers say when a message has been worked on."""

    _joinable = True

    def task_done(self) -> None:
        """One message that was got has been worked on."""
        self._check()
        self._channel.task_done()

    def join(self, *, watch: Iterable[Any] = ()) -> None:
        """Waits until every message was worked on.

        Args:
            watch: processes that have to stay, as of `get`, whether or not they took a message.
        Raises: PeerLostError: a process ended between `get` and `task_done`, so nobody will say
            that its message is done; or a watched process has failed, and something is left to be
            done. Who puts the message again, or gives it up, calls `task_done` for it and joins on.
        """
        self._check()
        watch = tuple(watch)
        while not self._channel.join(_SLICE):
            self._channel.check_debtors()
            try:
                check_watched(watch, "JoinableQueue.join")
            except PeerLostError:
                if not self._channel.join(0.0):  # what it did before it died still counts
                    raise
                return
