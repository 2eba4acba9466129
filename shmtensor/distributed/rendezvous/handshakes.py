"""Connections that come to a listener: each has to say who it is before it is served.

One thread goes on with all handshakes at once, so that a silent client delays nobody:

| what | bound |
|---|---|
| handshakes at once | `limit`; a further client takes the place of the oldest |
| time of a handshake | PATIENCE |
| bytes read | fixed numbers, or one control message |
| no free descriptor | a new client takes the oldest's; without one, the listener rests for PAUSE |

A client whose place was taken connects again. Both proofs of a secret, each an HMAC-SHA256 of both
nonces and the prover's role, so that neither can be sent back or used again:

```
server -> client   MAGIC | nonce 32 B
client -> server   nonce 32 B | proof 32 B
server -> client   1 | proof 32 B         or, before it closes the connection, 0 | 32 zero bytes
```
"""

from __future__ import annotations

import errno
import hmac
import os
import selectors
import socket
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from multiprocessing import AuthenticationError
from typing import Any

Handshake = Generator[int, bytes, Any]
"""Yields how many bytes it waits for, gets them, and returns who the other side is; of 0 bytes: it
reads itself, once there may be something. Raises: OSError for one that is not served.
"""

LIMIT = 64  # handshakes at once, beside those of the expected clients
PATIENCE = 3.0  # seconds of a handshake
LONGEST_WAIT = 3600.0  # seconds; the kernel's limit is 24 days
PAUSE = 0.05  # seconds that a listener rests when there is no descriptor for a new connection
BACKLOG = 4096  # connections that wait for `accept`; the kernel may lower it
NO_RESOURCES = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
MAGIC = b"shmtsto2"  # the number increases when the messages change
NONCE = DIGEST = 32  # bytes
REFUSAL = bytes(1 + DIGEST)


@dataclass
class Pending:
    """A handshake that is under way."""

    handshake: Handshake
    needed: int  # bytes of its next step
    data: bytes
    deadline: float


class Handshakes:
    """The handshakes of all clients of a listener; `with` ends them. The listener stays open.

    Args:
        start: begins the handshake of a connection, which does not block.
    """

    def __init__(
        self,
        listener: socket.socket,
        start: Callable[[socket.socket], Handshake],
        limit: int = LIMIT,
    ) -> None:
        self._listener, self._start, self._limit = listener, start, limit
        self._pending: dict[socket.socket, Pending] = {}  # the oldest first
        self._complete: deque[tuple[socket.socket, Any]] = deque()
        self._resume_at = 0.0  # when a listener that rests is read again
        listener.setblocking(False)
        self._selector = selectors.EpollSelector()
        self._selector.register(listener, selectors.EVENT_READ)

    def __enter__(self) -> Handshakes:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def fileno(self) -> int:
        """A descriptor that is readable when `poll` has something to do."""
        return self._selector.fileno()

    @property
    def deadline(self) -> float:
        """When `poll` has something to do although the descriptor is not readable, by the monotonic
        clock; infinity for never.
        """
        deadline = self._resume_at or float("inf")
        if self._pending:
            deadline = min(deadline, next(iter(self._pending.values())).deadline)
        return deadline

    def poll(self, timeout: float | None) -> Iterator[tuple[socket.socket, Any]]:
        """Goes on with all handshakes. Waits at most `timeout` seconds (None: no limit) until there
        is something to do, which may complete no handshake.

        Returns: connections that are complete, which block again, and who they are.
        """
        limit = LONGEST_WAIT if timeout is None else min(timeout, LONGEST_WAIT)
        remaining = max(0.0, min(limit, self.deadline - time.monotonic()))
        has_new = False
        for key, _ in self._selector.select(remaining):
            if key.fileobj is self._listener:
                has_new = True
            else:
                self._advance(key.fileobj)
        if has_new:  # last: who has sent something is not replaced by who has not
            self._accept()
        now = time.monotonic()
        if self._resume_at and now >= self._resume_at:
            self._resume_at = 0.0
            self._selector.register(self._listener, selectors.EVENT_READ)
        while self.deadline <= now and self._pending:
            self._drop_oldest()
        while self._complete:
            yield self._complete.popleft()

    def _accept(self) -> None:
        for _ in range(max(1, self._limit - len(self._pending))):
            try:
                connection, _ = self._listener.accept()
            except OSError as error:
                if error.errno in NO_RESOURCES:
                    if not self._pending:
                        self._selector.unregister(self._listener)
                        self._resume_at = time.monotonic() + PAUSE
                        return
                    self._drop_oldest()
                    continue
                return  # there are no more, or the client has left
            if len(self._pending) >= self._limit:
                self._drop_oldest()
            self._begin(connection)

    def _begin(self, connection: socket.socket) -> None:
        connection.setblocking(False)
        handshake = self._start(connection)
        try:
            needed = next(handshake)
            self._selector.register(connection, selectors.EVENT_READ)
        except OSError:  # it is not served
            connection.close()
            return
        deadline = time.monotonic() + PATIENCE
        self._pending[connection] = Pending(handshake, needed, b"", deadline)
        self._advance(connection)

    def _advance(self, connection: Any) -> None:
        pending = self._pending[connection]
        try:
            missing = pending.needed - len(pending.data)
            part = connection.recv(missing) if missing else b""
            pending.data += part
            if len(pending.data) == pending.needed:
                pending.needed, pending.data = pending.handshake.send(pending.data), b""
            elif not part:
                self._drop(connection)
        except BlockingIOError:
            return
        except StopIteration as end:
            self._forget(connection)
            connection.setblocking(True)
            self._complete.append((connection, end.value))
        except OSError:  # it has left, or is not served
            self._drop(connection)

    def _forget(self, connection: socket.socket) -> None:
        self._selector.unregister(connection)
        del self._pending[connection]

    def _drop(self, connection: socket.socket) -> None:
        self._forget(connection)
        connection.close()

    def _drop_oldest(self) -> None:
        self._drop(next(iter(self._pending)))

    def close(self) -> None:
        """Closes the connections that `poll` has not returned."""
        self._selector.close()
        for connection in (*self._pending, *(each for each, _ in self._complete)):
            connection.close()
        self._pending.clear()
        self._complete.clear()


