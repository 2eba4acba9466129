"""Diagonals and triangles of matrices."""

from __future__ import annotations

from typing import Any

import numpy as np

from ... import native
from ...dtypes import as_dtype
from ..creation.device_forms import new_tensor, on_cuda
from ..table.constants import constant
from ..table.dims import axis
from ..table.op_table import composite, op
from ..table.sizes import check_size


@op(
    native=lambda x, diagonal, out=None: native.tril_triu(x, diagonal, False, out),
    complex_gradients=True,
    inplace=True,
    out=True,
    samples=[((3, 4),), ((2, 3, 3), 1), ((4, 3), -1)],
    halves="copies",
    vmap="alone",
    exact_out=True,
)
def tril(xp, x, /, diagonal=0):
    """The lower triangles of matrices: the elements on and below a diagonal, and 0 above it.

    Parameters
    ----------
    input : Tensor
        Of shape `(..., m, n)`.
    diagonal : int, optional
        Which diagonal: above the main one if positive, below it if negative.

    Returns
    -------
    Tensor
        Of the shape of `input`; `tril_` writes into the tensor itself.

    Raises
    ------
    RuntimeError
        The tensor has fewer than two dimensions.

    See Also
    --------
    triu, tril_indices

    Notes
    -----
    Copies: one (the result).

    Examples
    --------
    >>> st.tril(st.ones(3, 3))
    tensor([[1., 0., 0.],
            [1., 1., 0.],
            [1., 1., 1.]])
    >>> st.tril(st.ones(2, 3), diagonal=1)
    tensor([[1., 1., 0.],
            [1., 1., 1.]])
    """
    if x.ndim < 2:
        raise RuntimeError(f"tril: a matrix is needed, at least 2 dimensions: {x.shape}")
    return xp.tril(x, diagonal).astype(x.dtype, copy=False)  # CuPy: float32 of bfloat16


@op(
    native=lambda x, diagonal, out=None: native.tril_triu(x, diagonal, True, out),
    complex_gradients=True,
    inplace=True,
    out=True,
    samples=[((3, 4),), ((2, 3, 3), 1), ((4, 3), -1)],
    halves="copies",
    vmap="alone",
    exact_out=True,
)
def triu(xp, x, /, diagonal=0):
    """The upper triangles of matrices: the elements on and above a diagonal, and 0 below it.

    Parameters
    ----------
    input : Tensor
        Of shape `(..., m, n)`.
    diagonal : int, optional
        Which diagonal: above the main one if positive, below it if negative.

    Returns
    -------
    Tensor
        Of the shape of `input`; `triu_` writes into the tensor itself.

    Raises
    ------
    RuntimeError
        The tensor has fewer than two dimensions.

    See Also
    --------
    tril, triu_indices

    Notes
    -----
    Copies: one (the result).

    Examples
    --------
    >>> st.triu(st.ones(3, 3))
    tensor([[1., 1., 1.],
            [0., 1., 1.],
            [0., 0., 1.]])
    >>> st.triu(st.ones(3, 3, dtype=st.bool), diagonal=1)
    tensor([[False,  True,  True],
            [False, False,  True],
            [False, False, False]])
    """
    if x.ndim < 2:
        raise RuntimeError(f"triu: a matrix is needed, at least 2 dimensions: {x.shape}")
    return xp.triu(x, diagonal).astype(x.dtype, copy=False)


tril.pullback(x=lambda ops, g, diagonal: ops.tril(g, diagonal))
triu.pullback(x=lambda ops, g, diagonal: ops.triu(g, diagonal))


