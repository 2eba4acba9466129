"""A test's body where it can do no harm: a new interpreter with its own domain, forks inside."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import importlib
import inspect
import os
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from shmtensor import memory, native

TESTS = Path(__file__).resolve().parent.parent
PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP = 38, 22
SOURCES = str(Path(native.__file__).resolve().parents[2])


def fresh(
    function: Callable[..., None],
    *args: object,
    env: dict[str, str] | None = None,
    prefix: Sequence[str] = (),
    timeout: float = 100,
    returncode: int = 0,
) -> str:
    """Calls a module-level function in a new interpreter with a new domain.

    Args:
        prefix: a command that runs the interpreter, for example `unshare -m ...`.

    Returns:
        What it printed.
    """
    module = function.__module__
    code = (
        f"import inspect, sys; sys.path[:0] = [{str(TESTS)!r}, {SOURCES!r}]\n"
        f"import {module} as module; inspect.unwrap(module.{function.__name__})(*{args!r})"
    )
    with tempfile.TemporaryFile("w+") as out:
        family = subprocess.Popen(
            [*prefix, sys.executable, "-X", "faulthandler", "-c", code],
            env={**os.environ, "SHMTENSOR_DOMAIN": "new", **(env or {})},
            stdout=out,
            stderr=out,
            start_new_session=True,
        )
        try:
            code_of_exit = family.wait(timeout)
        finally:
            with contextlib.suppress(ProcessLookupError):  # a failed body may leave children
                os.killpg(family.pid, signal.SIGKILL)
            family.wait()
        out.seek(0)
        text = out.read()
    assert code_of_exit == returncode, f"exit {code_of_exit}\n{text}"
    return text


def isolated(function: Any = None, **options: Any) -> Any:
    """A test whose body runs in a new interpreter with a new domain; `options`: of `fresh`."""
    if function is None:
        return functools.partial(isolated, **options)

    @functools.wraps(function)
    def test(**arguments: object) -> None:
        fresh(function, *arguments.values(), **options)

    return test


def each(module: str, scenario: str, *argument_lists: tuple[object, ...]) -> None:
    """Runs a scenario once for each list of arguments, one after the other in one domain; the last
    line before a failure says which case it was."""
    function = inspect.unwrap(getattr(importlib.import_module(module), scenario))
    for arguments in argument_lists:
        print(f"{scenario}{arguments}", flush=True)
        function(*arguments)


def libc(name: str, *arguments: object) -> None:
    library = ctypes.CDLL(None, use_errno=True)
    if getattr(library, name)(*arguments) != 0:
        raise OSError(ctypes.get_errno(), f"{name}{arguments}")


def filter_calls(steps: Sequence[tuple[int, int, int, int]]) -> None:
    """From now on the kernel asks a filter about each system call of this process.

    Args:
        steps: (operation, true, false, value) of the kernel's packet filter.
    """
    code = b"".join(
        o.to_bytes(2, "little") + bytes((t, f)) + k.to_bytes(4, "little") for o, t, f, k in steps
    )
    text = ctypes.create_string_buffer(code, len(code))

    class Program(ctypes.Structure):
        _fields_ = (("n", ctypes.c_ushort), ("steps", ctypes.c_void_p))

    program = Program(len(steps), ctypes.addressof(text))
    libc("prctl", PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    libc("prctl", PR_SET_SECCOMP, 2, ctypes.byref(program), 0, 0)


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


def shared(n: int, value: int = 0) -> np.ndarray:
    """An array of bytes in shared memory."""
    with memory.shared_numpy():
        return np.full(n, value, np.uint8)


def state_of(pid: int) -> str:
    """The kernel's letter for a process."""
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rpartition(") ")[2][0]
    except (FileNotFoundError, ProcessLookupError):
        return "X"


def has_ended(pid: int) -> bool:
    """Whether a child has ended; not reaped."""
    return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def until(true: Callable[[], object], what: str) -> None:
    """Waits until something is true."""
    end = time.monotonic() + 60
    while not true():
        assert time.monotonic() < end, f"{what}: {native.members()}"
        time.sleep(0.002)


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
        is_settled = s.processes == 1 and s.zombies == 0 and s.slots_orphaned == 0
        if is_settled and (slots is None or s.slots_used == slots):
            break
        assert time.monotonic() < end, f"{s}\n{native.members()}"
        time.sleep(0.01)
    check()
