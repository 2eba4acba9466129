"""Pointwise losses of numbers (mse, l1, huber) and of probabilities (bce, kl_div)."""

from __future__ import annotations

from typing import Any

from ..table.check_dtypes import check_any_floating, check_same_dtype
from ..table.op_table import composite
from .cross_entropy import apply_reduction, check_reduction, reduction_of_legacy

# ---- distances


def all_floating(*numbers: Any) -> bool:
    """Are they floating-point? The losses of other dtypes are computed op by op."""
    return all(x.dtype.kind == "f" for x in numbers)


@composite(autocast_cuda="full", method=False, function=False, autocast="full")
def mse_loss(ops, input, target, size_average=None, reduce=None, reduction="mean", weight=None):
    """Squared differences; with weight, weighted (the mean over the sum of the weights)."""
    reduction = reduction_of_legacy(size_average, reduce, reduction)
    check_reduction("mse_loss", reduction)
    check_any_floating("mse_loss", input, target)
    if weight is None:
        return ops._pointwise_loss(input, target, "mse", reduction)
    return apply_weighted_reduction(
        ops, ops._pointwise_loss(input, target, "mse", "none"), weight, reduction
    )


def apply_weighted_reduction(ops: Any, losses: Any, weight: Any, reduction: str) -> Any:
    """Losses times weights; the mean is over the sum of the weights."""
    losses = ops.mul(losses, weight)
    if reduction == "mean":
        full = ops.broadcast_to(weight, tuple(losses.shape))
        return ops.div(ops.sum(losses), ops.sum(full))
    return apply_reduction(ops, losses, reduction)


@composite(autocast_cuda="full", method=False, function=False, autocast="full")
def l1_loss(ops, input, target, size_average=None, reduce=None, reduction="mean", weight=None):
    """Absolute differences."""
    reduction = reduction_of_legacy(size_average, reduce, reduction)
    check_reduction("l1_loss", reduction)
    if weight is None and all_floating(input, target):
        return ops._pointwise_loss(input, target, "l1", reduction)
    losses = ops.abs(ops.sub(input, target))
    return (
        apply_reduction(ops, losses, reduction)
        if weight is None
        else apply_weighted_reduction(ops, losses, weight, reduction)
    )


@composite(autocast_cuda="full", method=False, function=False, autocast="full")
def smooth_l1_loss(ops, input, target, size_average=None, reduce=None, reduction="mean", beta=1.0):
    """Squared differences (over 2 beta) up to beta, absolute ones (less beta / 2) beyond."""
    if beta < 0:
        raise RuntimeError(f"smooth_l1_loss: beta must not be negative: {beta}")
    reduction = reduction_of_legacy(size_average, reduce, reduction)
    check_reduction("smooth_l1_loss", reduction)
    check_any_floating("smooth_l1_loss", input, target)
    name = "huber" if beta else "l1"
    return ops._pointwise_loss(input, target, name, reduction, float(beta), 1.0)


@composite(autocast_cuda="full", method=False, function=False, autocast="full")
def huber_loss(ops, input, target, reduction="mean", delta=1.0, weight=None):
    """delta times `smooth_l1_loss` with beta = delta."""
    if delta <= 0:
        raise RuntimeError(f"huber_loss: delta must be positive: {delta}")
    check_reduction("huber_loss", reduction)
    check_any_floating("huber_loss", input, target)
    knee = float(delta)
    if weight is None:
        return ops._pointwise_loss(input, target, "huber", reduction, knee, knee)
    return apply_weighted_reduction(
        ops, ops._pointwise_loss(input, target, "huber", "none", knee, knee), weight, reduction
    )


# ---- probabilities


@composite(autocast_cuda="refused", method=False, function=False, autocast="full")
def binary_cross_entropy(
    ops, input, target, weight=None, size_average=None, reduce=None, reduction="mean"
):
    """The cross entropy of probabilities of two classes.

    Parameters
    ----------
    input : Tensor
        Probabilities from 0 to 1, of any shape.
    target : Tensor
        Numbers from 0 to 1, of the input's shape.
    weight : Tensor, optional
        Factors of the losses, of a shape that broadcasts.
    size_average, reduce : bool, optional
        The older way to name a reduction, which overrides `reduction`: reduce=False is "none",
        size_average=False is "sum", any other choice "mean".
    reduction : str, optional
        "mean" over the elements, their "sum", or "none" for one loss an element.

    Returns
    -------
    Tensor
        `()`, or of the input's shape if reduction is "none".

    Raises
    ------
    RuntimeError
        The input or the target is not within 0 and 1.

    See Also
    --------
    binary_cross_entropy_with_logits, nn.BCELoss

    Notes
    -----
    -(y * log(x) + (1 - y) * log(1 - x)), with logarithms of at least -100.

    Examples
    --------
    >>> F.binary_cross_entropy(st.tensor([0.5, 1.0]), st.tensor([1., 1.]))
    tensor(0.3466)
    """
    if tuple(input.shape) != tuple(target.shape):
        raise ValueError(
            f"binary_cross_entropy: shapes differ: {tuple(input.shape)}, {tuple(target.shape)}"
        )
    check_same_dtype("binary_cross_entropy", input, target)
    reduction = reduction_of_legacy(size_average, reduce, reduction)
    check_reduction("binary_cross_entropy", reduction)
    if weight is None:
        return ops._pointwise_loss(input, target, "bce", reduction)
    losses = ops._pointwise_loss(input, target, "bce", "none")
    return apply_reduction(ops, multiply_by_weight(ops, losses, weight), reduction)


