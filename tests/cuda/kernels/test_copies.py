"""copies.cu on the host: rows and blocks of bytes, whatever the dtype, alignment and launch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.cuda.kernels.check import check, host_kernel

MOST, BLOCK_BYTES = 64, 256 * 4 * 16
PARTS = np.dtype(
    {
        "names": ["address", "start", "size", "room", "first_block", "n"],
        "formats": ["64u8", "64i8", "64i8", "64i8", "65i4", "i4"],
    },
    align=True,
)


def numbers(n: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).integers(0, 256, n, np.uint8)


@pytest.mark.parametrize("unit", [2, 4, 8, 16])
@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (5, 3), (3, 70), (64, 1)])
def test_fill_rows(unit: int, rows: int, columns: int) -> None:
    kernel = host_kernel("copies", "float32", f"fill_rows_{unit}")
    row, out = numbers(columns * unit), np.zeros(rows * columns * unit, np.uint8)
    arguments = (out, row, np.int64(columns), np.int64(rows * columns))
    check(kernel, 2, 32, arguments, [(out, np.tile(row, rows))])


@pytest.mark.parametrize("shift", [0, 3])
def test_gather(shift: int) -> None:
    """Of eight arrays one is left out; what follows each in its room is set to 0."""
    sizes = [0, 1, 17, 0, 2 * BLOCK_BYTES, BLOCK_BYTES + 48, 5, BLOCK_BYTES - 3]
    arrays = [numbers(n + shift, i)[shift:] for i, n in enumerate(sizes)]
    rooms = [n + 16 for n in sizes]
    starts = np.cumsum([0, *(-(-room // 64) * 64 for room in rooms)])
    out = numbers(int(starts[-1]), 9)
    wanted, parts = out.copy(), np.zeros(1, PARTS)
    blocks = np.cumsum([0, *(-(-room // BLOCK_BYTES) for room in rooms)])
    parts["first_block"][0, : len(blocks)] = blocks
    parts["n"] = len(sizes)
    for i, (x, start, room) in enumerate(zip(arrays, starts, rooms, strict=False)):
        parts["address"][0, i] = x.ctypes.data if i != 2 else 0
        parts["start"][0, i], parts["size"][0, i], parts["room"][0, i] = start, x.size, room
        if i != 2:
            wanted[start : start + room] = 0
            wanted[start : start + x.size] = x
    kernel = host_kernel("copies", "float32", "gather")
    check(kernel, int(blocks[-1]), 256, (out, parts[0]), [(out, wanted)])
