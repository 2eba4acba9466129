"""Losses of numbers and of probabilities, element by element."""

from __future__ import annotations

import math
from typing import Any

from .loss import REDUCTIONS, legacy, reduced
from .movement import shrunk
from .samples import reals
from .table import composite, op

# ---- distances

FEW = 4096  # elements: past that BLAS would wake its threads for a sum
SIDES = [((3, 4), (3, 4)), ((3, 4), (4,))]


@op(
    broadcast=True,
    promote="common",
    inplace=False,
    method=False,
    function=False,
    samples=[(*s, m) for s in SIDES for m in REDUCTIONS],
)
def squared_error(xp, x, y, /, reduction="mean"):
    """(x - y) squared: all of it, its mean or its sum."""
    away = x - y
    if reduction != "none" and 0 < away.size <= FEW:  # mean() passes through Python: 4 us
        total = xp.vdot(away, away)
        return xp.asarray(total / away.size if reduction == "mean" else total, x.dtype)
    square = away * away
    if reduction == "none":
        return square
    return xp.asarray(square.mean() if reduction == "mean" else square.sum(), x.dtype)


def squared_error_slope(ops: Any, g: Any, x: Any, y: Any, reduction: str) -> Any:
    """2 (x - y), over the number of elements for the mean."""
    away = x - y
    if reduction == "mean":
        return away * (g * (2 / (math.prod(away.shape) or math.nan)))
    return away * (g * 2)


squared_error.pullback(
    x=lambda ops, g, x, y, reduction, x_shape: shrunk(
        ops, squared_error_slope(ops, g, x, y, reduction), x_shape
    ),
    y=lambda ops, g, x, y, reduction, y_shape: (
        -shrunk(ops, squared_error_slope(ops, g, x, y, reduction), y_shape)
    ),
)


@composite(method=False, function=False)
def mse_loss(ops, input, target, size_average=None, reduce=None, reduction="mean", weight=None):
    """Squared differences; with weight, weighted (the mean over the sum of the weights)."""
    reduction = legacy(size_average, reduce, reduction)
    if reduction not in REDUCTIONS:
        raise ValueError(
            f"mse_loss: no such reduction: {reduction!r}, one of {REDUCTIONS} is needed"
        )
    if weight is None:
        return ops.squared_error(input, target, reduction)
    return weighted(ops, ops.squared_error(input, target, "none"), weight, reduction)


def weighted(ops: Any, losses: Any, weight: Any, reduction: str) -> Any:
    """Losses times weights; the mean is over the sum of the weights."""
    losses = ops.mul(losses, weight)
    if reduction == "mean":
        full = ops.broadcast_to(weight, tuple(losses.shape))
        return ops.div(ops.sum(losses), ops.sum(full))
    return reduced(ops, losses, reduction)


@composite(method=False, function=False)
def l1_loss(ops, input, target, size_average=None, reduce=None, reduction="mean", weight=None):
    """Absolute differences."""
    losses = ops.abs(ops.sub(input, target))
    reduction = legacy(size_average, reduce, reduction)
    return (
        reduced(ops, losses, reduction)
        if weight is None
        else weighted(ops, losses, weight, reduction)
    )


@op(
    broadcast=True,
    promote="common",
    inplace=False,
    method=False,
    function=False,
    samples=[((3, 4), (3, 4), 0.5, 1.0), ((3, 4), (4,), 1.0, 2.0)],
)
def bent(xp, x, y, /, knee, scale):
    """scale * (d * d / (2 knee)) up to d = |x - y| = knee, then scale * (d - knee / 2)."""
    d = xp.abs(x - y)
    return xp.where(d < knee, d * d * (0.5 * scale / knee), scale * (d - 0.5 * knee)).astype(
        d.dtype
    )


def bent_slope(ops: Any, g: Any, x: Any, y: Any, knee: float, scale: float) -> Any:
    """scale * (x - y) / knee, but at most scale in size."""
    return g * (scale * ops.clamped((x - y) / knee, -1.0, 1.0))


bent.pullback(
    x=lambda ops, g, x, y, knee, scale: bent_slope(ops, g, x, y, knee, scale),
    y=lambda ops, g, x, y, knee, scale: -bent_slope(ops, g, x, y, knee, scale),
)


