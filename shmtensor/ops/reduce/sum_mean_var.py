"""Reductions: sum, mean, prod, amax, argmax, all, any, var, std."""

from __future__ import annotations

import builtins
import functools
import math
from typing import Any

import numpy as np

from ... import native
from ..table.constants import eye
from ..table.dims import (
    axes,
    axes_of_all_any,
    check_ordered,
    evenly_distribute_backward,
    expand_reduced,
    reduced_dims,
)
from ..table.named_results import named_result
from ..table.op_table import composite, dtype, op
from ..table.samples import bools

DIMS: list[tuple[Any, ...]] = [
    ((3, 4),), ((3, 4), 1), ((2, 3, 4), (0, -1), True), ((2, 3, 4), -2, True), ((),), ((), 0),
    ((0, 3), 0),
]  # fmt: skip
FULL = [s for s in DIMS if 0 not in s[0]]


def accumulator(dtype: Any, out_dtype: Any) -> Any:
    """The dtype of a sum: integers and bool are summed as int64."""
    if out_dtype is not None:
        return out_dtype
    return np.dtype(np.int64) if dtype.kind in "iub" else dtype


# ---- sums


along_dims = functools.partial(op, layout="contiguous", vmap="along")


@along_dims(complex_gradients=True, autocast_cuda="full", numpy=native.sum, samples=DIMS)
def sum(xp, x, /, dim=None, keepdim=False):
    """The sum of all elements, or along dimensions.

    Parameters
    ----------
    input : Tensor
        Of any dtype; integers and bool are summed as int64.
    dim : int or sequence of int, optional
        The dimensions that are summed; by default all.
    keepdim : bool, optional
        Whether the reduced dimensions stay, with size 1.
    dtype : dtype, optional
        The elements are converted to it before they are summed.
    out : Tensor, optional
        Where the result is written.

    Returns
    -------
    Tensor
        Without the summed dimensions. The sum of no elements is 0.

    Raises
    ------
    IndexError
        A dimension is out of range.

    See Also
    --------
    mean, nansum, cumsum, count_nonzero

    Notes
    -----
    The gradient goes to each element of the sum.

    Examples
    --------
    >>> x = st.tensor([[1, 2], [3, 4]])
    >>> st.sum(x)
    tensor(10)
    >>> st.sum(x, dim=1)
    tensor([3, 7])
    >>> st.sum(x, dim=0, keepdim=True, dtype=st.float32)
    tensor([[4., 6.]])
    """
    return x.sum(axes(x, dim), accumulator(x.dtype, None), keepdims=keepdim)


sum.pullback(x=lambda ops, g, x_shape, dim, keepdim: expand_reduced(ops, g, x_shape, dim, keepdim))


@sum.rare(dtype=None)
def sum_as(ops, x, /, dim=None, keepdim=False, *, dtype):
    """The sum in another dtype."""
    if dtype == np.bool_:
        result = ops.any(x, None if axes(x, dim) is None else dim, keepdim)
        return ops._to_copy(result, dtype)  # `any` of uint8 is uint8
    return ops._to_copy(ops.sum(ops._to_copy(x, dtype), dim, keepdim), dtype)


numbers = native.activation("numbers")  # NaN replaced by 0


def nansum_kernel(x: Any, dim: Any, keepdim: bool) -> Any:
    """The sum, if it is not NaN: then no element is. Else NaN is replaced by 0 before the sum."""
    if x.dtype.kind == "f":
        total = native.sum(x, dim, keepdim)
        if total.dtype.itemsize > 2 and not np.isnan(total).any():
            return total
        without_nan = numbers(x)
        if without_nan is not None:
            return native.sum(without_nan, dim, keepdim)
    return None


