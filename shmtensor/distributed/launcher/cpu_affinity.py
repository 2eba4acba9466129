"""Which CPUs a rank may use."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

NODES = Path("/sys/devices/system/node")


def parse_cpu_list(text: str) -> set[int]:
    """The CPUs of a list such as 0-3,8."""
    cpus: set[int] = set()
    for part in text.strip().split(","):
        if part:
            first, _, last = part.partition("-")
            cpus.update(range(int(first), int(last or first) + 1))
    return cpus


def numa_nodes() -> list[set[int]]:
    """The CPUs of each NUMA node that this process may use."""
    allowed = os.sched_getaffinity(0)
    cpu_sets = []
    for path in sorted(NODES.glob("node[0-9]*"), key=lambda path: int(path.name[4:])):
        with suppress(OSError, ValueError):
            cpu_sets.append(parse_cpu_list((path / "cpulist").read_text()) & allowed)
    return [each for each in cpu_sets if each] or [allowed]


def cpus_of(binding: str | None, rank: int, n: int) -> list[int]:
    """The CPUs of one of n ranks; [] if it is not bound.

    "node" and "socket": all CPUs of a NUMA node, to which the ranks are assigned in turn;
    "exclusive", "core-complex": an equal share of that node's CPUs; "cpu": an equal share of all.
    """
    if binding is None:
        return []
    if binding == "cpu":
        return share(sorted(os.sched_getaffinity(0)), rank, n)
    nodes = numa_nodes()
    cpus = sorted(nodes[rank % len(nodes)])
    if binding in ("node", "socket"):
        return cpus
    n_sharing = len(range(rank % len(nodes), n, len(nodes)))
    return share(cpus, rank // len(nodes), n_sharing)


def share(cpus: list[int], index: int, n: int) -> list[int]:
    """The index-th of n parts, at least one CPU."""
    if n > len(cpus):
        return [cpus[index % len(cpus)]]
    return cpus[index * len(cpus) // n : (index + 1) * len(cpus) // n]


def bind() -> None:
    """Restricts this process to the CPUs that the launcher has chosen."""
    if text := os.environ.get("SHMTENSOR_CPUS"):
        with suppress(OSError):  # a container may have fewer
            os.sched_setaffinity(0, {int(each) for each in text.split(",")})
