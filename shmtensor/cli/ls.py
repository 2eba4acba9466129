"""`ls`: the domains of this user, each with the tree of its processes and its named tensors."""

from __future__ import annotations

import argparse
import json
import shutil
from typing import Any

from ..memory import Name, names
from ..memory.statistics import size
from .find_domains import Domain, Member, NoDomain, discover
from .top.format import cut
from .top.snapshot import Snapshot, survey_domain
from .top.tables import plural


def run(options: argparse.Namespace) -> int:
    """Prints the domains."""
    domains: list[tuple[Domain, Snapshot]] = []
    for domain in discover():
        try:
            domains.append((domain, survey_domain(domain)))
        except NoDomain:  # it has ended in the meantime
            continue
    try:
        published = names() if domains else []
    except OSError:  # /proc/net/unix is not readable
        published = []
    if options.json:
        print(json.dumps([record(*pair, published) for pair in domains]))
        return 0
    width = shutil.get_terminal_size().columns
    for domain, snapshot in domains:
        print("\n".join(cut(line, width) for line in text(domain, snapshot, published)))
    if not domains:
        print("no domain of this user is running")
    return 0


def names_of(domain: Domain, published: list[Name]) -> list[Name]:
    """The named tensors that a member serves."""
    pids = {m.pid for m in domain.members}
    return [name for name in published if name.pid in pids]


def record(domain: Domain, snapshot: Snapshot, published: list[Name]) -> dict[str, Any]:
    roles = roles_of(snapshot)
    return {
        "domain": domain.id,
        "committed_bytes": snapshot.committed_bytes,
        "slots_used": snapshot.slots_used,
        "processes": [
            {"pid": m.pid, "parent": m.parent, "command": m.name, "role": roles.get(m.pid, "")}
            for m in domain.members
        ],
        "names": [
            {"name": n.name, "pid": n.pid, "dtype": n.dtype, "shape": n.shape, "nbytes": n.nbytes}
            for n in names_of(domain, published)
        ],
    }


def roles_of(snapshot: Snapshot) -> dict[int, str]:
    return {p.pid: p.role for p in snapshot.processes if p.state == "live"}


def text(domain: Domain, snapshot: Snapshot, published: list[Name]) -> list[str]:
    """The lines of a domain: a tree of its processes, then the named tensors."""
    roles = roles_of(snapshot)
    members = {m.pid: m for m in domain.members}
    out = [
        f"domain {domain.id[:8]}   {plural(len(members), 'process', 'processes')}   "
        f"{size(snapshot.committed_bytes)} in {plural(snapshot.slots_used, 'slot', 'slots')}"
    ]

    def add(member: Member, depth: int) -> None:
        role = roles.get(member.pid, "")
        out.append(f"{member.pid:9d}  {'  ' * depth}{role + ': ' if role else ''}{member.name}")
        for child in domain.members:
            if child.parent == member.pid and child.pid != member.pid:
                add(child, depth + 1)

    for member in domain.members:
        if member.parent not in members:
            add(member, 0)
    for name in names_of(domain, published):
        description = f"{name.dtype} {name.shape}, {size(name.nbytes or 0)}"
        out.append(f"{name.pid:9d}  name {name.name!r}: {description}")
    return out
