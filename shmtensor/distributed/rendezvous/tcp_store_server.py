"""The server of a TCPStore: one thread that serves all clients, each connection without waiting.

```
listener ──> Handshakes: clients that have not proven that they know the secret, LIMIT at most
                 │
                 └─> Client: requests ──> values ──> answers        a WAIT is answered when all its
                                                                    keys have come, or at its end
```

A client's next request is handled when it has taken the last answer, so each has at most one answer
that waits. A request that is malformed, or cannot be carried out, is answered by the reason. When
no descriptor is free for new clients, the connected ones are still served.
"""

from __future__ import annotations

import math
import os
import selectors
import socket
import threading
import time
import weakref
from contextlib import suppress

from .handshakes import BACKLOG, Handshakes, prove_to_client
from .hosts import is_silent, keep_alive
from .store import HashStore
from .store_messages import FRAME, MAX_BYTES, pack, unpack_parts

SET, ADD, APPEND, COMPARE, DELETE, GET, KEYS, WAIT, WILL, POP = range(10)
# Operation: how many parts its request has, at least and at most.
PARTS = {SET: (2, 2), ADD: (2, 2), APPEND: (2, 2), COMPARE: (3, 3), DELETE: (1, 1), GET: (1, 1)}
PARTS |= {KEYS: (0, 0), WAIT: (1, MAX_BYTES), WILL: (2, 2), POP: (1, 1)}
WORKERS = "\0workers"  # the key of the number of clients
CHUNK = 1 << 18  # bytes of one read
CHECK = 1.0  # seconds between two checks for machines that no longer answer
DIGITS = 20  # of a 64-bit number, and of a time in seconds


class Client:
    """A connection to a client that knows the secret."""

    def __init__(self, connection: socket.socket) -> None:
        connection.setblocking(False)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        # Not `is_read`: an interrupted client reads the rest of an answer with its next call.
        keep_alive(connection)
        self.connection = connection
        self.incoming = bytearray()
        self.outgoing = memoryview(b"")
        self.is_writing = False  # registered for write events
        self.will: tuple[str, bytes] | None = None  # set when the connection has ended
        self.wait: Wait | None = None
        self.is_refused = False  # its last message was too long: nothing more is read


class Wait:
    """A client waits until all keys have come, at most until the deadline."""

    def __init__(self, client: Client, number: int, keys: list[str], deadline: float) -> None:
        self.client, self.number, self.keys, self.deadline = client, number, keys, deadline
        self.missing: set[str] = set()


