"""Absurd sizes are an error at once: nothing spins, and nothing is allocated for them."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import shmtensor as st
from shmtensor import memory
from shmtensor.errors import OutOfSharedMemory

HERE = Path(__file__).parent
CPU_SECONDS = 10.0  # of one call; an error takes milliseconds
ROOM = 1 << 30  # bytes of private memory that all calls together may add

# What a call may raise: not NumPy's MemoryError, which means that private memory was asked for.
ERRORS = (
    RuntimeError, ValueError, TypeError, IndexError, OverflowError, AssertionError,
)  # fmt: skip


def run(first: int, seconds: float) -> None:
    """Runs the cases from `first` on, in a process of its own: writes a line of JSON before and
    after each one.
    """
    from size_cases import all_cases

    st.zeros(1)  # maps the domain
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + ROOM, used + ROOM))
    for i, (name, call) in enumerate(all_cases()[first:], first):
        print(json.dumps([i, name, None]), flush=True)
        signal.setitimer(signal.ITIMER_PROF, seconds)  # its signal ends the process
        try:
            result: Any = call()
            outcome = "returned"
            del result
        except OutOfSharedMemory:
            outcome = "OutOfSharedMemory"
        except ERRORS as error:
            outcome = type(error).__name__
        except BaseException as error:
            outcome = f"!{type(error).__name__}: {error}"
        signal.setitimer(signal.ITIMER_PROF, 0)
        print(json.dumps([i, name, outcome]), flush=True)
    memory.check()


def outcomes(seconds: float = CPU_SECONDS) -> dict[str, str]:
    """What each case did; a process that dies is followed by another one at the next case."""
    results: dict[str, str] = {}
    first, name = 0, ""
    code = (
        f"import sys; sys.path += {[str(HERE), str(HERE.parents[1])]!r}\n"
        f"import test_absurd_sizes as module; module.run(int(sys.argv[1]), {seconds})"
    )
    environment = {**os.environ, "SHMTENSOR_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    while True:
        process = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", code, str(first)],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        for line in process.stdout.splitlines():
            first, name, outcome = json.loads(line)
            results[name] = f"!died: {process.returncode}" if outcome is None else outcome
        if process.returncode == 0:
            return results
        assert results.get(name, "").startswith("!died"), (name, process.stderr)
        first += 1


def test_absurd_sizes_are_refused_at_once() -> None:
    results = outcomes()
    assert len(results) > 2000
    bad = [f"{name}: {outcome[1:]}" for name, outcome in results.items() if outcome[0] == "!"]
    assert not bad, "\n".join(bad)
