"""How ranks meet: the one way into a new group.

The launcher and the trainer create the group's block before their ranks, which inherit it. All
other ranks agree on a name (`tcp://localhost:29500`, MASTER_ADDR and MASTER_PORT, a file, any
string), or on a store, and meet at a socket, which hands over the memory (meeting.py).
"""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Callable
from typing import Any

import numpy as np

from ... import native
from ...errors import CollectiveTimeout
from ...memory.peer_credentials import UNKNOWN, own_user
from .hosts import address_of, is_loopback
from .meeting import Meeting, Network, create_block
from .meeting_host import Host
from .meeting_joiner import Joiner
from .notice import Notice
from .places import own_place
from .secret import has_secret, shared_secret
from .store import PrefixStore, Store
from .tcp_store import TCPStore

__all__ = ["all_gather_json", "create_block", "find_group", "join_block", "open_store"]

MAX_RANKS = 128  # of a group in shared memory: kMaxWorld in native/ipc/process_group/group.h


def all_gather_json(
    all_gather: Callable[..., None],
    world: int,
    info: dict[str, Any],
    timeout: float,
    nbytes: int = 4096,
) -> list[dict[str, Any]]:
    """Gathers a dict from each rank, in rank order; all ranks call it.

    Args:
        all_gather: the method of an engine: of arrays of one length, and a timeout in seconds.
        info: this rank's dict, which JSON can encode.
        nbytes: the largest size of its JSON, the same on all ranks.
    """
    text = json.dumps(info).encode()
    if len(text) > nbytes:
        raise ValueError(f"init_process_group: too long for {nbytes} bytes: {info}")
    table = np.empty((world, nbytes), np.uint8)  # private: a domain may be joined later
    all_gather(list(table), np.frombuffer(bytearray(text.ljust(nbytes)), np.uint8), timeout)
    return [json.loads(row.tobytes()) for row in table]


def find_group(
    name: str,
    rank: int,
    world: int,
    timeout: float,
    address: tuple[str, int] | None = None,
    where: str = "init_process_group",
    role: str = "",
    store: Store | None = None,
    inherited: str = "",
) -> Meeting:
    """Meets the other ranks that agree on `name`; returns when all have joined the group.

    Args:
        address: of rank 0's host, and the port where ranks meet that share no memory; None: all
            do.
        store: where rank 0 writes its place, and ranks that share no memory with it theirs; then
            `name` is a prefix of the keys.
        inherited: the handle of the group's block, in hexadecimal, from the process that has
            created it for all ranks, its children; "": there is none.
        role: names this process once it is a member of the block's domain; "": keep its name.

    Raises:
        CollectiveTimeout: not all came in time.
        CollectiveMismatch: they disagree about the world size, or two have the same rank.
        PeerLostError: a rank died before all had joined.
        PermissionError: a rank shares no memory with rank 0, and there is no secret; or another
            user holds the name.
        RuntimeError: ranks may come from other hosts, and another program has the port.
        ValueError: there are too many ranks.
    """
    if inherited:
        native.domain_ensure()
        return join_block(
            native.receive(bytes.fromhex(inherited), False), rank, world, timeout, role
        )
    if world == 1:
        native.domain_ensure()
        block, handle = create_block(1)
        native.acknowledge(handle)
        return join_block(block, rank, world, timeout, role)
    if own_user() == UNKNOWN:
        raise PermissionError(
            f"{where}: ranks would be of one user id with all users that this user namespace does "
            f"not map: uid {os.geteuid()}: map the user (unshare --map-root-user), or start the "
            "ranks by one launcher"
        )
    if world > MAX_RANKS and not has_secret():
        raise ValueError(
            f"{where}: too many ranks for one machine: {world}, at most {MAX_RANKS}: more hosts "
            "need a secret (SHMTENSOR_SECRET)"
        )
    place, notice = own_place(rank, world), Notice(where, timeout)
    network: Network | Store | None = None
    if store is not None:
        network = PrefixStore(name, store)
    elif address is not None and has_secret():
        number = os.environ.get("SHMTENSOR_ROUND", "0")
        network = Network(*address, shared_secret(where), f"meet/{number}/{name}")
    if rank == 0:
        return Host(name, place, notice, network, role).meet()
    host = "" if address is None or is_loopback(address[0]) else address[0]
    return Joiner(name, place, notice, network, role, host).meet()


def join_block(
    block: native.Block, rank: int, world: int, timeout: float, role: str = ""
) -> Meeting:
    """Joins the group in a block that all ranks can reach, and waits for them."""
    if role:
        native.set_role(role)
    control = native.Group(block, rank, world)
    control.barrier(timeout)
    return Meeting(control, block)


def open_store(rank: int, timeout: float, init_method: str | None, where: str) -> TCPStore:
    """The store of ranks that are known to be on several hosts: their launcher's, or rank 0's
    (under torchrun at MASTER_PORT + 1).

    Raises:
        PermissionError: there is no secret, or it is not that of the others.
        CollectiveTimeout: the store has not come in time.
    """
    secret, (host, port) = shared_secret(where), address_of(init_method)
    is_agents = os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True" and init_method in (
        None,
        "env://",
    )
    if is_agents and "SHMTENSOR_LAUNCHER" not in os.environ:
        is_agents, port = False, port + 1  # torchrun's store has the port; rank 0 is on that host
    notice = Notice(where, timeout)
    is_master = rank == 0 and not is_agents
    while True:
        limit = max(0.1, notice.pause(60.0))  # at first the time after which a line says why
        try:
            store = TCPStore(
                host, port, None, is_master, limit, wait_for_workers=False, secret=secret
            )
        except TimeoutError as error:
            if notice.is_over():
                raise CollectiveTimeout(f"{where}: rank {rank}: {error}") from None
            notice.check(f"rank {rank} on {socket.gethostname()} waits for rank 0: {error}")
        else:
            store.set_timeout(timeout if timeout >= 0 else 1e9)
            return store
