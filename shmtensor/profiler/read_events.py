"""The events of a profile, read from its file (native/profiler/events.h has its layout)."""

from __future__ import annotations

import mmap
import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .. import native
from .cuda_times import Interval
from .details import Note, Notes
from .events import FunctionEvent

EVENT = np.dtype(
    [
        ("start", "<u8"),
        ("duration", "<u8"),
        ("bytes", "<i8"),
        ("in_use", "<i8"),
        ("name", "<u4"),
        ("kind", "<u2"),
        ("reserved", "<u2"),
    ]
)
CHUNK_BYTES, CHUNKS, HEAD = 64 << 10, 4096, 128  # of a chunk, and of its header
EVENTS_IN_CHUNK = (CHUNK_BYTES - HEAD) // EVENT.itemsize
NEXT_CHUNK, DROPPED = 64, 128  # offsets in the file
EVENTS, NAMES = 1, 2  # kinds of chunks

OPS = ("op", "backward")  # kinds whose `bytes` are what they allocated less what they freed
# Events of these kinds count as theirs what happens inside them, such as an optimizer its ops.
OWNERS = ("backward", "optimizer", "loader wait", "collective", "load")


@dataclass(frozen=True)
class Process:
    """A process of a run.

    Attributes:
        number: in the profile's file.
        role: "loader worker 0", "rank 1"; of the process that profiles "main". Processes of the
            same role, such as workers of two ranks' loaders, have their pid in it.
    """

    number: int
    pid: int
    role: str


@dataclass
class ThreadEvents:
    """The events of a thread, by start; an outer event before the inner ones.

    Attributes:
        self_ns: the duration of each event without that of those inside it.
        self_bytes: of ops: what each allocated less what it freed, without the ops inside it.
        owners: for each event the number of the outermost event of `OWNERS` around it, or its own.
        parents: for each event the number of the one around it, or -1.
        notes: what this process noted of each event, or None.
    """

    process: Process
    tid: int
    events: NDArray[np.void]
    noted: Notes = field(default_factory=dict)
    self_ns: NDArray[np.int64] = field(init=False)
    self_bytes: list[int] = field(init=False)
    owners: list[int] = field(init=False)
    parents: list[int] = field(init=False)
    notes: list[Note | None] = field(init=False)

    def __post_init__(self) -> None:
        events = self.events
        # Of two with the same times, the outer one was written last.
        order = np.lexsort(
            (-np.arange(len(events)), -events["duration"].astype("i8"), events["start"])
        )
        self.events = events = events[order]
        kinds = [native.PROFILE_KINDS[kind] in OWNERS for kind in events["kind"]]
        ops = [native.PROFILE_KINDS[kind] in OPS for kind in events["kind"]]
        durations = events["duration"].tolist()
        own = list(durations)
        allocated = [n if op else 0 for n, op in zip(events["bytes"].tolist(), ops, strict=True)]
        self.self_bytes = own_bytes = list(allocated)
        self.owners = owners = list(range(len(events)))
        self.parents = parents = [-1] * len(events)
        stack: list[tuple[int, int]] = []  # number and end of the events that are open
        for i, start in enumerate(events["start"].tolist()):
            while stack and stack[-1][1] <= start:
                stack.pop()
            if stack:
                parents[i] = outer = stack[-1][0]
                own[outer] -= durations[i]
                if ops[outer]:
                    own_bytes[outer] -= allocated[i]
                if kinds[owners[outer]]:
                    owners[i] = owners[outer]
            stack.append((i, start + durations[i]))
        self.self_ns = np.asarray(own, np.int64)
        noted, tid = self.noted, self.tid
        starts = events["start"].tolist() if noted else ()
        self.notes = [noted.get((tid, start)) for start in starts] or [None] * len(events)

    def device_figures(self) -> list[tuple[int, int, int, int]]:
        """Of each event: its time on GPUs and that without the events inside it, in ns, and the
        same of the bytes that it allocated there. One without an interval of its own, such as a
        range, has what the events inside it have.
        """
        rows = [(0, 0, 0, 0)] * len(self.notes)
        inner: dict[int, list[int]] = {}  # ns, ns on the same stream, bytes
        intervals = [None if note is None else note.interval for note in self.notes]
        for i in reversed(range(len(rows))):
            ns, ns_on_stream, nbytes = inner.pop(i, (0, 0, 0))
            interval, outer = intervals[i], self.parents[i]
            if interval is None:
                rows[i] = ns, 0, 0, 0
            else:
                rows[i] = (
                    interval.duration, max(interval.duration - ns_on_stream, 0),
                    interval.nbytes, interval.nbytes - nbytes,
                )  # fmt: skip
            if outer >= 0 and rows[i][0]:
                inner.setdefault(outer, [0, 0, 0])[0] += rows[i][0]
            # What an op has of its own lacks the ops inside it, also those in a range inside it.
            while outer >= 0 and intervals[outer] is None:
                outer = self.parents[outer]
            around = intervals[outer] if outer >= 0 else None
            if interval is not None and around is not None:
                sums = inner.setdefault(outer, [0, 0, 0])
                sums[1] += interval.duration if is_same_stream(interval, around) else 0
                sums[2] += interval.nbytes
        return rows


def is_same_stream(a: Interval, b: Interval) -> bool:
    return (a.device, a.stream) == (b.device, b.stream)


