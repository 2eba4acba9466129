"""What a process does first when an exception ends it: before its threads and children are awaited
and its interpreter winds down, which may take seconds, and others wait for it meanwhile.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType

__all__ = ["end_by", "when_ended"]

Listener = Callable[[BaseException], None]
listeners: list[Listener] = []


def when_ended(listener: Listener) -> None:
    """Has `listener(error)` called in this process, and in those forked from it, when an exception
    ends it. One in an interactive session ends nothing.
    """
    if not listeners:
        before = sys.excepthook

        def hook(
            kind: type[BaseException], error: BaseException, trace: TracebackType | None
        ) -> None:
            if not (hasattr(sys, "ps1") or sys.flags.interactive):
                end_by(error)
            before(kind, error, trace)

        sys.excepthook = hook
    if listener not in listeners:
        listeners.append(listener)


def end_by(error: BaseException) -> None:
    """Tells the listeners. Called by whoever catches what ends the process before
    `sys.excepthook` sees it.
    """
    for listener in listeners:
        with suppress(Exception):  # the error itself is what counts
            listener(error)
