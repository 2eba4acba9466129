"""Events of a profile, their averages, and a table of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
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
    device_time_total : float, optional
        Under ProfilerActivity.CUDA: how long a GPU worked on the op. Of others than ops: the sum of
        the ops inside it.
    self_device_time_total : float, optional
        The same of an op without the ops inside it on the same stream; else 0.
    device_memory_usage : int, optional
        Of an op, under profile_memory as well: the bytes that it allocated on a GPU less those that
        it freed.
    self_device_memory_usage : int, optional
        The same without the ops inside it.
    input_shapes : list, optional
        Under record_shapes: the shape of each operand; [] for one that is no tensor.
    stack : list of str, optional
        Under with_stack: the frames of Python, the innermost first.

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
    device_time_total: float = 0.0
    self_device_time_total: float = 0.0
    device_memory_usage: int = 0
    self_device_memory_usage: int = 0
    input_shapes: list[Any] = field(default_factory=list)
    stack: list[str] = field(default_factory=list)

    count = 1

    @property
    def key(self) -> str:
        return self.name

    @property
    def cpu_time(self) -> float:
        return self.cpu_time_total

    @property
    def device_time(self) -> float:
        return self.device_time_total

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
    device_time_total, self_device_time_total : float, optional
        How long GPUs worked on them, and without the ops inside them.
    device_memory_usage, self_device_memory_usage : int, optional
        As the memory of the CPU, of GPUs.
    input_shapes : list or str, optional
        With group_by_input_shape: the shapes of the operands; else "".
    stack : list of str, optional
        With group_by_stack_n: the innermost frames.

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
    device_time_total: float = 0.0
    self_device_time_total: float = 0.0
    device_memory_usage: int = 0
    self_device_memory_usage: int = 0
    input_shapes: Any = ""
    stack: list[str] = field(default_factory=list)

    @property
    def cpu_time(self) -> float:
        """The average of an event."""
        return self.cpu_time_total / self.count

    @property
    def device_time(self) -> float:
        """The average of an event, on GPUs."""
        return self.device_time_total / self.count


SUMMED = (
    "cpu_time_total", "self_cpu_time_total", "cpu_memory_usage", "self_cpu_memory_usage",
    "device_time_total", "self_device_time_total", "device_memory_usage",
    "self_device_memory_usage",
)  # fmt: skip
SORTABLE = (*SUMMED, "cpu_time", "device_time", "count")


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

    @property
    def self_device_time_total(self) -> float:
        """The same on GPUs."""
        return float(sum(row.self_device_time_total for row in self))

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
        sums = {}
        for name in SUMMED:
            own = name if name.startswith("self_") else f"self_{name}"
            sums[name] = sum(getattr(row, own) for row in self)
        return FunctionEventAvg("Total", sum(row.count for row in self), **sums)

    def table(
        self,
        sort_by: str | None = None,
        row_limit: int = 100,
        max_src_column_width: int = 75,
        max_name_column_width: int = 55,
        max_shapes_column_width: int = 80,
        header: str | None = None,
        top_level_events_only: bool = False,
        time_unit: str | None = None,
    ) -> str:
        """Text with a line for each name, or each event.

        Parameters
        ----------
        sort_by : str, optional
            "count", "cpu_time_total", "cpu_time", "cpu_memory_usage", the same of a GPU with
            "device" or "cuda" in place of "cpu", or `self_` and one of the totals.
        row_limit : int, optional
            The maximal number of lines; -1: all.
        max_src_column_width, max_name_column_width, max_shapes_column_width : int, optional
            How wide the columns of stacks, names and shapes may be.
        header : str, optional
            A line above the table.
        top_level_events_only : bool, optional
            Accepted as in PyTorch, and ignored.
        time_unit : str, optional
            "s", "ms" or "us"; by default each time has its own.

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
            column = sort_by.replace("cuda", "device")
            if column not in SORTABLE:
                raise ValueError(f"table: sort_by must be one of {SORTABLE}: got {sort_by!r}")
            rows.sort(key=lambda row: getattr(row, column), reverse=True)
        if time_unit not in (None, *UNITS):
            raise ValueError(f"table: time_unit must be one of {tuple(UNITS)}: got {time_unit!r}")
        columns = columns_of(rows, time_unit, max_src_column_width, max_shapes_column_width)
        name_width = min(max((len(row.key) for row in rows), default=0) + 4, max_name_column_width)
        lines = [header] if header else []
        titles = [f"{title:{align}{width}}" for title, align, width, _ in columns]
        lines.append("  ".join([f"{'Name':<{name_width}}", *titles]).rstrip())
        for row in rows[: row_limit if row_limit >= 0 else None]:
            cells = [f"{cell(row):{align}{width}}" for _, align, width, cell in columns]
            name = f"{row.key:<{name_width}.{name_width}}"
            lines.append("  ".join([name, *cells]).rstrip())
            indent = " " * len("  ".join([name, *cells[:-1], ""]))
            lines += [indent + frame[-max_src_column_width:] for frame in row.stack[1:]]
        lines.append(f"Self CPU time total: {text_of_time(self.self_cpu_time_total, time_unit)}")
        if on_gpu := self.self_device_time_total:
            lines.append(f"Self CUDA time total: {text_of_time(on_gpu, time_unit)}")
        return "\n".join(lines)


