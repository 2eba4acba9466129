"""One look at a domain: rows, queues, messages; and what changed since the look before."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass, replace
from typing import Any

from ... import native
from ..find_domains import Found

__all__ = ["Held", "Process", "Queue", "Snapshot", "Unclaimed", "take"]


@dataclass(frozen=True)
class Held:
    """Blocks of another row that a process keeps alive; row -1: of those whose owner has ended."""

    row: int
    blocks: int


@dataclass(frozen=True)
class Process:
    """A row of the domain.

    Attributes:
        state: "live", "born" (forked, has not run yet), "dead" (its lock is free, nobody has swept
            it yet), "zombie" (dead, its messages are still to be read).
        slots, committed_bytes: of 64 MiB each, which it owns; memory behind them.
        held_blocks, held_of: blocks of other processes that it keeps alive; whose they are.
        unread_messages, unread_bytes, oldest_unread: handles that it sent and nobody has
            acknowledged; seconds.
        rate: handles sent in a second, since the look before; None at the first.
        command: its command line; empty when it has ended.
    """

    row: int
    pid: int
    state: str
    role: str
    slots: int
    committed_bytes: int
    held_blocks: int
    held_of: list[Held]
    unread_messages: int
    unread_bytes: int
    oldest_unread: float
    sent: int
    rate: float | None = None
    command: str = ""


@dataclass(frozen=True)
class Queue:
    """A channel: what queues are made of.

    Attributes:
        place: slot and offset of its root.
        ready, writing, reading: messages that wait, that are being put, that are being taken.
        maxsize: its bound, 0 for none.
        bytes: of the blocks that its messages name, its own segments included.
        over: messages that were taken so far.
        rate: messages taken in a second, since the look before.
    """

    place: str
    ready: int
    writing: int
    reading: int
    maxsize: int
    bytes: int
    over: int
    rate: float | None = None


@dataclass(frozen=True)
class Unclaimed:
    """A handle on a foreign road (a pipe of the standard library, a pickle): sent, not claimed."""

    row: int
    bytes: int
    age: float


@dataclass(frozen=True)
class Snapshot:
    """A domain at a moment (`time`: seconds of a monotonic clock). Sizes in bytes."""

    domain: str
    time: float
    slots: int
    slots_used: int
    slots_orphaned: int
    slot_bytes: int
    committed_bytes: int
    refused_commits: int
    processes: list[Process]
    queues: list[Queue]
    unclaimed_messages: int
    unclaimed_bytes: int
    oldest_unclaimed: list[Unclaimed]

    def record(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


def state_of(row: dict[str, Any]) -> str:
    return "dead" if row["state"] in ("live", "born") and not row["alive"] else str(row["state"])


def take(domain: Found, before: Snapshot | None = None) -> Snapshot:
    """Looks at a domain; rates are relative to `before`.

    Raises:
        NoDomain: no member is left.
    """
    with domain.files() as (control, volume0, volume1):
        now = time.monotonic()
        seen = native.survey(control)
        queues = []
        for channel in seen["channels"] if volume1 >= 0 else []:
            slot, offset = channel["slot"], channel["offset"]
            found = native.survey_channel(volume0, volume1, seen["slots"], slot, offset)
            if found is not None:
                maxsize, ready, writing, reading, over = found
                place = f"{slot}+{offset:#x}"
                queues.append(
                    Queue(place, ready, writing, reading, maxsize, channel["bytes"], over)
                )
    commands = {member.pid: member.name for member in domain.members}
    processes = [
        Process(
            state=state_of(row),
            command=commands.get(row["pid"], ""),
            held_of=[Held(*held) for held in row["held_of"]],
            **{k: row[k] for k in ROW},
        )
        for row in seen["rows"]
    ]
    snapshot = Snapshot(
        domain=seen["id"].hex(),
        time=now,
        slots=seen["slots"],
        slots_used=seen["slots_used"],
        slots_orphaned=seen["slots_orphaned"],
        slot_bytes=seen["slot_bytes"],
        committed_bytes=sum(p.committed_bytes for p in processes),
        refused_commits=seen["refused_commits"],
        processes=processes,
        queues=queues,
        unclaimed_messages=seen["foreign_messages"],
        unclaimed_bytes=seen["foreign_bytes"],
        oldest_unclaimed=[Unclaimed(**lost) for lost in seen["oldest_foreign"]],
    )
    return with_rates(snapshot, before) if before is not None else snapshot


ROW = (
    "row", "pid", "role", "slots", "committed_bytes", "held_blocks", "unread_messages",
    "unread_bytes", "oldest_unread", "sent",
)  # fmt: skip


def with_rates(now: Snapshot, before: Snapshot) -> Snapshot:
    """Counts that only grow, as counts per second; a process or queue that is new has none yet."""
    passed = max(now.time - before.time, 1e-3)
    sent = {(p.row, p.pid): p.sent for p in before.processes}
    over = {q.place: q.over for q in before.queues}
    return replace(
        now,
        processes=[
            replace(p, rate=rate(p.sent, sent.get((p.row, p.pid)), passed)) for p in now.processes
        ],
        queues=[replace(q, rate=rate(q.over, over.get(q.place), passed)) for q in now.queues],
    )


def rate(count: int, earlier: int | None, passed: float) -> float | None:
    return None if earlier is None or count < earlier else (count - earlier) / passed