@along_dims(complex_gradients=True, native=nansum_kernel, samples=DIMS)
def nansum(xp, x, /, dim=None, keepdim=False):
    """The sum of all elements, or along dimensions, in which NaN counts as 0.

    Parameters
    ----------
    input : Tensor
        Of a real dtype.
    dim : int or sequence of int, optional
        The dimensions that are summed; by default all.
    keepdim : bool, optional
        Whether the reduced dimensions stay, with size 1.
    dtype : dtype, optional
        The elements are converted to it before they are summed.

    Returns
    -------
    Tensor
        Without the summed dimensions.

    See Also
    --------
    sum, nanmean

    Notes
    -----
    The gradient of NaN elements is 0.

    Examples
    --------
    >>> st.nansum(st.tensor([1., float("nan"), 2.]))
    tensor(3.)
    """
    if x.dtype.kind == "f":
        x = xp.where(xp.isnan(x), xp.zeros((), x.dtype), x)
    return x.sum(axes(x, dim), accumulator(x.dtype, None), keepdims=keepdim)


@nansum.rare(dtype=None)
def nansum_as(ops, x, /, dim=None, keepdim=False, *, dtype):
    """The sum in another dtype."""
    return ops._to_copy(ops.nansum(ops._to_copy(x, dtype), dim, keepdim), dtype)


nansum.pullback(
    x=lambda ops, g, x, x_shape, dim, keepdim: ops._where_other(
        x != x, expand_reduced(ops, g, x_shape, dim, keepdim), 0.0
    )
)


def reduced_size(shape: tuple[int, ...], dim: Any) -> int:
    """The number of elements of each result."""
    return math.prod(shape[d] for d in reduced_dims(dim, shape))


def check_mean_dtype(name: str, x: Any, dtype: Any) -> Any:
    """x in the dtype of the mean; raises RuntimeError for integers and bool."""
    if dtype is not None:
        x = x.astype(dtype, copy=False)
    if x.dtype.kind in "iub":
        raise RuntimeError(
            f"{name}: the tensor must be floating point or complex: {x.dtype.name}, "
            f"convert it or give dtype="
        )
    return x


def mean_kernel(x: Any, dim: Any, keepdim: bool, dtype: Any) -> Any:
    """The native sum, divided; for float16 NumPy's mean, which does not overflow."""
    if dtype is not None or x.dtype.kind in "iub" or x.dtype.itemsize == 2:
        return mean.forward(np, x, dim, keepdim, dtype=dtype)
    total = native.sum(x, dim, keepdim)
    n = x.size if dim is None or not x.ndim else reduced_size(x.shape, dim)
    total *= 1 / n if n else math.nan
    return total


@along_dims(complex_gradients=True, numpy=mean_kernel, samples=DIMS)
def mean(xp, x, /, dim=None, keepdim=False, *, dtype: dtype = None):
    """The average of all elements, or along dimensions.

    Parameters
    ----------
    input : Tensor
        Of a floating-point or complex dtype.
    dim : int or sequence of int, optional
        The dimensions over which it is taken; by default all.
    keepdim : bool, optional
        Whether the reduced dimensions stay, with size 1.
    dtype : dtype, optional
        The elements are converted to it first; needed for integers.
    out : Tensor, optional
        Where the result is written.

    Returns
    -------
    Tensor
        Without these dimensions. The mean of no elements is NaN.

    Raises
    ------
    RuntimeError
        The dtype is of integers or bool.

    See Also
    --------
    sum, median, var, nanmean

    Examples
    --------
    >>> x = st.tensor([[1., 2.], [3., 6.]])
    >>> st.mean(x)
    tensor(3.)
    >>> st.mean(x, dim=1, keepdim=True)
    tensor([[1.5000],
            [4.5000]])
    >>> st.mean(st.tensor([1, 2]), dtype=st.float32)
    tensor(1.5000)
    """
    if dtype is not None or x.dtype.kind in "iub":
        x = check_mean_dtype("mean", x, dtype)
    if not x.size:
        return xp.true_divide(x.sum(axes(x, dim), keepdims=keepdim), reduced_size(x.shape, dim))
    return x.mean(axes(x, dim), keepdims=keepdim)


mean.pullback(
    x=lambda ops, g, x_shape, dim, keepdim: expand_reduced(
        ops, ops.div(g, reduced_size(x_shape, dim) or math.nan), x_shape, dim, keepdim
    )
)


