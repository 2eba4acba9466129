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
    """The sum of the unmasked elements, of all or along dimensions.

    Parameters
    ----------
    input : Tensor
        Of any dtype; integers and bool are summed as int64.
    dim : int or sequence of int, optional
        The dimensions; by default all.
    keepdim : bool, optional
        Whether the reduced dimensions stay, with size 1.
    dtype : dtype, optional
        Of the result.
    mask : Tensor, optional
        True where an element counts, broadcast to the shape of `input`; by default all count.

    Returns
    -------
    Tensor
        Without the dimensions; 0 if no element counts.

    Raises
    ------
    RuntimeError
        The mask does not fit, or a dimension appears twice.

    See Also
    --------
    mean, prod

    Notes
    -----
    Masked elements have no gradient.

    Examples
    --------
    >>> x, mask = st.tensor([[1, 2], [3, 4]]), st.tensor([[True, False], [True, True]])
    >>> st.masked.sum(x, mask=mask)
    tensor(8)
    >>> st.masked.sum(x, 1, mask=mask)
    tensor([1, 7])
    """
    dims = dims_of("sum", dim, input.ndim)
    x = fill_masked(ops, "sum", input, mask, 0)
    return ops.sum(x, dims, bool(keepdim), dtype=sum_dtype(input, dtype))


@composite(method=False, function=False)
def masked_prod(ops, input, dim=None, *, keepdim=False, dtype=None, mask=None):
    """The product of the unmasked elements, of all or along dimensions.

    Parameters
    ----------
    input : Tensor
        Of any dtype; integers and bool are multiplied as int64.
    dim : int or sequence of int, optional
        The dimensions; by default all.
    keepdim : bool, optional
        Whether the reduced dimensions stay, with size 1.
    dtype : dtype, optional
        Of the result.
    mask : Tensor, optional
        True where an element counts, broadcast to the shape of `input`; by default all count.

    Returns
    -------
    Tensor
        Without the dimensions; 1 if no element counts.

    See Also
    --------
    sum

    Examples
    --------
    >>> st.masked.prod(st.tensor([2, 3, 5]), mask=st.tensor([True, False, True]))
    tensor(10)
    """
    x = ops._to_copy(fill_masked(ops, "prod", input, mask, 1), sum_dtype(input, dtype))
    for d in reversed(dims_of("prod", dim, input.ndim)):
        x = ops.prod(x, d, bool(keepdim))
    return x


@composite(method=False, function=False)
def masked_cumsum(ops, input, dim, *, dtype=None, mask=None):
    """The cumulative sum of the unmasked elements along a dimension.

    Parameters
    ----------
    input : Tensor
        Of any dtype.
    dim : int
        The dimension.
    dtype : dtype, optional
        Of the result; by default that of `input`.
    mask : Tensor, optional
        True where an element counts, broadcast to the shape of `input`; by default all count.

    Returns
    -------
    Tensor
        Of the shape of `input`; masked elements add 0.

    See Also
    --------
    cumprod, sum

    Examples
    --------
    >>> st.masked.cumsum(st.tensor([2, 3, 5]), 0, mask=st.tensor([True, False, True]))
    tensor([2, 2, 7])
    """
    d = dims_of("cumsum", dim, input.ndim)[0]
    return ops.cumsum(
        fill_masked(ops, "cumsum", input, mask, 0), d, dtype=result_dtype(input, dtype)
    )


@composite(method=False, function=False)
def masked_cumprod(ops, input, dim, *, dtype=None, mask=None):
    """The cumulative product of the unmasked elements along a dimension.

    Parameters
    ----------
    input : Tensor
        Of any dtype.
    dim : int
        The dimension.
    dtype : dtype, optional
        Of the result; by default that of `input`.
    mask : Tensor, optional
        True where an element counts, broadcast to the shape of `input`; by default all count.

    Returns
    -------
    Tensor
        Of the shape of `input`; masked elements multiply by 1.

    See Also
    --------
    cumsum, prod

    Examples
    --------
    >>> st.masked.cumprod(st.tensor([2, 3, 5]), 0, mask=st.tensor([True, False, True]))
    tensor([ 2,  2, 10])
    """
    d = dims_of("cumprod", dim, input.ndim)[0]
    return ops.cumprod(
        fill_masked(ops, "cumprod", input, mask, 1), d, dtype=result_dtype(input, dtype)
    )


