"""Running a test's body where it can do no harm: a new interpreter with a domain of its own, and forks inside it."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path

from shmtensor import memory, native

TESTS = Path(__file__).resolve().parent.parent
SOURCES = str(Path(native.__file__).resolve().parents[2])


def fresh(
    function: Callable[..., None],
    *args: object,
    env: dict[str, str] | None = None,
    prefix: Sequence[str] = (),
    timeout: float = 100,
    returncode: int = 0,
) -> str:
    """Calls a module-level function in a new interpreter with a new domain; its assertions are the test's.

    Args:
        prefix: a command that runs the interpreter, for example `unshare -m ...`.

    Returns:
        What it printed.
    """
    module = function.__module__
    code = (
        f"import sys; sys.path[:0] = [{str(TESTS)!r}, {SOURCES!r}]\n"
        f"import {module} as module; module.{function.__name__}(*{args!r})"
    )
    done = subprocess.run(
        [*prefix, sys.executable, "-X", "faulthandler", "-c", code],
        env={**os.environ, "SHMTENSOR_DOMAIN": "new", **(env or {})},
        capture_output=True,
        text=True,
        timeout=timeout,
    )
    assert done.returncode == returncode, f"exit {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout


class Child:
    """A forked child that runs a function; what the function returns is its exit code (None: 0)."""

    def __init__(self, function: Callable[[], int | None], fault: str | None = None) -> None:
        self.pid = os.fork()
        if self.pid == 0:
            code = 99
            try:
                native.arm_fault(fault)
                code = function() or 0
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(code)
        self.row, self.inc = native.last_child() or (-1, 0)

    def wait(self) -> int:
        """Exit code as `multiprocessing` has it: negative for a signal."""
        _, status = os.waitpid(self.pid, 0)
        code = os.waitstatus_to_exitcode(status)
        native.record_exit(self.row, self.inc, code)
        return code

    def kill(self) -> None:
        os.kill(self.pid, 9)
        assert self.wait() == -9


def check() -> None:
    memory.check()


def settle(slots: int | None = None) -> None:
    """Everything the dead left is gone: rows, orphans, pins; the invariants hold."""
    native.set_unread_grace(0, 0)
    end = time.monotonic() + 10
    while True:
        native.sweep(True)
        memory.trim()
        s = memory.statistics()
        done = s.processes == 1 and s.zombies == 0 and s.slots_orphaned == 0
        if done and (slots is None or s.slots_used == slots):
            break
        assert time.monotonic() < end, f"{s}\n{native.members()}"
        time.sleep(0.01)
    check()
