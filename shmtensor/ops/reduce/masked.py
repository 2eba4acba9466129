"""Reductions and normalisations of what a mask leaves: what is masked out takes the value that
changes nothing (0 for a sum, -infinity for a maximum), and has no gradient.

A mask is true where an element counts; it is broadcast to the input's shape, and may be of any
dtype. Without a mask everything counts.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...dtypes import as_dtype, float32, iinfo, int64
from ..table.op_definition import composite

Dims = tuple[int, ...]


def dims_of(name: str, dim: Any, n: int) -> Dims:
    """The dimensions in ascending order; all for None and ().

    Raises:
        RuntimeError: one twice.
        IndexError: one that is not there.
    """
    if dim is None or (not isinstance(dim, int) and not len(dim)):
        return tuple(range(n))
    found, n = [], max(n, 1)
    for d in (dim,) if isinstance(dim, int) else dim:
        if not -n <= d < n:
            raise IndexError(
                f"masked.{name}: Dimension out of range (expected to be in range of [{-n}, "
                f"{n - 1}], but got {d})"
            )
        if d % n in found:
            raise RuntimeError(
                f"masked.{name}: dim={d} appears multiple times in the list of dims: {dim}"
            )
        found.append(d % n)
    return tuple(sorted(found))


def whole_mask(ops: Any, name: str, input: Any, mask: Any) -> Any:
    """The mask as bool, of the input's shape.

    Raises:
        IndexError: it has more dimensions than the input.
        RuntimeError: it cannot be broadcast to it.
    """
    own, shape = tuple(mask.shape), tuple(input.shape)
    if len(own) > len(shape):
        raise IndexError(
            f"masked.{name}: expected broadcastable mask (got mask dimensionality higher than of "
            f"the input): {own}, {shape}"
        )
    if any(m not in (1, n) for m, n in zip(reversed(own), reversed(shape))):
        raise RuntimeError(f"masked.{name}: the mask does not fit: {own}, the input has {shape}")
    mask = mask if mask.dtype == np.bool_ else mask != 0
    return mask if own == shape else ops.broadcast_to(mask, shape)


def bound(name: str, dtype: Any, sign: int) -> Any:
    """The smallest (-1) or largest (1) number of a dtype.

    Raises:
        NotImplementedError: there is none.
    """
    if dtype.kind == "f":
        return sign * math.inf
    if dtype.kind in "iu":
        return iinfo(dtype).max if sign > 0 else iinfo(dtype).min
    raise NotImplementedError(f"masked.{name}: identity of {name} on {dtype} input")


def left(ops: Any, name: str, input: Any, mask: Any, value: Any) -> Any:
    """The input, with a value where it is masked out."""
    if mask is None:
        return input
    return ops._where_other(~whole_mask(ops, name, input, mask), input, value)


def extended(ops: Any, name: str, input: Any, mask: Any, sign: int) -> Any:
    """The input, with the smallest (-1) or largest (1) number where it is masked out."""
    if mask is None:
        return input
    return left(ops, name, input, mask, bound(name, input.dtype, sign))


def result_dtype(input: Any, dtype: Any) -> Any:
    """The dtype that was asked for, or the input's."""
    return input.dtype if dtype is None else as_dtype(dtype)


def added_dtype(input: Any, dtype: Any) -> Any:
    """The same for sums and products, where whole numbers and bool become int64."""
    return int64 if dtype is None and input.dtype.kind in "biu" else result_dtype(input, dtype)


@composite(method=False, function=False)
def masked_sum(ops, input, dim=None, *, keepdim=False, dtype=None, mask=None):
    """The sum of what the mask leaves, of all elements or along dimensions; of nothing 0."""
    dims = dims_of("sum", dim, input.ndim)
    x = left(ops, "sum", input, mask, 0)
    return ops.sum(x, dims, bool(keepdim), dtype=added_dtype(input, dtype))


@composite(method=False, function=False)
def masked_prod(ops, input, dim=None, *, keepdim=False, dtype=None, mask=None):
    """The product of what the mask leaves, of all elements or along dimensions; of nothing 1."""
    x = ops._to_copy(left(ops, "prod", input, mask, 1), added_dtype(input, dtype))
    for d in reversed(dims_of("prod", dim, input.ndim)):
        x = ops.prod(x, d, bool(keepdim))
    return x


@composite(method=False, function=False)
def masked_cumsum(ops, input, dim, *, dtype=None, mask=None):
    """The running sum of what the mask leaves, along a dimension."""
    d = dims_of("cumsum", dim, input.ndim)[0]
    return ops.cumsum(left(ops, "cumsum", input, mask, 0), d, dtype=result_dtype(input, dtype))


@composite(method=False, function=False)
def masked_cumprod(ops, input, dim, *, dtype=None, mask=None):
    """The running product of what the mask leaves, along a dimension."""
    d = dims_of("cumprod", dim, input.ndim)[0]
    return ops.cumprod(left(ops, "cumprod", input, mask, 1), d, dtype=result_dtype(input, dtype))


