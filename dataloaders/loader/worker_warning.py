"""Warnings that a worker sends with its results: the loading process shows each of them once.

Note [Writes to a data set]: tensors are shared memory, so a worker that writes to a tensor of its
data set changes it for all processes and epochs. (In PyTorch a forked worker writes to its own copy
of the page, and the next epoch begins with the data as they were.) The core counts each in-place
write of a tensor; in a worker it then calls `native.watch_writes`' function if another process made
the memory, or the parent before the fork. So it does not matter where the data set has the tensor:
in an attribute, a list, another data set, a global variable or a closure. Tensors that the worker
made, clones and batches are in its own memory.
"""

from __future__ import annotations

import linecache
import sys
import warnings
from types import FrameType
from typing import Any, NamedTuple

import numpy as np

from shmtensor import native

from .batch_block import BlockAllocator

WRITE = "write"


class WorkerWarning(NamedTuple):
    """A warning of a worker.

    Attributes:
        kind: of several warnings of a kind a loader shows the first.
        text: what it says.
        place: the file and line that it is about; None: the loop over the loader.
    """

    kind: str
    text: str
    place: tuple[str, int] | None = None


def watch_writes(
    worker: int, dataset: Any, allocator: BlockAllocator, found: list[WorkerWarning]
) -> None:
    """Appends a warning at this process's next write to a tensor whose memory is not its own.

    Args:
        worker: the number of this worker.
        dataset: the one whose memory it may be, for the text.
        allocator: what it was lent by the loading process is there to be written.
        found: where the warning goes.
    """

    def note_write(tensor: Any) -> None:
        if allocator.lent is not None and np.may_share_memory(tensor.array, allocator.lent):
            return
        native.watch_writes(None)  # one is enough
        where, place = describe(user_frame(sys._getframe(1)))
        text = (
            f"DataLoader: worker {worker} wrote to a tensor that {type(dataset).__name__} shares "
            f"with all processes: {where}; the loading process, other workers and later epochs see "
            "the new values, write to a clone(), or pass write_warning=False if they are meant to"
        )
        found.append(WorkerWarning(WRITE, text, place))

    native.watch_writes(note_write)


def user_frame(frame: FrameType | None) -> FrameType | None:
    """The innermost frame, from this one outwards, that is not of this library."""
    while frame is not None:
        if str(frame.f_globals.get("__name__", "")).partition(".")[0] != "shmtensor":
            return frame
        frame = frame.f_back
    return None


def describe(frame: FrameType | None) -> tuple[str, tuple[str, int] | None]:
    """Where a frame is, as text and as file and line."""
    if frame is None:
        return "in this library", None
    code, line = frame.f_code, frame.f_lineno
    source = linecache.getline(code.co_filename, line, frame.f_globals).strip()
    where = f"{code.co_filename}, line {line}, in {code.co_name}"
    return f"{where}: {source}" if source else where, (code.co_filename, line)


def show_once(warning: WorkerWarning, shown: set[str]) -> None:
    """Shows a worker's warning, unless one of its kind is among `shown`."""
    if warning.kind in shown:
        return
    shown.add(warning.kind)
    place = warning.place or describe(user_frame(sys._getframe(1)))[1] or (__file__, 1)
    warnings.warn_explicit(warning.text, UserWarning, *place)
