"""Every collective against its contract in plain NumPy, generated from the table of contracts:
collective x ranks x dtypes x operations x layouts x sizes around every threshold.

This file runs a part that takes seconds; `python -m tests.distributed.battery` (make collectives)
runs all.
"""

from __future__ import annotations

import time

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import shmtensor as st
from shmtensor import distributed as dist
from shmtensor import native
from shmtensor.distributed.collectives.reference import ReduceOp, reduce_arrays

from ..battery import DTYPES, RANKS, check, is_defined, sample, sizes_around, sweep
from ..contracts import CONTRACTS
from ..run_ranks import run, values

LIMIT = native.GROUP_INLINE


@pytest.mark.parametrize("ranks", RANKS)
def test_every_collective_is_its_contract(ranks: int) -> None:
    """All collectives at all thresholds, with dtypes, layouts and operations drawn by a seed."""
    seed = int(time.time())
    print(f"seed {seed}")
    counts = values(run(sweep, ranks, seed, timeout=60.0))
    want = sum(len(sizes_around(name, 1, ranks)) for name in CONTRACTS)
    assert counts == [want] * ranks


def reduce_everything(sizes: list[int]) -> int:
    """All reductions of all dtypes. Returns how many."""
    n = 0
    for dtype in DTYPES:
        for size in sizes:
            for op in ReduceOp:
                if is_defined(op, dtype):
                    check("all_reduce", dtype, "plain", size, op)
                    n += 1
                else:
                    with pytest.raises(TypeError, match=op.name):
                        dist.all_reduce(sample(0, dtype, (size,)), op)
    with pytest.raises(ValueError, match="the factor is missing"):
        dist.all_reduce(st.ones(2), ReduceOp.PREMUL_SUM)
    return n


@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_all_reduce_is_its_contract_for_every_dtype_and_operation(ranks: int) -> None:
    counts = values(run(reduce_everything, ranks, [0, 17, LIMIT // 8 + 1]))
    assert len(set(counts)) == 1


def test_a_sum_beyond_float16_is_infinity_without_a_warning() -> None:
    with np.errstate(all="raise"):
        assert np.isinf(reduce_arrays([np.full(1, 6e4, np.float16)] * 2)).all()


def uneven() -> None:
    rank, ranks = dist.get_rank(), dist.get_world_size()
    for scale in (1, 5_000):  # inline and direct
        sends = [scale * (rank + r) for r in range(ranks)]
        takes = [scale * (p + rank) for p in range(ranks)]
        mine = [sample(rank * 10 + r, "float32", (n, 2)) for r, n in enumerate(sends)]
        want = [sample(p * 10 + rank, "float32", (n, 2)) for p, n in enumerate(takes)]
        outputs = [st.empty(n, 2) for n in takes]
        dist.all_to_all(outputs, [st.tensor(x) for x in mine])
        for result, each in zip(outputs, want, strict=True):
            assert_array_equal(result.numpy(), each)
        result_single = st.empty(sum(takes), 2)
        dist.all_to_all_single(result_single, st.tensor(np.concatenate(mine)), takes, sends)
        assert_array_equal(result_single.numpy(), np.concatenate(want))


@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_all_to_all_with_parts_of_different_sizes(ranks: int) -> None:
    values(run(uneven, ranks))


def many_times() -> bytes:
    x = st.tensor(sample(dist.get_rank(), "float32", (50_001,)))
    for _ in range(20):
        dist.all_reduce(x, ReduceOp.AVG)
    return x.numpy().tobytes()


def test_same_bits_on_all_ranks_in_every_run() -> None:
    first, second = values(run(many_times, 3)), values(run(many_times, 3))
    assert len(set(first + second)) == 1


def in_the_middle() -> bool:
    samples = [sample(r, "float64", (200, 200)) for r in range(2)]
    x = st.tensor(samples[dist.get_rank()])
    dist.all_reduce(x[1:-1])
    assert_array_equal(x.numpy()[1:-1], reduce_arrays(samples)[1:-1])
    return bool((x.numpy()[0] == samples[dist.get_rank()][0]).all())


def test_a_part_of_a_block_leaves_the_remainder_unchanged() -> None:
    assert values(run(in_the_middle, 2)) == [True, True]
