"""The backend nccl, with a CuPy that needs no GPU and checks how it is used (fakenccl.py).

On GPUs the same runs in test_nccl_gpu.py.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest

from shmtensor import distributed as dist
from shmtensor.distributed.membership import enter

from . import fakenccl
from .battery import sweep
from .crowd import Outcome, run, values

LARGE = 40_000


def live(folder: str, options: dict[str, Any], function: Any, *arguments: Any) -> Any:
    """In a rank: the default group goes by nccl."""
    os.environ["LOCAL_RANK"] = str(dist.get_rank())
    with fakenccl.installed(folder, **options):
        world: Any = dist.GroupMember.WORLD
        enter(dist.new_group(backend="nccl", timeout=world.timeout))
        value = function(*arguments)
        assert not fakenccl.violations, fakenccl.violations
        return value


def on_gpus(
    folder: Path, ranks: int, function: Any, *arguments: Any, timeout: float = 20.0, **options: Any
) -> list[Outcome]:
    return run(live, ranks, str(folder), options, function, *arguments, timeout=timeout)


def engine() -> Any:
    return dist.GroupMember.WORLD.native  # type: ignore[union-attr]


@pytest.mark.parametrize(("ranks", "eager"), [(1, False), (2, False), (3, True)])
def test_every_collective_is_its_contract(tmp_path: Path, ranks: int, eager: bool) -> None:
    """All collectives at all thresholds, with dtypes, layouts and operations drawn by a seed."""
    seed = int(time.time())
    print(f"seed {seed}")
    counts = values(on_gpus(tmp_path, ranks, sweep, seed, eager=eager))
    assert min(counts) == max(counts) > 60
