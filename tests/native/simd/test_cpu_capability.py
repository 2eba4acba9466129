"""The instruction-set level of the kernels; `make levels` runs their tests at each."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from shmtensor import native

LEVELS = ["base", "v3", "v4"]


@pytest.mark.parametrize("level", LEVELS)
def test_the_environment_lowers_the_level(level: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", "from shmtensor import native; print(native.isa())"],
        env={**os.environ, "SHMTENSOR_ISA": level},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == min(level, native.isa(), key=LEVELS.index)
