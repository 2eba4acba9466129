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
    """The norm of the elements, of all or along dimensions.

    Parameters
    ----------
    x : Tensor
        Of a floating-point or complex dtype.
    ord : number, optional
        The order: sum(abs(x) ** ord) ** (1 / ord); infinity is the largest abs(x), -infinity the
        smallest, 0 counts the elements that are not 0.
    dim : int or sequence of int, optional
        The dimensions; by default all.
    keepdim : bool, optional
        Whether the reduced dimensions stay, with size 1.
    dtype : dtype, optional
        The elements are converted to it first; at least as wide as that of `x`.

    Returns
    -------
    Tensor
        Without these dimensions; real.

    Raises
    ------
    RuntimeError
        The order is a string, or the dtype does not fit.

    See Also
    --------
    norm, matrix_norm

    Examples
    --------
    >>> x = st.tensor([[3., 4.], [6., 8.]])
    >>> st.linalg.vector_norm(x, dim=1)
    tensor([ 5., 10.])
    >>> st.linalg.vector_norm(x, ord=1)
    tensor(21.)
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
    """A norm of matrices.

    Parameters
    ----------
    A : Tensor
        `(..., m, n)`, float32, float64 or complex.
    ord : number or str, optional
        "fro": the root of the sum of squares; "nuc", 2, -2: the sum, the largest and the smallest
        of the singular values; 1 and -1: the largest and smallest sum of abs(A) in a column,
        infinity and -infinity in a row.
    dim : pair of int, optional
        The dimensions of rows and columns.
    keepdim : bool, optional
        Whether the reduced dimensions stay, with size 1.
    dtype : dtype, optional
        The elements are converted to it first.

    Returns
    -------
    Tensor
        Without these dimensions; real.

    Raises
    ------
    RuntimeError
        There is no such order, or the dimensions are the same.

    See Also
    --------
    norm, vector_norm, cond

    Examples
    --------
    >>> A = st.tensor([[3., 0.], [4., 1.]])
    >>> st.linalg.matrix_norm(A, ord=1)
    tensor(7.)
    >>> st.linalg.matrix_norm(A, ord=float("inf"))
    tensor(5.)
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
    """A norm of vectors or of matrices.

    Parameters
    ----------
    A : Tensor
        Of a floating-point or complex dtype.
    ord : number or str, optional
        None: the root of the sum of squares of all elements. Else the order of `matrix_norm` for
        two dimensions, of `vector_norm` for one.
    dim : int or sequence of int, optional
        One dimension or two; by default those of a vector or a matrix.
    keepdim : bool, optional
        Whether the reduced dimensions stay, with size 1.
    dtype : dtype, optional
        The elements are converted to it first.

    Returns
    -------
    Tensor
        Without these dimensions; real.

    Raises
    ------
    RuntimeError
        An order is given for more than two dimensions.

    See Also
    --------
    vector_norm, matrix_norm

    Examples
    --------
    >>> A = st.tensor([[3., 0.], [4., 0.]])
    >>> st.linalg.norm(A)
    tensor(5.)
    >>> st.linalg.norm(A, ord=1, dim=1)
    tensor([3., 4.])
    """
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
    """The condition number of matrices: norm(A, p) * norm(inv(A), p).

    Parameters
    ----------
    A : Tensor
        `(..., n, n)`; for p of 2, -2 or None `(..., m, n)`.
    p : number or str, optional
        The order of the norm, as for `matrix_norm`; None is 2.

    Returns
    -------
    Tensor
        `(...)`, real; infinite for singular matrices, but NaN if all elements are 0 and p is 2 or
        -2.

    Raises
    ------
    RuntimeError
        There is no such order.

    See Also
    --------
    matrix_norm, svdvals

    Examples
    --------
    >>> st.linalg.cond(st.tensor([[4., 0.], [0., 2.]])).round()
    tensor(2.)
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
