"""Cumulative sums, products, maxima and minima: native = plain NumPy."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from shmtensor import native

from ...cases import each

RNG = np.random.default_rng(11)
SHAPES = [(1,), (9,), (3, 4), (1, 5), (2, 3, 4), (0, 3), (3, 0), (50, 700), (700, 50), (30_000,)]
SHAPES += [(70_000,), (2, 65_536), (101, 131)]


def draw(shape: tuple[int, ...], dtype: str) -> Any:
    return RNG.integers(-3, 4, shape).astype(dtype)


TYPES = ("f4", "f8", "?", "i1", "u1", "i2", "i4", "i8", "u8")


@each(("shape", "dtype"), itertools.product(SHAPES, TYPES))
def test_running_sums_and_products_are_numpys(shape: tuple[int, ...], dtype: str) -> None:
    """Those of integers are int64."""
    x = draw(shape, dtype)
    ones = np.where(x == 0, 1, np.sign(x)).astype(dtype) if dtype[0] == "f" else x
    wide = dtype if dtype[0] == "f" else np.int64
    for dim in range(-1, x.ndim):
        for a, y, product in ((x, x.cumsum, False), (ones, ones.cumprod, True)):
            want = y(dim, dtype=wide)
            for layout in (a, np.asfortranarray(a)):
                got = native.cumsum_cumprod(layout, dim, product)
                np.testing.assert_array_equal(got, want, strict=True)


def test_integers_wrap_around() -> None:
    x = np.array([2**62, 2**62, 2**62], np.int64)
    np.testing.assert_array_equal(native.cumsum_cumprod(x, 0, False), x.cumsum())
    np.testing.assert_array_equal(native.cumsum_cumprod(x, 0, True), x.cumprod())


def test_a_long_float32_sum_is_as_good_as_a_float64_one() -> None:
    x = RNG.random(200_000).astype("f4")
    result = native.cumsum_cumprod(x, 0, False)
    np.testing.assert_allclose(result, x.cumsum(dtype="f8"), 1e-7)


def test_long_sums_with_nan_or_overflow() -> None:
    x = np.ones(70_000)
    for values in ([np.inf], [np.inf, -np.inf], [np.nan], [1e308, 1e308, -1e308], [-1e308, 1e308]):
        x[40_000 : 40_000 + len(values)] = values
        with np.errstate(all="ignore"):
            np.testing.assert_array_equal(native.cumsum_cumprod(x, 0, False), x.cumsum())
    y = np.ones(70_000, "f4")
    y[40_000:40_002] = np.inf, -np.inf
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(native.cumsum_cumprod(y, 0, False), y.cumsum())


def test_products_near_zero_keep_float32s_smallest_numbers() -> None:
    x = np.full((6, 300), 0.5, "f4")
    expected = x.cumprod(1, dtype="f8").astype("f4")
    np.testing.assert_array_equal(native.cumsum_cumprod(x, 1, True), expected)
    assert 0 < expected[0, 145] < np.finfo("f4").tiny  # denormal, not flushed to 0


def so_far(x: Any, largest: bool) -> tuple[Any, Any]:
    """Along the last dimension, by definition."""
    values, indices = np.empty_like(x), np.empty(x.shape, np.int64)
    for i in np.ndindex(x.shape[:-1]):
        best = 0
        for k, v in enumerate(x[i]):
            now = x[i][best]
            if v != v or (v >= now if largest else v <= now):
                best = k
            values[(*i, k)], indices[(*i, k)] = x[i][best], best
    return values, indices


@each(("shape", "dtype"), itertools.product(SHAPES[:-6], ("f4", "f8", "i1", "u1", "i4", "i8", "?")))
def test_running_extremes_by_definition(shape: tuple[int, ...], dtype: str) -> None:
    x = draw(shape, dtype) if dtype[0] != "u" else abs(draw(shape, "i4")).astype(dtype)
    if dtype[0] == "f" and x.size > 5:
        x.reshape(-1)[5] = np.nan
    for dim, largest in itertools.product(range(x.ndim), (True, False)):
        result = native.cummax_cummin(x, dim, largest)
        assert result is not None
        expected = so_far(np.moveaxis(x, dim, -1), largest)
        for a, b in zip(result, expected, strict=True):
            np.testing.assert_array_equal(a, np.moveaxis(b, -1, dim), strict=True)


def test_any_layout_and_rare_cases() -> None:
    x = draw((40, 60), "f4")
    for y in (x.T, x[::-1], x[:, ::3]):
        np.testing.assert_array_equal(native.cumsum_cumprod(y, 0, False), y.cumsum(0))
    assert native.cumsum_cumprod(np.zeros((), "f4"), 0, False) is None
    assert native.cumsum_cumprod(np.zeros(3, "f2"), 0, True) is None
    assert native.cumsum_cumprod(np.zeros(3, "f2"), 0, False) is None
    assert native.cumsum_cumprod(np.zeros(3, "f4"), 1, False) is None
    assert native.cummax_cummin(np.zeros(3, "f2"), 0, True) is None


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_running_logarithms_of_sums(dtype: str) -> None:
    rng = np.random.default_rng(3)
    close = 2e-6 if dtype == "f4" else 1e-13
    for shape in ((1,), (500,), (20, 300), (300, 20), (5, 70, 6)):
        x = (rng.standard_normal(shape) * 40).astype(dtype)
        for dim in range(-x.ndim, x.ndim):
            for y in (x, x.copy("F")):
                result = native.logcumsumexp(y, dim)
                assert result is not None
                assert (result.shape, result.dtype) == (x.shape, x.dtype)
                expected = np.logaddexp.accumulate(x.astype("f8"), dim)
                np.testing.assert_allclose(result, expected, rtol=close, atol=close)
    inf, nan = np.inf, np.nan
    x = np.array([-inf, -inf, 1, -inf, inf, inf, 2, nan, 3, inf], dtype)
    result = native.logcumsumexp(x, 0)
    np.testing.assert_allclose(result, [-inf, -inf, 1, 1, inf, inf, inf, nan, nan, nan], rtol=1e-6)
    assert native.logcumsumexp(np.arange(3), 0) is None
