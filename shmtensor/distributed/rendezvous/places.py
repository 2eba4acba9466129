"""Where a rank runs, and why two ranks cannot share memory."""

from __future__ import annotations

import os
import socket
from dataclasses import asdict, dataclass
from typing import Any

from ... import native

PF_EXITING = 0x4
TEXT = 64  # characters of a name that another process sends


def boot_id() -> str:
    """An id of this machine since its last boot."""
    with open("/proc/sys/kernel/random/boot_id") as file:
        return file.read().strip()


def namespace(kind: str) -> int:
    return os.stat(f"/proc/self/ns/{kind}").st_ino


@dataclass(frozen=True)
class Place:
    """A rank, its process, and what decides with whom it can share memory.

    Attributes:
        world: the size of the group, as this rank has been told.
        boot: the machine; host is only its name.
    """

    rank: int
    world: int
    pid: int
    uid: int
    host: str
    boot: str
    pid_namespace: int
    net_namespace: int

    def __str__(self) -> str:
        return f"rank {self.rank} (pid {self.pid}, uid {self.uid}, host {self.host})"

    def as_dict(self) -> dict[str, Any]:
        """For a message in JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Any) -> Place:
        """Raises: ValueError: it is not what `as_dict` wrote."""
        names = cls.__annotations__
        if type(values) is not dict or values.keys() != names.keys():
            raise ValueError(f"not a rank's place: {str(values)[:TEXT]}")
        for name, value in values.items():
            kind = int if names[name] == "int" else str
            if type(value) is not kind or len(str(value)) > TEXT:
                raise ValueError(f"not a rank's place: {name} is {str(value)[:TEXT]!r}")
        return cls(**values)

    def why_apart(self, other: Place) -> str:
        """Why the two cannot share memory; "" if they can."""
        if self.boot != other.boot:
            return f"on another host: {self.host}, not {other.host}"
        if self.uid != other.uid:
            return f"of another user: uid {self.uid}, not {other.uid}"
        for kind in ("pid", "net"):
            own: int = getattr(self, f"{kind}_namespace")
            others: int = getattr(other, f"{kind}_namespace")
            if own != others:
                return f"in another {kind} namespace (a container): {own}, not {others}"
        return ""


def own_place(rank: int, world: int) -> Place:
    """Of this process. It first joins the domain that its environment names."""
    if os.environ.get("SHMTENSOR_DOMAIN"):
        native.domain_ensure()
    return Place(
        rank,
        world,
        os.getpid(),
        os.geteuid(),
        socket.gethostname()[:TEXT],
        boot_id(),
        namespace("pid"),
        namespace("net"),
    )


def state_of(pid: int) -> tuple[str, int]:
    """The state and the flags of a process of this pid namespace; "X" if there is none."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            fields = file.read().rpartition(")")[2].split()
    except OSError:
        return "X", 0
    return fields[0], int(fields[6])


def has_died(pid: int) -> bool:
    """Whether a process of this pid namespace has ended, or is ending."""
    state, flags = state_of(pid)
    return state in "ZX" or bool(flags & PF_EXITING)


def stopped(pid: int) -> str:
    """What an error says of a process that is stopped."""
    return ": it is stopped (SIGSTOP, or a debugger)" if state_of(pid)[0] in "Tt" else ""
