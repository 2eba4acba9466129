"""matmul() and linear(): NumPy's values for every rank, layout and dtype."""

from __future__ import annotations

from collections.abc import Callable
from operator import mul

import numpy as np
import pytest

from shmtensor import native

from ...cases import each

RNG = np.random.default_rng(0)
SHAPES = [
    ((3, 4), (4, 5)), ((4,), (4,)), ((3, 4), (4,)), ((4,), (4, 5)), ((2, 3, 4), (4, 5)),
    ((2, 3, 4), (2, 4, 5)), ((5, 1, 3, 4), (2, 4, 5)), ((0, 4), (4, 5)), ((3, 0), (0, 5)),
    ((300, 200), (200, 333)), ((7, 300, 40), (40, 9)), ((7, 130, 140), (7, 140, 150)),
    ((1, 4), (4, 1)), ((1, 1), (1, 1)), ((300, 400), (400,)), ((400,), (400, 300)),
    ((400, 1), (1, 300)), ((600,), (600, 300)), ((0, 3, 4), (4, 5)), ((4,), (3, 4, 5)),
    ((700, 600), (600, 1)),
]  # fmt: skip
LAYOUTS: list[Callable[[np.ndarray], np.ndarray]] = [
    lambda x: x,
    np.asfortranarray,
    lambda x: np.repeat(x, 2, -1)[..., ::2],
    lambda x: np.repeat(x, 2, 0)[::2],
    lambda x: np.ascontiguousarray(x.T).T,
    lambda x: x[..., ::-1],
]


def values(shape: tuple[int, ...], dtype: str) -> np.ndarray:
    x = RNG.standard_normal(shape)
    return (x + 1j * RNG.standard_normal(shape) if dtype in "FD" else x).astype(dtype)


@pytest.mark.parametrize("dtype", "fdFD")
@each(("x_shape", "y_shape"), SHAPES)
def test_matmul_equals_numpy(
    x_shape: tuple[int, ...], y_shape: tuple[int, ...], dtype: str
) -> None:
    for layout in LAYOUTS:
        x, y = layout(values(x_shape, dtype)), layout(values(y_shape, dtype))
        got, want = native.matmul(x, y), np.matmul(x, y)
        assert type(got) is np.ndarray
        assert got.shape == want.shape
        assert got.dtype == want.dtype
        np.testing.assert_allclose(got, want, rtol=1e-3, atol=1e-3)


WHOLE = ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"]


@each("dtype", WHOLE)
def test_products_of_integers_wrap_around(dtype: str) -> None:
    """All vector widths and their tails, long sums in pieces, deep ones in blocks."""
    shapes = [*SHAPES[:13], ((37, 300), (300, 99)), ((1, 300), (300, 1)), ((70_001,), (70_001,))]
    shapes += [((5, 6), (6, n)) for n in (1, 2, 3, 7, 15, 31, 63, 130)]
    info = np.iinfo(dtype)
    for x_shape, y_shape in shapes:
        for layout in LAYOUTS:
            x, y = (
                layout(RNG.integers(info.min, info.max, s, dtype, endpoint=True))
                for s in (x_shape, y_shape)
            )
            product = native.matmul(x, y)
            np.testing.assert_array_equal(product, np.matmul(x, y), strict=True)
            if x.ndim > 1 and y.ndim == 2:
                bias = RNG.integers(info.min, info.max, y.shape[1], dtype, endpoint=True)
                np.testing.assert_array_equal(
                    native.linear(x, y.T, bias), product + bias, strict=True
                )


SMALL = [(m, k, n) for m in (1, 2, 3, 4, 5, 6, 7, 9, 33) for k in (1, 3, 4, 8, 20)
         for n in (1, 2, 3, 4, 5, 8, 12, 16, 20, 36)] + [
    (64, 64, 64), (9, 96, 64), (9, 97, 64), (700, 16, 24), (3000, 40, 8), (65, 48, 128),
]  # fmt: skip


