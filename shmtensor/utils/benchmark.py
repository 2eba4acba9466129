"""Times statements, as `torch.utils.benchmark` does: `Timer`, `Measurement`, `Compare`."""

from __future__ import annotations

import statistics
import timeit
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

from ..native import get_num_threads, set_num_threads

__all__ = ["Compare", "Measurement", "TaskSpec", "Timer"]

UNITS = [(1.0, "s"), (1e-3, "ms"), (1e-6, "us"), (0.0, "ns")]
SCALES = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}


@dataclass(frozen=True)
class TaskSpec:
    """What a Timer ran.

    Parameters
    ----------
    stmt, setup, global_setup : str
        The statement, and what runs before it. `global_setup` is for C++ in PyTorch: always empty.
    label, sub_label, description : str or None
        Names of the table, the row and the column in `Compare`.
    env : str or None
        A name for the environment, as "before my change".
    num_threads : int
        Threads of the kernels while it ran.

    Examples
    --------
    >>> from shmtensor.utils.benchmark import TaskSpec
    >>> TaskSpec("x + 1", "x = 1", label="sum").title
    'sum'
    """

    stmt: str
    setup: str
    global_setup: str = ""
    label: str | None = None
    sub_label: str | None = None
    description: str | None = None
    env: str | None = None
    num_threads: int = 1

    @property
    def title(self) -> str:
        """The label, or the statement."""
        parts = [self.label or self.stmt, self.sub_label]
        return ": ".join(part for part in parts if part)


@dataclass
class Measurement:
    """Times of runs of a statement, in seconds.

    Parameters
    ----------
    number_per_run : int
        How often the statement ran in each run.
    raw_times : list of float
        The duration of each run.
    task_spec : TaskSpec
        What ran.
    metadata : dict, optional
        Kept as it is.

    Examples
    --------
    >>> from shmtensor.utils.benchmark import Measurement, TaskSpec
    >>> found = Measurement(10, [1e-3, 3e-3, 2e-3], TaskSpec("f()", "pass"))
    >>> found.median, found.iqr
    (0.0002, 0.0001)
    >>> print(found)
    f()
      Median: 200 us
      IQR:    100 us (150 to 250)
      3 measurements, 10 runs per measurement, 1 thread
    """

    number_per_run: int
    raw_times: list[float]
    task_spec: TaskSpec
    metadata: dict[Any, Any] | None = field(default=None, repr=False)

    @property
    def times(self) -> list[float]:
        """Seconds of one execution, for each run."""
        return [t / self.number_per_run for t in self.raw_times]

    @property
    def median(self) -> float:
        """The median of `times`."""
        return statistics.median(self.times)

    @property
    def mean(self) -> float:
        """The mean of `times`."""
        return statistics.fmean(self.times)

    @property
    def quartiles(self) -> tuple[float, float]:
        """The first and third quartile of `times`, interpolated linearly."""
        if len(self.raw_times) < 2:
            return self.median, self.median
        first, _, third = statistics.quantiles(self.times, n=4, method="inclusive")
        return first, third

    @property
    def iqr(self) -> float:
        """Third quartile less the first."""
        first, third = self.quartiles
        return float(f"{third - first:.12g}")

    @property
    def title(self) -> str:
        """That of the task."""
        return self.task_spec.title

    def __str__(self) -> str:
        scale, unit = unit_of(self.median)
        threads = self.task_spec.num_threads
        number = f"{self.number_per_run} run{'s' * (self.number_per_run > 1)} per measurement"
        tail = f"{number}, {threads} thread{'s' * (threads > 1)}"
        if len(self.raw_times) == 1:
            return f"{self.title}\n  {self.median / scale:.4g} {unit}\n  1 measurement, {tail}"
        first, third = (q / scale for q in self.quartiles)
        return (
            f"{self.title}\n"
            f"  Median: {self.median / scale:.4g} {unit}\n"
            f"  IQR:    {self.iqr / scale:.3g} {unit} ({first:.4g} to {third:.4g})\n"
            f"  {len(self.raw_times)} measurements, {tail}"
        )

    __repr__ = __str__

    @staticmethod
    def merge(measurements: Iterable[Measurement]) -> list[Measurement]:
        """Joins measurements of the same task; their times are per execution afterwards."""
        grouped: dict[TaskSpec, list[float]] = defaultdict(list)
        for measurement in measurements:
            grouped[measurement.task_spec] += measurement.times
        return [Measurement(1, times, spec) for spec, times in grouped.items()]


def unit_of(seconds: float) -> tuple[float, str]:
    unit = next(name for least, name in UNITS if seconds >= least)
    return SCALES[unit], unit


