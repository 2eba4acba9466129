"""The error for a worker that has died: which one, how, at which sample, and likely causes."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from typing import Any

from shmtensor.errors import PeerLostError, ShmTensorError

from .fetch import shorten
from .progress import PEAK, POSITION, TASK
from .statistics import shared_bytes
from .worker_pool import WorkerPool


def describe_loss(
    workers: WorkerPool,
    worker: int,
    in_flight: dict[int, tuple[Any, Any]],
    lost_tasks: list[int],
    consequence: str = "",
) -> ShmTensorError:
    """The error for a dead worker and its `lost_tasks`; PeerLostError, unless it could not even
    begin."""
    child, row = workers.children.all[worker], workers.rows[worker]
    report, pid, code = child.report, child.pid, child.exitcode or 0
    if child.is_unguarded:
        return workers.children.error("DataLoader", child)
    number, position = int(row[TASK]) - 1, int(row[POSITION])
    if number in in_flight:
        work = f"it was at {where_at(in_flight[number][1], position)}"
    elif lost_tasks:
        work = f"it was about to work on indices {shorten(in_flight[lost_tasks[0]][1])}"
    else:
        work = "it had nothing to do"
    if len(lost_tasks) > 1:
        work += f", {len(lost_tasks) - 1} more batches are lost with it"
    shared = shared_bytes() >> 20
    resident = int(row[PEAK]) >> 10
    size = f", its largest resident size was {resident} MiB" if resident else ""
    how = how_it_ended(code) if child.raised is None else f"raised {child.raised.line()}"
    text = (
        f"DataLoader: worker {worker} (pid {pid}) {how}: {work}; shared memory in use: "
        f"{shared} MiB{size}; {likely_causes(code)}"
    )
    if report is not None:
        text += f"\n\n{report.traceback.rstrip()}"
    if consequence:
        text += f"\n{consequence}\nDataLoader: worker {worker} (pid {pid}) {how}"
    return PeerLostError(text, f"loader worker {worker}", pid, code)


def where_at(indices: Any, position: int | None) -> str:
    """`index 6 (sample 2 of indices [4, 5, 6, 7])`; of a stream, how far into its batch."""
    if indices is None or not isinstance(indices, Sequence) or isinstance(indices, str):
        return "its stream" if indices is None else f"index {indices!r}"
    if indices and indices[0] is None:
        return f"sample {position or 0} of a batch of its stream"
    if position is None or position >= len(indices):
        return f"indices {shorten(indices)}"
    return f"index {indices[position]!r} (sample {position} of indices {shorten(indices)})"


def how_it_ended(code: int) -> str:
    if code < 0:
        return f"was killed by {signal.Signals(-code).name} ({code})"
    return f"ended with exit code {code}"


def likely_causes(code: int) -> str:
    """The usual causes of such an exit code, and remedies."""
    if -code == signal.SIGKILL:
        return (
            "likely causes: the kernel kills when memory runs out (fewer workers, smaller batches "
            "or a lower prefetch_factor need less; the kernel log says so), or somebody did"
        )
    if -code in (signal.SIGSEGV, signal.SIGABRT, signal.SIGILL, signal.SIGFPE):
        return (
            "likely causes: a crash in native code that the data set calls, or a library whose "
            "threads do not survive a fork (multiprocessing_context='forkserver' helps then)"
        )
    if -code == signal.SIGBUS:
        return "likely causes: a mapped file that has become shorter, or memory that ran out"
    if code < 0:
        return "likely causes: somebody sent it this signal"
    return "likely causes: something in the data set or collate_fn ended the process"
