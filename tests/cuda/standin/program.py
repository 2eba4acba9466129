"""Programs of their own for tests: crashes, forks and several processes."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

from tests.cuda.standin.build import ROOT

HEAD = """
from tests.cuda.standin.install import install
library = install()
import os, pickle, sys
import cupy, numpy as np
rt = cupy.cuda.runtime
"""


def start(code: str, **settings: object) -> subprocess.Popen[bytes]:
    """Starts `code` on the stand-in, after HEAD; settings are environment variables."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    environment.update({name: str(value) for name, value in settings.items()})
    return subprocess.Popen(
        [sys.executable, "-c", HEAD + textwrap.dedent(code)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment,
    )


def run(code: str, **settings: object) -> tuple[int, str, str]:
    """Exit code, output and errors of a program that reads nothing."""
    process = start(code, **settings)
    out, err = process.communicate(timeout=100)
    return process.returncode, out.decode(), err.decode()


def run_module(module: str, *arguments: str) -> None:
    """Runs a module that starts processes of its own, and prints "ok" at its end. It fails if the
    module does, or if one of its processes misuses the device.
    """
    result = subprocess.run(
        [sys.executable, "-m", module, *arguments],
        env={**os.environ, "PYTHONPATH": str(ROOT), "SHMTENSOR_DOMAIN": ""},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert result.stdout.endswith("ok\n"), result.stderr
    assert "stand-in device:" not in result.stderr
    assert result.returncode == 0
