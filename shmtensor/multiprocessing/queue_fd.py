"""A descriptor for a queue, for code that waits on descriptors (`concurrent.futures`).

A queue consists of words in shared memory and has no descriptor. A thread of the reading process
receives one message in advance and writes a byte into a pipe for it. The thread exists only once a
queue's `_reader` has been used; no other process gets the message that it has received.

    channel ──get──> thread ──> messages (at most one) ──> recv
                       └─ byte ─> pipe ─> select, connection.wait
"""

from __future__ import annotations

import os
import select
import threading
import weakref
from collections import deque
from typing import Any

from shmtensor import native

_SLICE = 0.1  # seconds between two checks whether the queue still exists


class _ReadAhead(threading.Thread):
    """The thread. It refers to the channel, not to the queue, so that it ends with the queue."""

    def __init__(self, channel: native.Channel, peers: Any, write: int) -> None:
        super().__init__(name="queue reader", daemon=True)
        self._channel, self._peers, self._write_fd = channel, peers, write
        self.messages: deque[Any] = deque()
        self.room = threading.Semaphore(1)  # for one more message
        self.is_over = False

    def run(self) -> None:
        """Runs until the queue is freed or can have no more messages."""
        try:
            while True:
                self.room.acquire()
                message = self._next()
                if message is None:
                    return
                self.messages.append(message)
                os.write(self._write_fd, b".")
                if isinstance(message, Exception):
                    return
        except BrokenPipeError:
            return  # the queue was freed while a message arrived
        finally:
            os.close(self._write_fd)
            del self._channel

    def _next(self) -> Any:
        """A message, or the error that ends the thread (recv raises it); None: the queue ended."""
        message: Any = None
        while message is None and not self.is_over:
            try:
                message = self._channel.get(_SLICE, self._peers)
            except Exception as error:
                message = error
        return None if self.is_over else message


class QueueFd:
    """An object for `connection.wait` and `select`; reads like the end of a pipe."""

    def __init__(self, channel: native.Channel, peers: Any) -> None:
        self.pid = os.getpid()
        self._read_fd, write = os.pipe()
        self._thread = _ReadAhead(channel, peers, write)
        self._thread.start()
        self.close = weakref.finalize(self, _end, self._thread, self._read_fd)

    def fileno(self) -> int:
        """Readable when there is a message."""
        return self._read_fd

    def poll(self, timeout: float | None = 0.0) -> bool:
        """Whether a message comes within the time."""
        poller = select.poll()
        poller.register(self._read_fd, select.POLLIN)
        return bool(poller.poll(None if timeout is None else max(timeout, 0.0) * 1000))

    def receive(self, timeout: float | None) -> Any:
        """(data, blocks); None at the end of the time. Raises: the error that ended the thread."""
        while self.poll(timeout):
            try:
                message = self._thread.messages.popleft()
            except IndexError:
                if not self._thread.is_alive():
                    raise EOFError("SimpleQueue: nothing more can come") from None
                continue  # another thread has it
            if isinstance(message, Exception):
                self._thread.messages.append(message)
                raise message
            os.read(self._read_fd, 1)
            self._thread.room.release()
            return message
        return None

    def recv(self) -> Any:
        """The next object."""
        from .reduction import loads

        return loads(*self.receive(None))


def _end(thread: _ReadAhead, read: int) -> None:
    thread.is_over = True
    thread.room.release()
    os.close(read)
