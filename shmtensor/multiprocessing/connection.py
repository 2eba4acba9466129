"""Pipe: a socket as in the standard library, whose messages carry tensors as handles.

`fileno` and `multiprocessing.connection.wait` work, because there is a descriptor. Bytes are sent
through the socket, blocks through the ledger: their entries in flight name a token block that both
ends hold. The entries become void when both ends are closed.

A `send` or `recv` that a signal handler interrupts by raising leaves the pipe usable: what has come
of a message is kept for the next `recv`, and the rest of one that was sent in part goes before the
next message. `wait` looks at the descriptor alone: after an interrupted `recv` ask `poll`.
Note [Bytes under interruption] in child_pipe.py.
"""

from __future__ import annotations

import io
import os
import socket
import struct
from multiprocessing import connection, reduction
from multiprocessing.connection import Client, Listener, wait
from typing import Any

from shmtensor import native

from . import reduce_cuda
from .reduction import dumps, loads
from .shared_object import Shared

__all__ = ["Client", "Connection", "Listener", "Pipe", "wait"]

_MAX_INT = (1 << 31) - 1
_LENGTH, _LONG_LENGTH = struct.Struct("!i"), struct.Struct("!Q")  # of a message; -1: a long one
# A message that is sent, and the bytes of each write.
_NOTHING: tuple[bytes, list[int]] = (b"", [])
_HEADER = struct.Struct("<II")  # how many handles follow, and the size of one


class _Token(Shared):
    """The block that the entries in flight of unread messages name."""

    def __init__(self) -> None:
        self._block = native.allocate(64, zero=True, shared=True)


class Connection(connection.Connection):
    """One end of a Pipe."""

    def __init__(
        self, handle: int, readable: bool = True, writable: bool = True, token: _Token | None = None
    ) -> None:
        super().__init__(handle, readable, writable)
        self._token = token if token is not None else _Token()
        self._outgoing = _NOTHING
        self._incoming: tuple[list[bytes], list[bytes]] = ([], [])  # of a length, of its message

    def send(self, obj: Any) -> None:
        """Sends a picklable object. Copies: none for what is in shared memory."""
        untyped: Any = self  # the stubs of the standard library lack these methods
        untyped._check_closed()
        untyped._check_writable()
        gpu = reduce_cuda.Handles(self._token._block)
        data, blocks = dumps(obj, gpu)
        handles = [native.export(block, self._token._block) for block in blocks]
        head = _HEADER.pack(len(handles), len(handles[0]) if handles else 0)
        message = b"".join((head, *handles, data))
        counts: list[int] = []
        try:
            self._send_message(message, counts)
        except BaseException:
            if not counts:  # else the rest, with the handles, goes before the next message
                if self._outgoing[1] is counts:
                    self._outgoing = _NOTHING
                for handle in handles:
                    native.acknowledge(handle)
                gpu.discard()
            raise

    def recv(self) -> Any:
        """The next object; raises EOFError when the other end is closed and no message remains."""
        untyped: Any = self  # the stubs of the standard library lack these methods
        untyped._check_closed()
        untyped._check_readable()
        message = memoryview(self._receive() or b"")
        n, size = _HEADER.unpack_from(message)
        end = _HEADER.size + n * size
        handles = (
            [bytes(message[at : at + size]) for at in range(_HEADER.size, end, size)] if n else []
        )
        return loads(message[end:], [native.receive(handle, True) for handle in handles])

    # ---------------------------------------------------------------- messages
    # As the standard library's, but for interrupted calls.
    def _send_bytes(self, buf: Any) -> None:
        self._send_message(buf, [])

    def _send_message(self, data: Any, counts: list[int]) -> None:
        """Sends a message; adds the bytes of each write to `counts`."""
        n = len(data)
        head = _LENGTH.pack(n) if n <= _MAX_INT else _LENGTH.pack(-1) + _LONG_LENGTH.pack(n)
        if self._outgoing is not _NOTHING:
            self._send_rest()
        self._outgoing = b"".join((head, data)), counts
        self._send_rest()
        self._outgoing = _NOTHING

    def _send_rest(self) -> None:
        """Sends what is left of the outgoing message. Note [Bytes under interruption]."""
        message, counts = self._outgoing
        while (sent := sum(counts)) < len(message):
            part = memoryview(message)[sent:] if sent else message
            counts.extend(map(os.write, (self.fileno(),), (part,)))

    def _poll(self, timeout: float | None) -> bool:
        """Also True for a message, or a part of one, that an interrupted `recv` has read."""
        untyped: Any = super()
        return any(self._incoming[0]) or untyped._poll(timeout)

    def _recv_bytes(self, maxsize: int | None = None) -> io.BytesIO | None:
        data = self._receive(maxsize)
        return None if data is None else io.BytesIO(data)

    def _receive(self, maxsize: int | None = None) -> bytes | None:
        """The bytes of the next message; None if they are more than `maxsize`."""
        head, body = self._incoming
        fd = self.fileno()
        data = self._read(fd, head, _LENGTH.size)
        (size,) = _LENGTH.unpack_from(data)
        if size == -1:
            data = self._read(fd, head, _LENGTH.size + _LONG_LENGTH.size)
            (size,) = _LONG_LENGTH.unpack_from(data, _LENGTH.size)
        if maxsize is not None and size > maxsize:
            return None
        data = self._read(fd, body, size)
        self._incoming = ([], [])
        return data

    def _read(self, fd: int, chunks: list[bytes], n: int) -> bytes:
        """Reads until the chunks have n bytes. Note [Bytes under interruption]."""
        missing = n - sum(map(len, chunks)) if chunks else n
        while missing > 0:
            chunks.extend(map(os.read, (fd,), (missing,)))
            if not chunks[-1]:
                if not any(self._incoming[0]):
                    raise EOFError
                raise OSError("got end of file during message")
            missing = n - sum(map(len, chunks))
        return chunks[0] if len(chunks) == 1 else b"".join(chunks)

    def __reduce__(self) -> tuple[Any, ...]:
        fd = reduction.DupFd(self.fileno())
        return _rebuild, (fd, self.readable, self.writable, self._token)


def _rebuild(fd: Any, readable: bool, writable: bool, token: _Token) -> Connection:
    return Connection(fd.detach(), readable, writable, token)


def Pipe(duplex: bool = True) -> tuple[Connection, Connection]:
    """Two connected ends.

    Parameters
    ----------
    duplex : bool, optional
        Whether both ends send and receive; else the first receives what the second sends.

    Returns
    -------
    (first, second) : Connection, Connection

    Notes
    -----
    Copies: none of a shared tensor.

    Examples
    --------
    >>> from shmtensor import multiprocessing as mp
    >>> receiver, sender = mp.Pipe(duplex=False)
    >>> sender.send(st.ones(2))
    >>> receiver.recv()
    tensor([1., 1.])
    >>> receiver.close()
    >>> sender.close()
    """
    token = _Token()
    if duplex:
        one, other = socket.socketpair()
        return Connection(one.detach(), token=token), Connection(other.detach(), token=token)
    read, write = os.pipe()
    return Connection(read, writable=False, token=token), Connection(
        write, readable=False, token=token
    )