def multiply_by_weight(ops: Any, losses: Any, weight: Any) -> Any:
    """The losses times their weights, in the losses' dtype."""
    out = ops.mul(losses, weight)
    return out if out.dtype == losses.dtype else ops._to_copy(out, losses.dtype)


@composite(autocast_cuda="full", method=False, function=False, autocast="full")
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
    """The cross entropy of two classes from logits, without overflow.

    Parameters
    ----------
    input : Tensor
        Logits, of any shape.
    target : Tensor
        Numbers from 0 to 1, of the input's shape.
    weight : Tensor, optional
        Factors of the losses, of a shape that broadcasts.
    size_average, reduce : bool, optional
        The older way to name a reduction, which overrides `reduction`: reduce=False is "none",
        size_average=False is "sum", any other choice "mean".
    reduction : str, optional
        "mean" over the elements, their "sum", or "none" for one loss an element.
    pos_weight : Tensor, optional
        Factors of the losses of positive targets, of a shape that broadcasts.

    Returns
    -------
    Tensor
        `()`, or of the input's shape if reduction is "none".

    Raises
    ------
    ValueError
        The shapes differ.
    RuntimeError
        The target does not hold floating-point numbers.

    See Also
    --------
    binary_cross_entropy, nn.BCEWithLogitsLoss

    Notes
    -----
    `binary_cross_entropy` of sigmoid(input).

    Examples
    --------
    >>> F.binary_cross_entropy_with_logits(st.tensor([0., 1000.]), st.tensor([1., 1.]))
    tensor(0.3466)
    """
    if tuple(input.shape) != tuple(target.shape):
        raise ValueError(
            "binary_cross_entropy_with_logits: shapes differ: "
            f"{tuple(input.shape)}, {tuple(target.shape)}"
        )
    if target.dtype.kind in "biu":
        raise RuntimeError(
            "binary_cross_entropy_with_logits: target must hold floating-point numbers: "
            f"{target.dtype.name}, hint: target.to(input.dtype)"
        )
    reduction = reduction_of_legacy(size_average, reduce, reduction)
    check_reduction("binary_cross_entropy_with_logits", reduction)
    if pos_weight is not None:
        low = ops.logsigmoid(input)
        if pos_weight.dtype != low.dtype:
            pos_weight = ops._to_copy(pos_weight, low.dtype)
        low = ops.mul(low, ops.add(ops.mul(ops.sub(pos_weight, 1), target), 1))
        losses = ops.sub(ops.mul(ops.rsub(target, 1), input), low)
    elif weight is None:
        return ops._pointwise_loss(input, target, "bce_with_logits", reduction)
    else:
        losses = ops._pointwise_loss(input, target, "bce_with_logits", "none")
    losses = losses if weight is None else multiply_by_weight(ops, losses, weight)
    return apply_reduction(ops, losses, reduction)


@composite(autocast_cuda="full", method=False, function=False, autocast="full")
def kl_div(ops, input, target, size_average=None, reduce=None, reduction="mean", log_target=False):
    """target * (log(target) - input), of an input in log-probabilities.

    Parameters
    ----------
    input : Tensor
        Log-probabilities, of any shape.
    target : Tensor
        Probabilities, of the input's shape.
    size_average, reduce : bool, optional
        The older way to name a reduction, which overrides `reduction`.
    reduction : str, optional
        "mean" over the elements, their "sum", "batchmean" (the sum over the batch size, which is
        the divergence) or "none".
    log_target : bool, optional
        Whether the target is in log-probabilities, too.

    Returns
    -------
    Tensor
        `()`, or of the input's shape if reduction is "none".

    See Also
    --------
    nn.KLDivLoss

    Examples
    --------
    >>> probabilities = st.tensor([[0.5, 0.5]])
    >>> F.kl_div(probabilities.log(), st.tensor([[0., 1.]]), reduction="batchmean")
    tensor(0.6931)
    """
    name = "kl_div_log_target" if log_target else "kl_div"
    if reduction == "batchmean":
        total = ops._pointwise_loss(input, target, name, "sum")
        return ops.div(total, input.shape[0] if input.ndim else 1)
    reduction = reduction_of_legacy(size_average, reduce, reduction)
    check_reduction("kl_div", reduction)
    return ops._pointwise_loss(input, target, name, reduction)
