"""reduce.cu on the host: sums of rows and columns, in one launch and in chunks, and each barrier is
needed.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from shmtensor.ops.cuda.kernel_source import kernel_source
from tests.cuda.kernels.check import ORDERS, acc, check, host_kernel, values
from tests.cuda.kernels.host import HostKernel

DTYPES = ["float32", "float64", "float16"]
TYPES = ["", "_to_acc", "_of_acc", "_acc"]
TOLERANCE = {"float16": 4e-3, "float32": 1e-5, "float64": 1e-12}
BARRIER = re.compile(r"__syncthreads\(\);")
SOURCE = kernel_source("reduce", "float32")
BARRIERS = len(BARRIER.findall(SOURCE))
I64, I32 = np.int64, np.int32


def problem(
    dtype: str, types: str, shape: tuple[int, ...], out: tuple[int, ...]
) -> tuple[Any, Any]:
    """x and an array for the result, of the types that a suffix names."""
    wide = "float64" if dtype == "float64" else "float32"
    read = wide if types in ("_of_acc", "_acc") else dtype
    written = wide if types in ("_to_acc", "_acc") else dtype
    return values(shape, read), np.full(out, np.nan, written)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("types", TYPES)
@pytest.mark.parametrize("n", [1, 7, 64, 256, 801])
def test_rows_by_warp(n: int, types: str, dtype: str) -> None:
    x, out = problem(dtype, types, (5, n), (5,))
    wanted = x.astype(np.float64).sum(1) * 0.25
    kernel = host_kernel("reduce", dtype, f"sum_warp{types}")
    for packed in (0, 1) if n % 8 == 0 else (0,):
        arguments = (x, out, I64(5), I64(n), acc(dtype, 0.25), I32(packed))
        check(kernel, 2, 64, arguments, [(out, wanted)], TOLERANCE[dtype])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("types", TYPES)
@pytest.mark.parametrize(("n", "size"), [(1600, 1600), (1600, 640), (33, 16)])
def test_rows_by_block(n: int, size: int, types: str, dtype: str) -> None:
    chunks = -(-n // size)
    x, out = problem(dtype, types, (3, n), (3, chunks))
    wide = x.astype(np.float64)
    wanted = np.stack([wide[:, i * size : (i + 1) * size].sum(1) for i in range(chunks)], 1)
    kernel = host_kernel("reduce", dtype, f"sum_block{types}")
    for packed in (0, 1) if n % 8 == 0 else (0,):
        numbers = (I64(3), I64(n), I64(size), acc(dtype, 1), I32(packed))
        check(kernel, (2, chunks, 1), 128, (x, out, *numbers), [(out, wanted)], TOLERANCE[dtype])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("types", TYPES)
@pytest.mark.parametrize(
    ("outer", "n", "inner", "size", "x", "y"),
    [(3, 70, 40, 70, 32, 8), (1, 70, 5, 32, 8, 4), (2, 3, 300, 3, 256, 1)],
)
def test_columns(
    outer: int, n: int, inner: int, size: int, x: int, y: int, types: str, dtype: str
) -> None:
    chunks = -(-n // size)
    a, out = problem(dtype, types, (outer, n, inner), (outer, chunks, inner))
    wide = a.astype(np.float64)
    wanted = np.stack([wide[:, i * size : (i + 1) * size].sum(1) for i in range(chunks)], 1)
    kernel = host_kernel("reduce", dtype, f"sum_columns{types}")
    numbers = (I64(outer), I64(n), I64(inner), I64(size), acc(dtype, 0.5))
    grid = (-(-inner // x), chunks, min(outer, 2))
    check(kernel, grid, (x, y, 1), (a, out, *numbers), [(out, wanted * 0.5)], TOLERANCE[dtype])


def largest_errors(library: str, cache: Path) -> list[float]:
    """Of kernels of a changed source, one for each order: the largest difference."""
    rows = HostKernel(library, "sum_block", cache)
    columns = HostKernel(library, "sum_columns", cache)
    errors = []
    for order in ORDERS:
        error = 0.0
        for kernel in (rows, columns):
            kernel.seed(order)
        for n, threads in ((1000, 128), (33, 64), (2049, 1024)):
            x, out = values((6, n), "float32", scale=30), np.full(6, np.nan, np.float32)
            numbers = (I64(6), I64(n), I64(n), np.float32(1), I32(0))
            rows((2, 1, 1), (threads, 1, 1), (x, out, *numbers))
            error = max(error, np.nan_to_num(np.abs(out - x.sum(1)), nan=np.inf).max())
        x, out = values((6, 70, 8), "float32", scale=30), np.full((6, 8), np.nan, np.float32)
        numbers = (I64(6), I64(70), I64(8), I64(70), np.float32(1))
        columns((1, 1, 2), (32, 16, 1), (x, out, *numbers))
        error = max(error, np.nan_to_num(np.abs(out - x.sum(1)), nan=np.inf).max())
        errors.append(float(error))
    return errors


def test_all_barriers_are_enough(tmp_path: Path) -> None:
    assert max(largest_errors(SOURCE, tmp_path)) < 1e-2


@pytest.mark.parametrize("barrier", range(BARRIERS))
def test_a_missing_barrier_is_noticed_in_every_order(barrier: int, tmp_path: Path) -> None:
    place = list(BARRIER.finditer(SOURCE))[barrier]
    errors = largest_errors(SOURCE[: place.start()] + SOURCE[place.end() :], tmp_path)
    assert min(errors) > 1e-2, errors
