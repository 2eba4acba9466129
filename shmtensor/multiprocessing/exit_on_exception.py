"""Listeners that are called as soon as an exception ends a process.

They run before the interpreter waits for threads and children, which may take seconds; other
processes need not wait that long for the news.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType

Listener = Callable[[BaseException], object]
listeners: list[Listener] = []


def add_exit_listener(listener: Listener) -> None:
    """Registers `listener(error)`, to be called when an exception ends this process or one forked
    from it. An exception in an interactive session does not end the process.
    """
    if not listeners:
        previous_hook = sys.excepthook

        def hook(
            kind: type[BaseException], error: BaseException, trace: TracebackType | None
        ) -> None:
            if not (hasattr(sys, "ps1") or sys.flags.interactive):
                notify_exit_listeners(error)
            previous_hook(kind, error, trace)

        sys.excepthook = hook
    if listener not in listeners:
        listeners.append(listener)


def notify_exit_listeners(error: BaseException) -> None:
    """Calls the listeners. For code that catches the exception before `sys.excepthook` does."""
    for listener in listeners:
        with suppress(Exception):  # report `error` rather than that of a listener
            listener(error)
