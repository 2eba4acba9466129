"""The cross entropy of a linear layer, also in pieces: the logits of some rows at a time."""

from __future__ import annotations

from typing import Any

import numpy as np

from ... import native
from ...dtypes import float64
from ..table.constants import on_device
from ..table.native_or_numpy import restore_half, upcast_half
from ..table.op_table import composite, op
from ..table.samples import ints
from .cross_entropy import check_classes, check_reduction, class_indices

NAME = "linear_cross_entropy"
CLASSES = 2048  # of a block of the weight's gradient under acc_policy="compact"


def pieces(n: int, rows: int) -> list[slice]:
    return [slice(i, i + rows) for i in range(0, n, rows)]


@op(
    saves="normalizers",
    inplace=False,
    samples=[
        ((5, 3), (4, 3), ints((5,), 4), (4,), 1, "mean", 2, 4, False),
        ((5, 3), (4, 3), ints((5,), 4), None, -100, "sum", 5, 3, True),
        ((3, 2), (4, 2), ints((3,), 4), (4,), -100, "none", 1, 4, False),
    ],
)
def _linear_cross_entropy(
    xp, x, weight, target, bias=None, /, ignore_index=-100, reduction="mean", rows=1, classes=1,
    is_wide=False,
):  # fmt: skip
    """`cross_entropy` of `linear(x, weight, bias)`, for `rows` rows at a time. Saves what
    `_cross_entropy` does.

    Args:
        classes: the weight's gradient is computed for so many classes at a time.
        is_wide: whether the gradients of weight and bias are summed over the pieces in float64.
    """
    losses, normalizers = xp.empty(len(x), x.dtype), xp.empty((len(x), 2), x.dtype)
    for part in pieces(len(x), rows):
        losses[part], normalizers[part] = losses_of_piece(
            xp, x[part], weight, target[part], bias, ignore_index
        )
    if reduction == "none":
        return losses, normalizers
    total = losses.sum(dtype=np.float64)
    if reduction == "mean":
        total = xp.true_divide(total, (target != ignore_index).sum())
    return xp.asarray(total, x.dtype), normalizers


def losses_of_piece(
    xp: Any, x: Any, weight: Any, target: Any, bias: Any, ignore_index: int
) -> tuple[Any, Any]:
    """A loss for each row; and its largest logit and the logarithm of the sum of exp(x - that)."""
    if xp is np:
        logits = native.linear(x, weight, bias)
        return native.cross_entropy(logits, target, ignore_index, "none")
    logits = xp.matmul(x, weight.T)
    if bias is not None:
        logits += bias
    safe, mask = class_indices(NAME, logits.shape, target, ignore_index)
    top = logits.max(1, keepdims=True)
    log_total = xp.log(xp.exp(logits - top).sum(1, keepdims=True))
    chosen = xp.take_along_axis(logits, safe.reshape(-1, 1), 1) - top - log_total
    losses = xp.where(mask.reshape(-1), -chosen[:, 0], 0)
    return losses, xp.concatenate([top, log_total], 1)


def gradients_of_pieces(
    needed: tuple[bool, ...], g: Any, x: Any, weight: Any, target: Any, bias: Any,
    normalizers: Any, ignore_index: int, reduction: str, rows: int, classes: int, is_wide: bool,
) -> tuple[Any, ...]:  # fmt: skip
    """The gradients by x, weight and bias; the logits are computed again, piece by piece."""
    needs_x, needs_weight, needs_bias = needed
    sums = np.dtype(np.float64) if is_wide else x.dtype
    g_x = np.empty_like(x) if needs_x else None
    g_weight = np.zeros(weight.shape, sums) if needs_weight else None
    g_bias = np.zeros(bias.shape, sums) if needs_bias else None
    if reduction == "mean":
        g = np.asarray(g / x.dtype.type((target != ignore_index).sum()), x.dtype)
    for part in pieces(len(x), rows):
        g_logits = native.cross_entropy_backward(
            g[part] if reduction == "none" else g,
            native.linear(x[part], weight, bias),
            normalizers[part],
            target[part],
            ignore_index,
            "none" if reduction == "none" else "sum",
        )
        if g_x is not None:
            g_x[part] = native.matmul(g_logits, weight)
        if g_weight is not None:
            for block in pieces(len(weight), classes):
                g_weight[block] += native.matmul(g_logits[:, block].T, x[part])
        if g_bias is not None:
            g_bias += g_logits.sum(0, dtype=sums)
    return tuple(v if v is None else v.astype(x.dtype, copy=False) for v in (g_x, g_weight, g_bias))


