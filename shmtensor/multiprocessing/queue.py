"""Queue, JoinableQueue and SimpleQueue over a channel in shared memory.

Differences from the standard library: a message is readable when `put` returns (there is no feeder
thread, so nothing is lost if the sender exits at once), an object that cannot be pickled raises in
`put`, and a message whose reader is killed during `get` returns to the queue.
"""

from __future__ import annotations

import os
import queue
import time
from collections.abc import Callable, Iterable
from typing import Any

from shmtensor import cupy_runtime, native
from shmtensor.errors import PeerLostError
from shmtensor.profiler import profiling

from .queue_fd import QueueFd
from .reduce_cuda import Handles
from .reduction import loads, pickle_dumps, pickle_loads
from .shared_object import Shared

__all__ = ["Empty", "Full", "JoinableQueue", "Queue", "SimpleQueue"]

Empty = queue.Empty
Full = queue.Full

_SLICE = 0.025  # seconds between two checks of the watched processes
_EMPTY: Any = object()  # the result of a receive without a message in time


_parent: tuple[tuple[int, int], ...] = ()


def watch_parent(row: tuple[int, int]) -> None:
    """From now on, waiting for a message raises PeerLostError if the process of this row dies.

    Called in a child that Process started; without it, the children of a killed process would wait
    for ever.
    """
    global _parent
    _parent = (row,)


def parent_rows() -> tuple[tuple[int, int], ...]:
    """The rows of processes whose death ends each wait: that of the parent, or none."""
    return _parent


def check_watched(watch: Iterable[Any], where: str) -> None:
    """Raises PeerLostError if one of the processes has ended, unless with exit code 0.

    Args:
        watch: Processes that this one started, or (row, incarnation) pairs of the process table.
    """
    for item in watch:
        if isinstance(item, tuple):
            if native.liveness(*item) != "alive":
                text, pid, code = native.describe(*item)
                raise PeerLostError(f"{where}: {text}", text.split(" (")[0], pid, code)
        elif item.exitcode not in (None, 0):
            raise peer_lost_error(where, item)


def receive_watching(
    receive: Callable[[float], Any],
    timeout: float | None,
    watch: Iterable[Any],
    where: str,
    empty: Any,
) -> Any:
    """The first result of `receive(seconds)` that is not `empty`; `empty` at the end of the time.
    Checks the watched processes between two calls."""
    watch = tuple(watch)
    deadline = None if timeout is None else time.monotonic() + timeout
    while True:
        remaining = _SLICE if deadline is None else min(_SLICE, deadline - time.monotonic())
        message = receive(remaining)
        if message is not empty or (deadline is not None and time.monotonic() >= deadline):
            return message
        try:
            check_watched(watch, where)
        except PeerLostError:
            message = receive(0.0)  # a message that it sent before it died still counts
            if message is empty:
                raise
            return message


def peer_lost_error(where: str, process: Any) -> PeerLostError:
    """The error that names a dead Process."""
    return PeerLostError(
        f"{where}: {process.name} (pid {process.pid}) {describe_exit(process.exitcode)}",
        process.name,
        process.pid,
        process.exitcode,
    )


def describe_exit(code: int | None) -> str:
    """`was killed by SIGKILL (-9)`, `exited with code 3`."""
    if code is None:
        return "has ended, exit code unknown"
    if code >= 0:
        return f"exited with code {code}"
    return f"was killed by {signal_name(code)} ({code})"


def signal_name(code: int) -> str:
    """The name of the signal of a negative exit code."""
    import signal

    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"


