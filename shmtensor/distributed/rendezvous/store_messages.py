"""The frame of what goes over TCP, the messages of a TCPStore, and the client's end of them.

```
frame     code u32  | number u32 | nbytes u64 | bytes        also between ranks: backends/tcp
request   operation | number     | nbytes     | parts, each: length u32, bytes
answer    success   | number     | nbytes     | parts; without success: why
```

Requests are numbered, and each has one answer with its number, except a WAIT whose client sends
its next request first. Every message is at most MAX_BYTES long; memory for it grows as it comes.

A signal handler that raises (Ctrl-C) may end a call of the client at any instruction:

| interrupted | the server | the next call |
|---|---|---|
| before the message is outgoing | gets no request | as usual |
| while it is sent | gets the rest later | sends the rest first, drops that answer |
| while the answer is awaited | carries it out; ends a WAIT | drops that answer by its number |
| while the answer is read | has carried it out | reads the rest of it, and drops it |

So the connection stays usable, and its end still means the end of the process (`set_when_gone`). An
interrupted call may have been carried out, or may be with the next call.

The counts and bytes of `send` and `recv` are kept as Note [Bytes under interruption] says
(multiprocessing/child_pipe.py).
"""

from __future__ import annotations

import errno
import os
import socket
import struct
from collections.abc import Sequence

FRAME = struct.Struct("<IIQ")
PART = struct.Struct("<I")
MAX_BYTES = 1 << 30  # of the parts of a message
CHUNK = 1 << 20  # bytes of one read


def pack(code: int, number: int, parts: Sequence[bytes]) -> bytes:
    """A message. Raises: ValueError: it is longer than MAX_BYTES."""
    nbytes = sum(PART.size + len(part) for part in parts)
    if nbytes > MAX_BYTES:
        raise ValueError(f"TCPStore: a message is too long: {nbytes} bytes, at most {MAX_BYTES}")
    pieces = [FRAME.pack(code, number, nbytes)]
    for part in parts:
        pieces += (PART.pack(len(part)), part)
    return b"".join(pieces)


def unpack_parts(data: bytes) -> list[bytes]:
    """The parts of a message. Raises: ValueError: they do not end where the message ends.

    >>> unpack_parts(b"\\1\\0\\0\\0a" b"\\2\\0\\0\\0bc")
    [b'a', b'bc']
    """
    parts, at = [], 0
    while at < len(data):
        start = at + PART.size
        size = PART.unpack_from(data, at)[0] if start <= len(data) else 0
        at = start + size
        if at > len(data):
            raise ValueError(f"a part ends at byte {at} of {len(data)}")
        parts.append(data[start:at])
    return parts


class Exchange:
    """The client's end of a connection: one request at a time, and its answer.

    Args:
        connection: blocks; belongs to the object from now on.
    """

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self._number = 0
        self._outgoing: tuple[bytes, list[int]] = (b"", [])  # a message; how many bytes were sent
        self._incoming: list[bytes] = []  # what has come of the next answers

    def ask(self, code: int, parts: Sequence[bytes]) -> tuple[bool, list[bytes]]:
        """Sends a request and waits for its answer; returns success, and the answer's parts.

        Raises:
            ValueError: the request is longer than MAX_BYTES.
            OSError: the connection has ended; with an errno.
        """
        self._send_rest()
        number = self._number = (self._number + 1) % (1 << 32)
        self._outgoing = pack(code, number, parts), []
        self._send_rest()
        self._outgoing = (b"", [])
        while True:
            success, answered, data = self._read_message()
            if answered == number:
                return bool(success), unpack_parts(data)

    def _send_rest(self) -> None:
        """Sends what is left of the outgoing message. Note [Bytes under interruption]."""
        message, counts = self._outgoing
        while (sent := sum(counts)) < len(message):
            counts.extend(map(self.connection.send, (memoryview(message)[sent:],)))

    def _read_message(self) -> tuple[int, int, bytes]:
        self._read(FRAME.size)
        code, number, nbytes = FRAME.unpack_from(b"".join(self._incoming))
        if nbytes > MAX_BYTES:
            text = f"an answer is too long: {nbytes} bytes, at most {MAX_BYTES}"
            raise ConnectionError(errno.EMSGSIZE, text)
        end = FRAME.size + nbytes
        self._read(end)
        data = b"".join(self._incoming)[FRAME.size :]
        self._incoming = []
        return code, number, data

    def _read(self, n: int) -> None:
        """Reads until n bytes have come. Note [Bytes under interruption]."""
        while (missing := n - sum(map(len, self._incoming))) > 0:
            self._incoming.extend(map(self.connection.recv, (min(missing, CHUNK),)))
            if not self._incoming[-1]:
                raise ConnectionResetError(errno.ECONNRESET, os.strerror(errno.ECONNRESET))

    def close(self) -> None:
        self.connection.close()
