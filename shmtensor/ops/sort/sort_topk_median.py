"""max and min along a dimension, kthvalue, median, mode, sort, topk."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ... import native
from ..table.dims import axis, check_ordered, evenly_distribute_backward, keepdim_shape
from ..table.op_table import composite, op
from ..table.samples import ints

ALONG = [((3, 4), 1), ((3, 4), 0, True), ((2, 3, 4), -2), ((), 0)]


def value_selecting_backward(
    ops: Any, g: Any, indices: Any, shape: tuple[int, ...], dim: int, keepdim: bool
) -> Any:
    """The gradient of elements selected along dim: g at their indices, 0 elsewhere."""
    if not shape:
        return ops.reshape(g, ())
    if not keepdim:
        g = ops.reshape(g, keepdim_shape(shape, dim))
        indices = ops.reshape(indices, keepdim_shape(shape, dim))
    return ops._value_selecting_reduction_backward(g, indices, shape, dim)


@op(
    complex_gradients=True,
    samples=[((2, 3), ints((2, 3), 3, unique=True), (2, 5), 1)],
    vmap="shaped_along",
)
def _value_selecting_reduction_backward(xp, x, indices, /, shape, dim):
    """Zeros of a shape, with x written at the indices along dim; no index may occur twice."""
    out = xp.zeros(shape, x.dtype)
    if not native.scatter(out, x, indices, dim, 0):
        xp.put_along_axis(out, native.private_index(indices), x, dim)
    return out


_value_selecting_reduction_backward.pullback(
    x=lambda ops, g, indices, dim: ops._take_along_dim(g, indices, dim)
)


@op(
    complex_gradients=True,
    native=native.gather,
    samples=[((2, 5), ints((2, 3), 3, unique=True), 1)],
    halves="copies",
    vmap="along",
)
def _take_along_dim(xp, x, indices, /, dim):
    """The elements at the indices along dim; no index may occur twice."""
    return xp.take_along_axis(x, native.private_index(indices), dim)


_take_along_dim.pullback(
    x=lambda ops, g, indices, x_shape, dim: ops._value_selecting_reduction_backward(
        g, indices, x_shape, dim
    )
)


def take_per_row(xp: Any, x: Any, indices: Any, dim: int, keepdim: bool) -> tuple[Any, Any]:
    """The elements at one index for each row, and the indices."""
    values = xp.take_along_axis(x, indices, dim)
    if keepdim:
        return values, indices
    return values.squeeze(dim), indices.squeeze(dim)


def minmax_along(xp: Any, name: str, x: Any, dim: int, keepdim: bool) -> tuple[Any, Any]:
    """The largest or smallest elements along dim, and the index of the first of them."""
    check_ordered(name, x)
    if not x.ndim:
        axis(x, dim)
        return x.copy(), xp.zeros((), xp.int64)
    dim = axis(x, dim)
    if not x.shape[dim]:
        raise IndexError(f"{name}: no elements to reduce: shape {x.shape}, dim={dim}")
    if name == "max":
        return x.max(dim, keepdims=keepdim), x.argmax(dim, keepdims=keepdim)
    return x.min(dim, keepdims=keepdim), x.argmin(dim, keepdims=keepdim)


along_dim = functools.partial(op, outputs="values indices", layout="contiguous", vmap="along")


@along_dim(native=lambda x, dim, keep: native.minmax_dim(x, dim, keep, True), samples=ALONG)
def _max(xp, x, /, dim, keepdim=False):
    """Largest elements along a dimension, and their indices."""
    return minmax_along(xp, "max", x, dim, keepdim)


@along_dim(native=lambda x, dim, keep: native.minmax_dim(x, dim, keep, False), samples=ALONG)
def _min(xp, x, /, dim, keepdim=False):
    """Smallest elements along a dimension, and their indices."""
    return minmax_along(xp, "min", x, dim, keepdim)


def kthvalue_kernel(x: Any, k: int, dim: int, keepdim: bool) -> Any:
    """The k-th smallest along dim and its index; None if NumPy has to do it."""
    results = native.kthvalue(x, k, dim)
    if results is None or keepdim:
        return results
    values, indices = results
    return values.squeeze(dim), indices.squeeze(dim)


@along_dim(
    native=lambda x, k, dim, keep: kthvalue_kernel(x, k, dim, keep) if k > 0 else None,
    samples=[((3, 5), 2), ((3, 5), 1, 0, True), ((), 1)],
)
def kthvalue(xp, x, /, k, dim=-1, keepdim=False):
    """The k-th smallest elements along a dimension, and their indices.

    Parameters
    ----------
    input : Tensor
        Of a real dtype.
    k : int
        Which one, from 1.
    dim : int, optional
        The dimension; the last by default.
    keepdim : bool, optional
        Whether the reduced dimensions stay, with size 1.

    Returns
    -------
    (values, indices) : Tensor, Tensor
        Without the dimension; `indices` is int64.

    Raises
    ------
    RuntimeError
        k is out of range.

    See Also
    --------
    topk, median, quantile

    Examples
    --------
    >>> values, indices = st.kthvalue(st.tensor([3, 1, 2]), 2)
    >>> values, indices
    (tensor(2), tensor(2))
    """
    check_ordered("kthvalue", x)
    if not x.ndim and k == 1:
        axis(x, dim)
        return x.copy(), xp.zeros((), xp.int64)
    dim = axis(x, dim)
    if not x.ndim or not 1 <= k <= x.shape[dim]:
        raise (IndexError if x.ndim and not x.shape[dim] else RuntimeError)(
            f"kthvalue: k is out of range: k={k}, dim {dim} of shape {x.shape}, the first is k=1"
        )
    order = xp.argsort(x, dim, kind="stable")
    indices = xp.take(order, xp.asarray([k - 1]), dim)
    return take_per_row(xp, x, indices, dim, keepdim)


@along_dim(
    native=lambda x, dim, keep, ignore_nan: kthvalue_kernel(x, -2 if ignore_nan else -1, dim, keep),
    samples=[((3, 5), 1), ((3, 4), 0, True)],
)
def _median(xp, x, /, dim, keepdim=False, ignore_nan=False):
    """The lower median along a dimension and its index; NaN propagates unless ignore_nan."""
    check_ordered("median", x)
    if not x.ndim:
        axis(x, dim)
        return x.copy(), xp.zeros((), xp.int64)
    dim = axis(x, dim)
    if not x.shape[dim]:
        raise IndexError(f"median: no elements to reduce: shape {x.shape}, dim={dim}")
    order = xp.argsort(x, dim, kind="stable")
    nans = (x != x).sum(dim, keepdims=True)
    n = x.shape[dim]
    rank_or_nan = xp.where(nans > 0, n - nans, (n - 1) // 2)
    rank = xp.maximum(n - nans - 1, 0) // 2 if ignore_nan else rank_or_nan
    return take_per_row(xp, x, xp.take_along_axis(order, rank, dim), dim, keepdim)


def mode_kernel(x: Any, dim: int, keepdim: bool) -> Any:
    """The longest runs of sorted rows; None if NumPy has to do it."""
    results = native.sort(x, dim, False)
    if results is None:
        return None
    values, order = (np.ascontiguousarray(np.moveaxis(a, dim, -1)) for a in results)
    indices = native.longest_runs(values)
    if indices is None:
        return None
    selected = (np.take_along_axis(a, indices, -1).squeeze(-1) for a in (values, order))
    return tuple(np.expand_dims(a, dim) if keepdim else a for a in selected)


@along_dim(native=mode_kernel, cuda="sort:mode", samples=[((3, 4), 1), ((3, 4), 0, True), ((), 0)])
def mode(xp, x, /, dim=-1, keepdim=False):
    """The most frequent elements along a dimension, and an index of each.

    Parameters
    ----------
    input : Tensor
        Of a real dtype.
    dim : int, optional
        The dimension; the last by default.
    keepdim : bool, optional
        Whether the reduced dimensions stay, with size 1.

    Returns
    -------
    (values, indices) : Tensor, Tensor
        Without the dimension; of equally frequent elements the smallest one. `indices` is int64.

    Raises
    ------
    IndexError
        The dimension has no elements.

    See Also
    --------
    unique, median

    Examples
    --------
    >>> st.mode(st.tensor([[1, 2, 2], [3, 1, 3]])).values
    tensor([2, 3])
    """
    return most_frequent(xp, x, dim, keepdim, xp.maximum.accumulate)


def most_frequent(
    xp: Any, x: Any, dim: int, keepdim: bool, cumulative_max: Callable[[Any, int], Any]
) -> tuple[Any, Any]:
    """The forward of `mode`: the longest runs of sorted rows."""
    if not x.ndim:
        axis(x, dim)
        return x.copy(), xp.zeros((), xp.int64)
    dim = axis(x, dim)
    if not x.shape[dim]:
        raise IndexError(f"mode: no elements to reduce: shape {x.shape}, dim={dim}")
    rows = xp.moveaxis(x, dim, -1)
    order = xp.argsort(rows, -1, kind="stable")
    values = xp.take_along_axis(rows, order, -1)
    positions = xp.arange(values.shape[-1])
    is_first = xp.ones(values.shape, bool)
    is_first[..., 1:] = values[..., 1:] != values[..., :-1]
    start = cumulative_max(xp.where(is_first, positions, 0), -1)
    best = xp.argmax(positions - start, -1)[..., None]
    indices = xp.moveaxis(xp.take_along_axis(order, best, -1), -1, dim)
    return take_per_row(xp, x, indices, dim, keepdim)


for row in (_max, _min, kthvalue, _median, mode):
    row.pullback(
        x=lambda ops, g, indices, x_shape, dim, keepdim: value_selecting_backward(
            ops, g, indices, x_shape, dim, keepdim
        )
    )


@composite
def max(ops, input, dim=None, keepdim=False):
    """The largest element of a tensor, or along a dimension, or of each pair of two tensors.

    Parameters
    ----------
    input : Tensor
        Of a real dtype.
    dim : int or Tensor, optional
        The dimension; by default all. A tensor: `maximum` of the two.
    keepdim : bool, optional
        Whether the reduced dimensions stay, with size 1.
    out : tuple of Tensor, optional
        With `dim`: where the results are written, `(values, indices)`.

    Returns
    -------
    Tensor or (values, indices)
        A 0-d tensor; with `dim` two tensors without the dimension, of which `indices` is int64. NaN
        if an element is.

    Raises
    ------
    IndexError
        The dimension has no elements. If there is no dimension given it is a RuntimeError.

    See Also
    --------
    amax, argmax, maximum, min, topk

    Notes
    -----
    Equal largest elements share the gradient of the 0-d result; along a dimension it goes to the
    element at the index.

    Examples
    --------
    >>> x = st.tensor([[1, 5], [7, 2]])
    >>> st.max(x)
    tensor(7)
    >>> values, indices = st.max(x, dim=1)
    >>> values, indices
    (tensor([5, 7]), tensor([1, 0]))
    >>> st.max(x, st.tensor([4, 4]))
    tensor([[4, 5],
            [7, 4]])
    """
    if dim is None:
        return ops.amax(input)
    if isinstance(dim, int):
        return ops._max(input, dim, keepdim)
    return ops.maximum(input, dim)


@composite
def min(ops, input, dim=None, keepdim=False):
    """The smallest element of a tensor, or along a dimension, or of each pair of two tensors.

    Parameters
    ----------
    input : Tensor
        Of a real dtype.
    dim : int or Tensor, optional
        The dimension; by default all. A tensor: `minimum` of the two.
    keepdim : bool, optional
        Whether the reduced dimensions stay, with size 1.
    out : tuple of Tensor, optional
        With `dim`: where the results are written, `(values, indices)`.

    Returns
    -------
    Tensor or (values, indices)
        A 0-d tensor; with `dim` two tensors without the dimension, of which `indices` is int64. NaN
        if an element is.

    Raises
    ------
    IndexError
        The dimension has no elements. If there is no dimension given it is a RuntimeError.

    See Also
    --------
    amin, argmin, minimum, max

    Notes
    -----
    Equal smallest elements share the gradient of the 0-d result; along a dimension it goes to the
    element at the index.

    Examples
    --------
    >>> x = st.tensor([[1, 5], [7, 2]])
    >>> st.min(x)
    tensor(1)
    >>> values, indices = st.min(x, dim=1)
    >>> values, indices
    (tensor([1, 2]), tensor([0, 1]))
    """
    if dim is None:
        return ops.amin(input)
    if isinstance(dim, int):
        return ops._min(input, dim, keepdim)
    return ops.minimum(input, dim)


@op(
    numpy=lambda x, ignore_nan: _median.numpy(x.reshape(-1), 0, False, ignore_nan)[0],
    samples=[((3, 5),), ((4, 2), True), ((),)],
)
def _median_all(xp, x, /, ignore_nan=False):
    """The lower median of all elements; equal ones share the gradient."""
    return _median.forward(xp, x.reshape(-1), 0, False, ignore_nan)[0]


_median_all.pullback(
    x=lambda ops, g, x, out: evenly_distribute_backward(ops, g, x, out, None, False)
)


def median_of_empty(ops: Any, x: Any) -> Any:
    """NaN, with x's history; for integers their smallest number, as in PyTorch."""
    if x.dtype.kind in "iu":
        return ops.new_full(x, (), np.iinfo(x.dtype).min)
    if x.dtype.kind == "b":
        raise NotImplementedError(f"median: not implemented for bool: shape {tuple(x.shape)}")
    return ops.add(ops.sum(x), math.nan)


