"""How the ranks of a new group find its block, when they know only a name.

The launcher and the trainer create the block before their ranks and pass its handle on to them. All
other ranks agree on a name (`tcp://localhost:29500`, MASTER_ADDR and MASTER_PORT, a file, any
string), or on a store, and meet at a socket (meeting.py).
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NoReturn

import numpy as np

from ...errors import CollectiveMismatch
from ...memory.peer_credentials import UNKNOWN, own_user
from .hosts import is_loopback
from .meeting import Meeting, Network, apart_error, create_block, tcp_line
from .meeting_host import Host
from .meeting_joiner import Joiner
from .meeting_messages import decode_error, encode_error
from .notice import Notice, wait_in_store
from .places import Place, own_place
from .secret import shared_secret
from .store import PrefixStore, Store

__all__ = ["all_gather_json", "create_block", "find_group", "find_group_by_store"]


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


def has_secret() -> bool:
    """Whether the user has given a secret, by which ranks may meet over the network. Under a
    launcher MASTER_PORT is the launcher's own, and the secret may be.
    """
    is_given = os.environ.get("SHMTENSOR_SECRET") or os.environ.get("SHMTENSOR_SECRET_FILE")
    is_launched = "SHMTENSOR_LAUNCHER" in os.environ or (
        os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
    )
    return bool(is_given) and not is_launched


def find_group(
    name: str,
    rank: int,
    world: int,
    timeout: float,
    address: tuple[str, int] | None = None,
    where: str = "init_process_group",
    role: str = "",
) -> Meeting:
    """Meets the other ranks that agree on `name`; returns when all have joined the group.

    Args:
        address: of rank 0's host, and the port where ranks meet that share no memory; None: all
            do.
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
    network = None
    if address is not None and has_secret():
        number = os.environ.get("SHMTENSOR_ROUND", "0")
        network = Network(*address, shared_secret(where), f"meet/{number}/{name}")
    if rank == 0:
        return Host(name, place, notice, network, role).meet()
    host = "" if address is None or is_loopback(address[0]) else address[0]
    return Joiner(name, place, notice, network, role, host).meet()


def find_group_by_store(
    store: Store, key: str, rank: int, world: int, timeout: float, role: str = ""
) -> Meeting:
    """As `find_group`, of ranks that share a store: each writes where it runs, so all know at once
    whether they share memory. If they do not, and have a secret, the meeting has no `control`.
    """
    where = "init_process_group"
    notice = Notice(where, timeout)
    part = PrefixStore(key, store)
    own = own_place(rank, world)
    text = json.dumps({**own.as_dict(), "name": os.urandom(16).hex()}).encode()
    if (other_text := part.compare_set(str(rank), b"", text)) != text:
        other, _ = read_place(other_text)
        if replace(other, world=world) != own:
            raise_mismatch(part, where, own, f"rank {rank} came twice", other)
        if other.world != world:  # else this process tries again: by the name of the first attempt
            part.set(str(rank), text)
    places = gather_places(part, where, own, notice)
    name = places[0][1]
    for place, _ in places[1:]:
        if why := place.why_apart(places[0][0]):
            why = f"{place} is {why}: {places[0][0]}"
            if not has_secret():
                raise apart_error(where, why)
            if rank == 0:
                notice.print(tcp_line(world, why))
            return Meeting()
    return find_group(f"store/{name}", rank, world, notice.remaining(), where=where, role=role)


def gather_places(
    part: PrefixStore, where: str, own: Place, notice: Notice
) -> list[tuple[Place, str]]:
    """Where all ranks run, and the name that each proposes; waits until all have written it."""
    earlier_error = part.try_get("error")  # of a meeting that has failed

    def check() -> None:
        if (error := part.try_get("error")) is not None and error != earlier_error:
            raise decode_error(json.loads(error))

    wait_in_store(part, own.world, str(own), notice, check)
    places = [read_place(part.get(str(r))) for r in range(own.world)]
    for place, _ in places:
        if place.world != own.world:
            raise_mismatch(part, where, own, "they disagree about the world size", place)
    return places


def read_place(text: bytes) -> tuple[Place, str]:
    values = json.loads(text)
    name = str(values.pop("name"))
    return Place.from_dict(values), name


def raise_mismatch(
    part: PrefixStore, where: str, own: Place, reason: str, other: Place
) -> NoReturn:
    """Raises CollectiveMismatch, also on the ranks that wait at the store."""
    error = CollectiveMismatch(
        f"{where}: ranks do not fit together: {reason}: {own} of {own.world}, "
        f"{other} of {other.world}"
    )
    part.set("error", json.dumps({**encode_error(error), "id": os.urandom(8).hex()}))
    raise error
