"""Streams and events of GPUs.

Ops run on the current stream of the thread, which is CuPy's: `cupy.cuda.get_current_stream()` and
`current_stream()` are the same stream, and a `with` of either library sets it for both.
"""

from __future__ import annotations

import sys
import threading
from typing import Any

from .. import cupy_runtime
from ..cuda_arrays import watch
from ..device import Device
from .absent import cupy_for, current_or

__all__ = [
    "Event",
    "ExternalStream",
    "Stream",
    "StreamContext",
    "current_stream",
    "default_stream",
    "get_stream_from_external",
    "set_stream",
    "stream",
]

POOL = 32  # streams of each device and priority


class Pool:
    """The streams that `Stream` hands out in turn. They are never destroyed, so memory that was
    used on one can still wait for it.
    """

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.streams: dict[tuple[int, int], list[Any]] = {}
        self.turns: dict[tuple[int, int], int] = {}

    def take(self, cupy: Any, device: int, priority: int) -> Any:
        """A stream of CuPy."""
        key = device, priority
        with self.lock:
            streams = self.streams.setdefault(key, [])
            turn = self.turns.get(key, 0)
            self.turns[key] = turn + 1
            if turn < POOL:
                with cupy.cuda.Device(device):
                    streams.append(cupy.cuda.Stream(non_blocking=True, priority=priority))
            return streams[turn % POOL]


pool = Pool()


class Stream:
    """A queue of work on a GPU, which runs beside other queues.

    Parameters
    ----------
    device : device, int or str, optional
        The GPU, by default the current one.
    priority : int, optional
        Lower numbers are preferred; a number out of the device's range is the nearest.
    **kwargs : object
        There are none: they raise a TypeError.

    Attributes
    ----------
    cuda_stream : int
        The address of the `cudaStream_t`; 0 is the default stream.
    device : device
        Its GPU.
    stream : cupy.cuda.Stream
        The stream of CuPy.

    Raises
    ------
    DeviceMissing
        The GPU is not there.

    Notes
    -----
    `wait_event` and `wait_stream` order streams. It is one of 32 of its device and priority, which
    are used in turn.

    Examples
    --------
    >>> if st.cuda.is_available():
    ...     side = st.cuda.Stream()
    ...     with st.cuda.stream(side):
    ...         y = st.ones(3, device="cuda") * 2
    ...     st.cuda.current_stream().wait_stream(side)
    """

    __slots__ = ("__weakref__", "device", "stream")

    device: Device
    stream: Any

    def __init__(self, device: Any = None, priority: int = 0, **kwargs: Any) -> None:
        cupy = cupy_for("Stream")
        if kwargs:
            raise TypeError(f"cuda.Stream: got an unexpected keyword argument: {sorted(kwargs)}")
        index = current_or("Stream", device)
        self.device = Device("cuda", index)
        self.stream = pool.take(cupy, index, int(priority))

    @property
    def cuda_stream(self) -> int:
        """The address of the `cudaStream_t`."""
        return int(self.stream.ptr)

    @property
    def device_index(self) -> int:
        """The number of its GPU."""
        return self.device.index or 0

    @property
    def priority(self) -> int:
        """Its priority: 0, or a negative number for one that is preferred."""
        return int(cupy_for("Stream").cuda.runtime.streamGetPriority(self.cuda_stream))

    def query(self) -> bool:
        """Whether all work queued on it is done."""
        return bool(cupy_for("Stream").cuda.runtime.streamQuery(self.cuda_stream) == 0)

    def synchronize(self) -> None:
        """Waits for all work queued on it.

        Raises:
            PeerLostError: as of `st.cuda.synchronize`.
        """
        cuda = cupy_for("Stream").cuda
        with cuda.Device(self.device_index):
            cuda.runtime.streamSynchronize(self.cuda_stream)
        if watch.waits:
            watch.check_waits()

    def wait_event(self, event: Event) -> None:
        """Later work on this stream waits for an event; the call does not."""
        event.wait(self)

    def wait_stream(self, stream: Stream) -> None:
        """Later work on this stream waits for the work queued on another; the call does not."""
        self.wait_event(stream.record_event())

    def record_event(self, event: Event | None = None) -> Event:
        """Records an event, a new one by default, and returns it."""
        event = Event() if event is None else event
        event.record(self)
        return event

    def __enter__(self) -> Stream:
        """Makes it the current stream."""
        contexts.stack.append(StreamContext(self))
        contexts.stack[-1].__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        """Restores the current stream."""
        contexts.stack.pop().__exit__(*error)

    def __cuda_stream__(self) -> tuple[int, int]:
        """NVIDIA's protocol for streams of other libraries: version 0, and the address."""
        return 0, self.cuda_stream

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Stream):
            return NotImplemented
        return (self.cuda_stream, self.device) == (other.cuda_stream, other.device)

    def __hash__(self) -> int:
        return hash((self.cuda_stream, self.device))

    def __repr__(self) -> str:
        return f"<shmtensor.cuda.Stream device={self.device} cuda_stream={self.cuda_stream:#x}>"


