"""Functions of one and two numbers: within a bound in units of the last place of SciPy's, for every
kind of argument.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy import special

import shmtensor as st
from shmtensor import native

from ..cases import each

RNG = np.random.default_rng(0)
EPSILON = {"float32": 2.0**-23, "float64": 2.0**-52}
OWN = native.isa() != "avx512"  # with AVX-512 NumPy's functions are used where they exist
FUSES = native.isa() != "generic"  # without fused multiply-adds the last roundings are lost


def inside(low: float, high: float) -> Any:
    return RNG.uniform(low, high, 4000)


def far(low: float, high: float) -> Any:
    """Numbers of every size, of both signs."""
    size = 10.0 ** RNG.uniform(low, high, 2000)
    return np.concatenate([size, -size])


def sinc(x: Any) -> Any:
    return np.sinc(x.astype(np.longdouble)).astype("float64")


def signs(x: Any) -> Any:
    return (x > 0) * 1.0 - (x < 0)


def erfcx(x: Any) -> Any:
    """SciPy's erfcx rounds x * x, which matters below 0."""
    wide = np.minimum(x, 0).astype(np.longdouble)
    negative = (2 * np.exp(wide * wide) - special.erfcx(-wide.astype("float64"))).astype("float64")
    return np.where(x < 0, negative, special.erfcx(x))


def ndtr(x: Any) -> Any:
    """SciPy's ndtr rounds x / sqrt(2), which matters far from 0."""
    wide = x.astype(np.longdouble)
    return np.where(
        x < 0,
        (special.erfcx(-x / np.sqrt(2)) * np.exp(-wide * wide / 2) / 2).astype("float64"),
        special.ndtr(x),
    )


