"""Activations in one pass, against their formulas in wider numbers."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
from scipy.special import expit

import shmtensor as st
from shmtensor import native
from shmtensor.ops.nn.activation import DERIVATIVES

RNG = np.random.default_rng(0)
SHAPES = [(), (0,), (5,), (3, 7), (17, 33), (2, 3, 4), (50, 1001)]
TOLERANCE = {"float32": 2e-6, "float64": 1e-14, "float16": 2e-3}
Formula = Callable[..., Any]


def log_one_plus_exp(x: Any) -> Any:
    return np.logaddexp(x, 0)


class Curve(NamedTuple):
    """An activation: numbers, its formula with them, and what it must be at and near infinity."""

    numbers: tuple[float, ...]
    formula: Formula
    limits: tuple[float, ...]  # the results for NaN, infinity, -infinity and 0
    slopes: tuple[float, float] | None  # the derivative far on the left and far on the right


NAN, INF = np.nan, np.inf
CURVES = {
    "silu": Curve((), lambda x: x * expit(x), (NAN, INF, NAN, 0), (0, 1)),
    "softplus": Curve(
        (1.5, 4.0),
        lambda x, b, t: np.where(x * b > t, x, log_one_plus_exp(b * x) / b),
        (NAN, INF, 0, np.log(2) / 1.5),
        (0, 1),
    ),
    "logsigmoid": Curve((), lambda x: -log_one_plus_exp(-x), (NAN, 0, -INF, -np.log(2)), (1, 0)),
    "mish": Curve((), lambda x: x * np.tanh(log_one_plus_exp(x)), (NAN, INF, NAN, 0), (0, 1)),
    "leaky_relu": Curve(
        (0.25,), lambda x, a: np.where(x > 0, x, a * x), (NAN, INF, -INF, 0), (0.25, 1)
    ),
    "elu": Curve(
        (1.5, 2.0, 0.5),
        lambda x, a, s, i: np.where(x > 0, s * x, a * s * np.expm1(np.minimum(x, 0) * i)),
        (NAN, INF, -3, 0),
        (0, 2),
    ),
    "softsign": Curve((), lambda x: x / (1 + abs(x)), (NAN, NAN, NAN, 0), (0, 0)),
    "hardtanh": Curve((-1.0, 2.0), np.clip, (NAN, 2, -1, 0), (0, 0)),
    "hardsigmoid": Curve((), lambda x: np.clip(x + 3, 0, 6) / 6, (NAN, 1, 0, 0.5), (0, 0)),
    "hardswish": Curve((), lambda x: x * np.clip(x + 3, 0, 6) / 6, (NAN, INF, NAN, 0), (0, 1)),
    "hardshrink": Curve(
        (0.5,), lambda x, a: np.where(abs(x) > a, x, 0), (NAN, INF, -INF, 0), (1, 1)
    ),
    "softshrink": Curve(
        (0.5,), lambda x, a: np.sign(x) * np.maximum(abs(x) - a, 0), (NAN, INF, -INF, 0), (1, 1)
    ),
    "threshold": Curve(
        (0.5, 7.0), lambda x, a, y: np.where(x <= a, y, x), (NAN, INF, 7, 7), (0, 1)
    ),
    "numbers": Curve((), np.nan_to_num, (0, INF, -INF, 0), None),
}
KERNELS = {name: native.activation(name) for name in CURVES}


def test_every_activation_of_the_table_is_here() -> None:
    names = {name for name, curve in CURVES.items() if curve.slopes}
    assert names == DERIVATIVES.keys()
    with pytest.raises(ValueError, match="activation: unknown function: erf"):
        native.activation("erf")


def orders(x: Any) -> list[Any]:
    strided = np.repeat(x, 2, 0)[::2] if x.ndim else x
    return [x, np.asfortranarray(x), strided, x.T, np.broadcast_to(x, (2, *x.shape))]


@pytest.mark.parametrize("name", CURVES)
def test_curve(name: str) -> None:
    numbers, formula, *_ = CURVES[name]
    for dtype, shape in itertools.product(TOLERANCE, SHAPES):
        for x in orders(np.asarray(RNG.standard_normal(shape) * 4).astype(dtype)):
            got = KERNELS[name](x, *numbers)
            assert got.shape == x.shape
            assert got.dtype == x.dtype
            want = formula(x.astype(np.longdouble), *numbers)
            np.testing.assert_allclose(got, want, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype])


@pytest.mark.parametrize("name", CURVES)
def test_small_and_far(name: str) -> None:
    """Relative errors where a sum with 1 would lose all digits."""
    numbers, formula, *_ = CURVES[name]
    size = np.concatenate([np.logspace(-30, 0, 500), np.linspace(1, 85, 500)])
    for dtype in ("float32", "float64"):
        x = np.concatenate([size, -size]).astype(dtype)
        want = formula(x.astype(np.longdouble), *numbers)
        if name in ("softplus", "logsigmoid"):  # the product by beta is rounded before exp is taken
            want = np.where(np.abs(x) < 20, want, KERNELS[name](x, *numbers))
        got = KERNELS[name](x, *numbers)
        tolerance = 2e-6 if dtype == "float32" else 3e-15
        np.testing.assert_allclose(got, want, rtol=tolerance, atol=1e-37)


@pytest.mark.parametrize("name", CURVES)
def test_limits(name: str) -> None:
    for dtype in ("float32", "float64"):
        x = np.array([np.nan, np.inf, -np.inf, 0], dtype)
        with np.errstate(all="raise"):
            result = KERNELS[name](x, *CURVES[name].numbers)
        np.testing.assert_allclose(result, CURVES[name].limits, rtol=1e-6)


def test_gelu_keeps_its_digits_in_the_tail() -> None:
    from scipy.special import ndtr

    x = np.linspace(-12, 8, 20_001).astype("float32")
    want = x.astype("float64") * ndtr(x.astype("float64"))
    tolerance = 8e-7 if native.isa() != "generic" else 6e-6  # without fused multiply-adds
    np.testing.assert_allclose(native.gelu(x), want, rtol=tolerance)


SLOPED = list(DERIVATIVES)


@pytest.mark.parametrize("name", SLOPED)
def test_slopes_are_differences(name: str) -> None:
    """Derivatives of the formula in float64, away from its kinks."""
    numbers, formula, *_ = CURVES[name]
    params = (*numbers, 0.0, 0.0, 0.0)[:3]
    for dtype, shape in itertools.product(("float64", "float32", "float16"), SHAPES):
        x = np.asarray(RNG.standard_normal(shape) * 4).astype(dtype)
        wide, step = x.astype("float64"), 1e-6
        corners = (0, *numbers, *(-n for n in numbers), 3, -3, 8 / 3)
        x = np.where(np.min([abs(wide - c) for c in corners], 0) < 1e-2, 0.1, x).astype(dtype)
        wide = x.astype("float64")
        want = (formula(wide + step, *numbers) - formula(wide - step, *numbers)) / (2 * step)
        g = np.asarray(RNG.standard_normal(shape)).astype(dtype)
        for y, h in ((x, g), (x.copy("F"), g.copy("F"))):
            got = native.activation_backward(h, y, name, *params)
            assert got is not None
            assert (got.shape, got.dtype) == (x.shape, x.dtype)
            close = {"float64": 1e-8, "float32": 3e-6, "float16": 3e-3}[dtype]
            np.testing.assert_allclose(got, g * want, rtol=close, atol=close)


def test_the_slope_of_softsign_falls_without_overflow() -> None:
    for dtype, far in (("float32", 1e30), ("float64", 1e200)):
        x = np.array([-far, -99, 0, 99, far], dtype)
        result = native.activation_backward(np.ones_like(x), x, "softsign", 0.0, 0.0, 0.0)
        np.testing.assert_allclose(result, [0, 1e-4, 1, 1e-4, 0], rtol=1e-6)


@pytest.mark.parametrize("name", sorted(set(SLOPED) - {"softsign"}))
def test_slopes_far_out(name: str) -> None:
    """No derivative overflows."""
    params = (*CURVES[name].numbers, 0.0, 0.0, 0.0)[:3]
    for dtype in ("float32", "float64"):
        x = np.array([-1e30, -200, -100, 100, 200, 1e30], dtype)
        result = native.activation_backward(np.ones_like(x), x, name, *params)
        assert result is not None
        assert np.isfinite(result).all(), result
        slopes = CURVES[name].slopes
        assert slopes is not None
        low, right = slopes
        np.testing.assert_allclose(result[1:5], [low, low, right, right], atol=1e-18)


def test_cases_left_to_the_plain_form() -> None:
    x = np.ones(3, "float32")
    assert KERNELS["silu"](np.arange(3)) is None
    assert KERNELS["silu"](x.astype("complex64")) is None
    assert KERNELS["hardtanh"](x, 1.0, 0.0) is None
    assert KERNELS["softshrink"](x, -1.0) is None
    assert KERNELS["elu"](x, 1.0, 1.0, -1.0) is None
    assert KERNELS["leaky_relu"](x, "1") is None
    assert KERNELS["mish"]([1.0]) is None
    assert native.activation_backward(x, x.astype("float64"), "silu", 0.0, 0.0, 0.0) is None
    assert native.activation_backward(x, x[:2], "silu", 0.0, 0.0, 0.0) is None
    assert native.activation_backward(x, x, "erf", 0.0, 0.0, 0.0) is None
    assert native.activation_backward(x, x, "elu", 1.0, 1.0, -1.0) is None


def test_results_keep_the_order_of_axes() -> None:
    for x in (st.rand(3, 4).t(), st.rand(2, 3, 4, 5).permute(0, 2, 3, 1)):
        for f in (st.nn.functional.silu, st.nn.functional.gelu, st.relu, st.sigmoid):
            assert f(x).stride() == x.stride()
            # Not bit by bit: the neighbours decide which of gelu's two forms is computed.
            np.testing.assert_allclose(f(x).numpy(), f(x.contiguous()).numpy(), rtol=1e-6)


def test_the_gate_and_its_slopes() -> None:
    for dtype, close in (("float32", 2e-6), ("float64", 1e-13)):
        for shape, dim in (((6,), 0), ((3, 8), 1), ((8, 3), 0), ((5, 4, 7), 1), ((70, 1000), 1)):
            x = (RNG.standard_normal(shape) * 3).astype(dtype)
            values, right = np.split(x.astype("float64"), 2, dim)
            s = expit(right)
            for y in (x, x.copy("F")):
                got = native.glu(y, dim)
                assert got is not None
                assert got.dtype == x.dtype
                np.testing.assert_allclose(got, values * s, rtol=close, atol=close)
            g = np.asarray(RNG.standard_normal(values.shape), dtype)
            want = np.concatenate([g * s, g * values * s * (1 - s)], dim)
            gradient = native.glu_backward(g, x, dim)
            np.testing.assert_allclose(gradient, want, rtol=close, atol=close)
    x = np.ones((4, 6), "float32")
    assert native.glu(x, 2) is None
    assert native.glu(x[:, :5], 1) is None
    assert native.glu(x.astype("int64"), 1) is None
    assert native.glu_backward(x, x, 1) is None
    assert native.glu_backward(x[:, :3].astype("float64"), x, 1) is None
