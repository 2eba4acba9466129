"""Losses. `reduction` is "mean", "sum" or "none" everywhere."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

from ...autograd.dispatch.autocast import in_precisions
from ...ops.loss.cross_entropy import apply_reduction, check_reduction, reduction_of_legacy
from ...tensor import Tensor
from . import from_table as ops
from .from_table import (
    binary_cross_entropy,
    binary_cross_entropy_with_logits,
    cross_entropy,
    ctc_loss,
    kl_div,
    linear_cross_entropy,
    multi_margin_loss,
    multilabel_margin_loss,
    multilabel_soft_margin_loss,
    nll_loss,
    triplet_margin_with_distance_loss,
)
from .linear_embedding_attention import pairwise_distance

__all__ = [
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
    "cosine_embedding_loss",
    "cross_entropy",
    "ctc_loss",
    "gaussian_nll_loss",
    "hinge_embedding_loss",
    "huber_loss",
    "kl_div",
    "l1_loss",
    "linear_cross_entropy",
    "margin_ranking_loss",
    "mse_loss",
    "multi_margin_loss",
    "multilabel_margin_loss",
    "multilabel_soft_margin_loss",
    "nll_loss",
    "poisson_nll_loss",
    "smooth_l1_loss",
    "soft_margin_loss",
    "triplet_margin_loss",
    "triplet_margin_with_distance_loss",
]


Function = Callable[..., Any]


def _reduced(name: str, loss: Tensor, reduction: str) -> Tensor:
    """The mean or sum of the loss, or the loss itself."""
    check_reduction(name, reduction)
    result: Tensor = apply_reduction(ops, loss, reduction)
    return result


def _warn_of_shapes(name: str, input: Tensor, target: Tensor) -> None:
    warnings.warn(
        f"{name}: target size {tuple(target.shape)} differs from input size "
        f"{tuple(input.shape)}: they are broadcast, which is rarely what was meant",
        UserWarning,
        stacklevel=3,
    )


def mse_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    weight: Tensor | None = None,
) -> Tensor:
    """(input - target) squared."""
    if input.array.shape != target.array.shape:
        _warn_of_shapes("mse_loss", input, target)
    return ops.mse_loss(input, target, size_average, reduce, reduction, weight)


def l1_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    weight: Tensor | None = None,
) -> Tensor:
    """|input - target|."""
    if input.array.shape != target.array.shape:
        _warn_of_shapes("l1_loss", input, target)
    return ops.l1_loss(input, target, size_average, reduce, reduction, weight)


def smooth_l1_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    beta: float = 1.0,
) -> Tensor:
    """d^2 / (2 beta) where |d| < beta, else |d| - beta / 2."""
    if input.array.shape != target.array.shape:
        _warn_of_shapes("smooth_l1_loss", input, target)
    return ops.smooth_l1_loss(input, target, size_average, reduce, reduction, beta)


def huber_loss(
    input: Tensor,
    target: Tensor,
    reduction: str = "mean",
    delta: float = 1.0,
    weight: Tensor | None = None,
) -> Tensor:
    """d^2 / 2 where |d| <= delta, else delta (|d| - delta / 2)."""
    if input.array.shape != target.array.shape:
        _warn_of_shapes("huber_loss", input, target)
    return ops.huber_loss(input, target, reduction, delta, weight)


@in_precisions(cpu="full", cuda="full")
def poisson_nll_loss(
    input: Tensor,
    target: Tensor,
    log_input: bool = True,
    full: bool = False,
    size_average: bool | None = None,
    eps: float = 1e-8,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Negative log-likelihood of counts, up to a constant; with `full`, by Stirling's formula."""
    reduction = reduction_of_legacy(size_average, reduce, reduction)
    if log_input and not full and input.is_floating_point():
        check_reduction("poisson_nll_loss", reduction)
        return ops._pointwise_loss(input, target, "poisson_nll", reduction)
    loss = input.exp() - target * input if log_input else input - target * ops.log(input + eps)
    if full:
        stirling = target * ops.log(target) - target + 0.5 * ops.log(2 * math.pi * target)
        loss = loss + stirling.masked_fill(target <= 1, 0)
    return _reduced("poisson_nll_loss", loss, reduction)