# The oracle, arguments, and the bound in epsilons of the result, which includes SciPy's error.
UNARY: dict[str, tuple[Any, Any, float]] = {
    "erf": (special.erf, [far(-37, 1), inside(-3, 3)], 3),
    "erfc": (special.erfc, [inside(-5, 5), far(-30, 0)], 40),
    "erfinv": (special.erfinv, [inside(-1, 1), 1 - 10.0 ** inside(-7, -1)], 8),
    "lgamma": (special.gammaln, [inside(3, 200), inside(0.01, 0.9), 10.0 ** inside(3, 30)], 80),
    "digamma": (
        special.digamma,
        [inside(2, 200), 10.0 ** inside(-3, 0), 10.0 ** inside(2, 20)],
        80,
    ),
    "i0": (special.i0, [inside(-80, 80), far(-20, 0)], 8),
    "i1": (special.i1, [inside(-80, 80), far(-20, 0)], 16),
    "i0e": (special.i0e, [inside(-100, 100), 10.0 ** inside(0, 20)], 8),
    "i1e": (special.i1e, [inside(-100, 100), 10.0 ** inside(0, 20)], 16),
    "sinc": (sinc, [inside(-0.9, 0.9), far(-20, -1)], 4),
    "k0": (special.k0, [inside(0, 3), inside(1, 700), 10.0 ** inside(-30, 0)], 40),
    "k1": (special.k1, [inside(0, 3), inside(1, 700), 10.0 ** inside(-30, 0)], 40),
    "k0e": (special.k0e, [inside(0, 30), 10.0 ** inside(-30, 30)], 40),
    "k1e": (special.k1e, [inside(0, 30), 10.0 ** inside(-30, 30)], 40),
    "spherical_j0": (lambda x: sinc(x / np.pi), [inside(-3, 3), far(-20, 0)], 8),
    "erfcx": (erfcx, [inside(-9, 30), 10.0 ** inside(0, 30)], 8),
    "ndtr": (ndtr, [inside(-37 if FUSES else -8, 9), far(-20, 0)], 12),
    "log_ndtr": (special.log_ndtr, [inside(-40, 5), -(10.0 ** inside(1, 15))], 40),
    "ndtri": (special.ndtri, [inside(0, 1), 10.0 ** inside(-37, -1)], 16),
    "trigamma": (
        lambda x: special.zeta(2.0, x),
        [inside(0, 30), 10.0 ** inside(-15, 0), 10.0 ** inside(1, 20)],
        16,
    ),
    "frac": (lambda x: x - np.trunc(x), [inside(-50, 50), far(-10, 10)], 0),
    "signs": (signs, [far(-20, 20)], 0),
    "relu": (lambda x: np.where(x > 0, x, 0), [far(-20, 20)], 0),
}
# At NaN, infinity, -infinity, 0, 1, -1.
LIMITS = {
    "erf": (np.nan, 1, -1, 0, special.erf(1), -special.erf(1)),
    "erfc": (np.nan, 0, 2, 1, special.erfc(1), special.erfc(-1)),
    "erfinv": (np.nan, np.nan, np.nan, 0, np.inf, -np.inf),
    "lgamma": (np.nan, np.inf, np.inf, np.inf, 0, np.inf),
    "digamma": (np.nan, np.inf, np.nan, -np.inf, -np.euler_gamma, np.nan),
    "i0": (np.nan, np.inf, np.inf, 1, special.i0(1), special.i0(1)),
    "i1": (np.nan, np.inf, -np.inf, 0, special.i1(1), -special.i1(1)),
    "i0e": (np.nan, 0, 0, 1, special.i0e(1), special.i0e(1)),
    "i1e": (np.nan, 0, 0, 0, special.i1e(1), -special.i1e(1)),
    "sinc": (np.nan, np.nan, np.nan, 1, 0, 0),
    "j0": (np.nan, 0, 0, 1, special.j0(1), special.j0(1)),
    "j1": (np.nan, 0, 0, 0, special.j1(1), -special.j1(1)),
    "y0": (np.nan, 0, np.nan, -np.inf, special.y0(1), np.nan),
    "y1": (np.nan, 0, np.nan, -np.inf, special.y1(1), np.nan),
    "k0": (np.nan, 0, np.nan, np.inf, special.k0(1), np.nan),
    "k1": (np.nan, 0, np.nan, np.inf, special.k1(1), np.nan),
    "k0e": (np.nan, 0, np.nan, np.inf, special.k0e(1), np.nan),
    "k1e": (np.nan, 0, np.nan, np.inf, special.k1e(1), np.nan),
    "spherical_j0": (np.nan, 0, 0, 1, np.sin(1), np.sin(1)),
    "erfcx": (np.nan, 0, np.inf, 1, special.erfcx(1), special.erfcx(-1)),
    "ndtr": (np.nan, 1, 0, 0.5, special.ndtr(1), special.ndtr(-1)),
    "log_ndtr": (np.nan, 0, -np.inf, -np.log(2), special.log_ndtr(1), special.log_ndtr(-1)),
    "ndtri": (np.nan, np.nan, np.nan, -np.inf, np.inf, np.nan),
    "trigamma": (np.nan, 0, np.nan, np.inf, np.pi**2 / 6, np.inf),
    "frac": (np.nan, np.nan, np.nan, 0, 0, 0),
    "signs": (0, 1, -1, 0, 1, -1),
    "relu": (np.nan, np.inf, 0, 0, 1, 0),
}


# Bounds of float32 functions that are not computed in double.
BRIEF = {"erfc": 2.1, "erfinv": 1.3}


@pytest.mark.parametrize("name", UNARY)
@each("dtype", list(EPSILON))
def test_function(name: str, dtype: str) -> None:
    formula, ranges, max_ulps = UNARY[name]
    f = native.elementwise(name)
    for numbers in ranges:
        x = numbers.astype(dtype)
        if name == "erfinv":
            x = x[abs(x) < 1]
        want = formula(x.astype("float64"))
        units = max_ulps if dtype == "float64" else BRIEF.get(name, min(max_ulps, 1.2))
        tolerance = units * EPSILON[dtype]
        np.testing.assert_allclose(
            f(x),
            want,
            rtol=tolerance if FUSES else 8 * tolerance,
            atol=1e-300 if dtype[-1] == "4" else 2e-45,
        )


