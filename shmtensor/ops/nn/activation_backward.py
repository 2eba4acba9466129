"""Derivatives of activations: one row for all, by the derivatives that activation.py declares;
glu.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ... import native
from ..table.op_table import Row, op, parameters_of
from ..table.samples import reals

Function = Callable[..., Any]


class ActivationDerivatives(NamedTuple):
    """The derivatives of an activation, as `declare_derivatives` takes them."""

    first: Function
    second: Function | None
    excludes: bool


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


DERIVATIVES: dict[str, ActivationDerivatives] = {}  # by the names of the activations
ARGUMENT_COUNTS: dict[str, int] = {}  # how many numbers the derivatives take
SAMPLES: list[tuple[Any, ...]] = []

WIDE = reals((3, 4), -5.0, 5.0)


def declare_derivatives(
    row: Row,
    first: Function,
    second: Function | None = None,
    sample: tuple[float, ...] = (),
    excludes: bool = False,
) -> None:
    """Declares the derivatives of an activation, for its pullback by `_activation_backward`.

    Args:
        first: `first(f, x, numbers...)`; f has the functions `exp`, `tanh`, `softplus`, `sigmoid`
            and `where`.
        second: `second(ops, x, numbers...)`; None: it is 0 almost everywhere.
        sample: numbers for the generated test; as many as the derivatives take.
        excludes: the gradient is 0 where the derivative is, even for an infinite incoming
            gradient. Without a second derivative it is so in any case.
    """
    DERIVATIVES[row.name] = ActivationDerivatives(first, second, excludes or second is None)
    ARGUMENT_COUNTS[row.name] = len(parameters_of(first)) - 2
    if len(sample) != ARGUMENT_COUNTS[row.name]:
        raise TypeError(f"declare_derivatives: {row.name}: a sample has {len(sample)} numbers")
    SAMPLES.append(((3, 4), WIDE, row.name, *sample))


@op(native=native.activation_backward, samples=SAMPLES, layout="pointwise")
def _activation_backward(xp, x, y, /, name, a=0.0, b=0.0, c=0.0):
    """x times the derivative of the named activation at y; 0 where the derivative is 0."""
    numbers = (a, b, c)[: ARGUMENT_COUNTS.get(name, 0)]
    derivative = DERIVATIVES[name].first(NumPyFunctions, y, *numbers)
    out = x * derivative
    excludes = DERIVATIVES[name].excludes
    return (xp.where(derivative == 0, 0.0, out) if excludes else out).astype(x.dtype)


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


def glu_double_backward(
    ops: Any, needed: tuple[bool, ...], g: Any, x: Any, y: Any, dim: int
) -> tuple[Any, Any]:
    """The gradients of `_glu_backward` by x and by y."""
    needs_x, needs_y = needed
    n = y.shape[dim] // 2
    (a, b), (value, gate) = ((ops.narrow(v, dim, 0, n), ops.narrow(v, dim, n, n)) for v in (g, y))
    s = ops.sigmoid(gate)
    derivative = s * (1 - s)
    g_x = a * s + b * value * derivative if needs_x else None
    if not needs_y:
        return g_x, None
    g_gate = x * derivative * (a + b * value * (1 - 2 * s))
    return g_x, ops.cat([b * x * derivative, g_gate], dim)


_glu.pullback(x=lambda ops, g, x, dim: ops._glu_backward(g, x, dim))
_glu_backward.joint_pullback(glu_double_backward, x="y", y="x y")
