"""min, max, their indices and variances: native = plain NumPy, any dtype, layout and dimension."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from shmtensor import native

from ...cases import each

TYPES = ("f4", "f8", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "?")
SHAPES = [
    (1,),
    (7,),
    (3, 4),
    (1, 5),
    (5, 1),
    (2, 3, 4),
    (1000, 3),
    (3, 1000),
    (70_001,),
    (40, 2000),
    (3000, 10),  # many short rows are transposed into columns first
    (1100, 24),
    (40, 50, 3),
]


def draw(shape: tuple[int, ...], dtype: str) -> Any:
    rng = np.random.default_rng(7)
    if dtype == "?":
        return rng.random(shape) < 0.3
    if dtype[0] == "f":
        return rng.normal(size=shape).round(1).astype(dtype)  # rounded, for equal elements
    info = np.iinfo(dtype)
    return rng.integers(max(info.min, -50), min(info.max, 50), shape).astype(dtype)


def dims(x: Any) -> list[Any]:
    return [None, *range(-x.ndim, x.ndim)]


def same(a: Any, b: Any) -> None:
    assert a.dtype == b.dtype
    np.testing.assert_array_equal(a, b, strict=True)


@each(("shape", "dtype"), itertools.product(SHAPES, TYPES))
def test_extremes_are_numpys(shape: tuple[int, ...], dtype: str) -> None:
    x = draw(shape, dtype)
    for dim, keep in itertools.product(dims(x), (False, True)):
        for largest, value, place in ((True, np.max, np.argmax), (False, np.min, np.argmin)):
            same(native.minmax(x, dim, keep, largest), np.asarray(value(x, dim, keepdims=keep)))
            same(native.argminmax(x, dim, keep, largest), np.asarray(place(x, dim, keepdims=keep)))
            if dim is not None:
                v, p = native.minmax_dim(x, dim, keep, largest)
                same(v, np.asarray(value(x, dim, keepdims=keep)))
                same(p, np.asarray(place(x, dim, keepdims=keep)))


@pytest.mark.parametrize("shape", [(5, 300), (300, 5), (3, 70_000), (200_000,)])
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_the_first_nan_wins(shape: tuple[int, ...], dtype: str) -> None:
    x = draw(shape, dtype)
    rng = np.random.default_rng(0)
    x.reshape(-1)[rng.integers(0, x.size, 6)] = np.nan
    x.reshape(-1)[rng.integers(0, x.size, 3)] = np.inf
    with np.errstate(invalid="ignore"):
        for dim in dims(x):
            for largest, value, place in ((True, np.max, np.argmax), (False, np.min, np.argmin)):
                same(native.minmax(x, dim, False, largest), np.asarray(value(x, dim)))
                same(native.argminmax(x, dim, False, largest), np.asarray(place(x, dim)))


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_logarithms_of_sums_down_columns(dtype: str) -> None:
    close = 1e-6 if dtype == "f4" else 1e-14
    for shape in ((7, 100), (3, 50, 70), (30_000, 3), (1000, 65)):
        x = draw(shape, dtype) * 30
        dim = len(shape) - 2
        result = native.logsumexp(x, dim, False)
        expected = np.logaddexp.reduce(x.astype("f8"), dim)
        assert result is not None
        np.testing.assert_allclose(result, expected, rtol=close, atol=close)
    inf, nan = np.inf, np.nan
    x = np.array([[inf, -inf, -inf, nan, 1, inf], [-inf, -inf, 2, 5, nan, nan]], dtype)
    result = native.logsumexp(np.repeat(x, 20, 1), 0, False)
    np.testing.assert_allclose(result, np.repeat([inf, -inf, 2, nan, nan, nan], 20), rtol=1e-6)


def test_extremes_leave_rare_cases_to_numpy() -> None:
    assert native.minmax(np.zeros((2, 2), "f2"), None, False, True) is None
    assert native.minmax(np.zeros((2, 2), "c8"), None, False, True) is None
    assert native.minmax(np.zeros((0, 3), "f4"), 0, False, True) is None
    empty = native.minmax(np.zeros((0, 3), "f4"), 1, True, True)
    assert empty is not None
    assert empty.shape == (0, 1)
    assert native.minmax(np.zeros((2, 2)), 2, False, True) is None
    assert native.minmax(np.zeros((2, 2)), (0, 0), False, True) is None


@each(("shape", "dtype"), itertools.product([*SHAPES, (3, 5000, 4)], ("f4", "f8")))
def test_variance_is_numpys(shape: tuple[int, ...], dtype: str) -> None:
    x = draw(shape, dtype) + np.dtype(dtype).type(3)
    tolerance = 1e-5 if dtype == "f4" else 1e-12
    wide = x.astype("f8")
    for dim, keep, correction in itertools.product(dims(x), (False, True), (0, 1)):
        with np.errstate(all="ignore"):
            n = x.size if dim is None else x.shape[dim]
            away = wide - wide.mean(dim, keepdims=True)
            expected = np.asarray(
                (away * away).sum(dim, keepdims=keep) / np.float64(n - correction)
            )
            for root in (False, True):
                got = native.var(x, dim, correction, keep, root)
                assert got is not None
                assert got.dtype == x.dtype
                assert got.shape == expected.shape
                want = np.sqrt(expected) if root else expected
                np.testing.assert_allclose(got, want, tolerance, tolerance)
        if correction == 0:
            got = native.norm(x, dim, keep, 2)
            want = np.sqrt((wide * wide).sum(dim, keepdims=keep))
            np.testing.assert_allclose(got, want, tolerance, tolerance)
            got = native.norm(x - 3, dim, keep, 1)
            want = abs(wide - 3).sum(dim, keepdims=keep)
            np.testing.assert_allclose(got, want, tolerance, tolerance)
            got = native.logsumexp(x, dim, keep)
            want = np.log(np.exp(wide).sum(dim, keepdims=keep))
            np.testing.assert_allclose(got, want, tolerance, tolerance)


def test_variance_of_few_and_none() -> None:
    for x in (np.ones(1, "f4"), np.ones(0, "f4")):
        out = native.var(x, None, 1, False, False)
        assert out is not None
        assert np.isnan(out)
    two = native.var(np.array([1.0, 3.0], "f4"), None, 3, False, False)
    assert two is not None
    assert np.isinf(two)
