"""What strangers and broken peers may send to the sockets of a run.

| target | what is sent |
|---|---|
| greetings | bytes to the store's port, without the secret |
| requests | messages of a client of the store |
| answers | messages of a server of the store |
| hellos | bytes to the port where ranks accept one another |
| frames | bytes of a connection between ranks |
| names | bytes of this user's processes to rank 0's socket |
| handles | answers of rank 0's socket to a rank |
| fork requests | bytes and descriptors to the fork server |

Each input ends in an answer, in the end of its connection, or in a documented exception; whoever is
honest is served afterwards.
"""

from __future__ import annotations

import array
import json
import os
import random
import socket
import struct
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np

from shmtensor.distributed.backends.tcp.connect_ranks import accept, connect
from shmtensor.distributed.backends.tcp.connection import TAKEN, Broken, Link, Request
from shmtensor.distributed.rendezvous import handshakes
from shmtensor.distributed.rendezvous.find_group import find_group
from shmtensor.distributed.rendezvous.handshakes import prove_to_server
from shmtensor.distributed.rendezvous.meeting import PROTOCOL, address
from shmtensor.distributed.rendezvous.places import own_place
from shmtensor.distributed.rendezvous.store_messages import FRAME, PART, Exchange, unpack_parts
from shmtensor.distributed.rendezvous.tcp_store import TCPStore
from shmtensor.distributed.rendezvous.tcp_store_server import GET, POP, SET, WAIT
from shmtensor.errors import ShmTensorError
from shmtensor.memory.control_message import MAX_BYTES, encode
from shmtensor.multiprocessing.forkserver import receive_request

from .name_requests import packet

SECRET = b"the secret of the fuzzer"
LONG = 60.0  # seconds until an answer is missed
BATCH = 50  # inputs between two honest calls


def number(rng: random.Random, bits: int) -> int:
    """A small number, an edge, or anything."""
    return rng.choice(
        [
            rng.randrange(4),
            rng.randrange(300),
            (1 << bits) - 1,
            1 << bits - 1,
            rng.getrandbits(bits),
        ]
    )


def noise(rng: random.Random, most: int = 200) -> bytes:
    return rng.randbytes(rng.choice([0, 1, 2, rng.randrange(most + 1)]))


def mutant(rng: random.Random, data: bytes) -> bytes:
    """The bytes with some changed, cut off, or added."""
    changed = bytearray(data)
    for _ in range(rng.randrange(4)):
        kind = rng.randrange(3)
        at = rng.randrange(len(changed) + 1)
        if kind == 0 and at < len(changed):
            changed[at] ^= 1 << rng.randrange(8)
        elif kind == 1:
            del changed[at:]
        else:
            changed[at:at] = noise(rng, 8)
    return bytes(changed)


def send(connection: socket.socket, data: bytes) -> None:
    with suppress(ConnectionError):  # the other side has refused earlier bytes
        connection.sendall(data)


# ---------------------------------------------------------------- the store
def greetings(rng: random.Random, count: int, store: TCPStore) -> None:
    """Strangers, many of which stay; none is answered but by a challenge and a refusal."""
    strangers: list[socket.socket] = []
    for i in range(count):
        stranger = socket.create_connection(("127.0.0.1", store.port), LONG)
        send(stranger, noise(rng) if rng.random() < 0.7 else rng.randbytes(64))
        strangers.append(stranger)
        if rng.random() < 0.5:
            strangers.pop(rng.randrange(len(strangers))).close()
        if i % BATCH == 0:
            with TCPStore("127.0.0.1", store.port, timeout=LONG, secret=SECRET) as client:
                client.add("greetings", 1)
            for each in strangers[:-BATCH]:
                each.close()
            del strangers[:-BATCH]
    for each in strangers:
        each.close()


def request(rng: random.Random) -> bytes:
    """The body of a request that may be right in some of its parts."""
    kinds: list[Callable[[], bytes]] = [
        lambda: rng.choice([b"a", b"b", b"queue", b"\0workers"]),
        lambda: str(rng.getrandbits(70) - 2**69).encode(),
        lambda: rng.choice([b"0", b"0.0", b"nan", b"1e-400", b"1e-3", b"-0"]),
        lambda: noise(rng),
    ]
    parts = [rng.choice(kinds)() for _ in range(rng.randrange(4))]
    return b"".join(PART.pack(len(part)) + part for part in parts)


