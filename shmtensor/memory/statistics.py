"""Figures, invariants and a readable summary of the shared memory."""

from __future__ import annotations

from dataclasses import dataclass

from .. import native
from ..html_table import html_table


@dataclass(frozen=True)
class Statistics:
    """Figures of this process, or of its domain where marked `domain`. Sizes in bytes.

    Parameters
    ----------
    row, incarnation : int
        This process's entry in the process table.
    processes, zombies : int
        Domain: rows of living processes; of dead ones with unread messages.
    slots, slots_used, slots_orphaned : int
        Domain: slots of 64 MiB; in use; held without an owner.
    slots_tiny, slots_medium, slots_huge : int
        This process's own.
    committed_bytes, cached_bytes : int
        Own memory; the part of it that is free and kept warm.
    private_blocks, private_bytes : int
        Own blocks never sent.
    shared_blocks, shared_bytes : int
        Own blocks that were sent, or inherited by a fork.
    limbo_blocks, limbo_bytes : int
        Freed here and perhaps still held elsewhere.
    frozen_blocks, frozen_bytes : int
        Frozen by a fork that got no row.
    held_blocks : int
        Blocks of other processes that this one holds.
    unread_messages, unread_bytes : int
        Handles of this process in flight.
    exported, received, acknowledged, stale_handles : int
        Counts since the process joined.
    reclaim_passes, reclaimed_blocks, orphans_freed : int
        Maintenance by this process.
    expired_messages, sweeps, rows_swept : int
        Maintenance by this process, too.
    lost_locks : int
        Living processes whose lock was closed by a library; each causes a warning.
    liveness : str
        Domain: how deaths are detected: "locks", or "process" (pid and start time) if the kernel
        lacks open-file-description locks.
    refused_commits : int
        Domain: how often the first volume was full.
    calls_answered : int
        How often this process returned warm memory because another had no room.
    huge_pages : str
        "advised": requested by madvise; else the kernel's policy for /dev/shm or memfds, whichever
        offers them ("always", "never", ...).

    Notes
    -----
    `statistics` makes these; programs read their fields.

    Examples
    --------
    >>> before = st.memory.statistics()
    >>> x = st.ones(1000)
    >>> after = st.memory.statistics()
    >>> after.processes >= 1, after.slots_used <= after.slots
    (True, True)
    """

    row: int
    incarnation: int
    processes: int
    zombies: int
    slots: int
    slots_used: int
    slots_orphaned: int
    slots_tiny: int
    slots_medium: int
    slots_huge: int
    committed_bytes: int
    cached_bytes: int
    private_blocks: int
    private_bytes: int
    shared_blocks: int
    shared_bytes: int
    limbo_blocks: int
    limbo_bytes: int
    frozen_blocks: int
    frozen_bytes: int
    held_blocks: int
    unread_messages: int
    unread_bytes: int
    exported: int
    received: int
    acknowledged: int
    stale_handles: int
    reclaim_passes: int
    reclaimed_blocks: int
    orphans_freed: int
    expired_messages: int
    sweeps: int
    rows_swept: int
    lost_locks: int
    liveness: str
    refused_commits: int
    calls_answered: int
    huge_pages: str

    @property
    def live_blocks(self) -> int:
        """Blocks that an object of this process refers to."""
        return self.private_blocks + self.shared_blocks + self.held_blocks

    def _repr_html_(self) -> str:
        return html_table(("figure", "value"), vars(self).items())


def statistics() -> Statistics:
    """The present figures of this process and its domain.

    Returns
    -------
    Statistics
        A snapshot; it does not change afterwards.

    Examples
    --------
    >>> x = st.ones(3)
    >>> figures = st.memory.statistics()
    >>> figures.slots_used >= 1, figures.committed_bytes > 0
    (True, True)
    """
    return Statistics(**native.statistics())


def check() -> None:
    """Checks every invariant of the shared heap that this process can see.

    Raises
    ------
    AssertionError
        An invariant is violated; the message names it and the values.

    Examples
    --------
    >>> x = st.ones(3)
    >>> st.memory.check()
    """
    violation = native.check()
    if violation is not None:
        raise AssertionError(f"memory.check: {violation}")


def size(nbytes: float) -> str:
    """A readable size of at most 8 characters: `999 B`, `1.5 GB`."""
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if abs(nbytes) < 999.5 or unit == "TB":
            break
        nbytes /= 1000
    return f"{nbytes:.0f} {unit}" if unit == "B" else f"{nbytes:.1f} {unit}"


def summary() -> str:
    """A text on the processes of the domain, the memory of this one, and the unread messages.

    Returns
    -------
    str
        Several lines, for people: `statistics` has the numbers.

    Examples
    --------
    >>> print(st.memory.summary().splitlines()[0][:6])
    domain
    """
    s = statistics()
    available, limit, name = native.headroom()
    lines = [
        f"domain {native.domain_id().hex()[:8]}: {s.processes} processes, "
        f"{s.slots_used} of {s.slots} slots in use"
        + (f", {s.slots_orphaned} orphaned" if s.slots_orphaned else ""),
        f"room: {size(available)} of {size(limit)} ({name})"
        + (f"; /dev/shm refused {s.refused_commits} times" if s.refused_commits else ""),
        "",
        "processes    row     pid  state   role",
    ]
    for row, _, state, pid, role in native.members():
        mark = "  <- this one" if row == s.row else ""
        lines.append(f"{row:16d} {pid:7d}  {state:6s}  {role}{mark}")
    lines += [
        "",
        f"this process {s.slots_tiny} tiny, {s.slots_medium} medium, {s.slots_huge} huge slots, "
        f"{size(s.committed_bytes)} committed, {size(s.cached_bytes)} of it free",
    ]
    for state, blocks, nbytes in (
        ("private", s.private_blocks, s.private_bytes),
        ("shared", s.shared_blocks, s.shared_bytes),
        ("limbo", s.limbo_blocks, s.limbo_bytes),
        ("frozen", s.frozen_blocks, s.frozen_bytes),
    ):
        if blocks:
            lines.append(f"  {state:10s} {blocks:8d} blocks {size(nbytes):>10s}")
    lines.append(f"  {'held':10s} {s.held_blocks:8d} blocks of other processes")
    unread = native.unread()
    if unread:
        lines += ["", "unread messages: sender row, size, age"]
        for row, nbytes, age, in_channel in sorted(unread, key=lambda entry: -entry[2])[:20]:
            transport = "channel" if in_channel else "other transport"
            lines.append(f"{row:16d} {size(nbytes):>10s} {age:8.1f} s  {transport}")
        if len(unread) > 20:
            lines.append(f"{'':16s} and {len(unread) - 20} more")
    return "\n".join(lines)
