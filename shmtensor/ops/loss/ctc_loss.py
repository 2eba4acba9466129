"""Connectionist temporal classification: the loss of a sequence of labels over all its alignments
with a longer sequence of steps (Graves, Fernandez, Gomez and Schmidhuber 2006).

The states of a sample with S labels are S + 1 blanks and, between them, the S labels. `alpha` has a
row for each sample and step, `blanks, -infinity, labels`: for each state the logarithm of the total
probability of the partial alignments that end there.
"""

from __future__ import annotations

import math
from typing import Any, NoReturn

import numpy as np

from ... import native
from ...dtypes import float32, float64
from ..table.constants import constant
from ..table.op_table import composite, op
from .cross_entropy import apply_reduction

Lengths = tuple[int, ...]


def padded_targets(xp: Any, targets: Any, lengths: Lengths) -> Any:
    """The labels as int64 (N, S); concatenated labels are split into rows by the lengths."""
    if targets.ndim == 2:
        return targets.astype(np.int64, copy=False)
    out = xp.zeros((len(lengths), max(lengths)), np.int64)
    start = 0
    for row, n in zip(out, lengths, strict=True):
        row[:n] = targets[start : start + n]
        start += n
    return out


def labels_of(xp: Any, targets: Any, lengths: Lengths, classes: int) -> list[Any]:
    """Each sample's labels."""
    rows = padded_targets(xp, native.private_index(targets), lengths)
    samples = [row[:n] for row, n in zip(rows, lengths, strict=True)]
    for labels in samples:
        for end in (labels.min(), labels.max()) if labels.size else ():
            if not 0 <= end < classes:
                raise IndexError(
                    f"ctc_loss: label is out of range: {int(end)}, there are {classes} classes"
                )
    return samples


def skip_penalties(xp: Any, labels: Any, dtype: Any) -> Any:
    """0 where a label may follow the one before it without a blank, else -infinity."""
    out = xp.full(len(labels), -math.inf, dtype)
    out[1:][labels[1:] != labels[:-1]] = 0
    return out


def pad_with_inf(xp: Any, x: Any, at: int) -> Any:
    """x with -infinity before (0) or after it (its length)."""
    return xp.insert(x, at, -math.inf)


def ctc_loss_kernel(x: Any, targets: Any, *args: Any) -> Any:
    """The native kernel; args are the lengths, blank and zero_infinity."""
    inputs, labels, blank, _ = args
    rows = padded_targets(np, targets, labels)
    return native.ctc_loss(x, rows, np.array(inputs, np.int64), np.array(labels, np.int64), blank)


@op(native=ctc_loss_kernel, saves="alpha")
def _ctc_loss(xp, x, targets, /, input_lengths, target_lengths, blank, zero_infinity):
    """The negative logarithm of the sum over all alignments, for each sample of (T, N, C)."""
    steps, n, classes = x.shape
    out = xp.zeros(n, x.dtype)
    alpha = xp.full(
        (n, steps, 2 * padded_targets(xp, targets, target_lengths).shape[1] + 2), -math.inf
    )
    for i, labels in enumerate(labels_of(xp, targets, target_lengths, classes)):
        y, m, penalty = x[:, i], len(labels), skip_penalties(xp, labels, x.dtype)
        blanks, states = xp.full(m + 1, -math.inf, x.dtype), xp.full(m, -math.inf, x.dtype)
        blanks[0] = 0
        for t in range(input_lengths[i]):
            preceding = pad_with_inf(xp, states, 0)  # the label before each blank
            states = xp.logaddexp(xp.logaddexp(states, blanks[:-1]), preceding[:-1] + penalty)
            states, blanks = states + y[t, labels], xp.logaddexp(blanks, preceding) + y[t, blank]
            alpha[i, t, : m + 1], alpha[i, t, m + 2 : 2 * m + 2] = blanks, states
        out[i] = -xp.logaddexp(blanks[-1], pad_with_inf(xp, states, 0)[-1])
    return out, alpha.astype(x.dtype)


def ctc_loss_backward_kernel(
    x: Any, logp: Any, targets: Any, loss: Any, alpha: Any, *args: Any
) -> Any:
    """The native kernel of the gradient."""
    inputs, labels, blank, zero_infinity = args
    steps, counts = np.array(inputs, np.int64), np.array(labels, np.int64)
    rows = padded_targets(np, targets, labels)
    return native.ctc_loss_backward(x, logp, rows, loss, alpha, steps, counts, blank, zero_infinity)