@composite
def median(ops, input, dim=None, keepdim=False):
    """The median of all elements, or along a dimension.

    Parameters
    ----------
    input : Tensor
        Of a real dtype.
    dim : int, optional
        The dimension; by default all elements count.
    keepdim : bool, optional
        Whether the reduced dimensions stay, with size 1.

    Returns
    -------
    Tensor or (values, indices)
        A 0-d tensor; with `dim` two tensors without the dimension, of which `indices` is int64. Of
        an even number of elements the lower one of the two in the middle; NaN if an element is.

    Raises
    ------
    IndexError
        The dimension has no elements. Without `dim` the median of no elements is NaN.

    See Also
    --------
    nanmedian, quantile, mean

    Examples
    --------
    >>> st.median(st.tensor([3., 1., 4., 2.]))
    tensor(2.)
    >>> st.median(st.tensor([[3, 1, 2], [9, 7, 8]]), dim=1).values
    tensor([2, 8])
    """
    if dim is None and (0 in input.shape or input.dtype.kind == "b"):
        return median_of_empty(ops, input)
    if dim is None:
        return ops._median_all(input)
    return ops._median(input, dim, keepdim)


@composite
def nanmedian(ops, input, dim=None, keepdim=False):
    """The median of the elements that are not NaN, of all or along a dimension.

    Parameters
    ----------
    input : Tensor
        Of a real dtype.
    dim : int, optional
        The dimension; by default all elements count.
    keepdim : bool, optional
        Whether the reduced dimensions stay, with size 1.

    Returns
    -------
    Tensor or (values, indices)
        As of `median`; NaN only where all elements are.

    See Also
    --------
    median, nanquantile

    Examples
    --------
    >>> st.nanmedian(st.tensor([3., float("nan"), 1., 2.]))
    tensor(2.)
    """
    if dim is None and 0 in input.shape:
        return median_of_empty(ops, input)
    if dim is None:
        return ops._median_all(input, True)
    return ops._median(input, dim, keepdim, True)


