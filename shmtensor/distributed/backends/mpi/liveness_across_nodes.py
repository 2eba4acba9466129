"""Whether ranks on other nodes live. MPI does not tell, and when a whole node dies, no rank of it
can.

Each two ranks on different nodes hold a TCP connection and send nothing over it. The kernel closes
it when one of the processes ends, and when a machine no longer answers (after some seconds, by
keep-alive).

```
connect   to every lower rank on another node   ranks u32 u32, proof 16 B  ->
accept    from every higher rank                                           <-  proof 16 B
```

A proof is a keyed hash by the run's secret, which is sent by MPI. The listening sockets are closed
when all have connected; they are bound to loopback if all nodes are on one machine. Strangers that
connect and stay silent delay no rank (../../rendezvous/handshakes.py).
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

from ...rendezvous.find_group import all_gather_json
from ...rendezvous.handshakes import BACKLOG, LIMIT, Handshake, Handshakes, receive_exactly
from ...rendezvous.hosts import keep_alive
from .messages import Base, Wire
from .nodes import Node

__all__ = ["Watch", "start_watch"]

HELLO = struct.Struct("<II16s")
PATIENCE = 10.0  # seconds after which ranks go on without a connection
TRIAL = 1.0  # seconds for one address
ATTEMPTS = 3  # at the addresses of a rank
PROOF = 16  # bytes
NEWS_FIRST = 0.2  # seconds in which ranks on the dead one's node, which know more, may send news
SIOCGIFADDR = 0x8915


class Watch:
    """The connections of this process.

    Attributes:
        processes: everybody's pid and host.
    """

    def __init__(self, links: dict[int, socket.socket], processes: list[tuple[int, str]]) -> None:
        self.processes = processes
        self._links = links
        self._ranks = {link.fileno(): rank for rank, link in links.items()}
        self._poll = select.poll()
        for descriptor in self._ranks:
            self._poll.register(descriptor, select.POLLIN)
        self._closed_at: dict[int, float] = {}
        self._lock = threading.Lock()  # lanes poll, too
        os.register_at_fork(after_in_child=self.close)  # a child would keep connections open

    def dead_ranks(self) -> list[int]:
        """The ranks whose connections have closed, after others had NEWS_FIRST to tell why."""
        now = time.monotonic()
        with self._lock:
            for descriptor, _ in self._poll.poll(0):
                self._poll.unregister(descriptor)
                self._closed_at[self._ranks[descriptor]] = now
            if self._closed_at and now - min(self._closed_at.values()) > NEWS_FIRST:
                return sorted(self._closed_at)
        return []

    def close(self) -> None:
        """Closes this process's connections."""
        self._poll = select.poll()
        for link in self._links.values():
            link.close()


def start_watch(wire: Wire, nodes: list[Node], infos: list[dict[str, Any]], timeout: float) -> None:
    """Connects this rank with all ranks on other nodes; all ranks call it."""
    rank = wire.rank
    remote_ranks = [r for node in nodes if rank not in node for r in node]
    is_one_machine = len({each["network"] for each in infos}) == 1
    with socket.socket() as listener:
        listener.bind(("127.0.0.1" if is_one_machine else "", 0))
        listener.listen(BACKLOG)
        info: dict[str, Any] = {
            "port": listener.getsockname()[1],
            "addresses": ["127.0.0.1"] if is_one_machine else list(addresses()),
        }
        if rank == 0:
            info["secret"] = secrets.token_hex(16)
        listeners = all_gather_json(wire.all_gather, len(infos), info, timeout)
        secret = bytes.fromhex(listeners[0]["secret"])
        deadline = time.monotonic() + PATIENCE
        links = connect(rank, [r for r in remote_ranks if r < rank], listeners, secret, deadline)
        links |= accept(rank, {r for r in remote_ranks if r > rank}, listener, secret, deadline)
    for link in links.values():
        keep_alive(link)
    if missing := sorted(set(remote_ranks) - set(links)):
        warnings.warn(
            f"init_process_group: rank {rank} has no TCP connection to ranks {missing} on other "
            "nodes: the death of their node would only be noticed at the timeout",
            stacklevel=5,
        )
    Base.watch = Watch(links, [(each["pid"], each["host"]) for each in infos])


def proof(secret: bytes, *words: int) -> bytes:
    data = struct.pack(f"<{len(words)}I", *words)
    return blake2b(data, key=secret, digest_size=PROOF).digest()


def connect(
    rank: int, peers: list[int], listeners: list[dict[str, Any]], secret: bytes, deadline: float
) -> dict[int, socket.socket]:
    """Connections to ranks that accept."""
    pending: dict[int, socket.socket] = {}
    for _ in range(ATTEMPTS):
        unreachable: set[str] = set()
        for peer in peers:
            if peer in pending:
                continue
            link = reach(listeners[peer], unreachable, deadline)
            if link is not None:
                pending[peer] = link
                with suppress(OSError):  # at once, so that no rank waits for another's proof
                    link.sendall(HELLO.pack(rank, peer, proof(secret, rank, peer, 0)))
    links = {}
    for peer, link in pending.items():
        try:
            answer = receive_exactly(link, PROOF, deadline)
        except OSError:
            answer = b""
        if compare_digest(answer, proof(secret, rank, peer, 1)):
            links[peer] = link
        else:
            link.close()
    return links


def reach(listener: dict[str, Any], unreachable: set[str], deadline: float) -> socket.socket | None:
    """A connection to one of a listener's addresses; adds those that do not answer to
    `unreachable`, and leaves out what is in it.
    """
    for address in listener["addresses"]:
        if address in unreachable or time.monotonic() > deadline:
            continue
        try:
            return socket.create_connection((address, listener["port"]), TRIAL)
        except TimeoutError:
            unreachable.add(address)
        except OSError:
            continue
    return None


def accept(
    rank: int, peers: set[int], listener: socket.socket, secret: bytes, deadline: float
) -> dict[int, socket.socket]:
    """Connections from ranks that connect."""

    def prove(link: socket.socket) -> Handshake:
        peer, target, their_proof = HELLO.unpack((yield HELLO.size))
        is_proven = compare_digest(their_proof, proof(secret, peer, rank, 0))
        if target != rank or peer not in peers or not is_proven:
            raise ConnectionRefusedError("not a rank of this group")
        link.send(proof(secret, peer, rank, 1))
        return peer

    links: dict[int, socket.socket] = {}
    with Handshakes(listener, prove, LIMIT + len(peers)) as handshakes:
        while peers - set(links) and (remaining := deadline - time.monotonic()) > 0:
            for link, peer in handshakes.poll(remaining):
                if peer in links:  # the rank has connected anew
                    links[peer].close()
                links[peer] = link
    return links


def addresses() -> Iterator[str]:
    """The IPv4 addresses of this machine that other machines may reach."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        for _, name in socket.if_nameindex():
            with suppress(OSError):  # it has none
                request = struct.pack("256s", name.encode()[:15])
                response = fcntl.ioctl(probe.fileno(), SIOCGIFADDR, request)
                address = socket.inet_ntoa(response[20:24])
                if not address.startswith("127."):
                    yield address
