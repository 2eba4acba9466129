"""pooling.cu on the host, beside the forwards of the rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from shmtensor.ops import ROWS
from tests.cuda.kernels.check import TOLERANCE, check, host_kernel, values

# size, kernel, stride, padding, dilation
CASES: list[tuple[tuple[int, ...], ...]] = [
    ((1, 1, 7), (1, 1, 2), (1, 1, 2), (0, 0, 0), (1, 1, 1)),
    ((1, 6, 7), (1, 3, 2), (1, 2, 1), (0, 1, 1), (1, 1, 1)),
    ((1, 6, 7), (1, 2, 3), (1, 1, 2), (0, 1, 2), (1, 2, 2)),
    ((1, 9, 8), (1, 2, 2), (1, 3, 4), (0, 0, 0), (1, 1, 1)),
    ((3, 4, 5), (2, 2, 3), (1, 2, 2), (1, 0, 1), (1, 1, 1)),
]
ONES = (1, 1, 1)


def numbers(total: int, size: Any, fit: Any, case: Any) -> list[Any]:
    _, kernel, stride, padding, dilation = case
    return [np.int64(v) for v in (total, *size, *fit, *kernel, *stride, *padding, *dilation)]


@pytest.mark.parametrize("bits", [32, 64])
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_max_pool(case: Any, dtype: str, bits: int) -> None:
    size, *windows = case
    x = values((2, 3, *size), dtype)
    x[0, 0], x[0, 1, ..., ::2] = -np.inf, np.nan
    best, places = ROWS["_max_pool"].forward(np, x, *windows, False)
    arguments = [x, np.zeros_like(best), np.full_like(places, 7)]
    total = numbers(best.size, size, best.shape[2:], case)
    kernel = host_kernel("pooling", dtype, f"max_pool_{bits}")
    check(kernel, 2, 32, [*arguments, *total], [(arguments[1], best), (arguments[2], places)])

    g, out = values(best.shape, dtype, 1), np.zeros_like(x)
    expected = ROWS["_max_pool_backward"].forward(np, g, places, size, *windows)
    total = numbers(x.size, size, best.shape[2:], case)
    kernel = host_kernel("pooling", dtype, f"max_pool_backward_{bits}")
    check(kernel, 2, 32, [g, places, out, *total], [(out, expected)], 4 * TOLERANCE[dtype])


@pytest.mark.parametrize("bits", [32, 64])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("case", [c for c in CASES if c[-1] == ONES], ids=str)
def test_sum_pool(case: Any, dtype: str, bits: int) -> None:
    size, kernel_size, stride, padding, _ = case
    x = values((2, 3, *size), dtype)
    expected = ROWS["_sum_pool"].forward(np, x, kernel_size, stride, padding, False)
    out = np.zeros_like(expected)
    total = numbers(out.size, size, out.shape[2:], case)
    kernel = host_kernel("pooling", dtype, f"sum_pool_{bits}")
    check(kernel, 2, 32, [x, out, *total], [(out, expected)], TOLERANCE[dtype])

    g, gradient = values(out.shape, dtype, 1), np.zeros_like(x)
    windows = kernel_size, stride, padding, False
    expected = ROWS["_sum_pool_backward"].forward(np, g, size, *windows)
    total = numbers(x.size, size, out.shape[2:], case)
    kernel = host_kernel("pooling", dtype, f"sum_pool_backward_{bits}")
    check(kernel, 2, 32, [g, gradient, *total], [(gradient, expected)], TOLERANCE[dtype])
