"""nll_loss and cross_entropy, and the reductions of all losses.

The most frequent losses are rows with a fused kernel; the others are composites.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ... import native
from ...errors import explained
from ..table.native_or_numpy import is_host_array, restore_half, upcast_half
from ..table.op_table import composite, op
from ..table.samples import ints, reals


def apply_reduction(ops: Any, losses: Any, reduction: str) -> Any:
    """All losses, their mean or their sum."""
    if reduction == "mean":
        return ops.mean(losses)
    if reduction == "sum":
        return ops.sum(losses)
    check_reduction("loss", reduction)
    return losses


def check_reduction(name: str, reduction: str) -> None:
    """Raises ValueError unless there is such a reduction."""
    if reduction not in ("mean", "sum", "none"):
        raise ValueError(
            f"{name}: {reduction!r} is not a valid value for reduction, hint: mean, sum, none"
        )


def reduction_of_legacy(size_average: bool | None, reduce: bool | None, reduction: str) -> str:
    """PyTorch's two older arguments, as a reduction.

    Raises:
        TypeError: one is a tensor: a loss module got its operands when it was made.
    """
    if size_average is None and reduce is None:
        return reduction
    for name, flag in (("size_average", size_average), ("reduce", reduce)):
        if flag is not None and hasattr(flag, "shape"):
            raise TypeError(
                f"loss: {name} must be True or False: got a tensor of shape {tuple(flag.shape)}, "
                "hint: a loss module is made first, then called: MSELoss()(input, target)"
            )
    if reduce is False:
        return "none"
    return "sum" if size_average is False else "mean"


# ---- class indices: (N, C) or (N, C, d1, ...) against (N) or (N, d1, ...)


def as_n_c_d(x: Any) -> Any:
    """(C), (N, C), (N, C, d1, ...) all as (N, C, d)."""
    return x.reshape((1, -1, 1) if x.ndim == 1 else (*x.shape[:2], math.prod(x.shape[2:])))


def class_indices(
    name: str, shape: tuple[int, ...], target: Any, ignore_index: int
) -> tuple[Any, Any]:
    """The class indices as (N, 1, d), 0 where they are ignored; the mask of those that count."""
    expected = shape[:1] + shape[2:] if len(shape) > 1 else ()
    if target.shape != expected:
        batches_differ = expected and target.ndim and target.shape[0] != expected[0]
        message = (
            f"{name}: target does not fit input: {target.shape} for {shape}, expected {expected}"
        )
        raise explained(ValueError(message)) if batches_differ else RuntimeError(message)
    if target.dtype.kind not in "iu":
        raise RuntimeError(f"{name}: classes must be whole numbers: {target.dtype.name}")
    target = native.private_index(target)
    flat = target.reshape((1, 1, 1) if len(shape) == 1 else (shape[0], 1, math.prod(shape[2:])))
    mask = flat != ignore_index
    safe = np.where(mask, flat, 0) if not mask.all() else flat
    n = shape[0] if len(shape) == 1 else shape[1]
    if safe.size and (safe.min() < 0 or safe.max() >= n):
        value = int(safe.min()) if safe.min() < 0 else int(safe.max())
        raise IndexError(f"{name}: class is out of range: {value}, there are {n} classes")
    return safe, mask


def check_classes(name: str, input: Any, target: Any, weight: Any) -> None:
    """Checks that the target holds class indices and that weight has the input's dtype and an
    element for each class.
    """
    if not input.ndim:
        raise ValueError(f"{name}: expected an input of 1 or more dimensions: shape ()")
    if target.dtype.char not in "lqB":
        raise RuntimeError(
            f"{name}: target holds no class numbers: expected int64 or uint8: {target.dtype.name} "
            f"of shape {tuple(target.shape)}, hint: target.long()"
        )
    if weight is not None and weight.dtype != input.dtype:
        raise RuntimeError(
            f"{name}: weight must be of the input's dtype: {weight.dtype.name}, {input.dtype.name}"
        )
    check_class_weights(name, input.shape[0 if input.ndim == 1 else 1], weight)


def check_class_weights(name: str, n: int, weight: Any) -> None:
    """Checks that weight is None or has an element for each of n classes."""
    if weight is not None and tuple(weight.shape) != (n,):
        raise RuntimeError(
            f"{name}: one weight for each of {n} classes is needed: {tuple(weight.shape)}"
        )


CLASSES = [
    ((5, 4), ints((5,), 4), None, 1),
    ((5, 4), ints((5,), 4), reals((4,), 0.5, 2.0), -100, "mean"),
    ((2, 4, 3), ints((2, 3), 4), None, 2, "sum"),
    ((2, 4, 3), ints((2, 3), 4), reals((4,), 0.5, 2.0), 2),
    ((4,), ints((), 4), None, -100, "mean"),
]


@op(native=native.nll_loss, samples=CLASSES)
def _nll_loss(xp, x, target, weight=None, /, ignore_index=-100, reduction="none"):
    """-weight[c] * x[c] for each class c of target, 0 where it is ignored; for reduction "sum",
    their sum, for "mean", their sum divided by the sum of the weights.
    """
    safe, mask = class_indices("nll_loss", x.shape, target, ignore_index)
    weights = xp.where(mask, 1 if weight is None else weight[safe], 0)
    out = xp.where(mask, -xp.take_along_axis(as_n_c_d(x), safe, 1) * weights, 0)
    if reduction == "none":
        return out.astype(x.dtype).reshape(target.shape)
    total = xp.true_divide(out.sum(), weights.sum()) if reduction == "mean" else out.sum()
    return xp.asarray(total, x.dtype)


@op(
    native=native.nll_loss_backward,
    samples=[
        ((5,), ints((5,), 4), None, (5, 4), 1),
        ((), ints((5,), 4), reals((4,), 0.5, 2.0), (5, 4), 1, "mean"),
        ((), ints((2, 3), 4), None, (2, 4, 3), 1, "sum"),
    ],
)
def _nll_loss_backward(
    xp, x, target, weight=None, /, shape=(), ignore_index=-100, reduction="none"
):
    """Zeros of a shape with -weight[c] * x at each class c of target; for the mean, over the sum of
    the weights.
    """
    safe, mask = class_indices("nll_loss", shape, target, ignore_index)
    weights = xp.where(mask, 1 if weight is None else weight[safe], 0)
    total_weight = weights.sum() if reduction == "mean" else 1
    g = (
        -xp.true_divide(x.reshape(safe.shape if reduction == "none" else ()), total_weight)
        * weights
    )
    g = xp.where(mask, g, 0)
    out = xp.zeros((1, shape[0], 1) if len(shape) == 1 else (*shape[:2], safe.shape[2]), x.dtype)
    xp.put_along_axis(out, safe, g.astype(x.dtype), 1)
    return out.reshape(shape)


_nll_loss.pullback(
    x=lambda ops, g, target, weight, x_shape, ignore_index, reduction: ops._nll_loss_backward(
        g, target, weight, x_shape, ignore_index, reduction
    )
)
_nll_loss_backward.pullback(
    x=lambda ops, g, target, weight, ignore_index, reduction: ops._nll_loss(
        g, target, weight, ignore_index, reduction
    )
)


@op(samples=[(ints((5,), 4), reals((4,), 0.5, 2.0), 1)])
def _nll_loss_total_weight(xp, target, weight, /, ignore_index):
    """The sum of the weights of the classes that count."""
    target = native.private_index(target)
    return xp.where(
        target != ignore_index, weight[xp.where(target != ignore_index, target, 0)], 0
    ).sum()


def reduce_weighted(
    ops: Any, losses: Any, target: Any, weight: Any, ignore_index: int, reduction: str
) -> Any:
    """The reduced losses; the mean is weighted by class, over the targets that count."""
    if reduction != "mean":
        return apply_reduction(ops, losses, reduction)
    if weight is not None:
        return ops.div(ops.sum(losses), ops._nll_loss_total_weight(target, weight, ignore_index))
    return ops.div(ops.sum(losses), ops.sum(target != ignore_index))


@composite(autocast_cuda="full", method=False, function=False, autocast="full")
def nll_loss(
    ops,
    input,
    target,
    weight=None,
    size_average=None,
    ignore_index=-100,
    reduce=None,
    reduction="mean",
):
    """-input at the target: the cross entropy of log-probabilities.

    Parameters
    ----------
    input : Tensor
        Log-probabilities: `(N, C)`, `(C,)` or `(N, C, d1, ...)`.
    target : Tensor
        Class numbers, int64 or uint8: `(N)`, `()` or `(N, d1, ...)`.
    weight : Tensor, optional
        `(C,)`: a weight per class; "mean" divides by the targets' weights.
    size_average : bool, optional
        The older way to name a reduction, see `reduce`.
    ignore_index : int, optional
        Targets of this class are ignored, also by the mean.
    reduce : bool, optional
        With `size_average` it overrides `reduction`.
    reduction : str, optional
        "mean" over the elements, their "sum", or "none" for one loss an element.

    Returns
    -------
    Tensor
        `()`, or of the target's shape if reduction is "none".

    Raises
    ------
    IndexError
        A target is not a class.

    See Also
    --------
    cross_entropy, log_softmax, nn.NLLLoss

    Examples
    --------
    >>> F.nll_loss(st.tensor([[-1., -3.], [-2., -4.]]), st.tensor([0, 1]))
    tensor(2.5000)
    """
    reduction = reduction_of_legacy(size_average, reduce, reduction)
    check_reduction("nll_loss", reduction)
    check_classes("nll_loss", input, target, weight)
    return ops._nll_loss(input, target, weight, ignore_index, reduction)


# ---- cross entropy of logits (N, C) and class indices (N): one kernel forward, one backward


@op(
    numpy=native.cross_entropy,
    saves="normalizers",
    samples=[((5, 4), ints((5,), 4), 1, "mean"), ((5, 4), ints((5,), 4), -100, "sum")],
    vmap="cross_entropy",
)
def _cross_entropy(xp, x, target, /, ignore_index, reduction):
    """-log(softmax(x))[c] for each target c: the mean over those that count, or the sum. Saves
    of each row the largest logit, and the logarithm of the sum of exp(x - that).
    """
    safe, mask = class_indices("cross_entropy", x.shape, target, ignore_index)
    top = x.max(1, keepdims=True)
    log_total = xp.log(xp.exp(x - top).sum(1, keepdims=True))
    logp = x - top - log_total
    total = -xp.where(mask, xp.take_along_axis(logp, safe.reshape(-1, 1), 1)[..., None], 0).sum()
    if reduction == "mean":
        total = xp.true_divide(total, x.dtype.type(mask.sum()))
    return xp.asarray(total, x.dtype), xp.concatenate([top, log_total], 1)


@op(numpy=native.cross_entropy_backward, samples=[])
def _cross_entropy_backward(xp, x, logits, normalizers, target, /, ignore_index, reduction):
    """(softmax - one hot) times the incoming gradient x, 0 where the class is ignored.

    normalizers: what the forward saves; on a device of another form.
    """
    target = native.private_index(target)
    mask = target != ignore_index
    out = xp.exp(logits - normalizers[:, :1] - normalizers[:, 1:])
    out[xp.arange(len(target)), xp.where(mask, target, 0)] -= 1
    scale = x / x.dtype.type(mask.sum()) if reduction == "mean" else x
    out *= xp.where(mask, scale, 0)[:, None]
    return out


_cross_entropy.pullback(
    x=lambda ops, g, x, normalizers, target, ignore_index, reduction: ops._cross_entropy_backward(
        g, x, normalizers, target, ignore_index, reduction
    )
)


def cross_entropy_double_backward(
    ops: Any, needed: tuple[bool, ...], g: Any, x: Any, logits: Any, target: Any,
    ignore_index: int, reduction: str,
) -> tuple[Any, Any]:  # fmt: skip
    """The gradients of (softmax - one hot) * x by x and by the logits, by composition."""
    needs_x, needs_logits = needed
    mask = target != ignore_index
    weight = 1 / ops.sum(mask) if reduction == "mean" else 1.0
    part = ops._where(ops.unsqueeze(mask, 1), g, 0.0) * weight
    p = ops._softmax(logits, 1)
    g_x = None
    if needs_x:
        g_x = ops.sum(part * p) + ops.sum(ops._nll_loss(part, target, None, ignore_index))
    return g_x, ops._softmax_backward_data(part, p, 1) * x if needs_logits else None


_cross_entropy_backward.joint_pullback(
    cross_entropy_double_backward, x="logits target", logits="x logits target"
)


# ---- the same with weights, label smoothing and every reduction, in one kernel: for devices


@op(
    saves="p",
    samples=[
        ((5, 4), ints((5,), 4), reals((4,), 0.5, 2.0), 1, "mean", 0.2),
        ((5, 4), ints((5,), 4), None, -100, "sum", 0.3),
        ((5, 4), ints((5,), 4), reals((4,), 0.5, 2.0), 2, "none", 0.0),
    ],
)
def _cross_entropy_weighted(
    xp, x, target, weight=None, /, ignore_index=-100, reduction="mean", label_smoothing=0.0
):
    """`cross_entropy` of logits (N, C) and classes (N). Saves the softmax."""
    safe, mask = class_indices("cross_entropy", x.shape, target, ignore_index)
    safe, mask = safe.reshape(-1), mask.reshape(-1)
    logp = x - x.max(1, keepdims=True)
    logp -= xp.log(xp.exp(logp).sum(1, keepdims=True))
    weights = xp.ones(x.shape[1], x.dtype) if weight is None else weight
    counts = xp.where(mask, weights[safe], 0)
    even = xp.where(mask, (weights * logp).sum(1), 0)
    losses = -(1 - label_smoothing) * counts * logp[xp.arange(len(x)), safe]
    losses = losses - label_smoothing / x.shape[1] * even
    if reduction != "none":
        losses = losses.sum() / counts.sum() if reduction == "mean" else losses.sum()
    return xp.asarray(losses, x.dtype), xp.exp(logp)


@op(samples=[])
def _cross_entropy_weighted_backward(
    xp, x, logits, p, target, weight=None, /, ignore_index=-100, reduction="mean",
    label_smoothing=0.0,
):  # fmt: skip
    """The gradient of `_cross_entropy_weighted` by the logits, for the gradient x. p is what the
    forward saves.
    """
    mask = target != ignore_index
    safe = xp.where(mask, target, 0)
    weights = xp.ones(p.shape[1], p.dtype) if weight is None else weight
    counts = xp.where(mask, weights[safe], 0)
    one_hot = (xp.arange(p.shape[1]) == safe[:, None]).astype(p.dtype)
    out = (1 - label_smoothing) * counts[:, None] * (p - one_hot)
    even = label_smoothing / p.shape[1] * (weights.sum() * p - weights)
    out = out + xp.where(mask[:, None], even, 0)
    g = x / counts.sum() if reduction == "mean" else x
    return (out * (g[:, None] if reduction == "none" else g)).astype(p.dtype)


def cross_entropy_weighted_backward(
    ops: Any, g: Any, x: Any, p: Any, target: Any, weight: Any, ignore_index: int,
    reduction: str, label_smoothing: float,
) -> Any:  # fmt: skip
    """The gradient by the logits: one row, or with history a composition."""
    attributes = ignore_index, reduction
    if not isinstance(g, native.TensorBase):
        return ops._cross_entropy_weighted_backward(
            g, x, p, target, weight, *attributes, label_smoothing
        )
    shape = tuple(x.shape)
    by_class = ops._nll_loss_backward(g, target, weight, shape, *attributes)
    mask = target != ignore_index
    counts = g * mask
    if reduction == "mean":
        counts = counts / (
            ops.sum(mask)
            if weight is None
            else ops._nll_loss_total_weight(target, weight, ignore_index)
        )
    even = ops.broadcast_to(ops.unsqueeze(counts, 1), shape)
    even = even if weight is None else even * weight
    by_logp = by_class * (1 - label_smoothing) - even * (label_smoothing / shape[1])
    return ops._log_softmax_backward_data(by_logp, ops._log_softmax(x, 1), 1)


_cross_entropy_weighted.pullback(x=cross_entropy_weighted_backward)


@composite(autocast_cuda="full", method=False, function=False, autocast="full")
def cross_entropy(
    ops,
    input,
    target,
    weight=None,
    size_average=None,
    ignore_index=-100,
    reduce=None,
    reduction="mean",
    label_smoothing=0.0,
):
    """-log softmax(input) at the target: the loss of a classifier, from its logits.

    Parameters
    ----------
    input : Tensor
        Logits: `(N, C)`, `(C,)` or `(N, C, d1, ...)`.
    target : Tensor
        Class numbers `(N)`, `()` or `(N, d1, ...)`, of int64 or uint8; or probabilities of the
        input's shape.
    weight : Tensor, optional
        `(C,)`: a weight per class; "mean" divides by the targets' weights.
    size_average : bool, optional
        The older way to name a reduction, see `reduce`.
    ignore_index : int, optional
        Targets of this class are ignored, also by the mean.
    reduce : bool, optional
        With `size_average` it overrides `reduction`: reduce=False is "none", size_average=False is
        "sum", any other choice "mean".
    reduction : str, optional
        "mean" over the elements, their "sum", or "none" for one loss an element.
    label_smoothing : float, optional
        The share of each target that is distributed evenly over all classes, from 0 to 1 (Szegedy
        et al. 2015).

    Returns
    -------
    Tensor
        `()`, or of the shape of the class numbers if reduction is "none".

    Raises
    ------
    IndexError
        A target is not a class.
    ValueError
        The batch sizes of input and target differ.
    RuntimeError
        Other sizes or dtypes do not match, or label_smoothing is not within 0 and 1.

    See Also
    --------
    nll_loss, binary_cross_entropy_with_logits, nn.CrossEntropyLoss

    Notes
    -----
    The function applies log_softmax: a softmax before it is wrong.

    Examples
    --------
    >>> logits = st.tensor([[0., 0.], [100., 0.]])
    >>> F.cross_entropy(logits, st.tensor([1, 0])).round(decimals=4)
    tensor(0.3466)
    >>> F.cross_entropy(logits, st.tensor([1, 1]), reduction="none")
    tensor([  0.6931, 100.0000])
    >>> F.cross_entropy(logits, st.tensor([0, -1]), ignore_index=-1)
    tensor(0.6931)
    """
    reduction = reduction_of_legacy(size_average, reduce, reduction)
    if not 0.0 <= label_smoothing <= 1.0:
        raise RuntimeError(f"cross_entropy: label_smoothing must be from 0 to 1: {label_smoothing}")
    is_fused = weight is None and not label_smoothing and reduction != "none"
    if is_fused and input.ndim == 2 and target.ndim == 1 and input.shape[0]:
        check_classes("cross_entropy", input, target, None)
        return ops._cross_entropy(input, target, ignore_index, reduction)
    if input.ndim == 2 and target.ndim == 1 and input.shape[0] and not is_host_array(input):
        check_reduction("cross_entropy", reduction)
        check_classes("cross_entropy", input, target, weight)
        return ops._cross_entropy_weighted(
            input, target, weight, ignore_index, reduction, label_smoothing
        )
    logp = ops._log_softmax(input, 0 if input.ndim == 1 else 1)
    if tuple(target.shape) == tuple(input.shape) and target.dtype.kind == "f":
        return cross_entropy_of_probabilities(ops, logp, target, weight, reduction, label_smoothing)
    check_reduction("cross_entropy", reduction)
    check_classes("cross_entropy", logp, target, weight)
    out = ops._nll_loss(logp, target, weight, ignore_index, reduction)
    if not label_smoothing:
        return out
    dim, n = (0 if input.ndim == 1 else 1), input.shape[0 if input.ndim == 1 else 1]
    logp, weight = upcast_half(ops, logp), upcast_half(ops, weight)  # the sum may be beyond float16
    weighted = logp if weight is None else ops.mul(logp, broadcast_weight(ops, weight, input.ndim))
    even = ops._where_other(target == ignore_index, ops.neg(ops.sum(weighted, dim)), 0.0)
    smoothing = reduce_weighted(ops, even, target, weight, ignore_index, reduction)
    total = ops.add(ops.mul(out, 1 - label_smoothing), ops.mul(smoothing, label_smoothing / n))
    return restore_half(ops, total, input.dtype)


def broadcast_weight(ops: Any, weight: Any, ndim: int) -> Any:
    """The weights of the classes, in a shape that broadcasts with (N, C, d1, ...)."""
    return ops.reshape(weight, (-1, *(1,) * (ndim - 2))) if ndim > 2 else weight


def cross_entropy_of_probabilities(
    ops: Any, logp: Any, target: Any, weight: Any, reduction: str, label_smoothing: float
) -> Any:
    """-sum(target * logp) over the classes; the mean is over all samples."""
    dim = 0 if logp.ndim == 1 else 1
    classes, n = logp.shape[dim], math.prod(logp.shape)
    check_class_weights("cross_entropy", classes, weight)
    if label_smoothing:
        target = ops.add(ops.mul(target, 1 - label_smoothing), label_smoothing / (classes or 1))
    terms = ops.mul(logp, target)
    if weight is not None:
        terms = ops.mul(terms, broadcast_weight(ops, weight, logp.ndim))
    if reduction == "none":
        return ops.neg(ops.sum(terms, dim))
    total = ops.neg(ops.sum(terms))
    if reduction == "sum":
        return total
    return ops.div(total, n // classes if n else 0)  # the mean of nothing is NaN
