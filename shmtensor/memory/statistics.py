"""Figures, invariants and a readable summary of the shared memory."""

from __future__ import annotations

from dataclasses import dataclass

from .. import native
from ..html_table import html_table


@dataclass(frozen=True)
class Statistics:
    """Figures of this process, or of its domain where marked `domain`. Sizes in bytes.

    Attributes:
        row, incarnation: this process's entry in the process table.
        processes, zombies: domain: rows of living processes; of dead ones with unread messages.
        slots, slots_used, slots_orphaned: domain: slots of 64 MiB; in use; held without an owner.
        slots_tiny, slots_medium, slots_huge: this process's own.
        committed_bytes, cached_bytes: own memory; the part of it that is free and kept warm.
        private_blocks, shared_blocks: own blocks never sent; sent, or inherited by a fork.
        limbo_blocks, frozen_blocks: freed here and perhaps still held elsewhere; frozen by a fork
            that got no row.
        held_blocks: blocks of other processes that this one holds.
        unread_messages, unread_bytes: handles of this process in flight.
        exported, received, acknowledged, stale_handles: counts since the process joined.
        reclaim_passes, reclaimed_blocks, orphans_freed, expired_messages, sweeps, rows_swept:
            maintenance by this process.
        lost_locks: living processes whose lock was closed by a library; each causes a warning.
        liveness: domain: how deaths are detected: "locks", or "process" (pid and start time) if the
            kernel lacks open-file-description locks.
        refused_commits: domain: how often the first volume was full.
        calls_answered: how often this process returned warm memory because another had no room.
        huge_pages: "advised": requested by madvise; else the kernel's policy for /dev/shm or
            memfds, whichever offers them ("always", "never", ...).
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
    """The present figures."""
    return Statistics(**native.statistics())


def check() -> None:
    """Checks every invariant that this process can see.

    Raises:
        AssertionError: an invariant is violated; the message names it and the values.
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

    Example:
        >>> import shmtensor.memory as memory
        >>> print(memory.summary().splitlines()[0][:6])
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
