"""A profile as a file of trace events, which Perfetto and chrome://tracing show.

The format is Google's "Trace Event Format": complete events ("X") of each thread, counters ("C")
and names of processes ("M"), with times in microseconds. A GPU is a process of its own there, and a
stream is a thread of it.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from .. import native
from .cuda_times import Interval
from .read_events import ThreadEvents, Trace


def trace_events(trace: Trace) -> Iterator[dict[str, Any]]:
    """The trace events of a profile; times begin with that of the profile."""
    for order, process in enumerate(trace.processes):
        pid = f" (pid {process.pid})"
        name = process.role if process.role == "main" else process.role.removesuffix(pid) + pid
        head = {"ph": "M", "pid": process.pid, "tid": 0, "ts": 0}
        yield {**head, "name": "process_name", "args": {"name": name}}
        yield {**head, "name": "process_sort_index", "args": {"sort_index": order}}
    for thread in trace.threads:
        yield from thread_events(trace, thread)
    yield from device_events(trace)


FIRST_DEVICE = 1 << 22  # no process has this number


def device_events(trace: Trace) -> Iterator[dict[str, Any]]:
    """The intervals on GPUs, on a track for each stream, and each thread that used it; and the
    memory of each GPU when an op had been queued.
    """
    tracks: dict[tuple[int, int, int], list[tuple[Interval, str]]] = {}
    for thread in trace.threads:
        rows = zip(thread.events.tolist(), thread.notes, strict=True)
        for (start, duration, _, _, name, _, _), note in rows:
            interval = None if note is None else note.interval
            if interval is None or not interval.last:
                continue
            key = interval.device, interval.stream, thread.tid
            tracks.setdefault(key, []).append((interval, trace.names[name]))
            if interval.in_use >= 0:
                ts = (start + duration - trace.start) / 1e3
                ids = {"pid": FIRST_DEVICE + interval.device, "tid": 0}
                args = {"bytes": interval.in_use}
                yield {"name": "in use on the GPU", "ph": "C", **ids, "ts": ts, "args": args}
    for device in sorted({device for device, _, _ in tracks}):
        head = {"ph": "M", "pid": FIRST_DEVICE + device, "tid": 0, "ts": 0}
        yield {**head, "name": "process_name", "args": {"name": f"cuda:{device}"}}
        yield {**head, "name": "process_sort_index", "args": {"sort_index": FIRST_DEVICE + device}}
    for number, ((device, stream, tid), intervals) in enumerate(sorted(tracks.items()), 1):
        ids = {"pid": FIRST_DEVICE + device, "tid": number}
        track = f"stream {stream:#x} (thread {tid})"
        yield {**ids, "name": "thread_name", "ph": "M", "ts": 0, "args": {"name": track}}
        for interval, text in sorted(intervals, key=lambda pair: (pair[0].start, -pair[0].end)):
            ts = max(interval.start - trace.start, 0)
            dur = max(interval.end - trace.start - ts, 0)
            event = {"name": text, "cat": "kernel", "ph": "X", **ids, "ts": ts / 1e3}
            yield {**event, "dur": dur / 1e3}


def thread_events(trace: Trace, thread: ThreadEvents) -> Iterator[dict[str, Any]]:
    """The events of a thread, and those of the memory of its process when each op ended."""
    kinds, ids = native.PROFILE_KINDS, {"pid": thread.process.pid, "tid": thread.tid}
    former = None
    rows = zip(thread.events.tolist(), thread.notes, strict=True)
    for (start, duration, nbytes, in_use, name, kind, _), note in rows:
        event = {"name": trace.names[name], "cat": kinds[kind], "ph": "X", **ids}
        event["ts"] = (start - trace.start) / 1e3
        event["dur"] = duration / 1e3
        args: dict[str, Any] = {"bytes": nbytes} if nbytes else {}
        if note is not None and note.shapes:
            args["Input Dims"] = note.shapes
        if note is not None and note.stack:
            args["Call stack"] = ";".join(note.lines)
        if args:
            event["args"] = args
        yield event
        if trace.counts_memory and in_use != former:
            ts = (start + duration - trace.start) / 1e3
            args = {"bytes": max(in_use, 0)}
            yield {"name": "heap in use", "ph": "C", **ids, "ts": ts, "args": args}
            former = in_use


def export(trace: Trace, path: Any, metadata: Mapping[str, Any]) -> None:
    """Writes a profile as JSON, compressed if the name ends with `.gz`."""
    content = {
        "schemaVersion": 1,
        "displayTimeUnit": "ms",
        "baseTimeNanoseconds": trace.start,
        "droppedEvents": trace.dropped,
        **metadata,
        "traceEvents": list(trace_events(trace)),
    }
    path = Path(path)
    if path.suffix == ".gz":
        with gzip.open(path, "wt", encoding="utf-8") as file:
            json.dump(content, file)
    else:
        with path.open("w", encoding="utf-8") as file:
            json.dump(content, file)
