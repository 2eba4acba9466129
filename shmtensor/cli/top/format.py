"""Snapshots as text: lines that fit the terminal."""

from __future__ import annotations

from .snapshot import Snapshot
from .tables import Table, sentences, tables

ALL = 1 << 20  # more lines than any snapshot has


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
    head = sentences(snapshot)
    processes, holders, queues = tables(snapshot)
    remaining = max(height - len(head) - 4, 2)
    shows_holders = bool(holders.rows) and remaining > 8
    if shows_holders:
        n_holders = remaining // 4
        remaining -= min(len(holders.rows), n_holders) + 2
    n_processes = max(remaining - min(len(queues.rows), remaining // 3), 1)
    page = [*head, "", *table_lines(processes, width, n_processes)]
    if shows_holders:
        page += ["", *table_lines(holders, width, n_holders)]
    if queues.rows:
        n_queues = max(remaining - min(len(processes.rows), n_processes), 1)
        page += ["", *table_lines(queues, width, n_queues)]
    return [cut(line, width) for line in page]


def table_lines(table: Table, width: int, limit: int) -> list[str]:
    """The header and at most `limit` lines; the last counts the rows that are left out."""
    header = line([column.name for column in table.columns], table, width)
    if len(table.rows) <= limit:
        return [header, *(line(row, table, width) for row in table.rows)]
    shown = [line(row, table, width) for row in table.rows[: limit - 1]]
    return [header, *shown, f"  and {len(table.rows) - limit + 1} more {table.what}"]


def line(cells: list[str] | tuple[str, ...], table: Table, width: int) -> str:
    """One line: cells of their columns' widths; the last column has the remainder."""
    texts = []
    for cell, column in zip(cells, table.columns, strict=True):
        if column.width:
            texts.append(cell.ljust(column.width) if column.is_left else cell.rjust(column.width))
        else:
            used = sum(len(text) + 1 for text in texts) + 1
            is_name = table.what == "processes"
            texts.append(" " + (cut_middle(cell, max(width - used, 10)) if is_name else cell))
    return " ".join(texts)
