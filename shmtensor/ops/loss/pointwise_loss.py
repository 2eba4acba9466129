"""Pointwise losses of two tensors, reduced in the same pass: one row for all, one for gradients."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

from ... import native
from ..shape.view_expand_flip import sum_to_shape
from ..table.op_table import op
from ..table.samples import reals

Function = Callable[..., Any]


class PointwiseLoss(NamedTuple):
    """A loss of numbers x and y, (xp, x, y, a, b), its derivatives by x and by y, and the second
    ones.

    `second_derivatives` are functions (ops, x, y, a, b) on the table: by x twice, by both, by y
    twice; the number 0 if it is 0 everywhere.
    """

    value: Function
    derivatives: tuple[Function, Function]
    second_derivatives: tuple[Any, Any, Any]


def soft_plus(xp: Any, x: Any) -> Any:
    return xp.logaddexp(x, 0)


def logistic(xp: Any, x: Any) -> Any:
    e = xp.exp(-xp.abs(x))
    return xp.where(x >= 0, 1 / (1 + e), e / (1 + e))


def sigmoid_derivative(ops: Any, x: Any) -> Any:
    """s (1 - s), the derivative of the logistic function."""
    s = ops.sigmoid(x)
    return s * (1 - s)


def huber(xp: Any, x: Any, y: Any, knee: float, scale: float) -> Any:
    """scale * (d * d / (2 knee)) up to d = |x - y| = knee, then scale * (d - knee / 2)."""
    d = xp.abs(x - y)
    return xp.where(d < knee, d * d * (0.5 * scale / knee), scale * (d - 0.5 * knee))


def huber_second_derivative(ops: Any, x: Any, y: Any, knee: float, scale: float) -> Any:
    """scale / knee up to the knee."""
    return ops._to_copy(ops.abs(x - y) <= knee, x.dtype) * (scale / knee)


def binary_cross_entropy(xp: Any, x: Any, y: Any, a: float, b: float) -> Any:
    """-(y log(x) + (1 - y) log(1 - x)), with logarithms of at least -100."""
    for name, p in (("input", x), ("target", y)):
        if p.size and (p.min() < 0 or p.max() > 1):
            raise RuntimeError(
                f"binary_cross_entropy: {name} must lie in [0, 1]: {p.min()} to {p.max()}"
            )
    return -(y * xp.maximum(xp.log(x), -100) + (1 - y) * xp.maximum(xp.log1p(-x), -100))


TINY = 1e-12  # the lower bound of x (1 - x)


def bce_second_derivative(ops: Any, x: Any, y: Any, a: float, b: float) -> Any:
    """The derivative of (x - y) / (x (1 - x))."""
    d = (1 - x) * x
    low = ops._clamp(d, TINY, None)
    return (low - (x - y) * ops._where_other(d < TINY, 1 - 2 * x, 0.0)) / (low * low)


def divergence(xp: Any, x: Any, y: Any, a: float, b: float) -> Any:
    """y (log(y) - x), where 0 log(0) is 0."""
    return xp.where(y == 0, xp.zeros((), y.dtype), y * xp.log(y)) - y * x


def constant(number: float) -> Function:
    """A constant second derivative."""
    return lambda ops, x, y, a, b: number


POINTWISE_LOSSES = {
    "mse": PointwiseLoss(
        lambda xp, x, y, a, b: (x - y) * (x - y),
        (lambda xp, x, y, a, b: 2 * (x - y), lambda xp, x, y, a, b: 2 * (y - x)),
        (constant(2.0), constant(-2.0), constant(2.0)),
    ),
    "l1": PointwiseLoss(
        lambda xp, x, y, a, b: xp.abs(x - y),
        (lambda xp, x, y, a, b: xp.sign(x - y), lambda xp, x, y, a, b: xp.sign(y - x)),
        (0, 0, 0),
    ),
    "huber": PointwiseLoss(  # a: knee, b: scale
        huber,
        (
            lambda xp, x, y, a, b: b * xp.clip((x - y) / a, -1, 1),
            lambda xp, x, y, a, b: b * xp.clip((y - x) / a, -1, 1),
        ),
        (
            huber_second_derivative,
            lambda *args: -huber_second_derivative(*args),
            huber_second_derivative,
        ),
    ),
    "bce": PointwiseLoss(  # of the probability x
        binary_cross_entropy,
        (
            lambda xp, x, y, a, b: (x - y) / xp.maximum((1 - x) * x, TINY),
            lambda xp, x, y, a, b: xp.maximum(xp.log1p(-x), -100) - xp.maximum(xp.log(x), -100),
        ),
        (
            bce_second_derivative,
            lambda ops, x, y, a, b: -1 / ops._clamp((1 - x) * x, TINY, None),
            0,
        ),
    ),
    "bce_with_logits": PointwiseLoss(  # the entropy of sigmoid(x)
        lambda xp, x, y, a, b: xp.where(x < 0, -y, 1 - y) * x + soft_plus(xp, -xp.abs(x)),
        (lambda xp, x, y, a, b: logistic(xp, x) - y, lambda xp, x, y, a, b: -x),
        (lambda ops, x, y, a, b: sigmoid_derivative(ops, x), constant(-1.0), 0),
    ),
    "soft_margin": PointwiseLoss(  # log(1 + exp(-x y))
        lambda xp, x, y, a, b: soft_plus(xp, -x * y),
        (
            lambda xp, x, y, a, b: -y * logistic(xp, -x * y),
            lambda xp, x, y, a, b: -x * logistic(xp, -x * y),
        ),
        (
            lambda ops, x, y, a, b: y * y * sigmoid_derivative(ops, x * y),
            lambda ops, x, y, a, b: x * y * sigmoid_derivative(ops, x * y) - ops.sigmoid(-x * y),
            lambda ops, x, y, a, b: x * x * sigmoid_derivative(ops, x * y),
        ),
    ),
    "kl_div": PointwiseLoss(
        divergence,
        (lambda xp, x, y, a, b: -y, lambda xp, x, y, a, b: xp.log(y) + 1 - x),
        (0, constant(-1.0), lambda ops, x, y, a, b: 1 / y),
    ),
    "kl_div_log_target": PointwiseLoss(  # of logarithms y
        lambda xp, x, y, a, b: xp.exp(y) * (y - x),
        (lambda xp, x, y, a, b: -xp.exp(y), lambda xp, x, y, a, b: xp.exp(y) * (y - x + 1)),
        (0, lambda ops, x, y, a, b: -ops.exp(y), lambda ops, x, y, a, b: ops.exp(y) * (y - x + 2)),
    ),
    "poisson_nll": PointwiseLoss(  # of the logarithm x of a rate
        lambda xp, x, y, a, b: xp.exp(x) - y * x,
        (lambda xp, x, y, a, b: xp.exp(x) - y, lambda xp, x, y, a, b: -x),
        (lambda ops, x, y, a, b: ops.exp(x), constant(-1.0), 0),
    ),
}

PROBABLE = (reals((3, 4), 0.1, 0.9), reals((3, 4), 0.1, 0.9))
SAMPLES = [
    ((3, 4), (3, 4), "mse", "mean"),
    ((3, 4), (4,), "mse", "sum"),
    ((3, 4), (4,), "mse", "none"),
    ((3, 4), (3, 4), "l1", "mean"),
    ((3, 4), (3, 4), "huber", "sum", 0.5, 2.0),
    ((3, 4), (4,), "huber", "none", 1.0, 1.0),
    (*PROBABLE, "bce", "mean"),
    (*PROBABLE, "bce", "none"),
    ((3, 4), (3, 4), "bce_with_logits", "mean"),
    ((), (3, 1), "bce_with_logits", "none"),
    ((3, 4), (3, 4), "soft_margin", "sum"),
    ((3, 4), reals((3, 4), 0.1, 0.9), "kl_div", "mean"),
    ((3, 4), (3, 4), "kl_div_log_target", "sum"),
    ((3, 4), (3, 4), "poisson_nll", "none"),
    ((0, 4), (0, 4), "mse", "sum"),
]


def loss_weight(n: int, reduction: str) -> float:
    """The weight of one of n losses in their reduction."""
    return 1 / (n or math.nan) if reduction == "mean" else 1.0


@op(
    native=native.pointwise_loss,
    broadcast=True,
    promote="common",
    inplace=False,
    samples=SAMPLES,
    vmap="pointwise_losses",
)
def _pointwise_loss(xp, x, y, /, name, reduction="mean", a=0.0, b=0.0):
    """The named loss of x and y: all of them, their mean or their sum."""
    losses = POINTWISE_LOSSES[name].value(xp, x, y, a, b)
    if reduction != "none":
        losses = losses.mean() if reduction == "mean" and losses.size else losses.sum()
        if reduction == "mean" and not xp.broadcast(x, y).size:
            losses = losses + math.nan
    return xp.asarray(losses, losses.dtype if x.dtype.kind == "c" else x.dtype)


_pointwise_loss.pullback(
    x=lambda ops, g, x, y, x_shape, name, reduction, a, b: sum_to_shape(
        ops, ops._pointwise_loss_backward(g, x, y, name, 0, reduction, a, b), x_shape
    ),
    y=lambda ops, g, x, y, y_shape, name, reduction, a, b: sum_to_shape(
        ops, ops._pointwise_loss_backward(g, x, y, name, 1, reduction, a, b), y_shape
    ),
)


@op(
    native=native.pointwise_loss_backward,
    samples=[
        ((3, 4) if s[3] == "none" else (), *s[:3], side, *s[3:])
        for s in SAMPLES
        if s[0] != ()
        for side in (0, 1)
    ],
    layout="pointwise",
    vmap="pointwise_loss_gradients",
)
def _pointwise_loss_backward(xp, x, left, right, /, name, side, reduction="mean", a=0.0, b=0.0):
    """x times the derivative of the named loss by its left (side 0) or right operand, divided by
    the number of losses if they are averaged.
    """
    derivative = POINTWISE_LOSSES[name].derivatives[side](xp, left, right, a, b)
    shape = xp.broadcast(left, right).shape
    factor = x * x.dtype.type(loss_weight(math.prod(shape), reduction))
    return xp.broadcast_to(factor * derivative, shape).astype(left.dtype)


def pointwise_loss_double_backward(
    ops: Any, g: Any, x: Any, left: Any, right: Any, which: int, attributes: tuple[Any, ...]
) -> Any:
    """The gradient of `_pointwise_loss_backward` by x (which = -1), left (0) or right (1)."""
    name, side, reduction, a, b = attributes
    operand = (left, right)[max(which, 0)]
    if which < 0:
        derivatives = ops._pointwise_loss_backward(g, left, right, name, side, "none", a, b)
        if reduction == "none":
            return derivatives
        return ops.sum(derivatives) * loss_weight(math.prod(derivatives.shape), reduction)
    second_derivative = POINTWISE_LOSSES[name].second_derivatives[side + which]
    if second_derivative == 0:
        return None
    gradient = g * x * second_derivative(ops, left, right, a, b)
    return sum_to_shape(
        ops, gradient * loss_weight(math.prod(g.shape), reduction), tuple(operand.shape)
    )


_pointwise_loss_backward.pullback(
    x=lambda ops, g, x, left, right, name, side, reduction, a, b: pointwise_loss_double_backward(
        ops, g, x, left, right, -1, (name, side, reduction, a, b)
    ),
    left=lambda ops, g, x, left, right, name, side, reduction, a, b: pointwise_loss_double_backward(
        ops, g, x, left, right, 0, (name, side, reduction, a, b)
    ),
    right=lambda ops, g, x, left, right, name, side, reduction, a, b: (
        pointwise_loss_double_backward(ops, g, x, left, right, 1, (name, side, reduction, a, b))
    ),
)