@along_dims(
    complex_gradients=True,
    native=native.prod,
    name="_prod",
    samples=[((3, 4), 1, False), ((3, 4), 0, True)],
)
def _prod(xp, x, /, dim, keepdim):
    """Product along one dimension, or of all elements (None)."""
    return x.prod(axes(x, dim), accumulator(x.dtype, None), keepdims=keepdim)


def prod_backward(ops: Any, g: Any, x: Any, out: Any, dim: Any, keepdim: bool) -> Any:
    """For each element the product of the others, by division. If elements are 0, all n products of
    n - 1 elements are formed, which is slow but right to every order.
    """
    if dim is None or not x.ndim:
        flat = ops.reshape(x, (-1,))
        return ops.reshape(prod_backward(ops, g, flat, out, 0, False), x.shape)
    shape = tuple(x.shape)
    g = expand_reduced(ops, g, shape, dim, keepdim)
    if not bool((x == 0).any()):
        return g * (expand_reduced(ops, out, shape, dim, keepdim) / x).conjugate()
    n, dim = shape[dim], dim % len(shape)
    rows = ops.movedim(x, dim, -1)
    diagonal = eye(n, n, np.bool_, g)
    factors = ops._where_other(diagonal, ops.unsqueeze(rows, -2), 1.0)
    return g * ops.movedim(ops._prod(factors, -1, False), -1, dim).conjugate()


_prod.pullback(x=prod_backward)


@composite(autocast_cuda="full", autocast="full")
def prod(ops, input, dim=None, keepdim=False, *, dtype=None):
    """The product of all elements, or along one dimension.

    Parameters
    ----------
    input : Tensor
        Of any dtype; integers and bool are multiplied as int64.
    dim : int, optional
        The dimension; by default all.
    keepdim : bool, optional
        Whether the reduced dimensions stay, with size 1.
    dtype : dtype, optional
        The elements are converted to it first.

    Returns
    -------
    Tensor
        Without the dimension. The product of no elements is 1.

    Raises
    ------
    IndexError
        `dim` is out of range.

    See Also
    --------
    sum, cumprod

    Notes
    -----
    The gradient of an element is the product of the others. If elements are 0 it needs n products
    of n elements.

    Examples
    --------
    >>> x = st.tensor([[1, 2], [3, 4]])
    >>> st.prod(x)
    tensor(24)
    >>> st.prod(x, dim=0)
    tensor([3, 8])
    """
    result = ops._prod(input if dtype is None else ops._to_copy(input, dtype), dim, keepdim)
    return result if dtype is None else ops._to_copy(result, dtype)


# ---- min and max


def nonempty_axes(name: str, x: Any, dim: Any) -> Any:
    """The axes, if there are elements along them.

    Raises:
        IndexError: a reduced dimension has size 0 (RuntimeError if all are reduced).
    """
    if not x.size and not reduced_size(x.shape, dim):
        is_full = dim is None or dim == () or dim == []
        error_class = RuntimeError if is_full and not name.startswith("arg") else IndexError
        raise error_class(f"{name}: no elements to reduce: shape {x.shape}, dim={dim}")
    return axes(check_ordered(name, x), dim)


@along_dims(
    native=lambda x, dim, keep: native.minmax(x, dim, keep, True), samples=FULL, exact_out=True
)
def amax(xp, x, /, dim=(), keepdim=False):
    """The largest element, of all or along dimensions.

    Parameters
    ----------
    input : Tensor
        Of a real dtype.
    dim : int or sequence of int, optional
        The dimensions; by default all.
    keepdim : bool, optional
        Whether the reduced dimensions stay, with size 1.

    Returns
    -------
    Tensor
        Without these dimensions; NaN if an element is.

    Raises
    ------
    IndexError
        A dimension has no elements. If all dimensions are reduced it is a RuntimeError.

    See Also
    --------
    amin, max, argmax, aminmax

    Notes
    -----
    Equal largest elements share the gradient; that of `max` along a dimension goes to one of them.

    Examples
    --------
    >>> st.amax(st.tensor([[1, 5], [7, 2]]), dim=(0, 1))
    tensor(7)
    >>> st.amax(st.tensor([[1, 5], [7, 2]]), dim=1)
    tensor([5, 7])
    """
    return x.max(nonempty_axes("amax", x, dim), keepdims=keepdim)