def masked_minmax(ops, name, sign, input, dim, keepdim, dtype, mask):
    """`masked.amax` (-1, the sign of what stands for nothing) or `masked.amin` (1)."""
    x = extended(ops, name, input, mask, sign)
    made = getattr(ops, name)(x, dims_of(name, dim, input.ndim), bool(keepdim))
    return ops._to_copy(made, result_dtype(input, dtype))


def place(ops, name, sign, input, dim, keepdim, dtype, mask):
    """`masked.argmax` or `masked.argmin`, in the same way."""
    x = extended(ops, name, input, mask, sign)
    return ops._to_copy(getattr(ops, name)(x, dim, bool(keepdim)), result_dtype(input, dtype))


@composite(method=False, function=False)
def masked_amax(ops, input, dim=None, *, keepdim=False, dtype=None, mask=None):
    """The largest element that the mask leaves, of all or along dimensions; of none the smallest
    number of the dtype.
    """
    return masked_minmax(ops, "amax", -1, input, dim, keepdim, dtype, mask)


@composite(method=False, function=False)
def masked_amin(ops, input, dim=None, *, keepdim=False, dtype=None, mask=None):
    """The smallest element that the mask leaves, of all or along dimensions; of none the largest
    number of the dtype.
    """
    return masked_minmax(ops, "amin", 1, input, dim, keepdim, dtype, mask)


@composite(method=False, function=False)
def masked_argmax(ops, input, dim=None, *, keepdim=False, dtype=None, mask=None):
    """Where the largest element is that the mask leaves, along dim or in the flattened tensor; in
    the input's dtype, as PyTorch has it.
    """
    return place(ops, "argmax", -1, input, dim, keepdim, dtype, mask)


@composite(method=False, function=False)
def masked_argmin(ops, input, dim=None, *, keepdim=False, dtype=None, mask=None):
    """Where the smallest element is that the mask leaves, along dim or in the flattened tensor; in
    the input's dtype, as PyTorch has it.
    """
    return place(ops, "argmin", 1, input, dim, keepdim, dtype, mask)


def count_unmasked(ops: Any, name: str, input: Any, dims: Dims, mask: Any) -> Any:
    """How many elements the mask leaves along dimensions, which are kept."""
    if mask is None:
        mask = ops.ones(tuple(input.shape), dtype=np.dtype(bool))
    return ops.sum(whole_mask(ops, name, input, mask), dims, True)


@composite(method=False, function=False)
def masked_mean(ops, input, dim=None, *, keepdim=False, dtype=None, mask=None):
    """The mean of what the mask leaves, of all elements or along dimensions; of nothing NaN.

    Raises: ValueError if neither the input's dtype nor `dtype` is floating-point or complex.
    """
    dims, wanted = dims_of("mean", dim, input.ndim), result_dtype(input, dtype)
    if wanted.kind not in "fc":
        raise ValueError(
            "masked.mean: Could not infer output dtype. dtype must be either a floating point or "
            f"complex dtype. Got: {wanted}"
        )
    total = ops.masked_sum(input, dims, keepdim=keepdim, dtype=wanted, mask=mask)
    counts = ops.reshape(count_unmasked(ops, "mean", input, dims, mask), tuple(total.shape))
    return ops.div(total, counts)


@composite(method=False, function=False)
def masked_median(ops, input, dim=-1, *, keepdim=False, dtype=None, mask=None):
    """The median of what the mask leaves along a dimension, the lower one of two; of nothing NaN.
    NaN counts for nothing either.

    Raises: ValueError if whole numbers are all masked out.
    """
    d = dims_of("median", dim, input.ndim)[0]
    x = input if input.dtype.kind == "f" else ops._to_copy(input, float32)
    out = ops.nanmedian(left(ops, "median", x, mask, math.nan), d, keepdim)[0]
    if input.dtype.kind == "f":
        return out
    if bool(ops.any(ops.isnan(out))):
        raise ValueError(
            "masked.median: expects no fully masked out rows if dtype is not floating point: "
            f"{input.dtype}"
        )
    return ops._to_copy(out, result_dtype(input, dtype))


@composite(method=False, function=False)
def masked_logsumexp(ops, input, dim=None, *, keepdim=False, dtype=None, mask=None):
    """log(sum(exp(x))) of what the mask leaves, of all elements or along dimensions; of nothing
    -infinity.
    """
    if input.dtype.kind == "c":
        x = left(ops, "logsumexp", input, mask, -math.inf)
    else:
        x = extended(ops, "logsumexp", input, mask, -1)
    out = ops.logsumexp(x, dims_of("logsumexp", dim, input.ndim), bool(keepdim))
    return ops._to_copy(out, result_dtype(input, dtype))


@composite(method=False, function=False)
def masked_logaddexp(ops, input, other, *, dtype=None, input_mask=None, other_mask=None):
    """log(exp(input) + exp(other)), each where its mask leaves it; of nothing -infinity."""
    refuse_whole("logaddexp", input.dtype)
    x = extended(ops, "logaddexp", input, input_mask, -1)
    y = extended(ops, "logaddexp", other, other_mask, -1)
    return ops._to_copy(ops.logaddexp(x, y), result_dtype(input, dtype))