# ---- sorting


def stable_argsort(xp: Any, x: Any, dim: int, descending: bool) -> Any:
    """The stable order of the elements; NaN counts as the largest."""
    if not descending:
        return xp.argsort(x, dim, kind="stable")
    order = xp.argsort(xp.flip(x, dim), dim, kind="stable")
    return x.shape[dim] - 1 - xp.flip(order, dim)


@op(
    native=native.sort,
    outputs="values indices",
    samples=[((3, 4), 1, True), ((3, 4), 0, False), ((), 0, False)],
    layout="like",
    vmap="along",
)
def _sort(xp, x, /, dim, descending):
    """The elements in order along a dimension, and their indices."""
    check_ordered("sort", x)
    if not x.ndim:
        axis(x, dim)
        return x.copy(), xp.zeros((), xp.int64)
    dim = axis(x, dim)
    indices = stable_argsort(xp, x, dim, descending)
    return xp.take_along_axis(x, indices, dim), indices


@along_dim(
    native=lambda x, k, dim, largest, sorted: native.topk(x, k, dim, largest),
    samples=[((3, 5), 2), ((3, 5), 2, 0, False), ((), 1)],
    exact_out=True,
)
def topk(xp, x, /, k, dim=-1, largest=True, sorted=True):
    """The k largest elements along a dimension, and where they are.

    Parameters
    ----------
    input : Tensor
        Of a real dtype.
    k : int
        How many, at most the size of `dim`.
    dim : int, optional
        The dimension; the last by default.
    largest : bool, optional
        False gives the k smallest.
    sorted : bool, optional
        Whether the results have to be in order; they always are.
    out : tuple of Tensor, optional
        Where the results are written: `(values, indices)`.

    Returns
    -------
    (values, indices) : Tensor, Tensor
        Both of the shape of `input` with k in place of its size along `dim`; `indices` is int64.
        NaN counts as larger than every number.

    Raises
    ------
    RuntimeError
        k is negative or larger than the dimension.

    See Also
    --------
    sort, kthvalue, max

    Notes
    -----
    Copies: one (the results). The gradient goes to the chosen elements.

    Examples
    --------
    >>> values, indices = st.topk(st.tensor([3., 1., 4., 2., 5.]), 2)
    >>> values, indices
    (tensor([5., 4.]), tensor([4, 2]))
    >>> st.topk(st.tensor([3., 1., 4., 2., 5.]), 2, largest=False).values
    tensor([1., 2.])
    """
    check_ordered("topk", x)
    if not x.ndim:
        axis(x, dim)
        return x.copy(), xp.zeros((), xp.int64)
    dim = axis(x, dim)
    if not 0 <= k <= x.shape[dim]:
        raise RuntimeError(f"topk: k is out of range: k={k}, dim {dim} of {x.shape}")
    indices = xp.moveaxis(stable_argsort(xp, x, dim, largest), dim, -1)[..., :k]
    indices = xp.ascontiguousarray(xp.moveaxis(indices, -1, dim))
    return xp.take_along_axis(x, indices, dim), indices


