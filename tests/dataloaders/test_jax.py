"""JAX's arrays as samples and as output: the programs of jax_checks.py."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from jax_checks import CHECKS

if find_spec("jax") is None:
    pytest.skip("JAX is not installed", allow_module_level=True)
pytestmark = pytest.mark.torch


@pytest.mark.parametrize("name", CHECKS)
def test_jax(name: str) -> None:
    program = Path(__file__).with_name("jax_checks.py")
    process = subprocess.run(
        [sys.executable, "-W", "error", str(program), name],
        capture_output=True, text=True, timeout=300, check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )  # fmt: skip
    assert process.returncode == 0, process.stderr
    assert process.stdout == "done\n"
    assert not process.stderr
