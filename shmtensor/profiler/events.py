"""Events of a profile, their averages, and a table of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from ..memory.statistics import size

__all__ = ["EventList", "FunctionEvent", "FunctionEventAvg"]


@dataclass(frozen=True)
class FunctionEvent:
    """A call of an op, a block of `record_function`, or a wait; times in microseconds.

    Parameters
    ----------
    name : str
        Of the op or the block.
    thread : int
        Number of the thread, as the kernel counts it.
    start : float
        When it began, on the monotonic clock of the machine: the same in all processes.
    cpu_time_total : float
        How long it took.
    self_cpu_time_total : float
        The same without the events inside it.
    kind : str, optional
        "op", "backward", "range" (record_function), "step", "optimizer", "loader wait",
        "collective", "load" (of a batch, in a worker) or "queue wait".
    pid : int, optional
        The process.
    process : str, optional
        Its role: "main", "loader worker 0", "rank 1".
    nbytes : int, optional
        Of an op, under profile_memory: the bytes that it allocated less those that it freed. Of a
        collective: the bytes of this rank's operand.
    self_cpu_memory_usage : int, optional
        Of an op: `cpu_memory_usage` without that of the ops inside it; else 0.

    Examples
    --------
    >>> from shmtensor.autograd.profiler import FunctionEvent
    >>> FunctionEvent("add", 1, start=0.0, cpu_time_total=3.0, self_cpu_time_total=2.0).name
    'add'
    """

    name: str
    thread: int
    start: float
    cpu_time_total: float
    self_cpu_time_total: float
    kind: str = "op"
    pid: int = 0
    process: str = "main"
    nbytes: int = 0
    self_cpu_memory_usage: int = 0

    count = 1

    @property
    def key(self) -> str:
        return self.name

    @property
    def cpu_time(self) -> float:
        return self.cpu_time_total

    @property
    def cpu_memory_usage(self) -> int:
        """Of an op: the bytes that it allocated less those that it freed; else 0."""
        return self.nbytes if self.kind in ("op", "backward") else 0


@dataclass(frozen=True)
class FunctionEventAvg:
    """All events of one name; times in microseconds.

    Parameters
    ----------
    key : str
        The name.
    count : int
        How many events.
    cpu_time_total : float
        How long they took together. An event inside another one of the same name counts in both.
    self_cpu_time_total : float
        The same without the events inside them.
    cpu_memory_usage : int, optional
        Bytes that the ops allocated less those that they freed.
    self_cpu_memory_usage : int, optional
        The same without the ops inside them.
    process : str, optional
        The role of the process; "" for several.

    Examples
    --------
    >>> from shmtensor.autograd.profiler import FunctionEventAvg
    >>> FunctionEventAvg("add", count=2, cpu_time_total=3.0, self_cpu_time_total=2.0).count
    2
    """

    key: str
    count: int
    cpu_time_total: float
    self_cpu_time_total: float
    cpu_memory_usage: int = 0
    process: str = ""
    self_cpu_memory_usage: int = 0

    @property
    def cpu_time(self) -> float:
        """The average of an event."""
        return self.cpu_time_total / self.count


SORTABLE = (
    "cpu_time_total", "self_cpu_time_total", "cpu_time", "count",
    "cpu_memory_usage", "self_cpu_memory_usage",
)  # fmt: skip


class EventList(list[Any]):
    """Events of a profile, or their averages: a list with a `table`.

    Parameters
    ----------
    iterable : iterable, optional
        The events.

    Examples
    --------
    >>> from shmtensor.autograd import profiler
    >>> with profiler.profile() as measured:
    ...     y = st.ones(3).erfinv()
    >>> type(measured.key_averages()).__name__
    'EventList'
    """

    @property
    def self_cpu_time_total(self) -> float:
        """The time of all events, each without those inside it, in microseconds."""
        return float(sum(row.self_cpu_time_total for row in self))

    def total_average(self) -> FunctionEventAvg:
        """The sum of all events.

        Returns
        -------
        FunctionEventAvg
            Its key is "Total". Time and memory inside several events count once.

        Examples
        --------
        >>> from shmtensor.profiler import profile
        >>> with profile() as prof:
        ...     y = st.ones(3) * 2
        >>> prof.key_averages().total_average().count
        2
        """
        total, memory = self.self_cpu_time_total, sum(row.self_cpu_memory_usage for row in self)
        count = sum(row.count for row in self)
        return FunctionEventAvg("Total", count, total, total, memory, "", memory)

    def table(
        self,
        sort_by: str | None = None,
        row_limit: int = 100,
        max_src_column_width: int = 75,
        max_name_column_width: int = 40,
        max_shapes_column_width: int = 80,
        header: str | None = None,
        top_level_events_only: bool = False,
        time_unit: str | None = None,
    ) -> str:
        """Text with a line for each name, or each event.

        Parameters
        ----------
        sort_by : str, optional
            A column: "cpu_time_total", "self_cpu_time_total", "cpu_time", "count",
            "cpu_memory_usage" or "self_cpu_memory_usage".
        row_limit : int, optional
            The maximal number of lines; -1: all.
        header : str, optional
            A line above the table.
        max_src_column_width, max_name_column_width, max_shapes_column_width, \
