"""Where the time of ops goes, `torch.autograd.profiler` by name: `profile` and `record_function`.

An observer is told of each call of an op, in both directions; a program without a profile pays one
test for each. `WRITTEN` has the functions that are no ops and do such work: of those the
interpreter tells (`sys.setprofile`). What a pullback does with operators on plain arrays, and the
sums that a backward makes of gradients, are in the time of the event around them.
"""

from __future__ import annotations

import functools
import json
import sys
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, TypeVar

from .dispatch import observers

__all__ = ["EventList", "FunctionEvent", "FunctionEventAvg", "profile", "record_function"]

F = TypeVar("F", bound=Callable[..., Any])

# Functions that compute without an op, by file and name; {} is the class of their object.
WRITTEN = {
    ("tensor/from_data.py", "tensor"): "tensor",
    ("tensor/from_data.py", "from_numpy"): "from_numpy",
    ("tensor/tensor.py", "detach"): "detach",
    ("tensor/setitem.py", "setitem"): "setitem",
    ("optim/optimizer.py", "hooked"): "Optimizer.step#{}.step",
    ("optim/optimizer.py", "zero_grad"): "Optimizer.zero_grad#{}.zero_grad",
    ("optim/flat/flat_optimizer.py", "zero_grad"): "Optimizer.zero_grad#{}.zero_grad",
}
PACKAGE = f"{Path(__file__).parents[1]}/"


@dataclass(frozen=True)
class FunctionEvent:
    """One call of an op, or one block of `record_function`; times in microseconds."""

    name: str
    thread: int
    start: float
    cpu_time_total: float
    self_cpu_time_total: float

    count = 1

    @property
    def key(self) -> str:
        return self.name

    @property
    def cpu_time(self) -> float:
        return self.cpu_time_total


@dataclass(frozen=True)
class FunctionEventAvg:
    """All calls of one name; times in microseconds."""

    key: str
    count: int
    cpu_time_total: float
    self_cpu_time_total: float

    @property
    def cpu_time(self) -> float:
        """The average of a call."""
        return self.cpu_time_total / self.count


class EventList(list[Any]):
    """Events, or their averages."""

    def table(self, sort_by: str | None = None, row_limit: int = 100, **unused: Any) -> str:
        """Text with a line for each name.

        Args:
            sort_by: a column: "cpu_time_total", "self_cpu_time_total", "cpu_time", "count".
            row_limit: at most as many lines.
        """
        rows = list(self)
        if sort_by is not None:
            rows.sort(key=lambda row: getattr(row, sort_by), reverse=True)
        whole = sum(row.self_cpu_time_total for row in self) or 1.0
        titles = ("Self CPU %", "Self CPU us", "CPU total us", "# of Calls")
        lines = [f"{'Name':<40} " + " ".join(f"{title:>12}" for title in titles)]
        for row in rows[: row_limit if row_limit >= 0 else None]:
            own = row.self_cpu_time_total
            lines.append(
                f"{row.key:<40.40} {100 * own / whole:>11.2f}% {own:>12.1f} "
                f"{row.cpu_time_total:>12.1f} {row.count:>12}"
            )
        lines.append(f"Self CPU time total: {whole:.1f} us")
        return "\n".join(lines)


class Open:
    """A call that has not returned.

    Attributes:
        again: how many calls inside are the same function once more.
        inner: the seconds that events inside took.
    """

    __slots__ = ("again", "inner", "name", "start")

    def __init__(self, name: str) -> None:
        self.name, self.again, self.inner, self.start = name, 0, 0.0, time.perf_counter()


active: profile | None = None


@functools.cache
def event_of(filename: str, function: str) -> str | None:
    """What a call of one of the functions in `WRITTEN` counts as; None: it is none of them."""
    return WRITTEN.get((filename.removeprefix(PACKAGE), function))


