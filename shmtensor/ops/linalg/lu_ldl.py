"""LU factors with row exchanges, and LDL factors, by LAPACK: NumPy has neither.

The gradient of LU is that of the differential of A = P L U, with the triangles of L ** -1 dA
U ** -1; the part right of or below the square part follows from it (as in PyTorch, Seeger et al.
2017).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ... import errors, native
from ..shape.view_expand_flip import sum_to_shape
from ..table.constants import array_module, at_operands, constant, data_of, eye, filled, on_device
from ..table.named_results import named_result
from ..table.op_table import composite, op
from .cholesky_qr import solve_right
from .inverse_det_matrix_exp import (
    BATCH,
    NEAR_ONE,
    TALL,
    check_floating,
    check_square,
    conj_transpose,
    of_matrices,
)


@of_matrices(outputs="LU pivots info", samples=[(NEAR_ONE,), (TALL,), (TALL.T,), (BATCH,)])
def _linalg_lu_factor(xp, x, /):
    """(LU, pivots, info): L below the diagonal and U on and above it, the row exchanges counted
    from 1, and the first position where U's diagonal is zero, or 0.
    """
    check_floating("linalg.lu_factor", x)
    return native.lu_factor(x)


@at_operands
def permuted_rows(pivots: Any, m: int) -> Any:
    """The rows of B that are the rows of P.mH @ B, for the P of A = P @ L @ U: (..., m)."""
    if on_device(pivots):
        return permuted_rows_on_device(pivots, m)
    flat = pivots.reshape(math.prod(pivots.shape[:-1]), pivots.shape[-1])
    rows = np.tile(np.arange(m), (len(flat), 1))
    batch = np.arange(len(flat))
    for i in range(flat.shape[1]):
        p = flat[:, i] - 1
        rows[batch, i], rows[batch, p] = rows[batch, p], rows[batch, i]
    return rows.reshape(*pivots.shape[:-1], m)


def permuted_rows_on_device(pivots: Any, m: int) -> Any:
    """`permuted_rows` of a device's array."""
    xp = array_module(pivots)
    rows = xp.broadcast_to(xp.arange(m), (*pivots.shape[:-1], m)).copy()
    for i in range(pivots.shape[-1]):
        p = pivots[..., i : i + 1].astype(np.int64) - 1
        first, second = rows[..., i : i + 1].copy(), xp.take_along_axis(rows, p, -1)
        rows[..., i : i + 1] = second
        xp.put_along_axis(rows, p, first, -1)
    return rows


@at_operands
def permutation(pivots: Any, m: int, dtype: Any) -> Any:
    """P of A = P @ L @ U."""
    one = array_module(pivots).eye(m, dtype=dtype)
    return one[permuted_rows(pivots, m)].swapaxes(-1, -2)


def take_rows(ops: Any, x: Any, rows: Any) -> Any:
    """x (..., m, k) with its rows in the order of `rows` (..., m); batches are broadcast."""
    if rows.ndim == 1:
        return ops._index_select(x, constant(rows, x), x.ndim - 2)
    batch = np.broadcast_shapes(rows.shape[:-1], tuple(x.shape[:-2]))
    x = ops.broadcast_to(x, (*batch, *x.shape[-2:]))
    return ops._gather(x, constant(expanded(rows, tuple(x.shape)), x), x.ndim - 2)


@at_operands
def expanded(rows: Any, shape: tuple[int, ...]) -> Any:
    """rows (..., m) as a contiguous array of a shape (..., m, k)."""
    xp = array_module(rows)
    return xp.ascontiguousarray(xp.broadcast_to(rows[..., None], shape))


@at_operands
def contiguous(x: Any) -> Any:
    """An array, contiguous. Copies: none or one."""
    return array_module(x).ascontiguousarray(x)


@at_operands
def inverse_order(rows: Any) -> Any:
    """The inverse of permutations (..., m)."""
    return rows.argsort(-1)


def lu_backward(ops: Any, g_LU: Any, LU: Any, pivots: Any) -> Any:
    """P L ** -H (tril(L.mH gL, -1) + triu(gU U.mH)) U ** -H, for the square part."""
    m, n = LU.shape[-2], LU.shape[-1]
    k = min(m, n)
    square_part = LU[..., :k, :k]
    low = ops.add(ops.tril(square_part, -1), eye(k, k, LU.dtype, LU))
    up = ops.triu(square_part)
    g = g_LU[..., :k, :k]
    g_low, g_up = ops.tril(g, -1), ops.triu(g)
    outer = None
    if n > k:
        outer = ops._solve(conj_transpose(low), g_LU[..., k:])
        g_low = g_low - ops.matmul(outer, conj_transpose(LU[..., k:]))
    elif m > k:
        outer = solve_right(ops, g_LU[..., k:, :], conj_transpose(up))
        g_up = g_up - ops.matmul(conj_transpose(LU[..., k:, :]), outer)
    inner = ops.tril(ops.matmul(conj_transpose(low), g_low), -1) + ops.triu(
        ops.matmul(g_up, conj_transpose(up))
    )
    out = solve_right(ops, ops._solve(conj_transpose(low), inner), conj_transpose(up))
    if outer is not None:
        out = ops.cat([out, outer], -1 if n > k else -2)
    return ops.matmul(constant(permutation(pivots, m, data_of(LU).dtype), out), out)