@composite(method=False, function=False)
def smooth_l1_loss(ops, input, target, size_average=None, reduce=None, reduction="mean", beta=1.0):
    """Squared differences (over 2 beta) up to beta, absolute ones (less beta / 2) beyond."""
    if beta < 0:
        raise RuntimeError(f"smooth_l1_loss: beta must not be negative: {beta}")
    losses = ops.bent(input, target, beta, 1.0) if beta else ops.abs(ops.sub(input, target))
    return reduced(ops, losses, legacy(size_average, reduce, reduction))


@composite(method=False, function=False)
def huber_loss(ops, input, target, reduction="mean", delta=1.0, weight=None):
    """delta times `smooth_l1_loss` with beta = delta."""
    if delta <= 0:
        raise RuntimeError(f"huber_loss: delta must be positive: {delta}")
    losses = ops.bent(input, target, delta, delta)
    return (
        reduced(ops, losses, reduction)
        if weight is None
        else weighted(ops, losses, weight, reduction)
    )


# ---- probabilities


@op(
    broadcast=True,
    promote="common",
    inplace=False,
    method=False,
    function=False,
    samples=[(reals((3, 4), 0.1, 0.9), reals((3, 4), 0.0, 1.0))],
)
def binary_entropy(xp, x, y, /):
    """-(y log(x) + (1 - y) log(1 - x)), with logarithms of at least -100."""
    if x.size and (x.min() < 0 or x.max() > 1):
        raise RuntimeError(
            f"binary_cross_entropy: input must lie in [0, 1]: {x.min()} to {x.max()}"
        )
    return -(y * xp.maximum(xp.log(x), -100) + (1 - y) * xp.maximum(xp.log1p(-x), -100))


binary_entropy.pullback(
    x=lambda ops, g, x, y: g * (x - y) / ops.clamped((1 - x) * x, 1e-12, None),
    y=lambda ops, g, x: (
        g * (ops.clamped(ops.log1p(-x), -100.0, None) - ops.clamped(ops.log(x), -100.0, None))
    ),
)


@composite(method=False, function=False)
def binary_cross_entropy(
    ops, input, target, weight=None, size_average=None, reduce=None, reduction="mean"
):
    """Cross entropy of probabilities and truths from 0 to 1, element by element."""
    if tuple(input.shape) != tuple(target.shape):
        raise ValueError(
            f"binary_cross_entropy: shapes differ: {tuple(input.shape)}, {tuple(target.shape)}"
        )
    losses = ops.binary_entropy(input, target)
    losses = losses if weight is None else ops.mul(losses, weight)
    return reduced(ops, losses, legacy(size_average, reduce, reduction))


@composite(method=False, function=False)
def binary_cross_entropy_with_logits(
    ops,
    input,
    target,
    weight=None,
    size_average=None,
    reduce=None,
    reduction="mean",
    pos_weight=None,
):
    """`binary_cross_entropy` of sigmoid(input), without overflow; pos_weight weighs the positive
    truths.
    """
    if tuple(input.shape) != tuple(target.shape):
        raise ValueError(
            "binary_cross_entropy_with_logits: shapes differ: "
            f"{tuple(input.shape)}, {tuple(target.shape)}"
        )
    low = ops.logsigmoid(input)
    if pos_weight is not None:
        low = ops.mul(low, ops.add(ops.mul(ops.sub(pos_weight, 1), target), 1))
    losses = ops.sub(ops.mul(ops.rsub(target, 1), input), low)
    losses = losses if weight is None else ops.mul(losses, weight)
    return reduced(ops, losses, legacy(size_average, reduce, reduction))


@composite(method=False, function=False)
def kl_div(ops, input, target, size_average=None, reduce=None, reduction="mean", log_target=False):
    """target * (log(target) - input); reduction="batchmean" divides the sum by the first size."""
    if log_target:
        losses = ops.mul(ops.exp(target), ops.sub(target, input))
    else:
        losses = ops.sub(ops.xlogy(target, target), ops.mul(target, input))
    if reduction == "batchmean":
        return ops.div(ops.sum(losses), input.shape[0] if input.ndim else 1)
    return reduced(ops, losses, legacy(size_average, reduce, reduction))