class Server:
    """The store's values, and the thread that serves them until `close`."""

    def __init__(self, host: str, port: int, secret: bytes) -> None:
        self.values = HashStore()
        self._clients: set[Client] = set()
        self._broken: list[Client] = []  # clients whose connections have ended
        self._waits: set[Wait] = set()
        self._next_check = 0.0
        self._is_closed = False
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self.listener = socket.socket(family, socket.SOCK_STREAM)
        try:
            self.listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self.listener.bind((host, port))
            self.listener.listen(BACKLOG)
            self._handshakes = Handshakes(self.listener, lambda each: prove_to_client(each, secret))
        except BaseException as error:
            self.listener.close()
            if isinstance(error, OSError):
                message = f"TCPStore: cannot listen at {host}:{port}: {error.strerror}"
                raise OSError(error.errno, message) from None
            raise
        self.port: int = self.listener.getsockname()[1]
        self._selector = selectors.EpollSelector()
        self._selector.register(self._handshakes, selectors.EVENT_READ)
        self._thread = threading.Thread(target=self._run, name="TCPStore", daemon=True)
        self._thread.start()
        servers.add(self)

    # ---------------------------------------------------------------- the thread
    def _run(self) -> None:
        while not self._is_closed:
            deadline = handshake_deadline = self._handshakes.deadline
            if self._clients:
                deadline = min(deadline, self._next_check)
            for wait in self._waits:
                deadline = min(deadline, wait.deadline)
            timeout = None if deadline == math.inf else max(0.0, deadline - time.monotonic())
            has_strangers = False
            for key, events in self._selector.select(timeout):
                if key.data is None:
                    has_strangers = True
                else:
                    self._serve(key.data, events)
            now = time.monotonic()
            if has_strangers or now >= handshake_deadline:
                for connection, _ in self._handshakes.poll(0):
                    self._add(connection)
            for wait in [each for each in self._waits if each.deadline <= now]:
                self._check_wait(wait)
            if now >= self._next_check:
                self._check_machines(now)
            while self._broken:
                self._drop(self._broken.pop())
        self._close_descriptors()

    def _add(self, connection: socket.socket) -> None:
        try:
            client = Client(connection)
            self._selector.register(connection, selectors.EVENT_READ, client)
        except OSError:  # it has left
            connection.close()
            return
        self._clients.add(client)

    def _serve(self, client: Client, events: int) -> None:
        """Reads or writes what is possible, and handles the requests that have come."""
        try:
            if events & selectors.EVENT_READ:
                part = client.connection.recv(CHUNK)
                if not part:
                    raise ConnectionResetError("the client has ended")
                if not client.is_refused:
                    client.incoming += part
        except BlockingIOError:
            return
        except (OSError, MemoryError):
            self._broken.append(client)
            return
        try:
            if client.outgoing or client.is_refused:
                self._write(client)
            while not client.outgoing and self._handle_next(client):
                pass
        except MemoryError:
            self._broken.append(client)

    def _write(self, client: Client) -> None:
        """Writes what the kernel takes of the outgoing answer."""
        try:
            while client.outgoing:
                client.outgoing = client.outgoing[client.connection.send(client.outgoing) :]
            client.outgoing = memoryview(b"")  # frees the answer
            if client.is_refused:
                client.connection.shutdown(socket.SHUT_WR)
        except BlockingIOError:
            pass  # the selector tells when there is room
        except OSError:
            client.outgoing = memoryview(b"")
            self._broken.append(client)
            return
        if client.is_writing != bool(client.outgoing):
            client.is_writing = not client.is_writing
            event = selectors.EVENT_WRITE if client.is_writing else selectors.EVENT_READ
            self._selector.modify(client.connection, event, client)

    def _drop(self, client: Client) -> None:
        if client not in self._clients:
            return
        self._clients.remove(client)
        self._selector.unregister(client.connection)
        client.connection.close()
        self._forget_wait(client)
        if client.will:
            self.values.set(*client.will)
            self._wake(client.will[0])

    def _check_machines(self, now: float) -> None:
        self._next_check = now + CHECK
        self._broken += [each for each in self._clients if is_silent(each.connection)]

    # ---------------------------------------------------------------- requests
    def _handle_next(self, client: Client) -> bool:
        """Handles the next request; returns False if it has not come entirely."""
        if client.is_refused or len(client.incoming) < FRAME.size:
            return False
        operation, number, nbytes = FRAME.unpack_from(client.incoming)
        end = FRAME.size + nbytes
        if nbytes > MAX_BYTES:
            client.is_refused = True
            client.incoming.clear()
            reason = f"malformed request: it is too long: {nbytes} bytes, at most {MAX_BYTES}"
            self._answer(client, number, False, [reason.encode()])
            return False
        if len(client.incoming) < end:
            return False
        data = bytes(memoryview(client.incoming)[FRAME.size : end])
        del client.incoming[:end]
        self._forget_wait(client)  # whoever sends the next request no longer waits
        try:
            parts = check_parts(operation, data)
            if operation == WAIT:
                self._begin_wait(client, number, parts)
                return True
            answer = self._perform(client, operation, parts)
        except Exception as error:  # one client's request must not end the others' store
            reason = str(error) if isinstance(error, ValueError) else repr(error)
            self._answer(client, number, False, [reason.encode(errors="replace")])
        else:
            self._answer(client, number, True, answer)
        return True

    def _answer(self, client: Client, number: int, success: bool, parts: list[bytes]) -> None:
        try:
            message = pack(success, number, parts)
        except ValueError:
            message = pack(False, number, [b"the answer is too long"])
        client.outgoing = memoryview(message)
        self._write(client)

    def _perform(self, client: Client, operation: int, parts: list[bytes]) -> list[bytes]:
        """Carries out a request; returns the parts of its answer."""
        values = self.values
        if operation == KEYS:
            return [key.encode() for key in values.list_keys() if key != WORKERS]
        key = decode_key(parts[0])
        if operation == GET:
            value = values.try_get(key)
            return [] if value is None else [value]
        if operation == POP:
            value = values.take_first(key)
            return [] if value is None else [value]
        if operation == DELETE:
            return [b"1" if values.delete_key(key) else b"0"]
        if operation == WILL:
            client.will = key, parts[1]
            return []
        answer: list[bytes] = []
        if operation == SET:
            values.set(key, parts[1])
        elif operation == APPEND:
            values.append(key, parts[1])
        elif operation == ADD:
            answer = [str(values.add(key, decode_int64(parts[1]))).encode()]
        else:
            answer = [values.compare_set(key, parts[1], parts[2])]
        self._wake(key)
        return answer

    # ---------------------------------------------------------------- waits
    def _begin_wait(self, client: Client, number: int, parts: list[bytes]) -> None:
        limit = decode_seconds(parts[0])
        deadline = math.inf if limit < 0 else time.monotonic() + limit
        client.wait = Wait(client, number, [decode_key(part) for part in parts[1:]], deadline)
        self._check_wait(client.wait)

    def _check_wait(self, wait: Wait) -> None:
        """Answers a wait if its keys have come or its time is over; else notes what is missing."""
        missing = [key for key in wait.keys if self.values.try_get(key) is None]
        if missing and time.monotonic() < wait.deadline:
            wait.missing = set(missing)
            self._waits.add(wait)
        else:
            self._forget_wait(wait.client)
            self._answer(wait.client, wait.number, True, [key.encode() for key in missing])

    def _wake(self, key: str) -> None:
        """A key has come: answers the waits that miss no other one."""
        if self.values.try_get(key) is None:
            return
        for wait in [each for each in self._waits if key in each.missing]:
            wait.missing.remove(key)
            if not wait.missing:
                self._check_wait(wait)  # keys that came earlier may have been deleted

    def _forget_wait(self, client: Client) -> None:
        if client.wait is not None:
            self._waits.discard(client.wait)
            client.wait = None

    # ---------------------------------------------------------------- the end
    def close(self) -> None:
        """Ends the thread and all connections."""
        self._is_closed = True
        with suppress(OSError):
            self.listener.shutdown(socket.SHUT_RDWR)  # wakes the thread
        self._thread.join(5)
        self.listener.close()

    def _close_descriptors(self) -> None:
        self._handshakes.close()
        self._selector.close()
        for client in list(self._clients):
            client.connection.close()

    def close_in_child(self) -> None:
        """Closes the descriptors in a forked child, which has no such thread: the port and the
        connections are the parent's.
        """
        self.listener.close()
        self._close_descriptors()


