"""Programs of their own for tests: crashes, forks and several processes."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable
from typing import Any

from tests.environment import environment

HEAD = """
from tests.cuda.standin.install import install
library = install()
import os, pickle, sys
import cupy, numpy as np
rt = cupy.cuda.runtime
"""


def start(code: str, **settings: object) -> subprocess.Popen[bytes]:
    """Starts `code` on the stand-in, after HEAD; settings are environment variables."""
    return subprocess.Popen(
        [sys.executable, "-c", HEAD + textwrap.dedent(code)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(**settings),
    )


def run(code: str, **settings: object) -> tuple[int, str, str]:
    """Exit code, output and errors of a program that reads nothing."""
    process = start(code, **settings)
    out, err = process.communicate(timeout=100)
    return process.returncode, out.decode(), err.decode()


def run_module(module: str, *arguments: str) -> None:
    """Runs a module that starts processes of its own, and prints "ok" at its end (`run_case`). The
    test fails if the module does, or if one of its processes misuses the device; it skips if the
    module says so.
    """
    process = subprocess.Popen(
        [sys.executable, "-m", module, *arguments],
        env=environment(SHMTENSOR_DOMAIN=""),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        out, err = process.communicate(timeout=300)
    except BaseException:  # the test's time is over
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        raise
    if out.startswith(SKIPPED):
        import pytest

        pytest.skip(out.removeprefix(SKIPPED).strip())
    assert out.endswith("ok\n"), err
    assert "stand-in device:" not in err
    assert process.returncode == 0


# ---- in such a module
SKIPPED = "SKIPPED: "


class Skip(Exception):
    """A case needs what is not here."""


def need_devices(n: int) -> None:
    """Skips a case where there are fewer CUDA devices."""
    import shmtensor as st

    if (count := st.cuda.device_count()) < n:
        raise Skip(f"{n} CUDA devices are needed, here: {count}")


def last_device() -> str:
    """The second of two CUDA devices; where there is one, the first."""
    import shmtensor as st

    return f"cuda:{st.cuda.device_count() - 1}"


def run_case(case: Callable[..., Any], *arguments: Any) -> None:
    """Runs the case of a module, and says how it ended. If it fails, the processes that it has
    started are killed: they may wait for it, and it would wait for them at its end.
    """
    from shmtensor import multiprocessing as mp

    try:
        case(*arguments)
    except Skip as reason:
        print(f"{SKIPPED}{reason}", flush=True)
    except BaseException:
        for process in mp.active_children():
            process.kill()
        raise
    else:
        gc.collect()
        print("ok", flush=True)