@composite
def diag_embed(ops, input, offset=0, dim1=-2, dim2=-1):
    """The last dimension of a tensor as a diagonal of two new dimensions, with 0 beside it.

    Parameters
    ----------
    input : Tensor
        Of shape `(..., n)`.
    offset : int, optional
        Which diagonal: above the main one if positive, below it if negative.
    dim1, dim2 : int, optional
        Where the new dimensions are in the result; by default at the end.

    Returns
    -------
    Tensor
        With one dimension more; the two new sizes are n + abs(offset).

    Raises
    ------
    RuntimeError
        `dim1` and `dim2` are the same.

    See Also
    --------
    diagonal, diag

    Notes
    -----
    Copies: one (the result).

    Examples
    --------
    >>> st.diag_embed(st.tensor([[1, 2], [3, 4]]))
    tensor([[[1, 0],
             [0, 2]],
    <BLANKLINE>
            [[3, 0],
             [0, 4]]])
    """
    shape = tuple(input.shape)
    n, size = input.ndim + 1, shape[-1] + abs(offset)
    if not (-n <= dim1 < n and -n <= dim2 < n):
        raise IndexError(f"diag_embed: dim is out of range: {dim1}, {dim2}, there are {n}")
    first, second = dim1 % n, dim2 % n
    if first == second:
        raise RuntimeError(f"diag_embed: two different dims are needed: {dim1}, {dim2}")
    out = list(shape[:-1])
    for d in sorted((first, second)):
        out.insert(d, size)
    return ops._diagonal_backward(input, tuple(out), offset, first, second)


@composite(exact_out=True)
def diag(ops, input, diagonal=0):
    """The diagonal of a matrix, or the matrix that has a vector as its diagonal.

    Parameters
    ----------
    input : Tensor
        A matrix, or a vector.
    diagonal : int, optional
        Which diagonal: above the main one if positive, below it if negative.

    Returns
    -------
    Tensor
        A vector of a matrix; a square matrix of a vector.

    Raises
    ------
    RuntimeError
        The tensor is neither a vector nor a matrix.

    See Also
    --------
    diagonal, diag_embed, diagflat

    Notes
    -----
    Copies: one (the result).

    Examples
    --------
    >>> st.diag(st.tensor([1, 2]))
    tensor([[1, 0],
            [0, 2]])
    >>> st.diag(st.tensor([[1, 2], [3, 4]]), 1)
    tensor([2])
    """
    if input.ndim == 1:
        return ops.diag_embed(input, diagonal)
    if input.ndim != 2:
        raise RuntimeError(f"diag: a vector or a matrix is needed: {tuple(input.shape)}")
    return ops.clone(ops.diagonal(input, diagonal))


@composite
def diagflat(ops, input, offset=0):
    """The square matrix that has all elements of a tensor on a diagonal.

    Parameters
    ----------
    input : Tensor
        Of any shape; it is flattened.
    offset : int, optional
        Which diagonal: above the main one if positive, below it if negative.

    Returns
    -------
    Tensor
        A matrix of n + abs(offset) rows for n elements.

    See Also
    --------
    diag

    Notes
    -----
    Copies: one (the result).

    Examples
    --------
    >>> st.diagflat(st.tensor([1, 2]), 1)
    tensor([[0, 1, 0],
            [0, 0, 2],
            [0, 0, 0]])
    """
    return ops.diag_embed(ops.reshape(input, (-1,)), offset)


@composite(autocast="full")
def trace(ops, input):
    """The sum of the diagonal of a matrix.

    Parameters
    ----------
    input : Tensor
        Of shape `(m, n)`.

    Returns
    -------
    Tensor
        0-d; int64 of integers.

    Raises
    ------
    RuntimeError
        The tensor is not a matrix.

    See Also
    --------
    diagonal

    Examples
    --------
    >>> st.trace(st.tensor([[1., 2.], [3., 4.]]))
    tensor(5.)
    """
    if input.ndim != 2:
        raise RuntimeError(f"trace: a matrix is needed: {tuple(input.shape)}")
    return ops.sum(ops.diagonal(input))


