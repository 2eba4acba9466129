"""Snapshots as text: lines that fit the terminal."""

from __future__ import annotations

from .snapshot import Process, Queue, Snapshot

__all__ = ["count", "lines", "size"]

BEFORE_ROLE = 65  # columns of a process's line


def size(nbytes: float) -> str:
    """At most 8 characters: `999 B`, `1.5 MB`."""
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if abs(nbytes) < 999.5 or unit == "TB":
            break
        nbytes /= 1000
    return f"{nbytes:.0f} {unit}" if unit == "B" else f"{nbytes:.1f} {unit}"


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


def shortened(text: str, width: int) -> str:
    """As `cut`, in the middle: what tells workers apart is the end of their names."""
    clean = cut(text, len(text))
    if len(clean) <= width:
        return clean
    tail = max(width - 1, 0) // 2
    return clean[: max(width - 1 - tail, 0)] + "~" + clean[len(clean) - tail :]


def lines(snapshot: Snapshot, width: int = 80, height: int | None = None) -> list[str]:
    """The page of a snapshot.

    Args:
        height: at most so many lines; what does not fit is counted in the last line of its table.
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
            f"never claimed: {plural(s.unclaimed_messages, 'handle', 'handles')} on foreign roads, "
            f"{size(s.unclaimed_bytes)}, oldest {age(oldest.age)}, of row {oldest.row}"
        )
    room = None if height is None else max(height - len(head) - 4, 2)
    held = held_lines(s) if room is None or room > 8 else []
    if room is not None and held:
        held = at_most(held, room // 4, "rows")
        room -= len(held) + 2
    tall = None if room is None else max(room - min(len(s.queues), room // 3), 1)
    processes = sorted(s.processes, key=lambda p: p.row)
    table = [
        f"{'ROW':>3} {'PID':>7} {'STATE':6} {'SLOTS':>5} {'MEMORY':>9} {'HOLDS':>6} {'UNREAD':>6} "
        f"{'OLDEST':>7} {'SENT/S':>6}  WHO",
        *at_most([process_line(p, width) for p in processes], tall, "processes"),
    ]
    if held:
        table += ["", "BLOCKS OF  ARE HELD BY (row: how many)", *held]
    queues = sorted(s.queues, key=lambda q: (-q.ready, q.place))
    if queues:
        left = None if room is None or tall is None else max(room - min(len(processes), tall), 1)
        table += [
            "",
            f"{'QUEUE':14} {'READY':>7} {'BOUND':>7} {'WRITING':>7} {'READING':>7} {'BYTES':>9} "
            f"{'TAKEN':>7} {'/S':>6}",
            *at_most([queue_line(q) for q in queues], left, "queues"),
        ]
    return [cut(line, width) for line in [*head, "", *table]]


def plural(n: int, one: str, many: str) -> str:
    return f"{n} {one if n == 1 else many}"


def at_most(rows: list[str], room: int | None, what: str) -> list[str]:
    """All of them, or as many as there is room for and how many more there are."""
    if room is None or len(rows) <= room:
        return rows
    return [*rows[: room - 1], f"  and {len(rows) - room + 1} more {what}"]


def held_lines(s: Snapshot) -> list[str]:
    """A line for each row whose blocks others keep alive."""
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
        f"{count(p.rate):>6}  {shortened(p.role or p.command, max(width - BEFORE_ROLE, 10))}"
    )


def queue_line(q: Queue) -> str:
    bound = str(q.maxsize) if q.maxsize else "none"
    return (
        f"{q.place:14} {q.ready:7d} {bound:>7} {q.writing:7d} {q.reading:7d} {size(q.bytes):>9} "
        f"{count(q.over):>7} {count(q.rate):>6}"
    )
