"""A snapshot of a domain: rows, queues, messages; and rates since the previous snapshot."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass, replace
from typing import Any

from ... import native
from ..find_domains import Domain


@dataclass(frozen=True)
class Held:
    """Blocks of another row that a process holds; row -1: blocks whose owner has ended."""

    row: int
    blocks: int


@dataclass(frozen=True)
class Process:
    """A row of the domain.

    Attributes:
        state: "live", "born" (forked, has not run yet), "dead" (its lock is free, not swept yet),
            "zombie" (dead, its messages are not read yet).
        slots, committed_bytes: slots of 64 MiB that it owns, and the memory committed in them.
        held_blocks, held_of: blocks of other processes that it holds, and their owners.
        unread_messages, unread_bytes, oldest_unread: handles that it sent and nobody has
            acknowledged; the age in seconds.
        rate: handles sent per second since the previous snapshot; None in the first.
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
    """A channel, the basis of a queue.

    Attributes:
        place: slot and offset of its root.
        ready, writing, reading: messages that wait, that are being put, that are being taken.
        maxsize: its bound; 0: none.
        bytes: of the blocks that its messages name, and of its own segments.
        over: messages taken so far.
        rate: messages taken per second since the previous snapshot.
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
    """A handle sent by another transport (a standard library pipe, a pickle) and not claimed."""

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
        """The snapshot as a dict for JSON."""
        return asdict(self)


def state_of(row: dict[str, Any]) -> str:
    return "dead" if row["state"] in ("live", "born") and not row["alive"] else str(row["state"])


def survey_domain(domain: Domain, before: Snapshot | None = None) -> Snapshot:
    """A snapshot of a domain; rates are relative to the snapshot `before`.

    Raises:
        NoDomain: all members have ended.
    """
    with domain.files() as (control, volume0, volume1):
        now = time.monotonic()
        survey = native.survey(control)
        queues = []
        for channel in survey["channels"] if volume1 >= 0 else []:
            slot, offset = channel["slot"], channel["offset"]
            channel_counts = native.survey_channel(volume0, volume1, survey["slots"], slot, offset)
            if channel_counts is not None:
                maxsize, ready, writing, reading, over = channel_counts
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
        for row in survey["rows"]
    ]
    snapshot = Snapshot(
        domain=survey["id"].hex(),
        time=now,
        slots=survey["slots"],
        slots_used=survey["slots_used"],
        slots_orphaned=survey["slots_orphaned"],
        slot_bytes=survey["slot_bytes"],
        committed_bytes=sum(p.committed_bytes for p in processes),
        refused_commits=survey["refused_commits"],
        processes=processes,
        queues=queues,
        unclaimed_messages=survey["foreign_messages"],
        unclaimed_bytes=survey["foreign_bytes"],
        oldest_unclaimed=[Unclaimed(**handle) for handle in survey["oldest_foreign"]],
    )
    return with_rates(snapshot, before) if before is not None else snapshot


ROW = (
    "row", "pid", "role", "slots", "committed_bytes", "held_blocks", "unread_messages",
    "unread_bytes", "oldest_unread", "sent",
)  # fmt: skip


def with_rates(now: Snapshot, before: Snapshot) -> Snapshot:
    """Adds the rates: increases of counts per second. A new process or queue has None."""
    elapsed = max(now.time - before.time, 1e-3)
    sent = {(p.row, p.pid): p.sent for p in before.processes}
    over = {q.place: q.over for q in before.queues}
    return replace(
        now,
        processes=[
            replace(p, rate=rate(p.sent, sent.get((p.row, p.pid)), elapsed)) for p in now.processes
        ],
        queues=[replace(q, rate=rate(q.over, over.get(q.place), elapsed)) for q in now.queues],
    )


def rate(count: int, previous: int | None, elapsed: float) -> float | None:
    return None if previous is None or count < previous else (count - previous) / elapsed
