"""The domains that run on this machine, found through /proc: who has their files open."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from .. import native
from ..errors import DomainError

__all__ = ["Found", "Member", "NoDomain", "discover", "select"]

CONTROL = "/memfd:shmtensor-control"
VOLUMES = (("/memfd:shmtensor-volume0", "/dev/shm/shmtensor-"), ("/memfd:shmtensor-volume1",))
PROC = Path("/proc")


class NoDomain(Exception):
    """There is no domain, or none that fits."""


@dataclass(frozen=True)
class Member:
    """A process that has a domain's files open, and the numbers of its descriptors of them."""

    pid: int
    parent: int
    name: str
    control: int
    volumes: tuple[int, ...]
    alone: bool  # it has the files of no other domain open


@dataclass
class Found:
    """A domain: its id and the processes that have its files open."""

    id: str
    members: list[Member] = field(default_factory=list)

    @contextmanager
    def files(self) -> Iterator[tuple[int, int, int]]:
        """Its files, open for reading: control, volume 0, volume 1 (-1: not to be had).

        They are closed at once after the look: an open descriptor would keep the memory of a domain
        whose members have ended.

        Raises:
            NoDomain: no member is left.
        """
        for member in sorted(self.members, key=lambda m: not m.alone):
            opened: list[int] = []
            with suppress(OSError):
                for number in (member.control, *member.volumes):
                    path = f"/proc/{member.pid}/fd/{number}"
                    opened.append(os.open(path, os.O_RDONLY | os.O_CLOEXEC))
            if opened and identity(opened[0]) == self.id:
                try:
                    yield tuple((opened + [-1, -1])[:3])  # type: ignore[misc]
                    return
                finally:
                    close(opened)
            close(opened)
        raise NoDomain(f"domain {self.id[:8]} is gone: its {len(self.members)} members have ended")


def close(descriptors: list[int]) -> None:
    for descriptor in descriptors:
        os.close(descriptor)


def identity(control: int) -> str | None:
    """The id of the domain whose control file this is, or None."""
    try:
        found: bytes = native.survey(control)["id"]
    except DomainError:
        return None
    return found.hex()


def discover() -> list[Found]:
    """All domains of which this user may see a member, the one with most processes first."""
    by_file: dict[tuple[int, int], Found | None] = {}
    for entry in PROC.iterdir():
        if entry.name.isdigit():
            with suppress(OSError):  # it ended meanwhile, or belongs to somebody else
                add_process(int(entry.name), by_file)
    found = [domain for domain in by_file.values() if domain is not None]
    for domain in found:
        domain.members.sort(key=lambda m: m.pid)
    return sorted(found, key=lambda domain: (-len(domain.members), domain.id))


def add_process(pid: int, by_file: dict[tuple[int, int], Found | None]) -> None:
    """Enters a process into the domains whose control files it has open."""
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
            # Of several domains in one process the descriptors were opened one after another.
            near = [
                min(some, key=lambda n: (n < number, abs(n - number))) for some in volumes if some
            ]
            domain.members.append(
                Member(pid, parent, text, number, tuple(near), len(controls) == 1)
            )


def open_control(pid: int, number: int) -> Found | None:
    descriptor = os.open(f"/proc/{pid}/fd/{number}", os.O_RDONLY | os.O_CLOEXEC)
    try:
        name = identity(descriptor)
    finally:
        os.close(descriptor)
    return Found(name) if name else None


def describe(pid: int) -> tuple[int, str]:
    """Parent and command line of a process; the latter without the path of the interpreter."""
    stat = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    words = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")[:-1]
    if not words:  # it is ending
        words = [stat[stat.index("(") + 1 : stat.rindex(")")]]
    text = " ".join([Path(words[0]).name, *words[1:]])
    printable = "".join(c if c.isprintable() else " " for c in text)
    return int(stat[stat.rindex(")") + 2 :].split()[1]), printable


def select(wanted: str | None) -> Found:
    """The domain that an argument means: an id, the start of one, a pid; None: the largest.

    Raises:
        NoDomain: none fits, or several do.
    """
    found = discover()
    if not found:
        raise NoDomain("no domain of this user is running (one begins with the first tensor)")
    if wanted is None:
        return found[0]
    fitting = [d for d in found if d.id.startswith(wanted.lower())]
    if wanted.isdigit():
        fitting = [d for d in found if int(wanted) in [m.pid for m in d.members]] or fitting
    if len(fitting) != 1:
        known = ", ".join(d.id[:8] for d in found)
        what = "several domains fit" if fitting else "no such domain or member"
        raise NoDomain(f"{what}: {wanted}, there are {known}")
    return fitting[0]
