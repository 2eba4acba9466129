"""Linear algebra under its names in `shmtensor` and Tensor. The rows are in the families of
`linalg`, which are declared on first use (ops/__init__.py).
"""

from __future__ import annotations

import numpy as np

from ..table.named_results import named_result
from ..table.op_table import composite
from ..table.sizes import check_size


@composite(autocast="full")
def cholesky(ops, input, upper=False):
    """The Cholesky factor of Hermitian positive-definite matrices: `linalg.cholesky`."""
    return ops.linalg_cholesky(input, upper=upper)


@composite(autocast="full")
def cholesky_inverse(ops, L, upper=False):
    """The inverse of L @ L.mH (upper: L.mH @ L), of which L's one triangle is read."""
    return ops.linalg_cholesky_inverse(L, upper)


@composite(autocast="full")
def cholesky_solve(ops, B, L, upper=False):
    """X with L @ L.mH @ X = B (upper: L.mH @ L @ X = B)."""
    return ops.linalg_cholesky_solve(B, L, upper)


@composite(autocast="full")
def geqrf(ops, input):
    """(a, tau): R above the diagonal and the reflectors of Q below it; no gradients."""
    return ops.linalg_geqrf(input)


@composite
def lu(ops, A, pivot=True, get_infos=False):
    """(LU, pivots), and with get_infos the first zero of U's diagonal: `linalg.lu_factor`."""
    out = ops.linalg_lu_factor_ex(A, pivot=pivot)
    return tuple(out) if get_infos else tuple(out[:2])


@composite(autocast="full")
def lu_solve(ops, b, LU_data, LU_pivots):
    """X with A @ X = b for the A that `lu` factorized."""
    return ops.linalg_lu_solve(LU_data, LU_pivots, b)


@composite(method=False)
def lu_unpack(ops, LU_data, LU_pivots, unpack_data=True, unpack_pivots=True):
    """(P, L, U) from the results of `lu`; those that are not unpacked are empty."""
    return ops.linalg_lu_unpacked(LU_data, LU_pivots, unpack_data, unpack_pivots)


@composite(autocast="full")
def orgqr(ops, input, tau):
    """The first columns of Q from its reflectors: `linalg.householder_product`."""
    return ops.linalg_householder_product(input, tau)


@composite(autocast="full")
def ormqr(ops, input, tau, other, left=True, transpose=False):
    """Q @ other (left=False: other @ Q) for the Q of `geqrf`; transpose: with its adjoint."""
    return ops.linalg_ormqr(input, tau, other, left, transpose)


@composite(autocast="full")
def qr(ops, input, some=True):
    """input = Q @ R; some=False: square Q. `linalg.qr`."""
    q, r = ops.linalg_qr(input, "reduced" if some else "complete")
    return named_result("qr", Q=q, R=r)


@composite(method=False)
def svd_lowrank(ops, A, q=6, niter=2, M=None):
    """(U, S, V) of the q largest singular values of A - M; exact, niter has no effect."""
    return ops.linalg_svd_lowrank(A, q, niter, M)


@composite(method=False)
def pca_lowrank(ops, A, q=None, center=True, niter=2):
    """(U, S, V): the principal components of the rows of A; exact, niter has no effect."""
    return ops.linalg_pca_lowrank(A, q, center, niter)


@composite(method=False)
def vander(ops, x, N=None, increasing=False):
    """The powers of the numbers of a vector (n,): (n, N), by default N = n.

    Args:
        increasing: from 0 to N - 1; otherwise from N - 1 to 0, as in NumPy.

    Raises:
        RuntimeError: x is not a vector, or N is negative.
    """
    if x.ndim != 1:
        raise RuntimeError(f"vander: x must be a vector: {tuple(x.shape)}")
    n = x.shape[0] if N is None else N
    if n < 0:
        raise RuntimeError(f"vander: N must not be negative: {n}")
    check_size("vander", (x.shape[0], n))
    if n < 2:
        out = ops.unsqueeze(ops.ones_like(x), 1)[:, :n]
        return out if x.dtype.kind in "fc" else ops._to_copy(out, np.dtype(np.int64))
    out = ops.linalg_vander(x, n)
    return out if increasing else ops.flip(out, (1,))
