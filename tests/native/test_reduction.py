"""sum over any dimensions, and reduce_into."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from shmtensor import native

from .cases import each

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
        bound = {"float32": 1e-6, "float64": 1e-14, "float16": 1e-3, "complex64": 1e-4}
        np.testing.assert_allclose(got, want, rtol=1e-3, atol=bound.get(dtype, 0) * scale)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int32", "bool", "complex64"])
def test_sum(dtype: str) -> None:
    for keepdim in (False, True):
        for shape, dim in CASES:
            check_sum(shape, dim, dtype, keepdim)


def test_nan_and_infinity_pass() -> None:
    assert np.isnan(native.sum(np.array([1, np.nan], "float32")))
    assert native.sum(np.array([1, np.inf], "float32")) == np.inf
    assert np.isnan(native.sum(np.array([[-np.inf], [np.inf]]), 0)[0])


def test_bits_do_not_depend_on_threads() -> None:
    x = RNG.standard_normal((3000, 301)).astype("float32")
    threads = native.get_num_threads()
    results = []
    try:
        for n in (1, 2, 3):
            native.set_num_threads(n)
            results.append(b"".join(native.sum(x, d).tobytes() for d in (None, 0, 1)))
    finally:
        native.set_num_threads(threads)
    assert len(set(results)) == 1


def test_sum_errors_show_the_values() -> None:
    x = np.ones((2, 3))
    with pytest.raises(IndexError, match="sum: dim is out of range: 2, expected -2 to 1"):
        native.sum(x, 2)
    with pytest.raises(ValueError, match="sum: dim appears twice: 1"):
        native.sum(x, (1, -1))
    with pytest.raises(TypeError, match="sum: input is not an array: list"):
        native.sum([1])  # type: ignore[arg-type]


NUMPY = {"sum": np.add, "prod": np.multiply, "min": np.minimum, "max": np.maximum}


@pytest.mark.parametrize("op", ["sum", "prod", "min", "max", "avg"])
@each("dtype", ["float32", "float64", "float16", "int64", "int32", "uint8", "bool", "complex64"])
@each("n", [0, 3, 50_001])
def test_reduce_into(op: str, dtype: str, n: int) -> None:
    values = RNG.standard_normal((3, n)) * 2
    if np.dtype(dtype).kind == "u":  # what a negative float becomes there is up to the machine
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
def test_sums_of_rows_with_gaps(dtype: str) -> None:
    x = RNG.integers(-9, 9, (140, 5000)).astype(dtype)
    bound = 0 if dtype == "f8" else 1e-6
    for a in (x[:, ::2], x[:, ::3], x[::2, 1::2], x[::-1, ::2], x[:, ::70], x.T[::2].T, x[:3, ::2]):
        for keep in (False, True):
            got = native.sum(a, 1, keep)
            np.testing.assert_allclose(got, a.sum(1, keepdims=keep), bound, strict=True)