def linear_cross_entropy_gradients(
    ops: Any, needed: tuple[bool, ...], g: Any, x: Any, weight: Any, target: Any, bias: Any,
    normalizers: Any, ignore_index: int, reduction: str, rows: int, classes: int, is_wide: bool,
) -> tuple[Any, ...]:  # fmt: skip
    """The gradients by x, weight and bias: in pieces, or with history composed, at once."""
    if isinstance(g, np.ndarray):
        g, x, weight, bias = (upcast_half(ops, v) for v in (g, x, weight, bias))
        gradients: tuple[Any, ...] = native.call(
            gradients_of_pieces, needed, g, x, weight, target, bias, normalizers, ignore_index,
            reduction, rows, classes, is_wide,
        )  # fmt: skip
        return gradients
    log_probabilities = ops._log_softmax(ops.linear(x, weight, bias), 1)
    shape = tuple(log_probabilities.shape)
    by_class = ops._nll_loss_backward(g, target, None, shape, ignore_index, reduction)
    g_logits = ops._log_softmax_backward_data(by_class, log_probabilities, 1)
    return (
        ops.matmul(g_logits, weight),
        ops.matmul(ops.transpose(g_logits, 0, 1), x),
        None if bias is None else ops.sum(g_logits, 0),
    )


_linear_cross_entropy.joint_pullback(
    linear_cross_entropy_gradients,
    x="x weight target bias",
    weight="x weight target bias",
    bias="x weight target bias",
)


