"""Training on GPUs."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import pytest

from tests.cuda.standin.build import ROOT

CASES = [
    "one_rank",
    "mixed_precision",
    "ranks_with_a_gpu_each",
    "ranks_share_a_gpu",
    "more_ranks_than_gpus",
    "statistics",
    "checkpoints",
    "a_loader_with_workers",
    "a_death",
    "a_death_with_nccl",
    "errors",
    "in_a_group",
]


@pytest.mark.parametrize("case", CASES)
def test_training(cp: Any, case: str) -> None:
    result = subprocess.run(
        [sys.executable, "-m", "tests.cuda.trainer.trainings", case],
        env={**os.environ, "PYTHONPATH": str(ROOT), "SHMTENSOR_DOMAIN": ""},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert result.stdout.endswith("ok\n"), result.stderr
    assert "stand-in device:" not in result.stderr  # a misuse
    assert result.returncode == 0
