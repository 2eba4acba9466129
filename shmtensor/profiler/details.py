"""What a profile notes of ops beyond their times: shapes, stacks, and intervals on GPUs.

`Details` sees the calls of this process as an observer (autograd/dispatch/observers.py) does. A
note and its event in the file have the same thread, and began at the same time.
"""

from __future__ import annotations

import sys
import threading
from types import CodeType
from typing import Any

from .. import native
from . import profiling
from .cuda_times import CudaTimer, Interval

DEEPEST = 64  # frames of a stack


class Note:
    """Of one event.

    Attributes:
        shapes: of the operands; [] for one that is no tensor.
        stack: code and line of each frame, the innermost first.
        interval: on a GPU.
    """

    __slots__ = ("interval", "shapes", "stack")

    def __init__(self) -> None:
        self.shapes: list[Any] = []
        self.stack: list[tuple[CodeType, int]] = []
        self.interval: Interval | None = None

    @property
    def lines(self) -> list[str]:
        """The stack as text, as PyTorch has it: "train.py(7): step"."""
        return [f"{code.co_filename}({line}): {code.co_name}" for code, line in self.stack]


Notes = dict[tuple[int, int], Note]  # by thread and begin


class ThreadNotes(threading.local):
    """The notes of the calls of a thread that have not ended."""

    def __init__(self) -> None:
        self.tid = threading.get_native_id()
        self.open: list[Note | None] = []


class Details:
    """Notes of the ops of one cycle.

    Args:
        timer: for intervals on GPUs, or None.
    """

    def __init__(self, shapes: bool, stacks: bool, timer: CudaTimer | None) -> None:
        self.shapes = shapes
        self.stacks = stacks
        self.timer = timer
        self.notes: Notes = {}
        self.thread = ThreadNotes()

    def start(self) -> None:
        profiling.details = self
        profiling.add_observer(self)

    def stop(self) -> None:
        profiling.details = None
        profiling.remove_observer(self)

    def enter(self, event: str, operands: tuple[Any, ...]) -> None:
        """An op is called; its event in the file has begun."""
        thread = self.thread
        key = thread.tid, native.profile_latest_begin()
        note = None
        if key[1] and key not in self.notes:
            note = self.notes[key] = Note()
            if self.shapes:
                note.shapes = [shape_of(x) for x in operands if not isinstance(x, native.Node)]
            if self.stacks:
                note.stack = stack_of(sys._getframe(2), sys._getframe(1).f_code)
            if self.timer is not None:
                note.interval = self.timer.begin(operands)
        thread.open.append(note)

    def leave(self, result: Any) -> None:
        """The op has returned, or raised: then its note has no event."""
        note = self.thread.open.pop()
        if note is not None and note.interval is not None and self.timer is not None:
            self.timer.end(note.interval)


def shape_of(x: Any) -> list[Any]:
    """The shape of a tensor, those of the tensors in a list, or []."""
    if x.__class__ is list or x.__class__ is tuple:
        shapes = [shape_of(v) for v in x]
        return shapes if any(shapes) else []
    array = x.array if isinstance(x, native.TensorBase) else x
    shape = getattr(array, "shape", ())
    return list(shape) if isinstance(shape, tuple) else []  # np.float32.shape is a descriptor


def stack_of(frame: Any, left_out: CodeType) -> list[tuple[CodeType, int]]:
    """Code and line of a frame and its callers, without those of the observers' own function."""
    found: list[tuple[CodeType, int]] = []
    while frame is not None and len(found) < DEEPEST:
        if frame.f_code is not left_out:
            found.append((frame.f_code, frame.f_lineno))
        frame = frame.f_back
    return found
