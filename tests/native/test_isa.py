"""The kernels at each instruction-set level that this CPU has."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import shmtensor
from shmtensor import native

LEVELS = ["base", "v3", "v4"]
FILES = ["pointwise", "softmax", "optimizer", "reduction", "random", "halves", "moving",
         "recurrent", "stretched"]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("level", LEVELS)
def test_kernels_at_level(level: str, tmp_path: Path) -> None:
    """SHMTENSOR_ISA lowers the level; the twin tests hold at each."""
    if LEVELS.index(level) >= LEVELS.index(native.isa()):
        assert native.isa() in LEVELS  # the level of this very run, or one that the CPU lacks
        return
    folder = Path(__file__).parent
    files = [str(folder / f"test_{name}.py") for name in FILES]
    root = str(Path(shmtensor.__file__).parent.parent)
    environment = {**os.environ, "SHMTENSOR_ISA": level, "PYTHONPATH": root}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *files],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=110,
    )
    assert done.returncode == 0, done.stdout[-3000:]
