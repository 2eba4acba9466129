"""Who on other nodes lives: MPI does not say, and a node that dies whole has nobody left to tell.

Each two ranks on different nodes hold a TCP connection, over which nothing is said: the kernel ends
it when one of them does, and when a machine no longer answers (within some seconds, by keep-alive).

```
connect   to every lower rank elsewhere     ranks u32 u32, proof 16 B  ->
accept    from every higher one                                        <-  proof 16 B
```

A proof is a keyed hash by the run's secret, which travels by MPI. The listening sockets are closed
when all have come; they are bound to loopback if all nodes are on one machine.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import select
import socket
import struct
import threading
import time
import warnings
from collections.abc import Iterator
from contextlib import suppress
from hashlib import blake2b
from hmac import compare_digest
from typing import Any

from ...rendezvous.find_group import exchange_text
from ...rendezvous.hosts import keep_alive
from .messages import Base, Wire
from .nodes import Node

__all__ = ["Watch", "keep_watch"]

HELLO = struct.Struct("<II16s")
PATIENCE = 10.0  # seconds until ranks do without a connection
TRIAL = 1.0  # seconds for one address
NEWS_FIRST = 0.2  # seconds in which a neighbour of the dead, who knows more, may tell
SIOCGIFADDR = 0x8915


class Watch:
    """The connections of this process.

    Attributes:
        who: everybody's pid and host.
    """

    def __init__(self, links: dict[int, socket.socket], who: list[tuple[int, str]]) -> None:
        self.who = who
        self._links = links
        self._ranks = {link.fileno(): rank for rank, link in links.items()}
        self._poll = select.poll()
        for descriptor in self._ranks:
            self._poll.register(descriptor, select.POLLIN)
        self._ended: dict[int, float] = {}
        self._busy = threading.Lock()  # lanes look, too
        os.register_at_fork(after_in_child=self.close)  # or a child would keep them alive

    def gone(self) -> list[int]:
        """The ranks whose connection has ended, once somebody else had time to say why."""
        now = time.monotonic()
        with self._busy:
            for descriptor, _ in self._poll.poll(0):
                self._poll.unregister(descriptor)
                self._ended[self._ranks[descriptor]] = now
            if self._ended and now - min(self._ended.values()) > NEWS_FIRST:
                return sorted(self._ended)
        return []

    def close(self) -> None:
        """Ends this process's part in it."""
        self._poll = select.poll()
        for link in self._links.values():
            link.close()


def keep_watch(wire: Wire, nodes: list[Node], said: list[dict[str, Any]], timeout: float) -> None:
    """Connects this rank with all on other nodes; all ranks call it."""
    rank = wire.rank
    far = [r for node in nodes if rank not in node for r in node]
    is_one_machine = len({each["network"] for each in said}) == 1
    with socket.socket() as listener:
        listener.bind(("127.0.0.1" if is_one_machine else "", 0))
        listener.listen(len(said))
        mine: dict[str, Any] = {
            "port": listener.getsockname()[1],
            "addresses": ["127.0.0.1"] if is_one_machine else list(addresses()),
        }
        if rank == 0:
            mine["secret"] = secrets.token_hex(16)
        told = exchange_text(wire.all_gather, len(said), mine, timeout)
        secret = bytes.fromhex(told[0]["secret"])
        deadline = time.monotonic() + PATIENCE
        links = connect(rank, [r for r in far if r < rank], told, secret, deadline)
        links |= accept(rank, {r for r in far if r > rank}, listener, secret, deadline)
    for link in links.values():
        keep_alive(link)
    if missing := sorted(set(far) - set(links)):
        warnings.warn(
            f"init_process_group: rank {rank} has no TCP connection to ranks {missing} on other "
            "nodes: that their node has died would be noticed at the timeout only",
            stacklevel=5,
        )
    Base.watch = Watch(links, [(each["pid"], each["host"]) for each in said])


def proof(secret: bytes, *words: int) -> bytes:
    return blake2b(struct.pack(f"<{len(words)}I", *words), key=secret, digest_size=16).digest()


def connect(
    rank: int, peers: list[int], told: list[dict[str, Any]], secret: bytes, deadline: float
) -> dict[int, socket.socket]:
    """Connections to ranks that accept."""
    begun: dict[int, socket.socket] = {}
    dead_ends: set[str] = set()
    for peer in peers:
        for address in told[peer]["addresses"]:
            if address in dead_ends or time.monotonic() > deadline:
                continue
            try:
                begun[peer] = socket.create_connection((address, told[peer]["port"]), TRIAL)
            except TimeoutError:
                dead_ends.add(address)
            except OSError:
                continue
            else:
                break
    made = {}
    for peer, link in begun.items():  # the hello first: nobody waits for who waits for another
        with suppress(OSError):
            link.sendall(HELLO.pack(rank, peer, proof(secret, rank, peer, 0)))
    for peer, link in begun.items():
        if compare_digest(take(link, 16, deadline), proof(secret, rank, peer, 1)):
            made[peer] = link
        else:
            link.close()
    return made


def accept(
    rank: int, peers: set[int], listener: socket.socket, secret: bytes, deadline: float
) -> dict[int, socket.socket]:
    """Connections from ranks that connect."""
    made: dict[int, socket.socket] = {}
    while peers - set(made) and (rest := deadline - time.monotonic()) > 0:
        listener.settimeout(rest)
        try:
            link, _ = listener.accept()
        except OSError:
            continue
        hello = take(link, HELLO.size, min(deadline, time.monotonic() + TRIAL))
        peer, own, proven = HELLO.unpack(hello or bytes(HELLO.size))
        is_theirs = compare_digest(proven, proof(secret, peer, rank, 0))
        if own != rank or peer not in peers or not is_theirs:
            link.close()
            continue
        with suppress(OSError):
            link.sendall(proof(secret, peer, rank, 1))
        made[peer] = link
    return made


def take(link: socket.socket, n: int, deadline: float) -> bytes:
    """n bytes, or nothing."""
    data = b""
    with suppress(OSError):
        while len(data) < n:
            link.settimeout(max(1e-3, deadline - time.monotonic()))
            if not (part := link.recv(n - len(data))):
                return b""
            data += part
    return data if len(data) == n else b""


def addresses() -> Iterator[str]:
    """The IPv4 addresses of this machine that others may reach."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        for _, name in socket.if_nameindex():
            with suppress(OSError):  # it has none
                request = struct.pack("256s", name.encode()[:15])
                answer = fcntl.ioctl(asking.fileno(), SIOCGIFADDR, request)
                address = socket.inet_ntoa(answer[20:24])
                if not address.startswith("127."):
                    yield address