for row in (_sort, topk):
    row.pullback(
        x=lambda ops, g, indices, x_shape, dim: value_selecting_backward(
            ops, g, indices, x_shape, dim, True
        )
    )


@composite(exact_out=True)
def sort(ops, input, dim=-1, descending=False, stable=False):
    """The elements in order along a dimension, and where they came from.

    Parameters
    ----------
    input : Tensor
        Of a real dtype.
    dim : int, optional
        The dimension; the last by default.
    descending : bool, optional
        Whether the largest element comes first.
    stable : bool, optional
        Whether equal elements have to keep their order; they always do.
    out : tuple of Tensor, optional
        Where the results are written: `(values, indices)`.

    Returns
    -------
    (values, indices) : Tensor, Tensor
        Both of the shape of `input`; `indices` is int64. NaN counts as larger than every number.

    Raises
    ------
    IndexError
        `dim` is out of range.

    See Also
    --------
    argsort, topk, msort, unique

    Notes
    -----
    Copies: one (the results). The gradient goes back to where the elements came from.

    Examples
    --------
    >>> values, indices = st.sort(st.tensor([3, 1, 2]))
    >>> values, indices
    (tensor([1, 2, 3]), tensor([1, 2, 0]))
    >>> st.sort(st.tensor([[3, 1], [2, 5]]), dim=0, descending=True).values
    tensor([[3, 5],
            [2, 1]])
    """
    if isinstance(dim, bool):
        dim, descending = -1, dim
    return ops._sort(input, dim, descending)