def gaussian_nll_loss(
    input: Tensor,
    target: Tensor,
    var: Any,
    full: bool = False,
    eps: float = 1e-6,
    reduction: str = "mean",
) -> Tensor:
    """Negative log-likelihood under a normal distribution with a given variance."""
    if not isinstance(var, Tensor):
        var = ops.full_like(input, float(var))
    if tuple(var.shape) != tuple(input.shape) and var.shape == input.shape[:-1]:
        var = var.unsqueeze(-1)
    elif var.shape != input.shape:  # one dimension may have size 1
        other = [n for m, n in zip(input.shape, var.shape) if m != n]
        if var.ndim != input.ndim or other != [1]:
            raise ValueError(
                f"gaussian_nll_loss: var is of incorrect size: {tuple(var.shape)}, the input has "
                f"{tuple(input.shape)}"
            )
    if bool((var < 0).any()):
        raise ValueError(f"gaussian_nll_loss: var has negative entries: {var.min().item()}")
    variance = var.detach().clamp(min=eps) + (var - var.detach())  # the gradient ignores the clamp
    d = input - target
    loss = 0.5 * (variance.log() + d * d / variance)
    if full:
        loss = loss + 0.5 * math.log(2 * math.pi)
    return _reduced("gaussian_nll_loss", loss, reduction)


@in_precisions(cpu="full", cuda="full")
def hinge_embedding_loss(
    input: Tensor,
    target: Tensor,
    margin: float = 1.0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """input where the target is 1, max(0, margin - input) where it is -1."""
    reduction = reduction_of_legacy(size_average, reduce, reduction)
    zero = ops.zeros_like(input)
    loss = ops.where(target != 1, ops.clamp(margin - input, min=0), zero) + ops.where(
        target != -1, input, zero
    )
    return _reduced("hinge_embedding_loss", loss, reduction)


@in_precisions(cpu="full", cuda="full")
def soft_margin_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """log(1 + exp(-target * input))."""
    reduction = reduction_of_legacy(size_average, reduce, reduction)
    check_reduction("soft_margin_loss", reduction)
    return ops._pointwise_loss(input, target, "soft_margin", reduction)


@in_precisions(cpu="full", cuda="full")
def margin_ranking_loss(
    input1: Tensor,
    input2: Tensor,
    target: Tensor,
    margin: float = 0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """max(0, -target * (input1 - input2) + margin)."""
    reduction = reduction_of_legacy(size_average, reduce, reduction)
    if not input1.dim() == input2.dim() == target.dim():
        raise RuntimeError(
            "margin_ranking_loss: all tensors must have as many dimensions: "
            f"{tuple(input1.shape)}, {tuple(input2.shape)}, {tuple(target.shape)}"
        )
    loss = (-target * (input1 - input2) + margin).clamp(min=0)
    return _reduced("margin_ranking_loss", loss, reduction)


@in_precisions(cpu="full", cuda="full")
def cosine_embedding_loss(
    input1: Tensor,
    input2: Tensor,
    target: Tensor,
    margin: float = 0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """1 - cos where the target is 1, max(0, cos - margin) where it is -1."""
    reduction = reduction_of_legacy(size_average, reduce, reduction)
    if target.dim() > 1 or not input1.dim() == input2.dim() == target.dim() + 1:
        raise RuntimeError(
            "cosine_embedding_loss: a 0D target goes with 1D inputs, a 1D one with 2D inputs: "
            f"{tuple(input1.shape)}, {tuple(input2.shape)}, target {tuple(target.shape)}"
        )
    lengths = ((input1 * input1).sum(-1) + 1e-12) * ((input2 * input2).sum(-1) + 1e-12)
    cosine = (input1 * input2).sum(-1) / lengths.sqrt()
    zero = ops.zeros_like(cosine)
    loss = ops.where(target == 1, 1 - cosine, zero) + ops.where(
        target == -1, (cosine - margin).clamp(min=0), zero
    )
    return _reduced("cosine_embedding_loss", loss, reduction)


@in_precisions(cpu="full", cuda="full")
def triplet_margin_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    margin: float = 1.0,
    p: float = 2,
    eps: float = 1e-6,
    swap: bool = False,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """max(0, d(anchor, positive) - d(anchor, negative) + margin)."""
    reduction = reduction_of_legacy(size_average, reduce, reduction)
    if margin <= 0:
        raise ValueError(f"triplet_margin_loss: margin must be greater than 0: {margin}")
    if not anchor.dim() == positive.dim() == negative.dim():
        raise RuntimeError(
            "triplet_margin_loss: anchor, positive and negative must have as many dimensions: "
            f"{tuple(anchor.shape)}, {tuple(positive.shape)}, {tuple(negative.shape)}"
        )
    near = pairwise_distance(anchor, positive, p, eps)
    far = pairwise_distance(anchor, negative, p, eps)
    if swap:
        far = ops.minimum(far, pairwise_distance(positive, negative, p, eps))
    return _reduced("triplet_margin_loss", (near - far + margin).clamp(min=0), reduction)