@along_dims(
    native=lambda x, dim, keep: native.minmax(x, dim, keep, False), samples=FULL, exact_out=True
)
def amin(xp, x, /, dim=(), keepdim=False):
    """The smallest element, of all or along dimensions.

    Parameters
    ----------
    input : Tensor
        Of a real dtype.
    dim : int or sequence of int, optional
        The dimensions; by default all.
    keepdim : bool, optional
        Whether the reduced dimensions stay, with size 1.

    Returns
    -------
    Tensor
        Without these dimensions; NaN if an element is.

    Raises
    ------
    IndexError
        A dimension has no elements. If all dimensions are reduced it is a RuntimeError.

    See Also
    --------
    amax, min, argmin, aminmax

    Notes
    -----
    Equal smallest elements share the gradient; that of `min` along a dimension goes to one of them.

    Examples
    --------
    >>> st.amin(st.tensor([[1, 5], [7, 2]]), dim=1)
    tensor([1, 2])
    """
    return x.min(nonempty_axes("amin", x, dim), keepdims=keepdim)


for row in (amax, amin):
    row.pullback(
        x=lambda ops, g, x, out, dim, keepdim: evenly_distribute_backward(
            ops, g, x, out, dim, keepdim
        )
    )


@composite(exact_out=True)
def aminmax(ops, input, *, dim=None, keepdim=False):
    """The smallest and the largest element, of all or along a dimension.

    Parameters
    ----------
    input : Tensor
        Of a real dtype.
    dim : int, optional
        The dimension; by default all.
    keepdim : bool, optional
        Whether the reduced dimensions stay, with size 1.

    Returns
    -------
    (min, max) : Tensor, Tensor
        Without the dimension.

    See Also
    --------
    amin, amax

    Examples
    --------
    >>> low, high = st.aminmax(st.tensor([3, 1, 4]))
    >>> low, high
    (tensor(1), tensor(4))
    """
    dims = () if dim is None else dim
    return named_result(
        "aminmax", min=ops.amin(input, dims, keepdim), max=ops.amax(input, dims, keepdim)
    )


@op(
    native=lambda x, dim, keep: native.argminmax(x, dim, keep, True),
    samples=[((3, 4),), ((3, 4), 1), ((3, 4), 0, True), ((),), ((), 0)],
    layout="contiguous",
    vmap="along_or_flat",
    exact_out=True,
)
def argmax(xp, x, /, dim=None, keepdim=False):
    """The index of the largest element, along a dimension or in the flattened tensor.

    Parameters
    ----------
    input : Tensor
        Of a real dtype.
    dim : int, optional
        The dimension; by default the tensor is flattened.
    keepdim : bool, optional
        Whether the reduced dimensions stay, with size 1.

    Returns
    -------
    Tensor
        int64, without the dimension. NaN counts as larger than every number.

    Raises
    ------
    IndexError
        There are no elements.

    See Also
    --------
    max, argmin, argsort, topk

    Notes
    -----
    Of equal elements the first one is taken.

    Examples
    --------
    >>> x = st.tensor([[1, 5], [7, 2]])
    >>> st.argmax(x)
    tensor(2)
    >>> st.argmax(x, dim=1)
    tensor([1, 0])
    """
    return argminmax(xp, "argmax", x, dim, keepdim)


@op(
    native=lambda x, dim, keep: native.argminmax(x, dim, keep, False),
    samples=[((3, 4),), ((3, 4), 1), ((3, 4), 0, True), ((),), ((), 0)],
    layout="contiguous",
    vmap="along_or_flat",
    exact_out=True,
)
def argmin(xp, x, /, dim=None, keepdim=False):
    """The index of the smallest element, along a dimension or in the flattened tensor.

    Parameters
    ----------
    input : Tensor
        Of a real dtype.
    dim : int, optional
        The dimension; by default the tensor is flattened.
    keepdim : bool, optional
        Whether the reduced dimensions stay, with size 1.

    Returns
    -------
    Tensor
        int64, without the dimension. NaN counts as smaller than every number.

    Raises
    ------
    IndexError
        There are no elements.

    See Also
    --------
    min, argmax, argsort

    Notes
    -----
    Of equal elements the first one is taken.

    Examples
    --------
    >>> st.argmin(st.tensor([[1, 5], [7, 2]]), dim=0)
    tensor([0, 1])
    """
    return argminmax(xp, "argmin", x, dim, keepdim)


