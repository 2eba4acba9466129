"""Observers see the calls of ops: profiles, and counters of operations. Callers make the calls
instead: selective checkpoints.

While there is an observer or a caller, each call of an op, of a composite and of a node's backward
goes through `call_observed`; otherwise there is no cost (native/dispatch/modes.h).
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol

from ... import native
from ...native import OBSERVED
from ...profiler import profiling

lock = threading.Lock()
os.register_at_fork(after_in_child=lock._at_fork_reinit)  # type: ignore[attr-defined]


class Observer(Protocol):
    """Sees calls, in the thread that makes them."""

    def enter(self, event: str, operands: tuple[Any, ...]) -> None:
        """An op is called.

        Args:
            event: its name: "add", "add_", "AddBackward0".
            operands: its arguments, with keyword arguments last.
        """

    def leave(self, result: Any) -> None:
        """The innermost call has returned `result`, or has raised: then the result is None."""


observers: list[Observer] = []
Caller = Callable[[Any, tuple[Any, ...], dict[str, Any]], Any]


class ThreadCaller(threading.local):
    """The function that makes this thread's calls; None: the op itself."""

    caller: Caller | None = None


thread = ThreadCaller()
callers: list[Caller] = []  # of all threads


def add(observer: Observer) -> None:
    """Adds an observer of the calls in all threads."""
    with lock:
        observers.append(observer)
        native.set_modes(OBSERVED, True)


def remove(observer: Observer) -> None:
    """Removes an observer."""
    with lock:
        observers.remove(observer)
        native.set_modes(OBSERVED, bool(observers or callers))


profiling.add_observer, profiling.remove_observer = add, remove


@contextmanager
def call_through(caller: Caller) -> Iterator[None]:
    """In this block `caller(op, args, kwargs)` makes the calls of this thread; it may use
    `op.unobserved(*args, **kwargs)`.
    """
    outer, thread.caller = thread.caller, caller
    with lock:
        callers.append(caller)
        native.set_modes(OBSERVED, True)
    try:
        yield
    finally:
        thread.caller = outer
        with lock:
            callers.remove(caller)
            native.set_modes(OBSERVED, bool(observers or callers))


def call_observed(op: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Makes a call with the observers notified."""
    current = list(observers)
    for observer in current:
        observer.enter(op.event, (*args, *kwargs.values()))
    result = None
    try:
        if thread.caller is None:
            result = op.unobserved(*args, **kwargs)
        else:
            result = thread.caller(op, args, kwargs)
    finally:
        for observer in reversed(current):
            observer.leave(result)
    return result
