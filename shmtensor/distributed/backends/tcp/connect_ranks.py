"""How the ranks of several hosts find one another.

```
store     MASTER_ADDR:MASTER_PORT: of the first node's launcher, without one of rank 0
rank r    writes  its address, machine, host, pid                   waits for those of all others
          connects to every lower rank, accepts from every higher one: both prove the secret, then
          its own rank u32, the other's u32 ->
          creates its node's group in shared memory (../mpi/nodes.py); ends with a barrier of all
```

If a rank dies meanwhile, the others notice it at the timeout while they wait for the store, later
by its connections. Ranks connect from the address by which their host reaches the store. What they
prove is a hash of the secret and a key of this group. Strangers that connect and stay silent delay
no rank (../../rendezvous/handshakes.py).
"""

from __future__ import annotations

import fcntl
import json
import os
import socket
import struct
import time
from collections.abc import Iterator
from contextlib import suppress
from hashlib import blake2b
from multiprocessing import AuthenticationError
from typing import Any

from .... import native
from ....errors import CollectiveMismatch, CollectiveTimeout
from ...rendezvous.handshakes import (
    BACKLOG,
    LIMIT,
    Handshake,
    Handshakes,
    prove_to_client,
    prove_to_server,
)
from ...rendezvous.hosts import address_of, is_loopback
from ...rendezvous.notice import Notice, wait_in_store
from ...rendezvous.secret import shared_secret
from ...rendezvous.store import PrefixStore, Store
from ...rendezvous.tcp_store import TCPStore
from ..mpi.backend import Engine
from ..mpi.messages import Wire
from ..mpi.nodes import describe_self, join_node
from .connections import Connections

__all__ = ["accept", "connect", "world_engine"]

WHERE = "init_process_group"
RANKS = struct.Struct("<II")  # the sender's, the receiver's
TRIAL = 1.0  # seconds for one address
ATTEMPTS = 3  # at the addresses of a rank
SIOCGIFADDR = 0x8915


def world_engine(
    rank: int, world: int, timeout: float, init_method: str | None, store: Store | None, times: int
) -> Engine:
    """This rank's end of the group of all ranks; waits for all.

    Raises:
        PermissionError: there is no secret, or it is not that of the others.
        CollectiveTimeout: not all came in time.
        CollectiveMismatch: two have the same rank, or they disagree about the world size.
    """
    secret = shared_secret(WHERE)
    own_store: TCPStore | None = None
    address = ""
    restart_round = os.environ.get("SHMTENSOR_ROUND", "0")
    deadline = time.monotonic() + (timeout if timeout >= 0 else 1e9)
    try:
        if store is None:
            own_store = store = connect_store(rank, timeout, init_method, secret)
        if isinstance(store, TCPStore):  # with another one, on all interfaces
            host = store.local_address()
            address = "" if is_loopback(host) and not is_loopback(store.host) else host
        rank_store = PrefixStore(f"world/{restart_round}/{times}", store)
        with listen(address) as listener:
            info = {
                "port": listener.getsockname()[1],
                "addresses": [address] if address else list(addresses()) or ["127.0.0.1"],
                "world": world,
                "key": os.urandom(16).hex(),
                **describe_self(rank, separate_domains=bool(os.environ.get("SHMTENSOR_DOMAIN"))),
            }
            infos = exchange_infos(rank_store, rank, world, info, timeout)
            key = blake2b(bytes.fromhex(infos[0]["key"]), key=secret[:64]).digest()
            links = connect(rank, list(range(rank)), infos, key, deadline)
            links |= accept(rank, set(range(rank + 1, world)), listener, key, deadline)
        if missing := sorted(set(range(world)) - {rank} - set(links)):
            for link in links.values():
                link.close()
            raise CollectiveTimeout(
                f"{WHERE}: rank {rank} of {world} has no connection to ranks {missing}, whose "
                f"addresses are {[infos[r]['addresses'] for r in missing]}"
            )
        engine = join_group(rank, links, infos, max(0.0, deadline - time.monotonic()), timeout)
    finally:
        if own_store is not None:
            own_store.close()
    return engine


