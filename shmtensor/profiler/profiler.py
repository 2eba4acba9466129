"""`profile`: records what a block does, in this process and in those that it starts.

```
with profile(schedule=schedule(wait=1, warmup=1, active=2)) as prof:
    for batch in loader:             step 0     1        2         3
        train(batch)                 NONE       WARMUP   RECORD    RECORD_AND_SAVE
        prof.step()                                                -> on_trace_ready(prof)
```

While a profile is on, the mode `native.PROFILED` makes each op write an event, and
`profiling.on` is true for what Python records; docs/design/profiler.md has the rest.
"""

from __future__ import annotations

import json
import os
import socket
import threading
import time
import warnings
from collections.abc import Callable, Iterable
from enum import Enum
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from .. import cupy_runtime, native
from . import profiling
from .cuda_times import CudaTimer
from .details import Details, Notes
from .events import EventList, averages

if TYPE_CHECKING:
    from .read_events import Trace

__all__ = [
    "ProfilerAction",
    "ProfilerActivity",
    "profile",
    "schedule",
    "supported_activities",
    "tensorboard_trace_handler",
]


class ProfilerAction(Enum):
    """What a profile does in a step.

    Examples
    --------
    >>> from shmtensor.profiler import ProfilerAction, schedule
    >>> schedule(wait=1, warmup=0, active=1)(1) is ProfilerAction.RECORD_AND_SAVE
    True
    """

    NONE = 0
    WARMUP = 1
    RECORD = 2
    RECORD_AND_SAVE = 3


class ProfilerActivity(Enum):
    """What a profile may record: CPU is what the processes do, CUDA the times of ops on GPUs.

    The others are not recorded.

    Examples
    --------
    >>> from shmtensor.profiler import ProfilerActivity, supported_activities
    >>> ProfilerActivity.CPU in supported_activities()
    True
    """

    CPU = 0
    XPU = 1
    MTIA = 2
    CUDA = 3
    HPU = 4
    PrivateUse1 = 5


def supported_activities() -> set[ProfilerActivity]:
    """The activities that a profile records.

    Returns
    -------
    set of ProfilerActivity
        CPU, and CUDA where there are CuPy and a GPU.

    Examples
    --------
    >>> st.profiler.ProfilerActivity.CPU in st.profiler.supported_activities()
    True
    """
    has_cuda = cupy_runtime.is_available()
    return {ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if has_cuda else [])}


def schedule(
    *,
    wait: int,
    warmup: int,
    active: int,
    repeat: int = 0,
    skip_first: int = 0,
    skip_first_wait: int = 0,
) -> Callable[[int], ProfilerAction]:
    """A cycle of steps for `profile`: it waits, warms up, then records.

    Parameters
    ----------
    wait : int
        Steps of a cycle in which nothing is recorded.
    warmup : int
        Steps of a cycle that are not recorded either; PyTorch starts its tracing there.
    active : int
        Steps of a cycle that are recorded; after the last one `on_trace_ready` is called.
    repeat : int, optional
        How many cycles; 0: until the end.
    skip_first : int, optional
        Steps before the first cycle.
    skip_first_wait : int, optional
        Not 0: the first cycle does not wait.

    Returns
    -------
    callable
        From the number of a step to its `ProfilerAction`.

    Raises
    ------
    ValueError
        A number is negative, or `active` is 0.

    See Also
    --------
    profile

    Examples
    --------
    >>> action = st.profiler.schedule(wait=1, warmup=1, active=2, repeat=1)
    >>> [action(step).name for step in range(5)]
    ['NONE', 'WARMUP', 'RECORD', 'RECORD_AND_SAVE', 'NONE']
    """
    if min(wait, warmup, repeat, skip_first) < 0 or active <= 0:
        raise ValueError(
            "schedule: active must be positive, the others not negative: "
            f"wait={wait}, warmup={warmup}, active={active}, repeat={repeat}, "
            f"skip_first={skip_first}"
        )

    def action_of(step: int) -> ProfilerAction:
        if step < 0:
            raise ValueError(f"schedule: the number of a step cannot be negative: {step}")
        step -= skip_first
        length = wait + warmup + active
        if step >= 0 and skip_first_wait:
            step += wait
        if step < 0 or (repeat and step >= repeat * length):
            return ProfilerAction.NONE
        place = step % length
        if place < wait:
            return ProfilerAction.NONE
        if place < wait + warmup:
            return ProfilerAction.WARMUP
        return ProfilerAction.RECORD_AND_SAVE if place == length - 1 else ProfilerAction.RECORD

    return action_of


