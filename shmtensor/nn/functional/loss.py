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
from .linear_embedding_attention import _cosine_of_rows, pairwise_distance

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
    """The mean squared difference of input and target.

    Parameters
    ----------
    input, target : Tensor
        Of one shape; others broadcast with a warning.
    size_average, reduce : bool, optional
        The older way to name a reduction, which overrides `reduction`: reduce=False is "none",
        size_average=False is "sum", any other choice "mean".
    reduction : str, optional
        "mean" over the elements, their "sum", or "none" for one loss an element.
    weight : Tensor, optional
        Factors of the losses, of the input's shape; "mean" divides by their sum.

    Returns
    -------
    Tensor
        `()`, or of the input's shape if reduction is "none".

    See Also
    --------
    l1_loss, huber_loss, nn.MSELoss

    Examples
    --------
    >>> F.mse_loss(st.tensor([1., 4.]), st.tensor([0., 0.]))
    tensor(8.5000)
    >>> F.mse_loss(st.tensor([1., 4.]), st.tensor([0., 0.]), reduction="none")
    tensor([ 1., 16.])
    """
    loss: Tensor = ops.mse_loss(input, target, size_average, reduce, reduction, weight)
    if input.shape != target.shape:  # after it, because some shapes cannot be broadcast
        _warn_of_shapes("mse_loss", input, target)
    return loss


def l1_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    weight: Tensor | None = None,
) -> Tensor:
    """The mean absolute difference of input and target.

    Parameters
    ----------
    input, target : Tensor
        Of one shape; others broadcast with a warning.
    size_average, reduce : bool, optional
        The older way to name a reduction, which overrides `reduction`: reduce=False is "none",
        size_average=False is "sum", any other choice "mean".
    reduction : str, optional
        "mean" over the elements, their "sum", or "none" for one loss an element.
    weight : Tensor, optional
        Factors of the losses, of the input's shape; "mean" divides by their sum.

    Returns
    -------
    Tensor
        `()`, or of the input's shape if reduction is "none".

    See Also
    --------
    mse_loss, smooth_l1_loss, nn.L1Loss

    Examples
    --------
    >>> F.l1_loss(st.tensor([1., 4.]), st.tensor([0., 0.]))
    tensor(2.5000)
    """
    loss: Tensor = ops.l1_loss(input, target, size_average, reduce, reduction, weight)
    if input.shape != target.shape:  # after it, because some shapes cannot be broadcast
        _warn_of_shapes("l1_loss", input, target)
    return loss


def smooth_l1_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    beta: float = 1.0,
) -> Tensor:
    """Squared below beta, absolute above (Girshick 2015).

    Parameters
    ----------
    input, target : Tensor
        Of one shape; others broadcast with a warning.
    size_average, reduce : bool, optional
        The older way to name a reduction, which overrides `reduction`: reduce=False is "none",
        size_average=False is "sum", any other choice "mean".
    reduction : str, optional
        "mean" over the elements, their "sum", or "none" for one loss an element.
    beta : float, optional
        Where the squared part ends; 0 is `l1_loss`.

    Returns
    -------
    Tensor
        `()`, or of the input's shape if reduction is "none".

    See Also
    --------
    huber_loss, nn.SmoothL1Loss

    Notes
    -----
    d ** 2 / (2 * beta) where d = abs(input - target) is less than beta, else d - beta / 2.

    Examples
    --------
    >>> F.smooth_l1_loss(st.tensor([0.5, 3.0]), st.zeros(2), reduction="none")
    tensor([0.1250, 2.5000])
    """
    loss: Tensor = ops.smooth_l1_loss(input, target, size_average, reduce, reduction, beta)
    if input.shape != target.shape:  # after it, because some shapes cannot be broadcast
        _warn_of_shapes("smooth_l1_loss", input, target)
    return loss