class Timer:
    """Times a Python statement; PyTorch's `Timer` without C++ and Callgrind.

    Parameters
    ----------
    stmt : str
        What is timed.
    setup : str, optional
        Runs once before each measurement.
    global_setup : str, optional
        Must be empty.
    timer : callable, optional
        The clock, in seconds.
    globals : dict, optional
        Names that the statement sees.
    label, sub_label, description, env : str, optional
        Names for `Compare`: of the table, the row, the column and the environment.
    num_threads : int, optional
        Threads of the kernels while it runs, 1 by default; set back afterwards.
    language : str, optional
        Must be "python".

    Raises
    ------
    NotImplementedError
        Another language, or a `global_setup`.

    Notes
    -----
    The first run, which compiles and warms caches, is not counted. The garbage collector is off
    while the clock runs, as in `timeit`.

    Examples
    --------
    >>> from shmtensor.utils.benchmark import Timer
    >>> timer = Timer("x.sum()", globals={"x": st.ones(10)})
    >>> measurement = timer.timeit(100)
    >>> measurement.number_per_run, 0 < measurement.median < 1
    (100, True)
    >>> timer.blocked_autorange(min_run_time=0.01).mean > 0
    True
    """

    def __init__(
        self,
        stmt: str = "pass",
        setup: str = "pass",
        global_setup: str = "",
        timer: Callable[[], float] = perf_counter,
        globals: dict[str, Any] | None = None,
        label: str | None = None,
        sub_label: str | None = None,
        description: str | None = None,
        env: str | None = None,
        num_threads: int = 1,
        language: str = "python",
    ) -> None:
        if str(language).lower() not in ("python", "py") or global_setup:
            raise NotImplementedError(
                f"Timer: only Python can be timed: language={language!r}, "
                f"global_setup={global_setup!r}"
            )
        names = (stmt, setup, "", label, sub_label, description, env, num_threads)
        self._task_spec = TaskSpec(*names)
        self._timer = timeit.Timer(stmt, setup, timer, globals)

    def _measure(self, number: int) -> float:
        threads = get_num_threads()
        set_num_threads(self._task_spec.num_threads)
        try:
            return self._timer.timeit(number)
        finally:
            set_num_threads(threads)

    def timeit(self, number: int = 1_000_000) -> Measurement:
        """One measurement of `number` executions, after a hundredth of them to warm up."""
        self._measure(max(number // 100, 1))
        return Measurement(number, [self._measure(number)], self._task_spec)

    def blocked_autorange(
        self, callback: Callable[[int, float], Any] | None = None, min_run_time: float = 0.2
    ) -> Measurement:
        """Measurements for at least `min_run_time` seconds, each long enough for the clock.

        `callback(number, seconds)` is called after each.
        """
        number = self._block_size(min_run_time)
        times: list[float] = []
        while not times or sum(times) < min_run_time:
            times.append(self._measure(number))
            if callback:
                callback(number, times[-1])
        return Measurement(number, times, self._task_spec)

    def adaptive_autorange(
        self,
        threshold: float = 0.1,
        *,
        min_run_time: float = 0.01,
        max_run_time: float = 10.0,
        callback: Callable[[int, float], Any] | None = None,
    ) -> Measurement:
        """Measurements until their quartiles are within `threshold` of the median, or
        `max_run_time` seconds have passed.
        """
        number = self._block_size(min_run_time)
        times: list[float] = []
        while True:
            times.append(self._measure(number))
            if callback:
                callback(number, times[-1])
            found = Measurement(number, times, self._task_spec)
            is_enough = len(times) >= 4 and sum(times) >= min_run_time
            if sum(times) >= max_run_time or (is_enough and found.iqr < threshold * found.median):
                return found

    def _block_size(self, min_run_time: float) -> int:
        """How many executions take a hundredth of `min_run_time`, and at least 10 us."""
        number = 1
        self._measure(1)
        while (took := self._measure(number)) < max(min_run_time / 100, 1e-5):
            number *= 10 if took <= 0 else min(10, max(2, round(min_run_time / 100 / took)))
        return number


class Compare:
    """A table of measurements: a row for each `sub_label`, a column for each `description`.

    Parameters
    ----------
    results : list of Measurement
        What is shown; those of one task are joined.

    Examples
    --------
    >>> from shmtensor.utils.benchmark import Compare, Measurement, TaskSpec
    >>> def of(row, column, seconds):
    ...     spec = TaskSpec("f()", "pass", label="sums", sub_label=row, description=column)
    ...     return Measurement(1, [seconds], spec)
    >>> Compare([of("small", "old", 3e-6), of("small", "new", 2e-6)]).print()
    sums: medians in us, 1 thread
            old  new
    small     3    2
    """

    def __init__(self, results: Sequence[Measurement]) -> None:
        self._results = list(results)

    def extend_results(self, results: Sequence[Measurement]) -> None:
        """Adds measurements."""
        self._results += results

    def print(self) -> None:
        """Prints `str(self)`."""
        print(self)

    def __str__(self) -> str:
        tables: dict[tuple[str, int], list[Measurement]] = defaultdict(list)
        for found in Measurement.merge(self._results):
            spec = found.task_spec
            tables[spec.label or spec.stmt, spec.num_threads].append(found)
        return "\n\n".join(table(*key, found) for key, found in tables.items())


def table(label: str, threads: int, results: list[Measurement]) -> str:
    scale, unit = unit_of(min(found.median for found in results))
    rows: dict[str, dict[str, str]] = defaultdict(dict)
    for found in results:
        spec = found.task_spec
        row = " ".join(
            filter(None, [f"({spec.env})" if spec.env else "", spec.sub_label or spec.stmt])
        )
        rows[row][spec.description or spec.stmt] = f"{found.median / scale:.4g}"
    columns = list(dict.fromkeys(name for cells in rows.values() for name in cells))
    left = max(map(len, rows)) + 2
    widths = [max(len(c), *(len(cells.get(c, "")) for cells in rows.values())) for c in columns]
    lines = [f"{label}: medians in {unit}, {threads} thread{'s' * (threads > 1)}"]
    for name, cells in [("", dict(zip(columns, columns, strict=True))), *rows.items()]:
        texts = [cells.get(c, "").rjust(w) for c, w in zip(columns, widths, strict=True)]
        lines.append(f"{name:{left}}" + "  ".join(texts))
    return "\n".join(lines)