class Contexts(threading.local):
    """A thread's `with` blocks of streams."""

    def __init__(self) -> None:
        self.stack: list[StreamContext] = []


contexts = Contexts()


def stream_of(stream: Any, device: int) -> Stream:
    """A Stream over one of CuPy."""
    wrapped = Stream.__new__(Stream)
    wrapped.device = Device("cuda", device)
    wrapped.stream = stream
    return wrapped


class ExternalPointer:
    """A stream of another library, for CuPy."""

    def __init__(self, address: int) -> None:
        self.address = address

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, self.address


class ExternalStream(Stream):
    """A stream that another library has made and keeps alive.

    Parameters
    ----------
    data_ptr : int
        The address of the `cudaStream_t`.
    device : device, int or str, optional
        The GPU, by default the current one.

    Raises
    ------
    DeviceMissing
        The GPU is not there.

    Examples
    --------
    >>> if st.cuda.is_available():
    ...     theirs = st.cuda.Stream()  # as another library's
    ...     stream = st.cuda.ExternalStream(theirs.cuda_stream)
    ...     assert stream.cuda_stream == theirs.cuda_stream
    """

    __slots__ = ()

    def __init__(self, data_ptr: int, device: Any = None) -> None:
        cupy = cupy_for("ExternalStream")
        index = current_or("ExternalStream", device)
        self.device = Device("cuda", index)
        with cupy.cuda.Device(index):
            self.stream = cupy.cuda.Stream.from_external(ExternalPointer(int(data_ptr)))


def get_stream_from_external(data_ptr: int, device: Any = None) -> Stream:
    """A stream that another library has made: `ExternalStream`.

    Parameters
    ----------
    data_ptr : int
        The address of the `cudaStream_t`.
    device : device, int or str, optional
        The GPU, by default the current one.

    Returns
    -------
    Stream
        The other library keeps it alive.

    Raises
    ------
    DeviceMissing
        The GPU is not there.

    Examples
    --------
    >>> if st.cuda.is_available():
    ...     theirs = st.cuda.Stream()  # as another library's
    ...     stream = st.cuda.get_stream_from_external(theirs.cuda_stream)
    ...     stream.synchronize()
    """
    cupy_for("get_stream_from_external")
    return ExternalStream(data_ptr, device)


