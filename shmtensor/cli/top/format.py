"""Snapshots as text: lines that fit the terminal."""

from __future__ import annotations

from ...memory.statistics import size
from .snapshot import Process, Queue, Snapshot

BEFORE_ROLE = 65  # columns of a process's line
ALL = 1 << 20  # more lines than any snapshot has


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


def cut(text: str, width: int) -> str:
    """At most `width` characters; control characters become dots."""
    clean = "".join(c if c.isprintable() else "." for c in text)
    return clean if len(clean) <= width else clean[: max(width - 1, 0)] + "~"


def cut_middle(text: str, width: int) -> str:
    """As `cut`, but in the middle: workers' names differ at the end."""
    clean = cut(text, len(text))
    if len(clean) <= width:
        return clean
    tail = max(width - 1, 0) // 2
    return clean[: max(width - 1 - tail, 0)] + "~" + clean[len(clean) - tail :]


def lines(snapshot: Snapshot, width: int = 80, height: int = ALL) -> list[str]:
    """The lines of a snapshot.

    Args:
        height: the maximum number of lines; each table counts its omitted rows in its last line.
    """
    s = snapshot
    head = [
        f"domain {s.domain[:8]}   {plural(len(s.processes), 'process', 'processes')}   "
        f"{plural(len(s.queues), 'queue', 'queues')}",
        f"slots {s.slots_used} of {s.slots}, {s.slots_orphaned} orphaned   "
        f"{size(s.committed_bytes)} committed"
        + (f"   /dev/shm refused {s.refused_commits} times" if s.refused_commits else ""),
    ]
    if s.unclaimed_messages:
        oldest = s.oldest_unclaimed[0]
        head.append(
            f"never claimed: {plural(s.unclaimed_messages, 'handle', 'handles')} by other "
            f"transports, {size(s.unclaimed_bytes)}, oldest {age(oldest.age)}, of row {oldest.row}"
        )
    remaining = max(height - len(head) - 4, 2)
    held_rows = held_lines(s) if remaining > 8 else []
    if held_rows:
        held_rows = limit_rows(held_rows, remaining // 4, "rows")
        remaining -= len(held_rows) + 2
    n_processes = max(remaining - min(len(s.queues), remaining // 3), 1)
    processes = sorted(s.processes, key=lambda p: p.row)
    table = [
        f"{'ROW':>3} {'PID':>7} {'STATE':6} {'SLOTS':>5} {'MEMORY':>9} {'HOLDS':>6} {'UNREAD':>6} "
        f"{'OLDEST':>7} {'SENT/S':>6}  WHO",
        *limit_rows([process_line(p, width) for p in processes], n_processes, "processes"),
    ]
    if held_rows:
        table += ["", "BLOCKS OF  ARE HELD BY (row: how many)", *held_rows]
    queues = sorted(s.queues, key=lambda q: (-q.ready, q.place))
    if queues:
        n_queues = max(remaining - min(len(processes), n_processes), 1)
        table += [
            "",
            f"{'QUEUE':14} {'READY':>7} {'BOUND':>7} {'WRITING':>7} {'READING':>7} {'BYTES':>9} "
            f"{'TAKEN':>7} {'/S':>6}",
            *limit_rows([queue_line(q) for q in queues], n_queues, "queues"),
        ]
    return [cut(line, width) for line in [*head, "", *table]]


def plural(n: int, one: str, many: str) -> str:
    return f"{n} {one if n == 1 else many}"


def limit_rows(rows: list[str], limit: int, what: str) -> list[str]:
    """All rows, or the first ones and a line with the number of the others."""
    if len(rows) <= limit:
        return rows
    return [*rows[: limit - 1], f"  and {len(rows) - limit + 1} more {what}"]


def held_lines(s: Snapshot) -> list[str]:
    """A line for each row whose blocks are held by other rows."""
    holders: dict[int, list[str]] = {}
    for p in sorted(s.processes, key=lambda p: -p.held_blocks):
        for held in p.held_of:
            holders.setdefault(held.row, []).append(f"{p.row}: {count(held.blocks)}")
    return [
        f"{row if row >= 0 else 'nobody':>9}  {', '.join(holders[row])}" for row in sorted(holders)
    ]


def process_line(p: Process, width: int) -> str:
    oldest = age(p.oldest_unread) if p.unread_messages else "-"
    return (
        f"{p.row:3d} {p.pid:7d} {p.state:6} {p.slots:5d} {size(p.committed_bytes):>9} "
        f"{count(p.held_blocks):>6} {count(p.unread_messages):>6} {oldest:>7} "
        f"{count(p.rate):>6}  {cut_middle(p.role or p.command, max(width - BEFORE_ROLE, 10))}"
    )


def queue_line(q: Queue) -> str:
    bound = str(q.maxsize) if q.maxsize else "none"
    return (
        f"{q.place:14} {q.ready:7d} {bound:>7} {q.writing:7d} {q.reading:7d} {size(q.bytes):>9} "
        f"{count(q.over):>7} {count(q.rate):>6}"
    )
