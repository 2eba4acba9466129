"""Attacks in a child: what may crash or never end must not take the tests with it."""

from __future__ import annotations

import os
import signal
import traceback
from collections.abc import Callable
from typing import Any


def survives(attack: Callable[[], Any], seconds: int = 30) -> bool:
    """Whether a child that runs `attack` ends by itself in time, with no error."""
    pid = os.fork()
    if pid == 0:
        signal.alarm(seconds)  # an attack that does not end is one, too
        try:
            attack()
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    status = os.waitpid(pid, 0)[1]
    return os.WIFEXITED(status) and os.WEXITSTATUS(status) == 0
