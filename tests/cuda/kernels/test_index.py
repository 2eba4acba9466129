"""index.cu on the host: rows and sums at indices that coincide, are negative, or are not there."""

from __future__ import annotations

import numpy as np
import pytest

from tests.cuda.kernels.check import TOLERANCE, check, host_kernel, values

DTYPES = ["float32", "float64", "float16"]
I64 = np.int64
FAR = I64(-(2**62))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("width", [3, 16])
def test_embedding(width: int, dtype: str) -> None:
    table, index = values((5, width), dtype), np.array([4, 0, 0, 5, -1, 2])
    out = np.empty((6, width), dtype)
    wanted = np.where((index >= 0)[:, None] & (index < 5)[:, None], table[index % 5], np.nan)
    kernel = host_kernel("index", dtype, "embedding")
    for packs in (0, 1) if width == 16 else (0,):
        columns = width * table.itemsize // 16 if packs else width
        sizes = (I64(6), I64(columns), I64(5), np.int32(packs))
        check(kernel, (1, 2, 1), (4, 8, 1), (table, index, out, *sizes), [(out, wanted)])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("wrap", [0, 1])
@pytest.mark.parametrize(("outer", "inner"), [(1, 1), (3, 5), (2, 40)])
def test_index_add(outer: int, inner: int, wrap: int, dtype: str) -> None:
    n, size, skipped = 9, 4, 2
    index = np.array([0, 1, 1, 3, -1, 2, 4, -5, 1])
    source = values((outer, n, inner), dtype)
    out = np.ones((outer, size, inner), "float64" if dtype == "float64" else "float32")
    wanted = out.astype(np.float64)
    for j, i in enumerate(index):
        i = i + size if wrap and i < 0 else i
        if 0 <= i < size and i != skipped:
            wanted[:, i] += source[:, j]
    sizes = (I64(outer), I64(n), I64(inner), I64(size), I64(skipped), np.int32(wrap))
    kernel = host_kernel("index", dtype, "index_add")
    pairs = [(out, wanted)]
    check(kernel, (1, 2, 1), (8, 4, 1), (out, index, source, *sizes), pairs, TOLERANCE[dtype])


@pytest.mark.parametrize("dtype", DTYPES)
def test_scatter_add(dtype: str) -> None:
    outer, n, inner, size = 2, 7, 3, 4
    index = np.random.default_rng(0).integers(-1, size + 1, (outer, n, inner))
    source = values(index.shape, dtype)
    out = np.zeros((outer, size, inner), "float64" if dtype == "float64" else "float32")
    wanted = np.zeros(out.shape)
    for o, j, k in np.ndindex(index.shape):
        if 0 <= index[o, j, k] < size:
            wanted[o, index[o, j, k], k] += source[o, j, k]
    sizes = (I64(outer), I64(n), I64(inner), I64(size))
    kernel = host_kernel("index", dtype, "scatter_add")
    pairs = [(out, wanted)]
    check(kernel, (1, 2, 1), (4, 8, 1), (out, index, source, *sizes), pairs, TOLERANCE[dtype])