# ---------------------------------------------------------------- both know a secret
def proof(secret: bytes, role: bytes, server_nonce: bytes, client_nonce: bytes) -> bytes:
    return hmac.digest(secret, role + server_nonce + client_nonce, "sha256")


def prove_to_client(connection: socket.socket, secret: bytes) -> Handshake:
    """The server's side, for Handshakes: only a client that knows the secret is served."""
    nonce = os.urandom(NONCE)
    connection.send(MAGIC + nonce)  # a new connection has room for it
    answer = yield NONCE + DIGEST
    client_nonce, client_proof = answer[:NONCE], answer[NONCE:]
    if not hmac.compare_digest(client_proof, proof(secret, b"client", nonce, client_nonce)):
        connection.send(REFUSAL)
        raise ConnectionRefusedError("the client does not know the secret")
    connection.send(b"\1" + proof(secret, b"server", nonce, client_nonce))


def prove_to_server(connection: socket.socket, secret: bytes, deadline: float) -> None:
    """The client's side; waits until the deadline of the monotonic clock.

    Raises:
        AuthenticationError: one side does not know the secret, or the server is another program.
        OSError: the server closed the connection before it answered, or did not answer in time.
    """
    nonce = os.urandom(NONCE)
    greeting = receive_exactly(connection, len(MAGIC) + NONCE, deadline)
    if not greeting.startswith(MAGIC):
        raise AuthenticationError("the server is another program, or another version")
    server_nonce = greeting[len(MAGIC) :]
    connection.sendall(nonce + proof(secret, b"client", server_nonce, nonce))
    answer = receive_exactly(connection, 1 + DIGEST, deadline)
    if not hmac.compare_digest(answer, b"\1" + proof(secret, b"server", server_nonce, nonce)):
        raise AuthenticationError("the secrets differ")


def receive_exactly(connection: socket.socket, n: int, deadline: float) -> bytes:
    """n bytes. Raises: TimeoutError, ConnectionResetError: they did not come."""
    data = b""
    while len(data) < n:
        connection.settimeout(min(max(1e-3, deadline - time.monotonic()), LONGEST_WAIT))
        part = connection.recv(n - len(data))
        if not part:
            raise ConnectionResetError("the other side has closed the connection")
        data += part
    return data