def argminmax(xp: Any, name: str, x: Any, dim: int | None, keepdim: bool) -> Any:
    """argmax or argmin; a 0-d tensor counts as one row."""
    nonempty_axes(name, x, dim)
    if not x.ndim:
        axes(x, dim)
        return xp.zeros((), xp.int64)
    return getattr(xp, name)(x, dim, keepdims=keepdim)


# ---- truth and counts


COUNTS = [(bools((3, 4)),), (bools((3, 4)), 1), (bools((2, 3, 4)), (0, 2)), (bools(()),)]
BOOLS = [*((bools((3, 4)), *dim) for dim in ((), (1,), ((),))),
         (bools((2, 3, 4)), (0, 2), True), (bools(()),)]  # fmt: skip


def all_any_kernel(is_all: bool) -> Any:
    """The native min or max for bools; None (NumPy) for numbers, or if no dimension is reduced."""

    def kernel(x: Any, dim: Any, keepdim: bool) -> Any:
        if x.dtype.char != "?" or axes_of_all_any(x, dim) == ():
            return None
        return native.minmax(x, dim, keepdim, not is_all)

    return kernel


@along_dims(native=all_any_kernel(True), samples=BOOLS)
def all(xp, x, /, dim=None, keepdim=False):
    """Whether all elements are true, of all or along dimensions.

    Parameters
    ----------
    input : Tensor
        Of any dtype; numbers other than 0 are true.
    dim : int or sequence of int, optional
        The dimensions; by default all. `()`: each element alone.
    keepdim : bool, optional
        Whether the reduced dimensions stay, with size 1.

    Returns
    -------
    Tensor
        bool, of uint8 uint8. True for no elements.

    See Also
    --------
    any, allclose

    Examples
    --------
    >>> x = st.tensor([[True, False], [True, True]])
    >>> st.all(x)
    tensor(False)
    >>> st.all(x, dim=1)
    tensor([False,  True])
    """
    out = xp.logical_and.reduce(x, axes_of_all_any(x, dim), keepdims=keepdim)
    return out if x.dtype != np.uint8 else xp.asarray(out, x.dtype)


@along_dims(native=all_any_kernel(False), samples=BOOLS)
def any(xp, x, /, dim=None, keepdim=False):
    """Whether at least one element is true, of all or along dimensions.

    Parameters
    ----------
    input : Tensor
        Of any dtype; numbers other than 0 are true.
    dim : int or sequence of int, optional
        The dimensions; by default all. `()`: each element alone.
    keepdim : bool, optional
        Whether the reduced dimensions stay, with size 1.

    Returns
    -------
    Tensor
        bool, of uint8 uint8. False for no elements.

    See Also
    --------
    all, count_nonzero

    Examples
    --------
    >>> x = st.tensor([[0, 0], [0, 3]])
    >>> st.any(x)
    tensor(True)
    >>> st.any(x, dim=1)
    tensor([False,  True])
    """
    out = xp.logical_or.reduce(x, axes_of_all_any(x, dim), keepdims=keepdim)
    return out if x.dtype != np.uint8 else xp.asarray(out, x.dtype)


@along_dims(native=lambda x, dim: native.count(x, dim, False), samples=COUNTS)
def count_nonzero(xp, x, /, dim=None):
    """The number of elements that are not 0, of all or along dimensions.

    Parameters
    ----------
    input : Tensor
        Of any dtype.
    dim : int or sequence of int, optional
        The dimensions; by default all.

    Returns
    -------
    Tensor
        int64, without these dimensions.

    See Also
    --------
    nonzero, sum

    Examples
    --------
    >>> st.count_nonzero(st.tensor([[0, 1], [2, 3]]), dim=0)
    tensor([1, 2])
    """
    return (x != 0).sum(axes(x, dim), np.dtype(np.int64))


