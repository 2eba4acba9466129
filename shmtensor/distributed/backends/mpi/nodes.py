"""Who shares memory with whom, and one domain for those who do.

```
every rank   machine, pid namespace, user, forced part; its domain if it has one   -> all
a node       neighbours (ranks that follow one another) for whom these are the same
head         its first rank: makes the group's block                                -> its node
the others   join the head's domain, and the group
```

A rank that had tensors before, in a domain of its own, cannot join: it is a node by itself.
SHMTENSOR_RANKS_PER_NODE=2 cuts a machine's ranks into nodes of two (to try out, or to test).
"""

from __future__ import annotations

import os
import socket
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from .... import native
from ...rendezvous.find_group import create_block, exchange_text
from .messages import Wire

__all__ = ["Node", "describe_self", "find_nodes", "meet_node", "runs"]

Node = list[int]  # ranks in ascending order, the head first


def boot() -> str:
    """What identifies this machine, since it was started."""
    with open("/proc/sys/kernel/random/boot_id") as file:
        return file.read().strip()


def machine(rank: int) -> str:
    """What ranks that can share memory have in common."""
    part = os.environ.get("SHMTENSOR_RANKS_PER_NODE")
    try:
        forced = "" if part is None else rank // int(part)
    except (ValueError, ZeroDivisionError):
        raise ValueError(f"SHMTENSOR_RANKS_PER_NODE: not a number of ranks: {part!r}") from None
    return f"{boot()}/{os.stat('/proc/self/ns/pid').st_ino}/{os.getuid()}/{forced}"


def describe_self(rank: int, apart: bool = False) -> dict[str, Any]:
    """What a rank says about itself; with `apart` other families of this machine are other
    machines.
    """
    if apart:
        native.domain_ensure()
    domain = native.domain_id().hex() if native.domain_ready() else ""
    return {
        "machine": machine(rank) + (f"/{domain}" if apart else ""),
        "network": f"{boot()}/{os.stat('/proc/self/ns/net').st_ino}",
        "domain": domain,
        "host": socket.gethostname(),
        "pid": os.getpid(),
    }


def find_nodes(said: list[dict[str, Any]]) -> list[Node]:
    """The nodes, from what all ranks said: the same on every rank."""
    nodes: list[Node] = []
    for rank, mine in enumerate(said):
        if nodes:
            head = said[nodes[-1][0]]
            is_near = head["machine"] == mine["machine"]
            if is_near and mine["domain"] in ("", head["domain"]):
                nodes[-1].append(rank)
                continue
        nodes.append([rank])
    return nodes


def runs(nodes: list[Node], members: Sequence[int]) -> list[Node]:
    """The nodes of a group of some ranks, by their ranks in it."""
    return [
        near
        for node in nodes
        if (near := [members.index(rank) for rank in node if rank in members])
    ]


def join_head(environment: str) -> None:
    """Joins the domain of this node's head."""
    before = os.environ.get("SHMTENSOR_DOMAIN")
    os.environ["SHMTENSOR_DOMAIN"] = environment
    try:
        native.domain_ensure()
    finally:
        if before is None:
            del os.environ["SHMTENSOR_DOMAIN"]
        else:
            os.environ["SHMTENSOR_DOMAIN"] = before


def meet_node(
    wire: Wire, said: list[dict[str, Any]], timeout: float
) -> tuple[list[Node], native.Group | None, dict[int, tuple[int, int]]]:
    """The nodes of all ranks, this node's group in shared memory (None: a node of one), and the
    rows of its ranks.
    """
    rank = wire.rank
    nodes = find_nodes(said)
    near = next(node for node in nodes if rank in node)
    first = next(r for r in range(rank + 1) if said[r]["machine"] == said[rank]["machine"])
    if near[0] == rank != first and said[rank]["domain"]:
        warnings.warn(
            f"init_process_group: rank {rank} had tensors before, so it shares no memory with rank "
            f"{first} on this machine: call init_process_group before the first tensor is made",
            stacklevel=4,
        )
    block = None
    own = b""
    text = {}
    if near[0] == rank:
        native.domain_ensure()
        if len(near) > 1:
            block, own = create_block(len(near))
            text = {"domain": native.domain_environment(), "block": own.hex()}
    told = exchange_text(wire.all_gather, len(said), text, timeout)
    if len(near) == 1:
        return nodes, None, {}
    if block is None:
        join_head(told[near[0]]["domain"])
        block = native.receive(bytes.fromhex(told[near[0]]["block"]), False)
    local = native.Group(block, near.index(rank), len(near))
    native.set_role(f"rank {rank}")
    rows = np.empty((len(near), 2), np.int64)
    local.all_gather(list(rows), np.array(native.row(), np.int64), timeout)
    if own:
        native.acknowledge(own)
    return nodes, local, {r: (int(row), int(inc)) for r, (row, inc) in zip(near, rows, strict=True)}
