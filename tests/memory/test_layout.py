"""Arrays of one block begin at multiples of 64 bytes, in order, without overlap."""

from __future__ import annotations

import numpy as np
import pytest

from shmtensor import native
from shmtensor.memory.layout import aligned, array_at, empty_shared, offsets, zeros_shared


@pytest.mark.parametrize("itemsize", [1, 2, 4, 8, 16, 128])
@pytest.mark.parametrize("sizes", [[], [0], [5], [1, 64, 65, 0, 7], [1000, 3, 1000]])
def test_offsets_are_aligned_and_as_small_as_can_be(sizes: list[int], itemsize: int) -> None:
    starts, end = offsets(sizes, itemsize)
    free = 0
    for start, size in zip(starts, sizes, strict=True):
        assert start * itemsize % 64 == 0
        assert 0 <= (start - free) * itemsize < 64
        free = start + size
    assert end == free


def test_a_gap_fills_the_line_that_the_last_item_is_in() -> None:
    assert [aligned(n) for n in (0, 1, 64, 65)] == [0, 64, 64, 128]
    assert [aligned(n, 8) for n in (0, 1, 8, 9)] == [0, 8, 8, 16]
    assert [aligned(1, n) for n in (1, 4, 16, 64, 256)] == [64, 16, 4, 1, 1]


def test_arrays_in_one_block() -> None:
    shapes = [(2, 3), (), (0, 4), (17,)]
    starts, end = offsets([6, 1, 0, 17], 4)
    flat = zeros_shared((end,), np.dtype(np.float32))
    parts = [array_at(flat, *each) for each in zip(starts, shapes, strict=True)]
    assert [part.shape for part in parts] == shapes
    for value, part in enumerate(parts, 1):
        part[...] = value
        assert part.base is not None  # a view
    assert flat.sum() == 6 * 1 + 2 + 17 * 4


@pytest.mark.parametrize("make", [empty_shared, zeros_shared])
@pytest.mark.parametrize("shape", [(), (0,), (3, 5)])
def test_shared_arrays(make: object, shape: tuple[int, ...]) -> None:
    x = make(shape, np.dtype(np.float64))  # type: ignore[operator]
    assert x.shape == shape
    assert x.dtype == np.float64
    assert native.is_shared(x)
    if make is zeros_shared:
        assert not x.any()
