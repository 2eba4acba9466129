"""Finds the domains that run on this machine: /proc tells which processes have their files open."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from .. import native
from ..errors import DomainError
from ..memory.control_message import close_all

CONTROL = "/memfd:shmtensor-control"
VOLUMES = (("/memfd:shmtensor-volume0", "/dev/shm/shmtensor-"), ("/memfd:shmtensor-volume1",))
PROC = Path("/proc")


class NoDomain(Exception):
    """There is no domain, or none that matches."""


@dataclass(frozen=True)
class Member:
    """A process that has a domain's files open, and their descriptor numbers."""

    pid: int
    parent: int
    name: str  # its command line
    control: int
    volumes: tuple[int, ...]
    has_one_domain: bool  # it has the files of no other domain open


@dataclass
class Domain:
    """A domain: its id and the processes that have its files open."""

    id: str
    members: list[Member] = field(default_factory=list)

    @contextmanager
    def files(self) -> Iterator[tuple[int, int, int]]:
        """Its files, open for reading: control, volume 0, volume 1 (-1: not available).

        They are closed when the `with` block ends: an open descriptor would keep the memory of a
        domain whose members have ended.

        Raises:
            NoDomain: all members have ended.
        """
        for member in sorted(self.members, key=lambda m: not m.has_one_domain):
            descriptors: list[int] = []
            with suppress(OSError):
                for number in (member.control, *member.volumes):
                    path = f"/proc/{member.pid}/fd/{number}"
                    descriptors.append(os.open(path, os.O_RDONLY | os.O_CLOEXEC))
            if descriptors and identity(descriptors[0]) == self.id:
                try:
                    yield tuple((descriptors + [-1, -1])[:3])  # type: ignore[misc]
                    return
                finally:
                    close_all(descriptors)
            close_all(descriptors)
        raise NoDomain(f"domain {self.id[:8]} is gone: its {len(self.members)} members have ended")


def identity(control: int) -> str | None:
    """The id of the domain whose control file this is, or None.

    Another user's file is mapped only if it can no longer shrink, which would be a SIGBUS here.
    """
    try:
        is_sealed = fcntl.fcntl(control, fcntl.F_GET_SEALS) & fcntl.F_SEAL_SHRINK
        if not is_sealed and os.fstat(control).st_uid != os.geteuid():
            return None
        id: bytes = native.survey(control)["id"]
    except (DomainError, OSError):
        return None
    return id.hex()


def discover() -> list[Domain]:
    """All domains with a member that this user may see, the one with most processes first."""
    by_file: dict[tuple[int, int], Domain | None] = {}
    for entry in PROC.iterdir():
        if entry.name.isdigit():
            with suppress(OSError):  # it has ended, or belongs to another user
                add_process(int(entry.name), by_file)
    domains = [domain for domain in by_file.values() if domain is not None]
    for domain in domains:
        domain.members.sort(key=lambda m: m.pid)
    return sorted(domains, key=lambda domain: (-len(domain.members), domain.id))


def add_process(pid: int, by_file: dict[tuple[int, int], Domain | None]) -> None:
    """Adds a process to the domains whose control files it has open."""
    controls: dict[tuple[int, int], int] = {}
    volumes: tuple[dict[int, None], dict[int, None]] = ({}, {})
    for name in sorted(os.listdir(f"/proc/{pid}/fd"), key=int):
        with suppress(OSError):
            target = os.readlink(f"/proc/{pid}/fd/{name}")
            if target.startswith(CONTROL):
                status = os.stat(f"/proc/{pid}/fd/{name}")
                controls.setdefault((status.st_dev, status.st_ino), int(name))
            for i, prefixes in enumerate(VOLUMES):
                if target.startswith(prefixes):
                    volumes[i][int(name)] = None
    for file, number in controls.items():
        if file not in by_file:
            by_file[file] = open_control(pid, number)
        domain = by_file[file]
        if domain is not None:
            parent, text = describe(pid)
            # A process opens the files of a domain one after another: their numbers are near.
            nearest = [
                min(each, key=lambda n: (n < number, abs(n - number))) for each in volumes if each
            ]
            domain.members.append(
                Member(pid, parent, text, number, tuple(nearest), len(controls) == 1)
            )


def open_control(pid: int, number: int) -> Domain | None:
    descriptor = os.open(f"/proc/{pid}/fd/{number}", os.O_RDONLY | os.O_CLOEXEC)
    try:
        domain_id = identity(descriptor)
    finally:
        os.close(descriptor)
    return Domain(domain_id) if domain_id else None


def describe(pid: int) -> tuple[int, str]:
    """Parent and command line of a process, the latter without the interpreter's path."""
    stat = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    words = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")[:-1]
    if not words:  # the process is ending
        words = [stat[stat.index("(") + 1 : stat.rindex(")")]]
    text = " ".join([Path(words[0]).name, *words[1:]])
    printable = "".join(c if c.isprintable() else " " for c in text)
    return int(stat[stat.rindex(")") + 2 :].split()[1]), printable


def select(argument: str | None) -> Domain:
    """The domain of an argument: an id, the beginning of an id, or a pid; None: the largest domain.

    Raises:
        NoDomain: none matches, or several do.
    """
    domains = discover()
    if not domains:
        raise NoDomain("no domain of this user is running (one begins with the first tensor)")
    if argument is None:
        return domains[0]
    matches = [d for d in domains if d.id.startswith(argument.lower())]
    if argument.isdigit():
        matches = [d for d in domains if int(argument) in [m.pid for m in d.members]] or matches
    if len(matches) != 1:
        ids = ", ".join(d.id[:8] for d in domains)
        problem = "several domains fit" if matches else "no such domain or member"
        raise NoDomain(f"{problem}: {argument}, there are {ids}")
    return matches[0]