@pytest.mark.parametrize("name", ["j0", "j1", "y0", "y1"])
@each("dtype", list(EPSILON))
def test_oscillating_functions(name: str, dtype: str) -> None:
    """Near zeros the error is relative to the amplitude; SciPy rounds x - pi / 4."""
    f, formula = native.elementwise(name), getattr(special, name)
    for numbers in (inside(0, 30), far(-30, 1), inside(30, 1e4), inside(4.99, 5.01)):
        x = (abs(numbers) if name[0] == "y" else numbers).astype(dtype)
        want = formula(x.astype("float64"))
        size = np.maximum(abs(x.astype("float64")), 1)
        height = np.sqrt(2 / np.pi / size) * (8 + size)
        error = abs(f(x).astype("float64") - want)
        limit = 0.51 * np.spacing(abs(want.astype(dtype))) if dtype[-1] == "2" else 0
        assert np.all(error <= limit + EPSILON["float64"] * (height + 8 * abs(want)))


def test_trigamma_below_zero() -> None:
    """By the reflection formula."""
    x, f = inside(-30, 0), native.elementwise("trigamma")
    x = x[abs(x - np.round(x)) > 1e-3]
    want = (np.pi / np.sin(np.pi * (x - np.round(x)))) ** 2
    np.testing.assert_allclose(f(x) + f(1 - x), want, rtol=1e-14)


@each("dtype", list(EPSILON))
def test_incomplete_gamma(dtype: str) -> None:
    """Small and large parameters, both sides of the mean, and special cases."""
    low, high = native.elementwise("gammainc"), native.elementwise("gammaincc")
    for a in (inside(0.5, 60), inside(100, 1e4), 10.0 ** inside(-5, 5)):
        for x in (a * inside(0.5, 2), a + np.sqrt(a) * inside(-0.5, 9), inside(0, 30)):
            some, at = a.astype(dtype), x.astype(dtype)
            pair = some.astype("float64"), at.astype("float64")
            for f, formula in ((low, special.gammainc), (high, special.gammaincc)):
                np.testing.assert_allclose(
                    f(some, at),
                    formula(*pair),
                    rtol=0.6 * EPSILON["float32"] if dtype[-1] == "2" else 1e-12,
                    atol=2e-45 if dtype[-1] == "2" else 1e-14,
                )
    odd = np.array([0.0, -0.0, 1, -1, np.inf, -np.inf, np.nan, 1e-30, 2.5], dtype)
    a, x = np.broadcast_arrays(odd[:, None], odd)
    # At 0 and infinity SciPy's answers depend on its version: the limits.
    with np.errstate(invalid="ignore"):
        undefined = ~((a >= 0) & (x >= 0)) | ((a == 0) & (x == 0)) | (np.isinf(a) & np.isinf(x))
    cases = [undefined, a == 0, x == 0, np.isinf(a), np.isinf(x)]
    expected = np.select(cases, [np.nan, 1, 0, 0, 1], special.gammainc(a, x))
    np.testing.assert_allclose(low(a, x), expected, rtol=1e-6, atol=1e-16)
    expected = np.select(cases, [np.nan, 0, 1, 1, 0], special.gammaincc(a, x))
    np.testing.assert_allclose(high(a, x), expected, rtol=1e-6, atol=1e-16)


@pytest.mark.parametrize("name", LIMITS)
@each("dtype", list(EPSILON))
def test_limits(name: str, dtype: str) -> None:
    x = np.array([np.nan, np.inf, -np.inf, 0, 1, -1], dtype)
    with np.errstate(all="raise"):
        result = native.elementwise(name)(x)
    np.testing.assert_allclose(result, LIMITS[name], rtol=1e-6, atol=1e-16)


@pytest.mark.parametrize("name", UNARY)
def test_layouts_and_lengths(name: str) -> None:
    f = native.elementwise(name)
    x = RNG.uniform(-0.9, 0.9, (37, 53))
    want = f(x)
    for dtype in EPSILON:
        y = x.astype(dtype)
        for part in (y, np.asfortranarray(y), y[::2, ::3], y[::-1], y[0, :1], y[1, :19], y[:0]):
            at = f(y.astype("float64"))[::2, ::3] if part.shape == (19, 18) else None
            got = f(part)
            assert got.shape == part.shape
            assert got.dtype == part.dtype
            if at is not None:
                np.testing.assert_allclose(got, at, rtol=1e-5, atol=1e-7)
    out = np.empty_like(x)
    assert f(x, out) is out
    np.testing.assert_array_equal(out, want)
    np.testing.assert_array_equal(f(x.ravel()[:5]), want.ravel()[:5])


