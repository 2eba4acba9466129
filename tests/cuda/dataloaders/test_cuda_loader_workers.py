"""Workers of a loader and GPU tensors."""

from __future__ import annotations

from typing import Any

import pytest

from tests.cuda.standin.program import run_module


@pytest.mark.parametrize("case", ["workers_send_gpu_tensors", "workers_leave_cuda_alone"])
def test_loader(cp: Any, case: str) -> None:
    run_module("tests.cuda.dataloaders.loaders", case)
