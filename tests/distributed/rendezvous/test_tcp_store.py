"""TCPStore: strangers, malformed requests, interrupted calls."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from shmtensor import distributed as dist
from shmtensor import multiprocessing as mp
from shmtensor.distributed.rendezvous import handshakes, store_messages, tcp_store
from shmtensor.distributed.rendezvous import tcp_store_server as server
from shmtensor.distributed.rendezvous.handshakes import prove_to_server
from shmtensor.distributed.rendezvous.secret import secret_of_run
from shmtensor.distributed.rendezvous.store_messages import FRAME, MAX_BYTES, PART, Exchange, pack
from tests.interrupts import Alarm, interrupt_after

SECRET = b"the secret of these tests"


@pytest.fixture
def master() -> Iterator[dist.TCPStore]:
    with dist.TCPStore("127.0.0.1", 0, is_master=True, timeout=60, secret=SECRET) as store:
        yield store


def connect(port: int) -> Exchange:
    """A connection that has proven the secret."""
    connection = socket.create_connection(("127.0.0.1", port), 60)
    prove_to_server(connection, SECRET, time.monotonic() + 60)
    connection.settimeout(60)
    return Exchange(connection)


def client_of(port: int) -> dist.TCPStore:
    return dist.TCPStore("127.0.0.1", port, timeout=60, secret=SECRET)


# ---------------------------------------------------------------- strangers
def test_three_hundred_silent_strangers_delay_nobody(
    master: dist.TCPStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handshakes, "PATIENCE", 1000.0)  # nobody is served by waiting for an end
    threads = threading.active_count()
    strangers = [socket.create_connection(("127.0.0.1", master.port)) for _ in range(300)]
    with client_of(master.port) as client:
        client.set("key", "value")
        assert master.get("key") == b"value"
        assert threading.active_count() == threads
        assert master._server is not None
        assert len(master._server._handshakes._pending) <= handshakes.LIMIT
    for each in strangers:
        each.close()


FEW = """
import resource, sys
from shmtensor import distributed as dist
store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False, secret=b"x")
resource.setrlimit(resource.RLIMIT_NOFILE, (40, 40))
print(store.port, flush=True)
sys.stdin.read()
"""


def test_a_store_without_descriptors_serves_its_clients_and_new_ones() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", FEW],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        port = int(process.stdout.readline())
        present = dist.TCPStore("127.0.0.1", port, timeout=60, secret=b"x")
        silent = [socket.create_connection(("127.0.0.1", port)) for _ in range(60)]
        present.set("key", "value")
        with dist.TCPStore("127.0.0.1", port, timeout=60, secret=b"x") as client:
            assert client.get("key") == b"value"
        for each in silent:
            each.close()
        clients = []  # until it has no descriptor for a stranger either
        for _ in range(40):
            try:
                clients.append(dist.TCPStore("127.0.0.1", port, timeout=2, secret=b"x"))
            except TimeoutError:
                break
        assert len(clients) < 40
        present.set("key", "still served")
        clients.pop().close()
        with dist.TCPStore("127.0.0.1", port, timeout=60, secret=b"x") as client:
            assert client.get("key") == b"still served"
        for store in (present, *clients):
            store.close()
        _, errors = process.communicate("")
        assert not errors


@pytest.mark.parametrize("text", [b"", b"\0\0\0\4abcd", b"GET / HTTP/1.1\r\n\r\n", bytes(100_000)])
def test_strangers_get_a_challenge_and_soon_the_end(
    text: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handshakes, "PATIENCE", 0.1)
    with dist.TCPStore("127.0.0.1", 0, is_master=True, timeout=60, secret=SECRET) as hasty:
        client = client_of(hasty.port)
        with socket.create_connection(("127.0.0.1", hasty.port), 60) as stranger:
            answer = bytearray()
            with suppress(ConnectionError):  # what it sent was not read
                stranger.sendall(text)
                while part := stranger.recv(100):
                    answer += part
        challenge = len(handshakes.MAGIC) + handshakes.NONCE
        assert len(answer) <= challenge + len(handshakes.REFUSAL)
        client.set("a", "1")  # the limit was for the handshake only
        assert hasty.get("a") == b"1"
        client.close()


def test_both_sides_must_know_the_secret(master: dist.TCPStore) -> None:
    with pytest.raises(PermissionError, match="does not know the run's secret"):
        dist.TCPStore("127.0.0.1", master.port, timeout=60, secret=b"another")
    with socket.create_server(("127.0.0.1", 0)) as impostor:  # sends a challenge, accepts all

        def serve() -> None:
            connection, _ = impostor.accept()
            with connection:
                connection.sendall(handshakes.MAGIC + bytes(32))
                connection.recv(64)
                connection.sendall(b"\1" + bytes(32))

        thread = threading.Thread(target=serve)
        thread.start()
        with pytest.raises(PermissionError, match="does not know the run's secret"):
            dist.TCPStore("127.0.0.1", impostor.getsockname()[1], timeout=60, secret=SECRET)
        thread.join()


@pytest.mark.parametrize("is_in_file", [False, True], ids=["variable", "file"])
def test_the_secret_is_hexadecimal_or_any_text_of_some_length(
    is_in_file: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "secret"
    monkeypatch.delenv("SHMTENSOR_SECRET", raising=False)
    monkeypatch.setenv("SHMTENSOR_SECRET_FILE", str(file))

    def give(text: str, mode: int = 0o600) -> None:
        file.write_text(f"{text}\n")
        file.chmod(mode)
        if not is_in_file:
            monkeypatch.setenv("SHMTENSOR_SECRET", text)

    give("abcd" * 8)
    assert secret_of_run() == b"\xab\xcd" * 8
    give("a passphrase of many words")
    assert secret_of_run() == b"a passphrase of many words"
    with dist.TCPStore("127.0.0.1", 0, is_master=True, timeout=60) as store:
        store.set("key", "value")
    for text in ("1", "abcd" * 7):
        give(text)
        with pytest.raises(PermissionError, match="the secret is short"):
            dist.TCPStore("127.0.0.1", 0, is_master=True, timeout=60)
    if is_in_file:
        give("abcd" * 8, 0o644)
        with pytest.raises(PermissionError, match="others may read"):
            secret_of_run()


@pytest.mark.parametrize("is_master", [True, False])
@pytest.mark.parametrize(
    "host", ["0.0.0.0", "", "::", "0", "everywhere.test", "8.8.8.8", "::ffff:1"]
)
def test_an_address_that_others_reach_needs_a_secret(
    monkeypatch: pytest.MonkeyPatch, host: str, is_master: bool
) -> None:
    monkeypatch.delenv("SHMTENSOR_SECRET", raising=False)
    monkeypatch.delenv("SHMTENSOR_SECRET_FILE", raising=False)
    look_up = socket.getaddrinfo

    def look_up_here(name: Any, *args: Any) -> Any:
        return look_up({"everywhere.test": "0.0.0.0"}.get(name, name), *args)

    monkeypatch.setattr(socket, "getaddrinfo", look_up_here)
    opened: list[Any] = []
    monkeypatch.setattr(tcp_store, "Server", lambda *args: opened.append(args))
    with pytest.raises(PermissionError, match="machines that communicate need a secret in common"):
        dist.TCPStore(host, 0, is_master=is_master, timeout=60)
    if is_master:
        with pytest.raises(PermissionError, match="the secret is short: 15 bytes"):
            dist.TCPStore(host, 0, is_master=True, timeout=60, secret=bytes(15))
    assert not opened


@pytest.mark.parametrize("host", ["0.0.0.0", ""])
def test_with_a_secret_a_store_listens_everywhere(
    monkeypatch: pytest.MonkeyPatch, host: str
) -> None:
    with dist.TCPStore(host, 0, is_master=True, timeout=60, secret=SECRET) as store:
        assert store._server is not None
        assert store._server.listener.getsockname()[0] == "0.0.0.0"
    monkeypatch.setenv("SHMTENSOR_SECRET", "5c" * 16)
    with dist.TCPStore(host, 0, is_master=True, timeout=60) as store:
        store.set("key", "value")


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "127.0.0.2", "127.1", "::1"])
def test_loopback_needs_no_secret(monkeypatch: pytest.MonkeyPatch, host: str) -> None:
    monkeypatch.delenv("SHMTENSOR_SECRET", raising=False)
    with dist.TCPStore(host, 0, is_master=True, timeout=60) as store:
        with dist.TCPStore(host, store.port, timeout=60) as client:
            client.set("key", "value")
        assert store.get("key") == b"value"


def test_a_name_is_looked_up_once_and_may_be_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SHMTENSOR_SECRET", raising=False)
    addresses = ["127.0.0.1", "0.0.0.0"]  # a name server that changes its mind
    look_up = socket.getaddrinfo
    monkeypatch.setattr(socket, "getaddrinfo", lambda name, *args: look_up(addresses.pop(0), *args))
    monkeypatch.setattr(dist.TCPStore, "add", lambda *_: 1)
    with dist.TCPStore("name.test", 0, is_master=True, timeout=60) as store:
        assert store._server is not None
        assert store._server.listener.getsockname()[0] == "127.0.0.1"
    monkeypatch.undo()
    for name in ("unknown.invalid", "127.0.0.1.invalid"):
        with pytest.raises(PermissionError, match=f"TCPStore: {name}: machines that communicate"):
            dist.TCPStore(name, 0, is_master=True, timeout=60)
        with pytest.raises(OSError, match=f"cannot listen at {name}:0"):
            dist.TCPStore(name, 0, is_master=True, timeout=60, secret=SECRET)


# ---------------------------------------------------------------- requests
def body(*parts: bytes) -> bytes:
    return b"".join(PART.pack(len(part)) + part for part in parts)


MALFORMED = {
    "nothing": (server.SET, b"", "0 parts, operation 0 has 2"),
    "one byte": (server.GET, b"k", "a part ends at byte 4 of 1"),
    "unknown operation": (99, body(b"key"), "operation 99 is none of 0 to 9"),
    "too few parts": (server.COMPARE, body(b"key", b"a"), "2 parts, operation 3 has 3"),
    "too many parts": (server.GET, body(b"key", b"a"), "2 parts, operation 5 has 1"),
    "a long part": (server.GET, PART.pack(1000) + b"key", "a part ends at byte 1004 of 7"),
    "the longest part": (server.GET, PART.pack(2**32 - 1) + b"key", "of 7"),
    "rest": (server.GET, body(b"key") + b"xy", "a part ends at byte 11 of 9"),
    "no UTF-8": (server.GET, body(b"\xff\xfe"), "a key is not UTF-8"),
    "no UTF-8 in a will": (server.WILL, body(b"\xff", b""), "a key is not UTF-8"),
    "no number": (server.ADD, body(b"key", b"many"), "not a 64-bit number"),
    "a large number": (server.ADD, body(b"key", b"9" * 19), "not a 64-bit number"),
    "an absurd number": (server.ADD, body(b"key", b"9" * 100_000), "not a 64-bit number"),
    "no time": (server.WAIT, body(b"soon", b"key"), "not a time in seconds"),
    "not a time": (server.WAIT, body(b"nan", b"key"), "not a time in seconds"),
    "no queue": (server.POP, body(b"text"), "the value is not a queue"),
    "no sum": (server.ADD, body(b"text", b"1"), "invalid literal"),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_a_malformed_request_is_answered_by_the_reason(
    name: str, master: dist.TCPStore, capfd: pytest.CaptureFixture[str]
) -> None:
    master.set("text", "abc")
    operation, data, reason = MALFORMED[name]
    exchange = connect(master.port)
    exchange.connection.sendall(FRAME.pack(operation, 7, len(data)) + data)
    success, number, answer = exchange._read_message()
    assert (number, success) == (7, 0)
    text = store_messages.unpack_parts(answer)[0].decode()
    assert reason in text
    assert exchange.ask(server.GET, [b"text"]) == (True, [b"abc"])
    exchange.close()
    assert master.get("text") == b"abc"
    assert capfd.readouterr().err == ""


def test_a_request_that_is_too_long_is_refused_before_it_has_come(
    master: dist.TCPStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    exchange = connect(master.port)
    exchange.connection.sendall(FRAME.pack(server.SET, 7, MAX_BYTES + 1) + bytes(100_000))
    success, number, answer = exchange._read_message()
    assert (number, success) == (7, 0)
    assert b"too long: 1073741825 bytes" in answer
    assert exchange.connection.recv(1) == b""
    exchange.close()
    monkeypatch.setattr(store_messages, "MAX_BYTES", 1000)
    with pytest.raises(ValueError, match="TCPStore: a message is too long: 1011 bytes"):
        master.set("key", bytes(1000))
    master.set("key", "value")
    assert master.get("key") == b"value"


def test_an_answer_in_pieces_and_a_large_value_arrive(master: dist.TCPStore) -> None:
    value = os.urandom(20_000_000)
    with client_of(master.port) as client:
        client.set("large", value)
        assert client.get("large") == value
        assert master.get("large") == value


def test_hundreds_of_keys_fit_into_a_request(master: dist.TCPStore) -> None:
    keys = [f"key {i}" for i in range(1000)]
    assert master.await_all(keys, 0.0) == keys
    master.multi_set(keys, keys)
    assert master.await_all(keys, 0.0) == []
    assert master.num_keys() == 1000


def test_a_wait_ends_when_the_last_key_has_come(master: dist.TCPStore) -> None:
    with client_of(master.port) as client:
        waiting = threading.Thread(target=lambda: client.wait(["a", "b"], 60))
        waiting.start()
        master.set("a", "1")
        master.delete_key("a")
        master.set("b", "1")
        assert master.await_all(["a"], 0.0) == ["a"]
        assert waiting.is_alive()
        master.set("a", "1")
        waiting.join(60)
        assert not waiting.is_alive()


# ---------------------------------------------------------------- interrupted calls
def test_a_call_interrupted_at_any_instruction_leaves_the_next_answers_right(
    master: dist.TCPStore,
) -> None:
    client = client_of(master.port)
    client.set_when_gone("gone", "client")
    client.set("a", "A")
    client.set("b", "B" * 100)
    calls: dict[str, Callable[[], Any]] = {
        "get": lambda: client.get("b"),
        "add": lambda: client.add("n", 1),
        "wait": lambda: client.await_all(["never"], 0.01),
    }
    for name, call in calls.items():
        at = 1
        while interrupt_after(at, call, store_messages.__file__):
            before = int(master.try_get("n") or b"0")
            assert client.try_get("a") == b"A", (name, at)
            assert client.await_all(["never"], 0.0) == ["never"]
            assert client.try_get("b") == b"B" * 100
            assert int(master.try_get("n") or b"0") - before in (0, 1)
            at += 1
        assert at > 100
    assert not master.check(["gone"])  # the connection is the same
    client.close()
    master.wait(["gone"])


class Pieces:
    """A connection that sends and receives a byte at a time, and raises before the n-th time."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self.remaining = -1

    def _count(self) -> None:
        self.remaining -= 1
        if self.remaining == 0:
            raise Alarm

    def send(self, data: memoryview) -> int:
        self._count()
        return self.connection.send(data[:1])

    def recv(self, _: int) -> bytes:
        self._count()
        return self.connection.recv(1)


