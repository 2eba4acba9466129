"""Autocast in the calls of ops: the thread's state, and casts of operands.

While autocast is on for a device type in some thread, the ops in this device's list
(autocast_lists.py) call `run`, which reads the calling thread's state; otherwise there is no cost
(native/dispatch/modes.h). An op runs
with autocast left out in this thread, as in PyTorch, so that the parts of a composite compute in
the composite's precision.

Note [Weights are cast once] A float32 leaf that requires grad is cast once within the outermost
context. Its casts share one node of the graph, which adds up their gradients in 16 bits, as in
PyTorch. The leaf is cast again if it was written or got other memory, or if history is recorded now
and was not then.
"""

from __future__ import annotations

import functools
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, TypeVar

from ... import dtypes, native
from ..grad_mode import inferring, recording
from .autocast_lists import ALL, BITS, Precisions
from .devices import tensors_in

F = TypeVar("F", bound=Callable[..., Any])

FLOATS = (dtypes.float32, dtypes.float16, dtypes.bfloat16)

ops: Any = None  # the table on Tensors, set by op_function.py

active: list[str] = []  # the device types with autocast on, in all threads
lock = threading.RLock()
os.register_at_fork(after_in_child=lock._at_fork_reinit)  # type: ignore[attr-defined]


class Cast(NamedTuple):
    """A weight's cast, and the state that it is valid for."""

    weight: Any
    array: Any
    version: int
    modes: tuple[bool, bool]
    result: Any


class State(threading.local):
    """The settings of this thread.

    Attributes:
        on: the device types with autocast on.
        dtypes: the lower precision of each device type.
        caching: whether casts of weights are cached.
        casts: the cached casts, by the weight's id.
        nesting: how many contexts are open.
    """

    def __init__(self) -> None:
        self.on: set[str] = set()
        self.dtypes = {"cpu": dtypes.bfloat16, "cuda": dtypes.float16}
        self.caching = True
        self.casts: dict[int, Cast] = {}
        self.nesting = 0


state = State()


def switch(device_type: str, enabled: bool) -> None:
    """Turns autocast on or off in this thread."""
    if enabled == (device_type in state.on):
        return
    with lock:
        if enabled:
            state.on.add(device_type)
            active.append(device_type)
        else:
            state.on.discard(device_type)
            active.remove(device_type)
        native.set_modes(BITS[device_type], device_type in active)


def snapshot() -> tuple[Any, ...]:
    """The current settings, for `restored`."""
    return frozenset(state.on), dict(state.dtypes), state.caching


@contextmanager
def restored(former: tuple[Any, ...]) -> Iterator[None]:
    """In this block, autocast has the settings of a `snapshot`."""
    current = snapshot()
    restore(former)
    nest(1)
    try:
        yield
    finally:
        nest(-1)
        restore(current)


def restore(former: tuple[Any, ...]) -> None:
    on, dtypes_by_device, state.caching = former
    state.dtypes = dict(dtypes_by_device)
    for device_type in state.dtypes:
        switch(device_type, device_type in on)


def nest(step: int) -> int:
    """Adds to the number of open contexts; the end of the outermost clears the casts."""
    state.nesting += step
    if state.nesting <= 0:
        state.casts.clear()
    return state.nesting


# ---------------------------------------------------------------- what ops call


def run(op: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Calls an op with its operands cast to its precision, if autocast is on in this thread."""
    return in_precision(op.precision, op, args, kwargs)


def in_precision(
    precisions: Precisions,
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> Any:
    """Calls a function with its operands cast to its precision; inside it, autocast is off.

    Args:
        precisions: by device type: "lower", "full", "widest"; "alone": the operands are not cast;
            "refused"; "": neither, and autocast stays on inside.
    """
    former_modes = native.leave_out_modes(ALL)
    try:
        on = state.on
        if on and kwargs.get("out") is None:
            first = next(tensors_in((*args, *kwargs.values())), None)
            if first is not None and (device_type := first.device.type) in on:
                kind = precisions[device_type]
                if not kind:  # it is in another device's list
                    native.leave_out_modes(former_modes | ALL & ~BITS[device_type])
                elif kind == "refused":
                    raise RuntimeError(UNSAFE)
                elif kind != "alone" and not former_modes & BITS[device_type]:
                    dtype = state.dtypes[device_type]
                    if kind != "lower":
                        dtype = computing_dtype(
                            kind, list(tensors_in((*args, *kwargs.values()))), dtype
                        )
                    args = tuple([cast(value, dtype) for value in args])
                    kwargs = {name: cast(value, dtype) for name, value in kwargs.items()}
        return function(*args, **kwargs)
    finally:
        native.leave_out_modes(former_modes)


UNSAFE = (
    "torch.nn.functional.binary_cross_entropy and torch.nn.BCELoss are unsafe to autocast.\n"
    "Many models use a sigmoid layer right before the binary cross entropy layer.\n"
    "In this case, combine the two layers using "
    "torch.nn.functional.binary_cross_entropy_with_logits\n"
    "or torch.nn.BCEWithLogitsLoss.  binary_cross_entropy_with_logits and BCEWithLogits are\n"
    "safe to autocast."
)
ALONE = {"cpu": "alone", "cuda": "alone"}


def without_autocast(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Calls a function with autocast off in this thread."""
    return in_precision(ALONE, function, args, kwargs)


def in_precisions(*, cpu: str, cuda: str) -> Callable[[F], F]:
    """Decorates a function outside the table, with what autocast does with it on each device."""
    return lambda function: with_precision(function, {"cpu": cpu, "cuda": cuda})


def with_precision(function: F, precisions: Precisions) -> F:
    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        if not active:
            return function(*args, **kwargs)
        return in_precision(precisions, function, args, kwargs)

    return wrapper  # type: ignore[return-value]


def computing_dtype(kind: str, tensors: list[Any], lower: dtypes.Dtype) -> dtypes.Dtype:
    """The dtype of an op that computes in full precision, or in that of its widest operand. 64-bit
    operands always stay.
    """
    if kind == "full":
        return dtypes.float32
    float_dtypes = {t.array.dtype for t in tensors} & set(FLOATS)
    return lower if float_dtypes <= {lower} else dtypes.float32


def cast(value: Any, dtype: dtypes.Dtype) -> Any:
    """An argument with its tensors of 16 or 32-bit floats cast to that dtype."""
    if isinstance(value, native.TensorBase):
        tensor: Any = value
        tensor_dtype = tensor.array.dtype
        if tensor_dtype is dtype or not (
            tensor_dtype is FLOATS[0] or tensor_dtype is FLOATS[1] or tensor_dtype is FLOATS[2]
        ):
            return tensor
        if tensor_dtype is FLOATS[0] and is_weight(tensor) and state.caching and state.nesting:
            return cast_once(tensor, dtype)
        return ops._to_copy(tensor, dtype)
    if value.__class__ is list or value.__class__ is tuple:
        return value.__class__([cast(v, dtype) for v in value])
    return value


def is_weight(tensor: Any) -> bool:
    return bool(tensor.requires_grad and tensor.is_leaf and tensor.base is None)


def cast_once(weight: Any, dtype: dtypes.Dtype) -> Any:
    """See Note [Weights are cast once]."""
    source = weight, weight.array, weight._version, (recording.get(), inferring.get())
    entry = state.casts.get(id(weight))
    if entry is not None and entry.result.array.dtype is dtype:
        same = entry.array is source[1] and entry.version == source[2] and entry.modes == source[3]
        if same:
            return entry.result
    result = ops._to_copy(weight, dtype)
    state.casts[id(weight)] = Cast(*source, result)
    return result
