"""Factors of matrices: Cholesky, QR, products of Householder reflectors. Batched.

Sources of the gradients: Cholesky Murray (2016), QR Walter and Lehmann (2012) and for wide matrices
Roberts and Roberts (2020).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ... import errors
from ..table.constants import constant, data_of, eye, host_array, zeros
from ..table.named_results import named_result
from ..table.op_table import composite
from .inverse_det_matrix_exp import (
    BATCH,
    NEAR_ONE,
    TALL,
    check_floating,
    check_square,
    conj_transpose,
    of_matrices,
)


def as_1x1(ops: Any, v: Any) -> Any:
    """A batch of numbers as a batch of 1 x 1 matrices."""
    return ops.unsqueeze(ops.unsqueeze(v, -1), -1)


def tril_half_diagonal(ops: Any, x: Any) -> Any:
    """The lower triangles, with half of the diagonal's real part."""
    diagonal = ops.diagonal(x, 0, -2, -1)
    real = ops.real(diagonal) if x.dtype.kind == "c" else diagonal
    excess = ops.diag_embed(diagonal - real * 0.5) if x.dtype.kind == "c" else None
    lower = ops.tril(x)
    return lower - (ops.diag_embed(real * 0.5) if excess is None else excess)


def solve_right(ops: Any, x: Any, y: Any) -> Any:
    """x @ y ** -1."""
    return conj_transpose(ops._solve(conj_transpose(y), conj_transpose(x)))


# ---- Cholesky


def leading_minor(x: Any) -> int:
    """The order of the first leading minor that is not positive-definite; 0 if all are."""
    for k in range(1, x.shape[-1] + 1):
        try:
            np.linalg.cholesky(x[:k, :k])
        except np.linalg.LinAlgError:
            return k
    return 0


def leading_minors(x: Any) -> Any:
    """`leading_minor` of each matrix of a batch."""
    flat = x.reshape(math.prod(x.shape[:-2]), *x.shape[-2:])
    orders = [0 if is_positive_definite(a) else leading_minor(a) for a in flat]
    return np.asarray(orders, np.int32).reshape(x.shape[:-2])


def is_positive_definite(x: Any) -> bool:
    """Whether a matrix is positive-definite."""
    try:
        np.linalg.cholesky(x)
    except np.linalg.LinAlgError:
        return False
    return True


@of_matrices(samples=[(NEAR_ONE @ NEAR_ONE.T,), (BATCH @ BATCH.swapaxes(1, 2),)])
def _linalg_cholesky(xp, x, /):
    """The lower factor L of x = L @ L.mH, of which only the lower triangle is read."""
    check_square("cholesky", x)
    try:
        return xp.linalg.cholesky(x)
    except np.linalg.LinAlgError:
        raise not_positive_definite(x, leading_minors(x)) from None


def not_positive_definite(x: Any, orders: Any) -> Exception:
    """The error of matrices whose first leading minors that are not positive-definite have these
    orders, in NumPy's memory; 0: there is none.
    """
    at = tuple(int(i) for i in np.argwhere(orders)[0])
    where = f"(Batch element {at[0] if len(at) == 1 else at}): " if at else ""
    return errors.LinAlgError(
        f"linalg.cholesky: {where}The factorization could not be completed because the input "
        f"is not positive-definite (the leading minor of order {orders[at]} is not "
        f"positive-definite): shape {x.shape}"
    )


@of_matrices(samples=[(NEAR_ONE @ NEAR_ONE.T,), (np.diag([1.0, -1.0, 1.0]),), (BATCH,)])
def _linalg_leading_minors(xp, x, /):
    """The order of the first leading minor that is not positive-definite, or 0: int32."""
    check_floating("linalg.cholesky_ex", x)
    return leading_minors(x)


def cholesky_backward(ops: Any, g: Any, out: Any) -> Any:
    """The symmetric part of L ** -H @ phi(L.mH @ g) @ L ** -1."""
    inner = tril_half_diagonal(ops, ops.matmul(conj_transpose(out), g))
    inner = ops._solve(conj_transpose(out), inner + conj_transpose(inner))
    return solve_right(ops, inner, out) * 0.5


_linalg_cholesky.pullback(x=cholesky_backward)


@composite(method=False, function=False, autocast="full")
def linalg_cholesky(ops, A, *, upper=False):
    """The Cholesky factor of Hermitian positive-definite matrices: A = L @ L.mH.

    Parameters
    ----------
    A : Tensor
        `(..., n, n)`, float32, float64 or complex, of which only one triangle is read.
    upper : bool, optional
        Whether U with A = U.mH @ U is returned.

    Returns
    -------
    Tensor
        L, a lower triangle, or U.

    Raises
    ------
    LinAlgError
        A matrix is not positive-definite.

    See Also
    --------
    cholesky_ex, eigh, solve

    Examples
    --------
    >>> st.linalg.cholesky(st.tensor([[4., 2.], [2., 5.]]))
    tensor([[2., 0.],
            [1., 2.]])
    """
    check_square("linalg.cholesky", A)
    if upper:
        return conj_transpose(ops._linalg_cholesky(conj_transpose(A)))
    return ops._linalg_cholesky(A)