@each("dtype", list(EPSILON))
@pytest.mark.parametrize("name", ["sin", "cos"])
def test_waves(name: str, dtype: str) -> None:
    f, numpy = native.parallel(getattr(np, name)), getattr(np, name)
    for numbers in (inside(-1, 1), inside(-100, 100), far(-30, 5.9), far(6, 15)):
        x = numbers.astype(dtype)
        want = numpy(x.astype(np.longdouble)).astype("float64")
        np.testing.assert_allclose(
            f(x), want, rtol=3 * EPSILON[dtype], atol=2 * EPSILON[dtype] ** 2
        )


ODD = [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 2.0, -2.0, 1e30, -1e30, 1e-42, -1e-42, 1e-310]


@each("dtype", list(EPSILON))
@pytest.mark.parametrize(
    "name", ["fmod", "remainder", "floor_divide", "hypot", "logaddexp", "logaddexp2", "nextafter"]
)
def test_two_numbers(name: str, dtype: str) -> None:
    f, numpy = native.parallel(getattr(np, name)), getattr(np, name)
    with np.errstate(all="ignore"):
        odd = np.array([*ODD, 2.5, -2.5, 7, 5e-324, 1e300]).astype(dtype)
        pairs = [np.broadcast_arrays(odd[:, None], odd)]
        pairs.append([far(-2, 3).astype(dtype), far(0, 2).astype(dtype)])
        integral = np.round(far(0, 3)).astype(dtype)
        pairs.append([integral * 7, np.broadcast_to(np.array(7, dtype), integral.shape)])
        if name != "floor_divide":  # NumPy's rounds such quotients three times
            pairs.append([far(0, 12).astype(dtype), far(-6, 0).astype(dtype)])
        for x, y in pairs:
            got, want = f(x, y), numpy(x, y)
            assert got.dtype == want.dtype
            if name in ("hypot", "logaddexp", "logaddexp2"):
                size = np.maximum(abs(x), abs(y)).astype("float64")
                size = np.where(np.isfinite(size), size, 0).max()
                if name == "hypot":
                    size = 0.0
                np.testing.assert_allclose(
                    got, want, rtol=3 * EPSILON[dtype], atol=min(size, 1.0) * 2 * EPSILON[dtype]
                )
            else:
                np.testing.assert_array_equal(got, want)
                sure = ~np.isnan(want)
                np.testing.assert_array_equal(np.signbit(got)[sure], np.signbit(want)[sure])
        x, y = pairs[1]
        np.testing.assert_array_equal(f(x[::2], y[0]), f(x, np.full_like(x, y[0]))[::2])


def trunc_divide(x: Any, y: Any) -> Any:
    """The quotient without its fraction."""
    q = x // y
    return (q + ((q * y != x) & ((x < 0) != (y < 0)))).astype(x.dtype)


