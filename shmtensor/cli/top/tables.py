"""What `top` shows: sentences, and tables of texts, which a terminal and a page draw alike."""

from __future__ import annotations

from dataclasses import dataclass, field

from ...memory.statistics import size
from .snapshot import Process, Queue, Snapshot


@dataclass(frozen=True)
class Column:
    """A column of a table.

    Attributes:
        name: its header.
        width: characters in a terminal; 0: the others' remainder, of the last column.
        is_left: whether it is aligned to the left, as texts are; numbers are not.
    """

    name: str
    width: int = 0
    is_left: bool = False


@dataclass(frozen=True)
class Table:
    """Rows of texts, a text for each column. `what` its rows are: "processes"."""

    what: str
    columns: tuple[Column, ...]
    rows: list[tuple[str, ...]] = field(default_factory=list)


PROCESSES = (
    Column("ROW", 3), Column("PID", 7), Column("STATE", 6, True), Column("SLOTS", 5),
    Column("MEMORY", 9), Column("HOLDS", 6), Column("UNREAD", 6), Column("OLDEST", 7),
    Column("SENT/S", 6), Column("WHO"),
)  # fmt: skip
HOLDERS = (Column("BLOCKS OF", 9), Column("ARE HELD BY (row: how many)"))
QUEUES = (
    Column("QUEUE", 14, True), Column("READY", 7), Column("BOUND", 7), Column("WRITING", 7),
    Column("READING", 7), Column("BYTES", 9), Column("TAKEN", 7), Column("/S", 6),
)  # fmt: skip


def sentences(s: Snapshot) -> list[str]:
    """The domain, its memory, and messages that nobody claims."""
    result = [
        f"domain {s.domain[:8]}   {plural(len(s.processes), 'process', 'processes')}   "
        f"{plural(len(s.queues), 'queue', 'queues')}",
        f"slots {s.slots_used} of {s.slots}, {s.slots_orphaned} orphaned   "
        f"{size(s.committed_bytes)} committed"
        + (f"   /dev/shm refused {s.refused_commits} times" if s.refused_commits else ""),
    ]
    if s.unclaimed_messages:
        oldest = s.oldest_unclaimed[0]
        result.append(
            f"never claimed: {plural(s.unclaimed_messages, 'handle', 'handles')} by other "
            f"transports, {size(s.unclaimed_bytes)}, oldest {age(oldest.age)}, of row {oldest.row}"
        )
    return result


def tables(s: Snapshot) -> tuple[Table, Table, Table]:
    """Processes by row; who holds whose blocks; queues, those with most messages first."""
    processes = sorted(s.processes, key=lambda p: p.row)
    queues = sorted(s.queues, key=lambda q: (-q.ready, q.place))
    return (
        Table("processes", PROCESSES, [process_row(p) for p in processes]),
        Table("rows", HOLDERS, holder_rows(s)),
        Table("queues", QUEUES, [queue_row(q) for q in queues]),
    )


def process_row(p: Process) -> tuple[str, ...]:
    return (
        str(p.row), str(p.pid), p.state, str(p.slots), size(p.committed_bytes),
        count(p.held_blocks), count(p.unread_messages),
        age(p.oldest_unread) if p.unread_messages else "-", count(p.rate), p.role or p.command,
    )  # fmt: skip


def holder_rows(s: Snapshot) -> list[tuple[str, ...]]:
    """A row for each process whose blocks are held by others."""
    holders: dict[int, list[str]] = {}
    for p in sorted(s.processes, key=lambda p: -p.held_blocks):
        for held in p.held_of:
            holders.setdefault(held.row, []).append(f"{p.row}: {count(held.blocks)}")
    return [
        (str(row) if row >= 0 else "nobody", ", ".join(holders[row])) for row in sorted(holders)
    ]


def queue_row(q: Queue) -> tuple[str, ...]:
    return (
        q.place, str(q.ready), str(q.maxsize) if q.maxsize else "none", str(q.writing),
        str(q.reading), size(q.bytes), count(q.over), count(q.rate),
    )  # fmt: skip


# ---------------------------------------------------------------- numbers
def count(n: float | None) -> str:
    """At most 5 characters: `12`, `3.4k`, `120k`; `-` for unknown."""
    if n is None:
        return "-"
    for unit in ("", "k", "M", "G"):
        if n < 999.5 or unit == "G":
            break
        n /= 1000
    return f"{n:.0f}{unit}" if unit == "" or n >= 99.95 else f"{n:.1f}{unit}"


def age(seconds: float) -> str:
    for limit, unit, name in ((100, 1, "s"), (6000, 60, "min"), (172800, 3600, "h")):
        if seconds < limit:
            return f"{seconds / unit:.0f} {name}"
    return f"{seconds / 86400:.0f} d"


def plural(n: int, one: str, many: str) -> str:
    return f"{n} {one if n == 1 else many}"