_linalg_lu_factor.pullback(x=lu_backward)


def check_pivot(name: str, pivot: bool) -> None:
    """Raises RuntimeError if no rows are to be exchanged."""
    if not pivot:
        raise RuntimeError(f"{name}: LU without pivoting is not implemented on the CPU")


@composite(method=False, function=False)
def linalg_lu_factor(ops, A, *, pivot=True):
    """The LU decomposition of matrices in packed form: A = P @ L @ U.

    Parameters
    ----------
    A : Tensor
        `(..., m, n)`, float32, float64 or complex.
    pivot : bool, optional
        Only True on the CPU: rows are exchanged.

    Returns
    -------
    (LU, pivots) : Tensor, Tensor
        L below the diagonal, U on and above it; the row exchanges, int32 and counted from 1.

    Raises
    ------
    LinAlgError
        A matrix is singular; `lu_factor_ex` factorizes it all the same.

    See Also
    --------
    lu, lu_solve, lu_factor_ex

    Examples
    --------
    >>> LU, pivots = st.linalg.lu_factor(st.tensor([[1., 2.], [2., 0.]]))
    >>> LU, pivots
    (tensor([[2.0000, 0.0000],
            [0.5000, 2.0000]]), tensor([2, 2], dtype=shmtensor.int32))
    """
    out = ops.linalg_lu_factor_ex(A, pivot=pivot, check_errors=True)
    return named_result("linalg_lu_factor", LU=out[0], pivots=out[1])


@composite(method=False, function=False)
def linalg_lu_factor_ex(ops, A, *, pivot=True, check_errors=False):
    """The LU decomposition of matrices in packed form, with a number that says whether they are
    singular.

    Parameters
    ----------
    A : Tensor
        `(..., m, n)`, float32, float64 or complex.
    pivot : bool, optional
        Only True on the CPU: rows are exchanged.
    check_errors : bool, optional
        Whether the error of `lu_factor` is raised.

    Returns
    -------
    (LU, pivots, info) : Tensor, Tensor, Tensor
        As of `lu_factor`; `info` is the position of the first zero of U's diagonal, counted from 1,
        or 0.

    See Also
    --------
    lu_factor

    Examples
    --------
    >>> st.linalg.lu_factor_ex(st.zeros(2, 2)).info
    tensor(1, dtype=shmtensor.int32)
    """
    check_pivot("linalg.lu_factor", pivot)
    check_floating("linalg.lu_factor", A)
    LU, pivots, info = ops._linalg_lu_factor(A)
    if check_errors and info.any():
        infos = info.reshape(-1).tolist()
        batch, first = next((b, i) for b, i in enumerate(infos) if i)
        where = f"(Batch element {batch}): " if info.ndim else ""
        raise errors.LinAlgError(
            f"linalg.lu_factor: {where}U[{first},{first}] is zero, counted from 1, and using it in "
            f"lu_solve would divide by zero: info {info.tolist()}, shape {tuple(A.shape)}, hint: "
            "lu_factor_ex"
        )
    return named_result("linalg_lu_factor_ex", LU=LU, pivots=pivots, info=info)


@composite(method=False, function=False)
def linalg_lu_unpacked(ops, LU_data, LU_pivots, unpack_data=True, unpack_pivots=True):
    """(P, L, U) from the results of `lu_factor`."""
    if data_of(LU_pivots).dtype != np.int32:
        raise RuntimeError(
            f"lu_unpack: LU_pivots is expected to be a contiguous tensor of int32 dtype: "
            f"{LU_pivots.dtype.name}"
        )
    m, n = LU_data.shape[-2], LU_data.shape[-1]
    k = min(m, n)
    empty = ops._to_copy(filled((0,), 0, data_of(LU_data).dtype, LU_data), LU_data.dtype)
    P, L, U = empty, empty, empty
    if unpack_pivots:
        matrix = contiguous(permutation(LU_pivots, m, data_of(LU_data).dtype))
        P = ops._to_copy(constant(matrix, LU_data), LU_data.dtype)
    if unpack_data:
        one = eye(m, k, data_of(LU_data).dtype, LU_data)
        L, U = ops.add(ops.tril(LU_data[..., :k], -1), one), ops.triu(LU_data[..., :k, :])
    return named_result("lu_unpack", P=P, L=L, U=U)


