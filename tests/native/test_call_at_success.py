"""What is called at the end of a process that succeeds: in a process of its own, it aborts."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from shmtensor import native

BEGIN = """
import ctypes, os, sys
from shmtensor import native
native.call_at_success(ctypes.cast(ctypes.CDLL(None).abort, ctypes.c_void_p).value)
"""
FORK = "pid = os.fork()\nsys.exit(7 if pid and os.waitpid(pid, 0)[1] == 0 else 0)"


@pytest.mark.parametrize(
    ("end", "code"),
    [
        ("", -signal.SIGABRT),
        ("sys.exit()", -signal.SIGABRT),
        ("sys.exit(3)", 3),
        ("raise ValueError", 1),
        ("os._exit(0)", 0),
        (FORK, 7),
    ],
    ids=["end", "exit", "exit 3", "exception", "_exit", "a forked child"],
)
def test_it_is_called_at_exit_code_0_only(end: str, code: int) -> None:
    program = [sys.executable, "-c", BEGIN + end]
    assert subprocess.run(program, stderr=subprocess.DEVNULL).returncode == code


def test_an_address_is_needed() -> None:
    with pytest.raises(ValueError, match="not the address of a function: 0"):
        native.call_at_success(0)
