"""Reductions and normalizations of unmasked elements: masked ones take the neutral value (0 for a
sum, -infinity for a maximum), and have no gradient.

A mask is true where an element counts; it is broadcast to the input's shape, and may have any
dtype. Without a mask all elements count.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...dtypes import as_dtype, float32, iinfo, int64
from ..table.constants import filled
from ..table.op_table import composite

Dims = tuple[int, ...]


def dims_of(name: str, dim: Any, n: int) -> Dims:
    """The dimensions in ascending order; all for None and ()."""
    if dim is None or (not isinstance(dim, int) and not len(dim)):
        return tuple(range(n))
    dims, n = [], max(n, 1)
    for d in (dim,) if isinstance(dim, int) else dim:
        if not -n <= d < n:
            raise IndexError(
                f"masked.{name}: Dimension out of range (expected to be in range of [{-n}, "
                f"{n - 1}], but got {d})"
            )
        if d % n in dims:
            raise RuntimeError(
                f"masked.{name}: dim={d} appears multiple times in the list of dims: {dim}"
            )
        dims.append(d % n)
    return tuple(sorted(dims))


def full_mask(ops: Any, name: str, input: Any, mask: Any) -> Any:
    """The mask as bool, of the input's shape."""
    mask_shape, shape = tuple(mask.shape), tuple(input.shape)
    if len(mask_shape) > len(shape):
        raise IndexError(
            f"masked.{name}: expected broadcastable mask (got mask dimensionality higher than of "
            f"the input): {mask_shape}, {shape}"
        )
    if any(m not in (1, n) for m, n in zip(reversed(mask_shape), reversed(shape))):
        raise RuntimeError(
            f"masked.{name}: the mask does not fit: {mask_shape}, the input has {shape}"
        )
    mask = mask if mask.dtype == np.bool_ else mask != 0
    return mask if mask_shape == shape else ops.broadcast_to(mask, shape)


def extreme_of_dtype(name: str, dtype: Any, sign: int) -> Any:
    """The smallest (-1) or largest (1) number of a dtype."""
    if dtype.kind == "f":
        return sign * math.inf
    if dtype.kind in "iu":
        return iinfo(dtype).max if sign > 0 else iinfo(dtype).min
    raise NotImplementedError(f"masked.{name}: identity of {name} on {dtype.name} input")


def fill_masked(ops: Any, name: str, input: Any, mask: Any, value: Any) -> Any:
    """The input, with a value at masked elements."""
    if mask is None:
        return input
    return ops._where_other(~full_mask(ops, name, input, mask), input, value)


def fill_with_extreme(ops: Any, name: str, input: Any, mask: Any, sign: int) -> Any:
    """The input, with the smallest (-1) or largest (1) number at masked elements."""
    if mask is None:
        return input
    return fill_masked(ops, name, input, mask, extreme_of_dtype(name, input.dtype, sign))


def result_dtype(input: Any, dtype: Any) -> Any:
    """The argument `dtype`, or the input's."""
    return input.dtype if dtype is None else as_dtype(dtype)


def sum_dtype(input: Any, dtype: Any) -> Any:
    """`result_dtype` of sums and products, where integers and bool become int64."""
    return int64 if dtype is None and input.dtype.kind in "biu" else result_dtype(input, dtype)


@composite(method=False, function=False)
def masked_sum(ops, input, dim=None, *, keepdim=False, dtype=None, mask=None):
    """The sum of the unmasked elements, of all or along dimensions; 0 if there are none."""
    dims = dims_of("sum", dim, input.ndim)
    x = fill_masked(ops, "sum", input, mask, 0)
    return ops.sum(x, dims, bool(keepdim), dtype=sum_dtype(input, dtype))


@composite(method=False, function=False)
def masked_prod(ops, input, dim=None, *, keepdim=False, dtype=None, mask=None):
    """The product of the unmasked elements, of all or along dimensions; 1 if there are none."""
    x = ops._to_copy(fill_masked(ops, "prod", input, mask, 1), sum_dtype(input, dtype))
    for d in reversed(dims_of("prod", dim, input.ndim)):
        x = ops.prod(x, d, bool(keepdim))
    return x


@composite(method=False, function=False)
def masked_cumsum(ops, input, dim, *, dtype=None, mask=None):
    """The cumulative sum of the unmasked elements along a dimension."""
    d = dims_of("cumsum", dim, input.ndim)[0]
    return ops.cumsum(
        fill_masked(ops, "cumsum", input, mask, 0), d, dtype=result_dtype(input, dtype)
    )


@composite(method=False, function=False)
def masked_cumprod(ops, input, dim, *, dtype=None, mask=None):
    """The cumulative product of the unmasked elements along a dimension."""
    d = dims_of("cumprod", dim, input.ndim)[0]
    return ops.cumprod(
        fill_masked(ops, "cumprod", input, mask, 1), d, dtype=result_dtype(input, dtype)
    )


