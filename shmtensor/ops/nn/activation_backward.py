"""Derivatives of activations: one row for all, and its second derivatives; glu."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ... import native
from ..table.op_definition import op
from ..table.samples import reals

Function = Callable[..., Any]


class ActivationDerivatives(NamedTuple):
    """The first derivative, (f, x, a, b, c), and the second, (ops, x, a, b, c), of an activation.

    f has the functions `exp`, `tanh`, `softplus`, `sigmoid` and `where`. A second derivative of 0
    almost everywhere is None.
    """

    first: Function
    second: Function | None = None


class NumPyFunctions:
    """The functions `f` on NumPy's arrays."""

    exp, tanh, where = np.exp, np.tanh, np.where

    @staticmethod
    def softplus(x: Any) -> Any:
        return np.logaddexp(x, 0)

    @staticmethod
    def sigmoid(x: Any) -> Any:
        e = np.exp(-np.abs(x))
        return np.where(x >= 0, 1 / (1 + e), e / (1 + e))


def silu_derivative(f: Any, x: Any) -> Any:
    """s (1 + x (1 - s))."""
    s = f.sigmoid(x)
    return s * (1 + x * (1 - s))


def silu_second_derivative(ops: Any, x: Any) -> Any:
    """s (1 - s) (2 + x (1 - 2 s))."""
    s = ops.sigmoid(x)
    return s * (1 - s) * (2 + x * (1 - 2 * s))


def mish_derivative(f: Any, x: Any) -> Any:
    """t + x s (1 - t t), where t is tanh(softplus(x))."""
    t, s = f.tanh(f.softplus(x)), f.sigmoid(x)
    return t + x * s * (1 - t * t)


def mish_second_derivative(ops: Any, x: Any) -> Any:
    """(1 - t t) s (2 + x (1 - s - 2 t s))."""
    t, s = ops.tanh(ops.softplus(x)), ops.sigmoid(x)
    return (1 - t * t) * s * (2 + x * (1 - s - 2 * t * s))


def softplus_second_derivative(ops: Any, x: Any, beta: float, threshold: float) -> Any:
    """beta s (1 - s), and 0 beyond the threshold."""
    s = ops.sigmoid(x * beta)
    return ops._where_other(x * beta > threshold, beta * s * (1 - s), 0.0)


def logsigmoid_second_derivative(ops: Any, x: Any) -> Any:
    """-s (1 - s)."""
    s = ops.sigmoid(x)
    return -s * (1 - s)


def elu_second_derivative(ops: Any, x: Any, alpha: float, scale: float, input_scale: float) -> Any:
    """scale alpha input_scale^2 exp(input_scale x) on the negative side."""
    low = ops._where_other(x > 0, x, 0.0)
    value = ops.exp(low * input_scale) * (alpha * scale * input_scale * input_scale)
    return ops._where_other(x > 0, value, 0.0)


def shrink_derivative(f: Any, x: Any, lambd: float) -> Any:
    """0 from -lambd to lambd, else 1."""
    return f.where((x >= -lambd) & (x <= lambd), 0.0, 1.0)


DERIVATIVES = {
    "silu": ActivationDerivatives(silu_derivative, silu_second_derivative),
    "softplus": ActivationDerivatives(
        lambda f, x, beta, threshold: f.where(x * beta > threshold, 1.0, f.sigmoid(x * beta)),
        softplus_second_derivative,
    ),
    "logsigmoid": ActivationDerivatives(lambda f, x: f.sigmoid(-x), logsigmoid_second_derivative),
    "mish": ActivationDerivatives(mish_derivative, mish_second_derivative),
    "leaky_relu": ActivationDerivatives(
        lambda f, x, negative_slope: f.where(x > 0, 1.0, negative_slope)
    ),
    "elu": ActivationDerivatives(
        lambda f, x, alpha, scale, input_scale: f.where(
            x > 0,
            scale,
            f.exp(f.where(x > 0, 0.0, x) * input_scale) * (alpha * scale * input_scale),
        ),
        elu_second_derivative,
    ),
    "hardtanh": ActivationDerivatives(
        lambda f, x, min_val, max_val: f.where((x > min_val) & (x < max_val), 1.0, 0.0)
    ),
    "hardsigmoid": ActivationDerivatives(lambda f, x: f.where((x > -3) & (x < 3), 1 / 6, 0.0)),
    "hardswish": ActivationDerivatives(
        lambda f, x: f.where(x <= -3, 0.0, f.where(x >= 3, 1.0, x / 3 + 0.5)),
        lambda ops, x: ops._to_copy((x > -3) & (x < 3), x.dtype) / 3,
    ),
    "hardshrink": ActivationDerivatives(shrink_derivative),
    "softshrink": ActivationDerivatives(shrink_derivative),
    "threshold": ActivationDerivatives(lambda f, x, threshold: f.where(x <= threshold, 0.0, 1.0)),
}
ARGUMENT_COUNTS = {
    "softplus": 2, "leaky_relu": 1, "elu": 3, "hardtanh": 2, "hardshrink": 1, "softshrink": 1,
    "threshold": 1,
}  # fmt: skip

