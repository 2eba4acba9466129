"""A profile as a file of trace events, which Perfetto and chrome://tracing show.

The format is Google's "Trace Event Format": complete events ("X") of each thread, counters ("C")
and names of processes ("M"), with times in microseconds.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from .. import native
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


def thread_events(trace: Trace, thread: ThreadEvents) -> Iterator[dict[str, Any]]:
    """The events of a thread, and those of the memory of its process when each op ended."""
    kinds, ids = native.PROFILE_KINDS, {"pid": thread.process.pid, "tid": thread.tid}
    former = None
    for start, duration, nbytes, in_use, name, kind, _ in thread.events.tolist():
        event = {"name": trace.names[name], "cat": kinds[kind], "ph": "X", **ids}
        event["ts"] = (start - trace.start) / 1e3
        event["dur"] = duration / 1e3
        if nbytes:
            event["args"] = {"bytes": nbytes}
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
