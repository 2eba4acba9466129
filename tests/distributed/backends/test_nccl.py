"""The backend nccl, with a CuPy that needs no GPU and checks how it is used (fake_nccl.py).

On GPUs the same cases run in test_nccl_gpu.py.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest

from shmtensor import distributed as dist

from ..battery import sweep
from ..ddp import sharded_step as union
from ..run_ranks import values
from . import nccl_ranks as gpus
from .nccl_ranks import on_gpus


@pytest.mark.parametrize(("ranks", "eager"), [(1, False), (2, False), (3, True)])
def test_every_collective_is_its_contract(tmp_path: Path, ranks: int, eager: bool) -> None:
    """All collectives at all thresholds, with dtypes, layouts and operations drawn by a seed."""
    seed = int(time.time())
    print(f"seed {seed}")
    counts = values(on_gpus(str(tmp_path), ranks, sweep, seed, eager=eager))
    assert min(counts) == max(counts) > 60


def test_reductions_go_by_nccl_where_it_has_them(tmp_path: Path) -> None:
    # 6 integers x 5 operations, 4 floats x 6: SUM, PRODUCT, MIN, MAX, PREMUL_SUM, and AVG
    assert values(on_gpus(str(tmp_path), 2, gpus.reductions)) == [6 * 5 + 4 * 6] * 2


@pytest.mark.parametrize("case", [gpus.messages, gpus.objects, gpus.halves])
@pytest.mark.parametrize(("ranks", "eager"), [(2, True), (3, False)])
def test_cases(tmp_path: Path, case: Any, ranks: int, eager: bool) -> None:
    assert values(on_gpus(str(tmp_path), ranks, case, eager=eager)) == ["done"] * ranks


def test_a_mismatch_names_both_sides_on_every_rank(tmp_path: Path) -> None:
    messages = values(on_gpus(str(tmp_path), 2, gpus.differ))
    sides = [[text.partition(": ")[2] for text in each] for each in messages]  # each names its call
    assert sides[0] == sides[1]
    assert "barrier()" in messages[0][0]
    assert "float32 (40000,)" in messages[0][1]
    assert "int16 (8,)" in messages[0][2]
    assert "MAX" in messages[0][3]
    assert "root 1" in messages[0][4]


def test_groups_side_by_side(tmp_path: Path) -> None:
    assert values(on_gpus(str(tmp_path), 3, gpus.groups)) == [12, 12, 12]


def places() -> int:
    del os.environ["LOCAL_RANK"]
    group: Any = dist.new_group([1, 2])
    return -1 if dist.get_rank() == 0 else group.native.communicator.device.id


def test_a_process_has_one_gpu_in_all_groups(tmp_path: Path) -> None:
    assert values(on_gpus(str(tmp_path), 3, places)) == [-1, 1, 2]


def test_training_has_the_gradients_of_one_process(tmp_path: Path) -> None:
    assert len(set(values(on_gpus(str(tmp_path), 2, union.training)))) == 1


def test_same_bits_on_all_ranks(tmp_path: Path) -> None:
    assert len(set(values(on_gpus(str(tmp_path), 3, gpus.bits)))) == 1