def declare_minmax(name: str, sign: int, doc: str) -> None:
    """Declares `masked.amax` or `masked.amin`; sign: of the neutral value."""

    def compute(ops, input, dim=None, *, keepdim=False, dtype=None, mask=None):
        x = fill_with_extreme(ops, name, input, mask, sign)
        result = getattr(ops, name)(x, dims_of(name, dim, input.ndim), bool(keepdim))
        return ops._to_copy(result, result_dtype(input, dtype))

    compute.__doc__ = f"""The {doc} unmasked element, of all or along dimensions; the dtype's
    {"smallest" if sign < 0 else "largest"} number if there are none.
    """
    composite(compute, name=f"masked_{name}", method=False, function=False)


def declare_argminmax(name: str, sign: int, doc: str) -> None:
    """Declares `masked.argmax` or `masked.argmin`; sign: of the neutral value."""

    def compute(ops, input, dim=None, *, keepdim=False, dtype=None, mask=None):
        x = fill_with_extreme(ops, name, input, mask, sign)
        return ops._to_copy(getattr(ops, name)(x, dim, bool(keepdim)), result_dtype(input, dtype))

    compute.__doc__ = f"""The index of the {doc} unmasked element, along dim or in the flattened
    tensor; in the input's dtype, as in PyTorch.
    """
    composite(compute, name=f"masked_{name}", method=False, function=False)


for _sign, _end, _doc in ((-1, "max", "largest"), (1, "min", "smallest")):
    declare_minmax(f"a{_end}", _sign, _doc)
    declare_argminmax(f"arg{_end}", _sign, _doc)


def count_unmasked(ops: Any, name: str, input: Any, dims: Dims, mask: Any) -> Any:
    """The number of unmasked elements along dimensions, which remain with size 1."""
    if mask is None:
        mask = filled(tuple(input.shape), True, np.bool_, input)
    return ops.sum(full_mask(ops, name, input, mask), dims, True)


@composite(method=False, function=False)
def masked_mean(ops, input, dim=None, *, keepdim=False, dtype=None, mask=None):
    """The mean of the unmasked elements, of all or along dimensions; NaN if there are none.

    Raises: ValueError if neither the input's dtype nor `dtype` is floating-point or complex.
    """
    dims, mean_dtype = dims_of("mean", dim, input.ndim), result_dtype(input, dtype)
    if mean_dtype.kind not in "fc":
        raise ValueError(
            "masked.mean: Could not infer output dtype. dtype must be either a floating point or "
            f"complex dtype. Got: {mean_dtype.name}"
        )
    total = ops.masked_sum(input, dims, keepdim=keepdim, dtype=mean_dtype, mask=mask)
    counts = ops.reshape(count_unmasked(ops, "mean", input, dims, mask), tuple(total.shape))
    return ops.div(total, counts)


@composite(method=False, function=False)
def masked_median(ops, input, dim=-1, *, keepdim=False, dtype=None, mask=None):
    """The median of the unmasked elements along a dimension, the lower one of two; NaN if there are
    none. NaN elements are ignored.

    Raises: ValueError if all integers of a row are masked.
    """
    d = dims_of("median", dim, input.ndim)[0]
    x = input if input.dtype.kind == "f" else ops._to_copy(input, float32)
    out = ops.nanmedian(fill_masked(ops, "median", x, mask, math.nan), d, keepdim)[0]
    if input.dtype.kind == "f":
        return out
    if bool(ops.any(ops.isnan(out))):
        raise ValueError(
            "masked.median: expects no fully masked out rows if dtype is not floating point: "
            f"{input.dtype.name}"
        )
    return ops._to_copy(out, result_dtype(input, dtype))


@composite(method=False, function=False)
def masked_logsumexp(ops, input, dim=None, *, keepdim=False, dtype=None, mask=None):
    """log(sum(exp(x))) of the unmasked elements, of all or along dimensions; -infinity if there are
    none.
    """
    if input.dtype.kind == "c":
        x = fill_masked(ops, "logsumexp", input, mask, -math.inf)
    else:
        x = fill_with_extreme(ops, "logsumexp", input, mask, -1)
    out = ops.logsumexp(x, dims_of("logsumexp", dim, input.ndim), bool(keepdim))
    return ops._to_copy(out, result_dtype(input, dtype))


@composite(method=False, function=False)
def masked_logaddexp(ops, input, other, *, dtype=None, input_mask=None, other_mask=None):
    """log(exp(input) + exp(other)) of the unmasked operands; -infinity if both are masked."""
    check_floating("logaddexp", input.dtype)
    x = fill_with_extreme(ops, "logaddexp", input, input_mask, -1)
    y = fill_with_extreme(ops, "logaddexp", other, other_mask, -1)
    return ops._to_copy(ops.logaddexp(x, y), result_dtype(input, dtype))


