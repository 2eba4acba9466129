"""sum over any dimensions, and reduce_into."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from shmtensor import native

from ...cases import each

RNG = np.random.default_rng(0)
CASES: list[tuple[tuple[int, ...], Any]] = [
    ((), None), ((0,), None), ((7,), None), ((3, 4), None), ((3, 4), 0), ((3, 4), -1),
    ((3, 4), (0, 1)), ((3, 4), ()), ((2, 3, 4, 5), (0, 2)), ((2, 3, 4, 5), (1, 3)),
    ((2, 1, 4), 1), ((1, 1), 0), ((300_000,), None), ((100_000, 10), 0), ((10, 100_000), 1),
    ((500, 700), 0), ((500, 700), 1), ((3, 9000), 0), ((4, 200, 900), (0, 2)), ((0, 3), 0),
    ((3, 0), 1), ((2, 70_000, 3), 1), ((20_000, 1, 17), 0), ((2, 40_000), None),
]  # fmt: skip


def check_sum(shape: tuple[int, ...], dim: Any, dtype: str, keepdim: bool) -> None:
    x = np.asarray(RNG.standard_normal(shape) * (0.1 if dtype == "float16" else 3)).astype(dtype)
    axis = None if dim == () else dim
    wide = {"f": "float64", "i": "int64", "b": "int64", "c": "complex128"}[x.dtype.kind]
    for a in (x, np.asfortranarray(x), np.repeat(x, 2, 0)[::2] if x.ndim else x):
        got = native.sum(a, dim, keepdim)
        want = a.astype(wide).sum(axis, keepdims=keepdim)
        assert type(got) is np.ndarray
        assert got.shape == np.shape(want)
        assert got.dtype == (a.dtype if a.dtype.kind in "fc" else np.int64)
        scale = np.sqrt(x.size) * 3 + 1
        tolerance = {"float32": 1e-6, "float64": 1e-14, "float16": 1e-3, "complex64": 1e-4}
        np.testing.assert_allclose(got, want, rtol=1e-3, atol=tolerance.get(dtype, 0) * scale)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int32", "bool", "complex64"])
def test_sum(dtype: str) -> None:
    for keepdim in (False, True):
        for shape, dim in CASES:
            check_sum(shape, dim, dtype, keepdim)


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_sums_of_complex_numbers_add_their_parts(dtype: str) -> None:
    """Rows shorter than a block, of blocks and a tail, in pieces; columns; gaps."""
    for shape in [(3, 31), (5, 64), (2, 1000), (2, 16384), (1, 16385), (2, 50_001), (40, 3)]:
        x = (RNG.integers(-9, 9, shape) + 1j * RNG.integers(-9, 9, shape)).astype(dtype)
        for a in (x, np.asfortranarray(x), np.repeat(x, 2, 1)[:, ::2]):
            for dim in (0, 1, None):
                result = native.sum(a, dim, False)
                np.testing.assert_array_equal(result, np.asarray(x.sum(dim)), strict=True)
    overflow = np.full((1, 40_000), 1 + 1e8j, dtype)
    overflow[0, 7] = np.nan + 1j
    assert np.isnan(native.sum(overflow, 1, False).real).all()
    np.testing.assert_allclose(native.sum(overflow, 1, False).imag, 39999e8 + 1, rtol=2e-6)


def test_nan_and_infinity_pass() -> None:
    assert np.isnan(native.sum(np.array([1, np.nan], "float32")))
    assert native.sum(np.array([1, np.inf], "float32")) == np.inf
    assert np.isnan(native.sum(np.array([[-np.inf], [np.inf]]), 0)[0])


def test_sum_errors_show_the_values() -> None:
    x = np.ones((2, 3))
    with pytest.raises(IndexError, match="sum: dim is out of range: 2, expected -2 to 1"):
        native.sum(x, 2)
    with pytest.raises(RuntimeError, match="sum: dim appears twice: 1"):
        native.sum(x, (1, -1))
    with pytest.raises(TypeError, match="sum: input is not an array: list"):
        native.sum([1])  # type: ignore[arg-type]


NUMPY = {"sum": np.add, "prod": np.multiply, "min": np.minimum, "max": np.maximum}


@pytest.mark.parametrize("op", ["sum", "prod", "min", "max", "avg"])
@each("dtype", ["float32", "float64", "float16", "int64", "int32", "uint8", "bool", "complex64"])
@each("n", [0, 3, 50_001])
def test_reduce_into(op: str, dtype: str, n: int) -> None:
    values = RNG.standard_normal((3, n)) * 2
    if np.dtype(dtype).kind == "u":  # the cast of a negative float depends on the machine
        values = abs(values)
    arrays = list(values.astype(dtype))
    out = np.empty(n, dtype)
    integral = arrays[0].dtype.kind in "iub"
    if (op == "avg" and integral) or (op in ("min", "max") and dtype == "complex64"):
        with pytest.raises(TypeError):
            native.reduce_into(out, arrays, op)
        return
    wide = [a.astype("float32") if dtype == "float16" else a for a in arrays]
    f = NUMPY.get(op, np.add)
    want = f(f(wide[0], wide[1]), wide[2])
    if op == "avg":
        want = want / np.array(3, want.dtype)
    native.reduce_into(out, arrays, op)
    rtol = 1e-6 if op == "avg" else 0
    np.testing.assert_allclose(out, want.astype(dtype), rtol=rtol)
    native.reduce_into(arrays[1], arrays, op)
    np.testing.assert_array_equal(arrays[1], out)


def test_reduce_into_keeps_nan() -> None:
    x, y = np.array([1, np.nan, 2]), np.array([np.nan, 1, 3])
    for op in ("min", "max"):
        out = np.empty(3)
        native.reduce_into(out, [x, y], op)
        np.testing.assert_array_equal(np.isnan(out), [True, True, False])


def test_reduce_into_errors_show_the_values() -> None:
    out, x = np.empty(3), np.ones(3)
    with pytest.raises(ValueError, match=r"shapes differ: array 1 is \(4,\), out is \(3,\)"):
        native.reduce_into(out, [x, np.ones(4)], "sum")
    with pytest.raises(TypeError, match="dtypes differ: array 0 is float32, out is float64"):
        native.reduce_into(out, [x.astype("float32")], "sum")
    with pytest.raises(ValueError, match="unknown op: 'xor'"):
        native.reduce_into(out, [x], "xor")
    with pytest.raises(ValueError, match="no arrays"):
        native.reduce_into(out, [], "sum")
    with pytest.raises(ValueError, match="array 0 is not contiguous"):
        native.reduce_into(out, [np.ones(6)[::2]], "sum")


@each("dtype", ("f4", "f8"))
def test_sums_with_gaps(dtype: str) -> None:
    x = RNG.integers(-9, 9, (300, 5000)).astype(dtype)  # whole numbers: exact in any order
    flat = x.reshape(-1)
    rows = (x[::2], x[:, :512], x[:, ::2], x[:, ::3], x[1::3, 1::7], x[::2, 1::2], x[:, ::70],
            x[:3, 5:], x[:3, ::2], x.T[::2], x.T[::2].T, x[::-1, ::2])  # fmt: skip
    for a in (*rows, flat[::2], flat[1::3], flat[5::100], flat[::-1], flat[: 2 * 32768 + 2 : 2]):
        for keep, dim in itertools.product((False, True), (None, tuple(range(a.ndim)), -1)):
            want = np.asarray(a.sum(dim, "f8", keepdims=keep), dtype)
            np.testing.assert_array_equal(native.sum(a, dim, keep), want, strict=True)


STRETCHED: list[tuple[tuple[int, ...], tuple[int, ...]]] = [
    ((1, 40), (50, 40)), ((40, 1), (40, 50)), ((1,), (70,)), ((1, 1), (3, 4)), ((), (5, 6)),
    ((6, 1, 7), (6, 5, 7)), ((1, 6, 1), (4, 6, 3)), ((1, 7, 5), (2, 7, 5)), ((1, 3), (0, 3)),
]  # fmt: skip
MANY = ["float32", "float64", "float16", "int8", "int32", "int64", "uint8", "bool", "complex64"]


def stretched(dtype: str, low: int = -3) -> Iterator[tuple[Any, Any, bool]]:
    """Arrays with strides of 0, also transposed; any dimensions; keepdims or not."""
    for shape, full in STRETCHED:
        few = RNG.integers(low, 1 - low, shape).astype(dtype)
        x = np.broadcast_to(few, full)
        for a in (x, x.T, np.broadcast_to(x, (2, *full)), x[..., ::-1]):
            some = [itertools.combinations(range(a.ndim), n + 1) for n in range(a.ndim)]
            for dim, keepdim in itertools.product([None, *itertools.chain(*some)], (False, True)):
                yield a, dim, keepdim


def same(got: Any, want: Any, close: float = 0) -> None:
    assert got.flags.c_contiguous
    assert got.flags.writeable
    want = np.asarray(want)
    assert got.shape == want.shape
    if close:
        np.testing.assert_allclose(got, want, rtol=close, atol=close, equal_nan=True)
    else:
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("dtype", MANY)
def test_stretched_axes_are_reduced_as_if_they_were_copied(dtype: str) -> None:
    floats = dtype in ("float32", "float64")
    wide = dtype if dtype.startswith("float") else "int64"
    for x, dim, keep in stretched(dtype, -1) if dtype != "complex64" else ():
        same(native.prod(x, dim, keep), x.prod(dim, wide, keepdims=keep))
    for x, dim, keep in stretched(dtype):
        same(native.sum(x, dim, keep), native.sum(np.array(x, order="C"), dim, keep))
        if dtype == "complex64":
            continue
        if dtype != "float16":
            same(native.count(x, dim, keep), np.count_nonzero(x, dim, keepdims=keep))
            if x.size:
                same(native.minmax(x, dim, keep, True), x.max(dim, keepdims=keep))
                same(native.minmax(x, dim, keep, False), x.min(dim, keepdims=keep))
                if dim is None or len(dim) == 1:  # the first of equal ones
                    along = None if dim is None else dim[0]
                    same(native.argminmax(x, along, keep, True), x.argmax(along, keepdims=keep))
        if floats and x.size:
            same(native.var(x, dim, 0, keep, False), x.var(dim, keepdims=keep), 2e-6)
            same(native.norm(x, dim, keep, 1), np.abs(x).sum(dim, keepdims=keep), 2e-6)
            same(native.logsumexp(x, dim, keep), np.log(np.exp(x).sum(dim, keepdims=keep)), 2e-6)


def test_stretched_sums_wrap_round_and_overflow() -> None:
    x = np.broadcast_to(np.array([[2**62], [3]]), (2, 1025))
    np.testing.assert_array_equal(native.sum(x, 1, False), x.sum(1))
    y = np.broadcast_to(np.array([[1e38], [-np.inf], [np.nan], [0]], "float32"), (4, 1000))
    np.testing.assert_array_equal(native.sum(y, 1, False), [np.inf, -np.inf, np.nan, 0])


def test_stretched_axes_are_read_once() -> None:
    """10^12 elements: they cannot be copied, nor visited one by one."""
    x = np.broadcast_to(np.arange(3.0)[:, None, None], (3, 10**6, 10**6))
    assert native.sum(x, (1, 2), False).tolist() == [0, 1e12, 2e12]
    assert native.minmax(x, (1, 2), False, True).tolist() == [0, 1, 2]
    assert native.var(x, (1, 2), 0, False, False).tolist() == [0, 0, 0]
