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
SHAPES = [(5,), (3, 4), (2, 3, 4), (1, 6), (6, 1), (300, 70), (70, 300), (2, 200, 90), (1, 40_000)]


def draw(shape: Any, dtype: str) -> Any:
    return RNG.integers(0, 100, shape).astype(dtype)


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


@each(("shape", "dtype"), itertools.product(SHAPES, ("f4", "f8", "i1", "u1", "i4", "i8")))
def test_scatter_is_one_after_the_other(shape: tuple[int, ...], dtype: str) -> None:
    for dim, n in itertools.product(range(len(shape)), (0, 1, 7)):
        index = RNG.integers(0, shape[dim], around(shape, dim, n))
        source = draw(index.shape, dtype)
        for add in (False, True):
            out = draw(shape, dtype)
            expected = out.copy()
            assert native.scatter(out, source, index, dim, add)
            place = tuple(np.indices(index.shape, sparse=True))
            at = (*place[:dim], index, *place[dim + 1 :])
            if add:
                np.add.at(expected, at, source)
            else:
                for i in range(n):  # NumPy promises no order
                    one = (slice(None),) * dim + (slice(i, i + 1),)
                    np.put_along_axis(expected, index[one], source[one], dim)
            np.testing.assert_array_equal(out, expected)
        for mode, ufunc in ((2, np.multiply), (3, np.maximum), (4, np.minimum)):
            out = draw(shape, dtype)
            expected, part = out.copy(), source.copy()
            if dtype[0] == "f" and n:
                part.reshape(-1)[::3] = np.nan
            assert native.scatter(out, part, index, dim, mode)
            with np.errstate(invalid="ignore"):
                ufunc.at(expected, at, part)
            np.testing.assert_array_equal(out, expected)
        rows, out = RNG.integers(0, shape[dim], n), draw(shape, dtype)
        expected = out.copy()
        assert native.index_add(out, source, rows, dim)
        np.add.at(expected, (slice(None),) * dim + (rows,), source)
        np.testing.assert_array_equal(out, expected)


@each(("shape", "dtype"), itertools.product(SHAPES, ("f4", "f8", "i1", "i8")))
def test_with_a_base_the_result_begins_as_its_copy(shape: tuple[int, ...], dtype: str) -> None:
    base = draw(shape, dtype)
    for dim, n, add in itertools.product(range(len(shape)), (0, 1, 40), (False, True)):
        index = RNG.integers(0, shape[dim], around(shape, dim, n))
        source = draw(index.shape, dtype)
        expected, out = base.copy(), np.empty_like(base)
        assert native.scatter(expected, source, index, dim, add)
        assert native.scatter(out, source, index, dim, add, base)
        np.testing.assert_array_equal(out, expected)
        if n:
            index.reshape(-1)[-1] = shape[dim]
            assert not native.scatter(out, source, index, dim, add, base)
        rows = RNG.integers(0, shape[dim], n)
        expected, out = base.copy(), np.empty_like(base)
        assert native.index_add(expected, source, rows, dim)
        assert native.index_add(out, source, rows, dim, base)
        np.testing.assert_array_equal(out, expected)


def test_the_same_bits_on_any_number_of_threads() -> None:
    x = RNG.normal(size=(60, 300)).astype("f4")
    index, rows = RNG.integers(0, 60, (500, 300)), RNG.integers(0, 60, 5000)
    source, slices = RNG.normal(size=(500, 300)).astype("f4"), x[rows] * 0.3
    before = native.get_num_threads()
    results = []
    try:
        for n in (1, 2, 3):
            native.set_num_threads(n)
            for dim, i, v in ((0, index, source), (1, index.T.copy(), source.T.copy())):
                base = x if dim == 0 else x.T.copy()
                out = np.empty_like(base)
                assert native.scatter(out, v, i, dim, 1, base)
                results.append(out if dim == 0 else out.T)
            out = np.empty_like(x)
            assert native.index_add(out, slices, rows, 0, x)
            results.append(out)
    finally:
        native.set_num_threads(before)
    for k in range(3):
        np.testing.assert_array_equal(results[k], results[k + 3])
        np.testing.assert_array_equal(results[k], results[k + 6])
    np.testing.assert_array_equal(results[0], results[1])  # by rows and by columns


def test_add_at_is_numpys() -> None:
    for dtype in ("f4", "f8", "i2", "i8"):
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


@each("dtype", ["c8", "c16", "?", "i1", "i4", "i8"])
def test_complex_numbers_and_bools_are_added(dtype: str) -> None:
    rng = np.random.default_rng(8)
    for shape, count, dim in [((7,), 20, 0), ((50, 90), 300, 0), ((90, 50), 300, 1)]:
        size = 2**62 if dtype == "i8" else 120  # so that sums wrap

        def draw(shape: tuple[int, ...], size: int = size) -> np.ndarray:
            x = rng.integers(-size, size, shape)
            y = 1j * rng.integers(-size, size, shape) if dtype[0] == "c" else 0
            return (x + y if dtype[0] == "c" else x * rng.integers(0, 2, shape)).astype(dtype)

        x, source = draw(shape), draw((*shape[:dim], count, *shape[dim + 1 :]))
        index = rng.integers(0, shape[dim], count)
        mesh = np.broadcast_to(
            np.moveaxis(index.reshape(-1, *(1,) * (len(shape) - 1)), 0, dim), source.shape
        )
        want, out = x.copy(), np.empty_like(x)
        np.add.at(want, (slice(None),) * dim + (index,), source)
        assert native.index_add(out, source, index, dim, x)
        np.testing.assert_array_equal(out, want, strict=True)
        assert native.scatter(out, source, mesh.copy(), dim, 1, x)
        np.testing.assert_array_equal(out, want, strict=True)
        if len(shape) == 1:
            out = x.copy()
            assert native.add_at(out, index, source)
            np.testing.assert_array_equal(out, want, strict=True)


@each("dtype", ["f4", "f8", "i2", "u1", "i8"])
@each(("mode", "join"), [(1, np.add), (2, np.multiply), (3, np.maximum), (4, np.minimum)])
def test_slices_are_joined_one_after_the_other(mode: int, join: Any, dtype: str) -> None:
    rng = np.random.default_rng(6)
    for shape, count, dim in [
        ((7,), 20, 0),
        ((50, 90), 300, 0),
        ((90, 50), 300, 1),
        ((3, 5, 7), 9, 1),
    ]:
        x = rng.integers(1, 5, shape).astype(dtype)
        source = rng.integers(1, 3, (*shape[:dim], count, *shape[dim + 1 :])).astype(dtype)
        if dtype[0] == "f":
            source.flat[:: source.size // 7] = np.nan
        index = rng.integers(0, shape[dim], count)
        want, out = x.copy(), np.empty_like(x)
        with np.errstate(all="ignore"):
            join.at(want, (slice(None),) * dim + (index,), source)
        assert native.index_add(out, source, index, dim, x, mode)
        np.testing.assert_array_equal(out, want)
    with pytest.raises(RuntimeError, match="unknown reduction: 0"):
        native.index_add(x, source, index, dim, None, 0)
