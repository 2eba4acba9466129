"""x[i, j], x[mask] and nonzero: native = plain NumPy, at sizes around the thresholds."""

from __future__ import annotations

import ctypes
import itertools
import mmap
from typing import Any

import numpy as np
import pytest

from shmtensor import native
from tests.memory.fresh import Child

from ...cases import each

RNG = np.random.default_rng(7)
TYPES = ("f4", "f8", "i1", "i2", "i8", "?", "c8", "c16", "f2")
SIZES = (4095, 4096, 4097, 32_768, 70_001)


def draw(shape: Any, dtype: str) -> Any:
    return RNG.integers(-3, 3, shape).astype(dtype)


def compare(x: Any, index: Any) -> None:
    np.testing.assert_array_equal(native.item(x, index), x[index], strict=True)


@each(("n", "dtype"), itertools.product(SIZES, TYPES))
def test_masks(n: int, dtype: str) -> None:
    x = draw(n, dtype)
    for share in (0.0, 0.1, 0.5, 1.0):
        compare(x, RNG.random(n) < share)
        compare(x, (RNG.random(n) < share,))


def test_an_assignment_at_a_mask_writes_nothing_else() -> None:
    """Elements that the mask leaves out may be another process's to write."""
    pages = mmap.mmap(-1, 8 * mmap.PAGESIZE)
    memory = np.frombuffer(pages, np.uint8)
    mprotect = ctypes.CDLL(None, use_errno=True).mprotect
    half = ctypes.c_void_p(memory.ctypes.data + 4 * mmap.PAGESIZE)

    def assign() -> int:
        assert mprotect(half, ctypes.c_size_t(4 * mmap.PAGESIZE), 1) == 0  # readable only
        for dtype in ("u1", "f4", "f8"):
            x = memory.view(dtype)
            mask = np.zeros(x.shape, bool)
            mask[: x.size // 2 : 3] = True
            native.assign(x, mask, np.array(1, dtype))
        return 0

    assert Child(assign).wait() == 0


def test_masks_of_any_layout() -> None:
    x, c = draw((90, 80), "f4"), RNG.random((80, 90)) < 0.4
    for y, mask in ((x, c.T), (x.T, c), (x[::-1], c.T[:, ::-1]), (x[:, ::-1], c.T.copy())):
        compare(y, mask)
    compare(np.broadcast_to(x[:1], x.shape), c.T)
    odd = np.array([2, 0, 1, 255], np.uint8).repeat(2000).view(bool)  # true may be any byte but 0
    compare(draw(8000, "i4"), odd)


@each(("n", "dtype"), itertools.product(SIZES, TYPES))
def test_indices(n: int, dtype: str) -> None:
    x = draw((70, 60), dtype)
    i, j = RNG.integers(-70, 70, n), RNG.integers(-60, 60, n)
    for y in (x, x[::-1], x.T.copy().T):
        compare(y, (i, j))
        compare(y, (i.astype("i4"), j))
    compare(x.reshape(-1), i)
    compare(x, (i[: n // 50],))
    compare(x, i[: n // 50])


def test_indices_of_many_dimensions() -> None:
    x = draw((7, 8, 9, 10), "f4")
    i, j, k = (RNG.integers(-n, n, (90, 60)) for n in (7, 8, 9))
    for index in ((i,), (i, j), (i, j, k), (i, j, k, i)):
        compare(x, index)
    compare(x.transpose(2, 0, 3, 1), (k, i))


def test_wrong_indices_are_numpys_errors() -> None:
    x = draw((70, 60), "f4")
    i = RNG.integers(0, 60, 5000)
    for wrong in (70, -71):
        bad = i.copy()
        bad[4321] = wrong
        with pytest.raises(IndexError, match="out of bounds"):
            native.item(x, (bad, i))
    with pytest.raises(IndexError):
        native.item(x, np.ones((70, 61), bool))
    with pytest.raises(IndexError):
        native.item(x, (i, i, i))
    with pytest.raises(IndexError):
        native.item(np.zeros((0, 3)), i)


@each(("shape", "dtype"), itertools.product([(n,) for n in SIZES], TYPES))
def test_nonzero_is_numpys(shape: tuple[int, ...], dtype: str) -> None:
    x = draw(shape, dtype)
    result = native.nonzero(x)
    if dtype[0] == "c" or dtype == "f2":
        assert result is None
    else:
        np.testing.assert_array_equal(result, np.argwhere(x), strict=True)


def test_nonzero_of_any_shape() -> None:
    for shape in ((300, 200), (3, 5, 7), (40, 50, 60), (0, 3), (2, 0), (1, 70_000), (70_000, 1)):
        x = draw(shape, "f4")
        for y in (x, x.T, x[::-1], np.zeros(shape), np.ones(shape)):
            np.testing.assert_array_equal(native.nonzero(y), np.argwhere(y), strict=True)
    x = np.array([0.0, -0.0, np.nan])
    np.testing.assert_array_equal(native.nonzero(x), [[2]])


def test_rows_are_numbered_as_numpy_numbers_them() -> None:
    x = np.empty((7, 8, 9, 2))
    numbers = np.arange(7 * 8 * 9 * 2).reshape(x.shape)
    for shape in ((5,), (90, 60), (0,), ()):
        i, j, k = (np.asarray(RNG.integers(-n, n, shape)) for n in (7, 8, 9))
        for index in ((i,), (i, j), (i, j, k), (i, j.astype("i4"), k, np.asarray(k % 2)), i):
            count = len(index) if isinstance(index, tuple) else 1
            step = int(np.prod(x.shape[count:]))
            want = numbers.reshape(*x.shape[:count], step)[..., 0][index] // step
            np.testing.assert_array_equal(native.take_rows(x, index), want)
    i = RNG.integers(0, 7, 70_000)
    for wrong in (7, -8):
        bad = i.copy()
        bad[-5] = wrong
        assert native.take_rows(x, (bad, i)) is None
    assert native.take_rows(x, (i, i[1:])) is None
    assert native.take_rows(x, (i, slice(None))) is None
    assert native.take_rows(x, (i, i.astype(float))) is None
    assert native.take_rows(x, (i,) * 5) is None
    assert native.take_rows(x, ()) is None


@pytest.mark.parametrize("dtype", ["?", "i1", "f2", "f4", "f8", "c8", "c16"])
@pytest.mark.parametrize("n", [1, 100, 5000])
def test_assigning_at_indices(dtype: str, n: int) -> None:
    draw = np.random.default_rng(n)
    x = draw.integers(0, 2, (30, 40)).astype(dtype)
    rows, columns = draw.integers(-30, 30, n), draw.integers(-40, 40, n)
    values, elements = (draw.integers(0, 2, s).astype(dtype) for s in ((n, 40), (n,)))
    for index, v in (
        (rows, values),
        ((rows,), values),
        ((rows, columns), elements),
        ((rows, columns), elements[0].reshape(())),
        (rows.astype(np.int32), values),
        (rows[:, None], values[:, None]),
        (slice(1, 5), values[:1, 0]),
        (x != 0, elements[0].reshape(())),
    ):
        ours, expected = x.copy(), x.copy()
        native.assign(ours, index, v)
        expected[index] = v
        assert np.array_equal(ours, expected)
    vector, expected = x[0].copy(), x[0].copy()
    native.assign(vector, columns, elements)
    expected[columns] = elements
    assert np.array_equal(vector, expected)


@pytest.mark.parametrize("n", [10, 5000])
def test_nothing_is_assigned_if_an_index_is_wrong(n: int) -> None:
    x, columns = np.zeros((50, 16)), np.zeros(16)
    index = np.zeros(n, np.int64)
    for wrong in (50, -51, 2**62, -(2**63)):
        index[-1] = wrong
        with pytest.raises(IndexError):
            native.assign(x, index, np.ones((n, 16)))
        with pytest.raises(IndexError):
            native.assign(columns, index, np.ones(n))
    assert not x.any()
    assert not columns.any()


def test_assigning_to_overlapping_memory_is_as_in_numpy() -> None:
    x, expected = np.arange(10), np.arange(10)
    native.assign(x, x[::-1], x)
    expected[expected[::-1].copy()] = expected.copy()
    assert np.array_equal(x, expected)


def test_a_private_index_has_copies_of_arrays() -> None:
    i, mask = np.arange(3), np.array([1, 0, 255, 2], np.uint8).view(bool)
    (copy, rest, copied_mask), single = (
        native.private_index((i, None, mask)),
        (native.private_index(i)),
    )
    assert rest is None
    for part in (copy, single):
        assert part is not i
        assert np.array_equal(part, i)
    assert copied_mask.view(np.uint8).tolist() == [1, 0, 1, 1]
    assert native.private_index(slice(1, 2)) == slice(1, 2)


@pytest.mark.parametrize("n", [8, 100, 10_000])
def test_every_byte_of_a_mask_that_is_not_0_is_true(n: int) -> None:
    mask = np.full(n, 255, np.uint8).view(bool)
    x = np.arange(2.0 * n).reshape(n, 2)
    assert np.array_equal(native.item(x, mask), x)
    assert np.array_equal(native.item(x[:, 0], mask), x[:, 0])
    native.assign(x, mask, np.zeros((n, 2)))
    assert not x.any()