@each("dtype", ["i1", "u1", "i2", "i4", "i8"])
@each("name", ["fmod", "remainder", "floor_divide", "trunc_divide"])
def test_whole_numbers(name: str, dtype: str) -> None:
    """Integers of every size, over -1 and the largest ones; strides, scalars, empty arrays."""
    is_own_op = name == "trunc_divide"
    f = native.elementwise(name) if is_own_op else native.parallel(getattr(np, name))
    numpy = trunc_divide if is_own_op else getattr(np, name)
    limits = np.iinfo(dtype)
    for n in (0, 1, 300, 70_001):
        for most in (5, limits.max):
            x = RNG.integers(limits.min, limits.max, n, dtype, endpoint=True)
            y = RNG.integers(max(-most, limits.min), most, n, dtype, endpoint=True)
            y[y == 0] = 1
            x[:3], y[:2] = limits.min, [limits.max, -1 if limits.min else 1][:n]
            with np.errstate(all="ignore"):
                np.testing.assert_array_equal(f(x, y), numpy(x, y), strict=True)
                np.testing.assert_array_equal(f(x[::2], y[::2]), numpy(x[::2], y[::2]))
                for number in (7, 1, limits.max, -1 if limits.min else 2):
                    one = np.full_like(x, number)
                    np.testing.assert_array_equal(f(x, number), numpy(x, one), strict=True)
                    np.testing.assert_array_equal(f(number, y), numpy(one, y), strict=True)
    zeros = np.ones(40_000, dtype)
    zeros[-1] = 0
    for over in (zeros, zeros[::-1], 0):
        with pytest.raises(ZeroDivisionError):
            f(np.ones(40_000, dtype), over)
    assert f(zeros[:0], zeros[:0]).size == 0
    for near in (limits.min, limits.min + 1, -1, 1, limits.max):  # none of them is taken for 0
        if near in range(limits.min, limits.max + 1) and near:
            assert f(zeros, np.full_like(zeros, near)).shape == zeros.shape