# ---- variance


@along_dims(
    complex_gradients=True,
    native=lambda x, dim, correction, keep: native.var(x, dim, correction, keep, False),
    samples=[((3, 4), None, 1, False), ((3, 4), 1, 0, True), ((2, 3, 4), (0, 2), 1, False)],
)
def _var(xp, x, /, dim, correction, keepdim):
    """Mean squared distance from the mean, over n - correction."""
    difference = x - x.mean(axes(x, dim), keepdims=True)
    if x.dtype.kind == "c":
        difference = xp.sqrt(difference.real * difference.real + difference.imag * difference.imag)
    n = builtins.max(reduced_size(x.shape, dim) - correction, 0)
    total = (difference * difference).sum(axes(x, dim), keepdims=keepdim)
    return xp.true_divide(total, total.dtype.type(n))


def var_backward(ops: Any, g: Any, x: Any, dim: Any, correction: float, keepdim: bool) -> Any:
    """The gradient of the variance: g * 2 (x - mean) / (n - correction)."""
    shape = tuple(x.shape)
    n = reduced_size(shape, dim) - correction
    if n <= 0:
        return expand_reduced(ops, g, shape, dim, keepdim) * math.nan
    all_dims = tuple(range(len(shape))) if dim is None else dim
    difference = x - ops.mean(x, all_dims, True)
    return expand_reduced(ops, g * (2 / n), shape, dim, keepdim) * difference


_var.pullback(x=var_backward)


@along_dims(
    complex_gradients=True,
    native=lambda x, dim, correction, keep: native.var(x, dim, correction, keep, True),
    samples=[((3, 4), None, 1, False), ((3, 4), 1, 0, True)],
)
def _std(xp, x, /, dim, correction, keepdim):
    """The square root of the variance."""
    return xp.sqrt(_var.forward(xp, x, dim, correction, keepdim))


def std_backward(
    ops: Any, g: Any, x: Any, out: Any, dim: Any, correction: float, keepdim: bool
) -> Any:
    """The gradient of the standard deviation, `out`: the variance's / (2 out), 0 where out is 0."""
    g_var = ops._where_other(out == 0, g / (2 * ops._where_other(out == 0, out, 1.0)), 0.0)
    return var_backward(ops, g_var, x, dim, correction, keepdim)


_std.pullback(x=std_backward)


def var_arguments(
    dim: Any, unbiased: Any, keepdim: Any, correction: Any
) -> tuple[Any, float, bool]:
    """(dim, correction, keepdim) of PyTorch's three signatures: (unbiased), (dim, unbiased,
    keepdim), (dim, correction=, keepdim=).
    """
    if isinstance(dim, bool):
        dim, unbiased = None, dim
    if correction is None:
        correction = 1 if unbiased is None or unbiased else 0
    return (None if dim is None or dim == () or dim == [] else dim), correction, keepdim


def check_floating(name: str, input: Any) -> None:
    """Raises RuntimeError unless the tensor is floating-point or complex."""
    if input.dtype.kind in "iub":
        raise RuntimeError(
            f"{name}: the tensor must be floating point or complex: {input.dtype.name}, convert it"
        )


@composite
def var(ops, input, dim=None, unbiased=None, keepdim=False, *, correction=None):
    """The variance of all elements, or along dimensions.

    Parameters
    ----------
    input : Tensor
        Of a floating-point or complex dtype.
    dim : int or sequence of int, optional
        The dimensions over which it is taken; by default all.
    unbiased : bool, optional
        True is correction 1, False correction 0; an older form of `correction`. It may be given in
        place of `dim`.
    keepdim : bool, optional
        Whether the reduced dimensions stay, with size 1.
    correction : number, optional
        The sum of squares is divided by n - correction; 1 by default.
    out : Tensor, optional
        Where the result is written.

    Returns
    -------
    Tensor
        Without these dimensions; real. NaN if n - correction is 0.

    Raises
    ------
    RuntimeError
        The dtype is of integers or bool.

    See Also
    --------
    std, var_mean, cov

    Notes
    -----
    var(x) = sum(abs(x - mean(x)) ** 2) / (n - correction). With correction 0 it is the variance of
    the elements themselves, as in NumPy by default; with 1 the estimate from a sample.

    Examples
    --------
    >>> x = st.tensor([[1., 3.], [2., 6.]])
    >>> st.var(x, dim=1)
    tensor([2., 8.])
    >>> st.var(x, dim=1, correction=0)
    tensor([1., 4.])
    """
    check_floating("var", input)
    return ops._var(input, *var_arguments(dim, unbiased, keepdim, correction))


