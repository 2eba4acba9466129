"""Activations in one pass, against their formulas in wider numbers."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy.special import expit

import shmtensor as st
from shmtensor import native

RNG = np.random.default_rng(0)
SHAPES = [(), (0,), (5,), (3, 7), (17, 33), (2, 3, 4), (50, 1001)]
TOLERANCE = {"float32": 2e-6, "float64": 1e-14, "float16": 2e-3}
Formula = Callable[..., Any]


def log_one_plus_exp(x: Any) -> Any:
    return np.logaddexp(x, 0)


CURVES: dict[str, tuple[tuple[float, ...], Formula]] = {
    "silu": ((), lambda x: x * expit(x)),
    "softplus": (
        (1.5, 4.0),
        lambda x, b, t: np.where(x * b > t, x, log_one_plus_exp(b * x) / b),
    ),
    "logsigmoid": ((), lambda x: -log_one_plus_exp(-x)),
    "mish": ((), lambda x: x * np.tanh(log_one_plus_exp(x))),
    "leaky_relu": ((0.25,), lambda x, a: np.where(x > 0, x, a * x)),
    "elu": (
        (1.5, 2.0, 0.5),
        lambda x, a, s, i: np.where(x > 0, s * x, a * s * np.expm1(np.minimum(x, 0) * i)),
    ),
    "hardtanh": ((-1.0, 2.0), np.clip),
    "hardsigmoid": ((), lambda x: np.clip(x + 3, 0, 6) / 6),
    "hardswish": ((), lambda x: x * np.clip(x + 3, 0, 6) / 6),
    "hardshrink": ((0.5,), lambda x, a: np.where(abs(x) > a, x, 0)),
    "softshrink": ((0.5,), lambda x, a: np.sign(x) * np.maximum(abs(x) - a, 0)),
    "threshold": ((0.5, 7.0), lambda x, a, y: np.where(x <= a, y, x)),
    "numbers": ((), np.nan_to_num),
}
# The results for NaN, infinity, -infinity and 0.
LIMITS = {
    "silu": (np.nan, np.inf, np.nan, 0),
    "softplus": (np.nan, np.inf, 0, np.log(2) / 1.5),
    "logsigmoid": (np.nan, 0, -np.inf, -np.log(2)),
    "mish": (np.nan, np.inf, np.nan, 0),
    "leaky_relu": (np.nan, np.inf, -np.inf, 0),
    "elu": (np.nan, np.inf, -3, 0),
    "hardtanh": (np.nan, 2, -1, 0),
    "hardsigmoid": (np.nan, 1, 0, 0.5),
    "hardswish": (np.nan, np.inf, np.nan, 0),
    "hardshrink": (np.nan, np.inf, -np.inf, 0),
    "softshrink": (np.nan, np.inf, -np.inf, 0),
    "threshold": (np.nan, np.inf, 7, 7),
    "numbers": (0, np.inf, -np.inf, 0),
}


def orders(x: Any) -> list[Any]:
    strided = np.repeat(x, 2, 0)[::2] if x.ndim else x
    return [x, np.asfortranarray(x), strided, x.T, np.broadcast_to(x, (2, *x.shape))]


@pytest.mark.parametrize("name", CURVES)
def test_curve(name: str) -> None:
    numbers, formula = CURVES[name]
    for dtype, shape in itertools.product(TOLERANCE, SHAPES):
        for x in orders(np.asarray(RNG.standard_normal(shape) * 4).astype(dtype)):
            got = getattr(native, name)(x, *numbers)
            assert got.shape == x.shape
            assert got.dtype == x.dtype
            want = formula(x.astype(np.longdouble), *numbers)
            np.testing.assert_allclose(got, want, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype])


@pytest.mark.parametrize("name", CURVES)
def test_small_and_far(name: str) -> None:
    """Relative errors where a sum with 1 would lose all digits."""
    numbers, formula = CURVES[name]
    size = np.concatenate([np.logspace(-30, 0, 500), np.linspace(1, 85, 500)])
    for dtype in ("float32", "float64"):
        x = np.concatenate([size, -size]).astype(dtype)
        want = formula(x.astype(np.longdouble), *numbers)
        if name in ("softplus", "logsigmoid"):  # the product by beta is rounded before exp is taken
            want = np.where(np.abs(x) < 20, want, getattr(native, name)(x, *numbers))
        got = getattr(native, name)(x, *numbers)
        tolerance = 2e-6 if dtype == "float32" else 3e-15
        np.testing.assert_allclose(got, want, rtol=tolerance, atol=1e-37)


@pytest.mark.parametrize("name", CURVES)
def test_limits(name: str) -> None:
    for dtype in ("float32", "float64"):
        x = np.array([np.nan, np.inf, -np.inf, 0], dtype)
        with np.errstate(all="raise"):
            result = getattr(native, name)(x, *CURVES[name][0])
        np.testing.assert_allclose(result, LIMITS[name], rtol=1e-6)


def test_gelu_keeps_its_digits_in_the_tail() -> None:
    from scipy.special import ndtr

    x = np.linspace(-12, 8, 20_001).astype("float32")
    want = x.astype("float64") * ndtr(x.astype("float64"))
    tolerance = 8e-7 if native.isa() != "generic" else 6e-6  # without fused multiply-adds
    np.testing.assert_allclose(native.gelu(x), want, rtol=tolerance)


SLOPED = [name for name in CURVES if name != "numbers"]


@pytest.mark.parametrize("name", SLOPED)
def test_slopes_are_differences(name: str) -> None:
    """Derivatives of the formula in float64, away from its kinks."""
    numbers, formula = CURVES[name]
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


@pytest.mark.parametrize("name", SLOPED)
def test_slopes_far_out(name: str) -> None:
    """No derivative overflows."""
    params = (*CURVES[name][0], 0.0, 0.0, 0.0)[:3]
    for dtype in ("float32", "float64"):
        x = np.array([-1e30, -200, -100, 100, 200, 1e30], dtype)
        result = native.activation_backward(np.ones_like(x), x, name, *params)
        assert result is not None
        assert np.isfinite(result).all(), result
        low, right = SLOPES_OUT[name]
        np.testing.assert_allclose(result[1:5], [low, low, right, right], atol=1e-18)


# The derivative of each far on the left and far on the right.
SLOPES_OUT = {
    "silu": (0, 1),
    "softplus": (0, 1),
    "logsigmoid": (1, 0),
    "mish": (0, 1),
    "leaky_relu": (0.25, 1),
    "elu": (0, 2),
    "hardtanh": (0, 0),
    "hardsigmoid": (0, 0),
    "hardswish": (0, 1),
    "hardshrink": (1, 1),
    "softshrink": (1, 1),
    "threshold": (0, 1),
}


def test_cases_left_to_the_plain_form() -> None:
    x = np.ones(3, "float32")
    assert native.silu(np.arange(3)) is None
    assert native.silu(x.astype("complex64")) is None
    assert native.hardtanh(x, 1.0, 0.0) is None
    assert native.softshrink(x, -1.0) is None
    assert native.elu(x, 1.0, 1.0, -1.0) is None
    assert native.leaky_relu(x, "1") is None  # type: ignore[arg-type]
    assert native.mish([1.0]) is None  # type: ignore[arg-type]
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
