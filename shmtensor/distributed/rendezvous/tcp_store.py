"""TCPStore: a store in the memory of one process, which other processes reach by its address.

```
client   connect      challenge and answer in both directions, by the run's secret (HMAC)
request  operation u8 | n u8 | n times: length u32, bytes          answer  ok u8 | n u8 | parts
```

The server binds to loopback unless another address is given, and serves only clients that know the
secret of the run: SHMTENSOR_SECRET, which the launcher sets, or else the key that Python passes to
the children of one parent (`multiprocessing.current_process().authkey`).
"""

from __future__ import annotations

import os
import socket
import struct
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import timedelta
from multiprocessing import AuthenticationError, current_process
from multiprocessing.connection import Connection, answer_challenge, deliver_challenge

from ...errors import StoreTimeout
from ..group.operands import seconds
from .hosts import keep_alive
from .store import TIMEOUT, HashStore, Store, Value, raw

__all__ = ["TCPStore", "secret_of_run"]

PART = struct.Struct("<I")
ANY = ("", "0.0.0.0", "::")
SET, ADD, APPEND, COMPARE, DELETE, GET, KEYS, WAIT, WILL, POP = range(10)
WORKERS = "\0workers"
PAUSE = 0.05  # seconds before `accept` is called again after an error
PROOF = 10  # seconds that a client has for each part of its proof that it knows the secret


def secret_of_run() -> bytes:
    """The secret that the processes of this run share."""
    secret = os.environ.get("SHMTENSOR_SECRET")
    return bytes.fromhex(secret) if secret else bytes(current_process().authkey)


def pack(code: int, parts: Sequence[bytes]) -> bytes:
    return bytes([code, len(parts)]) + b"".join(PART.pack(len(p)) + p for p in parts)


def unpack(message: bytes) -> tuple[int, list[bytes]]:
    code, n = message[0], message[1]
    parts, at = [], 2
    for _ in range(n):
        (size,) = PART.unpack_from(message, at)
        at += PART.size
        parts.append(message[at : at + size])
        at += size
    return code, parts


class Server:
    """The master's side: a thread that accepts, and one for each client."""

    def __init__(self, host: str, port: int, secret: bytes) -> None:
        self.values = HashStore()
        self.secret = secret
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self.listener = socket.socket(family, socket.SOCK_STREAM)
        try:
            self.listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self.listener.bind((host, port))
            self.listener.listen(128)
        except BaseException as error:
            self.listener.close()
            if isinstance(error, OSError):
                message = f"TCPStore: cannot listen at {host}:{port}: {error.strerror}"
                raise OSError(error.errno, message) from None
            raise
        self.port: int = self.listener.getsockname()[1]
        self.is_closed = False
        self.clients: set[Connection] = set()
        self.threads = [threading.Thread(target=self._accept, name="TCPStore", daemon=True)]
        self.threads[0].start()
        servers.add(self)

    def _accept(self) -> None:
        while True:
            try:
                accepted, _ = self.listener.accept()
            except OSError:
                if self.is_closed:
                    return
                time.sleep(PAUSE)  # out of descriptors, or the client has disconnected
                continue
            thread = threading.Thread(target=self._serve, args=(accepted,), daemon=True)
            self.threads = [each for each in self.threads if each.is_alive()]
            try:
                thread.start()
            except RuntimeError:  # out of threads
                accepted.close()
                time.sleep(PAUSE)
                continue
            self.threads.append(thread)

    def _admit(self, accepted: socket.socket) -> Connection:
        """The connection of a client that proves in time that it knows the secret.

        Raises:
            OSError, EOFError, AuthenticationError: it does not.
        """
        with accepted:
            accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            accepted.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", PROOF, 0))
            keep_alive(accepted, is_read=True)
            connection: Connection = Connection(accepted.detach())
        self.clients.add(connection)
        try:
            deliver_challenge(connection, self.secret)
            answer_challenge(connection, self.secret)
            with socket.socket(fileno=os.dup(connection.fileno())) as each:
                each.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", 0, 0))
        except BaseException:
            self.clients.discard(connection)
            connection.close()
            raise
        return connection

    def _serve(self, accepted: socket.socket) -> None:
        will: list[bytes] = []
        try:
            connection = self._admit(accepted)
        except (OSError, EOFError, AuthenticationError):
            return
        with suppress(OSError, EOFError, struct.error):
            while True:
                code, parts = unpack(connection.recv_bytes())
                if code == WILL:
                    will = parts
                    code, parts = GET, [b""]
                try:
                    connection.send_bytes(pack(1, self._handle(code, parts, connection)))
                except (ValueError, LookupError) as error:
                    connection.send_bytes(pack(0, [str(error).encode()]))
        if will:
            self.values.set(will[0].decode(), will[1])
        self.clients.discard(connection)
        connection.close()

    def _handle(self, code: int, parts: list[bytes], connection: Connection) -> list[bytes]:
        values = self.values
        if code == KEYS:
            return [key.encode() for key in values.list_keys() if key != WORKERS]
        if code == WAIT:
            keys = [part.decode() for part in parts[1:]]
            return [key.encode() for key in values.await_all(keys, float(parts[0]))]
        key = parts[0].decode()
        if code == GET:
            value = values.try_get(key)
            return [] if value is None else [value]
        if code == POP:
            value = values.take_first(key)
            return [] if value is None else [value]
        if code == SET:
            values.set(key, parts[1])
            return []
        if code == ADD:
            return [str(values.add(key, int(parts[1]))).encode()]
        if code == APPEND:
            values.append(key, parts[1])
            return []
        if code == COMPARE:
            return [values.compare_set(key, parts[1], parts[2])]
        return [b"1" if values.delete_key(key) else b"0"]

    def close(self) -> None:
        self.is_closed = True
        with suppress(OSError):
            self.listener.shutdown(socket.SHUT_RDWR)  # wakes accept
        self.listener.close()
        for connection in list(self.clients):
            with suppress(OSError), socket.socket(fileno=os.dup(connection.fileno())) as each:
                each.shutdown(socket.SHUT_RDWR)  # wakes recv
        for thread in self.threads:
            thread.join(5)


