"""The backend nccl on GPUs, where there are two and CuPy with NCCL: the cases of test_nccl.py.

`make cuda-standin` runs it on the stand-in device.
"""

from __future__ import annotations

import subprocess
import sys
import time
from typing import Any

import pytest

from .. import battery
from ..battery import kill_one, sweep
from ..ddp import sharded_step as union
from ..run_ranks import values
from . import nccl_ranks as gpus
from .nccl_ranks import on_gpus

COUNT = """
import importlib.util
if importlib.util.find_spec("tests"):  # where the sources are in PYTHONPATH
    from tests.cuda.standin.install import install, missing
    missing() or install()
from shmtensor.distributed.backends.nccl.cupy_nccl import find_cupy
print(find_cupy()[0].cuda.runtime.getDeviceCount())
"""


def count_gpus() -> tuple[int, str]:
    """The number of GPUs, or what is missing. Runs in another process: CUDA survives no fork."""
    # In another folder: here `-c` would find the sources before the installed package.
    completed = subprocess.run(
        [sys.executable, "-c", COUNT], capture_output=True, text=True, cwd="/"
    )
    lines = (
        (completed.stdout if completed.returncode == 0 else completed.stderr).strip().splitlines()
    )
    return (int(lines[-1]), "") if completed.returncode == 0 else (0, lines[-1])


RANKS, WHY = count_gpus()
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        RANKS < 2, reason=f"needs two GPUs, finds {RANKS}: {WHY or 'one for each rank'}"
    ),
]


def loosely(function: Any, *arguments: Any) -> Any:
    """NCCL adds in another order."""
    battery.FREE_ORDER = True
    return function(*arguments)


def on_real(ranks: int, function: Any, *arguments: Any) -> Any:
    return on_gpus(None, ranks, loosely, function, *arguments, timeout=60.0, start_method="spawn")


@pytest.mark.parametrize("ranks", sorted({2, max(2, RANKS)}))
def test_every_collective_is_its_contract(ranks: int) -> None:
    seed = int(time.time())
    print(f"seed {seed}")
    counts = values(on_real(ranks, sweep, seed))
    assert min(counts) == max(counts) > 60


def test_reductions_go_by_nccl_where_it_has_them() -> None:
    assert values(on_real(2, gpus.reductions)) == [6 * 5 + 4 * 6] * 2


@pytest.mark.parametrize("case", [gpus.messages, gpus.objects])
def test_cases(case: Any) -> None:
    assert values(on_real(2, case)) == ["done"] * 2


def test_a_mismatch_breaks_nothing() -> None:
    assert all(len(texts) == 5 for texts in values(on_real(2, gpus.differ)))


def test_groups_side_by_side() -> None:
    assert values(on_real(2, gpus.groups)) == [12, 18]  # rank 1 is in one more


def test_training_has_the_gradients_of_one_process() -> None:
    assert len(set(values(on_real(2, union.training)))) == 1


def test_same_bits_on_all_ranks() -> None:
    assert len(set(values(on_real(2, gpus.bits)))) == 1


@pytest.mark.parametrize("seed", range(4))
def test_a_death_at_a_random_moment_is_named_by_all(seed: int) -> None:
    kill_one(seed, 2, lambda function, ranks, *args: on_real(ranks, function, *args))
