"""Looking into a run: the debug level, and a debugger on one rank while the others wait."""

from __future__ import annotations

import os
import pdb
import signal
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum
from typing import Any

from ..group.operands import seconds
from ..group.world import group_of

__all__ = [
    "DebugLevel",
    "breakpoint",
    "get_debug_level",
    "set_debug_level",
    "set_debug_level_from_env",
]


class DebugLevel(Enum):
    """What TORCH_DISTRIBUTED_DEBUG says. The level is kept for those who ask; all that PyTorch
    checks at DETAIL, whether the ranks call the same, is checked here always.
    """

    OFF = 0
    INFO = 1
    DETAIL = 2


def level_from_environment() -> DebugLevel:
    text = os.environ.get("TORCH_DISTRIBUTED_DEBUG", "OFF")
    try:
        return DebugLevel[text.upper()]
    except KeyError:
        raise RuntimeError(
            f"TORCH_DISTRIBUTED_DEBUG: is neither OFF, INFO nor DETAIL: {text!r}"
        ) from None


level: DebugLevel | None = None
passed: Counter[tuple[str, int]] = Counter()  # breakpoints by the place of their call


def get_debug_level() -> DebugLevel:
    """The level that was set, or that of TORCH_DISTRIBUTED_DEBUG.

    Raises:
        RuntimeError: the variable says something else than OFF, INFO or DETAIL.
    """
    return level_from_environment() if level is None else level


def set_debug_level(debug_level: DebugLevel) -> None:
    """Sets the level."""
    global level
    level = DebugLevel(debug_level)


def set_debug_level_from_env() -> None:
    """Sets the level to what TORCH_DISTRIBUTED_DEBUG says now."""
    set_debug_level(level_from_environment())


@contextmanager
def at_the_terminal() -> Iterator[None]:
    """Inside, the terminal listens to this process. Ranks of the launcher are in process groups of
    their own, and who reads a terminal from the background is stopped by the kernel.
    """
    try:
        terminal = os.open("/dev/tty", os.O_RDWR)
    except OSError:  # there is none
        yield
        return
    owner = os.tcgetpgrp(terminal)
    before = signal.signal(signal.SIGTTOU, signal.SIG_IGN)  # for taking it, too, stops
    try:
        os.tcsetpgrp(terminal, os.getpgrp())
        yield
    finally:
        os.tcsetpgrp(terminal, owner)
        signal.signal(signal.SIGTTOU, before)
        os.close(terminal)


class RankPdb(pdb.Pdb):
    """A debugger for a rank, whose `sys.stdin` may be another than the process's."""

    def interaction(self, *args: Any, **named: Any) -> None:
        """Reads commands until one goes on."""
        before = sys.stdin
        with open("/dev/stdin") as sys.stdin:
            try:
                super().interaction(*args, **named)
            finally:
                sys.stdin = before


def breakpoint(rank: int = 0, skip: int = 0, timeout_s: float | None = 3600) -> None:
    """Opens a debugger on one rank, in the frame that calls this; the others wait until it goes on.
    All ranks call it.

    Args:
        rank: in the default group.
        skip: does nothing so many times at this place.
        timeout_s: seconds that the others wait; None: no limit.
    """
    group = group_of("breakpoint", None)
    caller = sys._getframe(1)
    place = (caller.f_code.co_filename, caller.f_lineno)
    passed[place] += 1
    if passed[place] <= skip:
        return
    if group.rank() == rank:
        with at_the_terminal():
            debugger = RankPdb(nosigint=True)
            debugger.cmdqueue = ["up"]
            debugger.set_trace()
            group.native.barrier(seconds(timeout_s))
        return
    group.native.barrier(seconds(timeout_s))