def tensorboard_trace_handler(
    dir_name: str | os.PathLike[str], worker_name: str | None = None, use_gzip: bool = False
) -> Callable[[profile], None]:
    """For `on_trace_ready`: writes each trace to a file of its own in a folder.

    Parameters
    ----------
    dir_name : path
        The folder; it is made.
    worker_name : str, optional
        The begin of the names of the files; by default the host and the process.
    use_gzip : bool, optional
        Whether the files are compressed.

    Returns
    -------
    callable
        From a profile to None. It names a file `<worker_name>.<time in ns>.pt.trace.json`.

    See Also
    --------
    profile, profile.export_chrome_trace

    Examples
    --------
    >>> import os, tempfile
    >>> folder = tempfile.mkdtemp()
    >>> handler = st.profiler.tensorboard_trace_handler(folder, "trainer")
    >>> with st.profiler.profile(on_trace_ready=handler):
    ...     y = st.ones(3) + 1
    >>> [name] = os.listdir(folder)
    >>> name.startswith("trainer."), name.endswith(".pt.trace.json")
    (True, True)
    """
    worker = worker_name or f"{socket.gethostname()}_{os.getpid()}"

    def write(prof: profile) -> None:
        folder = Path(dir_name)
        folder.mkdir(parents=True, exist_ok=True)
        suffix = ".pt.trace.json" + (".gz" if use_gzip else "")
        prof.export_chrome_trace(folder / f"{worker}.{time.time_ns()}{suffix}")

    return write


def times_cuda(activities: Iterable[ProfilerActivity] | None, stacklevel: int) -> bool:
    """Whether ops on GPUs are timed. Without a GPU CUDA among the activities is a warning.

    Raises:
        TypeError: an element is no ProfilerActivity.
        ValueError: CPU is not among them, or one cannot be recorded.
    """
    if activities is None:
        return False
    activities = list(activities)
    for activity in activities:
        if not isinstance(activity, ProfilerActivity):
            raise TypeError(f"profile: not a ProfilerActivity: {activity!r}")
    if ProfilerActivity.CPU not in activities:
        raise ValueError(
            "profile: ProfilerActivity.CPU must be among the activities: "
            f"got {[activity.name for activity in activities]}"
        )
    recorded = ProfilerActivity.CPU, ProfilerActivity.CUDA
    if names := [activity.name for activity in activities if activity not in recorded]:
        raise ValueError(f"profile: these activities cannot be recorded: {names}")
    if ProfilerActivity.CUDA not in activities:
        return False
    if not cupy_runtime.is_available():
        warnings.warn(
            "CUDA is not available, disabling CUDA profiling: " + cupy_runtime.why_missing(),
            UserWarning,
            stacklevel=stacklevel + 1,
        )
        return False
    return True


def warn_of(where: str, why: str, stacklevel: int, **options: Any) -> None:
    """Warns of options that are set and have no effect."""
    if names := [name for name, value in options.items() if value]:
        warnings.warn(
            f"{where}: without effect: {', '.join(names)}: {why}",
            UserWarning,
            stacklevel=stacklevel + 1,
        )


NOT_RECORDED = "FLOPs and modules are not recorded"
active: profile | None = None  # the profile of this process
lock = threading.Lock()