UNITS = {"s": 1e6, "ms": 1e3, "us": 1.0}


def text_of_time(us: float, unit: str | None = None) -> str:
    """A time with its unit, as in PyTorch's tables."""
    unit = unit or next((unit for unit, n in UNITS.items() if us >= n), "us")
    return f"{us / UNITS[unit]:.3f}{unit}"


Column = tuple[str, str, int, Callable[[Any], str]]  # title, alignment, width, text of a row


def columns_of(
    rows: list[Any], unit: str | None, source_width: int, shapes_width: int
) -> list[Column]:
    """The columns of a table after the first: those that some row has something for."""

    def share(name: str, of: str) -> Callable[[Any], str]:
        total = sum(getattr(row, of) for row in rows) or 1.0
        return lambda row: f"{100 * getattr(row, name) / total:.2f}%"

    def time(name: str) -> Callable[[Any], str]:
        return lambda row: text_of_time(getattr(row, name), unit)

    def memory(name: str) -> Callable[[Any], str]:
        return lambda row: size(getattr(row, name))

    cells = [
        ("Self CPU %", share("self_cpu_time_total", "self_cpu_time_total")),
        ("Self CPU", time("self_cpu_time_total")),
        ("CPU total %", share("cpu_time_total", "self_cpu_time_total")),
        ("CPU total", time("cpu_time_total")),
        ("CPU time avg", time("cpu_time")),
    ]
    if any(row.device_time_total for row in rows):
        cells += [
            ("Self CUDA", time("self_device_time_total")),
            ("Self CUDA %", share("self_device_time_total", "self_device_time_total")),
            ("CUDA total", time("device_time_total")),
            ("CUDA time avg", time("device_time")),
        ]
    cells.append(("# of Calls", lambda row: f"{row.count}"))
    for device, title in (("cpu", "CPU Mem"), ("device", "CUDA Mem")):
        names = f"{device}_memory_usage", f"self_{device}_memory_usage"
        if any(getattr(row, name) for row in rows for name in names):
            cells += [(title, memory(names[0])), (f"Self {title}", memory(names[1]))]
    columns: list[Column] = [(title, ">", max(12, len(title)), cell) for title, cell in cells]
    processes = {row.process for row in rows}
    if len(processes) > 1:
        width = max(map(len, processes))
        columns.insert(0, ("Process", "<", max(width, 7), lambda row: row.process))
    if any(row.input_shapes for row in rows):
        width = min(max(len(str(row.input_shapes)) for row in rows), shapes_width)
        columns.append(
            ("Input Shapes", ">", max(width, 12), lambda row: str(row.input_shapes)[:shapes_width])
        )
    if any(row.stack for row in rows):

        def source(row: Any) -> str:
            return row.stack[0][-source_width:] if row.stack else ""

        columns.append(("Source Location", "<", 0, source))
    return columns


def averages(
    events: Iterable[FunctionEvent],
    by_process: bool = False,
    by_shape: bool = False,
    by_stack: int = 0,
) -> EventList:
    """A `FunctionEventAvg` for the events of each name, and of each process, each list of shapes
    and each `by_stack` innermost frames if asked.
    """
    groups: dict[tuple[Any, ...], list[FunctionEvent]] = {}
    for e in events:
        shapes = str(e.input_shapes) if by_shape else ""
        key = e.name, e.pid if by_process else 0, shapes, *e.stack[:by_stack]
        groups.setdefault(key, []).append(e)
    return EventList(
        FunctionEventAvg(
            group[0].name,
            len(group),
            process=group[0].process if by_process else "",
            input_shapes=group[0].input_shapes if by_shape else "",
            stack=group[0].stack[:by_stack],
            **{name: sum(getattr(e, name) for e in group) for name in SUMMED},
        )
        for group in groups.values()
    )