def connect_store(rank: int, timeout: float, init_method: str | None, secret: bytes) -> TCPStore:
    """The launcher's store, or that of rank 0."""
    host, port = address_of(init_method)
    is_agents = os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True" and init_method in (
        None,
        "env://",
    )
    if is_agents and "SHMTENSOR_LAUNCHER" not in os.environ:
        raise RuntimeError(
            f"{WHERE}: the store at {host}:{port} is torchrun's own: start ranks on several hosts "
            "with python -m shmtensor.run"
        )
    notice = Notice(WHERE, timeout)
    is_master = rank == 0 and not is_agents
    while True:
        limit = max(0.1, notice.pause(60.0))  # at first the time after which a line says why
        try:
            store = TCPStore(
                host, port, None, is_master, limit, wait_for_workers=False, secret=secret
            )
        except TimeoutError as error:
            if notice.is_over():
                raise CollectiveTimeout(f"{WHERE}: rank {rank}: {error}") from None
            if notice.is_due():
                notice.print(f"rank {rank} on {socket.gethostname()} waits for rank 0: {error}")
        else:
            store.set_timeout(timeout if timeout >= 0 else 1e9)
            return store


def listen(address: str) -> socket.socket:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.bind((address, 0))
        listener.listen(BACKLOG)
    except BaseException:
        listener.close()
        raise
    return listener


def exchange_infos(
    store: Store, rank: int, world: int, info: dict[str, Any], timeout: float
) -> list[dict[str, Any]]:
    """The information of every rank, exchanged through the store."""
    text = json.dumps(info).encode()
    if store.compare_set(str(rank), b"", text) != text:
        other = json.loads(store.get(str(rank)))
        raise CollectiveMismatch(
            f"{WHERE}: ranks do not fit together: rank {rank} came twice: pid {info['pid']} on "
            f"{info['host']}, pid {other['pid']} on {other['host']}"
        )
    who = f"rank {rank} of {world} on {info['host']}"
    wait_in_store(store, world, who, Notice(WHERE, timeout), lambda: None)
    infos = [json.loads(store.get(str(r))) for r in range(world)]
    if mismatched := [r for r in range(world) if infos[r]["world"] != world]:
        other = infos[mismatched[0]]
        raise CollectiveMismatch(
            f"{WHERE}: ranks do not fit together: rank {rank} is of {world}, rank "
            f"{mismatched[0]} on {other['host']} of {other['world']}"
        )
    return infos


def join_group(
    rank: int,
    links: dict[int, socket.socket],
    infos: list[dict[str, Any]],
    remaining: float,
    timeout: float,
) -> Engine:
    """This rank's end of the group over established connections."""
    connections = Connections(rank, links, [(each["pid"], each["host"]) for each in infos])
    limit = remaining if timeout >= 0 else timeout
    try:
        wire = Wire(connections, rank, range(connections.size))
        nodes, local_group, process_rows = join_node(wire, infos, limit)
        native.set_role(f"rank {rank}")
        engine = Engine(wire, nodes, local_group, process_rows)
        connections.local_ranks = engine.local_ranks
        engine.barrier(limit)
    except BaseException:
        connections.drop()
        raise
    return engine


# ---------------------------------------------------------------- connections
def connect(
    rank: int, peers: list[int], listeners: list[dict[str, Any]], secret: bytes, deadline: float
) -> dict[int, socket.socket]:
    """Connections to ranks that accept."""
    links: dict[int, socket.socket] = {}
    for _ in range(ATTEMPTS):
        unreachable: set[str] = set()
        for peer in peers:
            if peer in links or (link := reach(listeners[peer], unreachable, deadline)) is None:
                continue
            try:
                prove_to_server(link, secret, deadline)
                link.sendall(RANKS.pack(rank, peer))
                links[peer] = link
            except (OSError, AuthenticationError):  # not that rank, or it served many others
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
        yield from prove_to_client(link, secret)
        peer, target = RANKS.unpack((yield RANKS.size))
        if target != rank or peer not in peers:
            raise ConnectionRefusedError("not a rank of this group")
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
