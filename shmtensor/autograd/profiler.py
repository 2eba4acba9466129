"""`torch.autograd.profiler` by name: `shmtensor.profiler` with the older interface."""

from __future__ import annotations

from typing import Any

from ..profiler.events import EventList, FunctionEvent, FunctionEventAvg
from ..profiler.profiler import profile as _profile
from ..profiler.ranges import record_function

__all__ = ["EventList", "FunctionEvent", "FunctionEventAvg", "profile", "record_function"]


class profile(_profile):
    """Measures the ops in a block, in all threads and in the processes that it starts.

    Parameters
    ----------
    enabled : bool, optional
        False measures nothing.
    use_cpu : bool, optional
        Accepted as in PyTorch, and ignored.
    profile_memory : bool, optional
        Whether the bytes of arrays in the heap are measured.
    **unused
        record_shapes, with_stack and the like: accepted as in PyTorch, and ignored.

    Raises
    ------
    RuntimeError
        Another profile is running.

    See Also
    --------
    record_function, shmtensor.profiler.profile

    Examples
    --------
    >>> from shmtensor.autograd import profiler
    >>> with profiler.profile() as measured:
    ...     y = st.ones(3).erfinv()
    >>> [average.count for average in measured.key_averages() if average.key == "erfinv"]
    [1]
    """

    def __init__(
        self,
        enabled: bool = True,
        *,
        use_cpu: bool = True,
        profile_memory: bool = False,
        **unused: Any,
    ) -> None:
        super().__init__(profile_memory=profile_memory)
        self.enabled = enabled

    def start(self) -> None:
        if self.enabled:
            super().start()

    @property
    def function_events(self) -> EventList:
        """The events of all processes."""
        return EventList() if self.trace is None else self.events()

    def total_average(self) -> FunctionEventAvg:
        """The sum of all events of this process."""
        rows = self.key_averages()
        total = self.self_cpu_time_total
        return FunctionEventAvg("Total", sum(r.count for r in rows), total, total)

    @property
    def self_cpu_time_total(self) -> float:
        """The time spent in ops and recorded blocks of this process, in microseconds."""
        return float(sum(row.self_cpu_time_total for row in self.key_averages()))

    def table(self, *args: Any, **kwargs: Any) -> str:
        """`key_averages().table(...)`."""
        return self.key_averages().table(*args, **kwargs)
