"""sparse.cu on the host: products of matrices whose elements coincide, or are not there."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.cuda.kernels.check import TOLERANCE, check, host_kernel, values

DTYPES = ["float32", "float64", "float16"]
I64 = np.int64
ROWS, M, N = 5, 4, 9
PLACES = np.array(
    [[0, 0, 1, 1, 1, 3, 3, 4, 4], [2, 2, 0, 4, 3, -1, 1, 0, 3]]
)  # columns 4, -1: not there


def dense_of(x: Any) -> Any:
    matrix = np.zeros((ROWS, M))
    for r, c, v in zip(*PLACES, x, strict=True):
        if 0 <= r < ROWS and 0 <= c < M:
            matrix[r, c] += v
    return matrix


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("width", [1, 5, 40])
def test_rows_in_order(width: int, dtype: str) -> None:
    x, y = values((N,), dtype), values((M, width), dtype, 1)
    starts = np.searchsorted(PLACES[0], np.arange(ROWS + 1))
    out = np.empty((ROWS, width), dtype)
    wanted = dense_of(x) @ y.astype(np.float64)
    arguments = (starts, PLACES[1].copy(), x, y, out, I64(ROWS), I64(width), I64(M))
    for block in ((8, 4, 1), (1, 32, 1)):
        kernel = host_kernel("sparse", dtype, "csr_matmul")
        check(kernel, (1, 2, 1), block, arguments, [(out, wanted)], TOLERANCE[dtype])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("width", [1, 5, 40])
def test_rows_in_any_order(width: int, dtype: str) -> None:
    x, y = values((N,), dtype), values((M, width), dtype, 1)
    order = np.random.default_rng(0).permutation(N)
    rows, columns = (part[order] for part in PLACES)
    sums = np.ones((ROWS, width), "float64" if dtype == "float64" else "float32")
    wanted = 1 + dense_of(x) @ y.astype(np.float64)
    sizes = (I64(N), I64(ROWS), I64(width), I64(M))
    arguments = (rows, columns, x[order], y, sums, *sizes)
    kernel = host_kernel("sparse", dtype, "coo_matmul")
    check(kernel, (1, 2, 1), (8, 4, 1), arguments, [(sums, wanted)], TOLERANCE[dtype])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("width", [0, 1, 33, 70])
def test_sampled_elements(width: int, dtype: str) -> None:
    x, y = values((ROWS, width), dtype), values((M, width), dtype, 1)
    rows, columns = PLACES[0].copy(), PLACES[1].copy()
    rows[3] = ROWS  # not there
    there = (rows < ROWS) & (columns >= 0) & (columns < M)
    product = x.astype(np.float64) @ y.astype(np.float64).T
    wanted = np.where(there, product[rows % ROWS, columns % M], 0)
    out = np.empty(N, dtype)
    sizes = (I64(N), I64(ROWS), I64(width), I64(M))
    kernel = host_kernel("sparse", dtype, "sampled_matmul")
    arguments = (x, y, rows, columns, out, *sizes)
    check(kernel, 2, 64, arguments, [(out, wanted)], 4 * TOLERANCE[dtype])