@composite
def diagonal_scatter(ops, input, src, offset=0, dim1=0, dim2=1):
    """A copy of a tensor, with another written on the diagonal of two dimensions.

    Parameters
    ----------
    input : Tensor
        With at least two dimensions.
    src : Tensor
        Of the shape of `diagonal(input, offset, dim1, dim2)`.
    offset : int, optional
        Which diagonal: above the main one if positive, below it if negative.
    dim1, dim2 : int, optional
        The two dimensions.

    Returns
    -------
    Tensor
        Of the shape of `input`.

    Raises
    ------
    RuntimeError
        The shapes differ.

    See Also
    --------
    diagonal, select_scatter, slice_scatter

    Notes
    -----
    Copies: one (the result).

    Examples
    --------
    >>> st.diagonal_scatter(st.zeros(2, 2), st.tensor([1., 2.]))
    tensor([[1., 0.],
            [0., 2.]])
    """
    first, second = axis(input, dim1), axis(input, dim2)
    shape = tuple(input.shape)
    mask = np.zeros(shape, bool)
    diagonal = mask.diagonal(offset, first, second)
    if tuple(src.shape) != diagonal.shape:
        raise RuntimeError(f"diagonal_scatter: shapes differ: {tuple(src.shape)}, {diagonal.shape}")
    diagonal.flags.writeable = True
    diagonal[...] = True
    if src.dtype != input.dtype:
        src = ops._to_copy(src, input.dtype)
    return ops._where(
        constant(mask, input), ops._diagonal_backward(src, shape, offset, first, second), input
    )


@composite
def select_scatter(ops, input, src, dim, index):
    """A copy of a tensor, with another written in one slice of a dimension.

    Parameters
    ----------
    input : Tensor
        The tensor.
    src : Tensor
        Of the shape of `select(input, dim, index)`.
    dim : int
        The dimension.
    index : int
        The index of the slice.

    Returns
    -------
    Tensor
        Of the shape of `input`.

    Raises
    ------
    IndexError
        The index is out of range.

    See Also
    --------
    select, slice_scatter

    Notes
    -----
    Copies: one (the result).

    Examples
    --------
    >>> st.select_scatter(st.zeros(2, 2), st.tensor([1., 2.]), dim=1, index=0)
    tensor([[1., 0.],
            [2., 0.]])
    """
    dim = axis(input, dim)
    if not -input.shape[dim] <= index < input.shape[dim]:
        raise IndexError(f"select_scatter: index is out of range: {index} of {tuple(input.shape)}")
    return ops._index_put(input, src, (slice(None),) * dim + (index,), False)


@composite
def slice_scatter(ops, input, src, dim=0, start=None, end=None, step=1):
    """A copy of a tensor, with another written in a range of a dimension.

    Parameters
    ----------
    input : Tensor
        The tensor.
    src : Tensor
        Of the shape of the range.
    dim : int, optional
        The dimension.
    start, end, step : int, optional
        The range, as in `input[start:end:step]`.

    Returns
    -------
    Tensor
        Of the shape of `input`.

    Raises
    ------
    RuntimeError
        The shape of `src` does not fit.

    See Also
    --------
    narrow, select_scatter

    Notes
    -----
    Copies: one (the result).

    Examples
    --------
    >>> st.slice_scatter(st.zeros(4), st.ones(2), start=0, end=4, step=2)
    tensor([1., 0., 1., 0.])
    """
    dim = axis(input, dim)
    return ops._index_put(input, src, (slice(None),) * dim + (slice(start, end, step),), False)


# ---- indices


@composite(method=False)
def tril_indices(ops, row, col, offset=0, *, dtype=None, device=None, layout=None):
    """The positions in the lower triangle of a matrix.

    Parameters
    ----------
    row, col : int
        The numbers of rows and columns.
    offset : int, optional
        The last diagonal that counts: above the main one if positive, below it if negative.
    dtype : dtype, optional
        By default int64.
    device : Device or str, optional
        Of the result; the default device if it is None.

    Returns
    -------
    Tensor
        Of shape `(2, n)`: the rows' indices and the columns', in row order.

    Raises
    ------
    RuntimeError
        `row` or `col` is negative.

    See Also
    --------
    tril, triu_indices

    Examples
    --------
    >>> i, j = st.tril_indices(3, 3, -1)
    >>> i, j
    (tensor([1, 2, 2]), tensor([0, 0, 1]))
    """
    return new_tensor(triangle_indices, False, row, col, offset, index_dtype(dtype), device=device)