def forget_in_child() -> None:
    """The profile is its parent's: the child only records its events there."""
    global active
    if active is not None and active.details is not None:
        active.details.stop()
    active = None
    lock._at_fork_reinit()  # type: ignore[attr-defined]


os.register_at_fork(after_in_child=forget_in_child)


class profile:
    """Records what a block does, and where its time goes, in all processes of the run.

    Recorded are ops in forward and backward, optimizers' steps, waits for a `DataLoader`, a queue
    or other ranks, the loading of batches in workers, and blocks of `record_function`: in this
    process and in those that it starts meanwhile (workers of loaders, ranks of a `Trainer`,
    `shmtensor.multiprocessing`), with the times of one clock.

    Parameters
    ----------
    activities : iterable of ProfilerActivity, optional
        What to record; must contain CPU. With CUDA the ops of this process on GPUs have the times
        of their work there (not only of the call); without a GPU a warning says so.
    schedule : callable, optional
        From the number of a step to its `ProfilerAction`, such as `schedule(...)`; without one all
        steps are recorded.
    on_trace_ready : callable, optional
        Is called with this profile after the last recorded step of each cycle, or at the end.
    record_shapes : bool, optional
        Whether the ops of this process have the shapes of their operands.
    profile_memory : bool, optional
        Whether the bytes of arrays in the heap, and on GPUs that are recorded, are measured: a
        counter in the trace, and a column of the table.
    with_stack : bool, optional
        Whether the ops of this process have the frames of Python that called them.
    with_flops, with_modules : bool, optional
        Have no effect, with a warning.
    experimental_config, execution_trace_observer, acc_events, use_cuda, \
custom_trace_id_callback, post_processing_timeout_s : optional
        Accepted, and ignored.

    Raises
    ------
    RuntimeError
        Another profile is running in this process.
    ValueError
        Activities that cannot be recorded.
    OSError
        No memory for the file of events.

    See Also
    --------
    record_function, schedule, tensorboard_trace_handler

    Notes
    -----
    Copies: none of tensors. Events are written to a file in memory that has no name, 40 bytes
    each, at most 6.6 million in a cycle; `summary` says how many had no room.

    A profile in a child of a process that profiles takes the child's events while it lasts.

    Examples
    --------
    >>> from shmtensor.profiler import profile, record_function
    >>> x = st.ones(20, 20, requires_grad=True)
    >>> with profile() as prof:
    ...     with record_function("forward"):
    ...         y = (x @ x).sum()
    ...     y.backward()
    >>> {average.key for average in prof.key_averages()} >= {"forward", "matmul", "sum"}
    True
    >>> prof.summary().split(" (")[0]
    'Where the time went'
    """

    def __init__(
        self,
        *,
        activities: Iterable[ProfilerActivity] | None = None,
        schedule: Callable[[int], ProfilerAction] | None = None,
        on_trace_ready: Callable[..., Any] | None = None,
        record_shapes: bool = False,
        profile_memory: bool = False,
        with_stack: bool = False,
        with_flops: bool = False,
        with_modules: bool = False,
        experimental_config: Any = None,
        execution_trace_observer: Any = None,
        acc_events: bool = False,
        use_cuda: bool | None = None,
        custom_trace_id_callback: Any = None,
        post_processing_timeout_s: float | None = None,
    ) -> None:
        self.times_cuda: bool = times_cuda(activities, 2)
        warn_of("profile", NOT_RECORDED, 2, with_flops=with_flops, with_modules=with_modules)
        self.action_of = schedule
        self.on_trace_ready = on_trace_ready
        self.record_shapes: bool = bool(record_shapes)
        self.with_stack: bool = bool(with_stack)
        self.profile_memory: bool = bool(profile_memory)
        self.step_num: int = 0
        self.metadata: dict[str, Any] = {}
        self.trace: Trace | None = None
        self.descriptor: int = -1
        self.step_began: int = 0
        self.cycle_began: int = 0
        self.details: Details | None = None
        self.timer: CudaTimer | None = None
        self.dropped: int = 0  # events of former cycles for which there was no room

    # ---------------------------------------------------------------- on and off
    def __enter__(self) -> Any:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Begins to record, as at the begin of a `with` block.

        Raises
        ------
        RuntimeError
            Another profile is running in this process.

        Examples
        --------
        >>> prof = st.profiler.profile()
        >>> prof.start()
        >>> y = st.ones(3) + 1
        >>> prof.stop()
        >>> [event.name for event in prof.events()]
        ['ones', 'add']
        """
        global active
        with lock:
            if active is not None:
                raise RuntimeError("profile: another profile is running, they do not nest")
            self.descriptor = native.profile_start(self.profile_memory)
            active = self
        self.trace = None
        self.step_num = 0
        self.dropped = 0
        self.timer = CudaTimer(self.profile_memory) if self.times_cuda else None
        self.tid: int = threading.get_native_id()
        profiling.switch(True)
        try:
            self.enter_step()
        except BaseException:  # of the schedule
            self.stop()
            raise

    def stop(self) -> None:
        """Ends the profile, as at the end of a `with` block; does nothing if it is not running.

        Calls `on_trace_ready` if something was recorded since its last call.

        Examples
        --------
        >>> prof = st.profiler.profile()
        >>> prof.start()
        >>> prof.stop()
        >>> prof.stop()
        """
        global active
        if active is not self:
            return
        try:
            if self.cycle_began:  # what came after the last step() is no step
                self.end_cycle(keeps_former=True)
        finally:
            with lock:
                native.profile_stop()
                active = None
            profiling.switch(False)
            profiling.poll()  # the profile of a parent goes on
            if self.timer is not None:
                self.timer.close()

    # ---------------------------------------------------------------- steps
    def current_action(self) -> ProfilerAction:
        if self.action_of is None:
            return ProfilerAction.RECORD
        action = self.action_of(self.step_num)
        if not isinstance(action, ProfilerAction):
            raise TypeError(f"profile: the schedule must return a ProfilerAction: got {action!r}")
        return action

    def enter_step(self) -> None:
        """Begins the step `step_num`."""
        self.action: ProfilerAction = self.current_action()
        is_recorded = self.action in (ProfilerAction.RECORD, ProfilerAction.RECORD_AND_SAVE)
        if is_recorded and not self.cycle_began:
            if self.record_shapes or self.with_stack or self.timer is not None:
                self.details = Details(self.record_shapes, self.with_stack, self.timer)
                self.details.start()
            self.cycle_began = time.monotonic_ns()
            native.profile_record(True)
        elif not is_recorded and self.cycle_began:  # a schedule without RECORD_AND_SAVE
            self.end_cycle()
        self.step_began = profiling.begin() if is_recorded else 0

    def end_step(self) -> None:
        if self.step_began:
            profiling.end(self.step_began, f"ProfilerStep#{self.step_num}", profiling.STEP)
        self.step_began = 0

    def step(self) -> None:
        """Ends a step of the program, and begins the next one.

        Raises
        ------
        RuntimeError
            The profile is not running.

        Examples
        --------
        >>> plan = st.profiler.schedule(wait=1, warmup=0, active=2)
        >>> with st.profiler.profile(schedule=plan) as prof:
        ...     for _ in range(3):
        ...         y = st.ones(3) + 1
        ...         prof.step()
        >>> [event.name for event in prof.events() if event.kind == "step"]
        ['ProfilerStep#1', 'ProfilerStep#2']
        """
        if active is not self:
            raise RuntimeError("profile.step: the profile is not running: call start()")
        self.end_step()
        if self.action is ProfilerAction.RECORD_AND_SAVE:
            self.end_cycle()
        self.step_num += 1
        self.enter_step()

    def end_cycle(self, keeps_former: bool = False) -> None:
        """Reads what was recorded since the begin of the cycle.

        Args:
            keeps_former: a cycle without events does not replace the former one.
        """
        native.profile_record(False)
        began, ended = self.cycle_began, time.monotonic_ns()
        self.cycle_began = 0
        noted: Notes = {}
        if self.details is not None:
            self.details.stop()
            noted, self.details = self.details.notes, None
        if self.timer is not None:
            self.timer.read()

        from .read_events import read_trace

        trace = read_trace(self.descriptor, began, ended, self.tid, self.profile_memory, noted)
        if self.timer is not None:
            trace.remarks = self.timer.remarks()
        trace.dropped, self.dropped = trace.dropped - self.dropped, trace.dropped
        if keeps_former and self.trace is not None and not trace.threads:
            return
        self.trace = trace
        if self.trace.dropped:
            warnings.warn(
                f"profile: {self.trace.dropped} events had no room and are lost: record fewer "
                "steps (schedule)",
                RuntimeWarning,
                stacklevel=4,
            )
        if self.on_trace_ready is not None:
            self.on_trace_ready(self)

    # ---------------------------------------------------------------- results
    def recorded(self, where: str) -> Trace:
        """
        Raises:
            RuntimeError: nothing was recorded yet.
        """
        if self.trace is None:
            raise RuntimeError(
                f"profile.{where}: nothing was recorded yet: the profile has not ended, or its "
                "schedule recorded no step"
            )
        return self.trace

    def events(self) -> EventList:
        """The events of all processes, by the time when they began.

        Returns
        -------
        EventList of FunctionEvent
            Those of the last cycle.

        Raises
        ------
        RuntimeError
            Nothing was recorded yet.

        See Also
        --------
        key_averages

        Examples
        --------
        >>> with st.profiler.profile() as prof:
        ...     y = st.ones(3) * 2
        >>> [(event.name, event.process) for event in prof.events()]
        [('ones', 'main'), ('mul', 'main')]
        """
        return EventList(self.recorded("events").function_events)

    def key_averages(
        self,
        group_by_input_shape: bool = False,
        group_by_stack_n: int = 0,
        group_by_overload_name: bool = False,
        *,
        group_by_process: bool = False,
    ) -> EventList:
        """The events of each name together: those of this process, or of every process apart.

        Parameters
        ----------
        group_by_input_shape : bool, optional
            Whether other shapes of operands have rows of their own; for `record_shapes`.
        group_by_stack_n : int, optional
            So many innermost frames of the stack make rows of their own; for `with_stack`.
        group_by_overload_name : optional
            Accepted as in PyTorch: ops have no overloads.
        group_by_process : bool, optional
            Whether the other processes of the run are included, each with rows of its own.

        Returns
        -------
        EventList of FunctionEventAvg
            With a `table()`.

        Raises
        ------
        RuntimeError
            Nothing was recorded yet.

        See Also
        --------
        events, EventList.table

        Examples
        --------
        >>> with st.profiler.profile() as prof:
        ...     y = st.ones(3) * 2 * 3
        >>> [(average.key, average.count) for average in prof.key_averages()]
        [('ones', 1), ('mul', 2)]
        """
        trace = self.recorded("key_averages")
        where = "profile.key_averages"
        shapes_missing = group_by_input_shape and not self.record_shapes
        warn_of(where, "record_shapes was not set", 2, group_by_input_shape=shapes_missing)
        stacks_missing = group_by_stack_n and not self.with_stack
        warn_of(where, "with_stack was not set", 2, group_by_stack_n=stacks_missing)
        events = trace.function_events
        if not group_by_process:
            events = [event for event in events if event.pid == trace.pid]
        return averages(events, group_by_process, group_by_input_shape, group_by_stack_n)

    def summary(self) -> str:
        """Where the time went: a sentence for this process, and one for each other process.

        Returns
        -------
        str
            Of this process the thread that started the profile, of others the busiest one. Inside
            an optimizer's step, a wait or a backward everything counts as that.

        Raises
        ------
        RuntimeError
            Nothing was recorded yet.

        Examples
        --------
        >>> with st.profiler.profile() as prof:
        ...     y = st.ones(3) * 2
        >>> prof.summary().endswith("% other Python code.")
        True
        """
        from .summary import summary

        return summary(self.recorded("summary"))

    def __str__(self) -> str:
        return object.__repr__(self) if self.trace is None else self.summary()

    def export_chrome_trace(self, path: str | os.PathLike[str]) -> None:
        """Writes the events as a trace that Perfetto (ui.perfetto.dev) and chrome://tracing show.

        Parameters
        ----------
        path : path
            The file: JSON, compressed if its name ends with `.gz`.

        Raises
        ------
        RuntimeError
            Nothing was recorded yet.

        See Also
        --------
        tensorboard_trace_handler

        Examples
        --------
        >>> import os, tempfile
        >>> with st.profiler.profile() as prof:
        ...     y = st.ones(3) * 2
        >>> path = os.path.join(tempfile.mkdtemp(), "trace.json.gz")
        >>> prof.export_chrome_trace(path)
        >>> os.path.getsize(path) > 100
        True
        """
        from .chrome_trace import export

        export(self.recorded("export_chrome_trace"), path, self.metadata)

    def export_stacks(
        self, path: str | os.PathLike[str], metric: str = "self_cpu_time_total"
    ) -> None:
        """Writes the stacks of this process's ops for a flame graph: a line for each op.

        Parameters
        ----------
        path : path
            The file: each line has the frames, the outermost first, and a number of microseconds.
        metric : str, optional
            "self_cpu_time_total", "self_cuda_time_total" or "self_device_time_total".

        Raises
        ------
        RuntimeError
            Nothing was recorded yet.
        ValueError
            There is no such metric.

        See Also
        --------
        export_chrome_trace

        Examples
        --------
        >>> import os, tempfile
        >>> with st.profiler.profile(with_stack=True) as prof:
        ...     y = st.ones(300, 300).exp()
        >>> path = os.path.join(tempfile.mkdtemp(), "stacks.txt")
        >>> prof.export_stacks(path)
        >>> os.path.getsize(path) > 0
        True
        """
        name = metric.replace("cuda", "device")
        if name not in ("self_cpu_time_total", "self_device_time_total"):
            raise ValueError(
                "export_stacks: metric must be one of self_cpu_time_total, self_cuda_time_total "
                f"and self_device_time_total: got {metric!r}"
            )
        separators = str.maketrans(" ;\t\n", "____")
        with Path(path).open("w", encoding="utf-8") as file:
            for event in self.recorded("export_stacks").function_events:
                microseconds = int(getattr(event, name))
                if event.stack and microseconds:
                    frames = [frame.translate(separators) for frame in reversed(event.stack)]
                    file.write(f"{';'.join(frames)} {microseconds}\n")

    def add_metadata(self, key: str, value: str) -> None:
        """Adds a text to the file of the trace.

        Parameters
        ----------
        key : str
            Its name.
        value : str
            The text.

        Examples
        --------
        >>> prof = st.profiler.profile()
        >>> prof.add_metadata("run", "seventh")
        """
        self.metadata[key] = value

    def add_metadata_json(self, key: str, value: str) -> None:
        """Adds a value to the file of the trace.

        Parameters
        ----------
        key : str
            Its name.
        value : str
            The value as JSON.

        Raises
        ------
        ValueError
            It is not JSON.

        Examples
        --------
        >>> prof = st.profiler.profile()
        >>> prof.add_metadata_json("sizes", "[784, 10]")
        """
        self.metadata[key] = json.loads(value)