def requests(rng: random.Random, count: int, store: TCPStore) -> None:
    """Every request is answered, by its number."""
    connection = socket.create_connection(("127.0.0.1", store.port), LONG)
    prove_to_server(connection, SECRET, time.monotonic() + LONG)
    connection.settimeout(LONG)
    exchange = Exchange(connection)
    for i in range(count):
        body = mutant(rng, request(rng)) if rng.random() < 0.8 else noise(rng)
        operation = rng.choice([*range(POP + 1), number(rng, 32)])
        if operation == WAIT and len(body) >= 4:  # nobody may wait for long here
            body = PART.pack(1) + b"0" + body
        connection.sendall(FRAME.pack(operation, i, len(body)) + body)
        success, answered, data = exchange._read_message()
        assert (answered, success in (0, 1)) == (i, True)
        parts = unpack_parts(data)
        assert success or parts
        if i % BATCH == 0:
            value = rng.randbytes(10)
            store.set("honest", value)
            assert store.get("honest") == value
    exchange.close()


def answers(rng: random.Random, count: int) -> None:
    """A client of a broken server: an error, or what looks like an answer."""
    ours, theirs = socket.socketpair()
    exchange = Exchange(ours)
    for _ in range(count):
        body = mutant(rng, request(rng))
        nbytes = len(body) if rng.random() < 0.7 else number(rng, 64)
        theirs.sendall(FRAME.pack(rng.randrange(3), exchange._number + 1, nbytes) + body)
        theirs.shutdown(socket.SHUT_WR)
        with suppress(ConnectionError, ValueError):
            exchange.ask(GET, [b"a"])
        exchange.close()
        theirs.close()
        ours, theirs = socket.socketpair()
        exchange = Exchange(ours)
    exchange.close()
    theirs.close()


# ---------------------------------------------------------------- ranks
def hellos(rng: random.Random, count: int) -> None:
    """Strangers at the port of rank 0; then rank 1 comes."""
    for first in range(0, count, BATCH):
        with socket.create_server(("127.0.0.1", 0), backlog=handshakes.BACKLOG) as listener:
            strangers = []
            for _ in range(min(BATCH, count - first)):
                stranger = socket.create_connection(listener.getsockname(), LONG)
                right = rng.randbytes(64) + struct.pack("<II", 1, 0)
                send(stranger, mutant(rng, right) if rng.random() < 0.7 else noise(rng))
                strangers.append(stranger)
            end = time.monotonic() + LONG
            accepted: dict[int, socket.socket] = {}

            def serve(accepted: Any = accepted, listener: Any = listener, end: float = end) -> None:
                accepted |= accept(0, {1}, listener, SECRET, end)

            thread = threading.Thread(target=serve)
            thread.start()
            infos = [{"addresses": ["127.0.0.1"], "port": listener.getsockname()[1]}]
            links = connect(1, [0], infos, SECRET, end)
            thread.join()
            assert (list(links), list(accepted)) == ([0], [1])
            for each in (*strangers, links[0], accepted[1]):
                each.close()


def frames(rng: random.Random, count: int) -> None:
    """A rank of broken peers: a message, or the end of the connection; no absurd memory."""
    for _ in range(count):
        ours, theirs = socket.socketpair()
        here = tcp_link(ours)
        here.receive(1, Request(np.zeros(8, np.uint8).data))
        for _ in range(rng.randrange(1, 4)):
            body = noise(rng, 20)
            nbytes = len(body) if rng.random() < 0.6 else number(rng, 64)
            tag = rng.choice([1, 2, TAKEN, number(rng, 32)])
            head = FRAME.pack(tag, number(rng, 32), nbytes)
            send(theirs, mutant(rng, head + body) if rng.random() < 0.3 else head + body)
        theirs.shutdown(socket.SHUT_WR)
        with suppress(Broken):
            while not here.is_closed:
                here.read()
        ours.close()
        theirs.close()


def tcp_link(connection: socket.socket) -> Link:
    """A link without TCP's options, which a socket pair lacks."""

    class Plain:
        def __getattr__(self, name: str) -> Any:
            return getattr(connection, name)

        def setsockopt(self, *_: int) -> None:
            return None

    return Link(Plain())  # type: ignore[arg-type]