@op(native=ctc_loss_backward_kernel)
def _ctc_loss_backward(
    xp, x, logp, targets, loss, alpha, /, input_lengths, target_lengths, blank, zero_infinity
):
    """The probabilities minus each class's share of the alignments, times the sample's x."""
    out = xp.zeros(logp.shape, logp.dtype)
    for i, labels in enumerate(labels_of(xp, targets, target_lengths, logp.shape[2])):
        if zero_infinity and loss[i] == math.inf:
            continue
        y, m, penalty = logp[:, i], len(labels), skip_penalties(xp, labels, logp.dtype)
        blanks, states = xp.full(m + 1, -math.inf, x.dtype), xp.full(m, -math.inf, x.dtype)
        blanks[-1] = 0
        for t in reversed(range(input_lengths[i])):
            skipped = pad_with_inf(xp, states + penalty, m)[1:]
            following = pad_with_inf(xp, states, m)
            states = xp.logaddexp(xp.logaddexp(states, blanks[1:]), skipped) + y[t, labels]
            blanks = xp.logaddexp(blanks, following) + y[t, blank]
            share = xp.zeros(logp.shape[2], logp.dtype)
            share[blank] = state_shares(
                xp, alpha[i, t, : m + 1] + blanks, y[t, blank], loss[i]
            ).sum()
            label_shares = state_shares(
                xp, alpha[i, t, m + 2 : 2 * m + 2] + states, y[t, labels], loss[i]
            )
            xp.add.at(share, labels, label_shares)
            out[t, i] = (xp.exp(y[t]) - share) * x[i] if loss[i] < math.inf else math.nan
    return out


def state_shares(xp: Any, product: Any, y: Any, loss: Any) -> Any:
    """The share of all alignments that are in each state; alpha + beta contains y twice."""
    return xp.where(product == -math.inf, 0, xp.exp(product - y + loss))


def refuse_double_backward(ops: Any) -> NoReturn:
    """Raises the error of a gradient of the gradient."""
    raise RuntimeError(
        "ctc_loss: derivative of its gradient is not implemented (as in PyTorch), hint: leave "
        "create_graph=True away, or detach the gradient"
    )


_ctc_loss.pullback(
    x=lambda ops, g, x, targets, out, alpha, input_lengths, target_lengths, blank, zero_infinity: (
        ops._ctc_loss_backward(
            g, x, targets, out, alpha, input_lengths, target_lengths, blank, zero_infinity
        )
    )
)
_ctc_loss_backward.pullback(x=refuse_double_backward, logp=refuse_double_backward)


def lengths_of(name: str, lengths: Any, n: int, longest: int) -> Lengths:
    """Lengths from a tensor or a sequence."""
    if hasattr(lengths, "tolist"):
        if lengths.dtype.kind not in "iu":
            raise RuntimeError(f"ctc_loss: {name} must be integral: {lengths.dtype.name}")
        lengths = lengths.tolist()
        lengths = lengths if isinstance(lengths, list) else [lengths]
    elif not isinstance(lengths, (tuple, list)):
        raise TypeError(
            f"ctc_loss: {name} must be a tensor or a tuple of ints, not {type(lengths).__name__}"
        )
    sizes = tuple(int(v) for v in lengths)
    if len(sizes) != n:
        raise RuntimeError(f"ctc_loss: {name} must be of size batch_size: {len(sizes)}, not {n}")
    for v in sizes:
        if not 0 <= v <= longest:
            raise RuntimeError(
                f"ctc_loss: Expected {name} to have value at least 0 and at most {longest}: {v}"
            )
    return sizes


