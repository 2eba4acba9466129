"""searchsorted and bincount: native = plain NumPy, NaN the largest."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from shmtensor import native
from shmtensor.ops import ROWS

from ...cases import each

RNG = np.random.default_rng(9)
TYPES = ("f4", "f8", "i1", "u1", "i4", "u4", "i8", "u8", "?")


def draw(shape: Any, dtype: str) -> Any:
    x = RNG.integers(-40 if dtype[0] in "fi" else 0, 40, shape).astype(dtype)
    if dtype[0] == "f":
        flat = x.reshape(-1)
        for value in (np.nan, np.inf, -np.inf, -0.0):
            flat[RNG.integers(0, flat.size, flat.size // 30)] = value
    return x


@each(("m", "dtype"), itertools.product((0, 1, 2, 3, 17, 1000), TYPES))
def test_sought_is_numpys(m: int, dtype: str) -> None:
    s = np.sort(draw(m, dtype))
    for shape, side in itertools.product(((), (1,), (15,), (5, 1000), (7001,)), ("left", "right")):
        x = draw(shape, dtype)
        result = native.searchsorted(s, x, None, side)
        np.testing.assert_array_equal(result, np.searchsorted(s, x, side), strict=True)


def test_sought_in_rows_of_any_layout() -> None:
    s = np.sort(draw((6, 50), "f4"))
    x = draw((1000, 6), "f4").T
    for side in ("left", "right"):
        result = native.searchsorted(s, x, None, side)
        expected = [np.searchsorted(row, values, side) for row, values in zip(s, x, strict=True)]
        np.testing.assert_array_equal(result, expected)
        strided = native.searchsorted(s[0, ::2], x, None, side)
        np.testing.assert_array_equal(strided, np.searchsorted(s[0, ::2], x, side))


def test_cases_left_to_numpy() -> None:
    s, x = np.arange(5.0), np.ones(3)
    assert native.searchsorted(s, x.astype("f4"), None, "left") is None
    assert native.searchsorted(s, x, np.arange(5), "left") is None
    assert native.searchsorted(np.ones((2, 5)), np.ones((3, 4)), None, "left") is None
    assert native.searchsorted(np.zeros(5000), x, None, "left") is None  # few searches in many
    assert native.searchsorted(s.astype("f2"), x.astype("f2"), None, "left") is None


def test_occurrences_are_numpys() -> None:
    for n, high in itertools.product((1, 100, 65_536, 70_001, 600_000), (1, 9, 1000, 50_000)):
        x = RNG.integers(0, high, n)
        for least in (0, 5, 2000):
            expected = np.bincount(x, minlength=least)
            np.testing.assert_array_equal(native.bincount(x, None, least), expected, strict=True)
        np.testing.assert_array_equal(
            native.bincount(x.repeat(2)[::2], None, 0), np.bincount(x), strict=True
        )
    x[-1] = -1
    assert native.bincount(x, None, 0) is None
    assert native.bincount(x[:0], None, 0) is None
    assert native.bincount(np.full(70_000, 2**40), None, 0) is None


@each(("bins", "dtype"), itertools.product((1, 7, 100, 3000), ("f4", "f8")))
def test_bars_are_numpys(bins: int, dtype: str) -> None:
    for n in (0, 5, 70_001):
        x = RNG.normal(size=n).astype(dtype)
        x[: n // 50] = np.nan
        x[n // 50 : n // 25] = np.round(x[n // 50 : n // 25])  # on the edges themselves
        for low, high in ((-1.0, 1.0), (0.0, 2.0), (-3.0, 3.0)):
            edges = np.linspace(low, high, bins + 1, dtype=dtype)
            want = np.histogram(x[~np.isnan(x)], bins, (low, high))[0]
            np.testing.assert_array_equal(native.histogram(x, edges), want)
    assert native.histogram(np.ones(3, "i8"), np.ones(2)) is None
    assert native.histogram(np.ones(3), np.ones(1)) is None


@each("dtype", ["f4", "f8", "i1", "u1", "i4", "i8", "f2"])
def test_membership_is_numpys(dtype: str) -> None:
    rng = np.random.default_rng(4)
    among = ROWS["_isin"]
    for shape, n in (((0,), 3), ((5,), 0), ((), 4), ((7,), 1), ((300, 40), 9), ((20_000,), 5000)):
        x = rng.integers(0, 100, shape).astype(dtype)
        tests = rng.integers(0, 120, (n, 1)).astype(dtype)
        if dtype[0] == "f":
            x, tests = np.where(x < 5, np.nan, x), np.where(tests > 110, np.inf, tests)
            x, tests = x.astype(dtype), tests.astype(dtype)
        for candidates in (
            tests,
            np.append(tests, [np.nan]).astype(dtype) if dtype[0] == "f" else tests,
        ):
            want = np.isin(x, candidates)
            np.testing.assert_array_equal(among.numpy(x, candidates), want, strict=True)
            np.testing.assert_array_equal(among.numpy(x.T, candidates, True), ~want.T, strict=True)
    np.testing.assert_array_equal(among.numpy(np.arange(4), np.array([1.0, 2.5])), [0, 1, 0, 0])
