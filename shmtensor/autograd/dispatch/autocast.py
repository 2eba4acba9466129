"""Autocast as ops meet it: the thread's state, and operands brought to a listed op's precision.

While autocast is on in some thread, the ops that it concerns (column `autocast`) come to `run`,
which looks at the calling thread's state; else nothing is looked at (native/dispatch/modes.h). An
op runs with autocast left out in this thread, as in PyTorch, so that a composite's parts compute in
the composite's precision.

Note [Weights are cast once]
A leaf of float32 that requires grad is cast once within the outermost context: its casts are one
node of the graph, and backward adds up their gradients there, in 16 bits, as in PyTorch. The cast
is made anew if the leaf was written or moved to other memory meanwhile, or if history is recorded
now and was not then.
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
from .plan import AUTOCAST

__all__ = [
    "active",
    "apart",
    "in_full_precision",
    "in_given_precision",
    "kept",
    "nest",
    "reentered",
    "run",
    "state",
    "switch",
]

F = TypeVar("F", bound=Callable[..., Any])

FLOATS = (dtypes.float32, dtypes.float16, dtypes.bfloat16)

ops: Any = None  # the table on Tensors, set by op_function.py

active: list[str] = []  # the kinds of devices with autocast on, of every thread
switching = threading.RLock()
os.register_at_fork(after_in_child=switching._at_fork_reinit)  # type: ignore[attr-defined]


class Cast(NamedTuple):
    """A weight's cast, and what it was made of."""

    weight: Any
    array: Any
    version: int
    modes: tuple[bool, bool]
    made: Any


class State(threading.local):
    """What this thread has set.

    Attributes:
        on: kinds of devices with autocast on.
        dtypes: the lower precision of each kind.
        caching: whether casts of weights are kept.
        casts: those that are, by the weight's id.
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
    """Autocast on or off, in this thread."""
    if enabled == (device_type in state.on):
        return
    with switching:
        if enabled:
            state.on.add(device_type)
            active.append(device_type)
        else:
            state.on.discard(device_type)
            active.remove(device_type)
        native.set_modes(AUTOCAST, bool(active))


def kept() -> tuple[Any, ...]:
    """What `reentered` needs to compute again as now."""
    return frozenset(state.on), dict(state.dtypes), state.caching


@contextmanager
def reentered(former: tuple[Any, ...]) -> Iterator[None]:
    """Autocast as it was when `kept` was called."""
    now = kept()
    put_back(former)
    nest(1)
    try:
        yield
    finally:
        nest(-1)
        put_back(now)


def put_back(former: tuple[Any, ...]) -> None:
    on, lower, state.caching = former
    state.dtypes = dict(lower)
    for device_type in state.dtypes:
        switch(device_type, device_type in on)


def nest(step: int) -> int:
    """One more context is open, or one less; the outermost's end forgets the casts."""
    state.nesting += step
    if state.nesting <= 0:
        state.casts.clear()
    return state.nesting


# ---------------------------------------------------------------- what ops call


def run(called: Any, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
    """An op that autocast concerns, on operands of its precision, if this thread wants that."""
    return in_precision(called.precision, called, args, named)


def in_precision(
    kind: str, function: Callable[..., Any], args: tuple[Any, ...], named: dict[str, Any]
) -> Any:
    """A function on operands of its precision; its parts are not cast.

    Args:
        kind: "lower", "full", "widest", or "alone": the operands stay.
    """
    former = native.leave_out_modes(AUTOCAST)
    try:
        on = state.on
        if on and not former & AUTOCAST and kind != "alone" and named.get("out") is None:
            first = next(flat((*args, *named.values())), None)
            if first is not None and (device_type := first.device.type) in on:
                dtype = state.dtypes[device_type]
                if kind != "lower":
                    dtype = wanted(kind, list(flat((*args, *named.values()))), dtype)
                args = tuple([cast(value, dtype) for value in args])
                named = {name: cast(value, dtype) for name, value in named.items()}
        return function(*args, **named)
    finally:
        native.leave_out_modes(former)


def apart(function: Callable[..., Any], *args: Any, **named: Any) -> Any:
    """The call with autocast off in this thread."""
    return in_precision("alone", function, args, named)


def in_full_precision(function: F) -> F:
    """A function of tensors that computes in float32 inside autocast, though it is in no table."""
    return concerned(function, "full")


def in_given_precision(function: F) -> F:
    """A function of tensors that computes in what it is given, though there are products in it."""
    return concerned(function, "alone")


def concerned(function: F, kind: str) -> F:
    @functools.wraps(function)
    def called(*args: Any, **named: Any) -> Any:
        if not active:
            return function(*args, **named)
        return in_precision(kind, function, args, named)

    return called  # type: ignore[return-value]


def flat(values: Any) -> Iterator[Any]:
    """The tensors among arguments, and in lists of them."""
    for value in values:
        if isinstance(value, native.TensorBase):
            yield value
        elif isinstance(value, (list, tuple)):
            yield from flat(value)


def wanted(kind: str, tensors: list[Any], lower: dtypes.Dtype) -> dtypes.Dtype:
    """The floating dtype that an op of full precision, or of the widest operand's, computes in; 64
    bits stay 64 bits everywhere.
    """
    if kind == "full":
        return dtypes.float32
    found = {t.dtype for t in tensors} & set(FLOATS)
    return lower if found <= {lower} else dtypes.float32


def cast(value: Any, dtype: dtypes.Dtype) -> Any:
    """An argument with its tensors in that dtype, if they are of a float of at most 32 bits."""
    if isinstance(value, native.TensorBase):
        tensor: Any = value
        own = tensor.array.dtype
        if own is dtype or not (own is FLOATS[0] or own is FLOATS[1] or own is FLOATS[2]):
            return tensor
        if own is FLOATS[0] and is_weight(tensor) and state.caching and state.nesting:
            return cast_once(tensor, dtype)
        return ops._to_copy(tensor, dtype)
    if value.__class__ is list or value.__class__ is tuple:
        return value.__class__([cast(v, dtype) for v in value])
    return value


def is_weight(tensor: Any) -> bool:
    return bool(tensor.requires_grad and tensor.is_leaf and tensor.base is None)


def cast_once(weight: Any, dtype: dtypes.Dtype) -> Any:
    """See Note [Weights are cast once]."""
    now = weight, weight.array, weight._version, (recording.get(), inferring.get())
    known = state.casts.get(id(weight))
    if known is not None and known.made.dtype is dtype:
        same = known.array is now[1] and known.version == now[2] and known.modes == now[3]
        if same:
            return known.made
    made = ops._to_copy(weight, dtype)
    state.casts[id(weight)] = Cast(*now, made)
    return made