class SimpleQueue(Shared):
    """An unbounded queue with `put`, `get`, `empty` and `close`.

    Parameters
    ----------
    ctx : context, optional
        Accepted as in the standard library.

    See Also
    --------
    Queue

    Examples
    --------
    >>> from shmtensor import multiprocessing as mp
    >>> queue = mp.SimpleQueue()
    >>> queue.put("hello")
    >>> queue.get(), queue.empty()
    ('hello', True)
    >>> queue.close()
    """

    _maxsize = 0
    _joinable = False  # whether the channel records which process has which message

    def __init__(self, *, ctx: Any = None) -> None:
        self._open(native.Channel(self._maxsize, joinable=self._joinable))

    def _open(self, channel: native.Channel) -> None:
        self._channel = channel
        self._block = channel.block
        self._closed = False
        self._fd: QueueFd | None = None

    def _restore(self) -> None:
        self._open(native.Channel(block=self._block))

    def _check(self) -> None:
        if self._closed:
            raise ValueError(f"{type(self).__name__} {self!r} is closed")

    def put(self, obj: Any) -> None:
        """Sends an object. Copies: none for tensors and arrays in shared memory."""
        self._send(obj, None)

    def _send(self, obj: Any, timeout: float | None) -> bool:
        """Sends an object; whether there was room in time."""
        began = profiling.begin() if profiling.on else 0
        if cupy_runtime.state.initialized:
            via = Handles(self._block)
            has_room = bool(self._channel.send(obj, pickle_dumps, timeout, via))
        else:
            has_room = bool(self._channel.send(obj, pickle_dumps, timeout))
        if began:
            profiling.end(began, f"{type(self).__name__}.put", profiling.QUEUE_WAIT)
        return has_room

    def get(self, timeout: float | None = None, *, watch: Iterable[Any] = ()) -> Any:
        """Waits for the next message.

        Parameters
        ----------
        timeout : float, optional
            The longest wait in seconds; no limit if None.
        watch : iterable, optional
            Processes that send the messages: Process objects of children, or (row, incarnation)
            pairs. The wait ends when one has failed and no message is ready.

        Returns
        -------
        any
            The message.

        Raises
        ------
        queue.Empty
            None came in time.
        PeerLostError
            A watched process has failed.
        """
        message = self._receive(timeout, watch)
        if message is _EMPTY:
            raise Empty
        return message

    def _receive(self, timeout: float | None, watch: Iterable[Any]) -> Any:
        """The next message, or _EMPTY at the end of the time."""
        if not profiling.on:
            return self._receive_message(timeout, watch)
        began = profiling.begin()
        message = self._receive_message(timeout, watch)
        profiling.end(began, f"{type(self).__name__}.get", profiling.QUEUE_WAIT)
        return message

    def _receive_message(self, timeout: float | None, watch: Iterable[Any]) -> Any:
        if self._fd is not None and self._fd.pid == os.getpid():
            message = self._fd.receive(timeout)
            return _EMPTY if message is None else loads(*message)
        if not watch:
            return self._channel.receive(timeout, _parent, pickle_loads, _EMPTY)

        def receive(seconds: float) -> Any:
            return self._channel.receive(seconds, _parent, pickle_loads, _EMPTY)

        return receive_watching(receive, timeout, watch, f"{type(self).__name__}.get", _EMPTY)

    @property
    def _reader(self) -> QueueFd:
        """A readable connection, for `concurrent.futures`, as in the standard library's queues."""
        self._check()
        if self._fd is None or self._fd.pid != os.getpid():
            self._fd = QueueFd(self._channel, _parent)
        return self._fd

    def empty(self) -> bool:
        """Whether no message waits. Another process may change that at any moment."""
        self._check()
        if self._fd is not None and self._fd.poll():
            return False
        return self._channel.size() == 0

    def close(self) -> None:
        """Closes the queue in this process; other processes keep it."""
        self._closed = True
        if self._fd is not None:
            self._fd.close()
            self._fd = None
        self._channel.close()
        self._block = None


class Queue(SimpleQueue):
    """`multiprocessing.Queue`: many writers and readers; each message reaches one reader.

    Parameters
    ----------
    maxsize : int, optional
        The largest number of waiting messages, `put` waits for room; 0 is no limit (each takes 512
        bytes, or its size).
    ctx : context, optional
        Accepted as in the standard library.

    Raises
    ------
    queue.Empty, queue.Full
        `get` and `put` that do not wait, or no longer.

    See Also
    --------
    SimpleQueue, JoinableQueue, Pipe

    Notes
    -----
    Copies: none of a shared tensor: the reader gets a view of the sender's memory.

    Examples
    --------
    >>> from shmtensor import multiprocessing as mp
    >>> queue = mp.Queue()
    >>> queue.put({"x": st.ones(2), "epoch": 1})
    >>> queue.get()["x"]
    tensor([1., 1.])
    >>> queue.close()
    """

    def __init__(self, maxsize: int = 0, *, ctx: Any = None) -> None:
        self._maxsize = max(maxsize, 0)
        super().__init__(ctx=ctx)

    def put(self, obj: Any, block: bool = True, timeout: float | None = None) -> None:
        """Sends an object; raises Full when there is no room in time. Copies: none for what is in
        shared memory."""
        if not self._send(obj, timeout if block else 0.0):
            raise Full

    def get(  # type: ignore[override]
        self, block: bool = True, timeout: float | None = None, *, watch: Iterable[Any] = ()
    ) -> Any:
        """The next message; raises Empty if none comes in time. `watch`: see `SimpleQueue.get`."""
        message = self._receive(timeout if block else 0.0, watch)
        if message is _EMPTY:
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
        """Does nothing: there is no feeder thread. Requires close(), as in the standard library."""
        if not self._closed:
            raise AssertionError(f"Queue {self!r} not closed")

    def cancel_join_thread(self) -> None:
        """Does nothing: a message is in shared memory when `put` returns."""


class JoinableQueue(Queue):
    """A Queue whose readers call `task_done` for each message, so that a writer can wait for all.

    Parameters
    ----------
    maxsize : int, optional
        The largest number of waiting messages; 0 is no limit.
    ctx : context, optional
        Accepted as in the standard library.

    See Also
    --------
    Queue

    Examples
    --------
    >>> from shmtensor import multiprocessing as mp
    >>> queue = mp.JoinableQueue()
    >>> queue.put("task")
    >>> queue.get()
    'task'
    >>> queue.task_done()
    >>> queue.join()
    >>> queue.close()
    """

    _joinable = True

    def task_done(self) -> None:
        """Marks one received message as done."""
        self._check()
        self._channel.task_done()

    def join(self, *, watch: Iterable[Any] = ()) -> None:
        """Waits until every message is done.

        Parameters
        ----------
        watch : iterable, optional
            Processes that must not fail, as of `get`.

        Raises
        ------
        PeerLostError
            A process ended between `get` and `task_done`, or a watched process has failed before
            all messages were done. The caller may put the message again or drop it, call
            `task_done` for it, and join again.
        """
        self._check()
        watch = tuple(watch)
        while not self._channel.join(_SLICE):
            self._channel.check_debtors()
            try:
                check_watched(watch, "JoinableQueue.join")
            except PeerLostError:
                if not self._channel.join(0.0):  # tasks done before it died still count
                    raise
                return
