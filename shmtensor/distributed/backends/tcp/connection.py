"""One connection to another rank: frames, output that waits, messages that come.

```
frame   tag u32 | number u32 | nbytes u64 | data       number: 0, or to be confirmed by the receiver
        TAKEN   | number     | 0                       confirms: a receive takes that message
```

Nothing here waits. If a receive was posted first, its message is read into its buffer (Copies: none
here), else into new memory until a receive is posted. A frame longer than the messages of `Wire`
ends the connection before memory is allocated.

Note [Cut frames]: a signal handler that raises (Ctrl-C) while bytes are sent or received may lose
how many they were. All later frames of the connection would be misread, also those of other
groups; so the connection is ended, which both sides report as the loss of the other rank.
"""

from __future__ import annotations

import socket
from collections import defaultdict, deque
from contextlib import suppress

from ...rendezvous.store_messages import FRAME
from ..mpi.messages import PIECE

TAKEN = 0xFFFFFFFF


class Broken(OSError):
    """A peer sent a message that fits no receive."""


class Request:
    """A send or receive that has begun."""

    __slots__ = ("buffer", "is_done")

    def __init__(self, buffer: memoryview) -> None:
        self.buffer = buffer
        self.is_done = False


class Arrival:
    """A message that is coming or has come, and the buffer for its bytes."""

    __slots__ = ("buffer", "is_complete", "number", "request")

    def __init__(self, buffer: memoryview, number: int, request: Request | None) -> None:
        self.buffer, self.number, self.request = buffer, number, request
        self.is_complete = False


class Link:
    """One end of a connection, which does not block.

    Attributes:
        is_closed: whether the other side has closed it.
        unexpected: by tag, messages that came before a receive was posted, in order.
        receives: by tag, posted receives that wait for a message, in order.
    """

    def __init__(self, connection: socket.socket) -> None:
        connection.setblocking(False)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket = connection
        self.is_closed = False
        self.unexpected: dict[int, deque[Arrival]] = defaultdict(deque)
        self.receives: dict[int, deque[Request]] = defaultdict(deque)
        self._unconfirmed: dict[int, Request] = {}  # sends that the other side has not confirmed
        self._out: deque[tuple[memoryview, Request | None]] = deque()
        self._head = bytearray(FRAME.size)
        self._n_read = 0  # bytes of the head, or of the body
        self._incoming: Arrival | None = None

    # ---------------------------------------------------------------- out
    @property
    def has_output(self) -> bool:
        """Whether output waits to be written."""
        return bool(self._out)

    def send(self, tag: int, request: Request, number: int = 0) -> None:
        """Begins to send a request's buffer; with a number it is done when it is confirmed."""
        if self.is_closed:
            return
        if number:
            self._unconfirmed[number] = request
        done_when_written = None if number else request
        head = FRAME.pack(tag, number, request.buffer.nbytes)
        self._write_frame(head, request.buffer, done_when_written)

    def _write_frame(self, head: bytes, body: memoryview | None, request: Request | None) -> None:
        parts = [memoryview(head)] if body is None else [memoryview(head), body]
        sent = 0
        if not self._out:
            try:
                sent = self.socket.sendmsg(parts)
            except BlockingIOError:
                pass
            except OSError:
                self.end()
                return
            except BaseException:
                self.cut()
                raise
        for index, part in enumerate(parts):
            if sent < part.nbytes:
                is_last = index == len(parts) - 1
                self._out.append((part[sent:], request if is_last else None))
            sent = max(0, sent - part.nbytes)
        if not self._out and request is not None:
            request.is_done = True

    def write(self) -> None:
        """Writes as much waiting output as the kernel accepts."""
        try:
            self._write()
        except BaseException:
            self.cut()
            raise

    def _write(self) -> None:
        while self._out and not self.is_closed:
            part, request = self._out[0]
            try:
                n = self.socket.send(part)
            except BlockingIOError:
                return
            except OSError:
                self.end()
                return
            if n < part.nbytes:
                self._out[0] = (part[n:], request)
                return
            self._out.popleft()
            if request is not None:
                request.is_done = True

    # ---------------------------------------------------------------- in
    def receive(self, tag: int, request: Request) -> None:
        """Begins to receive into a request's buffer."""
        if not self.unexpected[tag]:
            self.receives[tag].append(request)
            return
        message = self.unexpected[tag].popleft()
        message.request = request
        self._confirm(message)
        if message.is_complete:
            self._complete(message)

    def read(self) -> None:
        """Reads what has come, up to the end of a message."""
        try:
            self._read()
        except Broken:
            raise
        except BaseException:
            self.cut()
            raise

    def _read(self) -> None:
        try:
            if self._incoming is None and not self._read_head():
                return
            message = self._incoming
            assert message is not None
            while self._n_read < message.buffer.nbytes:
                n = self.socket.recv_into(message.buffer[self._n_read :])
                if not n:
                    self.end()
                    return
                self._n_read += n
        except BlockingIOError:
            return
        except Broken:
            self.cut()
            raise
        except OSError:
            self.end()
            return
        self._incoming, self._n_read = None, 0
        message.is_complete = True
        if message.request is not None:
            self._complete(message)

    def _read_head(self) -> bool:
        """Reads a head; returns whether a body follows."""
        view = memoryview(self._head)
        while self._n_read < FRAME.size:
            n = self.socket.recv_into(view[self._n_read :])
            if not n:
                self.end()
                return False
            self._n_read += n
        self._n_read = 0
        tag, number, nbytes = FRAME.unpack(self._head)
        if tag == TAKEN and number in self._unconfirmed:
            self._unconfirmed.pop(number).is_done = True
            return False
        if tag == TAKEN:
            raise Broken(f"a frame confirms a message that was not sent: {number}")
        if nbytes > PIECE:
            raise Broken(f"a frame of {nbytes} bytes where at most {PIECE} are expected")
        request = self.receives[tag].popleft() if self.receives[tag] else None
        if request is not None and request.buffer.nbytes == nbytes:
            self._incoming = Arrival(request.buffer, number, request)
            self._confirm(self._incoming)
        else:
            self._incoming = Arrival(memoryview(bytearray(nbytes)), number, request)
            if request is None:
                self.unexpected[tag].append(self._incoming)
        return True

    def _confirm(self, message: Arrival) -> None:
        if message.number and not self.is_closed:
            self._write_frame(FRAME.pack(TAKEN, message.number, 0), None, None)

    def _complete(self, message: Arrival) -> None:
        request = message.request
        assert request is not None
        if message.buffer is not request.buffer:
            n = message.buffer.nbytes
            if n > request.buffer.nbytes:
                raise Broken(f"a message of {n} bytes where {request.buffer.nbytes} are expected")
            request.buffer[:n] = message.buffer
        request.is_done = True

    # ---------------------------------------------------------------- the end
    def cut(self) -> None:
        """Ends the connection for both sides. Note [Cut frames]."""
        with suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)
        self.end()

    def end(self) -> None:
        """Marks the connection as closed by the other side: nothing is written any more."""
        self.is_closed = True
        self._out.clear()
