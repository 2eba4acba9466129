"""The block of a batch: aligned parts, stacking and gathering into them."""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import pytest

import shmtensor as st
from shmtensor.dataloaders.loader.batch_block import (
    BlockAllocator,
    allocate_parts,
    gather_rows,
    stack_into,
)

FLOAT, BYTE = np.dtype(np.float32), np.dtype(np.uint8)


def test_parts_are_aligned_and_do_not_overlap() -> None:
    parts = allocate_parts([((3,), BYTE), ((2, 5), FLOAT), ((0, 4), FLOAT), ((), FLOAT)])
    addresses = [part.__array_interface__["data"][0] for part in parts]
    assert all(address % 64 == 0 for address in addresses)
    assert [address - addresses[0] for address in addresses] == [0, 64, 128, 128]
    assert [part.shape for part in parts] == [(3,), (2, 5), (0, 4), ()]
    assert all(st.memory.is_shared(part) for part in parts if part.size)


def test_the_block_lives_as_long_as_one_part() -> None:
    before = st.memory.statistics().live_blocks
    parts = allocate_parts([((100,), FLOAT), ((100,), FLOAT)])
    assert st.memory.statistics().live_blocks == before + 1
    part = parts.pop()
    del parts
    assert st.memory.statistics().live_blocks == before + 1
    del part
    assert st.memory.statistics().live_blocks == before


@pytest.mark.parametrize("shape", [(), (3,), (2, 3), (0,), (3, 0), (2, 0, 3)])
def test_stacking_is_numpys(shape: tuple[int, ...]) -> None:
    arrays = [np.full(shape, i, np.float32) for i in range(4)]
    out = np.empty((4, *shape), np.float32)
    stack_into(out, arrays)
    assert (out == np.stack(arrays)).all()


def test_gathering_takes_any_indices() -> None:
    column = np.arange(10)
    assert gather_rows([column], [-1, 0, -10, 9])[0].tolist() == [9, 0, 0, 9]
    assert gather_rows([column], [])[0].tolist() == []
    indices = [-1, 2]
    gather_rows([column], indices)
    assert indices == [-1, 2]
    rows = np.array([-1, 2])
    gather_rows([column], rows)  # type: ignore[arg-type]
    assert rows.tolist() == [-1, 2]


@pytest.mark.parametrize("indices", [[1.5], [True], [[1], [2]], ["a"], [None], [slice(2)]])
def test_indices_that_are_not_integers_are_refused(indices: Any) -> None:
    with pytest.raises(TypeError, match="dataset: indices are not integers: "):
        gather_rows([np.arange(4)], indices)


def strided() -> np.ndarray[Any, Any]:
    return np.arange(4_000_000.0).reshape(8, -1)[:, ::2].T


@pytest.mark.parametrize(
    "column",
    [
        lambda: strided()[:50],
        lambda: np.arange(20)[::-2],
        lambda: np.arange(20, dtype=">i4").reshape(10, 2),
        lambda: np.broadcast_to(np.arange(3), (10, 3)),
        lambda: np.frombuffer(bytes(range(81)), np.int64, 10, 1),  # not aligned
    ],
)
def test_gathering_reads_any_layout(column: Any) -> None:
    x = column()
    (part,) = gather_rows([x], [3, -1, 0])
    assert (part == x[[3, -1, 0]]).all()
    assert part.flags.c_contiguous
    assert part.dtype == x.dtype.newbyteorder("=")


def test_gathering_a_column_that_is_not_contiguous_reads_its_rows_only() -> None:
    column = strided()
    gather_rows([column], [1, 2])
    tracemalloc.start()
    try:
        gather_rows([column], [1, 2])
        assert tracemalloc.get_traced_memory()[1] < column.nbytes // 100
    finally:
        tracemalloc.stop()


def test_a_place_within_a_place_gives_it_back() -> None:
    outer, inner = BlockAllocator(), BlockAllocator()
    with outer:
        with inner:
            allocate_parts([((100,), BYTE)])
        allocate_parts([((300,), BYTE)])
    allocate_parts([((500,), BYTE)])
    assert (outer.most, inner.most) == (320, 128)