class Event:
    """A marker in a stream, for waiting and for timing.

    Parameters
    ----------
    enable_timing : bool, optional
        Whether `elapsed_time` is possible.
    blocking : bool, optional
        `synchronize` sleeps instead of polling.
    interprocess : bool, optional
        Another process can open its `ipc_handle`; not with `enable_timing`.
    external : bool, optional
        Accepted; has no effect.

    Raises
    ------
    DeviceMissing
        There is no GPU; for times on the CPU use `time.perf_counter`.
    ValueError
        `interprocess` with `enable_timing`.

    Examples
    --------
    >>> if st.cuda.is_available():
    ...     begin, end = st.cuda.Event(enable_timing=True), st.cuda.Event(enable_timing=True)
    ...     begin.record()
    ...     y = st.ones(3, device="cuda") * 2
    ...     end.record()
    ...     end.synchronize()
    ...     milliseconds = begin.elapsed_time(end)
    """

    __slots__ = ("__weakref__", "cuda_event", "device", "enable_timing", "flags", "recorded")

    def __init__(
        self,
        enable_timing: bool = False,
        blocking: bool = False,
        interprocess: bool = False,
        external: bool = False,
    ) -> None:
        self.cuda_event = 0
        runtime = cupy_for("Event").cuda.runtime
        if interprocess and enable_timing:
            raise ValueError("cuda.Event: an event with interprocess=True has no times")
        self.flags = (
            runtime.eventBlockingSync * bool(blocking)
            | runtime.eventDisableTiming * (not enable_timing)
            | runtime.eventInterprocess * bool(interprocess)
        )
        self.enable_timing = bool(enable_timing)
        self.device: Device | None = None
        self.recorded = False

    @classmethod
    def from_ipc_handle(cls, device: Any, handle: bytes) -> Event:
        """An event of another process: its `ipc_handle`.

        Raises:
            DeviceMissing: the GPU is not there.
        """
        index = current_or("Event.from_ipc_handle", device)
        cuda = cupy_for("Event").cuda
        event = cls(interprocess=True)
        with cuda.Device(index):
            event.cuda_event = cuda.runtime.ipcOpenEventHandle(handle)
        event.device, event.recorded = Device("cuda", index), True
        return event

    def create(self, device: Device) -> Any:
        """Creates it on a device at its first use; returns CuPy's runtime."""
        cuda = cupy_for("Event").cuda
        if not self.cuda_event:
            with cuda.Device(device.index):
                self.cuda_event = cuda.runtime.eventCreateWithFlags(self.flags)
            self.device = device
        elif self.device != device:
            raise RuntimeError(
                f"cuda.Event: it is of {self.device} and cannot be recorded on {device}"
            )
        return cuda.runtime

    def record(self, stream: Stream | None = None) -> None:
        """Records the work queued so far on a stream, by default the current one.

        Raises:
            RuntimeError: the stream is on another device than that of the first `record`.
        """
        target = current_stream() if stream is None else stream
        runtime = self.create(target.device)
        cupy = cupy_for("Event")
        with cupy.cuda.Device(target.device_index):
            runtime.eventRecord(self.cuda_event, target.cuda_stream)
        self.recorded = True

    def wait(self, stream: Stream | None = None) -> None:
        """Later work on a stream, by default the current one, waits for it; the call does not."""
        target = current_stream() if stream is None else stream
        if self.recorded:
            cuda = cupy_for("Event").cuda
            with cuda.Device(target.device_index):
                cuda.runtime.streamWaitEvent(target.cuda_stream, self.cuda_event)

    def query(self) -> bool:
        """Whether the recorded work is done; True if none was recorded."""
        runtime = cupy_for("Event").cuda.runtime
        return not self.recorded or bool(runtime.eventQuery(self.cuda_event) == 0)

    def synchronize(self) -> None:
        """Waits for the recorded work.

        Raises:
            PeerLostError: as of `st.cuda.synchronize`.
        """
        if self.recorded:
            cupy_for("Event").cuda.runtime.eventSynchronize(self.cuda_event)
            if watch.waits:
                watch.check_waits()

    def elapsed_time(self, end_event: Event) -> float:
        """Milliseconds between this event and a later one.

        Raises:
            ValueError: one has no `enable_timing`, or was not recorded.
            RuntimeError: one is not done.
        """
        for event in (self, end_event):
            if not event.enable_timing:
                raise ValueError("cuda.Event.elapsed_time: both events need enable_timing=True")
            if not event.recorded:
                raise ValueError("cuda.Event.elapsed_time: both events must be recorded first")
        runtime = cupy_for("Event").cuda.runtime
        return float(runtime.eventElapsedTime(self.cuda_event, end_event.cuda_event))

    def ipc_handle(self) -> bytes:
        """What another process opens by `from_ipc_handle`.

        Raises:
            ValueError: the event was made without `interprocess=True`.
        """
        cuda = cupy_for("Event").cuda
        if not self.flags & cuda.runtime.eventInterprocess:
            raise ValueError("cuda.Event.ipc_handle: the event needs interprocess=True")
        if not self.cuda_event:
            self.create(Device("cuda", current_or("Event", None)))
        return bytes(cuda.runtime.ipcGetEventHandle(self.cuda_event))

    def __del__(self) -> None:
        # A forked child has no context, and a process that ends destroys its events.
        if getattr(self, "cuda_event", 0) and not (
            cupy_runtime.state.forked or sys.is_finalizing()
        ):
            cupy_for("Event").cuda.runtime.eventDestroy(self.cuda_event)

    def __repr__(self) -> str:
        return (
            f"<shmtensor.cuda.Event {self.cuda_event:#x}>"
            if self.cuda_event
            else ("<shmtensor.cuda.Event uninitialized>")
        )