class profile:
    """Measures the ops in a block, of all threads.

    Args:
        enabled: False measures nothing.
        use_cpu, record_shapes, with_stack and the like: accepted for PyTorch's sake.

    Raises:
        RuntimeError: another profile is running.

    Example:
        >>> import shmtensor as st
        >>> from shmtensor.autograd import profiler
        >>> with profiler.profile() as measured:
        ...     y = st.ones(3).erfinv()
        >>> measured.key_averages()[0].count
        1
    """

    def __init__(self, enabled: bool = True, **unused: Any) -> None:
        self.enabled = enabled
        self.function_events: list[FunctionEvent] = EventList()
        self.local = threading.local()

    def __enter__(self) -> profile:
        global active
        if self.enabled:
            if active is not None:
                raise RuntimeError("profile: another profile is running, they do not nest")
            active = self
            self.former = sys.getprofile(), threading.getprofile()
            threading.setprofile(self.tell)
            sys.setprofile(self.tell)
            observers.add(self)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        global active
        if self.enabled:
            observers.remove(self)
            sys.setprofile(self.former[0])
            threading.setprofile(self.former[1])
            active = None

    def tell(self, frame: FrameType, event: str, argument: Any) -> None:
        """What the interpreter calls at each call and return."""
        if active is not self:  # a thread that went on after the end
            sys.setprofile(None)
        elif event == "call" or event == "return":
            code = frame.f_code
            name = event_of(code.co_filename, code.co_name)
            if name is None:
                return
            if "{" in name:
                name = name.format(type(frame.f_locals["self"]).__name__)
            stack = self.stack()
            last = stack[-1] if stack else None
            if event == "call":
                if last is not None and last.name == name:
                    last.again += 1
                else:
                    stack.append(Open(name))
            elif last is not None and last.name == name:
                if last.again:
                    last.again -= 1
                else:
                    self.leave()

    def stack(self) -> list[Open]:
        """The calls of this thread that have not returned."""
        if not hasattr(self.local, "open"):
            self.local.open = []
        return self.local.open  # type: ignore[no-any-return]

    def enter(self, event: str, operands: tuple[Any, ...] = ()) -> None:
        """A call, or a block, begins in this thread."""
        self.stack().append(Open(event))

    def leave(self, result: Any = None) -> None:
        """The one that began last in this thread ends."""
        stack = self.stack()
        if not stack:  # a block that was entered in another thread
            return
        done = stack.pop()
        took = time.perf_counter() - done.start
        if stack:
            stack[-1].inner += took
        thread, start = threading.get_ident(), done.start * 1e6
        self.function_events.append(
            FunctionEvent(done.name, thread, start, took * 1e6, (took - done.inner) * 1e6)
        )

    def key_averages(self, *unused: Any, **also_unused: Any) -> EventList:
        """The events of each name as one, a `FunctionEventAvg`."""
        return averages(self.function_events)

    def total_average(self) -> FunctionEventAvg:
        """All events as one."""
        rows = self.key_averages()
        own = self.self_cpu_time_total
        return FunctionEventAvg("Total", sum(r.count for r in rows), own, own)

    @property
    def self_cpu_time_total(self) -> float:
        """The time spent in ops and recorded blocks, in microseconds."""
        return sum(e.self_cpu_time_total for e in self.function_events)

    def table(self, *args: Any, **named: Any) -> str:
        """`key_averages().table(...)`."""
        return self.key_averages().table(*args, **named)

    def export_chrome_trace(self, path: Any) -> None:
        """Writes the events as a trace that chrome://tracing and Perfetto show."""
        events = [
            {
                "name": e.name,
                "ph": "X",
                "ts": e.start,
                "dur": e.cpu_time_total,
                "tid": e.thread,
                "pid": 0,
            }
            for e in self.function_events
        ]
        with open(path, "w") as file:
            json.dump({"traceEvents": events}, file)


def averages(events: Iterable[FunctionEvent]) -> EventList:
    found: dict[str, FunctionEventAvg] = {}
    for e in events:
        old = found.get(e.name, FunctionEventAvg(e.name, 0, 0.0, 0.0))
        total = old.cpu_time_total + e.cpu_time_total
        own = old.self_cpu_time_total + e.self_cpu_time_total
        found[e.name] = FunctionEventAvg(e.name, old.count + 1, total, own)
    return EventList(found.values())


class record_function:
    """Names a block, or a function, in a profile; without a profile it does nothing.

    Args:
        name: what the profile shows.
        args: accepted for PyTorch's sake.
    """

    def __init__(self, name: str, args: str | None = None) -> None:
        self.name, self.measured = name, None

    measured: profile | None

    def __enter__(self) -> record_function:
        self.measured = active
        if self.measured is not None:
            self.measured.enter(self.name)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.measured is not None:
            self.measured.leave()

    def __call__(self, function: F) -> F:
        @functools.wraps(function)
        def recorded(*args: Any, **named: Any) -> Any:
            with record_function(self.name):
                return function(*args, **named)

        return recorded  # type: ignore[return-value]
