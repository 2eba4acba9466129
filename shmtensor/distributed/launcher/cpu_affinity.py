"""Which CPUs a rank may use."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

__all__ = ["bind", "cpus_of"]

NODES = Path("/sys/devices/system/node")


def listed(text: str) -> set[int]:
    """The numbers of a list such as 0-3,8."""
    found: set[int] = set()
    for part in text.strip().split(","):
        if part:
            first, _, last = part.partition("-")
            found.update(range(int(first), int(last or first) + 1))
    return found


def nodes() -> list[set[int]]:
    """The CPUs of each NUMA node that this process may use."""
    own = os.sched_getaffinity(0)
    found = []
    for path in sorted(NODES.glob("node[0-9]*"), key=lambda path: int(path.name[4:])):
        with suppress(OSError, ValueError):
            found.append(listed((path / "cpulist").read_text()) & own)
    return [each for each in found if each] or [own]


def cpus_of(binding: str | None, rank: int, n: int) -> list[int]:
    """The CPUs of one of n ranks; [] if it is not bound.

    "node" and "socket": all of a NUMA node, ranks spread over the nodes in turn; "exclusive",
    "core-complex": an equal share of such a node's; "cpu": an equal share of all.
    """
    if binding is None:
        return []
    if binding == "cpu":
        return share(sorted(os.sched_getaffinity(0)), rank, n)
    all_nodes = nodes()
    cpus = sorted(all_nodes[rank % len(all_nodes)])
    if binding in ("node", "socket"):
        return cpus
    beside = len(range(rank % len(all_nodes), n, len(all_nodes)))
    return share(cpus, rank // len(all_nodes), beside)


def share(cpus: list[int], at: int, n: int) -> list[int]:
    """The at-th of n parts, at least one CPU."""
    if n > len(cpus):
        return [cpus[at % len(cpus)]]
    return cpus[at * len(cpus) // n : (at + 1) * len(cpus) // n]


def bind() -> None:
    """Keeps this process to the CPUs that the launcher chose."""
    if text := os.environ.get("SHMTENSOR_CPUS"):
        with suppress(OSError):  # a container may have fewer
            os.sched_setaffinity(0, {int(each) for each in text.split(",")})