@dataclass
class Trace:
    """What all processes recorded between two times.

    Attributes:
        start, end: ns of CLOCK_MONOTONIC.
        dropped: how many events had no room.
        counts_memory: whether `bytes` of ops and `in_use` were measured.
        pid, tid: of the process and thread that profiled.
        remarks: sentences on what is missing.
    """

    start: int
    end: int
    dropped: int
    counts_memory: bool
    pid: int
    tid: int
    names: dict[int, str]
    threads: list[ThreadEvents]
    remarks: list[str] = field(default_factory=list)

    @property
    def processes(self) -> list[Process]:
        """In the order in which they came."""
        by_number = {thread.process.number: thread.process for thread in self.threads}
        return [by_number[number] for number in sorted(by_number)]

    @cached_property
    def function_events(self) -> list[FunctionEvent]:
        """The events of all processes, by start."""
        found = list(self._function_events())
        found.sort(key=lambda event: event.start)
        return found

    def _function_events(self) -> Iterator[FunctionEvent]:
        kinds = native.PROFILE_KINDS
        for thread in self.threads:
            process = thread.process
            events, self_ns = thread.events.tolist(), thread.self_ns.tolist()
            figures = thread.device_figures()
            rows = zip(events, self_ns, thread.self_bytes, thread.notes, figures, strict=True)
            for (start, duration, nbytes, _, name, kind, _), own, own_bytes, note, on_gpu in rows:
                yield FunctionEvent(
                    self.names[name],
                    thread.tid,
                    start=start / 1e3,
                    cpu_time_total=duration / 1e3,
                    self_cpu_time_total=own / 1e3,
                    kind=kinds[kind],
                    pid=process.pid,
                    process=process.role,
                    nbytes=nbytes,
                    self_cpu_memory_usage=own_bytes,
                    device_time_total=on_gpu[0] / 1e3,
                    self_device_time_total=on_gpu[1] / 1e3,
                    device_memory_usage=on_gpu[2],
                    self_device_memory_usage=on_gpu[3],
                    input_shapes=[] if note is None else note.shapes,
                    stack=[] if note is None else note.lines,
                )


class Head(NamedTuple):
    """Of a chunk: where it begins, how much is used, and by whom."""

    first: int
    used: int
    kind: int
    process: int
    pid: int
    thread: int


def read_heads(file: mmap.mmap) -> list[Head]:
    """The headers of all chunks that were taken; a fence is between this and what comes next."""
    (taken,) = struct.unpack_from("<Q", file, NEXT_CHUNK)
    ends = range(CHUNK_BYTES, min(taken, CHUNKS) * CHUNK_BYTES, CHUNK_BYTES)
    heads = [Head(first, *struct.unpack_from("<QIIII", file, first)) for first in ends]
    native.profile_record(False)
    return heads


def read_names(file: mmap.mmap, first: int, used: int) -> Iterator[tuple[int, str]]:
    """The names of a chunk, with their ids."""
    at, end = first + HEAD, first + HEAD + used
    while at < end:
        (length,) = struct.unpack_from("<H", file, at)
        yield at, file[at + 2 : at + 2 + length].decode(errors="replace")
        at += 2 + length


def end_of_event(file: mmap.mmap, first: int, number: int) -> int:
    """When an event of the chunk that begins at `first` ended."""
    return sum(struct.unpack_from("<QQ", file, first + HEAD + number * EVENT.itemsize))


def name_apart(processes: dict[int, Process]) -> None:
    """Adds the pid to roles that several processes have."""
    pids: dict[str, set[int]] = {}
    for process in processes.values():
        pids.setdefault(process.role, set()).add(process.pid)
    for number, process in processes.items():
        if len(pids[process.role]) > 1:
            processes[number] = replace(process, role=f"{process.role} (pid {process.pid})")


def read_trace(
    descriptor: int, start: int, end: int, tid: int, counts_memory: bool, noted: Notes
) -> Trace:
    """The events of a profile's file that began and ended between two times. Full chunks are free
    for new events after it: Note [Reused chunks] in native/profiler/events.h.

    Copies: one.
    """
    names: dict[int, str] = {}
    chunks: dict[tuple[int, int], list[NDArray[np.void]]] = {}
    processes: dict[int, Process] = {}
    with mmap.mmap(descriptor, CHUNKS * CHUNK_BYTES, prot=mmap.PROT_READ) as file:
        (dropped,) = struct.unpack_from("<Q", file, DROPPED)
        # Events first: their names were written before them.
        heads = [head for head in read_heads(file) if head.kind == EVENTS]
        name_heads = [head for head in read_heads(file) if head.kind == NAMES]
        for head in name_heads:
            names.update(read_names(file, head.first, head.used))
        for first, used, _, number, pid, thread in heads:
            if used and end_of_event(file, first, used - 1) < start:
                continue  # of a former cycle: events are written when they end
            text = file[first + 64 : first + HEAD].split(b"\0")[0].decode(errors="replace")
            role = "main" if pid == os.getpid() else text or f"process {pid}"
            processes[number] = Process(number, pid, role)
            raw = file[first + HEAD : first + HEAD + used * EVENT.itemsize]
            events = np.frombuffer(raw, EVENT)
            inside = events["start"] >= start
            inside &= events["start"] + events["duration"] <= end
            chunks.setdefault((number, thread), []).append(events[inside])
    for head in heads:
        if head.used == EVENTS_IN_CHUNK:
            native.profile_free(head.first // CHUNK_BYTES)
    name_apart(processes)
    threads = [
        ThreadEvents(
            processes[number],
            thread,
            np.concatenate(parts),
            noted if processes[number].pid == os.getpid() else {},
        )
        for (number, thread), parts in sorted(chunks.items())
    ]
    threads = [thread for thread in threads if len(thread.events)]
    return Trace(start, end, dropped, counts_memory, os.getpid(), tid, names, threads)