top_level_events_only, time_unit : optional
            Accepted as in PyTorch, and ignored.

        Returns
        -------
        str
            The table.

        Raises
        ------
        ValueError
            There is no such column.

        Examples
        --------
        >>> from shmtensor.profiler import profile
        >>> with profile() as prof:
        ...     y = st.ones(3).erfinv()
        >>> "erfinv" in prof.key_averages().table(sort_by="cpu_time_total", row_limit=5)
        True
        """
        rows = list(self)
        if sort_by is not None:
            if sort_by not in SORTABLE:
                raise ValueError(f"table: sort_by must be one of {SORTABLE}: got {sort_by!r}")
            rows.sort(key=lambda row: getattr(row, sort_by), reverse=True)
        total = self.self_cpu_time_total or 1.0
        has_memory = any(row.cpu_memory_usage or row.self_cpu_memory_usage for row in self)
        processes = {row.process for row in self}
        width = max(map(len, processes), default=0) if len(processes) > 1 else 0
        titles = ["Self CPU %", "Self CPU us", "CPU total us", "CPU avg us", "# of Calls"]
        titles += ["CPU Mem", "Self CPU Mem"] * has_memory
        process = f"{'Process':<{width}} " if width else ""
        lines = [header] if header else []
        lines.append(f"{process}{'Name':<40} " + " ".join(f"{title:>12}" for title in titles))
        for row in rows[: row_limit if row_limit >= 0 else None]:
            own = row.self_cpu_time_total
            cells = [
                f"{100 * own / total:.2f}%",
                f"{own:.1f}",
                f"{row.cpu_time_total:.1f}",
                f"{row.cpu_time:.1f}",
                f"{row.count}",
            ]
            memory = row.cpu_memory_usage, row.self_cpu_memory_usage
            cells += [size(nbytes) for nbytes in memory] * has_memory
            process = f"{row.process:<{width}} " if width else ""
            lines.append(f"{process}{row.key:<40.40} " + " ".join(f"{cell:>12}" for cell in cells))
        lines.append(f"Self CPU time total: {total:.1f} us")
        return "\n".join(lines)


def averages(events: Iterable[FunctionEvent], by_process: bool = False) -> EventList:
    """A `FunctionEventAvg` for the events of each name, and of each process if asked."""
    found: dict[tuple[str, int], FunctionEventAvg] = {}
    for e in events:
        key = e.name, e.pid if by_process else 0
        old = found.get(key)
        if old is None:
            old = FunctionEventAvg(e.name, 0, 0.0, 0.0, 0, e.process if by_process else "")
        found[key] = replace(
            old,
            count=old.count + 1,
            cpu_time_total=old.cpu_time_total + e.cpu_time_total,
            self_cpu_time_total=old.self_cpu_time_total + e.self_cpu_time_total,
            cpu_memory_usage=old.cpu_memory_usage + e.cpu_memory_usage,
            self_cpu_memory_usage=old.self_cpu_memory_usage + e.self_cpu_memory_usage,
        )
    return EventList(found.values())
