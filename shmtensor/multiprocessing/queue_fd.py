"""A descriptor for a queue, for those who wait on descriptors (`concurrent.futures`).

A queue has none: it is words in shared memory. A thread of the reading process waits there, takes
one message ahead, and writes a byte into a pipe for it. It exists only when somebody asks a queue
for its `_reader`; what it has taken then no other process gets.

    channel ──get──> thread ──> taken (at most one) ──> recv
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

__all__ = ["Bell"]

_SLICE = 0.1  # seconds between two looks whether the queue is still there


class _Ear(threading.Thread):
    """The thread. It knows the channel, not the queue, so that a queue nobody has ends it."""

    def __init__(self, channel: native.Channel, peers: Any, write: int) -> None:
        super().__init__(name="queue bell", daemon=True)
        self._channel, self._peers, self._write = channel, peers, write
        self.taken: deque[Any] = deque()
        self.is_free = threading.Semaphore(1)  # to take one more
        self.is_over = False

    def run(self) -> None:
        """Until the queue is gone, or cannot have messages any more."""
        try:
            while True:
                self.is_free.acquire()
                message = self._next()
                if message is None:
                    return
                self.taken.append(message)
                os.write(self._write, b".")
                if isinstance(message, Exception):
                    return
        except BrokenPipeError:
            return  # the queue went while its last message came
        finally:
            os.close(self._write)
            del self._channel

    def _next(self) -> Any:
        """A message, or the error that ends all (recv raises it); None: the queue is gone."""
        message: Any = None
        while message is None and not self.is_over:
            try:
                message = self._channel.get(_SLICE, self._peers)
            except Exception as error:
                message = error
        return None if self.is_over else message


class Bell:
    """What `connection.wait` and `select` take for a queue; reads like the end of a pipe."""

    def __init__(self, channel: native.Channel, peers: Any) -> None:
        self.pid = os.getpid()
        self._read, write = os.pipe()
        self._ear = _Ear(channel, peers, write)
        self._ear.start()
        self.close = weakref.finalize(self, _end, self._ear, self._read)

    def fileno(self) -> int:
        """Readable when there is a message."""
        return self._read

    def poll(self, timeout: float | None = 0.0) -> bool:
        """Whether a message comes within the time."""
        poller = select.poll()
        poller.register(self._read, select.POLLIN)
        return bool(poller.poll(None if timeout is None else max(timeout, 0.0) * 1000))

    def receive(self, timeout: float | None) -> Any:
        """(data, blocks), or None at the end of the time. Raises: what ended the channel."""
        while self.poll(timeout):
            try:
                message = self._ear.taken.popleft()
            except IndexError:
                if not self._ear.is_alive():
                    raise EOFError("SimpleQueue: nothing more can come") from None
                continue  # another thread has it
            if isinstance(message, Exception):
                self._ear.taken.append(message)
                raise message
            os.read(self._read, 1)
            self._ear.is_free.release()
            return message
        return None

    def recv(self) -> Any:
        """The next object."""
        from .reduction import loads

        return loads(*self.receive(None))


def _end(ear: _Ear, read: int) -> None:
    ear.is_over = True
    ear.is_free.release()
    os.close(read)