@composite(method=False, function=False)
def masked_norm(ops, input, ord=2.0, dim=None, *, keepdim=False, dtype=None, mask=None):
    """`linalg.vector_norm` of the unmasked elements; of none 0, or infinity for the order
    -infinity.
    """
    neutral = math.inf if ord == -math.inf and input.dtype.kind == "f" else 0
    x = fill_masked(ops, "norm", input, mask, neutral)
    dims = dims_of("norm", dim, input.ndim)
    return ops.linalg_vector_norm(x, 2 if ord is None else ord, dims, bool(keepdim), dtype=dtype)


def variance_of(ops, name, input, dim, unbiased, correction, keepdim, dtype, mask):
    """The variance of `masked.var` and `masked.std`."""
    if unbiased is not None and correction is not None:
        raise AssertionError(
            f"masked.{name}: Only one of unbiased and correction may be given: {unbiased}, "
            f"{correction}"
        )
    if correction is None:
        correction = 1.0 if unbiased is None else float(unbiased)
    dims, out_dtype = dims_of(name, dim, input.ndim), result_dtype(input, dtype)
    if dtype is None and out_dtype.kind not in "fc":
        out_dtype = float32
    compute = out_dtype if out_dtype.kind in "fc" else float32
    counts = count_unmasked(ops, name, input, dims, mask)
    total = ops.masked_sum(input, dims, keepdim=True, dtype=out_dtype, mask=mask)
    difference = fill_masked(ops, name, ops.sub(input, ops.div(total, counts)), mask, 0)
    square = ops.mul(
        difference, ops.conj(difference) if difference.dtype.kind == "c" else difference
    )
    total = ops.sum(square, dims, bool(keepdim), dtype=compute)
    counts = ops.reshape(counts, tuple(total.shape))
    if correction:
        real = np.dtype(f"f{compute.itemsize // 2}") if compute.kind == "c" else compute
        counts = ops.clamp(ops.sub(ops._to_copy(counts, real), float(correction)), min=0)
    return ops._to_copy(ops.div(total, counts), out_dtype)


@composite(method=False, function=False)
def masked_var(
    ops, input, dim=None, unbiased=None, *, correction=None, keepdim=False, dtype=None, mask=None
):
    """The variance of the unmasked elements, of all or along dimensions; NaN if there are none.

    Args:
        unbiased, correction: divide by their number less 1 (the default, and True), less 0 (False)
            or less the correction.
    """
    return variance_of(ops, "var", input, dim, unbiased, correction, keepdim, dtype, mask)


@composite(method=False, function=False)
def masked_std(
    ops, input, dim=None, unbiased=None, *, correction=None, keepdim=False, dtype=None, mask=None
):
    """The square root of `masked.var`."""
    return ops.sqrt(variance_of(ops, "std", input, dim, unbiased, correction, keepdim, dtype, mask))


def check_floating(name: str, dtype: Any) -> None:
    """Raises NotImplementedError for integers and bool."""
    if dtype.kind not in "fc":
        raise NotImplementedError(f"masked.{name}: not implemented for {dtype.name}")


def softmax_arguments(ops, name, input, dim, dtype, mask, sign=-1):
    """The input of a softmax with its masked elements filled, and the dimension."""
    out_dtype = result_dtype(input, dtype)
    check_floating(name, out_dtype)
    d = dims_of(name, dim, input.ndim)[0]
    return ops._to_copy(fill_with_extreme(ops, name, input, mask, sign), out_dtype), d


@composite(method=False, function=False)
def masked_softmax(ops, input, dim, *, dtype=None, mask=None):
    """exp(x) over its sum along a dimension, of the unmasked elements; 0 at masked ones, NaN where
    all are masked.
    """
    return ops._softmax(*softmax_arguments(ops, "softmax", input, dim, dtype, mask))


@composite(method=False, function=False)
def masked_log_softmax(ops, input, dim, *, dtype=None, mask=None):
    """The logarithm of `masked.softmax`."""
    return ops._log_softmax(*softmax_arguments(ops, "log_softmax", input, dim, dtype, mask))


@composite(method=False, function=False)
def masked_softmin(ops, input, dim, *, dtype=None, mask=None):
    """`masked.softmax` of -x."""
    x, d = softmax_arguments(ops, "softmin", input, dim, dtype, mask, 1)
    return ops._softmax(ops.neg(x), d)


@composite(method=False, function=False)
def masked_normalize(ops, input, ord, dim, *, eps=1e-12, dtype=None, mask=None):
    """The unmasked elements over their norm along a dimension (at least eps); 0 at masked ones."""
    norms = ops.masked_norm(input, ord, dim, keepdim=True, dtype=dtype, mask=mask)
    return ops.div(fill_masked(ops, "normalize", input, mask, 0), ops.clamp(norms, min=eps))