def rows_of_a_piece(options: Any, n: int, in_features: int, classes: int) -> int:
    """The number of rows that `LinearCrossEntropyOptions` say, as in PyTorch but for "auto".

    Raises:
        ValueError: batch_chunk_size is given, and chunking_method gives another number.
    """
    size, method = options.batch_chunk_size, options.chunking_method
    if method == "auto":
        return min(in_features if size is None else size, n)
    if method is None:
        return n if size is None else min(size, n)
    factor = int(method.partition(":")[2] or 1)
    rows = -(-n // -(-classes // in_features))  # so many logits as the input has elements
    rows = min((1 << (rows - 1).bit_length()) // factor, n)
    if size is not None and size != rows:
        raise ValueError(
            f"{NAME}: batch_chunk_size and chunking_method give different sizes: {size}, {rows} "
            f"by {method!r}"
        )
    return max(rows, 1)


def in_pieces(
    ops: Any, input: Any, weight: Any, target: Any, bias: Any, reduction: str,
    ignore_index: int | None, options: Any,
) -> Any:  # fmt: skip
    """`linear_cross_entropy` of classes (N), with options."""
    (n, in_features), classes, dtype = input.shape, weight.shape[0], input.dtype
    check_classes(NAME, weight, target, None)
    rows = rows_of_a_piece(options, n, in_features, classes)
    # np.dtype(None) is float64, which None therefore equals.
    is_wide = options.acc_dtype is not None and options.acc_dtype == float64
    is_compact = options.acc_policy in ("auto", "compact")
    x, weight, bias = (upcast_half(ops, v) for v in (input, weight, bias))
    loss = ops._linear_cross_entropy(
        x, weight, target, bias, -100 if ignore_index is None else ignore_index, reduction, rows,
        min(classes, CLASSES) if is_compact else classes, is_wide,
    )  # fmt: skip
    return restore_half(ops, loss, dtype)


@composite(method=False, function=False)
def linear_cross_entropy(
    ops,
    input,
    linear_weight,
    target,
    *,
    linear_bias=None,
    weight=None,
    reduction="mean",
    ignore_index=None,
    label_smoothing=0.0,
    options=None,
):
    """`cross_entropy` of the logits `linear(input, linear_weight, linear_bias)`.

    Parameters
    ----------
    input : Tensor
        `(N, E)` or `(E,)`.
    linear_weight : Tensor
        `(C, ..., E)`.
    target : Tensor
        Class numbers `(N, ...)`, or probabilities.
    linear_bias : Tensor, optional
        `(C, ...)`.
    weight : Tensor, optional
        `(C,)`: a weight per class.
    reduction : str, optional
        "mean" over the elements, their "sum", or "none" for one loss an element.
    ignore_index : int, optional
        Targets of this class are ignored; by default -100, for class numbers.
    label_smoothing : float, optional
        The share of each target that is distributed evenly over all classes.
    options : LinearCrossEntropyOptions, optional
        How the logits are computed in chunks of rows; by default at once. With `weight`,
        `label_smoothing`, more dimensions or probabilities also at once.

    Returns
    -------
    Tensor
        `()`, or of the shape of the class numbers if reduction is "none".

    Raises
    ------
    RuntimeError
        Shapes do not match, or ignore_index is given for probabilities.

    See Also
    --------
    cross_entropy, nn.LinearCrossEntropyLoss

    Examples
    --------
    >>> F.linear_cross_entropy(st.ones(2, 4), st.zeros(3, 4), st.tensor([0, 2]))
    tensor(1.0986)
    """
    name = "linear_cross_entropy"
    shape, weight_shape = tuple(input.shape), tuple(linear_weight.shape)
    if len(shape) not in (1, 2):
        raise RuntimeError(f"{name}: expected input with dimensionality 1 or 2: {shape}")
    if len(weight_shape) < 2 or weight_shape[-1] != shape[-1]:
        raise RuntimeError(f"{name}: expected linear_weight (C, ..., {shape[-1]}): {weight_shape}")
    if linear_bias is not None and tuple(linear_bias.shape) != weight_shape[:-1]:
        raise RuntimeError(
            f"{name}: expected linear_bias of shape {weight_shape[:-1]}: {tuple(linear_bias.shape)}"
        )
    if len(weight_shape) > 2 and len(shape) == 1:
        raise RuntimeError(
            f"{name}: such a linear_weight needs a batched input: {weight_shape}, {shape}"
        )
    inner = (*shape[:-1], *weight_shape[:-1])
    if ignore_index is not None and tuple(target.shape) == inner:
        raise RuntimeError(
            f"{name}: ignore_index needs class indices, not probabilities: {ignore_index}"
        )
    is_plain = (
        len(weight_shape) == len(shape) == 2
        and tuple(target.shape) == shape[:1]
        and input.dtype.kind in "fV"
        and linear_weight.dtype == input.dtype
        and weight is None
        and not label_smoothing
    )
    if options is not None and is_plain and 0 not in inner and not on_device(input):
        check_reduction(name, reduction)
        return in_pieces(
            ops, input, linear_weight, target, linear_bias, reduction, ignore_index, options
        )
    flat = ops.reshape(linear_weight, (-1, weight_shape[-1]))
    bias = None if linear_bias is None else ops.reshape(linear_bias, (-1,))
    logits = ops.reshape(ops.linear(input, flat, bias), inner)
    return ops.cross_entropy(
        logits,
        target,
        weight,
        ignore_index=-100 if ignore_index is None else ignore_index,
        reduction=reduction,
        label_smoothing=label_smoothing,
    )
