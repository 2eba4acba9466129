"""where, gather, scatter and slices at indices: native = plain NumPy, or left to it."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from shmtensor import native

from ...cases import each

RNG = np.random.default_rng(3)
TYPES = ("f4", "f8", "i1", "u1", "i2", "i4", "i8", "u8", "f2", "c8", "?")
SCATTERED = ("f4", "f8", "i1", "u1", "i2", "i4", "i8")
SHAPES = [(5,), (3, 4), (2, 3, 4), (1, 6), (6, 1), (300, 70), (70, 300), (2, 200, 90), (1, 40_000)]


def draw(shape: Any, dtype: str) -> Any:
    x = RNG.integers(0, 100, shape)
    return (x + 1j * RNG.integers(0, 100, shape) if dtype[0] == "c" else x).astype(dtype)


CHOICES = [
    ((3, 4), (3, 4), (3, 4)),
    ((4,), (3, 4), (3, 1)),
    ((3, 1), (), (4,)),
    ((), (2, 3), ()),
    ((200, 300), (300,), (200, 1)),
    ((300,), (200, 300), (200, 300)),
    ((2, 1, 5), (4, 1), (2, 4, 5)),
    ((0, 3), (0, 3), (3,)),
    ((100_003,), (100_003,), ()),
]


@each(("shapes", "dtype"), itertools.product(CHOICES, TYPES))
def test_choose_is_numpys_where(shapes: Any, dtype: str) -> None:
    c = RNG.random(shapes[0]) < 0.5
    x, y = draw(shapes[1], dtype), draw(shapes[2], dtype)
    np.testing.assert_array_equal(native.where(np.asarray(c), x, y), np.where(c, x, y), strict=True)


def test_choose_of_any_layout_and_of_numbers() -> None:
    c = RNG.random((60, 80)) < 0.5
    x, y = draw((80, 60), "f4").T, draw((120, 80), "f4")[::2]
    for a, b, d in ((c, x, y), (c.T.copy().T, y, x), (c[:, ::-1], x[::-1], y)):
        np.testing.assert_array_equal(native.where(a, b, d), np.where(a, b, d), strict=True)
    for a, b in ((x, 0.0), (1, x), (x, 2.5), (draw((60, 80), "i4"), 7), (c, True)):
        np.testing.assert_array_equal(native.where(c, a, b), np.where(c, a, b), strict=True)
    for a, b in ((draw((60, 80), "i4"), 2.5), (c, 3), (x, y.astype("f8")), (1, 2)):
        np.testing.assert_array_equal(native.where(c, a, b), np.where(c, a, b), strict=True)
    with pytest.raises(ValueError, match="broadcast"):
        native.where(c, x[:3], y)


def around(shape: tuple[int, ...], dim: int, n: int) -> tuple[int, ...]:
    return (*shape[:dim], n, *shape[dim + 1 :])


@each(("shape", "dtype"), itertools.product(SHAPES, TYPES))
def test_gather_and_take_are_numpys(shape: tuple[int, ...], dtype: str) -> None:
    x = draw(shape, dtype)
    for dim, n in itertools.product(range(x.ndim), (0, 1, 9)):
        index = RNG.integers(0, shape[dim], around(shape, dim, n))
        result = native.gather(x, index, dim)
        if x.itemsize > 8:
            assert result is None
        else:
            np.testing.assert_array_equal(result, np.take_along_axis(x, index, dim), strict=True)
        rows = RNG.integers(0, shape[dim], n)
        np.testing.assert_array_equal(
            native.take(x, rows, dim - x.ndim), x.take(rows, dim), strict=True
        )
        np.testing.assert_array_equal(native.take(x, rows.astype("i4"), dim), x.take(rows, dim))


MODES = {1: np.add, 2: np.multiply, 3: np.maximum, 4: np.minimum}


@each(("shape", "dtype"), itertools.product([*SHAPES, (50, 90)], [*SCATTERED, "c8", "c16", "?"]))
def test_scatter_and_index_add_are_one_after_the_other(shape: tuple[int, ...], dtype: str) -> None:
    """In place, and with a base, as whose copy the result begins."""
    base = draw(shape, dtype)
    for dim, n in itertools.product(range(base.ndim), (0, 1, 300 if base.size < 9000 else 7)):
        index = RNG.integers(0, shape[dim], around(shape, dim, n))
        rows = RNG.integers(0, shape[dim], n)
        source = draw(index.shape, dtype)
        if dtype[0] == "f":
            source.reshape(-1)[::3] = np.nan
        place = tuple(np.indices(index.shape, sparse=True))
        for mode, ufunc in MODES.items():
            if mode > 1 and dtype not in SCATTERED:
                continue
            scattered, added = base.copy(), base.copy()
            with np.errstate(all="ignore"):
                ufunc.at(scattered, (*place[:dim], index, *place[dim + 1 :]), source)
                ufunc.at(added, (slice(None),) * dim + (rows,), source)
            for start in (None, base):
                out = base.copy() if start is None else np.empty_like(base)
                assert native.scatter(out, source, index, dim, mode, start)
                np.testing.assert_array_equal(out, scattered)
                out = base.copy() if start is None else np.empty_like(base)
                assert native.index_add(out, source, rows, dim, start, mode)
                np.testing.assert_array_equal(out, added)
            if n:
                wrong = index.copy()
                wrong.reshape(-1)[-1] = shape[dim]
                assert not native.scatter(np.empty_like(base), source, wrong, dim, mode, base)
    with pytest.raises(RuntimeError, match="unknown reduction: 0"):
        native.index_add(base, source, rows, dim, None, 0)


@each(("shape", "dtype"), itertools.product(SHAPES, SCATTERED))
def test_the_last_of_several_values_stays(shape: tuple[int, ...], dtype: str) -> None:
    for dim, n in itertools.product(range(len(shape)), (0, 1, 7)):
        index = RNG.integers(0, shape[dim], around(shape, dim, n))
        source, base = draw(index.shape, dtype), draw(shape, dtype)
        expected, out, copy = base.copy(), base.copy(), np.empty_like(base)
        for i in range(n):  # NumPy promises no order
            one = (slice(None),) * dim + (slice(i, i + 1),)
            np.put_along_axis(expected, index[one], source[one], dim)
        assert native.scatter(out, source, index, dim, 0)
        assert native.scatter(copy, source, index, dim, 0, base)
        np.testing.assert_array_equal(out, expected)
        np.testing.assert_array_equal(copy, expected)


def test_add_at_is_numpys() -> None:
    for dtype in ("f4", "f8", "i1", "i2", "i4", "i8", "c8", "c16", "?"):
        out, indices, values = draw(50, dtype), RNG.integers(0, 50, 20_000), draw(20_000, dtype)
        expected = out.copy()
        np.add.at(expected, indices, values)
        assert native.add_at(out, indices, values)
        np.testing.assert_array_equal(out, expected)


def test_any_layout() -> None:
    x, index = draw((30, 40), "f4").T, RNG.integers(0, 40, (60, 30))[::2].T.copy().T
    index = np.asfortranarray(RNG.integers(0, 40, (9, 30)))
    np.testing.assert_array_equal(native.gather(x, index, 0), np.take_along_axis(x, index, 0))
    np.testing.assert_array_equal(native.take(x, index[:, 0], 0), x.take(index[:, 0], 0))
    out, expected = np.zeros((40, 30), "f4"), np.zeros((40, 30), "f4")
    source = draw((30, 9), "f4").T
    assert native.scatter(out, source, index, 0, 1)
    np.add.at(expected, (index, np.arange(30)), source)
    np.testing.assert_array_equal(out, expected)


def test_wrong_indices_and_rare_cases_change_nothing() -> None:
    x = draw((4, 5), "f4")
    original = x.copy()
    bad, good = np.array([[0, 1, 2, 4, -1]]), np.zeros((1, 5), np.int64)
    for index in (bad, bad + 1, good.astype("f4"), good[:, :4]):
        assert native.gather(x, index, 0) is None
        assert not native.scatter(x, np.ones(index.shape, "f4"), index, 0, 1)
    assert native.take(x, np.array([4]), 0) is None
    assert not native.index_add(x, np.ones((1, 5), "f4"), np.array([-1]), 0)
    assert not native.add_at(x.reshape(-1), np.array([20]), np.ones(1, "f4"))
    assert not native.scatter(x, np.ones((1, 5), "f8"), good, 0, 1)
    assert not native.scatter(x.T, np.ones((5, 1), "f4"), good.T, 1, 1)
    np.testing.assert_array_equal(x, original)


@each("dtype", ["f4", "f8", "i1", "u1", "i8", "?"])
def test_one_number_is_put_at_all_places(dtype: str) -> None:
    rng = np.random.default_rng(5)
    for shape, count, dim in [
        ((7,), 4, 0),
        ((300, 40), 9, 0),
        ((300, 40), 90, 1),
        ((3, 5, 7), 4, 1),
    ]:
        x = rng.integers(0, 2, shape).astype(dtype)
        index = rng.integers(0, shape[dim], (*shape[:dim], count, *shape[dim + 1 :]))
        want = x.copy()
        np.put_along_axis(want, index, 1, dim)
        out = np.empty_like(x)
        assert native.scatter(out, np.ones((), dtype), index, dim, 0, x)
        np.testing.assert_array_equal(out, want)
        index.flat[-1] = shape[dim]
        assert not native.scatter(out, np.ones((), dtype), index, dim, 0, x)
        assert not native.scatter(out, np.ones((), dtype), index * 0, dim, 1, x)
