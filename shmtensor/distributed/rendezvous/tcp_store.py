"""TCPStore: a store in the memory of one process, which other processes reach by its address.

| file | has |
|---|---|
| handshakes.py | both sides prove that they know the run's secret |
| store_messages.py | requests and answers, the client's end of the connection, interrupted calls |
| tcp_store_server.py | the master's side |

The server binds to loopback unless another address is given, which needs a secret of the user's,
and serves only clients that know the secret of the run, see secret.py.
"""

from __future__ import annotations

import os
import socket
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import timedelta
from multiprocessing import AuthenticationError

from .handshakes import prove_to_server
from .hosts import is_loopback, keep_alive, look_up
from .secret import check_length, secret_of_run
from .store import TIMEOUT, Store, Value, raw
from .store_messages import Exchange
from .tcp_store_server import (
    ADD,
    APPEND,
    COMPARE,
    DELETE,
    GET,
    KEYS,
    POP,
    SET,
    WAIT,
    WILL,
    WORKERS,
    Server,
)

ANY = ("", "0.0.0.0", "::")


class TCPStore(Store):
    """A store at an address: the master holds it, the other processes connect.

    A call that a signal handler interrupts by raising may have been carried out, or may be so with
    the next call; later answers are right.

    Args:
        host_name: the master's host; the master binds to it, so "localhost" is loopback only.
        port: 0: the master chooses a free one, see the attribute `port`.
        world_size: with wait_for_workers the master waits for so many processes, itself included.
        is_master: whether this process holds the store.
        timeout: of every method that waits.
        secret: what all processes must know; None: the run's, see `secret_of_run`.

    Raises:
        TimeoutError: the master, or a worker, did not connect in time.
        PermissionError: the other side does not know the secret. Or `host_name` is an address that
            other machines reach, and there is no secret, or it is shorter than 16 bytes.
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
        self.port = port
        self._master_host = "127.0.0.1" if is_master and host_name in ANY else host_name
        address = host_name
        if is_master or secret is None:
            # Looked up once: the server binds to the address whose secret was checked.
            with suppress(OSError):  # unknown: the server says so, and a client tries again
                address = look_up(host_name)
        self._secret = secret_of_run(address) if secret is None else secret
        if is_master and not is_loopback(address):
            check_length("TCPStore", self._secret)
        self._mutex = threading.Lock()
        self._is_closed = False
        self._server: Server | None = None
        self._exchange: Exchange | None = None
        stores.add(self)
        try:
            if is_master:
                self._server = Server(address, port, self._secret)
                self.port = self._server.port
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

    def _connect(self) -> Exchange:
        limit = self.timeout.total_seconds()
        end = time.monotonic() + limit
        address = (self._master_host, self.port)
        while True:
            try:
                connection = socket.create_connection(address, timeout=max(limit, 0.1))
                try:
                    prove_to_server(connection, self._secret, end)
                    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                    keep_alive(connection, is_read=True)
                    connection.setblocking(True)
                    return Exchange(connection)
                except BaseException:
                    connection.close()
                    raise
            except AuthenticationError as error:
                raise PermissionError(
                    "TCPStore: the other side does not know the run's secret: "
                    f"{self.host}:{self.port}: {error}"
                ) from None
            except OSError as error:  # the master has not come, or serves many others
                if time.monotonic() > end:
                    raise TimeoutError(
                        f"TCPStore: the master has not come: {self.host}:{self.port} after "
                        f"{limit:g} s: {error}"
                    ) from None
                time.sleep(0.01)

    def set_when_gone(self, key: str, value: Value) -> None:
        """Makes the store set a key when this process's connection ends for any reason, so that
        others learn of its death. Each process has one such key: the last one set.
        """
        self._ask(WILL, key, value)

    def local_address(self) -> str:
        """This host's address in its connection to the store."""
        assert self._exchange is not None
        return str(self._exchange.connection.getsockname()[0])

    def _ask(self, operation: int, *parts: Value) -> list[bytes]:
        with self._mutex:
            if self._is_closed:
                raise ConnectionError("TCPStore: it is closed")
            if self._exchange is None:  # at first, and in a forked child
                self._exchange = self._connect()
            try:
                success, answer = self._exchange.ask(operation, [raw(part) for part in parts])
            except OSError as error:
                if error.errno is None:  # not the kernel's: a signal handler has raised it
                    raise
                raise ConnectionError(
                    f"TCPStore: the master has gone: {self.host}:{self.port}: {error.strerror}"
                ) from None
        if not success:
            raise ValueError(f"TCPStore: {b''.join(answer).decode(errors='replace')}")
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
            time.sleep(0.001)  # a lock that is taken again at once is given to no other thread

    def change(
        self, key: str, update: Callable[[bytes | None], bytes | None]
    ) -> tuple[bytes | None, bytes | None]:
        raise NotImplementedError("TCPStore: supports set, add, append and compare_set")

    def close(self) -> None:
        """Ends the connection, and the store if this is the master's."""
        self._is_closed = True
        if self._exchange is not None:
            self._exchange.close()
            self._exchange = None
        if self._server is not None:
            self._server.close()
            self._server = None

    def __enter__(self) -> TCPStore:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        if hasattr(self, "_exchange"):  # its construction got so far
            with suppress(Exception):
                self.close()


stores: weakref.WeakSet[TCPStore] = weakref.WeakSet()


def _disconnect_child() -> None:
    """In a forked child: the connections and the server are the parent's; each store connects anew
    when it is used.
    """
    for store in list(stores):
        store._mutex = threading.Lock()
        store._server = None
        if store._exchange is not None:
            store._exchange.close()
            store._exchange = None


os.register_at_fork(after_in_child=_disconnect_child)
