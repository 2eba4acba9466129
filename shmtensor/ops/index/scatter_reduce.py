"""scatter_reduce and index_reduce: elements with the same index are added, multiplied, averaged or
compared.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ... import native
from ...dtypes import as_dtype
from ...native import parallel
from ..table.check_dtypes import check_index_dtype, check_same_dtype
from ..table.constants import data_of, filled
from ..table.dims import axis
from ..table.op_table import composite, op
from ..table.samples import ints
from .gather_scatter import check_index_range, check_index_shape, crop_to_index, pad_with_zeros
from .getitem_index_put_where import Shape
from .index_add import flat_indices_along

UFUNCS = {"sum": "add", "prod": "multiply", "mean": "add", "amax": "maximum", "amin": "minimum"}
REDUCTION_CODES = {"sum": 1, "mean": 1, "prod": 2, "amax": 3, "amin": 4}  # native.scatter's
KERNEL_DTYPES = "bBhHiIlLqQfd"
parallel_maximum = parallel(np.maximum)
NEUTRAL = {"sum": 0, "prod": 1, "mean": 0}


parallel_divide = parallel(np.true_divide)


def scatter_reduce_kernel(
    x: Any, source: Any, index: Any, dim: int, reduce: str, include_self: bool
) -> Any:
    """By the native kernels of scatter; None if they refuse."""
    if (
        reduce in REDUCTION_CODES
        and index.size
        and x.dtype == source.dtype
        and x.dtype.char in KERNEL_DTYPES
    ):
        if index.shape == source.shape and (indices := slice_indices(index, dim)) is not None:
            out = reduce_slices(x, source, indices, dim, reduce, include_self)
            if out is not None:
                return out
        out, initial = np.empty(x.shape, x.dtype), x
        success = True
        if not include_self:
            start = np.full(index.shape, neutral(x.dtype, reduce), x.dtype)
            success = native.scatter(out, start, index, dim, 0, x)
            initial = None
        success = success and native.scatter(
            out, source, index, dim, REDUCTION_CODES[reduce], initial
        )
        if success and reduce == "mean":
            success = divide_by_counts(out, index, dim, include_self)
        if success:
            return out
    return None


def slice_indices(index: Any, dim: int) -> Any:
    """The vector of indices along dim, if index is such a vector that was expanded; else None."""
    if index.ndim < 2 or not -index.ndim <= dim < index.ndim:
        return None
    dim %= index.ndim
    for d, (n, stride) in enumerate(zip(index.shape, index.strides)):
        if d != dim and n > 1 and stride:
            return None
    return index[(0,) * dim + (slice(None),) + (0,) * (index.ndim - dim - 1)]


def reduce_slices(
    x: Any, source: Any, indices: Any, dim: int, reduce: str, include_self: bool
) -> Any:
    """Reduces slices of source into x at a vector of indices; None if the kernel refuses."""
    dim %= x.ndim
    out, initial = np.empty(x.shape, x.dtype), x
    indices = native.private_index(indices)
    if not include_self:
        if int(indices.min()) < 0 or int(indices.max()) >= x.shape[dim]:
            return None
        initial = x.copy(order="C")
        initial[(slice(None),) * dim + (indices,)] = neutral(x.dtype, reduce)
    if not native.index_add(out, source, indices, dim, initial, REDUCTION_CODES[reduce]):
        return None
    if reduce == "mean":
        n = np.maximum(np.bincount(indices, minlength=x.shape[dim]) + int(include_self), 1)
        n = n.reshape(-1, *(1,) * (x.ndim - dim - 1))
        if x.dtype.kind in "iu":
            np.floor_divide(out, n, out, casting="unsafe")
        else:
            parallel_divide(out, n.astype(out.dtype), out)
    return out


def divide_by_counts(out: Any, index: Any, dim: int, include_self: bool) -> bool:
    """Divides sums by the number of their terms, as `counts_at` counts them."""
    count_dtype = np.dtype(np.int64) if out.dtype.kind in "iu" else out.dtype
    # From 2**24 on, float32 does not hold every integer.
    if count_dtype == np.float32 and index.size >= 1 << 24:
        count_dtype = np.dtype(np.float64)
    n = np.full(out.shape, int(include_self), count_dtype)
    if not native.scatter(n, np.ones(index.shape, count_dtype), index, dim, 1):
        return False
    n = parallel_maximum(n, 1)
    if out.dtype.kind in "iu":
        np.floor_divide(out, n, out, casting="unsafe")
    else:
        parallel_divide(out, n.astype(out.dtype, copy=False), out)
    return True


def reduce_at(x: Any, source: Any, index: Any, dim: int, reduce: str, include_self: bool) -> bool:
    """Reduces in place, and returns whether it did. If it did not, it may have written elements,
    but only those whose old values `include_self=False` ignores.
    """
    if reduce == "mean" or reduce not in REDUCTION_CODES:
        return False
    if x.dtype != source.dtype or x.dtype.char not in KERNEL_DTYPES:
        return False
    if not index.size:
        return True
    if not x.ndim or not index.ndim:
        return False
    if source.shape != index.shape:
        source = crop_to_index("scatter_reduce", source, index)
    code, indices = REDUCTION_CODES[reduce], slice_indices(index, dim)
    if not include_self:
        start = np.full(index.shape, neutral(x.dtype, reduce), x.dtype)
        if not native.scatter(x, start, index, dim, 0):
            return False
    if indices is not None and native.index_add(x, source, indices, dim, None, code):
        return True
    return native.scatter(x, source, index, dim, code)


@op(
    native=scatter_reduce_kernel,
    write=reduce_at,
    samples=[
        ((3, 4), (2, 4), ints((2, 4), 4), 1, reduce, include_self)
        for reduce in ("sum", "prod", "mean", "amax", "amin")
        for include_self in (True, False)
    ],
)
def _scatter_reduce(xp, x, source, index, /, dim, reduce, include_self):
    """x with elements of source combined into it at indices along dim."""
    if reduce not in UFUNCS:
        raise RuntimeError(f"scatter_reduce: no such reduction: {reduce!r}, one of {tuple(UFUNCS)}")
    if not index.size:
        return x.copy()
    dim, out = check_index_shape("scatter_reduce", x, index, dim), x.copy(order="C")
    flat = not x.ndim or not index.ndim
    indices = index if flat else flat_indices_along(xp, x.shape, dim, index)
    indices = native.private_index(indices.reshape(-1))
    source_part = (
        source.reshape(-1)[: index.size] if flat else crop_to_index("scatter_reduce", source, index)
    )
    part, target = source_part.reshape(-1), out.reshape(-1)
    if not include_self:
        target[indices] = neutral(x.dtype, reduce)
    getattr(xp, UFUNCS[reduce]).at(target, indices, part)
    if reduce == "mean":
        n = counts_at(xp, target.shape, indices, include_self)
        target[...] = target // n if x.dtype.kind in "iu" else target / n.astype(x.dtype)
    return out


def neutral(dtype: Any, reduce: str) -> Any:
    """The neutral element of a reduction."""
    if reduce in NEUTRAL:
        return NEUTRAL[reduce]
    if dtype.kind == "b":
        return reduce == "amin"
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        return info.min if reduce == "amax" else info.max
    return -np.inf if reduce == "amax" else np.inf


def counts_at(xp: Any, shape: Shape, indices: Any, include_self: bool) -> Any:
    """The number of elements at each index, at least 1."""
    n = xp.full(shape, int(include_self))
    xp.add.at(n, indices, 1)
    return xp.maximum(n, 1)


def scatter_reduce_backward(
    ops: Any, needed: tuple[bool, ...], g: Any, x: Any, source: Any, index: Any, out: Any,
    dim: int, reduce: str, include_self: bool,
) -> tuple[Any, Any]:  # fmt: skip
    """The gradients by x and by source."""
    needs_x, needs_source = needed
    shape, index_shape, source_shape = tuple(x.shape), tuple(index.shape), tuple(source.shape)
    part = source
    if source_shape != index_shape:
        part = source[tuple(slice(0, n) for n in index_shape)]

    def gather(t: Any) -> Any:
        return ops._gather(t, index, dim)

    def kept(t: Any) -> Any:
        return t if include_self else ops._scatter_zeros(t, index, dim)

    def padded(t: Any) -> Any:
        return pad_with_zeros(ops, t, source_shape)

    g_x = g_source = None
    if reduce in ("sum", "mean"):
        share = g
        if reduce == "mean":
            start = filled(shape, float(include_self), np.float64, x)
            n = ops._scatter_add(start, filled(index_shape, 1, np.float64, x), index, dim)
            share = g / ops._clamp(n, 1.0, None)
        g_x = kept(share) if needs_x else None
        g_source = padded(gather(share)) if needs_source else None
    elif reduce == "prod":
        dtype = as_dtype(x.dtype)
        if needs_x:
            ones = filled(shape, 1, dtype, x)
            g_x = kept(g * ops._scatter_reduce(ones, part, index, dim, "prod", True))
        if needs_source:
            start = x
            if not include_self:
                start = ops._scatter(x, filled(index_shape, 1, dtype, x), index, dim)
            if bool((part == 0).any()) or bool((start == 0).any()):
                others_of_source = product_of_others(ops, start, part, index, dim)
            else:
                others_of_source = gather(out) / part
            g_source = padded(gather(g) * others_of_source)
    else:
        x_mask = x == out
        if not include_self:
            x_mask = ops._scatter_zeros(x_mask * 1.0, index, dim) != 0
        source_mask = part == gather(out)
        n = ops._scatter_add(x_mask * 1.0, source_mask * 1.0, index, dim)
        share = g / ops._clamp(n, 1.0, None)
        g_x = ops._where(x_mask, share, 0.0) if needs_x else None
        if needs_source:
            g_source = padded(ops._where(source_mask, gather(share), 0.0))
    return g_x, g_source


def product_of_others(ops: Any, start: Any, part: Any, index: Any, dim: int) -> Any:
    """For each element of source the product of all others with its index, without division by 0.

    With one zero at an index, its derivative is the product of the others; with two, all are 0.
    """
    zero = part == 0
    nonzero = ops._where_other(zero, part, 1.0)
    product = ops._scatter_reduce(start, nonzero, index, dim, "prod", True)
    n = ops._scatter_add(filled(tuple(start.shape), 0, np.float64, zero), zero * 1.0, index, dim)
    n_other_zeros = ops._gather(n, index, dim) - zero * 1.0
    return ops._where_other(n_other_zeros > 0, ops._gather(product, index, dim) / nonzero, 0.0)


_scatter_reduce.joint_pullback(scatter_reduce_backward, x="x source index", source="x source index")


@composite(inplace="_scatter_reduce")
def scatter_reduce(ops, input, dim, index, src, reduce, *, include_self=True):
    """A copy of a tensor, with elements of another combined into it along a dimension at given
    indices.

    Parameters
    ----------
    input : Tensor
        The tensor, of n dimensions.
    dim : int
        The dimension that the indices are of.
    index : Tensor
        int32 or int64, of n dimensions, at most as large as `src`.
    src : Tensor
        Of the dtype of `input`.
    reduce : str
        "sum", "prod", "mean", "amax" or "amin" of the elements with the same index.
    include_self : bool, optional
        Whether the element of `input` counts, too. Where no index leads it stays in any case.

    Returns
    -------
    Tensor
        Of the shape of `input`; `scatter_reduce_` writes into the tensor itself.

    Raises
    ------
    RuntimeError
        An index is out of range, shapes or dtypes do not match, or there is no such reduction.

    See Also
    --------
    scatter_add, index_reduce, segment_reduce

    Notes
    -----
    Copies: one (the result).

    Examples
    --------
    >>> x, index = st.tensor([1., 1., 1.]), st.tensor([0, 0, 2])
    >>> st.scatter_reduce(x, 0, index, st.tensor([4., 6., 5.]), "mean", include_self=False)
    tensor([5., 1., 5.])
    >>> st.scatter_reduce(x, 0, index, st.tensor([4., 6., 5.]), "amax")
    tensor([6., 1., 5.])
    """
    check_index_dtype("scatter_reduce", index)
    if getattr(src, "dtype", None) is not input.dtype:
        check_same_dtype("scatter_reduce", input, src)
    return ops._scatter_reduce(input, src, index, dim, reduce, include_self)


@composite(inplace="_scatter_reduce")
def index_reduce(ops, input, dim, index, source, reduce, *, include_self=True):
    """A copy of a tensor, with slices of another combined into it at given indices.

    Parameters
    ----------
    input : Tensor
        The tensor.
    dim : int
        The dimension that is indexed.
    index : Tensor
        A vector of int32 or int64.
    source : Tensor
        Of the dtype of `input`, and of its shape with the length of `index` along `dim`.
    reduce : str
        "prod", "mean", "amax" or "amin" of the slices with the same index.
    include_self : bool, optional
        Whether the slice of `input` counts, too.

    Returns
    -------
    Tensor
        Of the shape of `input`; `index_reduce_` writes into the tensor itself.

    Raises
    ------
    RuntimeError
        There is no such reduction, or shapes or dtypes do not match.

    See Also
    --------
    index_add, scatter_reduce

    Notes
    -----
    Copies: one (the result).

    Examples
    --------
    >>> source = st.tensor([[2., 3.], [4., 5.]])
    >>> st.index_reduce(st.ones(2, 2), 0, st.tensor([1, 1]), source, "prod")
    tensor([[ 1.,  1.],
            [ 8., 15.]])
    """
    if reduce not in ("prod", "mean", "amax", "amin"):
        raise RuntimeError(f"index_reduce: no such reduction: {reduce!r}")
    check_index_dtype("index_reduce", index)
    if getattr(source, "dtype", None) is not input.dtype:
        check_same_dtype("index_reduce", input, source)
    if not input.ndim:
        return ops._scatter_reduce(
            input, ops.reshape(source, ()), ops.reshape(index, ()), 0, reduce, include_self
        )
    dim = axis(input, dim)
    column = ops.reshape(index, tuple(-1 if d == dim else 1 for d in range(input.ndim)))
    expanded_index = ops.broadcast_to(column, tuple(source.shape))
    try:
        return ops._scatter_reduce(input, source, expanded_index, dim, reduce, include_self)
    except RuntimeError:
        check_index_range("index_reduce", data_of(index), input.shape[dim])
        raise
