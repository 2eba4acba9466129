"""Different values, by table and by order: native = plain NumPy."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from shmtensor import native

from .cases import each

RNG = np.random.default_rng(13)
TYPES = ("f4", "f8", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "?")


def check(x: Any) -> None:
    expected = np.unique(x, return_inverse=True, return_counts=True)
    found = native.unique_values(x)
    assert found is not None
    values, inverse, counts = found
    np.testing.assert_array_equal(native.distinct(x), expected[0], strict=True)
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


def test_any_layout_and_what_is_left_to_numpy() -> None:
    x = RNG.integers(0, 9, (70, 80))
    for y in (x.T, x[::-1], x[:, ::3], np.broadcast_to(x[0], (5, 80))):
        check(y)
    x = np.array([1.0, np.nan, 2.0])
    assert native.distinct(x) is None
    assert native.unique_values(x) is None
    assert native.unique_values(np.ones((2, 2)), 0) is None
    assert native.unique_values(np.ones(3, "f2")) is None