@composite(method=False, function=False)
def linalg_lu(ops, A, *, pivot=True):
    """The LU decomposition of matrices: A = P @ L @ U.

    Parameters
    ----------
    A : Tensor
        `(..., m, n)`, float32, float64 or complex; k is the smaller of m and n.
    pivot : bool, optional
        Only True on the CPU: rows are exchanged.

    Returns
    -------
    (P, L, U) : Tensor, Tensor, Tensor
        A permutation `(..., m, m)`, a lower triangle `(..., m, k)` with ones on its diagonal, and
        an upper triangle `(..., k, n)`.

    See Also
    --------
    lu_factor

    Examples
    --------
    >>> P, L, U = st.linalg.lu(st.tensor([[1., 2.], [2., 0.]]))
    >>> P, U
    (tensor([[0., 1.],
            [1., 0.]]), tensor([[2., 0.],
            [0., 2.]]))
    """
    check_pivot("linalg.lu", pivot)
    P, L, U = ops.linalg_lu_unpacked(*ops._linalg_lu_factor(A)[:2])
    return named_result("linalg_lu", P=P, L=L, U=U)


@composite(method=False, function=False, autocast="alone")
def linalg_lu_solve(ops, LU, pivots, B, *, left=True, adjoint=False):
    """The solution of equations from the LU decomposition of their matrix.

    Parameters
    ----------
    LU, pivots : Tensor
        What `lu_factor` returned.
    B : Tensor
        `(..., n, k)`: the right-hand sides, of the same dtype.
    left : bool, optional
        False solves X @ A = B.
    adjoint : bool, optional
        Whether the conjugate transpose of A is the matrix.

    Returns
    -------
    Tensor
        X with A @ X = B.

    Raises
    ------
    RuntimeError
        The sizes or dtypes do not fit.

    See Also
    --------
    lu_factor, solve

    Examples
    --------
    >>> factors = st.linalg.lu_factor(st.tensor([[1., 2.], [2., 0.]]))
    >>> st.linalg.lu_solve(*factors, st.tensor([[5.], [2.]]))
    tensor([[1.],
            [2.]])
    """
    check_square("linalg.lu_solve", LU)
    check_floating("linalg.lu_solve", B)
    if data_of(pivots).dtype != np.int32:
        raise RuntimeError(f"linalg.lu_solve: pivots must be int32: {pivots.dtype.name}")
    if LU.shape[-1] != B.shape[-2 if left else -1] or LU.dtype != B.dtype:
        raise RuntimeError(
            f"linalg.lu_solve: LU and B do not fit: {tuple(LU.shape)} {LU.dtype.name}, "
            f"{tuple(B.shape)} {B.dtype.name}"
        )
    if tuple(pivots.shape) != tuple(LU.shape[:-1]):
        raise RuntimeError(
            f"linalg.lu_solve: one pivot per row is needed: LU {tuple(LU.shape)}, pivots "
            f"{tuple(pivots.shape)}"
        )
    if not left:
        return conj_transpose(
            ops.linalg_lu_solve(LU, pivots, conj_transpose(B), adjoint=not adjoint)
        )
    _, L, U = ops.linalg_lu_unpacked(LU, pivots, unpack_pivots=False)
    rows = permuted_rows(pivots, LU.shape[-1])
    if adjoint:
        solution = ops._solve(conj_transpose(L), ops._solve(conj_transpose(U), B))
        return take_rows(ops, solution, inverse_order(rows))
    return ops._solve(U, ops._solve(L, take_rows(ops, B, rows)))


# ---- LDL


@of_matrices(outputs="LD pivots info", samples=[(NEAR_ONE, False), (BATCH, True)])
def _linalg_ldl_factor(xp, x, /, hermitian):
    """L below the diagonal and D on it, pivots and info of LAPACK's sytrf (hetrf)."""
    check_square("linalg.ldl_factor", x)
    check_floating("linalg.ldl_factor", x)
    return native.ldl_factor(x, bool(hermitian))


