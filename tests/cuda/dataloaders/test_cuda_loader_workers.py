"""Workers of a loader and GPU tensors."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import pytest

from tests.cuda.standin.build import ROOT


@pytest.mark.parametrize("case", ["workers_send_gpu_tensors", "workers_leave_cuda_alone"])
def test_loader(cp: Any, case: str) -> None:
    result = subprocess.run(
        [sys.executable, "-m", "tests.cuda.dataloaders.loaders", case],
        env={**os.environ, "PYTHONPATH": str(ROOT), "SHMTENSOR_DOMAIN": ""},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert result.stdout.endswith("ok\n"), result.stderr
    assert "stand-in device:" not in result.stderr  # a misuse
    assert result.returncode == 0