# ---------------------------------------------------------------- the rendezvous by name
def forged_hello(rng: random.Random) -> bytes:
    """A hello of a rank that does not fit, or with a field that no rank sends."""
    values = own_place(2 + number(rng, 32), rng.choice([2, number(rng, 62)])).as_dict()
    if rng.random() < 0.5:
        name = rng.choice(list(values))
        values[name] = rng.choice([None, -1, "", [], {}, 1 << 70, "x" * 70])
        values.pop(name if rng.random() < 0.3 else "", None)
    return encode({"protocol": rng.choice([PROTOCOL, number(rng, 8)]), "place": values})


def names(rng: random.Random, count: int) -> None:
    """This user's processes at rank 0's socket; then rank 1 comes, unless one did not fit."""
    for first in range(0, count, BATCH):
        name = f"fuzz/{os.getpid()}/{rng.getrandbits(60)}"
        outcome: list[Any] = []

        def serve(name: str = name, outcome: list[Any] = outcome) -> None:
            try:
                outcome.append(find_group(name, 0, 2, LONG))
            except ShmTensorError as error:  # a hello of another group: ranks do not fit together
                outcome.append(error)

        thread = threading.Thread(target=serve)
        thread.start()
        strangers = []
        while len(strangers) < min(BATCH, count - first) and not outcome:
            stranger = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            strangers.append(stranger)
            if stranger.connect_ex(address(name)):
                strangers.pop().close()
                continue
            other = packet(rng, rng.choice([noise(rng), b"[" * rng.randrange(1, 3000), b"{}"]))
            send(stranger, forged_hello(rng) if rng.random() < 0.02 else other)
        while thread.is_alive():  # unless a stranger did not fit
            with suppress(ShmTensorError):
                find_group(name, 1, 2, 1.0)
        thread.join()
        for each in strangers:
            each.close()


def message_of_rank_0(rng: random.Random) -> bytes:
    """A message that may be right in some of its parts."""
    anything: list[Any] = [None, 3, "", "00" * 72, "zz", [], ["00" * 72], {}, True, "memory", "tcp"]
    keys = ["welcome", "plan", "block", "domains", "go", "error", "text"]
    message = {rng.choice(keys): rng.choice(anything) for _ in range(rng.randrange(4))}
    if rng.random() < 0.3:
        message["welcome"] = own_place(0, 2).as_dict()
    text = json.dumps(message).encode()
    return packet(rng, text if rng.random() < 0.8 else noise(rng) or b"{")


def handles(rng: random.Random, count: int) -> None:
    """A rank whose rank 0 is broken."""
    name = f"fuzz/{os.getpid()}/{rng.getrandbits(60)}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(address(name))
        listener.listen(8)

        def answer() -> None:
            for _ in range(count):
                connection, _ = listener.accept()
                with connection, suppress(OSError):
                    connection.recv(MAX_BYTES)
                    for _ in range(rng.randrange(1, 5)):
                        connection.send(message_of_rank_0(rng))
                    connection.shutdown(socket.SHUT_WR)
                    connection.recv(1)

        thread = threading.Thread(target=answer)
        thread.start()
        while thread.is_alive():
            with suppress(ShmTensorError, ValueError, PermissionError, RuntimeError):
                find_group(name, 1, 2, 0.2)
        thread.join()


# ---------------------------------------------------------------- the fork server
def fork_requests(rng: random.Random, count: int) -> None:
    """A list of descriptors, or None; descriptors that do not fit are closed."""
    for _ in range(count):
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with ours, theirs:
            fds = [ours.fileno()] * rng.choice([0, 1, 2, 3, 200, 253])
            data = encode({"descriptors": rng.choice([len(fds), number(rng, 62), None, [], "2"])})
            if rng.random() < 0.4:
                data = mutant(rng, data) if rng.random() < 0.7 else noise(rng, 8)
            rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))]
            ours.sendmsg([data or b"\0"], rights if fds else [])
            before = len(os.listdir("/proc/self/fd"))
            received = receive_request(theirs)
            assert received is None or len(received) == len(fds) >= 2
            for fd in received or ():
                os.close(fd)
            assert len(os.listdir("/proc/self/fd")) <= before


def forge(seed: int, count: int) -> None:
    """Forges an eighth of `count` inputs for each target."""
    rng, each = random.Random(seed), -(-count // 8)
    with TCPStore("127.0.0.1", 0, is_master=True, timeout=LONG, secret=SECRET) as store:
        assert store._ask(SET, "a", "b") == []
        greetings(rng, each, store)
        requests(rng, each, store)
    answers(rng, each)
    hellos(rng, each)
    frames(rng, each)
    names(rng, each)
    handles(rng, each)
    fork_requests(rng, each)
