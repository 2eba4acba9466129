"""How the ranks of several hosts find one another.

```
store     of the meeting: of the first node's launcher, of rank 0, or the user's
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
from ...rendezvous.hosts import is_loopback
from ...rendezvous.notice import Notice
from ...rendezvous.secret import shared_secret
from ...rendezvous.store import PrefixStore, Store
from ...rendezvous.tcp_store import TCPStore
from ..mpi.backend import Engine
from ..mpi.messages import Wire
from ..mpi.nodes import describe_self, join_node
from .connections import Connections

WHERE = "init_process_group"
RANKS = struct.Struct("<II")  # the sender's, the receiver's
TRIAL = 1.0  # seconds for one address
ATTEMPTS = 3  # at the addresses of a rank
SIOCGIFADDR = 0x8915


def world_engine(rank: int, world: int, timeout: float, store: Store, number: int) -> Engine:
    """This rank's end of the group of all ranks; waits for all.

    Args:
        number: of the group, among those of the store.

    Raises:
        PermissionError: there is no secret, or it is not that of the others.
        CollectiveTimeout: not all came in time.
        CollectiveMismatch: two have the same rank, or they disagree about the world size.
    """
    secret, address = shared_secret(WHERE), ""
    restart_round = os.environ.get("SHMTENSOR_ROUND", "0")
    deadline = time.monotonic() + (timeout if timeout >= 0 else 1e9)
    if isinstance(store, TCPStore):  # with another one, on all interfaces
        host = store.local_address()
        address = "" if is_loopback(host) and not is_loopback(store.host) else host
    rank_store = PrefixStore(f"world/{restart_round}/{number}", store)
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.create_server((address, 0), family=family, backlog=BACKLOG) as listener:
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
    return join_group(rank, links, infos, max(0.0, deadline - time.monotonic()), timeout)


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
    keys, notice = [str(r) for r in range(world)], Notice(WHERE, timeout)
    while missing := store.await_all(keys, notice.pause(60.0)):
        ranks = ", ".join(sorted(missing, key=int))
        who = f"rank {rank} of {world} on {info['host']} waits for ranks {ranks} at the store"
        notice.check(f"{who}: {len(missing)} of {world} are missing")
    infos = [json.loads(each) for each in store.multi_get(keys)]
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
