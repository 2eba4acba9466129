"""Training on GPUs."""

from __future__ import annotations

from typing import Any

import pytest

from tests.cuda.standin.program import run_module

CASES = [
    "one_rank",
    "losses_are_read_later",
    "waits_of_several_ranks",
    "mixed_precision",
    "ranks_with_a_gpu_each",
    "ranks_share_a_gpu",
    "more_ranks_than_gpus",
    "statistics",
    "sync_batchnorm",
    "checkpoints",
    "a_loader_with_workers",
    "a_death",
    "a_death_in_an_evaluation",
    "a_death_with_nccl",
    "errors",
    "in_a_group",
]


@pytest.mark.parametrize("case", CASES)
def test_training(cp: Any, case: str) -> None:
    run_module("tests.cuda.trainer.trainings", case)
