"""Losses with a margin, and losses of several labels."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..table.constants import array_module, at_operands, constant, data_of
from ..table.op_table import composite
from .cross_entropy import apply_reduction, check_reduction, reduction_of_legacy


def n_and_c(name: str, input: Any) -> tuple[int, int]:
    """(N, C); a vector counts as one row, and a number as one row of one class."""
    shape = tuple(input.shape)
    if not shape:
        return 1, 1
    if len(shape) > 2 or not shape[-1]:
        raise RuntimeError(
            f"{name}: expected a non-empty vector or matrix with optional 0-dim batch size: {shape}"
        )
    return (1, shape[0]) if len(shape) == 1 else (shape[0], shape[1])


@composite(autocast_cuda="full", method=False, function=False, autocast="full")
def multi_margin_loss(
    ops,
    input,
    target,
    p=1,
    margin=1.0,
    weight=None,
    size_average=None,
    reduce=None,
    reduction="mean",
):
    """The mean over the wrong classes c of max(0, margin - x[true] + x[c]) ** p.

    Parameters
    ----------
    input : Tensor
        `(N, C)` or `(C,)`.
    target : Tensor
        int64 class numbers: `(N)` or `()`.
    p : int, optional
        1 or 2.
    margin : float, optional
        By how much the true class should exceed the others.
    weight : Tensor, optional
        `(C,)`: a weight per class.
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
    ValueError
        p is neither 1 nor 2, or weight has not one dimension.
    RuntimeError
        Shapes do not match, or the class numbers are not int64.

    See Also
    --------
    nn.MultiMarginLoss

    Examples
    --------
    >>> F.multi_margin_loss(st.tensor([[2., 1.5]]), st.tensor([0]))
    tensor(0.2500)
    """
    name = "multi_margin_loss"
    reduction = reduction_of_legacy(size_average, reduce, reduction)
    check_reduction(name, reduction)
    if p not in (1, 2):
        raise ValueError(f"{name}: only p == 1 and p == 2 are supported: {p}")
    if weight is not None and weight.ndim != 1:
        raise ValueError(f"{name}: weight must be one-dimensional: {tuple(weight.shape)}")
    n, c = n_and_c(name, input)
    if math.prod(target.shape) != n or target.ndim > 1:
        raise RuntimeError(
            f"{name}: one class for each of {n} rows is needed: target has {tuple(target.shape)}"
        )
    if target.dtype != np.int64:
        raise RuntimeError(f"{name}: class indices must be int64: {target.dtype.name}")
    if weight is not None and tuple(weight.shape) != (c,):
        raise RuntimeError(
            f"{name}: one weight for each of {c} classes is needed: {tuple(weight.shape)}"
        )
    x, indices = ops.reshape(input, (n, c)), ops.reshape(target, (n, 1))
    # The margin is added to the score of a row, not to its C elements.
    terms = ops.add(x, ops.rsub(ops._gather(x, indices, 1), margin))
    is_true = ops.eq(indices, constant(np.arange(c), indices))
    is_left_out = ops.logical_or(is_true, ops.le(terms, 0))
    terms = terms if p == 1 else ops.square(terms)
    if weight is not None:
        terms = ops.mul(
            terms, ops.reshape(ops._index_select(weight, ops.reshape(indices, (-1,)), 0), (n, 1))
        )
    losses = ops.div(ops.sum(ops._where_other(is_left_out, terms, 0.0), 1), c)
    return apply_reduction(ops, losses if input.ndim == 2 else ops.reshape(losses, ()), reduction)


@at_operands
def label_pairs(labels: Any, n: int, c: int) -> tuple[Any, Any]:
    """(N, L) labels of which some are valid, and (N, L, C): whether a label and a class make a
    term: a label before the first -1, and a class that is none of the row's labels.
    """
    labels, xp = labels.reshape(n, c), array_module(labels)
    counts = xp.cumsum(labels < 0, 1) == 0
    if xp is np:  # memory grows with the largest number of labels, which a device would wait for
        counts = counts[:, : max(int(counts.sum(1).max(initial=0)), 1)]
    labels = labels[:, : counts.shape[1]]
    true = xp.zeros((n, c + 1), bool)  # the last column is for labels that do not count
    true[xp.arange(n)[:, None], xp.where(counts, labels, c)] = True
    return xp.where(counts, labels, 0), counts[:, :, None] & ~true[:, None, :c]


@composite(autocast_cuda="full", method=False, function=False, autocast="full")
def multilabel_margin_loss(ops, input, target, size_average=None, reduce=None, reduction="mean"):
    """The sum over true classes t and others c of max(0, 1 - x[t] + x[c]) / C.

    Parameters
    ----------
    input : Tensor
        `(N, C)` or `(C,)`.
    target : Tensor
        int64 class numbers of the input's shape, of which those before the first -1 count.
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
    RuntimeError
        Shapes differ, a class is out of range, or the numbers are not int64.

    See Also
    --------
    nn.MultiLabelMarginLoss

    Examples
    --------
    >>> F.multilabel_margin_loss(st.tensor([[1., 0.5]]), st.tensor([[0, -1]]))
    tensor(0.2500)
    """
    name = "multilabel_margin_loss"
    reduction = reduction_of_legacy(size_average, reduce, reduction)
    check_reduction(name, reduction)
    n, c = n_and_c(name, input)
    if tuple(target.shape) != tuple(input.shape):
        raise RuntimeError(
            f"{name}: inconsistent target size: {tuple(target.shape)} for {tuple(input.shape)}"
        )
    if target.dtype != np.int64:
        raise RuntimeError(f"{name}: class indices must be int64: {target.dtype.name}")
    labels = data_of(target)
    if isinstance(labels, np.ndarray) and labels.size and (labels.min() < -1 or labels.max() >= c):
        raise RuntimeError(
            f"{name}: class is out of range: {labels.min()} to {labels.max()}, {c} classes"
        )
    safe, counted = label_pairs(labels, n, c)
    x = ops.reshape(input, (n, c))
    scores = ops._gather(x, constant(safe, input), 1)
    terms = ops.sub(ops.reshape(x, (n, 1, c)), ops.reshape(scores, (n, safe.shape[1], 1)))
    terms = ops._where(constant(counted, input), ops.relu(ops.add(terms, 1.0)), 0.0)
    losses = ops.div(ops.sum(terms, (1, 2)), c)
    return apply_reduction(ops, losses if input.ndim == 2 else ops.reshape(losses, ()), reduction)


@composite(method=False, function=False)
def multilabel_soft_margin_loss(
    ops, input, target, weight=None, size_average=None, reduce=None, reduction="mean"
):
    """The mean over classes of the cross entropy of sigmoid(input) and truths from 0 to 1.

    Parameters
    ----------
    input, target : Tensor
        `(N, C)`.
    weight : Tensor, optional
        `(C,)`: a weight per class.
    size_average, reduce : bool, optional
        The older way to name a reduction, which overrides `reduction`: reduce=False is "none",
        size_average=False is "sum", any other choice "mean".
    reduction : str, optional
        "mean" over the elements, their "sum", or "none" for one loss an element.

    Returns
    -------
    Tensor
        `()`, or `(N,)` if reduction is "none".

    See Also
    --------
    nn.MultiLabelSoftMarginLoss

    Examples
    --------
    >>> F.multilabel_soft_margin_loss(st.tensor([[0., 0.]]), st.tensor([[1., 0.]]))
    tensor(0.6931)
    """
    reduction = reduction_of_legacy(size_average, reduce, reduction)
    check_reduction("multilabel_soft_margin_loss", reduction)
    losses = ops._pointwise_loss(input, target, "bce_with_logits", "none")
    losses = losses if weight is None else ops.mul(losses, weight)
    return apply_reduction(ops, ops.mean(losses, -1), reduction)


@composite(method=False, function=False)
def triplet_margin_with_distance_loss(
    ops,
    anchor,
    positive,
    negative,
    *,
    distance_function=None,
    margin=1.0,
    swap=False,
    reduction="mean",
):
    """max(0, d(anchor, positive) - d(anchor, negative) + margin), by any distance d.

    Parameters
    ----------
    anchor, positive, negative : Tensor
        What the distance takes.
    distance_function : callable, optional
        Of two tensors; by default `pairwise_distance`.
    margin : float, optional
        By how much the positive should be nearer, more than 0.
    swap : bool, optional
        Whether the nearer of anchor and positive is compared with the negative.
    reduction : str, optional
        "mean" over the elements, their "sum", or "none" for one loss an element.

    Returns
    -------
    Tensor
        `()`, or of the distances' shape if reduction is "none".

    Raises
    ------
    ValueError
        margin is not greater than 0.
    RuntimeError
        The tensors have different numbers of dimensions.

    See Also
    --------
    triplet_margin_loss

    Examples
    --------
    >>> def largest(x, y):
    ...     return (x - y).abs().amax(-1)
    >>> far = st.tensor([[0.5, 0.25]])
    >>> F.triplet_margin_with_distance_loss(
    ...     st.zeros(1, 2), st.zeros(1, 2), far, distance_function=largest
    ... )
    tensor(0.5000)
    """
    name = "triplet_margin_loss"
    check_reduction(name, reduction)
    if margin <= 0:
        raise ValueError(f"{name}: margin must be greater than 0: {margin}")
    if not anchor.ndim == positive.ndim == negative.ndim:
        raise RuntimeError(
            f"{name}: anchor, positive and negative must have equal numbers of dimensions: "
            f"{tuple(anchor.shape)}, {tuple(positive.shape)}, {tuple(negative.shape)}"
        )
    distance = distance_function or pairwise(ops)
    positive_distance, negative_distance = distance(anchor, positive), distance(anchor, negative)
    if swap:
        negative_distance = ops.minimum(negative_distance, distance(positive, negative))
    return apply_reduction(
        ops, ops.relu(ops.add(ops.sub(positive_distance, negative_distance), margin)), reduction
    )


def pairwise(ops: Any, p: float = 2.0, eps: float = 1e-6) -> Callable[[Any, Any], Any]:
    """`pairwise_distance` of two tensors."""
    return lambda x, y: ops.norm(ops.add(ops.sub(x, y), eps), p, -1)
