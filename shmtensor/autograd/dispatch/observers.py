"""Who sees the calls of ops: profiles, and counters of what they compute; and who makes them
instead: selective checkpoints.

While there is an observer, or a caller, each call of an op, of a composite and of a node's backward
comes to `observed`; otherwise nothing is looked at (native/dispatch/modes.h).
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol

from ... import native
from .plan import OBSERVED

__all__ = ["Observer", "add", "calling", "observed", "remove"]

changing = threading.Lock()
os.register_at_fork(after_in_child=changing._at_fork_reinit)  # type: ignore[attr-defined]


class Observer(Protocol):
    """Is told of calls, in the thread that makes them."""

    def enter(self, event: str, operands: tuple[Any, ...]) -> None:
        """An op is called.

        Args:
            event: its name: "add", "add_", "AddBackward0".
            operands: its arguments, those by keyword last.
        """

    def leave(self, result: Any) -> None:
        """The call that was entered last has returned; None: it raised."""


observers: list[Observer] = []
Caller = Callable[[Any, tuple[Any, ...], dict[str, Any]], Any]


class Calling(threading.local):
    """Who makes this thread's calls; None: the op itself."""

    caller: Caller | None = None


now = Calling()
callers: list[Caller] = []  # of all threads


def add(observer: Observer) -> None:
    """From now on the observer is told of calls, in all threads."""
    with changing:
        observers.append(observer)
        native.set_modes(OBSERVED, True)


def remove(observer: Observer) -> None:
    """The observer is told of no more calls."""
    with changing:
        observers.remove(observer)
        native.set_modes(OBSERVED, bool(observers or callers))


@contextmanager
def calling(caller: Caller) -> Iterator[None]:
    """In this block `caller(called, args, named)` makes the calls of this thread; it may use
    `called.unobserved(*args, **named)`.
    """
    outer, now.caller = now.caller, caller
    with changing:
        callers.append(caller)
        native.set_modes(OBSERVED, True)
    try:
        yield
    finally:
        now.caller = outer
        with changing:
            callers.remove(caller)
            native.set_modes(OBSERVED, bool(observers or callers))


def observed(called: Any, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
    """A call, shown to the observers."""
    seeing = list(observers)
    for observer in seeing:
        observer.enter(called.event, (*args, *named.values()))
    result = None
    try:
        if now.caller is None:
            result = called.unobserved(*args, **named)
        else:
            result = now.caller(called, args, named)
    finally:
        for observer in reversed(seeing):
            observer.leave(result)
    return result