class StreamContext:
    """A context manager that sets the current stream, and the GPU in use to the stream's; None
    changes nothing.

    Parameters
    ----------
    stream : Stream or None
        The stream within.

    Examples
    --------
    >>> with st.cuda.StreamContext(None):
    ...     x = st.ones(2)
    >>> if st.cuda.is_available():
    ...     side = st.cuda.Stream()
    ...     with st.cuda.StreamContext(side):
    ...         assert st.cuda.current_stream().cuda_stream == side.cuda_stream
    """

    def __init__(self, stream: Stream | None) -> None:
        self.stream = stream
        self.former: tuple[int, Any] | None = None

    def __enter__(self) -> None:
        """Sets the stream."""
        if self.stream is None:
            return
        cuda = cupy_for("StreamContext").cuda
        outer = int(cuda.runtime.getDevice())
        self.former = outer, cuda.get_current_stream(self.stream.device_index)
        set_stream(self.stream)

    def __exit__(self, *error: object) -> None:
        """Restores the stream and the GPU."""
        if self.stream is None or self.former is None:
            return
        cuda = cupy_for("StreamContext").cuda
        outer, stream = self.former
        with cuda.Device(self.stream.device_index):
            stream.use()
        cuda.Device(outer).use()


def stream(stream: Stream | None) -> StreamContext:
    """A context manager that sets the current stream; None changes nothing.

    Parameters
    ----------
    stream : Stream or None
        The stream within.

    Returns
    -------
    StreamContext
        It sets the GPU in use, too.

    Examples
    --------
    >>> if st.cuda.is_available():
    ...     with st.cuda.stream(st.cuda.Stream()):
    ...         y = st.ones(3, device="cuda") * 2
    ...     st.cuda.synchronize()
    """
    return StreamContext(stream)


def set_stream(stream: Stream | None) -> None:
    """Sets the current stream of a GPU, and the GPU in use, of this thread.

    Parameters
    ----------
    stream : Stream or None
        None changes nothing.

    Examples
    --------
    >>> st.cuda.set_stream(None)
    >>> if st.cuda.is_available():
    ...     st.cuda.set_stream(st.cuda.default_stream())
    """
    if stream is not None:
        cupy_for("set_stream").cuda.Device(stream.device_index).use()
        stream.stream.use()
        watch.has_streams = True


def current_stream(device: Any = None) -> Stream:
    """The stream in use on a GPU in this thread.

    Parameters
    ----------
    device : device, int or str, optional
        The GPU, by default the current one.

    Returns
    -------
    Stream
        Work goes there until another is set.

    Raises
    ------
    DeviceMissing
        The GPU is not there.

    Examples
    --------
    >>> if st.cuda.is_available():
    ...     st.cuda.current_stream().synchronize()
    """
    index = current_or("current_stream", device)
    stream = cupy_for("current_stream").cuda.get_current_stream(index)
    return stream_of(stream, index)


def default_stream(device: Any = None) -> Stream:
    """A GPU's default stream, CUDA's legacy one.

    Parameters
    ----------
    device : device, int or str, optional
        The GPU, by default the current one.

    Returns
    -------
    Stream
        Its `cuda_stream` is 0.

    Raises
    ------
    DeviceMissing
        The GPU is not there.

    Examples
    --------
    >>> if st.cuda.is_available():
    ...     assert st.cuda.default_stream().cuda_stream == 0
    """
    index = current_or("default_stream", device)
    null = cupy_for("default_stream").cuda.Stream.null
    return stream_of(null, index)