def masked_minmax(ops, name, sign, input, dim, keepdim, dtype, mask):
    """`masked.amax` (-1, the sign of the neutral value) or `masked.amin` (1)."""
    x = fill_with_extreme(ops, name, input, mask, sign)
    result = getattr(ops, name)(x, dims_of(name, dim, input.ndim), bool(keepdim))
    return ops._to_copy(result, result_dtype(input, dtype))


def masked_argminmax(ops, name, sign, input, dim, keepdim, dtype, mask):
    """`masked.argmax` (-1) or `masked.argmin` (1)."""
    x = fill_with_extreme(ops, name, input, mask, sign)
    return ops._to_copy(getattr(ops, name)(x, dim, bool(keepdim)), result_dtype(input, dtype))


@composite(method=False, function=False)
def masked_amax(ops, input, dim=None, *, keepdim=False, dtype=None, mask=None):
    """The largest unmasked element, of all or along dimensions.

    Parameters
    ----------
    input : Tensor
        Of a real dtype.
    dim : int or sequence of int, optional
        The dimensions; by default all.
    keepdim : bool, optional
        Whether the reduced dimensions stay, with size 1.
    dtype : dtype, optional
        Of the result; by default that of `input`.
    mask : Tensor, optional
        True where an element counts, broadcast to the shape of `input`; by default all count.

    Returns
    -------
    Tensor
        Without the dimensions; the dtype's smallest number if no element counts.

    See Also
    --------
    amin, argmax

    Examples
    --------
    >>> st.masked.amax(st.tensor([2, 9, 5]), mask=st.tensor([True, False, True]))
    tensor(5)
    """
    return masked_minmax(ops, "amax", -1, input, dim, keepdim, dtype, mask)


@composite(method=False, function=False)
def masked_amin(ops, input, dim=None, *, keepdim=False, dtype=None, mask=None):
    """The smallest unmasked element, of all or along dimensions.

    Parameters
    ----------
    input : Tensor
        Of a real dtype.
    dim : int or sequence of int, optional
        The dimensions; by default all.
    keepdim : bool, optional
        Whether the reduced dimensions stay, with size 1.
    dtype : dtype, optional
        Of the result; by default that of `input`.
    mask : Tensor, optional
        True where an element counts, broadcast to the shape of `input`; by default all count.

    Returns
    -------
    Tensor
        Without the dimensions; the dtype's largest number if no element counts.

    See Also
    --------
    amax, argmin

    Examples
    --------
    >>> st.masked.amin(st.tensor([2, 1, 5]), mask=st.tensor([True, False, True]))
    tensor(2)
    """
    return masked_minmax(ops, "amin", 1, input, dim, keepdim, dtype, mask)


@composite(method=False, function=False)
def masked_argmax(ops, input, dim=None, *, keepdim=False, dtype=None, mask=None):
    """The index of the largest unmasked element, along a dimension or in the flattened tensor.

    Parameters
    ----------
    input : Tensor
        Of a real dtype.
    dim : int, optional
        The dimension; by default the tensor is flattened.
    keepdim : bool, optional
        Whether the reduced dimensions stay, with size 1.
    dtype : dtype, optional
        Of the result; by default that of `input`, as in PyTorch.
    mask : Tensor, optional
        True where an element counts, broadcast to the shape of `input`; by default all count.

    Returns
    -------
    Tensor
        Without the dimension.

    See Also
    --------
    amax, argmin

    Examples
    --------
    >>> x, mask = st.tensor([2., 9., 5.]), st.tensor([True, False, True])
    >>> st.masked.argmax(x, mask=mask, dtype=st.int64)
    tensor(2)
    """
    return masked_argminmax(ops, "argmax", -1, input, dim, keepdim, dtype, mask)


