"""`torch.autograd.profiler` by name: `shmtensor.profiler` with the older interface."""

from __future__ import annotations

from typing import Any

from ..profiler.events import EventList, FunctionEvent, FunctionEventAvg
from ..profiler.profiler import NOT_RECORDED, ProfilerActivity, times_cuda, warn_of
from ..profiler.profiler import profile as _profile
from ..profiler.ranges import record_function

__all__ = ["EventList", "FunctionEvent", "FunctionEventAvg", "profile", "record_function"]


class profile(_profile):
    """Measures the ops in a block, in all threads and in the processes that it starts.

    Parameters
    ----------
    enabled : bool, optional
        False measures nothing.
    use_device : str, optional
        "cuda": ops on GPUs have times there, as with ProfilerActivity.CUDA.
    use_cuda : bool, optional
        The same as "cuda" for `use_device`.
    record_shapes, with_stack : bool, optional
        As of `shmtensor.profiler.profile`.
    with_flops, with_modules : bool, optional
        Have no effect, with a warning.
    profile_memory : bool, optional
        Whether the bytes of arrays in the heap are measured.
    use_cpu, use_kineto, experimental_config, acc_events, \
custom_trace_id_callback : optional
        Accepted as in PyTorch, and ignored.

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
        use_cuda: bool = False,
        use_device: str | None = None,
        record_shapes: bool = False,
        with_flops: bool = False,
        profile_memory: bool = False,
        with_stack: bool = False,
        with_modules: bool = False,
        use_kineto: bool = False,
        use_cpu: bool = True,
        experimental_config: Any = None,
        acc_events: bool = False,
        custom_trace_id_callback: Any = None,
    ) -> None:
        warn_of("profile", NOT_RECORDED, 2, with_flops=with_flops, with_modules=with_modules)
        super().__init__(
            record_shapes=record_shapes, with_stack=with_stack, profile_memory=profile_memory
        )
        if use_cuda or use_device == "cuda":
            self.times_cuda = times_cuda([ProfilerActivity.CPU, ProfilerActivity.CUDA], 2)
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
        return self.key_averages().total_average()

    @property
    def self_cpu_time_total(self) -> float:
        """The time spent in ops and recorded blocks of this process, in microseconds."""
        return self.key_averages().self_cpu_time_total

    def table(self, *args: Any, **kwargs: Any) -> str:
        """`key_averages().table(...)`."""
        return self.key_averages().table(*args, **kwargs)
