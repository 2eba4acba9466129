"""Pipe: a socket as in the standard library, whose messages carry tensors as handles.

`fileno` and `multiprocessing.connection.wait` work, because there is a descriptor. Bytes are sent
through the socket, blocks through the ledger: their entries in flight name a token block that both
ends hold. The entries become void when both ends are closed.
"""

from __future__ import annotations

import os
import socket
import struct
from multiprocessing import connection, reduction
from multiprocessing.connection import Client, Listener, wait
from typing import Any

from shmtensor import native

from .reduction import dumps, loads
from .shared_object import Shared

__all__ = ["Client", "Connection", "Listener", "Pipe", "wait"]

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

    def send(self, obj: Any) -> None:
        """Sends a picklable object. Copies: none for what is in shared memory."""
        untyped: Any = self  # the stubs of the standard library lack these methods
        untyped._check_closed()
        untyped._check_writable()
        data, blocks = dumps(obj)
        handles = [native.export(block, self._token._block) for block in blocks]
        try:
            untyped._send_bytes(
                b"".join(
                    (_HEADER.pack(len(handles), len(handles[0]) if handles else 0), *handles, data)
                )
            )
        except BaseException:
            for handle in handles:
                native.acknowledge(handle)
            raise

    def recv(self) -> Any:
        """The next object; raises EOFError when the other end is closed and no message remains."""
        untyped: Any = self  # the stubs of the standard library lack these methods
        untyped._check_closed()
        untyped._check_readable()
        message = untyped._recv_bytes().getbuffer()
        n, size = _HEADER.unpack_from(message)
        end = _HEADER.size + n * size
        handles = (
            [bytes(message[at : at + size]) for at in range(_HEADER.size, end, size)] if n else []
        )
        return loads(message[end:], [native.receive(handle, True) for handle in handles])

    def __reduce__(self) -> tuple[Any, ...]:
        fd = reduction.DupFd(self.fileno())
        return _rebuild, (fd, self.readable, self.writable, self._token)


def _rebuild(fd: Any, readable: bool, writable: bool, token: _Token) -> Connection:
    return Connection(fd.detach(), readable, writable, token)


def Pipe(duplex: bool = True) -> tuple[Connection, Connection]:
    """Two connected ends: both send and receive, or (duplex=False) the first receives what the
    second sends."""
    token = _Token()
    if duplex:
        one, other = socket.socketpair()
        return Connection(one.detach(), token=token), Connection(other.detach(), token=token)
    read, write = os.pipe()
    return Connection(read, writable=False, token=token), Connection(
        write, readable=False, token=token
    )