@composite(method=False, function=False)
def masked_norm(ops, input, ord=2.0, dim=None, *, keepdim=False, dtype=None, mask=None):
    """The norm of what the mask leaves, as `linalg.vector_norm`; of nothing 0, of order -infinity
    infinity.
    """
    nothing = math.inf if ord == -math.inf and input.dtype.kind == "f" else 0
    x = left(ops, "norm", input, mask, nothing)
    dims = dims_of("norm", dim, input.ndim)
    return ops.linalg_vector_norm(x, 2 if ord is None else ord, dims, bool(keepdim), dtype=dtype)


def variance_of(ops, name, input, dim, unbiased, correction, keepdim, dtype, mask):
    """The variance, by `masked.var`'s arguments; in the dtype that it is computed in."""
    if unbiased is not None and correction is not None:
        raise AssertionError(
            f"masked.{name}: Only one of unbiased and correction may be given: {unbiased}, "
            f"{correction}"
        )
    if correction is None:
        correction = 1.0 if unbiased is None else float(unbiased)
    dims, wanted = dims_of(name, dim, input.ndim), result_dtype(input, dtype)
    if dtype is None and wanted.kind not in "fc":
        wanted = float32
    compute = wanted if wanted.kind in "fc" else float32
    counts = count_unmasked(ops, name, input, dims, mask)
    total = ops.masked_sum(input, dims, keepdim=True, dtype=wanted, mask=mask)
    away = left(ops, name, ops.sub(input, ops.div(total, counts)), mask, 0)
    square = ops.mul(away, ops.conj(away) if away.dtype.kind == "c" else away)
    total = ops.sum(square, dims, bool(keepdim), dtype=compute)
    counts = ops.reshape(counts, tuple(total.shape))
    if correction:
        real = np.dtype(f"f{compute.itemsize // 2}") if compute.kind == "c" else compute
        counts = ops.clamp(ops.sub(ops._to_copy(counts, real), float(correction)), min=0)
    return ops._to_copy(ops.div(total, counts), wanted)


@composite(method=False, function=False)
def masked_var(
    ops,
    input,
    dim=None,
    unbiased=None,
    *,
    correction=None,
    keepdim=False,
    dtype=None,
    mask=None,
):
    """The variance of what the mask leaves, of all elements or along dimensions; of nothing NaN.

    Args:
        unbiased, correction: divide by their number less 1 (the default, and True), less 0 (False)
            or less the correction.
    """
    return variance_of(ops, "var", input, dim, unbiased, correction, keepdim, dtype, mask)


@composite(method=False, function=False)
def masked_std(
    ops,
    input,
    dim=None,
    unbiased=None,
    *,
    correction=None,
    keepdim=False,
    dtype=None,
    mask=None,
):
    """The square root of `masked.var`."""
    return ops.sqrt(variance_of(ops, "std", input, dim, unbiased, correction, keepdim, dtype, mask))


def refuse_whole(name: str, dtype: Any) -> None:
    """Raises NotImplementedError for whole numbers and bool."""
    if dtype.kind not in "fc":
        raise NotImplementedError(f"masked.{name}: not implemented for {dtype}")


def soft(ops, name, input, dim, dtype, mask, sign=-1):
    """What the mask leaves, and the dimension and dtype of a softmax."""
    wanted = result_dtype(input, dtype)
    refuse_whole(name, wanted)
    d = dims_of(name, dim, input.ndim)[0]
    return ops._to_copy(extended(ops, name, input, mask, sign), wanted), d


@composite(method=False, function=False)
def masked_softmax(ops, input, dim, *, dtype=None, mask=None):
    """exp(x) over its sum along a dimension, of what the mask leaves; 0 elsewhere, NaN where it
    leaves nothing.
    """
    return ops._softmax(*soft(ops, "softmax", input, dim, dtype, mask))


@composite(method=False, function=False)
def masked_log_softmax(ops, input, dim, *, dtype=None, mask=None):
    """The logarithm of `masked.softmax`."""
    return ops._log_softmax(*soft(ops, "log_softmax", input, dim, dtype, mask))


@composite(method=False, function=False)
def masked_softmin(ops, input, dim, *, dtype=None, mask=None):
    """`masked.softmax` of -x."""
    x, d = soft(ops, "softmin", input, dim, dtype, mask, 1)
    return ops._softmax(ops.neg(x), d)


@composite(method=False, function=False)
def masked_normalize(ops, input, ord, dim, *, eps=1e-12, dtype=None, mask=None):
    """What the mask leaves over its norm along a dimension (at least eps); 0 elsewhere."""
    norms = ops.masked_norm(input, ord, dim, keepdim=True, dtype=dtype, mask=mask)
    return ops.div(left(ops, "normalize", input, mask, 0), ops.clamp(norms, min=eps))
