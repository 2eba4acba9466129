"""parallel(): NumPy's values and types in any layout, without warnings."""

from __future__ import annotations

import numpy as np
import pytest

from shmtensor import native

from ..cases import each

RNG = np.random.default_rng(0)
BINARY = ["add", "subtract", "multiply", "divide", "maximum", "less", "arctan2", "power"]
# How much NumPy's vector and scalar code differ; CPU and layout decide which of them runs.
INEXACT = {
    **{
        (name, t): 1e-5
        for name in ("arctan2", "power")
        for t in ("float32", "float64", "complex64")
    },
    **{(name, "float16"): 2.0**-10 for name in ("arctan2", "power")},
    # Relative to the modulus: each part is a sum of two products, rounded once or twice.
    **{(name, "complex64"): 2.0**-20 for name in ("multiply", "divide")},
}
UNARY = ["negative", "exp", "log", "sqrt", "tanh", "isnan", "floor", "sin"]


def layouts(n: int, dtype: str) -> list[np.ndarray]:
    """The same numbers as (n, 6) in memory layouts that kernels treat differently."""
    x = (RNG.standard_normal((n, 6)) * 3 + 5).astype(dtype)
    if dtype == "int64":
        x = abs(x) % 8
    return [
        x,
        np.asfortranarray(x),
        np.repeat(x, 2, 0)[::2],
        np.repeat(x, 2, 1)[:, ::2],
        x[::-1, ::-1][::-1, ::-1],
        np.ascontiguousarray(x[::-1])[::-1],
    ]


@pytest.mark.parametrize("name", BINARY)
@each("dtype", ["float32", "float64", "int64", "float16", "complex64"])
@each("n", [1, 7, 20_000])
def test_binary_equals_numpy(name: str, dtype: str, n: int) -> None:
    if dtype == "complex64" and name == "arctan2":
        dtype = "float32"
    numpy = getattr(np, name)
    ours = native.parallel(numpy)
    for i, x in enumerate(layouts(n, dtype)):
        others = layouts(n, dtype)
        if n > 7:  # each with two, as these take long
            others = [others[i], others[i - 1]]
        for y in [*others, x[:1], x[:, :1], x[0], np.array(2, dtype)]:
            with np.errstate(all="ignore"):
                want = numpy(x, y)
            got = ours(x, y)
            assert got.dtype == want.dtype
            np.testing.assert_allclose(got, want, rtol=INEXACT.get((name, want.dtype.name), 0))


@pytest.mark.parametrize("name", UNARY)
@each("dtype", ["float32", "float64"])
@each("n", [1, 7, 20_000])
def test_unary_equals_numpy(name: str, dtype: str, n: int) -> None:
    numpy = getattr(np, name)
    ours = native.parallel(numpy)
    for x in layouts(n, dtype):
        with np.errstate(all="ignore"):
            want = numpy(x)
        np.testing.assert_allclose(ours(x), want, rtol=1e-6)
        assert ours(x).strides == want.strides


@each("number", [2, 2.5, -3, True, 2**40, 10**30])
@each("dtype", ["float32", "float64", "int64", "int32", "uint8", "bool"])
def test_python_numbers_are_weak(number: float, dtype: str) -> None:
    x = np.array([0, 1, 3]).astype(dtype)
    for numpy in (np.add, np.multiply, np.less):
        ours = native.parallel(numpy)
        for arguments in ((x, number), (number, x)):
            try:
                with np.errstate(all="ignore"):
                    want = numpy(*arguments)
            except (OverflowError, TypeError) as error:
                with pytest.raises(type(error)):
                    ours(*arguments)
                continue
            got = ours(*arguments)
            assert got.dtype == want.dtype
            np.testing.assert_array_equal(got, want)


def test_nothing_warns() -> None:
    x = np.zeros(100_000, "float32")
    assert np.isneginf(native.parallel(np.log)(x)).all()
    assert np.isnan(native.parallel(np.divide)(x, x)).all()
    assert np.isnan(native.parallel(np.divide)(x[::2], x[1::2])).all()
    assert np.isinf(native.parallel(np.exp)(np.full((3, 3), 1e5))).all()
    integers = np.arange(5)
    with pytest.raises(ZeroDivisionError, match="integer division by zero"):
        native.parallel(np.floor_divide)(integers, 0)
    assert np.isnan(native.parallel(np.divide)(integers[:1], 0)).all()


def test_true_division_of_integers_is_float() -> None:
    result = native.parallel(np.divide)(np.arange(3), np.arange(1, 4))
    assert result.dtype == np.float64
    np.testing.assert_array_equal(result, np.arange(3) / np.arange(1, 4))


def test_zero_dimensions_stay_arrays() -> None:
    add = native.parallel(np.add)
    for x, y in [
        (np.array(1.0), np.array(2.0)),
        (np.array(1.0), 2.0),
        (np.array(1), np.array(2.0)),
    ]:
        result = add(x, y)
        assert type(result) is np.ndarray
        assert result.shape == ()
        assert result == 3


def test_out_may_be_an_input_or_run_into_one() -> None:
    add = native.parallel(np.add)
    x = RNG.standard_normal(200_000)
    y = x.copy()
    assert add(y, 1.0, y) is y
    np.testing.assert_array_equal(y, x + 1)
    want = x.copy()
    np.add(want[1:], want[:-1], want[1:])
    got = x.copy()
    add(got[1:], got[:-1], got[1:])
    np.testing.assert_array_equal(got, want)
    read_only = x.copy()
    read_only.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        add(x, x, read_only)


def test_reductions_are_not_split() -> None:
    x = RNG.standard_normal((300, 500))
    for numpy in (np.add, np.maximum, np.multiply):
        ours = native.parallel(numpy)
        for axis in (0, 1, None):
            np.testing.assert_array_equal(ours.reduce(x, axis=axis), numpy.reduce(x, axis=axis))
    flat = x.ravel()
    np.testing.assert_array_equal(native.parallel(np.add).accumulate(flat), np.add.accumulate(flat))
    assert native.parallel(np.add).identity == 0


def test_shapes_that_do_not_broadcast_are_refused() -> None:
    with pytest.raises(ValueError, match=r"\(2,3\) \(4,\)"):
        native.parallel(np.add)(np.ones((2, 3)), np.ones(4))


def test_negative_integer_powers_are_refused() -> None:
    with pytest.raises(ValueError, match="negative integer powers"):
        native.parallel(np.power)(np.full(100_000, 2), -1)


def test_only_plain_ufuncs_are_taken() -> None:
    with pytest.raises(TypeError, match="parallel: not a NumPy ufunc: int"):
        native.parallel(3)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="core dimensions"):
        native.parallel(np.matmul)
