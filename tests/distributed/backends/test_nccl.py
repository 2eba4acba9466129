"""The backend nccl where there are two GPUs, and CuPy with NCCL.

`make cuda-standin` runs it on the stand-in device, which checks how NCCL is used.
"""

from __future__ import annotations

import time
from typing import Any

import pytest

from ..battery import sweep
from ..ddp import sharded_step as union
from ..kills import one_round
from ..run_ranks import values
from . import nccl_ranks as gpus
from .nccl_ranks import RANKS, needs_gpus, on_gpus

pytestmark = needs_gpus


@pytest.mark.parametrize("ranks", sorted({2, max(2, RANKS)}))
def test_every_collective_is_its_contract(ranks: int) -> None:
    """All collectives at all thresholds, with dtypes, layouts and operations drawn by a seed."""
    seed = int(time.time())
    print(f"seed {seed}")
    counts = values(on_gpus(ranks, sweep, seed))
    assert min(counts) == max(counts) > 60


def test_reductions_go_by_nccl_where_it_has_them() -> None:
    # 6 integers x 5 operations, 4 floats x 6: SUM, PRODUCT, MIN, MAX, PREMUL_SUM, and AVG
    assert values(on_gpus(2, gpus.reductions)) == [6 * 5 + 4 * 6] * 2


@pytest.mark.parametrize("case", [gpus.messages, gpus.objects, gpus.halves])
def test_cases(case: Any) -> None:
    assert values(on_gpus(2, case)) == ["done"] * 2


def test_a_mismatch_names_both_sides_on_every_rank() -> None:
    messages = values(on_gpus(2, gpus.differ))
    sides = [[text.partition(": ")[2] for text in each] for each in messages]  # each names its call
    assert sides[0] == sides[1]
    assert "barrier()" in messages[0][0]
    assert "float32 (40000,)" in messages[0][1]
    assert "int16 (8,)" in messages[0][2]
    assert "MAX" in messages[0][3]
    assert "root 1" in messages[0][4]


def test_a_tensor_on_the_cpu_says_what_to_use() -> None:
    for texts in values(on_gpus(2, gpus.on_the_cpu)):
        assert "float32 (2, 3) is on the CPU" in texts[0]
        assert 'new_group(backend="shm")' in texts[0]
        assert len(set(texts[:-1])) == 1  # the last one is the model's parameter


def test_a_tensor_on_another_gpu_is_an_error() -> None:
    assert values(on_gpus(2, gpus.elsewhere)) == [
        f"all_reduce: the tensor is on another GPU than the group's of rank {r}: "
        f"cuda:{1 - r}, not cuda:{r}"
        for r in range(2)
    ]


def test_groups_side_by_side() -> None:
    assert values(on_gpus(2, gpus.groups)) == [12, 18]  # rank 1 is in one more


def test_training_has_the_gradients_of_one_process() -> None:
    assert len(set(values(on_gpus(2, union.training)))) == 1


def test_same_bits_on_all_ranks() -> None:
    assert len(set(values(on_gpus(2, gpus.bits)))) == 1


@pytest.mark.parametrize("seed", range(4))
def test_a_death_at_a_random_moment_is_named_by_all(seed: int) -> None:
    def runner(function: Any, ranks: int, *arguments: Any, node: int) -> Any:
        return on_gpus(ranks, function, *arguments)

    one_round(seed, "kill", 2, runner=runner, soon=60.0)  # seconds on the stand-in