@composite(method=False, function=False)
def masked_argmin(ops, input, dim=None, *, keepdim=False, dtype=None, mask=None):
    """The index of the smallest unmasked element, along a dimension or in the flattened tensor.

    Parameters
    ----------
    input : Tensor
        Of a real dtype.
    dim : int, optional
        The dimension; by default the tensor is flattened.
    keepdim : bool, optional
        Whether the reduced dimensions stay, with size 1.
    dtype : dtype, optional
        Of the result; by default that of `input`, as in PyTorch.
    mask : Tensor, optional
        True where an element counts, broadcast to the shape of `input`; by default all count.

    Returns
    -------
    Tensor
        Without the dimension.

    See Also
    --------
    amin, argmax

    Examples
    --------
    >>> x, mask = st.tensor([2., 1., 5.]), st.tensor([True, False, True])
    >>> st.masked.argmin(x, mask=mask, dtype=st.int64)
    tensor(0)
    """
    return masked_argminmax(ops, "argmin", 1, input, dim, keepdim, dtype, mask)


def count_unmasked(ops: Any, name: str, input: Any, dims: Dims, mask: Any) -> Any:
    """The number of unmasked elements along dimensions, which remain with size 1."""
    if mask is None:
        mask = filled(tuple(input.shape), True, np.bool_, input)
    return ops.sum(full_mask(ops, name, input, mask), dims, True)


@composite(method=False, function=False)
def masked_mean(ops, input, dim=None, *, keepdim=False, dtype=None, mask=None):
    """The mean of the unmasked elements, of all or along dimensions.

    Parameters
    ----------
    input : Tensor
        Of a floating-point or complex dtype, unless `dtype` is given.
    dim : int or sequence of int, optional
        The dimensions; by default all.
    keepdim : bool, optional
        Whether the reduced dimensions stay, with size 1.
    dtype : dtype, optional
        Of the result; by default that of `input`.
    mask : Tensor, optional
        True where an element counts, broadcast to the shape of `input`; by default all count.

    Returns
    -------
    Tensor
        Without the dimensions; NaN if no element counts.

    Raises
    ------
    ValueError
        Neither the dtype of `input` nor `dtype` is floating point or complex.

    See Also
    --------
    sum, median, var

    Examples
    --------
    >>> st.masked.mean(st.tensor([2., 9., 5.]), mask=st.tensor([True, False, True]))
    tensor(3.5000)
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
    """The median of the unmasked elements along a dimension, the lower one of two.

    Parameters
    ----------
    input : Tensor
        Of a real dtype; NaN elements are ignored.
    dim : int, optional
        The dimension; the last by default.
    keepdim : bool, optional
        Whether the reduced dimensions stay, with size 1.
    dtype : dtype, optional
        Of the result of integers; by default that of `input`.
    mask : Tensor, optional
        True where an element counts, broadcast to the shape of `input`; by default all count.

    Returns
    -------
    Tensor
        Without the dimension; NaN if no element counts.

    Raises
    ------
    ValueError
        All integers of a row are masked.

    See Also
    --------
    mean

    Examples
    --------
    >>> st.masked.median(st.tensor([2., 9., 5., 7.]), mask=st.tensor([True, False, True, True]))
    tensor(5.)
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
    """The logarithm of the sum of exponentials of the unmasked elements, of all or along
    dimensions.

    Parameters
    ----------
    input : Tensor
        Of any dtype.
    dim : int or sequence of int, optional
        The dimensions; by default all.
    keepdim : bool, optional
        Whether the reduced dimensions stay, with size 1.
    dtype : dtype, optional
        Of the result; by default that of `input`.
    mask : Tensor, optional
        True where an element counts, broadcast to the shape of `input`; by default all count.

    Returns
    -------
    Tensor
        Without the dimensions; -inf if no element counts.

    See Also
    --------
    logaddexp, log_softmax

    Examples
    --------
    >>> st.masked.logsumexp(st.tensor([2., 9.]), mask=st.tensor([True, False]))
    tensor(2.)
    """
    if input.dtype.kind == "c":
        x = fill_masked(ops, "logsumexp", input, mask, -math.inf)
    else:
        x = fill_with_extreme(ops, "logsumexp", input, mask, -1)
    out = ops.logsumexp(x, dims_of("logsumexp", dim, input.ndim), bool(keepdim))
    return ops._to_copy(out, result_dtype(input, dtype))