@composite
def argsort(ops, input, dim=-1, descending=False, stable=False):
    """The indices that put the elements in order along a dimension.

    Parameters
    ----------
    input : Tensor
        Of a real dtype.
    dim : int, optional
        The dimension; the last by default.
    descending : bool, optional
        Whether the largest element comes first.
    stable : bool, optional
        Whether equal elements have to keep their order; they always do.

    Returns
    -------
    Tensor
        int64, of the shape of `input`. NaN counts as larger than every number.

    Raises
    ------
    IndexError
        `dim` is out of range.

    See Also
    --------
    sort, argmax, take_along_dim

    Examples
    --------
    >>> x = st.tensor([3, 1, 2])
    >>> st.argsort(x)
    tensor([1, 2, 0])
    >>> x[st.argsort(x, descending=True)]
    tensor([3, 2, 1])
    """
    return ops._sort(input, dim, descending)[1]


@composite(exact_out=True)
def msort(ops, input):
    """A tensor with its elements in ascending order along the first dimension.

    Parameters
    ----------
    input : Tensor
        Of a real dtype.

    Returns
    -------
    Tensor
        Of the shape of `input`: `sort(input, 0)[0]`.

    See Also
    --------
    sort

    Examples
    --------
    >>> st.msort(st.tensor([[3, 1], [2, 5]]))
    tensor([[2, 1],
            [3, 5]])
    """
    return ops._sort(input, 0, False)[0]
