"""Streams and events: what has used a block, and when that work has ended.

A stream that allocated or used a block is kept alive here: CUDA gives the number of a destroyed
stream to a new one, which must not be taken for the old one.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import cupy

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


class StreamRecord:
    """A stream of a device, its free blocks' key, and its interprocess event once it has sent."""

    __slots__ = ("device", "event", "number", "ptr", "stream", "thread")

    def __init__(self, device: int, stream: Any) -> None:
        self.device = device
        self.stream = stream
        self.ptr: int = stream.ptr
        self.thread = threading.get_ident() if self.ptr == PER_THREAD else 0
        self.event = 0  # interprocess
        self.number = -1  # of that event in this process's row

    def is_idle(self) -> bool:
        """Whether all work of the stream has ended."""
        if self.ptr == 0:
            with on_device(self.device):
                return bool(runtime.streamQuery(0) == 0)
        if self.thread and self.thread != threading.get_ident():
            return False
        return bool(runtime.streamQuery(self.ptr) == 0)


records: dict[tuple[int, int, int], StreamRecord] = {}
# Events without timing by device, recorded by nobody any more.
spare: defaultdict[int, list[int]] = defaultdict(list)


@contextmanager
def on_device(device: int) -> Iterator[None]:
    """The device is current inside the `with`."""
    before = runtime.getDevice()
    if before == device:
        yield
        return
    runtime.setDevice(device)
    try:
        yield
    finally:
        runtime.setDevice(before)


def of(device: int, stream: Any) -> StreamRecord:
    """The record of a CuPy stream."""
    ptr = stream.ptr
    key = (device, ptr, threading.get_ident() if ptr == PER_THREAD else 0)
    found = records.get(key)
    if found is None:
        found = records[key] = StreamRecord(device, stream)
    return found


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
    """Destroys all events and lets the streams go."""
    for stream in records.values():
        if stream.event:
            runtime.eventDestroy(stream.event)
    records.clear()
    for events in spare.values():
        for event in events:
            runtime.eventDestroy(event)
    spare.clear()