def test_half_a_message_is_completed_by_the_next_call(master: dist.TCPStore) -> None:
    master.set("a", "A")
    master.set("b", "BB")
    exchange = connect(master.port)
    connection, pieces = exchange.connection, Pieces(exchange.connection)
    exchange.connection = pieces  # type: ignore[assignment]
    at = 1
    while True:
        pieces.remaining = at
        try:
            assert exchange.ask(server.GET, [b"b"]) == (True, [b"BB"])
            break
        except Alarm:
            pieces.remaining = -1
        assert exchange.ask(server.GET, [b"a"]) == (True, [b"A"])
        at += 1
    assert at == len(pack(server.GET, 1, [b"b"])) + len(pack(1, 1, [b"BB"])) + 1
    connection.close()


def test_signals_that_raise_never_mix_up_answers(master: dist.TCPStore) -> None:
    is_armed = False

    def raise_alarm(*_: object) -> None:
        nonlocal is_armed
        if is_armed:
            is_armed = False
            raise Alarm

    keys = [f"key {i}" for i in range(100)]
    values = [f"value {i}" * (1 + 1000 * (i % 7)) for i in range(100)]
    master.multi_set(keys, values)
    client = client_of(master.port)
    client.set_when_gone("gone", "client")
    before = signal.signal(signal.SIGALRM, raise_alarm)
    signal.setitimer(signal.ITIMER_REAL, 1e-3, 3e-4)
    interrupted = i = 0
    try:
        while interrupted < 300:
            i = (i + 1) % 100
            try:
                is_armed = True
                if i % 10 == 0:
                    client.await_all(["never"], 0.002)
                value = client.try_get(keys[i])
                is_armed = False
            except Alarm:
                interrupted += 1
                continue
            assert value == values[i].encode()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert client.try_get("key 3") == values[3].encode()
    assert not master.check(["gone"])
    client.close()
    master.wait(["gone"])


def test_an_interrupted_wait_of_long_ago_is_over(master: dist.TCPStore) -> None:
    exchange = connect(master.port)
    message = pack(server.WAIT, 1, [b"-1", b"never"])
    exchange.connection.sendall(message)
    exchange._number = 1  # the wait was interrupted
    assert exchange.ask(server.GET, [b"a"]) == (True, [])
    master.set("never", "comes")  # no answer to the wait: nobody reads it
    assert exchange.ask(server.GET, [b"never"]) == (True, [b"comes"])
    exchange.close()


def use_in_child(store: dist.TCPStore, results: Any) -> None:
    results.put(store.get("key"))
    store.close()


def test_a_forked_child_has_its_own_connection(master: dist.TCPStore) -> None:
    client = client_of(master.port)
    client.set_when_gone("gone", "client")
    client.set("key", "value")
    context = mp.get_context("fork")
    results = context.SimpleQueue()
    child = context.Process(target=use_in_child, args=(client, results))
    child.start()
    child.join()
    assert results.get() == b"value"
    results.close()
    assert not master.check(["gone"])
    assert client.get("key") == b"value"
    client.close()
    master.wait(["gone"])
