"""clamp, addcmul, lerp, rsqrt, casts; exp, log, sin, cos of float32: against NumPy in float64."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from shmtensor import native

from ...cases import each

RNG = np.random.default_rng(3)
SIZES = [(), (0,), (1,), (3,), (17,), (5, 7), (70_001,)]


def ulps(result: Any, exact: Any) -> float:
    """The largest distance in units of the last place of float32."""
    result, exact = np.asarray(result), np.asarray(exact)
    unit = np.spacing(np.maximum(np.abs(exact), 1e-38).astype("f4")).astype("f8")
    return float((np.abs(result.astype("f8") - exact) / unit).max(initial=0))


@pytest.mark.parametrize(
    ("name", "low", "high", "most"),
    [
        ("exp", -87, 88, 2.0), ("exp", -1e-3, 1e-3, 1.0), ("log", 1e-38, 1e38, 2.0),
        ("log", 0.5, 2.0, 2.0), ("sin", -4, 4, 2.0), ("cos", -4, 4, 2.0), ("sin", -8000, 8000, 2.0),
        ("cos", -8000, 8000, 2.0), ("sin", -1e6, 1e6, 2.0), ("cos", -1e30, 1e30, 2.0),
    ],
)  # fmt: skip
def test_elementary_functions(name: str, low: float, high: float, most: float) -> None:
    f, want = native.parallel(getattr(np, name)), getattr(np, name)
    for shape in SIZES:
        x = np.asarray(RNG.uniform(low, high, shape)).astype("f4")
        if name == "log" and low < 1e-30:
            x = np.asarray(np.exp(RNG.uniform(-80, 80, shape))).astype("f4")
        out = f(x)
        assert out.dtype == np.float32
        assert out.shape == shape
        assert ulps(out, want(x.astype("f8"))) <= most
        if x.ndim:  # no element depends on its neighbours, its index or the layout
            np.testing.assert_array_equal(f(np.repeat(x, 3, -1)[..., ::3]), out)
            np.testing.assert_array_equal(f(x[::-1])[::-1], out)
            y = x.copy()
            assert f(y, y) is y
            np.testing.assert_array_equal(y, out)


def test_elementary_functions_at_the_edges() -> None:
    inf, nan = np.inf, np.nan
    x = np.array([0.0, -0.0, inf, -inf, nan, 1e-45, -1e-45, 89, -104, -200, 88.8, -95, 1, -1], "f4")
    with np.errstate(all="ignore"):
        for name in ("exp", "log", "sin", "cos"):
            want = getattr(np, name)(x.astype("f8")).astype("f4")
            got = native.parallel(getattr(np, name))(x)
            np.testing.assert_allclose(got, want, rtol=3e-7, atol=1e-44, err_msg=name)
    assert np.signbit(native.parallel(np.sin)(np.array([-0.0], "f4")))[0]


@each("dtype", ["f4", "f8"])
def test_reciprocal_root(dtype: str) -> None:
    for shape in SIZES:
        x = np.asarray(RNG.uniform(1e-6, 1e6, shape)).astype(dtype)
        np.testing.assert_allclose(
            native.rsqrt(x), 1 / np.sqrt(x), rtol=3e-7 if dtype == "f4" else 1e-15, strict=False
        )
    with np.errstate(all="ignore"):
        x = np.array([0, -0.0, np.inf, -1, np.nan, 4, 1e-45 if dtype == "f4" else 5e-324], dtype)
        np.testing.assert_allclose(native.rsqrt(x), 1 / np.sqrt(x), rtol=1e-6)


@each("dtype", ["f4", "f8"])
def test_fused_expressions(dtype: str) -> None:
    close = {"rtol": 2e-6, "atol": 2e-6}
    for shape in SIZES:
        x, y, z = (np.asarray(RNG.normal(size=shape)).astype(dtype) for _ in range(3))
        for low, high in ((-0.5, 0.5), (None, 0.1), (0, None), (1, -1)):
            want = x if low is None else np.maximum(x, low)
            want = want if high is None else np.minimum(want, high)
            np.testing.assert_array_equal(native.clamp(x, low, high), want.astype(dtype))
        np.testing.assert_allclose(native.addcmul(x, y, z, 3), x + 3 * y * z, **close)
        for weight in (0.3, 0.7, -1.0):
            np.testing.assert_allclose(native.lerp(x, y, weight), x + weight * (y - x), **close)
        weights = np.asarray(RNG.uniform(-1, 2, shape)).astype(dtype)
        np.testing.assert_allclose(native.lerp(x, y, weights), x + weights * (y - x), **close)
    assert native.lerp(x, y, 1.0).tobytes() == y.tobytes()
    assert native.lerp(x, y, np.ones_like(x)).tobytes() == y.tobytes()
    assert native.lerp(x, y, 0.0).tobytes() == x.tobytes()
    assert native.lerp(x, y, np.zeros_like(x)).tobytes() == x.tobytes()
    assert np.isnan(native.clamp(np.array([np.nan], dtype), 0, 1))[0]


@each("dtype", ["f4", "f8"])
def test_results_are_written_into_out(dtype: str) -> None:
    full = RNG.normal(size=(3, 20_001)).astype(dtype)
    x, y, z = full
    calls = (
        (native.clamp, (x, -0.5, 0.5)),
        (native.nan_to_num, (x, 0.0, 1.0, 2.0)),
        (native.addcmul, (x, y, z, 3)),
        (native.addcdiv, (x, y, z, 3)),
        (native.lerp, (x, y, 0.3)),
        (native.lerp, (x, y, z)),
    )
    for f, (_, *args) in calls:
        want, out, inplace = f(x, *args), np.empty_like(x), x.copy()
        assert f(x, *args, out) is out
        assert f(inplace, *args, inplace) is inplace
        np.testing.assert_array_equal(out, want)
        np.testing.assert_array_equal(inplace, want)
        assert f(x, *args, np.empty_like(full)) is None
        assert f(x[1:], *(r[1:] if isinstance(r, np.ndarray) else r for r in args), x[:-1]) is None


@each("dtype", ["f4", "f8"])
def test_numbers_in_place_of_nan_and_infinity(dtype: str) -> None:
    for n in (0, 1, 40, 20_001):
        x = RNG.normal(size=n).astype(dtype)
        x[::3], x[1::5], x[2::7] = np.nan, np.inf, -np.inf
        want = np.nan_to_num(x, nan=3.0, posinf=4.0, neginf=-5.0)
        np.testing.assert_array_equal(native.nan_to_num(x, 3.0, 4.0, -5.0), want)


def test_unusual_operands_are_left_to_the_caller() -> None:
    x, y = np.ones((3, 4), "f4"), np.ones(4, "f4")
    assert native.addcmul(x, y, x, 1) is None
    assert native.addcmul(x, x, x.astype("f8"), 1) is None
    assert native.addcmul(x, x, x.T.copy().T, 1) is None
    assert native.lerp(x, 1.0, 0.5) is None
    assert native.lerp(x, x, x.astype("f8")) is None
    assert native.nan_to_num(np.arange(3), 0, 1, 2) is None
    assert native.clamp(x, np.nan, None) is None
    assert native.clamp(np.ones(3, np.complex64), 0, 1) is None
    assert native.rsqrt(np.arange(3)) is None
    assert native.rsqrt(x[:, ::2]) is None


NUMBERS = ("?", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f4", "f8")


@each(("source", "target"), itertools.product(NUMBERS, NUMBERS))
def test_casts_are_numpys(source: str, target: str) -> None:
    for shape in ((), (0,), (5, 7), (20_001,)):
        low, high = (-100, 100) if source[0] in "fi" else (0, 200)
        x = np.asarray(RNG.uniform(low, high, shape))
        x = x.astype(source)
        for y in (x, x.T, x[::2] if x.ndim else x):
            got = native.cast(y, np.dtype(target).num)
            if got is None:
                assert source[0] == "f"
                assert target[0] == "u"
                continue
            np.testing.assert_array_equal(got, y.astype(target), strict=True)
            assert got.flags.c_contiguous
    assert native.cast(np.ones(3, "c8"), np.dtype(target).num) is None
    half = native.cast(np.arange(3).astype(source), np.dtype("f2").num)
    if source == "?":
        assert half is None
    elif source != "f4":  # this case is native.recast's, which keeps the order of the dimensions
        want = np.arange(3).astype(source).astype("f2")
        np.testing.assert_array_equal(half, want, strict=True)


@each("dtype", ["i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8"])
@each("n", [0, 1, 63, 1000, 70_001])
def test_integers_are_clamped_in_one_pass(n: int, dtype: str) -> None:
    info = np.iinfo(dtype)
    x = RNG.integers(info.min, info.max, n, dtype, endpoint=True)
    for low, high in [(10, 100), (None, 20), (3, None), (info.min, info.max), (90, 5)]:
        want = x if low is None else np.maximum(x, x.dtype.type(low))
        want = want if high is None else np.minimum(want, x.dtype.type(high))
        np.testing.assert_array_equal(native.clamp(x, low, high), want, strict=True)
        y = x.copy()
        assert native.clamp(y, low, high, y) is y
        np.testing.assert_array_equal(y, want)
    assert native.clamp(x, info.min - 1, None) is None
    assert native.clamp(x, None, info.max + 1) is None
    assert native.clamp(x, 1.5, None) is None
    assert native.clamp(np.repeat(x, 2)[::2], 1, 2) is None or n < 2
    assert native.clamp(x, 1, 2, np.empty(n + 1, dtype)) is None


@each("dtype", ["f4", "f8"])
@each("shape", SIZES)
def test_scaled_cubed_and_kept(shape: tuple[int, ...], dtype: str) -> None:
    x, y = (np.asarray(RNG.normal(size=shape)).astype(dtype) for _ in range(2))
    tight = {"rtol": 1e-6 if dtype == "f4" else 1e-15, "atol": 1e-6 if dtype == "f4" else 1e-15}
    np.testing.assert_allclose(native.add_alpha(x, y, -1.5), x - y * x.dtype.type(1.5), **tight)
    z = x.copy()
    assert native.add_alpha(z, y, 2, z) is z
    np.testing.assert_allclose(z, x + 2 * y, **tight)
    np.testing.assert_array_equal(native.cube(x), x * x * x)
    mask = np.asarray(RNG.random(shape) < 0.5)
    want = np.where(mask, x * x.dtype.type(0.75), x.dtype.type(0))
    np.testing.assert_array_equal(native.masked_scale(x, mask, 0.75), want, strict=True)


@each("dtype", ["f4", "f8"])
def test_masked_of_expanded_and_transposed_numbers(dtype: str) -> None:
    """As a gradient of a sum, of a row and of a transposed tensor is."""
    mask = RNG.random((70, 90)) < 0.5
    for x in (np.ones(()), RNG.normal(size=90), RNG.normal(size=(90, 70)).T):
        wide = np.broadcast_to(x.astype(dtype), mask.shape)
        want = np.where(mask, wide * wide.dtype.type(0.75), wide.dtype.type(0))
        np.testing.assert_array_equal(native.masked_scale(wide, mask, 0.75), want, strict=True)


def test_scaled_cubed_and_masked_decline_rare_cases() -> None:
    x = np.ones((3, 4), "f4")
    assert native.add_alpha(x, x[0], 2.0) is None
    assert native.add_alpha(x, x.astype("f8"), 2.0) is None
    assert native.add_alpha(x, x, 2j) is None
    assert native.cube(x.astype("i8")) is None
    assert native.masked_scale(x, np.ones((4, 3), bool), 2.0) is None
    assert native.masked_scale(x, x, 2.0) is None


def test_floats_are_cut_off() -> None:
    x = (RNG.normal(size=70_001) * 1e6).astype("f4")
    for y in (x, x.astype("f8"), x.reshape(-1, 1)[::2]):
        result = native.cast(y, np.dtype("i8").num)
        np.testing.assert_array_equal(result, y.astype("i8"), strict=True)
    edges = [2.0**31, -(2.0**31), 2.0**31 - 1, 2.0**40 + 0.5, -(2.0**62), 0.9, -0.9, -0.0]
    for kind, place in itertools.product(("f4", "f8"), range(40)):
        few = np.full(40, 1.5, kind)
        few[place] = edges[place % len(edges)]
        result = native.cast(few, np.dtype("i8").num)
        np.testing.assert_array_equal(result, few.astype("i8"), strict=True)
