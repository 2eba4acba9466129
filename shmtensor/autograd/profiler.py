"""Where the time of ops goes, `torch.autograd.profiler` by name: `profile` and `record_function`.

An observer sees each call of an op, in forward and backward; without a profile that costs one test
a call. `PYTHON_FUNCTIONS` lists functions that compute without an op; the interpreter reports them
(`sys.setprofile`). Operators of a pullback on plain arrays, and the sums of gradients in a
backward, are part of the time of the event around them.
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

# Functions that compute without an op, by file and name; {} is the class of `self`.
PYTHON_FUNCTIONS = {
    ("tensor/from_data.py", "tensor"): "tensor",
    ("tensor/from_data.py", "from_numpy"): "from_numpy",
    ("tensor/tensor.py", "detach"): "detach",
    ("tensor/setitem.py", "setitem"): "setitem",
    ("optim/optimizer.py", "step_with_hooks"): "Optimizer.step#{}.step",
    ("optim/optimizer.py", "zero_grad"): "Optimizer.zero_grad#{}.zero_grad",
    ("optim/flat/flat_optimizer.py", "zero_grad"): "Optimizer.zero_grad#{}.zero_grad",
}
PACKAGE = f"{Path(__file__).parents[1]}/"


@dataclass(frozen=True)
class FunctionEvent:
    """One call of an op, or one block of `record_function`; times in microseconds.

    Parameters
    ----------
    name : str
        Of the op or the block.
    thread : int
        Number of the thread.
    start : float
        When it began.
    cpu_time_total : float
        How long it took.
    self_cpu_time_total : float
        The same without the calls inside it.

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

    count = 1

    @property
    def key(self) -> str:
        return self.name

    @property
    def cpu_time(self) -> float:
        return self.cpu_time_total


