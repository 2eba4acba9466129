"""Queue, JoinableQueue and SimpleQueue over a channel in shared memory.

Beside the standard library's: a message is there when `put` returns (no feeder thread, so nothing
is lost when the sender exits at once), what cannot be pickled raises in `put`, and a reader killed
while it takes a message gives it back.
"""

from __future__ import annotations

import queue
import time
from collections.abc import Iterable
from typing import Any

from shmtensor import native
from shmtensor.errors import PeerLostError

from .reduction import dumps, loads
from .shared import Shared

__all__ = ["Empty", "Full", "JoinableQueue", "Queue", "SimpleQueue"]

Empty = queue.Empty
Full = queue.Full

_SLICE = 0.05  # seconds between two looks at watched processes


_parent: tuple[tuple[int, int], ...] = ()


def watch_parent(row: tuple[int, int]) -> None:
    """Waits for messages end with PeerLostError when the process of this row dies.

    Called in a child that Process started: without it, the children of a killed process would wait
    for ever.
    """
    global _parent
    _parent = (row,)


def check_watched(watch: Iterable[Any], where: str) -> None:
    """Raises PeerLostError if one of the processes has ended otherwise than with exit code 0.

    A watched item is a Process that this one started, or a (row, incarnation) of the ledger.
    """
    for item in watch:
        if isinstance(item, tuple):
            if native.life(*item) != "alive":
                text, pid, code = native.describe(*item)
                raise PeerLostError(f"{where}: {text}", text.split(" (")[0], pid, code)
        elif item.exitcode not in (None, 0):
            raise lost(where, item)


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

    def __init__(self, *, ctx: Any = None) -> None:
        self._open(native.Channel(self._maxsize))

    def _open(self, channel: native.Channel) -> None:
        self._channel = channel
        self._block = channel.block
        self._closed = False

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
        self._check()
        data, blocks = dumps(obj)
        self._channel.put(data, blocks, None)

    def get(self, timeout: float | None = None, *, watch: Iterable[Any] = ()) -> Any:
        """The next message; waits for it.

        Args:
            timeout: seconds to wait at most (queue.Empty then); None: no limit.
            watch: processes without which no message can come (Process objects of this process's
                children, or (row, incarnation) pairs); when one has failed and no message is left,
                the wait ends.
        Raises: PeerLostError: a watched process has failed.
        """
        self._check()
        message = self._receive(timeout, watch)
        if message is None:
            raise Empty
        return loads(*message)

    def _receive(self, timeout: float | None, watch: Iterable[Any]) -> Any:
        """(data, blocks) of the next message, or None at the end of the time."""
        if not watch:
            return self._channel.get(timeout, _parent)
        watch = tuple(watch)
        end = None if timeout is None else time.monotonic() + timeout
        while True:
            left = _SLICE if end is None else min(_SLICE, end - time.monotonic())
            message = self._channel.get(left, _parent)
            if message is not None or (end is not None and time.monotonic() >= end):
                return message
            try:
                check_watched(watch, f"{type(self).__name__}.get")
            except PeerLostError:
                message = self._channel.get(0.0)  # what it sent before it died still counts
                if message is None:
                    raise
                return message

    def empty(self) -> bool:
        """Whether nothing waits to be read (another process may change that at once)."""
        self._check()
        return self._channel.size() == 0

    def close(self) -> None:
        """Lets this process's part go; others that have the queue go on."""
        self._closed = True
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
        self._check()
        data, blocks = dumps(obj)
        if not self._channel.put(data, blocks, timeout if block else 0.0):
            raise Full

    def get(  # type: ignore[override]
        self, block: bool = True, timeout: float | None = None, *, watch: Iterable[Any] = ()
    ) -> Any:
        """The next message; raises Empty when none comes in time. `watch`: see
        `SimpleQueue.get`."""
        self._check()
        message = self._receive(timeout if block else 0.0, watch)
        if message is None:
            raise Empty
        return loads(*message)

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

    def task_done(self) -> None:
        """One message that was got has been worked on."""
        self._check()
        self._channel.task_done()

    def join(self) -> None:
        """Waits until every message was worked on."""
        self._check()
        self._channel.join(None)
