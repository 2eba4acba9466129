"""Eigenvalues and singular vectors. Batched.

Sources of the gradients: Hermitian matrices Giles (2008), general ones Boeddeker et al. (2017),
both for vectors of length 1 of whatever phase; singular values: inverse_det_matrix_exp.py.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..table.constants import eye
from ..table.named_results import named_result
from ..table.op_table import composite
from .inverse_det_matrix_exp import (
    BATCH,
    NEAR_ONE,
    call_numpy,
    check_floating,
    check_square,
    conj_transpose,
    of_matrices,
    svd_backward,
)

SYMMETRIC = NEAR_ONE + NEAR_ONE.T
REAL = np.diag([1.0, 2.5, -1.5]) + 0.1 * np.arange(9.0).reshape(3, 3)


@of_matrices(
    outputs="values vectors",
    samples=[(SYMMETRIC, "L"), (SYMMETRIC, "U"), (BATCH + BATCH.swapaxes(1, 2), "L")],
)
def _linalg_eigh(xp, x, /, UPLO):
    """Ascending eigenvalues, and eigenvectors, of Hermitian matrices; one triangle is read."""
    check_square("linalg.eigh", x)
    return tuple(call_numpy("linalg.eigh", lambda a: xp.linalg.eigh(a, UPLO), x))


def gaps(ops: Any, values: Any) -> Any:
    """values[j] - values[i], and 1 on the diagonal."""
    wide = ops.unsqueeze(values, -2) - ops.unsqueeze(values, -1)
    n = values.shape[-1]
    return ops._where_other(eye(n, n, bool, values), wide, 1.0)


def eigh_backward(ops: Any, g_values: Any, g_vectors: Any, values: Any, vectors: Any) -> Any:
    """V (diag(g of values) + skew(V.mH g) / gaps) V.mH."""
    inner = ops.matmul(conj_transpose(vectors), g_vectors)
    inner = (inner - conj_transpose(inner)) * 0.5
    diagonal = eye(values.shape[-1], values.shape[-1], bool, values)
    inner = ops._where_other(diagonal, inner / gaps(ops, values), 0.0) + ops.diag_embed(g_values)
    return ops.matmul(ops.matmul(vectors, inner), conj_transpose(vectors))


_linalg_eigh.pullback(x=eigh_backward)


def triangle_of(UPLO: Any) -> str:
    """ "L" or "U"."""
    if not isinstance(UPLO, str) or UPLO.upper() not in ("L", "U"):
        raise RuntimeError(
            f"linalg.eigh: Expected UPLO argument to be 'L' or 'U', but got {UPLO!r}"
        )
    return UPLO.upper()


@composite(method=False, function=False, autocast="full")
def linalg_eigh(ops, A, UPLO="L"):
    """The eigenvalues and eigenvectors of Hermitian matrices.

    Parameters
    ----------
    A : Tensor
        `(..., n, n)`, float32, float64 or complex.
    UPLO : str, optional
        Which triangle is read, "L" or "U".

    Returns
    -------
    (eigenvalues, eigenvectors) : Tensor, Tensor
        Real and ascending, `(..., n)`; the columns of `(..., n, n)`.

    Raises
    ------
    RuntimeError
        UPLO is something else.

    See Also
    --------
    eigvalsh, eig, svd

    Notes
    -----
    Eigenvectors are unique only up to a factor of modulus 1. Their gradients have no limit where
    eigenvalues coincide.

    Examples
    --------
    >>> A = st.tensor([[3., 0.], [0., 1.]])
    >>> st.linalg.eigh(A).eigenvalues.round()
    tensor([1., 3.])
    """
    values, vectors = ops._linalg_eigh(A, triangle_of(UPLO))
    return named_result("linalg_eigh", eigenvalues=values, eigenvectors=vectors)


@composite(method=False, function=False, autocast="full")
def linalg_eigvalsh(ops, A, UPLO="L"):
    """The eigenvalues of Hermitian matrices.

    Parameters
    ----------
    A : Tensor
        `(..., n, n)`, float32, float64 or complex.
    UPLO : str, optional
        Which triangle is read, "L" or "U".

    Returns
    -------
    Tensor
        Real and ascending, `(..., n)`.

    See Also
    --------
    eigh, eigvals

    Examples
    --------
    >>> st.linalg.eigvalsh(st.tensor([[3., 0.], [0., 1.]])).round()
    tensor([1., 3.])
    """
    return ops._linalg_eigh(A, triangle_of(UPLO))[0]


@of_matrices(outputs="values vectors", samples=[(REAL,), (np.stack([REAL, REAL.T + np.eye(3)]),)])
def _linalg_eig(xp, x, /):
    """Eigenvalues and eigenvectors, always complex."""
    check_square("linalg.eig", x)
    if not xp.isfinite(x).all():
        raise RuntimeError(
            "linalg.eig: input tensor should not contain infs or NaNs: shape " + str(x.shape)
        )
    wide = np.complex64 if x.dtype in (np.float32, np.complex64) else np.complex128
    values, vectors = call_numpy("linalg.eig", xp.linalg.eig, x)
    return values.astype(wide), vectors.astype(wide)


def eig_backward(ops: Any, g_values: Any, g_vectors: Any, values: Any, vectors: Any) -> Any:
    """V ** -H (diag(g of values) + (V.mH g - V.mH V diag(Re(V.mH g))) / gaps*) V.mH."""
    adjoint = conj_transpose(vectors)
    inner = ops.matmul(adjoint, g_vectors)
    real = ops.real(ops.diagonal(inner, 0, -2, -1))
    inner = inner - ops.matmul(adjoint, vectors * ops.unsqueeze(real, -2))
    diagonal = eye(values.shape[-1], values.shape[-1], bool, values)
    inner = ops._where_other(diagonal, inner / gaps(ops, values).conjugate(), 0.0)
    return ops._solve(adjoint, ops.matmul(inner + ops.diag_embed(g_values), adjoint))


_linalg_eig.pullback(x=eig_backward)


@composite(method=False, function=False, autocast="full")
def linalg_eig(ops, A):
    """The eigenvalues and eigenvectors of square matrices: A @ v = value * v.

    Parameters
    ----------
    A : Tensor
        `(..., n, n)`, float32, float64 or complex.

    Returns
    -------
    (eigenvalues, eigenvectors) : Tensor, Tensor
        Complex, in no order: `(..., n)`, and the columns of `(..., n, n)`.

    Raises
    ------
    RuntimeError
        An element is infinite or NaN.

    See Also
    --------
    eigvals, eigh

    Notes
    -----
    Eigenvectors are unique only up to a factor of modulus 1. Their gradients have no limit where
    eigenvalues coincide.

    Examples
    --------
    >>> A = st.tensor([[2., 0.], [0., 3.]])
    >>> values, vectors = st.linalg.eig(A)
    >>> st.allclose((A + 0j) @ vectors, values * vectors, atol=1e-5)
    True
    """
    values, vectors = ops._linalg_eig(A)
    return named_result("linalg_eig", eigenvalues=values, eigenvectors=vectors)


@composite(method=False, function=False, autocast="full")
def linalg_eigvals(ops, A):
    """The eigenvalues of square matrices.

    Parameters
    ----------
    A : Tensor
        `(..., n, n)`, float32, float64 or complex.

    Returns
    -------
    Tensor
        Complex, `(..., n)`, in no order.

    Raises
    ------
    RuntimeError
        An element is infinite or NaN.

    See Also
    --------
    eig, eigvalsh

    Examples
    --------
    >>> st.linalg.eigvals(st.tensor([[2., 0.], [0., 3.]])).real.round()
    tensor([2., 3.])
    """
    return ops._linalg_eig(A)[0]


# ---- singular vectors


@of_matrices(outputs="u s vh", samples=[(NEAR_ONE,), (BATCH,)])
def _linalg_svd(xp, x, /):
    """x = u @ diag(s) @ vh with square u and vh."""
    check_floating("linalg.svd", x)
    return tuple(call_numpy("linalg.svd", lambda a: xp.linalg.svd(a, full_matrices=True), x))


def full_backward(ops: Any, g_u: Any, g_s: Any, g_vh: Any, u: Any, s: Any, vh: Any) -> Any:
    """The gradient of the columns that belong to singular values; the others have none."""
    k = s.shape[-1]
    return svd_backward(
        ops, g_u[..., :k], g_s, g_vh[..., :k, :], u[..., :k], s, vh[..., :k, :]
    )  # fmt: skip


_linalg_svd.pullback(x=full_backward)


@composite(method=False, function=False, autocast="full")
def linalg_svd(ops, A, full_matrices=True, *, driver=None):
    """The singular value decomposition of matrices: A = U @ diag(S) @ Vh.

    Parameters
    ----------
    A : Tensor
        `(..., m, n)`, float32, float64 or complex; k is the smaller of m and n.
    full_matrices : bool, optional
        Whether U and Vh are square; False: `(..., m, k)` and `(..., k, n)`.
    driver : None, optional
        Only None on the CPU.

    Returns
    -------
    (U, S, Vh) : Tensor, Tensor, Tensor
        S is real and descending, `(..., k)`.

    Raises
    ------
    RuntimeError
        A driver is given.

    See Also
    --------
    svdvals, pinv, eigh

    Notes
    -----
    Only the first k columns of U and rows of Vh have gradients; they have no limit where singular
    values coincide.

    Examples
    --------
    >>> A = st.tensor([[3., 0., 0.], [0., 2., 0.]])
    >>> U, S, Vh = st.linalg.svd(A, full_matrices=False)
    >>> S.round(), Vh.shape
    (tensor([3., 2.]), Size([2, 3]))
    """
    if driver is not None:
        raise RuntimeError(f"linalg.svd: driver= is only supported on CUDA: {driver!r}")
    check_floating("linalg.svd", A)
    needs_square = full_matrices and A.shape[-2] != A.shape[-1]
    u, s, vh = ops._linalg_svd(A) if needs_square else ops._svd(A)
    return named_result("linalg_svd", U=u, S=s, Vh=vh)


@composite(method=False, function=False, autocast="full")
def linalg_svdvals(ops, A, *, driver=None):
    """The singular values of matrices.

    Parameters
    ----------
    A : Tensor
        `(..., m, n)`, float32, float64 or complex.
    driver : str, optional
        Accepted; has no effect.

    Returns
    -------
    Tensor
        Real and descending, `(..., min(m, n))`.

    See Also
    --------
    svd, matrix_norm

    Notes
    -----
    The gradients are right even if singular values coincide.

    Examples
    --------
    >>> st.linalg.svdvals(st.tensor([[0., 2.], [3., 0.]])).round()
    tensor([3., 2.])
    """
    check_floating("linalg.svdvals", A)
    return ops._svdvals(A)


def lowrank_values(ops: Any, name: str, x: Any, q: int, centred: bool) -> Any:
    """The q largest singular values with their vectors, exactly (PyTorch approximates)."""
    m, n = x.shape[-2], x.shape[-1]
    if not 0 <= q <= min(m, n):
        raise ValueError(f"{name}: q must be non-negative and at most min(m, n) = {min(m, n)}: {q}")
    if centred:
        x = x - ops.mean(x, -2, True)
    u, s, vh = ops._svd(x)
    return u[..., :q], s[..., :q], conj_transpose(vh)[..., :q]


@composite(method=False, function=False)
def linalg_svd_lowrank(ops, A, q=6, niter=2, M=None):
    """(U, S, V) of the q largest singular values of A - M, 6 or all by default."""
    if niter < 0:
        raise ValueError(f"svd_lowrank: niter must not be negative: {niter}")
    q = min(6 if q is None else q, A.shape[-2], A.shape[-1])
    return lowrank_values(ops, "svd_lowrank", A if M is None else A - M, q, False)


@composite(method=False, function=False)
def linalg_pca_lowrank(ops, A, q=None, center=True, niter=2):
    """(U, S, V): the q principal components of the rows of A (..., m, n), by default 6 at most."""
    q = min(6, A.shape[-2], A.shape[-1]) if q is None else q
    return lowrank_values(ops, "pca_lowrank", A, q, center)
