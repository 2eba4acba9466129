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
    """The elements on and below a diagonal, 0 above."""
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
    """The elements on and above a diagonal, 0 below."""
    if x.ndim < 2:
        raise RuntimeError(f"triu: a matrix is needed, at least 2 dimensions: {x.shape}")
    return xp.triu(x, diagonal).astype(x.dtype, copy=False)


tril.pullback(x=lambda ops, g, diagonal: ops.tril(g, diagonal))
triu.pullback(x=lambda ops, g, diagonal: ops.triu(g, diagonal))


@composite
def diag_embed(ops, input, offset=0, dim1=-2, dim2=-1):
    """The last dimension as the diagonal of two new ones."""
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
    """The diagonal of a matrix (a copy), or the matrix with a vector as its diagonal."""
    if input.ndim == 1:
        return ops.diag_embed(input, diagonal)
    if input.ndim != 2:
        raise RuntimeError(f"diag: a vector or a matrix is needed: {tuple(input.shape)}")
    return ops.clone(ops.diagonal(input, diagonal))


@composite
def diagflat(ops, input, offset=0):
    """The matrix with all elements on its diagonal."""
    return ops.diag_embed(ops.reshape(input, (-1,)), offset)


@composite(autocast="full")
def trace(ops, input):
    """The sum of the diagonal of a matrix."""
    if input.ndim != 2:
        raise RuntimeError(f"trace: a matrix is needed: {tuple(input.shape)}")
    return ops.sum(ops.diagonal(input))


@composite
def diagonal_scatter(ops, input, src, offset=0, dim1=0, dim2=1):
    """The tensor with src on the diagonal of two dimensions. Copies: one (the result)."""
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
    """The tensor with src in one slice. Copies: one (the result)."""
    dim = axis(input, dim)
    if not -input.shape[dim] <= index < input.shape[dim]:
        raise IndexError(f"select_scatter: index is out of range: {index} of {tuple(input.shape)}")
    return ops._index_put(input, src, (slice(None),) * dim + (index,), False)


@composite
def slice_scatter(ops, input, src, dim=0, start=None, end=None, step=1):
    """The tensor with src in a range of slices. Copies: one (the result)."""
    dim = axis(input, dim)
    return ops._index_put(input, src, (slice(None),) * dim + (slice(start, end, step),), False)


# ---- indices


@composite(method=False)
def tril_indices(ops, row, col, offset=0, *, dtype=None, device=None, layout=None):
    """The indices of a matrix's lower triangle: (2, n), rows and columns."""
    return new_tensor(triangle_indices, False, row, col, offset, index_dtype(dtype), device=device)


@composite(method=False)
def triu_indices(ops, row, col, offset=0, *, dtype=None, device=None, layout=None):
    """The indices of a matrix's upper triangle: (2, n), rows and columns."""
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
