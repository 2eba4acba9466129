"""Quantiles, nanmean, covariance and correlation."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ... import native
from ...cuda_arrays import device_of
from ...dtypes import get_default_dtype
from ..table.check_dtypes import check_same_dtype
from ..table.constants import array_module, at_operands, constant, data_of, host_array, on_device
from ..table.dims import axis
from ..table.op_table import composite

# ---- quantiles


def quantile_ranks(xp: Any, n: int, q: Any, interpolation: str) -> tuple[Any, Any, Any]:
    """The ranks below and above each quantile, and its fraction of the way to the upper one."""
    rank = q * (n - 1)
    if interpolation == "lower":
        rank = xp.floor(rank)
    elif interpolation == "higher":
        rank = xp.ceil(rank)
    elif interpolation == "nearest":
        rank = xp.rint(rank)
    low = xp.floor(rank).astype(xp.int64)
    fraction = rank - low
    if interpolation == "midpoint":
        fraction = xp.where(fraction > 0, 0.5, 0.0)
    return low, xp.minimum(low + 1, n - 1), fraction


@at_operands
def ranks_of_rows(
    rows: Any, q: Any, interpolation: str, ignore_nan: bool
) -> tuple[Any, Any, Any, Any, Any]:
    """The ranks of quantiles in each row: those below and above, the fractions of the way between
    and the last rank, in the dtype of the rows, and which rows contain NaN: (..., quantiles).
    """
    xp, n = array_module(rows), rows.shape[-1]
    n_nan = xp.isnan(rows).sum(-1)[..., None]
    flat, last = xp.asarray(q).reshape(-1), n - 1.0
    if ignore_nan:
        counts = xp.maximum(n - n_nan, 1)
        low, high, fraction = quantile_ranks(xp, counts, flat, interpolation)
        low, high = xp.minimum(low, counts - 1), xp.minimum(low + 1, counts - 1)
        last = counts - 1.0
    else:
        low, high, fraction = (
            xp.broadcast_to(v, (*rows.shape[:-1], flat.size))
            for v in quantile_ranks(xp, n, flat, interpolation)
        )
    has_nan = xp.broadcast_to(n_nan > 0, low.shape)
    return low, high, xp.asarray(fraction, rows.dtype), last, has_nan


@at_operands
def as_dtype(x: Any, dtype: Any) -> Any:
    """An array in a dtype. Copies: one."""
    return x.astype(dtype)


INTERPOLATIONS = ("linear", "lower", "higher", "midpoint", "nearest")


def quantiles(
    ops: Any,
    name: str,
    input: Any,
    q: Any,
    dim: Any,
    keepdim: bool,
    interpolation: str,
    ignore_nan: bool,
) -> Any:
    """Quantiles along dim; NaN if the row contains one, unless ignore_nan."""
    if interpolation not in INTERPOLATIONS:
        raise RuntimeError(
            f"{name}: no such interpolation: {interpolation!r}, one of {INTERPOLATIONS} is needed"
        )
    if input.dtype.kind != "f":
        raise RuntimeError(f"{name}: the tensor must be floating point: {input.dtype.name}")
    if input.dtype.itemsize == 2:
        raise RuntimeError(
            f"{name}: not implemented for {input.dtype.name}: shape {tuple(input.shape)}, "
            "hint: x.float()"
        )
    check_same_dtype(name, input, q)
    values = quantiles_in_float64(name, input, q)
    if values.ndim > 1 or not (on_device(values) or ((values >= 0) & (values <= 1)).all()):
        raise RuntimeError(f"{name}: q must be numbers from 0 to 1: {values.tolist()}")
    if not math.prod(input.shape):
        raise RuntimeError(f"{name}: the tensor is empty: {tuple(input.shape)}")
    is_flat = dim is None
    ndim = input.ndim
    rows = ops.reshape(input, (-1,)) if is_flat else input
    rows = (
        ops.movedim(rows, axis(rows, 0 if is_flat else dim), -1)
        if rows.ndim
        else ops.reshape(rows, (1,))
    )
    n = rows.shape[-1]
    sorted_rows = ops._sort(rows, -1, False)[0]
    if not (values.ndim or ignore_nan or on_device(values) or getattr(q, "requires_grad", False)):
        out = quantile_of_sorted(
            ops, sorted_rows, *(v.item() for v in quantile_ranks(np, n, values, interpolation))
        )
        return restore_dims(ops, out, dim, ndim) if keepdim else out
    low, high, fraction, last, has_nan = ranks_of_rows(rows, values, interpolation, ignore_nan)
    fraction = constant(fraction, input)
    if interpolation == "linear" and getattr(q, "requires_grad", False):
        rank = ops.mul(ops.reshape(q, (-1,)), constant(last, input))
        fraction = ops.sub(rank, constant(as_dtype(low, input.dtype), input))
    below = ops._gather(sorted_rows, constant(low, input), -1)
    above = ops._gather(sorted_rows, constant(high, input), -1)
    out = ops._where(fraction == 0, below, ops.lerp(below, above, fraction))
    if not ignore_nan:
        out = ops._where(constant(has_nan, input), math.nan, out)
    if keepdim:
        out = ops.unsqueeze(out, -1)
        if is_flat:
            out = ops.reshape(out, (values.size, *(1,) * ndim))
        else:
            out = ops.movedim(ops.movedim(out, -2, 0), -1, dim % (ndim or 1) + 1)
            out = out if ndim else ops.reshape(out, (values.size,))
    else:
        out = ops.movedim(out, -1, 0)
    return out if values.ndim else out[0]


def quantiles_in_float64(name: str, input: Any, q: Any) -> Any:
    """The quantiles as an array. Those on a device are not checked, as in PyTorch: the check would
    wait for the device.
    """
    if isinstance(q, native.TensorBase) and on_device(q) != on_device(input):
        raise RuntimeError(
            f"{name}: Expected all tensors to be on the same device: q is on {device_of(q.array)}, "
            f"the input on {device_of(data_of(input))}"
        )
    return as_dtype(q, np.float64) if on_device(q) else np.asarray(data_of(q), np.float64)


def quantile_of_sorted(ops: Any, sorted_rows: Any, low: int, high: int, fraction: float) -> Any:
    """The value between two ranks of sorted rows; NaN if the row contains one."""
    out = ops.select(sorted_rows, -1, low)
    if fraction:
        out = ops.lerp(out, ops.select(sorted_rows, -1, high), fraction)
    last = ops.select(sorted_rows, -1, sorted_rows.shape[-1] - 1)  # NaN is sorted last
    is_nan = ops.ne(last, last)
    if not on_device(is_nan) and not bool(ops.any(is_nan)):
        return out
    return ops._where(is_nan, math.nan, out)


def restore_dims(ops: Any, out: Any, dim: int | None, ndim: int) -> Any:
    """A reduced tensor with its reduced dimensions, of size 1."""
    if dim is None:
        return ops.reshape(out, (1,) * ndim)
    return ops.unsqueeze(out, dim % ndim) if ndim else out


@composite(autocast="full")
def quantile(ops, input, q, dim=None, keepdim=False, *, interpolation="linear"):
    """Quantiles of all elements, or along a dimension.

    Parameters
    ----------
    input : Tensor
        float32 or float64.
    q : float or Tensor
        Numbers in [0, 1]: one, or a vector of them.
    dim : int, optional
        The dimension; by default the tensor is flattened.
    keepdim : bool, optional
        Whether the reduced dimensions stay, with size 1.
    interpolation : str, optional
        What is taken between two elements: "linear", "lower", "higher", "midpoint" or "nearest".

    Returns
    -------
    Tensor
        Without the dimension; a vector of q gives a new first dimension. NaN if an element is.

    Raises
    ------
    RuntimeError
        q is outside [0, 1], or a tensor of another dtype than `input`.

    See Also
    --------
    nanquantile, median, kthvalue

    Examples
    --------
    >>> x = st.tensor([1., 2., 3., 4.])
    >>> st.quantile(x, 0.5)
    tensor(2.5000)
    >>> st.quantile(x, st.tensor([0., 0.5, 1.]), interpolation="lower")
    tensor([1., 2., 4.])
    """
    return quantiles(ops, "quantile", input, q, dim, keepdim, interpolation, False)


@composite(autocast="full")
def nanquantile(ops, input, q, dim=None, keepdim=False, *, interpolation="linear"):
    """Quantiles of the elements that are not NaN, of all or along a dimension.

    Parameters
    ----------
    input : Tensor
        float32 or float64.
    q : float or Tensor
        Numbers in [0, 1]: one, or a vector of them.
    dim : int, optional
        The dimension; by default the tensor is flattened.
    keepdim : bool, optional
        Whether the reduced dimensions stay, with size 1.
    interpolation : str, optional
        What is taken between two elements: "linear", "lower", "higher", "midpoint" or "nearest".

    Returns
    -------
    Tensor
        Without the dimension; NaN only where all elements are.

    See Also
    --------
    quantile, nanmedian

    Examples
    --------
    >>> st.nanquantile(st.tensor([1., float("nan"), 3.]), 0.5)
    tensor(2.)
    """
    return quantiles(ops, "nanquantile", input, q, dim, keepdim, interpolation, True)


# ---- averages, covariance


@composite
def nanmean(ops, input, dim=None, keepdim=False, *, dtype=None):
    """The average of the elements that are not NaN.

    Parameters
    ----------
    input : Tensor
        Of a floating-point or complex dtype.
    dim : int or sequence of int, optional
        The dimensions over which it is taken; by default all.
    keepdim : bool, optional
        Whether the reduced dimensions stay, with size 1.
    dtype : dtype, optional
        The elements are converted to it first.

    Returns
    -------
    Tensor
        Without these dimensions; NaN where all elements are.

    Raises
    ------
    RuntimeError
        The dtype is of integers or bool.

    See Also
    --------
    mean, nansum

    Examples
    --------
    >>> st.nanmean(st.tensor([1., float("nan"), 3.]))
    tensor(2.)
    """
    if input.dtype.kind not in "fc":
        raise RuntimeError(
            f"nanmean: the tensor must be floating point or complex: {input.dtype.name}"
        )
    n = ops.sum(input == input, dim, keepdim)
    return ops.div(ops.nansum(input, dim, keepdim, dtype=dtype), n)


def check_weights(name: str, weights: Any, kinds: str, n: int) -> None:
    """Raises RuntimeError unless weights of n observations are a vector of such numbers >= 0."""
    if weights is None:
        return
    if weights.ndim > 1 or math.prod(weights.shape) != n:
        raise RuntimeError(
            f"cov: {name} must be a vector, one for each of {n} observations: "
            f"{tuple(weights.shape)}"
        )
    if weights.dtype.kind not in kinds:
        expected = "integers" if kinds == "iu" else "floating-point numbers"
        raise RuntimeError(f"cov: {name} must be {expected}: {weights.dtype.name}")
    data = host_array(weights)
    if data.size and data.min() < 0:
        raise RuntimeError(f"cov: {name} cannot be negative: {data.min()}")


@composite
def cov(ops, input, *, correction=1, fweights=None, aweights=None):
    """The covariance matrix of variables.

    Parameters
    ----------
    input : Tensor
        A variable in each row and an observation in each column; or a vector: one variable.
    correction : number, optional
        The sums are divided by the number of observations less this.
    fweights : Tensor, optional
        How often each observation counts: a vector of integers.
    aweights : Tensor, optional
        The weight of each observation: a vector of floating-point numbers.

    Returns
    -------
    Tensor
        Of shape `(variables, variables)`; 0-d for one.

    Raises
    ------
    RuntimeError
        The tensor has more than two dimensions or is of bool, or weights are negative or do not
        fit.

    See Also
    --------
    corrcoef, var

    Examples
    --------
    >>> st.cov(st.tensor([[1., 2., 3.], [6., 4., 2.]]))
    tensor([[ 1., -2.],
            [-2.,  4.]])
    >>> st.cov(st.tensor([1., 3.]), correction=0)
    tensor(1.)
    """
    if input.ndim > 2:
        raise RuntimeError(f"cov: at most 2 dimensions are expected: {tuple(input.shape)}")
    if input.dtype.kind == "b":
        raise RuntimeError(f"cov: not for bool: shape {tuple(input.shape)}, hint: input.float()")
    observations = input.shape[-1] if input.ndim else 1
    check_weights("fweights", fweights, "iu", observations)
    check_weights("aweights", aweights, "f", observations)
    if input.dtype.kind in "iub":
        input = ops._to_copy(input, get_default_dtype())
    rows = input if input.ndim == 2 else ops.reshape(input, (1, -1))
    weights = (
        fweights
        if aweights is None
        else aweights
        if fweights is None
        else ops.mul(fweights, aweights)
    )
    if weights is None:
        total: Any = rows.shape[1]
        mean = ops.mean(rows, 1, True)
        norm: Any = total - correction
    else:
        total = ops.sum(weights)
        mean = ops.div(ops.sum(ops.mul(rows, weights), 1, True), total)
        if aweights is None or correction == 0:
            norm = ops.sub(total, correction)
        else:
            weight_ratio = ops.div(ops.sum(ops.mul(weights, aweights)), total)
            norm = ops.sub(total, ops.mul(weight_ratio, correction))
    difference = ops.sub(rows, mean)
    scaled = difference if weights is None else ops.mul(difference, weights)
    norm = max(norm, 0) if isinstance(norm, (int, float)) else ops.clamp(norm, 0, None)
    out = ops.div(ops.matmul(scaled, ops.conj(ops.transpose(difference, 0, 1))), norm)
    return ops.reshape(out, ()) if rows.shape[0] == 1 else out


@composite
def corrcoef(ops, input):
    """The correlation coefficients of variables (Pearson).

    Parameters
    ----------
    input : Tensor
        A variable in each row and an observation in each column; or a vector: one variable.

    Returns
    -------
    Tensor
        Of shape `(variables, variables)`, in [-1, 1]; 0-d for one.

    See Also
    --------
    cov

    Examples
    --------
    >>> st.corrcoef(st.tensor([[1., 2., 3.], [6., 4., 2.]]))
    tensor([[ 1., -1.],
            [-1.,  1.]])
    """
    c = ops.cov(input)
    if not c.ndim:
        return ops.div(c, c)
    std = ops.sqrt(ops.real(ops.diagonal(c)))
    return ops.div(ops.div(c, ops.unsqueeze(std, 1)), ops.unsqueeze(std, 0))
