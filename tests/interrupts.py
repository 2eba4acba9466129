"""Interrupts calls as a signal handler that raises does, at a chosen instruction."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any


class Alarm(Exception):
    """What the signal handlers of tests raise."""


def interrupt_after(n: int, call: Callable[[], Any], *files: str) -> bool:
    """Makes a call, and raises Alarm before the n-th instruction that it runs in the files; returns
    whether it raised: not if there are fewer.
    """
    count = 0

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal count
        if frame.f_code.co_filename not in files:
            return None
        frame.f_trace_opcodes = True
        if event == "opcode":
            count += 1
            if count == n:
                raise Alarm
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        call()
    except Alarm:
        return True
    finally:
        sys.settrace(before)
    return False