def huber_loss(
    input: Tensor,
    target: Tensor,
    reduction: str = "mean",
    delta: float = 1.0,
    weight: Tensor | None = None,
) -> Tensor:
    """Squared below delta, delta times absolute above (Huber 1964).

    Parameters
    ----------
    input, target : Tensor
        Of one shape; others broadcast with a warning.
    reduction : str, optional
        "mean" over the elements, their "sum", or "none" for one loss an element.
    delta : float, optional
        Where the squared part ends.
    weight : Tensor, optional
        Factors of the losses, of the input's shape; "mean" divides by their sum.

    Returns
    -------
    Tensor
        `()`, or of the input's shape if reduction is "none".

    Raises
    ------
    RuntimeError
        delta is not positive.

    See Also
    --------
    smooth_l1_loss, nn.HuberLoss

    Notes
    -----
    d ** 2 / 2 where d = abs(input - target) is at most delta, else delta * (d - delta / 2).

    Examples
    --------
    >>> F.huber_loss(st.tensor([1.0, 3.0]), st.zeros(2), reduction="none", delta=2.0)
    tensor([0.5000, 4.0000])
    """
    loss: Tensor = ops.huber_loss(input, target, reduction, delta, weight)
    if input.shape != target.shape:  # after it, because some shapes cannot be broadcast
        _warn_of_shapes("huber_loss", input, target)
    return loss


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
    """Minus the log-likelihood of counts under Poisson distributions, up to a constant.

    Parameters
    ----------
    input : Tensor
        The logarithms of the rates, or the rates.
    target : Tensor
        The counts, of the input's shape.
    log_input : bool, optional
        Whether the input is the logarithm of the rate.
    full : bool, optional
        Whether Stirling's formula approximates the constant, for counts above 1.
    size_average : bool, optional
        The older way to name a reduction, see `reduce`.
    eps : float, optional
        Added to the rate inside the logarithm, if not `log_input`.
    reduce : bool, optional
        With `size_average` it overrides `reduction`.
    reduction : str, optional
        "mean" over the elements, their "sum", or "none" for one loss an element.

    Returns
    -------
    Tensor
        `()`, or of the input's shape if reduction is "none".

    See Also
    --------
    nn.PoissonNLLLoss

    Notes
    -----
    exp(input) - target * input, or input - target * log(input + eps).

    Examples
    --------
    >>> F.poisson_nll_loss(st.tensor([0.]), st.tensor([3.]))
    tensor(1.)
    """
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
    """Minus the log-likelihood under normal distributions of given variances (Nix and Weigend
    1994).

    Parameters
    ----------
    input : Tensor
        The means, `(N, ...)`.
    target : Tensor
        Of the input's shape.
    var : Tensor or float
        The variances: of the input's shape, without its last dimension, or with a size 1.
    full : bool, optional
        Whether the constant log(2 * pi) / 2 is added.
    eps : float, optional
        The least variance; the gradient ignores the limit.
    reduction : str, optional
        "mean" over the elements, their "sum", or "none" for one loss an element.

    Returns
    -------
    Tensor
        `()`, or of the input's shape if reduction is "none".

    Raises
    ------
    ValueError
        var is negative somewhere, or of another shape.

    See Also
    --------
    nn.GaussianNLLLoss

    Notes
    -----
    (log(var) + (input - target) ** 2 / var) / 2.

    Examples
    --------
    >>> F.gaussian_nll_loss(st.tensor([1.]), st.tensor([3.]), var=1.0)
    tensor(2.)
    """
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
    if bool((var < eps).any()):
        if bool((var < 0).any()):
            raise ValueError(f"gaussian_nll_loss: var has negative entries: {var.min().item()}")
        # The gradient ignores the clamp.
        var = var.detach().clamp(min=eps) + (var - var.detach())
    squares = ops._pointwise_loss(input, target, "mse", "none")
    loss = 0.5 * (var.log() + squares / var)
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
    """input where the target is 1, max(0, margin - input) where it is -1.

    Parameters
    ----------
    input : Tensor
        Distances, of any shape.
    target : Tensor
        1 or -1, of the input's shape.
    margin : float, optional
        How far others should be.
    size_average, reduce : bool, optional
        The older way to name a reduction, which overrides `reduction`: reduce=False is "none",
        size_average=False is "sum", any other choice "mean".
    reduction : str, optional
        "mean" over the elements, their "sum", or "none" for one loss an element.

    Returns
    -------
    Tensor
        `()`, or of the input's shape if reduction is "none".

    See Also
    --------
    nn.HingeEmbeddingLoss

    Examples
    --------
    >>> F.hinge_embedding_loss(st.tensor([0.5, 0.25]), st.tensor([1., -1.]), reduction="none")
    tensor([0.5000, 0.7500])
    """
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
    """log(1 + exp(-target * input)), for targets 1 and -1.

    Parameters
    ----------
    input, target : Tensor
        Of one shape.
    size_average, reduce : bool, optional
        The older way to name a reduction, which overrides `reduction`: reduce=False is "none",
        size_average=False is "sum", any other choice "mean".
    reduction : str, optional
        "mean" over the elements, their "sum", or "none" for one loss an element.

    Returns
    -------
    Tensor
        `()`, or of the input's shape if reduction is "none".

    See Also
    --------
    nn.SoftMarginLoss

    Examples
    --------
    >>> F.soft_margin_loss(st.tensor([0.]), st.tensor([1.]))
    tensor(0.6931)
    """
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
    """max(0, -target * (input1 - input2) + margin).

    Parameters
    ----------
    input1, input2 : Tensor
        The values to rank, of one shape.
    target : Tensor
        1 where input1 should be the larger one, -1 where input2 should.
    margin : float, optional
        By how much it should be larger.
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
        The tensors have different numbers of dimensions.

    See Also
    --------
    nn.MarginRankingLoss

    Examples
    --------
    >>> F.margin_ranking_loss(st.tensor([3.]), st.tensor([5.]), st.tensor([1.]), margin=1.0)
    tensor(3.)
    """
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
    """1 - cos of vectors whose target is 1, max(0, cos - margin) of those whose target is -1.

    Parameters
    ----------
    input1, input2 : Tensor
        `(N, D)` or `(D,)`.
    target : Tensor
        1 or -1: `(N,)` or `()`.
    margin : float, optional
        The cosine up to which others are far enough.
    size_average, reduce : bool, optional
        The older way to name a reduction, which overrides `reduction`: reduce=False is "none",
        size_average=False is "sum", any other choice "mean".
    reduction : str, optional
        "mean" over the elements, their "sum", or "none" for one loss an element.

    Returns
    -------
    Tensor
        `()`, or of the target's shape if reduction is "none".

    Raises
    ------
    RuntimeError
        The numbers of dimensions do not go together.

    See Also
    --------
    cosine_similarity, nn.CosineEmbeddingLoss

    Examples
    --------
    >>> F.cosine_embedding_loss(st.tensor([[1., 0.]]), st.tensor([[0., 2.]]), st.tensor([1.]))
    tensor(1.)
    """
    reduction = reduction_of_legacy(size_average, reduce, reduction)
    if target.dim() > 1 or not input1.dim() == input2.dim() == target.dim() + 1:
        raise RuntimeError(
            "cosine_embedding_loss: a 0D target goes with 1D inputs, a 1D one with 2D inputs: "
            f"{tuple(input1.shape)}, {tuple(input2.shape)}, target {tuple(target.shape)}"
        )
    if input1.shape != input2.shape:
        input1, input2 = ops.broadcast_tensors(input1, input2)
    cosine = _cosine_of_rows(input1, input2, 1e-12, True)
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
    """max(0, d(anchor, positive) - d(anchor, negative) + margin), by the p-norm d.

    Parameters
    ----------
    anchor, positive, negative : Tensor
        `(N, D)` or `(D,)`.
    margin : float, optional
        By how much the positive should be nearer, more than 0.
    p : float, optional
        The order of the norm.
    eps : float, optional
        Added to each difference, so that the gradient at 0 is defined.
    swap : bool, optional
        Whether the nearer of anchor and positive is compared with the negative (Balntas et al.
        2016).
    size_average, reduce : bool, optional
        The older way to name a reduction, which overrides `reduction`: reduce=False is "none",
        size_average=False is "sum", any other choice "mean".
    reduction : str, optional
        "mean" over the elements, their "sum", or "none" for one loss an element.

    Returns
    -------
    Tensor
        `()`, or `(N,)` if reduction is "none".

    Raises
    ------
    ValueError
        margin is not greater than 0.
    RuntimeError
        The tensors have different numbers of dimensions.

    See Also
    --------
    triplet_margin_with_distance_loss, nn.TripletMarginLoss

    Examples
    --------
    >>> near, far = st.zeros(1, 2), st.ones(1, 2)
    >>> F.triplet_margin_loss(near, near, far, margin=3.0, p=1).round()
    tensor(1.)
    """
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