@dataclass(frozen=True)
class FunctionEventAvg:
    """All calls of one name; times in microseconds.

    Parameters
    ----------
    key : str
        The name.
    count : int
        How many calls.
    cpu_time_total : float
        How long they took together.
    self_cpu_time_total : float
        The same without the calls inside them.

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

    @property
    def cpu_time(self) -> float:
        """The average of a call."""
        return self.cpu_time_total / self.count


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

    def table(self, sort_by: str | None = None, row_limit: int = 100, **unused: Any) -> str:
        """Text with a line for each name.

        Args:
            sort_by: a column: "cpu_time_total", "self_cpu_time_total", "cpu_time", "count".
            row_limit: the maximal number of lines.
        """
        rows = list(self)
        if sort_by is not None:
            rows.sort(key=lambda row: getattr(row, sort_by), reverse=True)
        total = sum(row.self_cpu_time_total for row in self) or 1.0
        titles = ("Self CPU %", "Self CPU us", "CPU total us", "# of Calls")
        lines = [f"{'Name':<40} " + " ".join(f"{title:>12}" for title in titles)]
        for row in rows[: row_limit if row_limit >= 0 else None]:
            self_time = row.self_cpu_time_total
            lines.append(
                f"{row.key:<40.40} {100 * self_time / total:>11.2f}% {self_time:>12.1f} "
                f"{row.cpu_time_total:>12.1f} {row.count:>12}"
            )
        lines.append(f"Self CPU time total: {total:.1f} us")
        return "\n".join(lines)


class OpenCall:
    """A call that has not returned.

    Attributes:
        recursion: how many inner calls of the same function are open.
        inner: the seconds of inner events.
    """

    __slots__ = ("inner", "name", "recursion", "start")

    def __init__(self, name: str) -> None:
        self.name, self.recursion, self.inner, self.start = name, 0, 0.0, time.perf_counter()


active: profile | None = None


@functools.cache
def event_name(filename: str, function: str) -> str | None:
    """The event name of a function in `PYTHON_FUNCTIONS`, else None."""
    return PYTHON_FUNCTIONS.get((filename.removeprefix(PACKAGE), function))


class profile:
    """Measures the ops in a block, in all threads.

    Parameters
    ----------
    enabled : bool, optional
        False measures nothing.
    **unused
        use_cpu, record_shapes, with_stack and the like: accepted as in PyTorch, and ignored.

    Raises
    ------
    RuntimeError
        Another profile is running.

    See Also
    --------
    record_function

    Examples
    --------
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
            threading.setprofile(self.on_profile_event)
            sys.setprofile(self.on_profile_event)
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

    def on_profile_event(self, frame: FrameType, event: str, argument: Any) -> None:
        """The profile function, which the interpreter calls at each call and return."""
        if active is not self:  # a thread that outlived the profile
            sys.setprofile(None)
        elif event == "call" or event == "return":
            code = frame.f_code
            name = event_name(code.co_filename, code.co_name)
            if name is None:
                return
            if "{" in name:
                name = name.format(type(frame.f_locals["self"]).__name__)
            stack = self.stack()
            last = stack[-1] if stack else None
            if event == "call":
                if last is not None and last.name == name:
                    last.recursion += 1
                else:
                    stack.append(OpenCall(name))
            elif last is not None and last.name == name:
                if last.recursion:
                    last.recursion -= 1
                else:
                    self.leave()

    def stack(self) -> list[OpenCall]:
        """The open calls of this thread."""
        if not hasattr(self.local, "open"):
            self.local.open = []
        return self.local.open  # type: ignore[no-any-return]

    def enter(self, event: str, operands: tuple[Any, ...] = ()) -> None:
        """Begins a call, or a block, in this thread."""
        self.stack().append(OpenCall(event))

    def leave(self, result: Any = None) -> None:
        """Ends the innermost call, or block, of this thread."""
        stack = self.stack()
        if not stack:  # a block that was entered in another thread
            return
        call = stack.pop()
        seconds = time.perf_counter() - call.start
        if stack:
            stack[-1].inner += seconds
        thread, start = threading.get_ident(), call.start * 1e6
        self.function_events.append(
            FunctionEvent(call.name, thread, start, seconds * 1e6, (seconds - call.inner) * 1e6)
        )

    def key_averages(self, *unused: Any, **also_unused: Any) -> EventList:
        """A `FunctionEventAvg` of the events of each name."""
        return averages(self.function_events)

    def total_average(self) -> FunctionEventAvg:
        """The sum of all events."""
        rows = self.key_averages()
        total = self.self_cpu_time_total
        return FunctionEventAvg("Total", sum(r.count for r in rows), total, total)

    @property
    def self_cpu_time_total(self) -> float:
        """The time spent in ops and recorded blocks, in microseconds."""
        return sum(e.self_cpu_time_total for e in self.function_events)

    def table(self, *args: Any, **kwargs: Any) -> str:
        """`key_averages().table(...)`."""
        return self.key_averages().table(*args, **kwargs)

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
    by_name: dict[str, FunctionEventAvg] = {}
    for e in events:
        old = by_name.get(e.name, FunctionEventAvg(e.name, 0, 0.0, 0.0))
        total = old.cpu_time_total + e.cpu_time_total
        self_total = old.self_cpu_time_total + e.self_cpu_time_total
        by_name[e.name] = FunctionEventAvg(e.name, old.count + 1, total, self_total)
    return EventList(by_name.values())


class record_function:
    """Names a block, or a function, in a profile; does nothing without a profile.

    Parameters
    ----------
    name : str
        The name in the profile.
    args : str, optional
        Accepted as in PyTorch, and ignored.

    Examples
    --------
    >>> from shmtensor.autograd import profiler
    >>> with profiler.profile() as measured, profiler.record_function("mine"):
    ...     y = st.ones(3)
    >>> "mine" in [average.key for average in measured.key_averages()]
    True
    """

    def __init__(self, name: str, args: str | None = None) -> None:
        self.name, self.active_profile = name, None

    active_profile: profile | None

    def __enter__(self) -> record_function:
        self.active_profile = active
        if self.active_profile is not None:
            self.active_profile.enter(self.name)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.active_profile is not None:
            self.active_profile.leave()

    def __call__(self, function: F) -> F:
        @functools.wraps(function)
        def recorded(*args: Any, **kwargs: Any) -> Any:
            with record_function(self.name):
                return function(*args, **kwargs)

        return recorded  # type: ignore[return-value]