WIDE = reals((3, 4), -5.0, 5.0)


@op(
    native=native.activation_backward,
    samples=[
        ((3, 4), WIDE, "silu"),
        ((3, 4), WIDE, "softplus", 2.0, 4.0),
        ((3, 4), WIDE, "logsigmoid"),
        ((3, 4), WIDE, "mish"),
        ((3, 4), WIDE, "leaky_relu", 0.3),
        ((3, 4), WIDE, "elu", 0.7, 1.5, 0.5),
        ((3, 4), WIDE, "hardtanh", -1.0, 2.0),
        ((3, 4), WIDE, "hardsigmoid"),
        ((3, 4), WIDE, "hardswish"),
        ((3, 4), WIDE, "hardshrink", 0.5),
        ((3, 4), WIDE, "softshrink", 0.5),
        ((3, 4), WIDE, "threshold", 0.5),
    ],
    layout="pointwise",
)
def _activation_backward(xp, x, y, /, name, a=0.0, b=0.0, c=0.0):
    """x times the derivative of the named activation at y; 0 where the derivative is 0."""
    numbers = (a, b, c)[: ARGUMENT_COUNTS.get(name, 0)]
    derivative = DERIVATIVES[name].first(NumPyFunctions, y, *numbers)
    has_zero_derivative = DERIVATIVES[name].second is None or name == "hardswish"
    out = x * derivative
    return (xp.where(derivative == 0, 0.0, out) if has_zero_derivative else out).astype(x.dtype)


def activation_double_backward(
    ops: Any, g: Any, x: Any, y: Any, name: str, numbers: tuple[float, ...]
) -> Any:
    """The gradient of `_activation_backward` by y; None if the second derivative is 0."""
    second_derivative = DERIVATIVES[name].second
    return (
        None
        if second_derivative is None
        else g * x * second_derivative(ops, y, *numbers[: ARGUMENT_COUNTS.get(name, 0)])
    )


_activation_backward.pullback(
    x=lambda ops, g, y, name, a, b, c: ops._activation_backward(g, y, name, a, b, c),
    y=lambda ops, g, x, y, name, a, b, c: activation_double_backward(ops, g, x, y, name, (a, b, c)),
)


# ---- glu


def split_halves(x: Any, dim: int) -> tuple[Any, Any]:
    """Views of an array's two halves along dim."""
    n = x.shape[dim] // 2
    leading = (slice(None),) * dim
    return x[(*leading, slice(n))], x[(*leading, slice(n, None))]


@op(native=native.glu, samples=[((3, 4), 1), ((4, 3), 0), ((2, 6, 3), 1)], vmap="along")
def _glu(xp, x, /, dim):
    """The first half along dim times sigmoid(the second)."""
    value, gate = split_halves(x, dim)
    return value * NumPyFunctions.sigmoid(gate)


@op(
    native=native.glu_backward,
    samples=[((3, 2), (3, 4), 1), ((2, 3, 3), (2, 6, 3), 1)],
    vmap="along",
)
def _glu_backward(xp, x, y, /, dim):
    """The gradient of `_glu`'s input y, from the incoming gradient x."""
    value, gate = split_halves(y, dim)
    s = NumPyFunctions.sigmoid(gate)
    return xp.concatenate([x * s, x * value * s * (1 - s)], dim).astype(x.dtype)


def glu_double_backward(ops: Any, g: Any, x: Any, y: Any, dim: int) -> tuple[Any, Any]:
    """The gradients of `_glu_backward` by x and by y."""
    n = x.shape[dim]
    (a, b), (value, gate) = ((ops.narrow(v, dim, 0, n), ops.narrow(v, dim, n, n)) for v in (g, y))
    s = ops.sigmoid(gate)
    derivative = s * (1 - s)
    g_gate = x * derivative * (a + b * value * (1 - 2 * s))
    return a * s + b * value * derivative, ops.cat([b * x * derivative, g_gate], dim)


_glu.pullback(x=lambda ops, g, x, dim: ops._glu_backward(g, x, dim))
_glu_backward.pullback(
    x=lambda ops, g, x, y, dim: glu_double_backward(ops, g, x, y, dim)[0],
    y=lambda ops, g, x, y, dim: glu_double_backward(ops, g, x, y, dim)[1],
)