@each("name", ["fmod", "remainder", "floor_divide", "trunc_divide"])
def test_whole_numbers_about_the_last_that_a_double_holds(name: str) -> None:
    """Entire blocks of one magnitude, so that no element forces its block to divide one by one; and
    one large number ahead of small ones."""
    is_own_op = name == "trunc_divide"
    f = native.elementwise(name) if is_own_op else native.parallel(getattr(np, name))
    numpy = trunc_divide if is_own_op else getattr(np, name)
    for bits in (51, 52, 53, 54, 55, 61):
        x = 2**bits + np.arange(-300, 301)
        for divisor in (3, -7, 2**20 + 1):
            y = np.full_like(x, divisor)
            for of in (x, -x, x // y * y - 1):
                np.testing.assert_array_equal(f(of, y), numpy(of, y), strict=True)
    x = np.arange(1, 200)
    x[0] = 2**61 + 1
    np.testing.assert_array_equal(f(x, np.full_like(x, 3)), numpy(x, np.full_like(x, 3)))


def test_a_weight_below_zero() -> None:
    f = native.elementwise("prelu")
    for dtype in ("f4", "f8"):
        x = RNG.normal(size=(30, 1001)).astype(dtype)
        x[0, :3] = np.nan, 0, -0.0
        for y in (x[::-1], x[:, :1], np.array(0.25, dtype)):
            np.testing.assert_array_equal(f(x, y), np.where(x > 0, x, y * x), strict=True)


def test_a_fraction_of_a_quarter_keeps_its_digits() -> None:
    """Near multiples of pi / 2 the reduced argument has few digits."""
    x = (np.arange(1, 2000) * (np.pi / 2)).astype("float64")
    want = np.sin(x.astype(np.longdouble)), np.cos(x.astype(np.longdouble))
    for f, of in zip((native.parallel(np.sin), native.parallel(np.cos)), want, strict=True):
        np.testing.assert_allclose(f(x), of.astype("float64"), rtol=4e-16, atol=1e-19)


def test_halves_and_tensors() -> None:
    for dtype in (st.bfloat16, st.float16):
        x = st.tensor([-1.5, 0.25, 0.75], dtype=dtype)
        for f in (st.erfc, st.digamma, st.frac, st.sign, st.relu, st.lgamma):
            assert f(x).dtype == dtype
            assert f(x).float().tolist() == f(x.float()).to(dtype).float().tolist()
    x = st.tensor([1.0, -2.0])
    assert x.relu_() is x
    assert x.tolist() == [1.0, 0.0]
    assert st.relu(st.tensor([-1, 2])).tolist() == [0, 2]


def test_no_such_function() -> None:
    with pytest.raises(ValueError, match="elementwise: unknown function: lambda"):
        native.elementwise("lambda")


def both(low: float, high: float) -> Any:
    return np.concatenate([inside(low, high), far(-20, np.log10(high))])


# Functions for which NumPy has only AVX-512 loops: arguments, and the bounds of ours in units in
# the last place, for float64 and float32. NumPy's stay within 4.
NAMED: dict[str, tuple[list[Any], float, float]] = {
    "exp": ([both(-708, 708)], 1.1, 1.1),
    "exp2": ([both(-1022, 1023), both(-126, 127)], 1.1, 1.2),
    "expm1": ([both(-40, 700), both(-1, 1)], 2.1, 0.6),
    "log": ([10.0 ** inside(-37, 38), inside(0.5, 2)], 1.1, 1.1),
    "log2": ([10.0 ** inside(-37, 38), inside(0.5, 2)], 2, 2.1),
    "log10": ([10.0 ** inside(-37, 38), inside(0.5, 2)], 2, 2.1),
    "log1p": ([inside(-1, 1), far(-20, -1), 10.0 ** inside(0, 38)], 1.7, 1.7),
    "tan": ([both(-7, 7), far(-5, 5.9), far(6, 7)], 2.2, 0.7),
    "arcsin": ([both(-1, 1)], 2.4, 0.6),
    "arccos": ([both(-1, 1), 1 - 10.0 ** inside(-15, -1)], 1.4, 0.6),
    "arctan": ([both(-3, 3), far(-20, 20)], 1.2, 0.6),
    "sinh": ([both(-700, 700), both(-2, 2)], 2.8, 0.6),
    "cosh": ([both(-700, 700), both(-2, 2)], 1.6, 0.6),
    "tanh": ([both(-20, 20), both(-0.6, 0.6)], 3, 2.5),
    "arcsinh": ([both(-3, 3), far(-20, 38)], 2.2, 0.6),
    "arccosh": ([1 + 10.0 ** inside(-15, 0), inside(1, 10), 10.0 ** inside(0, 38)], 3, 0.6),
    "arctanh": ([both(-1, 1), 1 - 10.0 ** inside(-12, -1)], 2.2, 0.6),
}


@pytest.mark.parametrize("name", NAMED)
@each("dtype", list(EPSILON))
def test_named_function(name: str, dtype: str) -> None:
    f, oracle = native.parallel(getattr(np, name)), getattr(np, name)
    ranges, *units = NAMED[name]
    limit = units[dtype == "float32"] if OWN else 4.1
    for numbers in ranges:
        with np.errstate(all="ignore"):
            x = numbers.astype(dtype)
            want = oracle(x.astype(np.longdouble))
        usual = (abs(want) < np.finfo(dtype).max) & (abs(want) > np.finfo(dtype).tiny)
        got, want = f(x)[usual], want[usual]
        off = abs(got - want) / np.spacing(abs(want).astype(dtype))
        assert usual.sum() > 500
        assert off.max() <= limit, (x[usual][off.argmax()], off.max())
    odd = np.array(ODD, dtype)
    with np.errstate(all="ignore"):
        want = oracle(odd.astype(np.longdouble)).astype(dtype)
    np.testing.assert_allclose(f(odd), want, 4e-7 if dtype == "float32" else 8e-16, 0)
    signed = want == 0
    np.testing.assert_array_equal(np.signbit(f(odd))[signed], np.signbit(want)[signed])
    np.testing.assert_array_equal(
        f(np.repeat(odd, 3)), np.repeat(f(odd), 3)
    )  # whatever the other part is


@each("dtype", list(EPSILON))
def test_integer_logarithms_are_exact(dtype: str) -> None:
    """Against exact powers; with AVX-512 these are NumPy's functions, off by a few last places."""
    powers = range(-120, 121)
    tens = range(11 if dtype == "float32" else 23)
    two = np.array([math.ldexp(1, p) for p in powers], dtype)
    ten = np.array([10**p for p in tens], dtype)
    for name, x, want in (
        ("log2", two, np.array(powers, dtype)),
        ("exp2", np.array(powers, dtype), two),
        ("log10", ten, np.array(tens, dtype)),
    ):
        size = abs(want)
        unit = np.spacing(np.where(size == 0, 1, size).astype(dtype))
        off = abs(native.parallel(getattr(np, name))(x) - want) / unit
        assert off.max() <= (0 if OWN else 4.1), (name, x[off.argmax()], off.max())


@each("dtype", list(EPSILON))
def test_angles_and_powers(dtype: str) -> None:
    angle, power = native.parallel(np.arctan2), native.parallel(np.power)
    limit = 1.6 if OWN else 4.1
    for size in (1, 3, 30):
        x, y = (RNG.permutation(far(-size, size)).astype(dtype) for _ in range(2))
        want = np.arctan2(y.astype(np.longdouble), x.astype(np.longdouble))
        usual = abs(want) > np.finfo(dtype).tiny
        off = abs(angle(y, x) - want) / np.spacing(abs(want).astype(dtype))
        assert off[usual].max() <= limit
    x, y = np.meshgrid(np.array(ODD, dtype), np.array([*ODD, 0.5, 3, -3], dtype))
    with np.errstate(all="ignore"):
        for f, oracle in (
            (angle, np.arctan2),
            (power, np.power),
            (native.parallel(np.copysign), np.copysign),
        ):
            want = oracle(y.astype(np.longdouble), x.astype(np.longdouble)).astype(dtype)
            np.testing.assert_allclose(f(y, x), want, 4e-7 if dtype == "float32" else 8e-16, 0)
            np.testing.assert_array_equal(
                np.signbit(f(y, x))[want == 0], np.signbit(want)[want == 0]
            )
    base, to = (10.0 ** inside(-5, 5)).astype(dtype), inside(-7, 7).astype(dtype)
    want = np.power(base.astype(np.longdouble), to)
    off = abs(power(base, to) - want) / np.spacing(want.astype(dtype))
    assert off.max() <= (1.1 if OWN else 4.1)


@each("dtype", list(EPSILON))
def test_truths_of_numbers(dtype: str) -> None:
    """In any layout; NaN and the smallest numbers are true, -0 is false."""
    x, y = (RNG.integers(-1, 2, (300, 301)).astype(dtype) for _ in range(2))
    x[0, :5] = np.nan, np.inf, -0.0, 1e-42, 0
    for name in ("logical_and", "logical_or", "logical_xor"):
        f, oracle = native.parallel(getattr(np, name)), getattr(np, name)
        for a, b in (
            (x, y),
            (x.T, y.T),
            (x[:, ::2], y[:, ::-2]),
            (x, y[0]),
            (x, y[:, :1]),
            (x[:0], y[:0]),
        ):
            np.testing.assert_array_equal(f(a, b), oracle(a, b), strict=True)
        np.testing.assert_array_equal(f(x, 2.0), oracle(x, 2.0), strict=True)
    f = native.parallel(np.logical_not)
    for a in (x, x.T, x[::2, ::3], x[:0], x[0, 0]):
        np.testing.assert_array_equal(f(a), np.logical_not(a))


@each("dtype", ["c8", "c16"])
def test_negative_of_complex_numbers(dtype: str) -> None:
    x = (RNG.normal(size=(200, 203)) + 1j * RNG.normal(size=(200, 203))).astype(dtype)
    x[0, 0] = complex(0.0, -0.0)
    f = native.parallel(np.negative)
    for a in (x, x.T, x[::2, ::-3], x[:, :0], x[0, 0]):
        np.testing.assert_array_equal(f(a), -a)
    assert np.signbit(f(x)[0, 0].real)
    assert not np.signbit(f(x)[0, 0].imag)
    original = x.copy()
    assert f(x, x) is x
    np.testing.assert_array_equal(x, -original)


@each("dtype", list(EPSILON))
def test_one_over_numbers(dtype: str) -> None:
    f = native.parallel(np.reciprocal)
    x = np.concatenate([far(-30, 30).astype(dtype), np.array(ODD, dtype)])
    with np.errstate(all="ignore"):
        for a in (x, x[::-3], x[:0]):
            np.testing.assert_array_equal(f(a), 1 / a, strict=True)
    np.testing.assert_array_equal(st.pow(st.tensor(x), -1).numpy(), f(x))
