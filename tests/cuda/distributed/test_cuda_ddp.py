"""Training with DistributedDataParallel and its relatives on GPUs."""

from __future__ import annotations

from typing import Any

import pytest

import shmtensor as st
from shmtensor import distributed as dist
from tests.cuda.standin.program import run_module

CASES = [
    "sync_batch_norm",
    "zero",
    "hooks",
    "no_sync",
    "join",
    "unused",
    "sparse",
    "side_stream",
]


@pytest.mark.parametrize("backend", ["shm", "nccl"])
@pytest.mark.parametrize("case", CASES)
def test_ranks_train(cp: Any, case: str, backend: str) -> None:
    run_module("tests.cuda.distributed.ddp_ranks", case, backend)


def test_the_backend_for_gpus_is_nccl(cp: Any) -> None:
    assert dist.is_nccl_available()
    assert dist.is_backend_available("nccl")
    for device in ("cuda", "cuda:1", st.device("cuda")):
        assert dist.get_default_backend_for_device(device) == "nccl"
    assert dist.get_default_backend_for_device("cpu") == "shm"