@composite(method=False, function=False)
def masked_logaddexp(ops, input, other, *, dtype=None, input_mask=None, other_mask=None):
    """The logarithm of the sum of two exponentials, without masked operands.

    Parameters
    ----------
    input, other : Tensor
        Of a floating-point or complex dtype, broadcast against each other.
    dtype : dtype, optional
        Of the result; by default that of `input`.
    input_mask, other_mask : Tensor, optional
        True where an element counts; by default all count.

    Returns
    -------
    Tensor
        log(exp(input) + exp(other)); the other operand where one is masked, -inf where both are.

    Raises
    ------
    NotImplementedError
        The dtype is of integers or bool.

    See Also
    --------
    logsumexp

    Examples
    --------
    >>> x, y = st.tensor([1., 2.]), st.tensor([3., 4.])
    >>> st.masked.logaddexp(x, y, input_mask=st.tensor([False, False]))
    tensor([3., 4.])
    """
    check_floating("logaddexp", input.dtype)
    x = fill_with_extreme(ops, "logaddexp", input, input_mask, -1)
    y = fill_with_extreme(ops, "logaddexp", other, other_mask, -1)
    return ops._to_copy(ops.logaddexp(x, y), result_dtype(input, dtype))


@composite(method=False, function=False)
def masked_norm(ops, input, ord=2.0, dim=None, *, keepdim=False, dtype=None, mask=None):
    """The norm of the unmasked elements, of all or along dimensions.

    Parameters
    ----------
    input : Tensor
        Of a floating-point or complex dtype.
    ord : number, optional
        The order, as for `linalg.vector_norm`.
    dim : int or sequence of int, optional
        The dimensions; by default all.
    keepdim : bool, optional
        Whether the reduced dimensions stay, with size 1.
    dtype : dtype, optional
        Of the result; by default that of `input`.
    mask : Tensor, optional
        True where an element counts, broadcast to the shape of `input`; by default all count.

    Returns
    -------
    Tensor
        Without the dimensions; 0 if no element counts, infinite for the order -infinity.

    See Also
    --------
    normalize

    Examples
    --------
    >>> st.masked.norm(st.tensor([3., 9., 4.]), mask=st.tensor([True, False, True]))
    tensor(5.)
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
    """The variance of the unmasked elements, of all or along dimensions.

    Parameters
    ----------
    input : Tensor
        Of any dtype; integers give float32.
    dim : int or sequence of int, optional
        The dimensions; by default all.
    unbiased : bool, optional
        True is correction 1, False correction 0; an older form of `correction`.
    correction : number, optional
        The sum of squares is divided by the number of elements less this; 1 by default.
    keepdim : bool, optional
        Whether the reduced dimensions stay, with size 1.
    dtype : dtype, optional
        Of the result; by default that of `input`.
    mask : Tensor, optional
        True where an element counts, broadcast to the shape of `input`; by default all count.

    Returns
    -------
    Tensor
        Without the dimensions; NaN if no element counts.

    Raises
    ------
    AssertionError
        Both `unbiased` and `correction` are given.

    See Also
    --------
    std, mean

    Examples
    --------
    >>> st.masked.var(st.tensor([1., 9., 5.]), correction=0, mask=st.tensor([True, False, True]))
    tensor(4.)
    """
    return variance_of(ops, "var", input, dim, unbiased, correction, keepdim, dtype, mask)


@composite(method=False, function=False)
def masked_std(
    ops, input, dim=None, unbiased=None, *, correction=None, keepdim=False, dtype=None, mask=None
):
    """The standard deviation of the unmasked elements: the square root of the variance.

    Parameters
    ----------
    input : Tensor
        Of any dtype; integers give float32.
    dim : int or sequence of int, optional
        The dimensions; by default all.
    unbiased : bool, optional
        True is correction 1, False correction 0; an older form of `correction`.
    correction : number, optional
        The sum of squares is divided by the number of elements less this; 1 by default.
    keepdim : bool, optional
        Whether the reduced dimensions stay, with size 1.
    dtype : dtype, optional
        Of the result; by default that of `input`.
    mask : Tensor, optional
        True where an element counts, broadcast to the shape of `input`; by default all count.

    Returns
    -------
    Tensor
        Without the dimensions; NaN if no element counts.

    See Also
    --------
    var

    Examples
    --------
    >>> st.masked.std(st.tensor([1., 9., 5.]), correction=0, mask=st.tensor([True, False, True]))
    tensor(2.)
    """
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
    """The softmax of the unmasked elements along a dimension: exp(x) over its sum.

    Parameters
    ----------
    input : Tensor
        Of a floating-point dtype, unless `dtype` is given.
    dim : int
        The dimension.
    dtype : dtype, optional
        The elements are converted to it first.
    mask : Tensor, optional
        True where an element counts, broadcast to the shape of `input`; by default all count.

    Returns
    -------
    Tensor
        Of the shape of `input`: 0 at masked elements, NaN where all of a row are masked.

    Raises
    ------
    NotImplementedError
        The dtype is of integers or bool.

    See Also
    --------
    log_softmax, softmin

    Examples
    --------
    >>> st.masked.softmax(st.tensor([5., 9., 5.]), 0, mask=st.tensor([True, False, True]))
    tensor([0.5000, 0.0000, 0.5000])
    """
    return ops._softmax(*softmax_arguments(ops, "softmax", input, dim, dtype, mask))


@composite(method=False, function=False)
def masked_log_softmax(ops, input, dim, *, dtype=None, mask=None):
    """The logarithm of the softmax of the unmasked elements along a dimension.

    Parameters
    ----------
    input : Tensor
        Of a floating-point dtype, unless `dtype` is given.
    dim : int
        The dimension.
    dtype : dtype, optional
        The elements are converted to it first.
    mask : Tensor, optional
        True where an element counts, broadcast to the shape of `input`; by default all count.

    Returns
    -------
    Tensor
        Of the shape of `input`: -inf at masked elements, NaN where all of a row are masked.

    Raises
    ------
    NotImplementedError
        The dtype is of integers or bool.

    See Also
    --------
    softmax

    Examples
    --------
    >>> st.masked.log_softmax(st.tensor([5., 9.]), 0, mask=st.tensor([True, False]))
    tensor([0., -inf])
    """
    return ops._log_softmax(*softmax_arguments(ops, "log_softmax", input, dim, dtype, mask))


@composite(method=False, function=False)
def masked_softmin(ops, input, dim, *, dtype=None, mask=None):
    """The softmax of the negative unmasked elements along a dimension.

    Parameters
    ----------
    input : Tensor
        Of a floating-point dtype, unless `dtype` is given.
    dim : int
        The dimension.
    dtype : dtype, optional
        The elements are converted to it first.
    mask : Tensor, optional
        True where an element counts, broadcast to the shape of `input`; by default all count.

    Returns
    -------
    Tensor
        Of the shape of `input`: 0 at masked elements, NaN where all of a row are masked.

    Raises
    ------
    NotImplementedError
        The dtype is of integers or bool.

    See Also
    --------
    softmax

    Examples
    --------
    >>> st.masked.softmin(st.tensor([5., 1., 5.]), 0, mask=st.tensor([True, False, True]))
    tensor([0.5000, 0.0000, 0.5000])
    """
    x, d = softmax_arguments(ops, "softmin", input, dim, dtype, mask, 1)
    return ops._softmax(ops.neg(x), d)


@composite(method=False, function=False)
def masked_normalize(ops, input, ord, dim, *, eps=1e-12, dtype=None, mask=None):
    """The unmasked elements over their norm along a dimension.

    Parameters
    ----------
    input : Tensor
        Of a floating-point or complex dtype.
    ord : number
        The order of the norm.
    dim : int
        The dimension.
    eps : float, optional
        The norm counts as at least this.
    dtype : dtype, optional
        Of the norm; by default that of `input`.
    mask : Tensor, optional
        True where an element counts, broadcast to the shape of `input`; by default all count.

    Returns
    -------
    Tensor
        Of the shape of `input`; 0 at masked elements.

    See Also
    --------
    norm

    Examples
    --------
    >>> st.masked.normalize(st.tensor([4., 9., 4.]), 1, 0, mask=st.tensor([True, False, True]))
    tensor([0.5000, 0.0000, 0.5000])
    """
    norms = ops.masked_norm(input, ord, dim, keepdim=True, dtype=dtype, mask=mask)
    return ops.div(fill_masked(ops, "normalize", input, mask, 0), ops.clamp(norms, min=eps))
