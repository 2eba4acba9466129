"""Diagonals and triangles of matrices."""

from __future__ import annotations

from typing import Any

import numpy as np

from ... import native
from ...dtypes import as_dtype
from ..creation.zeros_full_arange import made
from ..table.dims import axis
from ..table.native_or_numpy import stored
from ..table.op_definition import composite, op


@op(
    inplace=True,
    out=True,
    samples=[((3, 4),), ((2, 3, 3), 1), ((4, 3), -1)],
    halves="moved",
    vmap="alone",
)
def tril(xp, x, /, diagonal=0):
    """The elements on and below a diagonal, 0 above."""
    if x.ndim < 2:
        raise RuntimeError(f"tril: a matrix is needed, at least 2 dimensions: {x.shape}")
    return xp.tril(x, diagonal)


@op(
    inplace=True,
    out=True,
    samples=[((3, 4),), ((2, 3, 3), 1), ((4, 3), -1)],
    halves="moved",
    vmap="alone",
)
def triu(xp, x, /, diagonal=0):
    """The elements on and above a diagonal, 0 below."""
    if x.ndim < 2:
        raise RuntimeError(f"triu: a matrix is needed, at least 2 dimensions: {x.shape}")
    return xp.triu(x, diagonal)


def fast_tril(x: Any, diagonal: Any, out: Any = None) -> Any:
    """The kernel, which in place only clears; else the forward."""
    done = native.tril_triu(x, diagonal, False, out)
    return stored(tril.forward(np, x, diagonal), out) if done is None else done


def fast_triu(x: Any, diagonal: Any, out: Any = None) -> Any:
    """The kernel, which in place only clears; else the forward."""
    done = native.tril_triu(x, diagonal, True, out)
    return stored(triu.forward(np, x, diagonal), out) if done is None else done


tril.numpy, triu.numpy = fast_tril, fast_triu
tril.pullback(x=lambda ops, g, diagonal: ops.tril(g, diagonal))
triu.pullback(x=lambda ops, g, diagonal: ops.triu(g, diagonal))


@composite
def diag_embed(ops, input, offset=0, dim1=-2, dim2=-1):
    """The last dimension put on the diagonal of two new ones."""
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


@composite
def diag(ops, input, diagonal=0):
    """Of a matrix its diagonal (a copy), of a vector the matrix with it."""
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
    hole = np.zeros(shape, bool)
    diagonal = hole.diagonal(offset, first, second)
    if tuple(src.shape) != diagonal.shape:
        raise RuntimeError(f"diagonal_scatter: shapes differ: {tuple(src.shape)}, {diagonal.shape}")
    diagonal.flags.writeable = True
    diagonal[...] = True
    if src.dtype != input.dtype:
        src = ops._to_copy(src, input.dtype)
    return ops._where(hole, ops._diagonal_backward(src, shape, offset, first, second), input)


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


# ---- where they are


@composite(method=False)
def tril_indices(ops, row, col, offset=0, *, dtype=None, device=None, layout=None):
    """Where a matrix's lower triangle is: (2, n), rows above columns."""
    return made(corner, False, row, col, offset, default_index(dtype), device=device)


@composite(method=False)
def triu_indices(ops, row, col, offset=0, *, dtype=None, device=None, layout=None):
    """Where a matrix's upper triangle is: (2, n), rows above columns."""
    return made(corner, True, row, col, offset, default_index(dtype), device=device)


def default_index(dtype: Any) -> Any:
    """int64 unless told otherwise."""
    return np.dtype(np.int64) if dtype is None else as_dtype(dtype)


def corner(upper: bool, row: int, col: int, offset: int, dtype: Any) -> Any:
    """The two index vectors as rows."""
    lower = np.tri(row, col, offset - upper, bool)
    return np.array((~lower if upper else lower).nonzero(), dtype)
