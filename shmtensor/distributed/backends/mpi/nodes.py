"""Nodes: ranks that share memory, and one domain for each node.

```
every rank   machine, pid namespace, user, forced node; its domain if it has one    -> all
a node       consecutive ranks for which these are the same
head         its first rank: creates the group's block                              -> its node
the others   join the head's domain, and the group
```

A rank that already has tensors, in its own domain, cannot join: it is a node by itself.
SHMTENSOR_RANKS_PER_NODE=2 splits a machine's ranks into nodes of two (for experiments and tests).
"""

from __future__ import annotations

import os
import socket
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from .... import native
from ...rendezvous.find_group import all_gather_json, create_block
from ...rendezvous.places import boot_id
from .messages import Wire

Node = list[int]  # ranks in ascending order, the head first


def machine(rank: int) -> str:
    """An id that is the same for ranks that can share memory."""
    ranks_per_node = os.environ.get("SHMTENSOR_RANKS_PER_NODE")
    try:
        forced_node = "" if ranks_per_node is None else rank // int(ranks_per_node)
    except (ValueError, ZeroDivisionError):
        raise ValueError(
            f"SHMTENSOR_RANKS_PER_NODE: not a number of ranks: {ranks_per_node!r}"
        ) from None
    return f"{boot_id()}/{os.stat('/proc/self/ns/pid').st_ino}/{os.getuid()}/{forced_node}"


def describe_self(rank: int, separate_domains: bool = False) -> dict[str, Any]:
    """This rank's information for the other ranks. With `separate_domains` processes of another
    domain count as on another machine.
    """
    if separate_domains:
        native.domain_ensure()
    domain = native.domain_id().hex() if native.domain_ready() else ""
    return {
        "machine": machine(rank) + (f"/{domain}" if separate_domains else ""),
        "domain": domain,
        "host": socket.gethostname(),
        "pid": os.getpid(),
    }


def find_nodes(infos: list[dict[str, Any]]) -> list[Node]:
    """The nodes, computed from the information of all ranks: the same on every rank."""
    nodes: list[Node] = []
    for rank, info in enumerate(infos):
        if nodes:
            head = infos[nodes[-1][0]]
            same_machine = head["machine"] == info["machine"]
            if same_machine and info["domain"] in ("", head["domain"]):
                nodes[-1].append(rank)
                continue
        nodes.append([rank])
    return nodes


def subgroup_nodes(nodes: list[Node], members: Sequence[int]) -> list[Node]:
    """The nodes of a group of some ranks, by their ranks in that group."""
    return [
        group_ranks
        for node in nodes
        if (group_ranks := [members.index(rank) for rank in node if rank in members])
    ]


def join_head(environment: str) -> None:
    """Joins the domain of this node's head."""
    previous = os.environ.get("SHMTENSOR_DOMAIN")
    os.environ["SHMTENSOR_DOMAIN"] = environment
    try:
        native.domain_ensure()
    finally:
        if previous is None:
            del os.environ["SHMTENSOR_DOMAIN"]
        else:
            os.environ["SHMTENSOR_DOMAIN"] = previous


def join_node(
    wire: Wire, infos: list[dict[str, Any]], timeout: float
) -> tuple[list[Node], native.Group | None, dict[int, tuple[int, int]]]:
    """The nodes of all ranks, this node's group in shared memory (None: a node of one rank), and
    its ranks' rows in the process table.
    """
    rank = wire.rank
    nodes = find_nodes(infos)
    local_ranks = next(node for node in nodes if rank in node)
    first = next(r for r in range(rank + 1) if infos[r]["machine"] == infos[rank]["machine"])
    if local_ranks[0] == rank != first and infos[rank]["domain"]:
        warnings.warn(
            f"init_process_group: rank {rank} had tensors before, so it shares no memory with rank "
            f"{first} on this machine: call init_process_group before the first tensor is made",
            stacklevel=4,
        )
    block = None
    handle = b""
    info = {}
    if local_ranks[0] == rank:
        native.domain_ensure()
        if len(local_ranks) > 1:
            block, handle = create_block(len(local_ranks))
            info = {"domain": native.domain_environment(), "block": handle.hex()}
    blocks = all_gather_json(wire.all_gather, len(infos), info, timeout)
    if len(local_ranks) == 1:
        return nodes, None, {}
    if block is None:
        join_head(blocks[local_ranks[0]]["domain"])
        block = native.receive(bytes.fromhex(blocks[local_ranks[0]]["block"]), False)
    local_group = native.Group(block, local_ranks.index(rank), len(local_ranks))
    native.set_role(f"rank {rank}")
    process_rows = np.empty((len(local_ranks), 2), np.int64)
    local_group.all_gather(list(process_rows), np.array(native.row(), np.int64), timeout)
    if handle:
        native.acknowledge(handle)
    return (
        nodes,
        local_group,
        {r: (int(row), int(inc)) for r, (row, inc) in zip(local_ranks, process_rows, strict=True)},
    )
