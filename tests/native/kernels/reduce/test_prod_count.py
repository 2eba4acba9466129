"""Products, counts and sums of whole numbers, over any dimensions of any layout."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from shmtensor import native

from ...cases import each

WHOLE = ("i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "?")
CASES: list[tuple[tuple[int, ...], Any]] = [
    ((), None), ((0,), None), ((7,), 0), ((3, 4), None), ((3, 4), 0), ((3, 4), (0, 1)),
    ((2, 3, 4, 5), (0, 2)), ((2, 3, 4, 5), (3, 1)), ((0, 3), 0), ((3, 0), 1), ((3, 0), 0),
    ((1, 1), 0), ((70_001,), None), ((3000, 30), 0), ((30, 3000), 1), ((4, 200, 90), (0, 2)),
    ((333, 10), 1), ((130, 24), -1), ((5, 40, 3), (0, 2)),
]  # fmt: skip


def draw(shape: tuple[int, ...], dtype: str) -> Any:
    rng = np.random.default_rng(len(shape) + 5)
    if dtype == "?":
        return np.asarray(rng.random(shape) < 0.6)
    if dtype[0] == "f":
        return np.asarray(rng.choice([0.5, -1.0, 2.0, 1.0], shape)).astype(dtype)
    return np.asarray(rng.integers(-3 if dtype[0] == "i" else 0, 4, shape)).astype(dtype)


def layouts(x: Any) -> list[Any]:
    """The same shape in several memory layouts."""
    if not x.ndim:
        return [x]
    gaps = np.repeat(np.repeat(x, 2, 0)[::2], 3, -1)[..., ::3]
    transposed = np.moveaxis(np.ascontiguousarray(np.moveaxis(x, -1, 0)), 0, -1)
    return [x, np.asfortranarray(x), transposed, gaps, np.flip(np.flip(x).copy())]


def same(got: Any, want: Any) -> None:
    np.testing.assert_array_equal(got, np.asarray(want), strict=True)


@each("dtype", WHOLE)
def test_integers_give_an_int64(dtype: str) -> None:
    with np.errstate(over="ignore"):
        for (shape, dim), keep in itertools.product(CASES, (False, True)):
            for x in layouts(draw(shape, dtype)):
                same(native.sum(x, dim, keep), x.sum(dim, np.int64, keepdims=keep))
                same(native.prod(x, dim, keep), x.prod(dim, np.int64, keepdims=keep))
                same(native.count(x, dim, keep), (x != 0).sum(dim, np.int64, keepdims=keep))


@each("dtype", ["f2", "f4", "f8"])
def test_of_floating_numbers(dtype: str) -> None:
    for (shape, dim), keep in itertools.product(CASES, (False, True)):
        for x in layouts(draw(shape, dtype)):
            with np.errstate(all="ignore"):
                want = x.astype("f8").prod(dim, keepdims=keep).astype(dtype)
            same(native.prod(x, dim, keep), want)
            x = np.asarray(x - 1)
            same(native.count(x, dim, keep), (x != 0).sum(dim, np.int64, keepdims=keep))


@each("dtype", ["f4", "f8"])
def test_products_of_short_rows(dtype: str) -> None:
    for rows, m in itertools.product((16, 17, 23, 31, 5000), (1, 2, 10, 24)):
        x = np.random.default_rng(0).uniform(0.5, 2, (rows, m)).astype(dtype)
        want = x.astype("f8").prod(1).astype(dtype)
        np.testing.assert_allclose(native.prod(x, 1, False), want, 2e-7, strict=True)


def test_nan_counts_and_passes() -> None:
    for n in (3, 1000):
        x = np.ones((n, 2), "f4")
        x[1, 0] = np.nan
        assert np.isnan(native.prod(x, 0, False)).tolist() == [True, False]
        assert native.count(x, 0, False).tolist() == [n, n]
    x = np.array([0.0, np.inf], "f4")
    assert np.isnan(native.prod(x, 0, False))
    assert native.count(x, None, False) == 1


def test_products_of_double_keep_denormal_numbers() -> None:
    x = np.full(400, 1e-200)
    x[2:] = 1
    x[2:6] = 1e25
    assert native.prod(x[:6], 0, False) == pytest.approx(1e-300)
    x = np.array([1e-300, 1e-20])
    assert native.prod(x, 0, False) == 1e-300 * 1e-20 > 0


def test_other_dtypes_and_wrong_dims_are_left_to_the_caller() -> None:
    assert native.prod(np.ones(3, "g"), None, False) is None
    assert native.count(np.ones(3, "c8"), None, False) is None
    for dtype in ("f8", "c8"):
        assert native.prod(np.ones(3, dtype), 1, False) is None
    assert native.count(np.ones(3), (0, 0), False) is None


FACTORS = (4, 7, 24, 47, 48, 49, 255, 256, 300, 1000, 1024, 1100, 33_000)


@each("n", FACTORS)
def test_products_of_float32_are_nearly_those_of_double(n: int) -> None:
    """Short and long rows, and columns: factors near 1, whose roundings could accumulate."""
    rng = np.random.default_rng(n)
    x = np.exp(rng.standard_normal((20, n)) / n).astype("f4")
    want = x.astype("f8").prod(1)
    for got in (native.prod(x, 1, False), native.prod(x.T.copy(), 0, False)):
        np.testing.assert_allclose(got, want, rtol=1.01 * 2.0**-24)


@each("n", FACTORS)
def test_products_leave_the_range_of_float32_and_come_back(n: int) -> None:
    rng = np.random.default_rng(n)
    x = np.ones((40, n))
    x[:, :4] = [3e-30, 7e-15, 5e30, -1.1e14]
    x[1::2] = 1 / x[1::2]
    x = rng.permuted(x, axis=1).astype("f4")
    want = x.astype("f8").prod(1)
    for got in (native.prod(x, 1, False), native.prod(x.T.copy(), 0, False)):
        np.testing.assert_allclose(got, want, rtol=2e-6)


@each("n", FACTORS)
def test_products_with_nan_infinity_and_denormals(n: int) -> None:
    x = np.exp(np.random.default_rng(n).standard_normal((24, n)) / n).astype("f4")
    odd = np.array([0, -0.0, np.inf, -np.inf, np.nan, 1e-40], "f4")
    for i in range(18):
        x[i, (i * 7) % n] = odd[i % 6]
    x[3, -1] = 0  # inf * 0
    with np.errstate(all="ignore"):
        want = x.astype("f8").prod(1).astype("f4")
    some = np.abs(want) > 1e-37
    for got in (native.prod(x, 1, False), native.prod(x.T.copy(), 0, False)):
        np.testing.assert_array_equal(np.isnan(got), np.isnan(want))
        np.testing.assert_allclose(got[some], want[some], rtol=4e-6)
        np.testing.assert_allclose(got[~some], want[~some], atol=1e-37)
