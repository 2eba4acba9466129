"""Every collective against its contract in plain NumPy: ranks x dtypes x operations x sizes around
every threshold.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import shmtensor as st
from shmtensor import distributed as dist
from shmtensor import native
from shmtensor.distributed.contract import CONTRACTS, ReduceOp, fold

from .crowd import run, values

DTYPES = [
    "bool",
    "int8",
    "uint8",
    "int16",
    "int32",
    "int64",
    "uint64",
    "float16",
    "float32",
    "float64",
    "complex64",
    "complex128",
]
LIMIT = native.GROUP_INLINE
Array = Any


def sample(rank: int, dtype: str, shape: tuple[int, ...]) -> Array:
    rng = np.random.default_rng([rank, *shape])
    x = rng.standard_normal(shape) * 3
    if dtype == "bool":
        return x > 0
    if dtype.startswith("complex"):
        x = x + 1j * rng.standard_normal(shape)
    if dtype.startswith("uint"):
        x = np.abs(x)
    return x.astype(dtype)


def is_defined(op: ReduceOp, dtype: str) -> bool:
    kind = np.dtype(dtype).kind
    if op in (ReduceOp.BAND, ReduceOp.BOR, ReduceOp.BXOR):
        return kind in "biu"
    if op in (ReduceOp.MIN, ReduceOp.MAX):
        return kind != "c"
    return op is not ReduceOp.AVG or kind in "fc"


def same_bits(x: Array, y: Array) -> None:
    assert x.dtype == y.dtype
    assert_array_equal(x, y)


def reduce_everything(sizes: list[int]) -> int:
    """All reductions of all dtypes; compares here, because the results are many. Returns how
    many.
    """
    rank, ranks = dist.get_rank(), dist.get_world_size()
    n = 0
    for dtype in DTYPES:
        for size in sizes:
            inputs = [sample(r, dtype, (size,)) for r in range(ranks)]
            for op in ReduceOp:
                x = st.tensor(inputs[rank]) if dtype != "uint64" else inputs[rank].copy()
                if not is_defined(op, dtype):
                    with pytest.raises(TypeError, match=op.name):
                        dist.all_reduce(x, op)
                    continue
                dist.all_reduce(x, op)
                if op is ReduceOp.PRODUCT and dtype.startswith("complex"):
                    # NumPy's product of complex numbers fuses where the CPU can
                    np.testing.assert_allclose(np.asarray(x), fold(inputs, op), rtol=1e-5)
                else:
                    same_bits(np.asarray(x), fold(inputs, op))
                n += 1
    return n


@pytest.mark.parametrize("ranks", [1, 2, 3, 4])
def test_all_reduce_is_its_contract_for_every_dtype_and_operation(ranks: int) -> None:
    counts = values(run(reduce_everything, ranks, [0, 1, 17, LIMIT // 8 + 1]))
    assert len(set(counts)) == 1


def others(size: int) -> None:
    rank, ranks = dist.get_rank(), dist.get_world_size()
    inputs = [sample(r, "float32", (size, 2)) for r in range(ranks)]
    wide = [sample(r, "float32", (ranks * size, 3)) for r in range(ranks)]
    mine = st.tensor(inputs[rank])
    root = ranks - 1

    x = mine.clone()
    dist.broadcast(x, src=root)
    same_bits(x.numpy(), CONTRACTS["broadcast"](inputs, root)[rank])

    x = mine.clone()
    dist.reduce(x, dst=root, op=ReduceOp.MAX)
    wanted = CONTRACTS["reduce"](inputs, root, ReduceOp.MAX)[rank]
    same_bits(x.numpy(), inputs[rank] if wanted is None else wanted)

    outputs = [st.empty(size, 2) for _ in range(ranks)]
    dist.all_gather(outputs, mine)
    for output, want in zip(outputs, CONTRACTS["all_gather"](inputs)[rank], strict=True):
        same_bits(output.numpy(), want)

    joined = st.empty(ranks * size, 2)
    dist.all_gather_into_tensor(joined, mine)
    same_bits(joined.numpy(), CONTRACTS["all_gather_into_tensor"](inputs)[rank])

    gathered = [st.empty(size, 2) for _ in range(ranks)] if rank == root else None
    dist.gather(mine, gathered, dst=root)
    for output, want in zip(
        gathered or [], CONTRACTS["gather"](inputs, root)[rank] or [], strict=True
    ):
        same_bits(output.numpy(), want)

    x = st.empty(size, 2)
    dist.scatter(x, [st.tensor(y) for y in inputs] if rank == root else None, src=root)
    same_bits(x.numpy(), CONTRACTS["scatter"]([inputs] * ranks, root)[rank])

    x = st.empty(size, 3)
    dist.reduce_scatter_tensor(x, st.tensor(wide[rank]))
    same_bits(x.numpy(), CONTRACTS["reduce_scatter_tensor"](wide)[rank])

    x = st.empty(size, 3)
    dist.reduce_scatter(x, [st.tensor(part) for part in np.split(wide[rank], ranks)], ReduceOp.MIN)
    lists = [np.split(each, ranks) for each in wide]
    same_bits(x.numpy(), CONTRACTS["reduce_scatter"](lists, ReduceOp.MIN)[rank])

    x = st.empty(ranks * size, 3)
    dist.all_to_all_single(x, st.tensor(wide[rank]))
    same_bits(x.numpy(), CONTRACTS["all_to_all_single"](wide)[rank])

    parts = [st.tensor(part) for part in np.split(wide[rank], ranks)]
    outputs = [st.empty(size, 3) for _ in range(ranks)]
    dist.all_to_all(outputs, parts)
    want = np.split(CONTRACTS["all_to_all_single"](wide)[rank], ranks)
    for output, part in zip(outputs, want, strict=True):
        same_bits(output.numpy(), part)

    dist.barrier()


@pytest.mark.parametrize("ranks", [1, 2, 3])
@pytest.mark.parametrize("size", [0, 5, LIMIT // 8 + 3])
def test_the_other_collectives_are_their_contracts(ranks: int, size: int) -> None:
    values(run(others, ranks, size))


def test_every_contract_is_a_public_collective() -> None:
    for name in CONTRACTS:
        assert callable(getattr(dist, name)), name
        assert CONTRACTS[name].__doc__


def layouts() -> list[Array]:
    rank, ranks = dist.get_rank(), dist.get_world_size()
    out = []
    for n in (6, 200):
        whole = [sample(r, "float64", (n, n)) for r in range(ranks)]
        x = st.tensor(whole[rank]).t()  # not contiguous
        dist.all_reduce(x)
        out.append((x.numpy(), fold([w.T for w in whole])))
        y = whole[rank].copy()  # a private array
        dist.all_reduce(y)
        out.append((y, fold(whole)))
        z = st.tensor(whole[rank])
        dist.all_reduce(z[1:-1])  # in the middle of a block
        out.append((z.numpy()[1:-1], fold(whole)[1:-1]))
    return [(np.array(a), b) for a, b in out]


def test_any_layout_and_private_memory() -> None:
    for pairs in values(run(layouts, 2)):
        for got, want in pairs:
            assert_array_equal(got, want)


def many_times() -> bytes:
    x = st.tensor(sample(dist.get_rank(), "float32", (50_001,)))
    for _ in range(20):
        dist.all_reduce(x, ReduceOp.AVG)
    return x.numpy().tobytes()


def test_same_bits_on_all_ranks_in_every_run() -> None:
    first, second = values(run(many_times, 3)), values(run(many_times, 3))
    assert len(set(first + second)) == 1
