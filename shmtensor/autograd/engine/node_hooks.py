"""Watching nodes as they are made: saved-tensor hooks, and the lines that anomaly mode points at.

While any context asks for it, `native.set_observer` has the function below called with each new
node; otherwise nothing is looked at (Note [Observed nodes] in native/dispatch/autograd_node.h).
"""

from __future__ import annotations

import os
import threading
import traceback
from collections.abc import Callable
from contextvars import ContextVar
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ... import native
from ..grad_mode import recording
from .accumulate_grad import hooks_of
from .heap_gate import shut

__all__ = ["Pair", "inducing", "is_tracing", "observe", "pairs", "tracing", "watching"]

Hook = Callable[[Any], Any]


class Pair(NamedTuple):
    """A pack hook and its unpack hook; without them (`refused`), saving is an error."""

    pack: Hook
    unpack: Hook
    refused: str | None = None


pairs: ContextVar[tuple[Pair, ...]] = ContextVar("shmtensor_saved_tensors_hooks", default=())


class Switch:
    """Anomaly mode, which is everybody's, in whatever thread it was turned on."""

    def __init__(self) -> None:
        self.value = False

    def get(self) -> bool:
        return self.value

    def set(self, value: bool) -> None:
        self.value = value


tracing = Switch()


def is_tracing() -> bool:
    """Whether forward lines are recorded now."""
    return tracing.get()


class Watching:
    """How many contexts want nodes observed; the first starts it and the last ends it."""

    def __init__(self) -> None:
        self.count = 0
        self.lock = threading.Lock()
        os.register_at_fork(after_in_child=self.lock._at_fork_reinit)  # type: ignore[attr-defined]

    def add(self, step: int) -> None:
        with self.lock:
            self.count += step
            native.set_observer(observe if self.count else None)


class HookResult:
    """What a pack hook gave for a saved array, with the hook that gives the array back."""

    __slots__ = ("kept", "unpack")

    def __init__(self, kept: Any, unpack: Hook) -> None:
        self.kept, self.unpack = kept, unpack


PACKAGE = Path(__file__).parents[2]
INSIDE = tuple(f"{PACKAGE / part}{os.sep}" for part in ("autograd", "ops"))
inducing: ContextVar[Any] = ContextVar("shmtensor_inducing_node", default=None)


def called_from() -> str:
    """The lines that led to an op, without those that the op itself is made of."""
    frames = traceback.extract_stack()
    while frames and frames[-1].filename.startswith(("<shmtensor", *INSIDE)):
        frames.pop()
    return "".join(traceback.format_list(frames))


def observe(node: Any) -> None:
    """A new node: its saved arrays go through the innermost pack hook; its line is noted, and in a
    backward the node whose gradient it is part of.
    """
    if tracing.get():
        notes = hooks_of(node).metadata
        notes["forward"] = called_from()
        if (induced := inducing.get()) is not None:
            notes["induced"] = induced
    stack = pairs.get()
    if stack:
        pair = stack[-1]
        node.pack(lambda saved: hook_result(saved, pair))


def hook_result(saved: tuple[Any, ...], pair: Pair) -> tuple[Any, ...]:
    if not any(isinstance(value, np.ndarray) for value in saved):
        return saved
    if pair.refused is not None:
        raise RuntimeError(f"saved_tensors_hooks: {pair.refused}")
    return tuple(pack(v, pair) if isinstance(v, np.ndarray) else v for v in saved)


def pack(array: Any, pair: Pair) -> HookResult:
    tensor = native.wrap(array)
    tensor.version = native.Version()
    kept = without_recording(pair.pack, tensor)
    if tensor.version.count:
        raise RuntimeError(
            "saved_tensors_hooks: A saved tensor pack hook is modifying its input in place: shape "
            f"{array.shape}, write to a clone()"
        )
    return HookResult(kept, pair.unpack)


def unpacked(saved: tuple[Any, ...]) -> tuple[Any, ...]:
    """What pullbacks read: the arrays that the unpack hooks give back."""
    return tuple(unpack(v) if v.__class__ is HookResult else v for v in saved)


def unpack(value: HookResult) -> Any:
    tensor = without_recording(value.unpack, value.kept)
    if not isinstance(tensor, native.TensorBase):
        raise TypeError(
            "saved_tensors_hooks: Output of saved tensor unpack_hook expected to be a Tensor but "
            f"got result of type {type(tensor).__name__}"
        )
    return tensor.array


def without_recording(hook: Hook, value: Any) -> Any:
    """User code: nothing is recorded, and the heap is shut."""
    former = recording.get()
    recording.set(False)
    try:
        return shut(hook, value)
    finally:
        recording.set(former)


watching = Watching()
native.set_unpacker(unpacked)
