"""Observes new nodes, for saved-tensor hooks and the forward lines of anomaly mode.

While a context needs it, `native.set_observer` makes each new node call `observe`; otherwise nodes
cost nothing more (Note [Observed nodes] in native/dispatch/autograd_node.h).
"""

from __future__ import annotations

import os
import threading
import traceback
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, NamedTuple

from ... import native
from ..grad_mode import recording
from .accumulate_grad import hooks_of
from .heap_gate import call_with_gate_shut

Hook = Callable[[Any], Any]


class HookPair(NamedTuple):
    """A pack hook and its unpack hook; with `error_message`, hooks are disabled."""

    pack: Hook
    unpack: Hook
    error_message: str | None = None


hook_pairs: ContextVar[tuple[HookPair, ...]] = ContextVar(
    "shmtensor_saved_tensors_hooks", default=()
)


class Switch:
    """Anomaly mode: one value for all threads."""

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


class ObserverCount:
    """How many contexts observe nodes; the first sets the observer and the last removes it."""

    def __init__(self) -> None:
        self.count = 0
        self.lock = threading.Lock()
        os.register_at_fork(after_in_child=self.lock._at_fork_reinit)  # type: ignore[attr-defined]

    def add(self, step: int) -> None:
        with self.lock:
            self.count += step
            native.set_observer(observe if self.count else None)


class HookResult:
    """The result of a pack hook for a saved array, with the hook that unpacks it."""

    __slots__ = ("unpack", "value")

    def __init__(self, value: Any, unpack: Hook) -> None:
        self.value, self.unpack = value, unpack


PACKAGE = __file__.removesuffix("/autograd/engine/node_hooks.py")
INSIDE = tuple(f"{PACKAGE}/{part}/" for part in ("autograd", "ops"))
inducing: ContextVar[Any] = ContextVar("shmtensor_inducing_node", default=None)


def forward_traceback() -> str:
    """The traceback of an op's caller."""
    frames = traceback.extract_stack()
    while frames and frames[-1].filename.startswith(("<shmtensor", *INSIDE)):
        frames.pop()
    return "".join(traceback.format_list(frames))


def observe(node: Any) -> None:
    """Packs the saved arrays of a new node by the innermost pack hook. In anomaly mode, notes the
    traceback and, in a backward, the node whose gradient is computed.
    """
    if tracing.get():
        notes = hooks_of(node).metadata
        notes["forward"] = forward_traceback()
        if (induced := inducing.get()) is not None:
            notes["induced"] = induced
    stack = hook_pairs.get()
    if stack and stack[-1].error_message is None:
        pair = stack[-1]
        node.pack(lambda saved: pack_all(saved, pair))


def pack_all(saved: tuple[Any, ...], pair: HookPair) -> tuple[Any, ...]:
    if not any(native.is_array(value) for value in saved):
        return saved
    return tuple(pack(v, pair) if native.is_array(v) else v for v in saved)


def pack(array: Any, pair: HookPair) -> HookResult:
    tensor = native.wrap(array)
    tensor.version = native.Version()
    result = call_without_recording(pair.pack, tensor)
    if tensor.version.count:
        raise RuntimeError(
            "saved_tensors_hooks: A saved tensor pack hook is modifying its input in place: shape "
            f"{array.shape}, write to a clone()"
        )
    return HookResult(result, pair.unpack)


def unpack_all(saved: tuple[Any, ...]) -> tuple[Any, ...]:
    """The saved values for the pullbacks, with the arrays that the unpack hooks return."""
    return tuple(unpack(v) if v.__class__ is HookResult else v for v in saved)


def unpack(value: HookResult) -> Any:
    tensor = call_without_recording(value.unpack, value.value)
    if not isinstance(tensor, native.TensorBase):
        raise TypeError(
            "saved_tensors_hooks: Output of saved tensor unpack_hook expected to be a Tensor but "
            f"got result of type {type(tensor).__name__}"
        )
    return tensor.array


def call_without_recording(hook: Hook, value: Any) -> Any:
    """Calls user code without recording, and with the heap's gate shut."""
    former = recording.get()
    recording.set(False)
    try:
        return call_with_gate_shut(hook, value)
    finally:
        recording.set(former)


observer_count = ObserverCount()
native.set_unpacker(unpack_all)
