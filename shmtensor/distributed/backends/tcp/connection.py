"""One connection to another rank: frames, what waits to be written, what has come.

```
frame   tag u32 | number u32 | nbytes u64 | data       number 0, or: tell me when you take it
        TAKEN   | number     | 0                       it is being taken
```

Nothing here waits. A message goes straight into the buffer of the receive that asked for it, if
that was there first (Copies: none here), else into memory of its own until one asks.
"""

from __future__ import annotations

import socket
import struct
from collections import defaultdict, deque
from typing import Any

__all__ = ["TAKEN", "Arrival", "Broken", "Link", "Request"]

FRAME = struct.Struct("<IIQ")
TAKEN = 0xFFFFFFFF


class Broken(OSError):
    """A peer sent what nobody can have asked for."""


class Request:
    """Something that was begun: it is done, or not yet."""

    __slots__ = ("buffer", "is_done", "links")

    def __init__(self, links: Any, buffer: memoryview) -> None:
        self.links, self.buffer = links, buffer
        self.is_done = False

    def Test(self) -> bool:
        """Whether it is done, as far as is known."""
        return self.is_done

    @staticmethod
    def Testall(requests: list[Request]) -> bool:
        """Whether all are done, after a look at the connections."""
        for each in requests:
            if not each.is_done:
                each.links.progress()
                return all(r.is_done for r in requests)
        return True


class Arrival:
    """A message that is coming or has come, and where its bytes go."""

    __slots__ = ("buffer", "is_whole", "number", "request")

    def __init__(self, buffer: memoryview, number: int, request: Request | None) -> None:
        self.buffer, self.number, self.request = buffer, number, request
        self.is_whole = False


class Link:
    """One end of a connection, which does not block.

    Attributes:
        ended: whether the other side is gone.
        arrived: by tag, messages that nobody has asked for yet, in order.
        posted: by tag, receives that wait for a message, in order.
    """

    def __init__(self, connection: socket.socket) -> None:
        connection.setblocking(False)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket = connection
        self.ended = False
        self.arrived: dict[int, deque[Arrival]] = defaultdict(deque)
        self.posted: dict[int, deque[Request]] = defaultdict(deque)
        self._waiting: dict[int, Request] = {}  # until the other side takes it
        self._out: deque[tuple[memoryview, Request | None]] = deque()
        self._head = bytearray(FRAME.size)
        self._have = 0  # of the head, or of the body
        self._coming: Arrival | None = None

    # ---------------------------------------------------------------- out
    @property
    def is_behind(self) -> bool:
        """Whether something waits to be written."""
        return bool(self._out)

    def send(self, tag: int, request: Request, number: int = 0) -> None:
        """Begins to send a request's buffer; with a number it is done when it is being taken."""
        if self.ended:
            return
        if number:
            self._waiting[number] = request
        done = None if number else request
        self._put(FRAME.pack(tag, number, request.buffer.nbytes), request.buffer, done)

    def _put(self, head: bytes, body: memoryview | None, request: Request | None) -> None:
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
        for at, part in enumerate(parts):
            if sent < part.nbytes:
                is_last = at == len(parts) - 1
                self._out.append((part[sent:], request if is_last else None))
            sent = max(0, sent - part.nbytes)
        if not self._out and request is not None:
            request.is_done = True

    def write(self) -> None:
        """Writes what waits, as far as the kernel takes it."""
        while self._out and not self.ended:
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
        if not self.arrived[tag]:
            self.posted[tag].append(request)
            return
        came = self.arrived[tag].popleft()
        came.request = request
        self._received(came)
        if came.is_whole:
            self._hand_over(came)

    def read(self) -> None:
        """Takes what is there, up to the end of a message."""
        try:
            if self._coming is None and not self._read_head():
                return
            came = self._coming
            assert came is not None
            while self._have < came.buffer.nbytes:
                n = self.socket.recv_into(came.buffer[self._have :])
                if not n:
                    self.end()
                    return
                self._have += n
        except BlockingIOError:
            return
        except OSError:
            self.end()
            return
        self._coming, self._have = None, 0
        came.is_whole = True
        if came.request is not None:
            self._hand_over(came)

    def _read_head(self) -> bool:
        """Whether a message begins; its body is read next."""
        view = memoryview(self._head)
        while self._have < FRAME.size:
            n = self.socket.recv_into(view[self._have :])
            if not n:
                self.end()
                return False
            self._have += n
        self._have = 0
        tag, number, nbytes = FRAME.unpack(self._head)
        if tag == TAKEN:
            self._waiting.pop(number).is_done = True
            return False
        request = self.posted[tag].popleft() if self.posted[tag] else None
        if request is not None and request.buffer.nbytes == nbytes:
            self._coming = Arrival(request.buffer, number, request)
            self._received(self._coming)
        else:
            self._coming = Arrival(memoryview(bytearray(nbytes)), number, request)
            if request is None:
                self.arrived[tag].append(self._coming)
        return True

    def _received(self, came: Arrival) -> None:
        if came.number and not self.ended:
            self._put(FRAME.pack(TAKEN, came.number, 0), None, None)

    def _hand_over(self, came: Arrival) -> None:
        request = came.request
        assert request is not None
        if came.buffer is not request.buffer:
            n = came.buffer.nbytes
            if n > request.buffer.nbytes:
                raise Broken(f"a message of {n} bytes where {request.buffer.nbytes} are expected")
            request.buffer[:n] = came.buffer
        request.is_done = True

    # ---------------------------------------------------------------- the end
    def end(self) -> None:
        """The other side is gone: nothing is written any more."""
        self.ended = True
        self._out.clear()
