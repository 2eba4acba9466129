"""unique by a hash table and by sorting: native = plain NumPy."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from shmtensor import native
from shmtensor.ops import ROWS
from shmtensor.ops.sort.sort_topk_median import mode_kernel

from ...cases import each

RNG = np.random.default_rng(13)
TYPES = ("f4", "f8", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "?")


def check_runs(x: Any) -> None:
    flat = x.reshape(-1)
    first = np.append(np.ones(min(1, flat.size), bool), flat[1:] != flat[:-1])
    values, inverse, counts = native.unique_consecutive(x) or ()
    np.testing.assert_array_equal(values, flat[first], strict=True)
    np.testing.assert_array_equal(native.unique_consecutive_values(x), flat[first], strict=True)
    np.testing.assert_array_equal(inverse, np.cumsum(first).reshape(x.shape) - 1, strict=True)
    np.testing.assert_array_equal(counts, np.diff(np.flatnonzero(first), append=flat.size))


def check(x: Any) -> None:
    check_runs(x)
    expected = np.unique(x, return_inverse=True, return_counts=True)
    result = native.unique2(x)
    assert result is not None
    values, inverse, counts = result
    if x.dtype.kind == "f" and x.size > 4096:
        assert native.unique(x) is None  # NumPy sorts them faster
    else:
        np.testing.assert_array_equal(native.unique(x), expected[0], strict=True)
    np.testing.assert_array_equal(values, expected[0], strict=True)
    np.testing.assert_array_equal(inverse, expected[1].reshape(x.shape), strict=True)
    np.testing.assert_array_equal(counts, expected[2], strict=True)


@each(("n", "dtype"), itertools.product((0, 1, 2, 300, 4096, 4097, 70_000, 200_000), TYPES))
def test_distinct_values_are_numpys(n: int, dtype: str) -> None:
    few = RNG.integers(0, 100, n).astype(dtype)
    check(few)
    if dtype == "?":
        return
    if dtype[0] == "f":
        check((RNG.normal(size=n) * 50).round(1).astype(dtype))
        return
    info = np.iinfo(dtype)
    wide = RNG.integers(info.min, info.max, n, dtype, endpoint=True)
    if n:
        wide[0], wide[-1] = info.min, info.max
    check(wide)


def test_any_layout_and_cases_left_to_numpy() -> None:
    x = RNG.integers(0, 9, (70, 80))
    for y in (x.T, x[::-1], x[:, ::3], np.broadcast_to(x[0], (5, 80))):
        check(y)
    x = np.array([1.0, np.nan, 2.0])
    assert native.unique(x) is None
    assert native.unique2(x) is None
    assert native.unique2(np.ones((2, 2)), 0) is None
    assert native.unique2(np.ones(3, "f2")) is None


@each("dtype", TYPES)
def test_the_most_frequent_is_found_in_sorted_rows(dtype: str) -> None:
    mode = ROWS["mode"]
    for shape in ((1,), (50,), (300, 1), (300, 40), (40, 300), (3, 20_000), (4, 5, 6)):
        x = RNG.integers(0, 2 if dtype == "?" else 9, shape).astype(dtype)
        if dtype[0] == "f":
            x.flat[:: max(4, x.size // 5)] = np.nan
        for y, dim in itertools.product((x, x.T, x[::-1]), (-1, 0)):
            for keepdim in (False, True):
                want = mode.forward(np, y, dim, keepdim)
                got = mode_kernel(y, dim, keepdim)
                assert got is not None
                for a, b in zip(got, want, strict=True):
                    np.testing.assert_array_equal(a, b, strict=True)
    assert native.longest_runs(np.ones((3, 0))) is None
    assert native.longest_runs(np.ones((3, 4)).T) is None
    assert native.longest_runs(np.ones(3, "c8")) is None


def test_runs_of_any_length() -> None:
    for n in (1, 65_536, 65_537, 200_000):
        for most in (1, 2, 9, 1000):
            lengths = RNG.integers(1, most + 1, 3 * n // most + 3)
            check_runs(np.arange(lengths.size).repeat(lengths)[:n])
        check_runs(np.zeros(n))
        check_runs(np.arange(n))
    x = np.array([0.0, -0.0, np.nan, np.nan, 1, 1])
    check_runs(x)
    check_runs(-x)
    assert np.signbit(native.unique_consecutive_values(-x)[0])
    assert native.unique_consecutive_values(np.ones(3, "f2")) is None
    assert native.unique_consecutive(np.ones((2, 2)), 0) is None