@composite(method=False, function=False, autocast="full")
def linalg_cholesky_ex(ops, A, *, upper=False, check_errors=False):
    """The Cholesky factor of Hermitian matrices, with a number that says whether they have one.

    Parameters
    ----------
    A : Tensor
        `(..., n, n)`, float32, float64 or complex, of which only one triangle is read.
    upper : bool, optional
        Whether U with A = U.mH @ U is returned.
    check_errors : bool, optional
        Whether the error of `cholesky` is raised.

    Returns
    -------
    (L, info) : Tensor, Tensor
        `info` is int32: 0, or the order of the first leading minor that is not positive; then L is
        that of the identity.

    See Also
    --------
    cholesky

    Examples
    --------
    >>> st.linalg.cholesky_ex(st.tensor([[1., 0.], [0., -1.]])).info
    tensor(2, dtype=shmtensor.int32)
    """
    check_square("linalg.cholesky_ex", A)
    info = ops._linalg_leading_minors(conj_transpose(A) if upper else A)
    if check_errors or not host_array(info).any():
        out = ops.linalg_cholesky(A, upper=upper)
    else:
        one = eye(A.shape[-1], A.shape[-1], data_of(A).dtype, A)
        out = ops.linalg_cholesky(ops._where(as_1x1(ops, info > 0), one, A), upper=upper)
    return named_result("linalg_cholesky_ex", L=out, info=info)


# ---- QR


@of_matrices(
    outputs="Q R",
    samples=[(NEAR_ONE, "reduced"), (TALL, "reduced"), (TALL.T, "reduced"), (BATCH, "complete")],
)
def _linalg_qr(xp, x, /, mode):
    """x = Q @ R with orthonormal columns in Q and an upper triangle R."""
    check_floating("linalg.qr", x)
    q, r = xp.linalg.qr(x, mode)
    return q, r


def qr_backward(ops: Any, g_Q: Any, g_R: Any, x: Any, Q: Any, R: Any, mode: str) -> Any:
    """(g_Q + Q @ copyltu(R @ g_R.mH - g_Q.mH @ Q)) @ R ** -H; wide matrices by their left part."""
    m, n = x.shape[-2], x.shape[-1]
    if mode == "complete" and m > n:
        raise RuntimeError(
            f"linalg.qr: gradients in the mode 'complete' need as many columns as rows: {m} x {n}"
        )
    right_gradient = None
    if m < n:
        R_right, g_R_right = x[..., m:], g_R[..., m:]
        right_gradient = ops.matmul(Q, g_R_right)
        g_Q = g_Q + ops.matmul(R_right, conj_transpose(g_R_right))
        R, g_R = R[..., :m], g_R[..., :m]
    inner = ops.matmul(R, conj_transpose(g_R)) - ops.matmul(conj_transpose(g_Q), Q)
    low = tril_half_diagonal(ops, inner)
    out = solve_right(ops, g_Q + ops.matmul(Q, low + conj_transpose(low)), conj_transpose(R))
    return out if right_gradient is None else ops.cat([out, right_gradient], -1)


_linalg_qr.pullback(x=qr_backward)


@composite(method=False, function=False, autocast="full")
def linalg_qr(ops, A, mode="reduced"):
    """The QR decomposition of matrices: A = Q @ R.

    Parameters
    ----------
    A : Tensor
        `(..., m, n)`, float32, float64 or complex; k is the smaller of m and n.
    mode : str, optional
        "reduced": Q `(..., m, k)`, R `(..., k, n)`; "complete": Q `(..., m, m)`, R `(..., m, n)`;
        "r": only R, and Q is empty.

    Returns
    -------
    (Q, R) : Tensor, Tensor
        Orthonormal columns and an upper triangle.

    Raises
    ------
    RuntimeError
        There is no such mode.

    See Also
    --------
    householder_product, svd

    Notes
    -----
    "r" has no gradients, "complete" none if there are more rows than columns.

    Examples
    --------
    >>> A = st.tensor([[3., 1.], [4., 2.]])
    >>> Q, R = st.linalg.qr(A)
    >>> st.allclose(Q @ R, A, atol=1e-5)
    True
    """
    if mode not in ("reduced", "complete", "r"):
        raise RuntimeError(
            f"linalg.qr: qr received unrecognized mode {mode!r}, one of reduced, complete, r"
        )
    check_floating("linalg.qr", A)
    if mode == "r":
        if getattr(A, "requires_grad", False):
            raise RuntimeError(
                "linalg.qr: the derivative is not implemented when mode='r': use mode='reduced'"
            )
        empty = zeros(ops, (0,), A.dtype, A)
        return named_result("linalg_qr", Q=empty, R=ops._linalg_qr(A, "reduced")[1])
    q, r = ops._linalg_qr(A, mode)
    return named_result("linalg_qr", Q=q, R=r)


