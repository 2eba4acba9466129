"""ldl.cu on the host: LAPACK's factors and pivots of Hermitian matrices."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from shmtensor import native
from tests.cuda.kernels.check import ORDERS, host_kernel

PARTS = {"complex64": "float32", "complex128": "float64"}
TOLERANCE = {"complex64": 2e-3, "complex128": 1e-9}


def hermitian(n: int, batch: int, dtype: str, kind: str) -> Any:
    random = np.random.default_rng(n)
    x = random.standard_normal((batch, n, n)) + 1j * random.standard_normal((batch, n, n))
    x = x + x.conj().swapaxes(-1, -2)
    if kind == "zero diagonal":  # blocks of two rows
        x[:, np.arange(n), np.arange(n)] = 0
    if kind == "singular":
        x[:, :, 0] = x[:, 0, :] = 0
        x[1:] = 0
    return x.astype(dtype)


@pytest.mark.parametrize("kind", ["indefinite", "zero diagonal", "singular"])
@pytest.mark.parametrize("n", [1, 2, 3, 8, 21, 40])
@pytest.mark.parametrize("dtype", sorted(PARTS))
def test_factors_are_lapacks(dtype: str, n: int, kind: str) -> None:
    x = hermitian(n, 3, dtype, kind)
    wanted, pivots, info = native.ldl_factor(x, True)
    columns = np.empty_like(x)
    at, first_zero = np.empty((3, n), np.int32), np.empty(3, np.int32)
    work = np.empty((3, 2, n), dtype)
    kernel = host_kernel("ldl", PARTS[dtype], "hermitian_ldl")
    for order in ORDERS:
        kernel.seed(order)
        columns[...] = x.swapaxes(-1, -2)
        threads = 32 if order % 2 else 96
        kernel((3, 1, 1), (threads, 1, 1), (columns, at, first_zero, work, np.int64(n)), 0)
        np.testing.assert_array_equal(at, pivots)
        np.testing.assert_array_equal(first_zero, info)
        factors = columns.swapaxes(-1, -2)
        np.testing.assert_allclose(np.tril(factors), wanted, TOLERANCE[dtype], TOLERANCE[dtype])
        np.testing.assert_array_equal(np.triu(factors, 1), np.triu(x, 1))
