"""sum, mean and the gradient of broadcasting on a device: by our kernels and, else, by CuPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.cuda.kernels.check import values
from tests.cuda.kernels.rows import compare

SHAPES: list[tuple[tuple[int, ...], Any]] = [
    ((), None),
    ((), 0),
    ((0, 3), 0),
    ((3, 0), None),
    ((1, 1), 0),
    ((5, 7), None),
    ((5, 7), 0),
    ((5, 7), -1),
    ((5, 7), ()),
    ((70, 300), 0),
    ((70, 300), (0, 1)),
    ((3, 2000), 1),
    ((2000, 3), 0),
    ((300, 128), 1),
    ((2, 3, 4), 1),
    ((2, 3, 4), (0, 2)),
    ((2, 1, 4), (0, 2)),
    ((2, 3, 4, 5), (1, 3)),
    ((2, 3, 4, 5), (-4, 2, 3)),
    ((40000,), 0),
    ((3, 40000), 1),
    ((40000, 2), 0),
    ((1, 40000), None),
]
TOLERANCE = {"float16": 4e-3, "float32": 2e-5, "float64": 1e-11}


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
@pytest.mark.parametrize(("shape", "dim"), SHAPES, ids=str)
def test_sum_and_mean(cp: Any, shape: tuple[int, ...], dim: Any, dtype: str) -> None:
    x = np.asarray(values(shape, dtype) + np.dtype(dtype).type(0.25), dtype)
    for keepdim in (False, True):
        compare(cp, "sum", (x,), (dim, keepdim), TOLERANCE[dtype])
        if x.size:
            compare(cp, "mean", (x,), (dim, keepdim), TOLERANCE[dtype])


@pytest.mark.parametrize("name", ["sum", "mean"])
def test_wrong_dims_are_errors(cp: Any, name: str) -> None:
    from tests.cuda.kernels.rows import device_forward

    x = cp.ones((2, 3), np.float32)
    for dim in (2, (0, 0), (1, -1), (0, -3)):
        with pytest.raises((ValueError, IndexError)):
            device_forward(name)(cp, x, dim, False)


def test_mean_of_float16_does_not_overflow(cp: Any) -> None:
    x = np.full((64, 64), 60000, np.float16)
    compare(cp, "mean", (x,), (None, False), 1e-3)
    compare(cp, "mean", (x,), (0, False), 1e-3)


def test_integers_are_summed_as_int64(cp: Any) -> None:
    x = np.arange(12, dtype=np.int32).reshape(3, 4)
    compare(cp, "sum", (x,), (0, False))
    compare(cp, "sum", (x > 3,), (None, False))
    compare(cp, "sum", (x.astype(np.complex64),), (1, True))


def test_one_order_of_additions(cp: Any) -> None:
    """The same sum twice has the same bits."""
    from shmtensor.ops.cuda.reduce import sum_of_dims

    for shape, dim in (((50000,), None), ((40000, 2), 0), ((3, 5000), 1)):
        x = cp.asarray(values(shape, "float32"))
        assert (sum_of_dims(x, dim).get() == sum_of_dims(x.copy(), dim).get()).all()


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
@pytest.mark.parametrize(
    ("shape", "target"),
    [
        ((5, 7), (7,)),
        ((5, 7), (5, 1)),
        ((5, 7), (1, 1)),
        ((5, 7), ()),
        ((2, 3, 4, 5), (3, 1, 5)),
        ((2, 3, 4, 5), (2, 1, 4, 1)),
        ((5, 7), (5, 7)),
        ((1, 7), (7,)),
        ((0, 7), (7,)),
    ],
    ids=str,
)
def test_sum_to_size(cp: Any, shape: tuple[int, ...], target: tuple[int, ...], dtype: str) -> None:
    compare(cp, "_sum_to_size", (values(shape, dtype),), (target,), TOLERANCE[dtype])