servers: weakref.WeakSet[Server] = weakref.WeakSet()


def _close_in_child() -> None:
    for server in list(servers):  # the port is the parent's
        server.listener.close()
        for connection in list(server.clients):
            with suppress(OSError):
                connection.close()


os.register_at_fork(after_in_child=_close_in_child)


class TCPStore(Store):
    """A store at an address: the master holds it, the other processes connect.

    Args:
        host_name: the master's host; the master binds to it, so "localhost" is loopback only.
        port: 0: the master chooses a free one, see the attribute `port`.
        world_size: with wait_for_workers the master waits for so many processes, itself included.
        is_master: whether this process holds the store.
        timeout: of every method that waits.
        secret: what all processes must know; None: the run's, see `secret_of_run`.

    Raises:
        TimeoutError: the master, or a worker, did not connect in time.
        PermissionError: the other side does not know the secret.
    """

    def __init__(
        self,
        host_name: str,
        port: int = 0,
        world_size: int | None = None,
        is_master: bool = False,
        timeout: timedelta | float = TIMEOUT,
        wait_for_workers: bool = True,
        multi_tenant: bool = False,
        master_listen_fd: None = None,
        use_libuv: bool = True,
        secret: bytes | None = None,
    ) -> None:
        self.set_timeout(timeout)
        self.host = host_name
        self._secret = secret_of_run() if secret is None else secret
        self._server = Server(host_name, port, self._secret) if is_master else None
        self.port = self._server.port if self._server else port
        self._mutex = threading.Lock()
        self._pid = os.getpid()
        self._connection: Connection | None = None
        try:
            self._connection = self._connect()
            n = self.add(WORKERS, 1)
            end = time.monotonic() + self.timeout.total_seconds()
            while is_master and wait_for_workers and world_size is not None and n < world_size:
                if time.monotonic() > end:
                    raise TimeoutError(
                        f"TCPStore: not all workers have come: {n} of {world_size} after "
                        f"{self.timeout.total_seconds():g} s"
                    )
                time.sleep(0.005)
                n = self.add(WORKERS, 0)
        except BaseException:
            self.close()
            raise

    def _connect(self) -> Connection:
        limit = self.timeout.total_seconds()
        end = time.monotonic() + limit
        host = "127.0.0.1" if self._server and self.host in ANY else self.host
        while True:
            try:
                connected = socket.create_connection((host, self.port), timeout=max(limit, 0.1))
                break
            except OSError as error:
                if time.monotonic() > end:
                    raise TimeoutError(
                        f"TCPStore: the master has not come: {self.host}:{self.port} after "
                        f"{limit:g} s: {error}"
                    ) from None
                time.sleep(0.01)
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        keep_alive(connected, is_read=True)
        connected.setblocking(True)
        connection: Connection = Connection(connected.detach())
        try:
            answer_challenge(connection, self._secret)
            deliver_challenge(connection, self._secret)
        except (AuthenticationError, EOFError, OSError) as error:
            connection.close()
            raise PermissionError(
                f"TCPStore: the other side does not know the run's secret: {self.host}:{self.port}"
            ) from error
        return connection

    def set_when_gone(self, key: str, value: Value) -> None:
        """Makes the store set a key when this process's connection ends for any reason, so that
        others learn of its death. Each process has one such key: the last one set.
        """
        self._ask(WILL, key, value)

    def local_address(self) -> str:
        """This host's address in its connection to the store."""
        assert self._connection is not None
        with socket.socket(fileno=os.dup(self._connection.fileno())) as each:
            return str(each.getsockname()[0])

    def _ask(self, code: int, *parts: Value) -> list[bytes]:
        with self._mutex:
            if self._pid != os.getpid():  # a forked child needs its own connection
                self._pid, self._server = os.getpid(), None
                self._connection = self._connect()
            if self._connection is None:
                raise ConnectionError("TCPStore: it is closed")
            self._connection.send_bytes(pack(code, [raw(part) for part in parts]))
            try:
                ok, answer = unpack(self._connection.recv_bytes())
            except EOFError:
                raise ConnectionError(
                    f"TCPStore: the master has gone: {self.host}:{self.port}"
                ) from None
        if not ok:
            raise ValueError(f"TCPStore: {answer[0].decode()}")
        return answer

    def set(self, key: str, value: Value) -> None:
        self._ask(SET, key, value)

    def add(self, key: str, amount: int) -> int:
        return int(self._ask(ADD, key, str(amount))[0])

    def append(self, key: str, value: Value) -> None:
        self._ask(APPEND, key, value)

    def compare_set(self, key: str, expected_value: Value, desired_value: Value) -> bytes:
        return self._ask(COMPARE, key, expected_value, desired_value)[0]

    def delete_key(self, key: str) -> bool:
        return self._ask(DELETE, key)[0] == b"1"

    def try_get(self, key: str) -> bytes | None:
        answer = self._ask(GET, key)
        return answer[0] if answer else None

    def take_first(self, key: str) -> bytes | None:
        answer = self._ask(POP, key)
        return answer[0] if answer else None

    def list_keys(self) -> list[str]:
        return [key.decode() for key in self._ask(KEYS)]

    def await_all(self, keys: Sequence[str], limit: float) -> list[str]:
        end = time.monotonic() + limit
        while True:  # in slices, so that other threads can use the connection
            part = min(0.2, max(end - time.monotonic(), 0)) if limit >= 0 else 0.2
            missing = [key.decode() for key in self._ask(WAIT, str(part), *keys)]
            if not missing or (limit >= 0 and time.monotonic() >= end):
                return missing

    def change(
        self, key: str, update: Callable[[bytes | None], bytes | None]
    ) -> tuple[bytes | None, bytes | None]:
        raise NotImplementedError("TCPStore: supports set, add, append and compare_set")

    def wait(self, keys: Sequence[str], timeout: timedelta | float | None = None) -> None:
        """Returns when all keys have values; TimeoutError names those that have none in time."""
        limit = seconds(self.timeout if timeout is None else timeout)
        if missing := self.await_all(list(keys), limit):
            raise StoreTimeout(f"TCPStore.wait: keys have not come: {missing} after {limit:g} s")

    def close(self) -> None:
        """Ends the connection, and the store if this is the master's."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        if self._server is not None and self._pid == os.getpid():
            self._server.close()
        self._server = None

    def __enter__(self) -> TCPStore:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        if getattr(self, "_pid", 0) == os.getpid():
            with suppress(Exception):
                self.close()
