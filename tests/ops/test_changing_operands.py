"""Operands that another process changes during the call: a value or a documented error."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

PARTS = 2
SECONDS = 0.01  # of each case; `python -m tests.stress` takes a second


@pytest.mark.parametrize("part", range(PARTS))
def test_operands_that_another_process_changes_never_crash(part: int) -> None:
    script = str(Path(__file__).with_name("changing_operands.py"))
    ended = subprocess.run(
        [sys.executable, script, str(SECONDS), f"{part}/{PARTS}"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