@composite
def std(ops, input, dim=None, unbiased=None, keepdim=False, *, correction=None):
    """The standard deviation of all elements, or along dimensions: the square root of the variance.

    Parameters
    ----------
    input : Tensor
        Of a floating-point or complex dtype.
    dim : int or sequence of int, optional
        The dimensions over which it is taken; by default all.
    unbiased : bool, optional
        True is correction 1, False correction 0; an older form of `correction`. It may be given in
        place of `dim`.
    keepdim : bool, optional
        Whether the reduced dimensions stay, with size 1.
    correction : number, optional
        The sum of squares is divided by n - correction; 1 by default.
    out : Tensor, optional
        Where the result is written.

    Returns
    -------
    Tensor
        Without these dimensions; real. NaN if n - correction is 0.

    Raises
    ------
    RuntimeError
        The dtype is of integers or bool.

    See Also
    --------
    var, std_mean

    Notes
    -----
    The gradient is 0 where the deviation is 0.

    Examples
    --------
    >>> x = st.tensor([[1., 1.], [2., 6.]])
    >>> st.std(x, dim=1, correction=0)
    tensor([0., 2.])
    """
    check_floating("std", input)
    return ops._std(input, *var_arguments(dim, unbiased, keepdim, correction))


@composite(method=False)
def var_mean(ops, input, dim=None, unbiased=None, keepdim=False, *, correction=None):
    """The variance and the mean, of all elements or along dimensions.

    Parameters
    ----------
    input : Tensor
        Of a floating-point or complex dtype.
    dim : int or sequence of int, optional
        The dimensions over which they are taken; by default all.
    unbiased : bool, optional
        True is correction 1, False correction 0; an older form of `correction`.
    keepdim : bool, optional
        Whether the reduced dimensions stay, with size 1.
    correction : number, optional
        The sum of squares is divided by n - correction; 1 by default.

    Returns
    -------
    (var, mean) : Tensor, Tensor
        Without these dimensions.

    See Also
    --------
    var, mean, std_mean

    Examples
    --------
    >>> st.var_mean(st.tensor([1., 3., 5.]))
    (tensor(4.), tensor(3.))
    """
    dim, correction, keepdim = var_arguments(dim, unbiased, keepdim, correction)
    return ops._var(input, dim, correction, keepdim), ops.mean(input, dim, keepdim)


@composite(method=False)
def std_mean(ops, input, dim=None, unbiased=None, keepdim=False, *, correction=None):
    """The standard deviation and the mean, of all elements or along dimensions.

    Parameters
    ----------
    input : Tensor
        Of a floating-point or complex dtype.
    dim : int or sequence of int, optional
        The dimensions over which they are taken; by default all.
    unbiased : bool, optional
        True is correction 1, False correction 0; an older form of `correction`.
    keepdim : bool, optional
        Whether the reduced dimensions stay, with size 1.
    correction : number, optional
        The sum of squares is divided by n - correction; 1 by default.

    Returns
    -------
    (std, mean) : Tensor, Tensor
        Without these dimensions.

    See Also
    --------
    std, mean, var_mean

    Examples
    --------
    >>> st.std_mean(st.tensor([1., 3., 5.]))
    (tensor(2.), tensor(3.))
    """
    dim, correction, keepdim = var_arguments(dim, unbiased, keepdim, correction)
    return ops._std(input, dim, correction, keepdim), ops.mean(input, dim, keepdim)
