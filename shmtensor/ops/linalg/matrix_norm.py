"""Norms of vectors and matrices, and condition numbers: `torch.linalg` by name."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ... import errors
from ...dtypes import as_dtype
from ..reduce.norm_logsumexp import check_norm
from ..table.native_or_numpy import restore_half, upcast_half
from ..table.op_table import composite
from .inverse_det_matrix_exp import check_floating, check_square

ORDERS = ("fro", "nuc", math.inf, -math.inf, 1, -1, 2, -2)


def cast_for_norm(ops: Any, name: str, A: Any, dtype: Any) -> Any:
    """The tensor in the dtype in which the norm is computed."""
    if A.dtype.kind not in "fc":
        raise RuntimeError(
            f"{name}: Expected a floating point or complex tensor as input. Got {A.dtype.name}"
        )
    if dtype is None:
        return A
    norm_dtype = as_dtype(dtype)
    if norm_dtype.kind != A.dtype.kind or norm_dtype.itemsize < A.dtype.itemsize:
        raise RuntimeError(
            f"{name}: dtype must be {'complex' if A.dtype.kind == 'c' else 'real'} and at least as "
            f"wide as the input: {norm_dtype.name}, {A.dtype.name}"
        )
    return ops._to_copy(A, norm_dtype)


@composite(autocast_cuda="full", method=False, function=False)
def linalg_vector_norm(ops, x, ord=2, dim=None, keepdim=False, *, dtype=None):
    """(sum of |x| ** ord) ** (1 / ord), of all elements or along dimensions; infinity: the largest
    of |x|, 0: how many are not 0.
    """
    if isinstance(ord, str):
        raise RuntimeError(f"linalg.vector_norm: ord must be a number: {ord!r}")
    x = cast_for_norm(ops, "linalg.vector_norm", x, dtype)
    dim = None if dim is not None and not isinstance(dim, int) and not len(dim) else dim
    check_norm("linalg.vector_norm", tuple(x.shape), ord, dim)
    return restore_half(ops, ops._vector_norm(upcast_half(ops, x), ord, dim, keepdim), x.dtype)


def two_dims(name: str, A: Any, dim: Any) -> tuple[int, int]:
    """The dimensions of rows and columns."""
    if isinstance(dim, int) or len(dim) != 2:
        raise RuntimeError(f"{name}: dim must be a 2-tuple: {dim}")
    if A.ndim < 2:
        raise RuntimeError(f"{name}: at least 2 dimensions are needed: {tuple(A.shape)}")
    for d in dim:
        if not -A.ndim <= d < A.ndim:
            raise IndexError(f"{name}: dim out of range: {d} for shape {tuple(A.shape)}")
    row, column = (d % A.ndim for d in dim)
    if row == column:
        raise RuntimeError(f"{name}: dims must be different: {tuple(dim)}")
    return row, column


@composite(autocast_cuda="full", method=False, function=False)
def linalg_matrix_norm(ops, A, ord="fro", dim=(-2, -1), keepdim=False, *, dtype=None):
    """A norm of matrices: "fro" of all elements; "nuc", 2, -2 of the singular values their sum,
    largest, smallest; 1 and -1 the largest and smallest sum of a column, infinity of a row.
    """
    A = cast_for_norm(ops, "linalg.matrix_norm", A, dtype)
    row, column = two_dims("linalg.matrix_norm", A, dim)
    if ord not in ORDERS:
        raise RuntimeError(f"linalg.matrix_norm: Order {ord} not supported, one of {ORDERS}")
    if ord == "fro":
        return ops.linalg_vector_norm(A, 2, (row, column), keepdim)
    if ord in ("nuc", 2, -2):
        s = ops._svdvals(ops.movedim(A, (row, column), (-2, -1)))
        takes_sum = ord == "nuc" or (ord == 2 and not s.shape[-1])
        out = (ops.sum if takes_sum else ops.amax if ord == 2 else ops.amin)(s, -1)
        for d in sorted((row, column)) if keepdim else ():
            out = ops.unsqueeze(out, d)
        return out
    if abs(ord) == math.inf:
        row, column = column, row
    sums = ops.sum(ops.abs(A), row, True)
    empty = ord > 0 and not sums.shape[column]
    out = (ops.sum if empty else ops.amax if ord > 0 else ops.amin)(sums, column, True)
    return out if keepdim else ops.squeeze(out, (row, column))


@composite(autocast_cuda="full", method=False, function=False)
def linalg_norm(ops, A, ord=None, dim=None, keepdim=False, *, dtype=None):
    """A vector norm (one dimension, or ord=None), or a matrix norm (two dimensions)."""
    n = 1 if isinstance(dim, int) else None if dim is None else len(dim)
    if ord is None:
        return ops.linalg_vector_norm(A, 2, dim, keepdim, dtype=dtype)
    if n is None and A.ndim not in (1, 2):
        raise RuntimeError(
            f"linalg.norm: If dim is not specified but ord is, the input must be 1D or 2D: "
            f"{tuple(A.shape)}"
        )
    if n is not None and n not in (1, 2):
        raise RuntimeError(f"linalg.norm: If dim is specified, it must be of length 1 or 2: {dim}")
    if n == 2 or (n is None and A.ndim == 2):
        return ops.linalg_matrix_norm(
            A, ord, (-2, -1) if dim is None else dim, keepdim, dtype=dtype
        )
    if isinstance(ord, str):
        raise RuntimeError(f"linalg.norm: order {ord!r} is for matrices: dim={dim}")
    return ops.linalg_vector_norm(A, ord, dim, keepdim, dtype=dtype)


@composite(method=False, function=False, autocast="full")
def linalg_cond(ops, A, p=None):
    """The condition number: norm(A, p) * norm(inv(A), p), by default of the 2-norm; of singular
    matrices infinite.
    """
    check_floating("linalg.cond", A)
    if p is None or p in (2, -2):
        s = ops._svdvals(A)
        if not s.shape[-1]:
            return ops.sum(s, -1)
        largest, smallest = ops.select(s, -1, 0), ops.select(s, -1, -1)
        return smallest / largest if p == -2 else largest / smallest
    if p not in ORDERS:
        raise RuntimeError(f"linalg.cond got an invalid norm type: {p!r}, one of {ORDERS}")
    check_square("linalg.cond", A)
    if not A.shape[-1]:
        return ops.sum(ops.abs(A), (-2, -1))
    try:
        inverse = ops.inverse(A)
    except errors.LinAlgError:
        inverse, info = ops.linalg_inv_ex(A)
        is_singular = ops._to_copy(info > 0, np.dtype(bool))
        out = ops.linalg_matrix_norm(A, p) * ops.linalg_matrix_norm(inverse, p)
        return ops._where(is_singular, math.inf, out)
    return ops.linalg_matrix_norm(A, p) * ops.linalg_matrix_norm(inverse, p)
