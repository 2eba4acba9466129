"""Products of sparse and dense matrices on a device."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.cuda.kernels.check import values
from tests.cuda.kernels.rows import compare

FLOATS = ["float32", "float64", "float16"]
DTYPES = [*FLOATS, "complex64", "int64", "int32"]
TOLERANCE = {"float16": 1e-2, "float32": 2e-5, "complex64": 2e-5}


def numbers(shape: tuple[int, ...], dtype: str, seed: int = 0) -> Any:
    x = values(shape, "float64", seed, 1.0 if dtype in FLOATS else 20.0)
    return x.astype(dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("n", "m", "nnz", "k"), [(5, 4, 9, 3), (40, 7, 300, 33), (3, 2, 0, 1)])
def test_products(cp: Any, n: int, m: int, nnz: int, k: int, dtype: str) -> None:
    random = np.random.default_rng(0)
    rows, columns = random.integers(0, n, nnz), random.integers(0, m, nnz)
    x, y, z = numbers((nnz,), dtype), numbers((m, k), dtype, 1), numbers((n, k), dtype, 2)
    tolerance = TOLERANCE.get(dtype, 1e-11) * (20 if dtype == "complex64" else 1)
    compare(cp, "_sparse_mm", (x, y, rows, columns), (n, False), tolerance)
    compare(cp, "_sparse_mm", (x, y, np.sort(rows), columns.astype("i4")), (n, True), tolerance)
    compare(cp, "_sampled_mm", (z, y, rows, columns), (), tolerance)
