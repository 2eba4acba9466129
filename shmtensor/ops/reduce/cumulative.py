"""Cumulative sums, products and extremes along a dimension; diff and trapezoid."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from ... import native
from ...dtypes import finfo
from ..pointwise.exp_log_erf import complex_logaddexp
from ..table.check_dtypes import check_floating
from ..table.constants import computed, eye
from ..table.dims import axis, check_ordered
from ..table.op_table import composite, dtype, op
from .sum_mean_var import accumulator

ALONG = [((3, 4), 1), ((3, 4), 0), ((), 0), ((0, 3), 0)]


def cumulative(x: Any, dim: int, dtype: Any, accumulate: Any) -> Any:
    """An accumulation along dim; a 0-d tensor is its own result."""
    dim = axis(x, dim)
    out_dtype = accumulator(x.dtype, dtype)
    return accumulate(x, dim, out_dtype) if x.ndim else x.astype(out_dtype)


def cumulative_kernel(product: bool) -> Any:
    """The native kernel, if the result has the default dtype; else None."""

    def kernel(x: Any, dim: int, dtype: Any) -> Any:
        is_default = dtype is None or dtype == accumulator(x.dtype, None)
        return native.cumsum_cumprod(x, dim, product) if is_default else None

    return kernel


along = functools.partial(op, samples=ALONG, vmap="along")


@along(complex_gradients=True, autocast_cuda="full", native=cumulative_kernel(False), inplace=True)
def cumsum(xp, x, /, dim, *, dtype: dtype = None):
    """The sums of all elements up to each, along a dimension.

    Parameters
    ----------
    input : Tensor
        Of any dtype; integers and bool are summed as int64.
    dim : int
        The dimension.
    dtype : dtype, optional
        The elements are converted to it first.
    out : Tensor, optional
        Where the result is written.

    Returns
    -------
    Tensor
        Of the shape of `input`.

    Raises
    ------
    IndexError
        `dim` is out of range.

    See Also
    --------
    sum, cumprod, diff

    Examples
    --------
    >>> st.cumsum(st.tensor([1, 2, 3]), 0)
    tensor([1, 3, 6])
    >>> st.cumsum(st.tensor([[1, 2], [3, 4]]), dim=1)
    tensor([[1, 3],
            [3, 7]])
    """
    return cumulative(x, dim, dtype, xp.add.accumulate)


def reversed_cumsum(ops: Any, g: Any, dim: int) -> Any:
    """Cumulative sum from the end."""
    return ops.flip(ops.cumsum(ops.flip(g, (dim,)), dim), (dim,)) if g.ndim else g


cumsum.pullback(x=reversed_cumsum)


@along(complex_gradients=True, autocast_cuda="full", native=cumulative_kernel(True), inplace=True)
def cumprod(xp, x, /, dim, *, dtype: dtype = None):
    """The products of all elements up to each, along a dimension.

    Parameters
    ----------
    input : Tensor
        Of any dtype; integers and bool are multiplied as int64.
    dim : int
        The dimension.
    dtype : dtype, optional
        The elements are converted to it first.

    Returns
    -------
    Tensor
        Of the shape of `input`.

    Raises
    ------
    IndexError
        `dim` is out of range.

    See Also
    --------
    prod, cumsum

    Notes
    -----
    If elements are 0, the gradient needs n products of n elements.

    Examples
    --------
    >>> st.cumprod(st.tensor([1, 2, 3]), 0)
    tensor([1, 2, 6])
    """
    return cumulative(x, dim, dtype, xp.multiply.accumulate)


def cumprod_backward(ops: Any, g: Any, x: Any, out: Any, dim: int) -> Any:
    """For each x_i the products from i on without the factor x_i, by division. If elements are 0,
    row i of an n x n table is the cumulative product with x_i replaced by 1: slow but right.
    """
    if not x.ndim:
        return g
    if not bool((x == 0).any()):
        return reversed_cumsum(ops, g * out.conjugate(), dim) / x.conjugate()
    dim, n = dim % x.ndim, x.shape[dim]
    diagonal = eye(n, n, np.bool_, g)
    later = computed(lambda xp: xp.triu(xp.ones((n, n), dtype=bool)), g)
    rows = ops.unsqueeze(ops.movedim(x, dim, -1), -2)
    table = ops._where(later, ops.cumprod(ops._where_other(diagonal, rows, 1.0), -1), 0.0)
    gradient = ops.sum(ops.unsqueeze(ops.movedim(g, dim, -1), -2) * table.conjugate(), -1)
    return ops.movedim(gradient, -1, dim)


cumprod.pullback(x=cumprod_backward)


def cumulative_extreme(xp: Any, x: Any, dim: int, better: Any) -> tuple[Any, Any]:
    """The extreme so far along dim and its index: of equal ones the last; a NaN remains."""
    dim = axis(x, dim)
    if not x.ndim:
        return x.copy(), xp.zeros((), xp.int64)
    rows = xp.moveaxis(x, dim, 0)
    values, indices = xp.empty_like(rows), xp.empty(rows.shape, np.int64)
    for i in range(rows.shape[0]):
        if i == 0:
            values[0], indices[0] = rows[0], 0
            continue
        take = better(rows[i], values[i - 1]) | (rows[i] != rows[i])
        values[i] = xp.where(take, rows[i], values[i - 1])
        indices[i] = xp.where(take, i, indices[i - 1])
    return xp.moveaxis(values, 0, dim), xp.moveaxis(indices, 0, dim)


@along(native=lambda x, dim: native.cummax_cummin(x, dim, True), outputs="values indices")
def cummax(xp, x, /, dim):
    """The largest element up to each, along a dimension, and its index.

    Parameters
    ----------
    input : Tensor
        Of a real dtype.
    dim : int
        The dimension.

    Returns
    -------
    (values, indices) : Tensor, Tensor
        Of the shape of `input`; `indices` is int64. Of equal elements the last one is taken; a NaN
        remains.

    See Also
    --------
    cummin, max

    Examples
    --------
    >>> values, indices = st.cummax(st.tensor([1, 3, 2, 5]), 0)
    >>> values, indices
    (tensor([1, 3, 3, 5]), tensor([0, 1, 1, 3]))
    """
    return cumulative_extreme(xp, check_ordered("cummax", x), dim, xp.greater_equal)


@along(native=lambda x, dim: native.cummax_cummin(x, dim, False), outputs="values indices")
def cummin(xp, x, /, dim):
    """The smallest element up to each, along a dimension, and its index.

    Parameters
    ----------
    input : Tensor
        Of a real dtype.
    dim : int
        The dimension.

    Returns
    -------
    (values, indices) : Tensor, Tensor
        Of the shape of `input`; `indices` is int64. Of equal elements the last one is taken; a NaN
        remains.

    See Also
    --------
    cummax, min

    Examples
    --------
    >>> values, indices = st.cummin(st.tensor([3, 4, 2, 5]), 0)
    >>> values, indices
    (tensor([3, 3, 2, 2]), tensor([0, 0, 2, 2]))
    """
    return cumulative_extreme(xp, check_ordered("cummin", x), dim, xp.less_equal)


for row in (cummax, cummin):
    row.pullback(
        x=lambda ops, g, indices, x_shape, dim: (
            ops._gather_backward(g, indices, x_shape, dim) if x_shape else g
        )
    )


@along(complex_gradients=True, native=native.logcumsumexp)
def logcumsumexp(xp, x, /, dim):
    """The logarithms of the cumulative sums of exponentials along a dimension, without overflow.

    Parameters
    ----------
    input : Tensor
        Of a floating-point or complex dtype.
    dim : int
        The dimension.

    Returns
    -------
    Tensor
        Of the shape of `input`: log(cumsum(exp(input), dim)).

    See Also
    --------
    logsumexp, cumsum

    Examples
    --------
    >>> st.logcumsumexp(st.tensor([0., 0., -float("inf")]), 0)[0]
    tensor(0.)
    """
    dim = axis(x, dim)
    check_floating("logcumsumexp", x)
    if not x.ndim or not x.size:
        return x.copy()
    if x.dtype.kind == "c":
        rows, out = xp.moveaxis(x, dim, 0), xp.empty_like(x)
        results = xp.moveaxis(out, dim, 0)
        results[0] = rows[0]
        for i in range(1, len(rows)):
            results[i] = complex_logaddexp(xp, results[i - 1], rows[i])
        return out
    return xp.logaddexp.accumulate(x, dim)


def logcumsumexp_backward(ops: Any, g: Any, x: Any, out: Any, dim: int) -> Any:
    """exp(x) times the cumulative sum from the end of g exp(-out), by sign and in logarithms."""
    if not x.ndim or 0 in x.shape:
        return g
    if x.dtype.kind == "c":  # shifted by the largest real part, so that nothing overflows
        largest = ops.amax(ops.real(out), dim, True)
        weights = g * ops.exp(largest - out).conjugate()
        cumulative = ops.flip(ops.cumsum(ops.flip(weights, (dim,)), dim), (dim,))
        return cumulative * ops.exp(x - largest).conjugate()
    tiny = finfo(x.dtype).min
    logarithms = [
        ops._where(s * g > 0, ops.log(ops._where(s * g > 0, s * g, 1.0)), tiny) for s in (1, -1)
    ]
    up, down = (
        ops.exp(ops.flip(ops.logcumsumexp(ops.flip(w - out, (dim,)), dim), (dim,)) + x)
        for w in logarithms
    )
    return up - down


logcumsumexp.pullback(x=logcumsumexp_backward)


@composite
def diff(ops, input, n=1, dim=-1, prepend=None, append=None):
    """The differences of neighbours along a dimension.

    Parameters
    ----------
    input : Tensor
        With at least one dimension; of bool `logical_xor` is taken.
    n : int, optional
        How many times.
    dim : int, optional
        The dimension; the last by default.
    prepend, append : Tensor, optional
        Joined to the tensor along `dim` first.

    Returns
    -------
    Tensor
        The size of `dim` is smaller by n.

    Raises
    ------
    RuntimeError
        The tensor is 0-d, or n is negative.

    See Also
    --------
    cumsum, gradient

    Examples
    --------
    >>> st.diff(st.tensor([1, 4, 9, 16]))
    tensor([3, 5, 7])
    >>> st.diff(st.tensor([1, 4, 9, 16]), n=2)
    tensor([2, 2])
    >>> st.diff(st.tensor([1, 4]), prepend=st.tensor([0]))
    tensor([1, 3])
    """
    if not input.ndim:
        raise RuntimeError("diff: the tensor must have a dimension: shape ()")
    if n < 0:
        raise RuntimeError(f"diff: n must not be negative: {n}")
    if not n:
        return ops.clone(input)
    ends = [t for t in (prepend, input, append) if t is not None]
    out = ops.cat(ends, dim) if len(ends) > 1 else input
    for _ in range(builtin_min(n, out.shape[dim])):
        size = out.shape[dim]
        upper, lower = ops.narrow(out, dim, 1, size - 1), ops.narrow(out, dim, 0, size - 1)
        out = ops.logical_xor(upper, lower) if out.dtype == np.bool_ else ops.sub(upper, lower)
    return out


builtin_min = min


@composite(method=False)
def trapezoid(ops, y, x=None, *, dx=None, dim=-1):
    """The integral along a dimension by the trapezoidal rule.

    Parameters
    ----------
    y : Tensor
        The values of the function.
    x : Tensor, optional
        The positions, a vector or of the shape of `y`.
    dx : number, optional
        The distance of the positions, if `x` is not given; 1 by default.
    dim : int, optional
        The dimension; the last by default.

    Returns
    -------
    Tensor
        Without the dimension.

    Raises
    ------
    RuntimeError
        A tensor is of bool.

    See Also
    --------
    cumulative_trapezoid

    Notes
    -----
    The sum of (x[i + 1] - x[i]) * (y[i + 1] + y[i]) / 2. `trapz` is another name.

    Examples
    --------
    >>> st.trapezoid(st.tensor([0., 1., 4.]))
    tensor(3.)
    >>> st.trapezoid(st.tensor([0., 1., 4.]), st.tensor([0., 2., 4.]))
    tensor(6.)
    """
    return ops.sum(trapezoids(ops, y, x, dx, dim), dim)


@composite(method=False)
def cumulative_trapezoid(ops, y, x=None, *, dx=None, dim=-1):
    """The integrals up to each position along a dimension, by the trapezoidal rule.

    Parameters
    ----------
    y : Tensor
        The values of the function.
    x : Tensor, optional
        The positions, a vector or of the shape of `y`.
    dx : number, optional
        The distance of the positions, if `x` is not given; 1 by default.
    dim : int, optional
        The dimension; the last by default.

    Returns
    -------
    Tensor
        The size of `dim` is smaller by 1.

    Raises
    ------
    RuntimeError
        A tensor is of bool.

    See Also
    --------
    trapezoid, cumsum

    Examples
    --------
    >>> st.cumulative_trapezoid(st.tensor([0., 1., 4.]), dx=2)
    tensor([1., 6.])
    """
    return ops.cumsum(trapezoids(ops, y, x, dx, dim), dim)


trapezoid.alias("trapz")


def trapezoids(ops: Any, y: Any, x: Any, dx: Any, dim: int) -> Any:
    """The area under each pair of neighbours."""
    tensors = [y] if x is None else [y, x]
    if any(v.dtype.kind == "b" for v in tensors):
        raise RuntimeError(f"trapezoid: not for bool: {', '.join(v.dtype.name for v in tensors)}")
    if isinstance(dx, bool):
        raise RuntimeError(f"trapezoid: dx must be a real number: {dx}")
    dim = axis(y, dim)
    if not y.ndim:
        raise IndexError("trapezoid: dim is out of range: 0-d tensors have none")
    size = y.shape[dim]
    if not size:
        return ops.mul(y, 0.5)
    heights = ops.narrow(y, dim, 1, size - 1) + ops.narrow(y, dim, 0, size - 1)
    if x is None:
        return ops.mul(heights, (1.0 if dx is None else dx) / 2)
    widths = ops.diff(x, 1, dim if x.ndim == y.ndim else -1)
    if x.ndim == 1 and y.ndim > 1:
        widths = ops.reshape(widths, (-1, *[1] * (y.ndim - 1 - dim % y.ndim)))
    return ops.div(ops.mul(heights, widths), 2)