# ---- Householder reflectors


@of_matrices(outputs="a tau", samples=[(NEAR_ONE,), (TALL,), (TALL.T,), (BATCH,)])
def _linalg_geqrf(xp, x, /):
    """R above the diagonal, Householder reflectors below it, and their factors."""
    check_floating("geqrf", x)
    a, tau = np.linalg.qr(x, "raw")
    return np.ascontiguousarray(a.swapaxes(-1, -2)), tau


@composite(method=False, function=False)
def linalg_geqrf(ops, input):
    """(a, tau): R above the diagonal, Q's reflectors below it (LAPACK's geqrf); no gradient."""
    check_floating("geqrf", input)
    a, tau = ops._linalg_geqrf(constant(data_of(input), input))
    return named_result("geqrf", a=a, tau=tau)


def reflectors(ops: Any, A: Any, k: int) -> list[Any]:
    """The vectors of k reflectors as matrices of one column: below the diagonal of A, 1 on it."""
    m, n = A.shape[-2], A.shape[-1]
    low = ops.add(ops.tril(A, -1), eye(m, n, A.dtype, A))
    return [ops.narrow(low, -1, i, 1) for i in range(k)]


def reflect(ops: Any, vectors: list[Any], tau: Any, x: Any, adjoint: bool) -> Any:
    """The product of the reflectors (or its adjoint), times x."""
    order = range(len(vectors)) if adjoint else reversed(range(len(vectors)))
    for i in order:
        t = ops.select(tau, -1, i)
        t = as_1x1(ops, t.conjugate() if adjoint else t)
        x = x - ops.matmul(t * vectors[i], ops.matmul(conj_transpose(vectors[i]), x))
    return x


@composite(method=False, function=False, autocast="full")
def linalg_householder_product(ops, A, tau):
    """The first columns of the product of Householder reflectors.

    Parameters
    ----------
    A : Tensor
        `(..., m, n)`: the reflectors below the diagonal, as `geqrf` returns them.
    tau : Tensor
        `(..., k)`: their factors, k at most n.

    Returns
    -------
    Tensor
        `(..., m, n)`, with orthonormal columns.

    Raises
    ------
    RuntimeError
        The sizes or dtypes do not fit.

    See Also
    --------
    geqrf, qr

    Examples
    --------
    >>> st.linalg.householder_product(st.zeros(2, 2), st.zeros(2))
    tensor([[1., 0.],
            [0., 1.]])
    """
    check_floating("linalg.householder_product", A)
    m, n, k = A.shape[-2], A.shape[-1], tau.shape[-1]
    if m < n or n < k:
        raise RuntimeError(
            "linalg.householder_product: sizes must not grow from A's rows to its columns to tau: "
            f"{tuple(A.shape)}, {tuple(tau.shape)}"
        )
    if tuple(tau.shape[:-1]) != tuple(A.shape[:-2]) or tau.dtype != A.dtype:
        raise RuntimeError(
            "linalg.householder_product: A and tau must have the same batch and dtype: "
            f"{tuple(A.shape)} {A.dtype.name}, {tuple(tau.shape)} {tau.dtype.name}"
        )
    one = ops.broadcast_to(
        ops._to_copy(eye(m, n, A.dtype, A), A.dtype), (*tuple(A.shape[:-2]), m, n)
    )
    if not k:
        return ops.add(ops.mul(A, 0), one)
    return reflect(ops, reflectors(ops, A, k), tau, one, False)


@composite(method=False, function=False)
def linalg_ormqr(ops, input, tau, other, left=True, transpose=False):
    """Q @ other (or other @ Q) for the square Q of `geqrf`; transpose: with its adjoint."""
    check_floating("ormqr", input)
    check_floating("ormqr", other)
    vectors, k = reflectors(ops, input, tau.shape[-1]), input.shape[-2]
    if other.shape[-2 if left else -1] != k or tau.shape[-1] > input.shape[-1]:
        raise RuntimeError(
            f"ormqr: sizes differ: input {tuple(input.shape)}, tau {tuple(tau.shape)}, other "
            f"{tuple(other.shape)}"
        )
    if left:
        return reflect(ops, vectors, tau, other, transpose)
    return conj_transpose(reflect(ops, vectors, tau, conj_transpose(other), not transpose))
