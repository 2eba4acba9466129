"""Sorting, the k largest, ranks: native = NumPy's stable sort, NaN the largest."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from shmtensor import native

from ...cases import each

RNG = np.random.default_rng(5)
TYPES = ("f4", "f8", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "?")
SHAPES = [(1,), (7,), (60,), (600,), (3, 4), (5, 1), (2, 3, 40), (50, 700), (700, 3), (70_000,)]
CASES = list(itertools.product(SHAPES, TYPES))
# Two rows for all threads, transposed rows.
CASES += itertools.product([(2, 32_768), (400, 50)], ("f4", "i8"))


def draw(shape: tuple[int, ...], dtype: str) -> Any:
    x = RNG.normal(size=shape) * 20
    if dtype[0] == "f":
        x = x.round(0).astype(dtype)  # many equal elements, with -0.0
        x.reshape(-1)[RNG.integers(0, x.size, x.size // 20)] = np.nan
        x.reshape(-1)[RNG.integers(0, x.size, x.size // 50)] = np.inf
        x.reshape(-1)[RNG.integers(0, x.size, x.size // 50)] = -np.inf
        return x
    if dtype[0] == "u":
        x = np.abs(x)
    if dtype == "?":
        return x > 3
    x = x.astype(dtype)
    info = np.iinfo(dtype)
    x.reshape(-1)[:1], x.reshape(-1)[-1:] = info.min, info.max
    return x


def order(x: Any, dim: int, descending: bool) -> Any:
    if not descending:
        return np.argsort(x, dim, kind="stable")
    return x.shape[dim] - 1 - np.flip(np.argsort(np.flip(x, dim), dim, kind="stable"), dim)


def check(result: Any, x: Any, want: Any, dim: int) -> None:
    values, indices = result
    np.testing.assert_array_equal(indices, want, strict=True)
    np.testing.assert_array_equal(values, np.take_along_axis(x, want, dim), strict=True)


@each(("shape", "dtype"), CASES)
def test_sort_and_topk_are_numpys(shape: tuple[int, ...], dtype: str) -> None:
    x = draw(shape, dtype)
    for dim, descending in itertools.product(range(-1, x.ndim), (False, True)):
        indices = order(x, dim, descending)
        check(native.sort(x, dim, descending), x, indices, dim)
        for k in {0, 1, shape[dim] // 10, shape[dim] // 3, shape[dim]}:
            if k <= shape[dim]:
                first = np.take(indices, np.arange(k), dim)
                check(native.topk(x, k, dim, descending), x, first, dim)
        for k in (1, shape[dim] // 2 + 1, shape[dim]):
            check(native.kthvalue(x, k, dim), x, np.take(order(x, dim, False), [k - 1], dim), dim)


@each(("shape", "dtype"), itertools.product(SHAPES, ("f4", "f8", "i8")))
def test_medians(shape: tuple[int, ...], dtype: str) -> None:
    x = draw(shape, dtype)
    for dim in range(x.ndim):
        indices, n = order(x, dim, False), shape[dim]
        nans = (x != x).sum(dim, keepdims=True)
        middle = np.where(nans > 0, n - nans, (n - 1) // 2)
        check(native.kthvalue(x, -1, dim), x, np.take_along_axis(indices, middle, dim), dim)
        part = np.maximum(n - nans - 1, 0) // 2
        check(native.kthvalue(x, -2, dim), x, np.take_along_axis(indices, part, dim), dim)


def test_any_layout() -> None:
    x = draw((40, 60), "f4")
    for y in (x.T, x[::-1], x[:, ::3], np.asfortranarray(x)):
        for dim in (0, 1):
            check(native.sort(y, dim, False), y, order(y, dim, False), dim)


def test_empty_and_rare() -> None:
    values, indices = native.sort(np.zeros((0, 3), "f4"), 0, False) or (None, None)
    assert values is not None
    assert values.shape == (0, 3)
    assert indices.shape == (0, 3)
    assert native.sort(np.zeros((), "f4"), 0, False) is None
    assert native.sort(np.zeros(3, "f2"), 0, False) is None
    assert native.topk(np.zeros(3, "f4"), 4, 0, True) is None
    assert native.kthvalue(np.zeros(3, "f4"), 0, 0) is None
    assert native.kthvalue(np.zeros((2, 0), "f4"), 1, 1) is None


def test_long_rows_of_whole_numbers_far_apart() -> None:
    for low, high in ((-(2**62), 2**62), (5, 6), (-500, 500), (0, 2**33), (2**62, 2**62 + 2**12)):
        x = RNG.integers(low, high, 40_000)
        for descending in (False, True):
            check(native.sort(x, 0, descending), x, order(x, 0, descending), 0)
            check(native.topk(x, 100, 0, descending), x, order(x, 0, descending)[:100], 0)
        for k in (1, 20_000, 40_000):
            check(native.kthvalue(x, k, 0), x, order(x, 0, False)[k - 1 : k], 0)


def test_k_larger_than_a_chunk_keeps() -> None:
    x = draw((140_000,), "f4")
    for k in (2047, 2048, 2049, 60_000):
        for largest in (False, True):
            check(native.topk(x, k, 0, largest), x, order(x, 0, largest)[:k], 0)
