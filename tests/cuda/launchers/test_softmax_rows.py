"""softmax and log_softmax on a device, along any dimension, and their gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.cuda.kernels.check import values
from tests.cuda.kernels.rows import compare, device_forward

SHAPES = [
    ((), 0),
    ((0, 3), 1),
    ((3, 0), 1),
    ((5, 7), 1),
    ((5, 7), 0),
    ((2, 100), -1),
    ((3, 1000), 1),
    ((2, 1500), 1),
    ((2, 12000), 1),
    ((2, 3, 70), 1),
    ((2, 200, 3), 1),
    ((4, 2, 3, 5), -2),
]


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
@pytest.mark.parametrize(("shape", "dim"), SHAPES, ids=str)
def test_values_and_gradients(cp: Any, shape: tuple[int, ...], dim: int, dtype: str) -> None:
    x, g = values(shape, dtype, 0, 3.0), values(shape, dtype, 1)
    for row in ("_softmax", "_log_softmax"):
        compare(cp, row, (x,), (dim,))
        y = np.abs(x) / 10
        compare(cp, f"{row}_backward_data", (g, y), (dim,), 1e-2 if dtype == "float16" else 3e-4)


def test_complex_numbers_take_the_rows_forward(cp: Any) -> None:
    y = values((2, 3), "float32").astype(np.complex64)
    compare(cp, "_softmax_backward_data", (y, y), (1,))


def test_a_dimension_that_is_not_there(cp: Any) -> None:
    with pytest.raises(IndexError, match="3"):
        device_forward("_softmax")(cp, cp.ones((2, 3), np.float32), 3)


def test_memory_that_is_not_aligned(cp: Any) -> None:
    from shmtensor.ops.cuda.reduce import sum_of_dims

    x = values((4, 64), "float32")
    place = cp.zeros(257, np.float32)
    shifted = place[1:].reshape(4, 64)
    shifted[...] = cp.asarray(x)
    assert shifted.data.ptr % 16
    for row in ("_softmax", "_log_softmax"):
        forward = device_forward(row)
        wanted = forward(cp, cp.asarray(x), 1).get()
        np.testing.assert_allclose(forward(cp, shifted, 1).get(), wanted, 1e-6)
    for dim in (None, 0, 1):
        np.testing.assert_allclose(sum_of_dims(shifted, dim).get(), x.sum(dim), 1e-5, 1e-5)