@pytest.mark.parametrize("dtype", "fd")
@each(("m", "k", "n"), SMALL)
def test_small_products_are_right_to_the_last_places(m: int, k: int, n: int, dtype: str) -> None:
    """Computed in registers: vectors and their tails, b by rows or transposed, with a bias."""
    x, y, bias = values((m, k), dtype), values((k, n), dtype), values((n,), dtype)
    want = x.astype("d") @ y.astype("d")
    near = np.finfo(dtype).eps * 4 * (np.abs(x).astype("d") @ np.abs(y).astype("d") + 4)
    sides = [
        (lambda v: v),
        np.asfortranarray,
        lambda v: np.concatenate([v, v], -1)[:, : v.shape[1]],  # rows with gaps
    ]
    for lhs_form in sides:
        for right in sides:
            assert (np.abs(native.matmul(lhs_form(x), right(y)) - want) <= near).all()
        result = native.linear(lhs_form(x), lhs_form(np.ascontiguousarray(y.T)), bias)
        assert (np.abs(result - (want + bias)) <= near + np.abs(bias) * np.finfo(dtype).eps).all()
    stack = np.stack([x, -x]), np.stack([y, y])
    np.testing.assert_array_equal(native.matmul(*stack)[0], -native.matmul(*stack)[1])


def product(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """By Python's numbers: NumPy's BLAS treats infinities differently on each processor."""
    rows, columns = x.tolist(), y.T.tolist()
    return np.array([[sum(map(mul, row, column)) for column in columns] for row in rows])


def test_small_products_keep_nan_and_infinities() -> None:
    x, y = np.ones((8, 8), "f"), np.ones((8, 8), "f")
    x[0, 0], y[3, 3] = np.nan, np.inf
    np.testing.assert_array_equal(native.matmul(x, y), product(x, y))
    out = np.full((8, 8), np.nan, "f")
    np.testing.assert_array_equal(native.matmul(y, y, out), product(y, y))  # out is not read


@pytest.mark.parametrize("dtype", ["float16", "bool"])
def test_other_dtypes_go_to_numpy(dtype: str) -> None:
    x = RNG.integers(0, 5, (3, 4)).astype(dtype)
    np.testing.assert_array_equal(native.matmul(x, x.T), np.matmul(x, x.T))
    assert native.matmul(x[0], x[0]).shape == ()


def test_out_is_written() -> None:
    x = values((40, 40), "f")
    out = np.empty_like(x)
    assert native.matmul(x, x, out) is out
    np.testing.assert_allclose(out, x @ x, rtol=1e-4, atol=1e-4)
    for target in (np.empty((40, 80), "f")[:, ::2], np.empty((40, 40), "d")):
        native.matmul(x, x, target)
        np.testing.assert_allclose(target, x @ x, rtol=1e-4, atol=1e-4)
    y = x.copy()
    native.matmul(y, x, y)
    np.testing.assert_allclose(y, x @ x, rtol=1e-4, atol=1e-4)


@each("shape", [(7, 5), (5,), (2, 3, 5), (600, 5), (0, 5)])
@each("biased", [False, True])
@each("dtype", ["float32", "float64", "int64"])
def test_linear(shape: tuple[int, ...], biased: bool, dtype: str) -> None:
    x, w = (RNG.standard_normal(s).astype(dtype) for s in (shape, (4, 5)))
    b = RNG.standard_normal(4).astype(dtype) if biased else None
    want = x @ w.T + (b if b is not None else 0)
    np.testing.assert_allclose(native.linear(x, w, b), want, rtol=1e-4, atol=1e-5)


def test_errors_show_the_shapes() -> None:
    ones = np.ones
    with pytest.raises(
        RuntimeError, match=r"matmul: inner sizes differ: \(3, 4\) @ \(5, 6\), 4 is not 5"
    ):
        native.matmul(ones((3, 4)), ones((5, 6)))
    with pytest.raises(RuntimeError, match=r"do not broadcast: \(2, 3, 4\) @ \(3, 4, 5\)"):
        native.matmul(ones((2, 3, 4)), ones((3, 4, 5)))
    with pytest.raises(RuntimeError, match=r"no dimensions: \(\) @ \(3,\)"):
        native.matmul(ones(()), ones(3))
    with pytest.raises(TypeError, match="x is not an array: list"):
        native.matmul([1], ones(3))  # type: ignore[arg-type]
    with pytest.raises(RuntimeError, match=r"linear: sizes differ.*4 is not 5"):
        native.linear(ones((3, 4)), ones((2, 5)))
    with pytest.raises(
        RuntimeError, match=r"bias does not match the weight: \(3,\), weight \(2, 4\)"
    ):
        native.linear(ones((3, 4)), ones((2, 4)), ones(3))