@composite(method=False)
def triu_indices(ops, row, col, offset=0, *, dtype=None, device=None, layout=None):
    """The positions in the upper triangle of a matrix.

    Parameters
    ----------
    row, col : int
        The numbers of rows and columns.
    offset : int, optional
        The first diagonal that counts: above the main one if positive, below it if negative.
    dtype : dtype, optional
        By default int64.
    device : Device or str, optional
        Of the result; the default device if it is None.

    Returns
    -------
    Tensor
        Of shape `(2, n)`: the rows' indices and the columns', in row order.

    Raises
    ------
    RuntimeError
        `row` or `col` is negative.

    See Also
    --------
    triu, tril_indices

    Examples
    --------
    >>> i, j = st.triu_indices(3, 3, 1)
    >>> st.arange(9).reshape(3, 3)[i, j]
    tensor([1, 2, 5])
    """
    return new_tensor(triangle_indices, True, row, col, offset, index_dtype(dtype), device=device)


def index_dtype(dtype: Any) -> Any:
    """The dtype of indices, by default int64."""
    return np.dtype(np.int64) if dtype is None else as_dtype(dtype)


def triangle_indices(upper: bool, row: int, col: int, offset: int, dtype: Any) -> Any:
    """The indices of a triangle: (2, n)."""
    name = "triu_indices" if upper else "tril_indices"
    if row < 0 or col < 0:
        raise RuntimeError(f"{name}: row and col must be non-negative: {row}, {col}")
    offset = max(min(offset, col), -row)
    below = elements_below(row, col, offset - upper)
    check_size(name, (2, row * col - below if upper else below))
    check_size(name, (row,))
    ends = np.clip(np.arange(row) + (offset + (not upper)), 0, col)
    lengths = col - ends if upper else ends
    rows = np.repeat(np.arange(row), lengths)
    columns = np.arange(len(rows)) - (np.cumsum(lengths) - lengths)[rows]
    return np.array([rows, columns + ends[rows] if upper else columns], dtype)


@on_cuda(triangle_indices, meta=lambda xp, *bounds: xp.asarray(triangle_indices(*bounds)))
def triangle_indices_on_cuda(
    cupy: Any, upper: bool, row: int, col: int, offset: int, dtype: Any
) -> Any:
    """`triangle_indices`, made on the GPU: the row of an element is found among the rows' ends."""
    name = "triu_indices" if upper else "tril_indices"
    if row < 0 or col < 0:
        raise RuntimeError(f"{name}: row and col must be non-negative: {row}, {col}")
    offset = max(min(offset, col), -row)
    below = elements_below(row, col, offset - upper)
    n = row * col - below if upper else below
    check_size(name, (2, n))
    ends = cupy.clip(cupy.arange(row) + (offset + (not upper)), 0, col)
    sums = cupy.cumsum(col - ends if upper else ends)
    elements = cupy.arange(n)
    rows = cupy.searchsorted(sums, elements, side="right")
    starts = cupy.concatenate([cupy.zeros(1, sums.dtype), sums])
    columns = elements - starts[rows]
    return cupy.stack([rows, columns + ends[rows] if upper else columns]).astype(dtype, copy=False)


def elements_below(row: int, col: int, offset: int) -> int:
    """The number of elements (i, j) with j <= i + offset of a matrix (row, col)."""
    first = min(max(-offset, 0), row)  # rows before it are above the diagonal, from `full` below
    full = min(max(col - offset - 1, first), row)
    return (full - first) * (first + full + 2 * offset + 1) // 2 + (row - full) * col
