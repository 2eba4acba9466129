"""Times of ops on GPUs: a CUDA event before and after each op, on the op's stream.

Nothing waits while a profile records: the events are read after the cycle. Then one more event, a
reference, is recorded on the idle device, and the host takes the time. What lies between an event
and the reference gives the event's time on the host's clock.
"""

from __future__ import annotations

import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any

from .. import cupy_runtime, native
from ..device import Device

MOST = 100_000  # intervals of a cycle: two CUDA events each


class Interval:
    """The work of an op on a stream, between two CUDA events.

    Attributes:
        first, last: the CUDA events; `last` is 0 until the op has ended.
        nbytes: what the op allocated on the device less what it freed.
        in_use: bytes of arrays on the device when the op had been queued; -1: not measured.
        start, end: ns on the host's clock; set by `CudaTimer.read`.
        duration: ns between the two events, more exact than `end - start`.
    """

    __slots__ = (
        "device", "duration", "end", "first", "in_use", "last", "nbytes", "start", "stream",
    )  # fmt: skip

    def __init__(self, device: int, stream: int, first: int) -> None:
        self.device = device
        self.stream = stream
        self.first = first
        self.last = 0
        self.nbytes = 0
        self.in_use = -1
        self.start = self.end = self.duration = 0


def device_of(operands: Iterable[Any], array_class: Any) -> int | None:
    """The number of the GPU of the first tensor among operands that is on one, or of a device
    that is an operand, as of `zeros(3, device="cuda")`; None: there is none.
    """
    for x in operands:
        if x.__class__ is list or x.__class__ is tuple:
            if (number := device_of(x, array_class)) is not None:
                return number
            continue
        if isinstance(x, str) and (x == "cuda" or x.startswith("cuda:")):
            x = Device("cuda", int(x[5:])) if x[5:].isdigit() else Device("cuda")
        if isinstance(x, Device):
            if x.type == "cuda":
                return int(
                    cupy_runtime.initialize().cuda.runtime.getDevice()
                    if x.index is None
                    else x.index
                )
            continue
        array = x.array if isinstance(x, native.TensorBase) else x
        if array.__class__ is array_class:
            return int(array.data.device_id)
    return None


class Cuda:
    """What an interval needs of CuPy and the allocator."""

    def __init__(self) -> None:
        from ..memory.cuda import streams
        from ..memory.cuda.allocator import allocator

        cupy = sys.modules["cupy"]
        self.array_class = cupy.ndarray
        self.current_stream: Callable[[int], Any] = cupy.cuda.get_current_stream
        self.runtime = streams.runtime
        self.on_device = streams.on_device
        self.devices = allocator.devices


class CudaTimer:
    """Records the intervals of a profile, in this process.

    Attributes:
        cuda: None until an op comes after the first use of CUDA.
        captured: how many ops were left out because their stream was being captured in a graph.
        dropped: how many were left out because there were `MOST` already.
    """

    def __init__(self, counts_memory: bool) -> None:
        self.counts_memory = counts_memory
        self.cuda: Cuda | None = None
        self.spare: defaultdict[int, list[int]] = defaultdict(list)  # CUDA events by device
        self.intervals: list[Interval] = []
        self.captured = self.dropped = 0

    def begin(self, operands: tuple[Any, ...]) -> Interval | None:
        """Begins the interval of an op, if it has an operand on a GPU."""
        cuda = self.cuda
        if cuda is None:
            if not cupy_runtime.state.ready:
                return None
            cuda = self.cuda = Cuda()
        device = device_of(operands, cuda.array_class)
        if device is None:
            return None
        stream = cuda.current_stream(device).ptr
        with cuda.on_device(device):
            if is_capturing(cuda.runtime, stream):
                self.captured += 1
                return None
            if len(self.intervals) >= MOST:
                self.dropped += 1
                return None
            interval = Interval(device, stream, self.record(cuda, device, stream))
        if self.counts_memory:
            interval.nbytes = -int(cuda.devices[device].allocated)
        self.intervals.append(interval)
        return interval

    def end(self, interval: Interval) -> None:
        """Ends an interval, unless it was read meanwhile: then its event is used by others."""
        cuda = self.cuda
        if cuda is None or not interval.first:
            return
        device = interval.device
        with cuda.on_device(device):
            interval.last = self.record(cuda, device, interval.stream)
        if self.counts_memory:
            interval.in_use = int(cuda.devices[device].allocated)
            interval.nbytes += interval.in_use

    def record(self, cuda: Cuda, device: int, stream: int) -> int:
        """A CUDA event, recorded on a stream of the current device."""
        try:
            event = self.spare[device].pop()
        except IndexError:  # also if another thread was faster
            event = int(cuda.runtime.eventCreateWithFlags(0))
        cuda.runtime.eventRecord(event, stream)
        return event

    def read(self) -> None:
        """Waits for the GPUs, and sets the times of all intervals. Those of ops that have not ended
        keep a duration of 0.
        """
        cuda = self.cuda
        if cuda is None:
            return
        runtime = cuda.runtime
        intervals, self.intervals = self.intervals, []
        for device in {interval.device for interval in intervals}:
            with cuda.on_device(device):
                runtime.deviceSynchronize()
                before = time.monotonic_ns()
                reference = self.record(cuda, device, 0)
                runtime.eventSynchronize(reference)
                now = (before + time.monotonic_ns()) // 2
                for interval in intervals:
                    if interval.device != device:
                        continue
                    first, last = interval.first, interval.last
                    if last:
                        interval.start = now - elapsed_ns(runtime, first, reference)
                        interval.end = now - elapsed_ns(runtime, last, reference)
                        interval.duration = elapsed_ns(runtime, first, last)
                        self.spare[device].append(last)
                    interval.first = 0
                    self.spare[device].append(first)
                self.spare[device].append(reference)

    def close(self) -> None:
        """Destroys the CUDA events."""
        for events in self.spare.values():
            for event in events:
                if self.cuda is not None:
                    self.cuda.runtime.eventDestroy(event)
        self.spare.clear()

    def remarks(self) -> list[str]:
        """What of the cycle that was read has no times; counts anew."""
        found = []
        if self.captured:
            found.append(f"{self.captured} ops were captured in a CUDA graph: no device times.")
        if self.dropped:
            found.append(f"{self.dropped} ops came after the first {MOST}: no device times.")
        self.captured = self.dropped = 0
        return found


def elapsed_ns(runtime: Any, first: int, last: int) -> int:
    return int(runtime.eventElapsedTime(first, last) * 1e6)


def is_capturing(runtime: Any, stream: int) -> bool:
    """Whether work on a stream of the current device goes into a graph; also of the default stream,
    which must not be used while another stream is captured.
    """
    try:
        return bool(runtime.streamIsCapturing(stream))
    except runtime.CUDARuntimeError:
        return True
