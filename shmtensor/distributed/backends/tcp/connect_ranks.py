"""How the ranks of several hosts find one another.

```
store     MASTER_ADDR:MASTER_PORT: held by the first node's launcher, without one by rank 0
rank r    says    where it listens, its machine, host, pid          waits for what all others say
          accepts from every higher rank, connects to every lower one: both prove the secret
          makes   its node's group in shared memory (../mpi/nodes.py); a barrier of all ends it
```

A rank that dies on the way is missed at the timeout while the store is waited for, then by its
connections. Connections are made from the address by which this host reaches the store.
"""

from __future__ import annotations

import json
import os
import socket
import time
from hashlib import blake2b
from typing import Any

from .... import native
from ....errors import CollectiveMismatch, CollectiveTimeout
from ...rendezvous.hosts import address_of, is_loopback
from ...rendezvous.secret import shared_secret
from ...rendezvous.store import PrefixStore, Store
from ...rendezvous.tcp_store import TCPStore
from ..mpi.backend import Engine
from ..mpi.liveness_across_nodes import accept, addresses, connect
from ..mpi.messages import Base, Wire
from ..mpi.nodes import describe_self, meet_node
from .mpi4py_interface import Connections

__all__ = ["world_engine"]

WHERE = "init_process_group"


def world_engine(
    rank: int, world: int, timeout: float, init_method: str | None, store: Store | None, times: int
) -> Engine:
    """This rank's end of the group of all ranks; waits for all.

    Raises:
        PermissionError: no secret is given, or it is not that of the others.
        CollectiveTimeout: not all came in time.
        CollectiveMismatch: two have the same rank, or they disagree about the world size.
    """
    secret = shared_secret(WHERE)
    own: TCPStore | None = None
    inside = ""
    turn = os.environ.get("SHMTENSOR_ROUND", "0")
    deadline = time.monotonic() + (timeout if timeout >= 0 else 1e9)
    try:
        if store is None:
            own = store = connect_store(rank, timeout, init_method, secret)
            host = own.local_address()
            inside = "" if is_loopback(host) and not is_loopback(own.host) else host
        place = PrefixStore(f"world/{turn}/{times}", store)
        with listen(inside, world) as listener:
            mine = {
                "port": listener.getsockname()[1],
                "addresses": [inside] if inside else list(addresses()) or ["127.0.0.1"],
                "world": world,
                "key": os.urandom(16).hex(),
                **describe_self(rank, apart=bool(os.environ.get("SHMTENSOR_DOMAIN"))),
            }
            said = introduce(place, rank, world, mine, timeout)
            key = blake2b(bytes.fromhex(said[0]["key"]), key=secret[:64]).digest()
            links = connect(rank, list(range(rank)), said, key, deadline)
            links |= accept(rank, set(range(rank + 1, world)), listener, key, deadline)
        if missing := sorted(set(range(world)) - {rank} - set(links)):
            for link in links.values():
                link.close()
            raise CollectiveTimeout(
                f"{WHERE}: rank {rank} of {world} has no connection to ranks {missing}, whose "
                f"addresses are {[said[r]['addresses'] for r in missing]}"
            )
        engine = join(rank, links, said, max(0.0, deadline - time.monotonic()), timeout)
    finally:
        if own is not None:
            own.close()
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
    limit = timeout if timeout >= 0 else 1e9
    is_master = rank == 0 and not is_agents
    try:
        return TCPStore(host, port, None, is_master, limit, wait_for_workers=False, secret=secret)
    except TimeoutError as error:
        raise CollectiveTimeout(f"{WHERE}: rank {rank}: {error}") from None


def listen(inside: str, world: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in inside else socket.AF_INET
    made = socket.socket(family, socket.SOCK_STREAM)
    try:
        made.bind((inside, 0))
        made.listen(world)
    except BaseException:
        made.close()
        raise
    return made


def introduce(
    place: Store, rank: int, world: int, mine: dict[str, Any], timeout: float
) -> list[dict[str, Any]]:
    """What every rank says about itself."""
    text = json.dumps(mine).encode()
    if place.compare_set(str(rank), b"", text) != text:
        other = json.loads(place.get(str(rank)))
        raise CollectiveMismatch(
            f"{WHERE}: ranks do not fit together: rank {rank} came twice: pid {mine['pid']} on "
            f"{mine['host']}, pid {other['pid']} on {other['host']}"
        )
    keys = [str(r) for r in range(world)]
    if missing := place.await_all(keys, timeout):
        raise CollectiveTimeout(
            f"{WHERE}: timed out after {timeout:g} s: not all {world} ranks have come: rank {rank} "
            f"on {mine['host']} misses {', '.join(sorted(missing, key=int))}"
        )
    said = [json.loads(place.get(key)) for key in keys]
    if differing := [r for r in range(world) if said[r]["world"] != world]:
        other = said[differing[0]]
        raise CollectiveMismatch(
            f"{WHERE}: ranks do not fit together: rank {rank} is of {world}, rank "
            f"{differing[0]} on {other['host']} of {other['world']}"
        )
    return said


def join(
    rank: int,
    links: dict[int, socket.socket],
    said: list[dict[str, Any]],
    rest: float,
    timeout: float,
) -> Engine:
    """The group over connections that stand."""
    made = Connections(rank, links, [(each["pid"], each["host"]) for each in said])
    limit = rest if timeout >= 0 else timeout
    try:
        Base.watch, Base.number = made, 0  # tags count anew: nobody else has these connections
        wire = Wire(made, rank, range(made.size))
        nodes, local, kin = meet_node(wire, said, limit)
        native.set_role(f"rank {rank}")
        engine = Engine(wire, nodes, local, kin)
        made.near = engine.near
        engine.barrier(limit)
    except BaseException:
        made.drop()
        raise
    return engine