def check_parts(operation: int, data: bytes) -> list[bytes]:
    """The parts of a request. Raises: ValueError: it is malformed."""
    try:
        low, high = PARTS[operation]
    except KeyError:
        raise ValueError(
            f"malformed request: operation {operation} is none of 0 to {POP}"
        ) from None
    try:
        parts = unpack_parts(data)
    except ValueError as error:
        raise ValueError(f"malformed request: {error}") from None
    if not low <= len(parts) <= high:
        raise ValueError(f"malformed request: {len(parts)} parts, operation {operation} has {low}")
    return parts


def decode_key(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise ValueError(f"malformed request: a key is not UTF-8: {data[:40]!r}") from None


def decode_int64(data: bytes) -> int:
    try:
        number = int(data[: DIGITS + 1])
    except ValueError:
        number = 1 << 63
    if not -(1 << 63) <= number < 1 << 63 or len(data) > DIGITS:
        raise ValueError(f"malformed request: not a 64-bit number: {data[:40]!r}")
    return number


def decode_seconds(data: bytes) -> float:
    try:
        limit = float(data)
    except ValueError:
        limit = math.nan
    if math.isnan(limit):
        raise ValueError(f"malformed request: not a time in seconds: {data[:40]!r}")
    return limit


servers: weakref.WeakSet[Server] = weakref.WeakSet()


def _close_in_child() -> None:
    for server in list(servers):
        server.close_in_child()


os.register_at_fork(after_in_child=_close_in_child)