def check_shapes(log_probs: Any, targets: Any, blank: int) -> None:
    """Raises unless these can be log-probabilities, labels and a class."""
    shape, target_shape = tuple(log_probs.shape), tuple(targets.shape)
    if log_probs.dtype not in (float32, float64):
        raise NotImplementedError(
            f"ctc_loss: not implemented for {log_probs.dtype.name}, hint: log_probs.float()"
        )
    if len(shape) not in (2, 3):
        raise RuntimeError(f"ctc_loss: log_probs must have 2 or 3 dimensions: {shape}")
    if 0 in shape:
        raise RuntimeError(f"ctc_loss: log_probs tensor must not be empty: {shape}")
    if len(target_shape) not in (1, 2):
        raise RuntimeError(f"ctc_loss: targets must have 1 or 2 dimensions: {target_shape}")
    if targets.dtype.kind == "c":
        raise RuntimeError(f"ctc_loss: targets must be real: {targets.dtype.name}")
    if not 0 <= blank < shape[-1]:
        raise RuntimeError(f"ctc_loss: blank must be in label range: {blank} of {shape[-1]}")


def check_targets(shape: tuple[int, ...], lengths: Lengths) -> None:
    """Raises unless there are as many labels as the lengths say."""
    n, longest, total = len(lengths), max(lengths), sum(lengths)
    if len(shape) == 1 and shape[0] != total:
        raise RuntimeError(
            f"ctc_loss: Expected targets to have size {total}, the sum of target_lengths, but got "
            f"size {shape[0]}"
        )
    if len(shape) == 2 and (shape[0] != n or shape[1] < longest):
        raise RuntimeError(
            f"ctc_loss: Expected targets to have size {n} at dimension 0 and at least {longest} at "
            f"dimension 1, but got {shape}"
        )


@composite(method=False, function=False, autocast="full")
def ctc_loss(
    ops,
    log_probs,
    targets,
    input_lengths,
    target_lengths,
    blank=0,
    reduction="mean",
    zero_infinity=False,
):
    """Minus the log-probability of all alignments of a sequence of labels with a longer sequence,
    with blanks between labels (Graves, Fernandez, Gomez and Schmidhuber 2006).

    Parameters
    ----------
    log_probs : Tensor
        `(T, N, C)` or `(T, C)`, float32 or float64: logarithms of probabilities, as `log_softmax`
        gives them.
    targets : Tensor
        `(N, S)` with any padding, or the labels of all samples concatenated; whole numbers from 0
        to C - 1 without the blank.
    input_lengths, target_lengths : Tensor or tuple of int
        How many steps, and how many labels, each sample has: `(N)` or `()`.
    blank : int, optional
        The class of the blank.
    reduction : str, optional
        "none", "sum", or "mean": of the losses over their target lengths.
    zero_infinity : bool, optional
        Whether losses of samples without any alignment are 0, and so are their gradients.

    Returns
    -------
    Tensor
        `()`, or `(N,)` if reduction is "none".

    Raises
    ------
    RuntimeError
        Shapes, lengths or the blank do not match.
    IndexError
        A label is not a class.
    NotImplementedError
        16-bit or whole log_probs.

    See Also
    --------
    nn.CTCLoss

    Notes
    -----
    The gradient is PyTorch's: that of `ctc_loss(x.log_softmax(-1))` by x, which goes through
    `log_softmax` unchanged; other log_probs would have another gradient. It has no derivative
    itself.

    Examples
    --------
    >>> log_probs = st.full((4, 1, 3), 1 / 3).log()
    >>> loss = F.ctc_loss(log_probs, st.tensor([[1, 2]]), (4,), (2,), reduction="none")
    >>> (-loss).exp().mul(3**4).round()  # alignments, of 81 paths with equal probabilities
    tensor([15.])
    """
    check_shapes(log_probs, targets, blank)
    single = log_probs.ndim == 2
    x = ops.unsqueeze(log_probs, 1) if single else log_probs
    steps, n = tuple(x.shape)[:2]
    inputs = lengths_of("input_lengths", input_lengths, n, steps)
    labels = lengths_of("target_lengths", target_lengths, n, math.prod(targets.shape))
    check_targets(tuple(targets.shape), labels)
    losses = ops._ctc_loss(x, targets, inputs, labels, blank, bool(zero_infinity))
    if zero_infinity:
        losses = ops._where_other(losses == math.inf, losses, 0.0)
    if reduction == "mean":
        if min(labels) == max(labels):  # a Python number is faster
            return ops.mean(ops.div(losses, max(labels[0], 1)))
        counts = np.maximum(np.array(labels), 1).astype(x.dtype)
        return ops.mean(ops.div(losses, constant(counts, losses)))
    return apply_reduction(ops, ops.reshape(losses, ()) if single else losses, reduction)
