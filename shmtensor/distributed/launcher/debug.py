"""Debugging a run: the debug level, and a debugger on one rank while the others wait."""

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


class DebugLevel(Enum):
    """The level of TORCH_DISTRIBUTED_DEBUG, for scripts that query it. It changes nothing: the
    check of PyTorch's DETAIL, whether the ranks make the same calls, is always done here.
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
call_counts: Counter[tuple[str, int]] = Counter()  # calls of breakpoint, by file and line


def get_debug_level() -> DebugLevel:
    """The level that was set, or that of TORCH_DISTRIBUTED_DEBUG.

    Raises:
        RuntimeError: the variable is neither OFF, INFO nor DETAIL.
    """
    return level_from_environment() if level is None else level


def set_debug_level(debug_level: DebugLevel) -> None:
    """Sets the level."""
    global level
    level = DebugLevel(debug_level)


def set_debug_level_from_env() -> None:
    """Sets the level to the present value of TORCH_DISTRIBUTED_DEBUG."""
    set_debug_level(level_from_environment())


@contextmanager
def foreground() -> Iterator[None]:
    """Inside, this process group is the terminal's foreground group. The launcher gives each rank a
    process group, and the kernel stops a background process that reads the terminal.
    """
    try:
        terminal = os.open("/dev/tty", os.O_RDWR)
    except OSError:  # there is none
        yield
        return
    owner = os.tcgetpgrp(terminal)
    handler = signal.signal(signal.SIGTTOU, signal.SIG_IGN)  # tcsetpgrp would stop us, too
    try:
        os.tcsetpgrp(terminal, os.getpgrp())
        yield
    finally:
        os.tcsetpgrp(terminal, owner)
        signal.signal(signal.SIGTTOU, handler)
        os.close(terminal)


class RankPdb(pdb.Pdb):
    """A debugger for a rank, whose `sys.stdin` may be another than the process's."""

    def interaction(self, *args: Any, **kwargs: Any) -> None:
        """Reads commands until one continues the program."""
        stdin = sys.stdin
        with open("/dev/stdin") as sys.stdin:
            try:
                super().interaction(*args, **kwargs)
            finally:
                sys.stdin = stdin


def breakpoint(rank: int = 0, skip: int = 0, timeout_s: float | None = 3600) -> None:
    """Opens a debugger on one rank, in the caller's frame; the others wait until it continues. All
    ranks call it.

    Args:
        rank: in the default group.
        skip: the first `skip` calls at this line do nothing.
        timeout_s: seconds that the others wait; None: no limit.
    """
    group = group_of("breakpoint", None)
    caller = sys._getframe(1)
    line = (caller.f_code.co_filename, caller.f_lineno)
    call_counts[line] += 1
    if call_counts[line] <= skip:
        return
    if group.rank() == rank:
        with foreground():
            debugger = RankPdb(nosigint=True)
            debugger.cmdqueue = ["up"]
            debugger.set_trace()
            group.native.barrier(seconds(timeout_s))
        return
    group.native.barrier(seconds(timeout_s))
