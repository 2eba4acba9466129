"""Streams and events: what has used a block, and when that work has ended.

A stream that allocated or used a block is kept alive here: CUDA gives the number of a destroyed
stream to a new one, which must not be taken for the old one.
"""

from __future__ import annotations

import sys
import threading
from collections import defaultdict
from types import TracebackType
from typing import TYPE_CHECKING, Any

import cupy

from ... import native
from ...cuda_arrays import watch

if TYPE_CHECKING:
    from .blocks import Chunk

__all__ = [
    "StreamRecord",
    "current",
    "forget",
    "of",
    "on_device",
    "passed",
    "record",
    "records",
    "release",
    "wait",
]

runtime = cupy.cuda.runtime
PER_THREAD = 2  # cudaStreamPerThread: the same number for a stream of each thread
NOT_READY = 600  # cudaErrorNotReady


MANY = 256  # streams of a device; beyond it those that only this module knows are let go


class StreamRecord(native.DeviceStream):
    """A stream of a device, and its recently freed blocks."""

    __slots__ = ("device", "ptr", "thread")
    bins: dict[int, list[Chunk]]  # by size

    def __init__(self, device: int, stream: Any) -> None:
        self.device = device
        self.stream = stream  # None: let go, all its work has ended
        self.ptr: int = stream.ptr
        self.bins = {}
        self.thread = threading.get_ident() if self.ptr == PER_THREAD else 0

    def is_idle(self) -> bool:
        """Whether all work of the stream has ended."""
        if self.stream is None:
            return True
        if self.thread and self.thread != threading.get_ident():
            return False
        if self.ptr > PER_THREAD:
            return bool(runtime.streamQuery(self.ptr) == 0)
        with on_device(self.device):  # the stream of that number is the current device's
            return bool(runtime.streamQuery(self.ptr) == 0)


# By device and number. The streams of threads have numbers of their own: thread << 8 | PER_THREAD.
records: defaultdict[int, dict[int, StreamRecord]] = defaultdict(dict)
# Events without timing by device, recorded by nobody any more.
spare: defaultdict[int, list[int]] = defaultdict(list)


class Devices:
    """What this process sees.

    Attributes:
        are_several: whether another device than the current one may be meant.
    """

    are_several = True


class on_device:
    """The device is current inside the `with`."""

    __slots__ = ("before", "device")

    def __init__(self, device: int) -> None:
        self.device = device

    def __enter__(self) -> None:
        self.before = runtime.getDevice() if Devices.are_several else self.device
        if self.before != self.device:
            runtime.setDevice(self.device)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self.before != self.device:
            runtime.setDevice(self.before)


def of(device: int, stream: Any) -> StreamRecord:
    """The record of a CuPy stream."""
    known = records[device]
    key: int = stream.ptr
    if key == PER_THREAD:
        key |= threading.get_ident() << 8
    found = known.get(key)
    if found is None:
        found = known.setdefault(key, StreamRecord(device, stream))
        watch.has_streams = watch.has_streams or bool(key)
    return found


def let_go(known: dict[int, StreamRecord]) -> None:
    """Forgets streams that nobody else refers to, after their work. Their bins are empty, and the
    allocator's lock is held.
    """
    for key, found in list(known.items()):
        if found.thread:  # another thread's stream, which this one cannot wait for
            continue
        if sys.getrefcount(found.stream) == 2 and key:  # this record's, and the call's
            found.stream.synchronize()
            found.stream = None
            del known[key]


def current(device: int) -> StreamRecord:
    """The record of this thread's current stream of a device."""
    return of(device, cupy.cuda.get_current_stream(device))


def record(stream: StreamRecord) -> int:
    """An event recorded on the stream now; 0: its work has ended already."""
    if stream.thread and stream.thread != threading.get_ident():
        with on_device(stream.device):  # no other thread can name that stream
            runtime.deviceSynchronize()
        return 0
    if stream.is_idle():
        return 0
    with on_device(stream.device):
        events = spare[stream.device]
        event: int = (
            events.pop() if events else runtime.eventCreateWithFlags(runtime.eventDisableTiming)
        )
        runtime.eventRecord(event, stream.ptr)
    return event


def passed(event: int) -> bool:
    """Whether the work ahead of an event has ended; an error of the device ends all work, too."""
    return bool(runtime.eventQuery(event) != NOT_READY)


def release(device: int, event: int) -> None:
    """Keeps an event for its next use."""
    spare[device].append(event)


def wait(waiter: StreamRecord, other: StreamRecord) -> None:
    """Later work of `waiter` begins when what `other` has to do now has ended."""
    event = record(other)
    if event:
        with on_device(waiter.device):
            runtime.streamWaitEvent(waiter.ptr, event)
        release(other.device, event)  # a later record does not change what the waiter waits for


def forget() -> None:
    """Destroys all events and lets the streams go. There is no work left."""
    records.clear()
    for events in spare.values():
        for event in events:
            runtime.eventDestroy(event)
    spare.clear()