@composite(method=False, function=False)
def linalg_ldl_factor(ops, A, *, hermitian=False):
    """The LDL decomposition of symmetric or Hermitian matrices: A = P L D L.T P.T.

    Parameters
    ----------
    A : Tensor
        `(..., n, n)`, of which only the lower triangles are read.
    hermitian : bool, optional
        Whether complex matrices are Hermitian instead of symmetric.

    Returns
    -------
    (LD, pivots) : Tensor, Tensor
        Packed as LAPACK does.

    See Also
    --------
    ldl_solve, cholesky

    Notes
    -----
    D has blocks of size 1 or 2; the matrices need not be positive-definite. No gradients.

    Examples
    --------
    >>> st.linalg.ldl_factor(st.tensor([[2., 0.], [0., -3.]])).LD
    tensor([[ 2.,  0.],
            [ 0., -3.]])
    """
    out = ops.linalg_ldl_factor_ex(A, hermitian=hermitian, check_errors=True)
    return named_result("linalg_ldl_factor", LD=out[0], pivots=out[1])


@composite(method=False, function=False)
def linalg_ldl_factor_ex(ops, A, *, hermitian=False, check_errors=False):
    """The LDL decomposition of symmetric or Hermitian matrices, with a number that says whether D
    is singular.

    Parameters
    ----------
    A : Tensor
        `(..., n, n)`, of which only the lower triangles are read.
    hermitian : bool, optional
        Whether complex matrices are Hermitian instead of symmetric.
    check_errors : bool, optional
        Whether a singular D raises an error.

    Returns
    -------
    (LD, pivots, info) : Tensor, Tensor, Tensor
        As of `ldl_factor`; `info` is positive where D is singular.

    See Also
    --------
    ldl_factor

    Examples
    --------
    >>> st.linalg.ldl_factor_ex(st.zeros(2, 2)).info
    tensor(1, dtype=shmtensor.int32)
    """
    LD, pivots, info = ops._linalg_ldl_factor(A, hermitian)
    if check_errors and info.any():
        raise errors.LinAlgError(
            f"linalg.ldl_factor: the factorization has a zero block in D: info {info.tolist()}"
        )
    return named_result("linalg_ldl_factor_ex", LD=LD, pivots=pivots, info=info)


@op(
    samples=[
        (np.tril(NEAR_ONE), np.array([3, 2, 3], np.int32), TALL, False),
        (np.tril(BATCH), np.array([[-3, -3, 3], [1, -2, -2]], np.int32), TALL, True),
    ],
    halves="checks",
)
def _linalg_ldl_solve(xp, x, pivots, y, /, hermitian):
    """The matrices z with a @ z = y, for the a whose factors are x and pivots."""
    check_floating("linalg.ldl_solve", y)
    batch = xp.broadcast_shapes(x.shape[:-2], y.shape[:-2])
    x, y = (xp.broadcast_to(v, (*batch, *v.shape[-2:])) for v in (x, y))
    return native.ldl_solve(x, xp.broadcast_to(pivots, x.shape[:-1]), y, bool(hermitian))


def ldl_solve_backward(ops: Any, g: Any, x: Any, pivots: Any, hermitian: bool) -> Any:
    """a ** -H @ g, where a is symmetric or Hermitian."""
    if hermitian:
        return ops._linalg_ldl_solve(x, pivots, g, True)
    return ops._linalg_ldl_solve(x, pivots, g.conjugate(), False).conjugate()


_linalg_ldl_solve.pullback(
    y=lambda ops, g, x, pivots, hermitian, y_shape: sum_to_shape(
        ops, ldl_solve_backward(ops, g, x, pivots, hermitian), y_shape
    )
)


@composite(method=False, function=False)
def linalg_ldl_solve(ops, LD, pivots, B, *, hermitian=False):
    """The solution of equations from the LDL decomposition of their matrix.

    Parameters
    ----------
    LD, pivots : Tensor
        What `ldl_factor` returned.
    B : Tensor
        `(..., n, k)`: the right-hand sides.
    hermitian : bool, optional
        As for `ldl_factor`.

    Returns
    -------
    Tensor
        X with A @ X = B; differentiable in B only.

    See Also
    --------
    ldl_factor, solve

    Examples
    --------
    >>> factors = st.linalg.ldl_factor(st.tensor([[2., 0.], [0., -4.]]))
    >>> st.linalg.ldl_solve(*factors, st.tensor([[2.], [4.]]))
    tensor([[ 1.],
            [-1.]])
    """
    check_square("linalg.ldl_solve", LD)
    check_floating("linalg.ldl_solve", B)
    if (
        tuple(pivots.shape) != tuple(LD.shape[:-1])
        or pivots.dtype.kind != "i"
        or LD.shape[-1] != B.shape[-2]
        or LD.dtype != B.dtype
    ):
        raise RuntimeError(
            f"linalg.ldl_solve: sizes or dtypes do not fit: LD {tuple(LD.shape)} {LD.dtype.name}, "
            f"pivots {tuple(pivots.shape)} {pivots.dtype.name}, B {tuple(B.shape)} {B.dtype.name}"
        )
    return ops._linalg_ldl_solve(LD, pivots, B, hermitian)
