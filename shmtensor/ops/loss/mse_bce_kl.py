"""Losses of numbers and of probabilities, element by element."""

from __future__ import annotations

from typing import Any

from ..table.check_dtypes import fractions, same_dtype_rule
from ..table.op_definition import composite
from .cross_entropy import insist_on, legacy, reduced

# ---- distances


def real(*numbers: Any) -> bool:
    """Are they floating-point? Of other numbers the losses are put together op by op."""
    return all(x.dtype.kind == "f" for x in numbers)


@composite(method=False, function=False, autocast="full")
def mse_loss(ops, input, target, size_average=None, reduce=None, reduction="mean", weight=None):
    """Squared differences; with weight, weighted (the mean over the sum of the weights)."""
    reduction = legacy(size_average, reduce, reduction)
    insist_on("mse_loss", reduction)
    fractions("mse_loss", input, target)
    if weight is None:
        return ops._pointwise_loss(input, target, "squared", reduction)
    return weighted(ops, ops._pointwise_loss(input, target, "squared", "none"), weight, reduction)


def weighted(ops: Any, losses: Any, weight: Any, reduction: str) -> Any:
    """Losses times weights; the mean is over the sum of the weights."""
    losses = ops.mul(losses, weight)
    if reduction == "mean":
        full = ops.broadcast_to(weight, tuple(losses.shape))
        return ops.div(ops.sum(losses), ops.sum(full))
    return reduced(ops, losses, reduction)


@composite(method=False, function=False, autocast="full")
def l1_loss(ops, input, target, size_average=None, reduce=None, reduction="mean", weight=None):
    """Absolute differences."""
    reduction = legacy(size_average, reduce, reduction)
    insist_on("l1_loss", reduction)
    if weight is None and real(input, target):
        return ops._pointwise_loss(input, target, "absolute", reduction)
    losses = ops.abs(ops.sub(input, target))
    return (
        reduced(ops, losses, reduction)
        if weight is None
        else weighted(ops, losses, weight, reduction)
    )


@composite(method=False, function=False, autocast="full")
def smooth_l1_loss(ops, input, target, size_average=None, reduce=None, reduction="mean", beta=1.0):
    """Squared differences (over 2 beta) up to beta, absolute ones (less beta / 2) beyond."""
    if beta < 0:
        raise RuntimeError(f"smooth_l1_loss: beta must not be negative: {beta}")
    reduction = legacy(size_average, reduce, reduction)
    insist_on("smooth_l1_loss", reduction)
    fractions("smooth_l1_loss", input, target)
    name = "bent" if beta else "absolute"
    return ops._pointwise_loss(input, target, name, reduction, float(beta), 1.0)


@composite(method=False, function=False, autocast="full")
def huber_loss(ops, input, target, reduction="mean", delta=1.0, weight=None):
    """delta times `smooth_l1_loss` with beta = delta."""
    if delta <= 0:
        raise RuntimeError(f"huber_loss: delta must be positive: {delta}")
    insist_on("huber_loss", reduction)
    fractions("huber_loss", input, target)
    knee = float(delta)
    if weight is None:
        return ops._pointwise_loss(input, target, "bent", reduction, knee, knee)
    return weighted(
        ops, ops._pointwise_loss(input, target, "bent", "none", knee, knee), weight, reduction
    )


# ---- probabilities


@composite(method=False, function=False, autocast="full")
def binary_cross_entropy(
    ops, input, target, weight=None, size_average=None, reduce=None, reduction="mean"
):
    """Cross entropy of probabilities and truths from 0 to 1, element by element."""
    if tuple(input.shape) != tuple(target.shape):
        raise ValueError(
            f"binary_cross_entropy: shapes differ: {tuple(input.shape)}, {tuple(target.shape)}"
        )
    same_dtype_rule("binary_cross_entropy", input, target)
    reduction = legacy(size_average, reduce, reduction)
    insist_on("binary_cross_entropy", reduction)
    if weight is None:
        return ops._pointwise_loss(input, target, "entropy", reduction)
    losses = ops._pointwise_loss(input, target, "entropy", "none")
    return reduced(ops, weighted_losses(ops, losses, weight), reduction)


def weighted_losses(ops: Any, losses: Any, weight: Any) -> Any:
    """The losses times their weights, in the losses' dtype."""
    out = ops.mul(losses, weight)
    return out if out.dtype == losses.dtype else ops._to_copy(out, losses.dtype)


@composite(method=False, function=False, autocast="full")
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
    if target.dtype.kind in "biu":
        raise RuntimeError(
            "binary_cross_entropy_with_logits: target must hold floating-point numbers: "
            f"{target.dtype}, hint: target.to(input.dtype)"
        )
    reduction = legacy(size_average, reduce, reduction)
    insist_on("binary_cross_entropy_with_logits", reduction)
    if pos_weight is not None:
        low = ops.logsigmoid(input)
        if pos_weight.dtype != low.dtype:
            pos_weight = ops._to_copy(pos_weight, low.dtype)
        low = ops.mul(low, ops.add(ops.mul(ops.sub(pos_weight, 1), target), 1))
        losses = ops.sub(ops.mul(ops.rsub(target, 1), input), low)
    elif weight is None:
        return ops._pointwise_loss(input, target, "logit", reduction)
    else:
        losses = ops._pointwise_loss(input, target, "logit", "none")
    losses = losses if weight is None else weighted_losses(ops, losses, weight)
    return reduced(ops, losses, reduction)


@composite(method=False, function=False, autocast="full")
def kl_div(ops, input, target, size_average=None, reduce=None, reduction="mean", log_target=False):
    """target * (log(target) - input); reduction="batchmean" divides the sum by the first size."""
    name = "log_divergence" if log_target else "divergence"
    if reduction == "batchmean":
        total = ops._pointwise_loss(input, target, name, "sum")
        return ops.div(total, input.shape[0] if input.ndim else 1)
    reduction = legacy(size_average, reduce, reduction)
    insist_on("kl_div", reduction)
    return ops._pointwise_loss(input, target, name, reduction)
