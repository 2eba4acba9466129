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
    """The Cholesky factor of Hermitian positive-definite matrices: input = L @ L.mH.

    Parameters
    ----------
    input : Tensor
        `(..., n, n)`, of which only one triangle is read.
    upper : bool, optional
        Whether U with input = U.mH @ U is returned.

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
    linalg.cholesky, cholesky_solve

    Examples
    --------
    >>> st.cholesky(st.tensor([[4., 2.], [2., 5.]]))
    tensor([[2., 0.],
            [1., 2.]])
    """
    return ops.linalg_cholesky(input, upper=upper)


@composite(autocast="full")
def cholesky_inverse(ops, L, upper=False):
    """The inverse of matrices from their Cholesky factor.

    Parameters
    ----------
    L : Tensor
        `(..., n, n)`: the factor, of which one triangle is read.
    upper : bool, optional
        Whether it is the upper factor.

    Returns
    -------
    Tensor
        The inverse of L @ L.mH, or of L.mH @ L if `upper`.

    See Also
    --------
    cholesky, cholesky_solve

    Examples
    --------
    >>> st.cholesky_inverse(st.tensor([[2., 0.], [0., 1.]]))
    tensor([[0.2500, 0.0000],
            [0.0000, 1.0000]])
    """
    return ops.linalg_cholesky_inverse(L, upper)


@composite(autocast="full")
def cholesky_solve(ops, B, L, upper=False):
    """The solution of equations from the Cholesky factor of their matrix.

    Parameters
    ----------
    B : Tensor
        `(..., n, k)`: the right-hand sides.
    L : Tensor
        `(..., n, n)`: the factor, of which one triangle is read.
    upper : bool, optional
        Whether it is the upper factor.

    Returns
    -------
    Tensor
        X `(..., n, k)` with L @ L.mH @ X = B, or L.mH @ L @ X = B if `upper`.

    See Also
    --------
    cholesky, linalg.solve

    Examples
    --------
    >>> st.cholesky_solve(st.tensor([[8.], [3.]]), st.tensor([[2., 0.], [0., 1.]]))
    tensor([[2.],
            [3.]])
    """
    return ops.linalg_cholesky_solve(B, L, upper)


@composite(autocast="full")
def geqrf(ops, input):
    """The QR decomposition in LAPACK's packed form.

    Parameters
    ----------
    input : Tensor
        `(..., m, n)`, float32, float64 or complex.

    Returns
    -------
    (a, tau) : Tensor, Tensor
        R on and above the diagonal of `a`, the Householder reflectors of Q below it, and their
        factors `tau`, `(..., min(m, n))`.

    See Also
    --------
    orgqr, ormqr, linalg.qr

    Notes
    -----
    No gradients.

    Examples
    --------
    >>> a, tau = st.geqrf(st.tensor([[3., 1.], [4., 2.]]))
    >>> a.shape, tau.shape
    (Size([2, 2]), Size([2]))
    """
    return ops.linalg_geqrf(input)


@composite
def lu(ops, A, pivot=True, get_infos=False):
    """The LU decomposition of matrices in packed form.

    Parameters
    ----------
    A : Tensor
        `(..., m, n)`, float32, float64 or complex.
    pivot : bool, optional
        Only True on the CPU: rows are exchanged.
    get_infos : bool, optional
        Whether the position of the first zero of U's diagonal is returned, too.

    Returns
    -------
    tuple of Tensor
        `(LU, pivots)`: L below the diagonal, U on and above it, and the row exchanges, int32 and
        counted from 1. With `get_infos` a third tensor, 0 if there is no zero.

    See Also
    --------
    linalg.lu_factor, lu_solve, lu_unpack

    Examples
    --------
    >>> LU, pivots = st.lu(st.tensor([[1., 2.], [2., 0.]]))
    >>> LU, pivots
    (tensor([[2.0000, 0.0000],
            [0.5000, 2.0000]]), tensor([2, 2], dtype=shmtensor.int32))
    """
    out = ops.linalg_lu_factor_ex(A, pivot=pivot)
    return tuple(out) if get_infos else tuple(out[:2])


@composite(autocast="full")
def lu_solve(ops, b, LU_data, LU_pivots):
    """The solution of equations from the LU decomposition of their matrix.

    Parameters
    ----------
    b : Tensor
        `(..., n, k)`: the right-hand sides.
    LU_data, LU_pivots : Tensor
        What `lu` returned.

    Returns
    -------
    Tensor
        X `(..., n, k)` with A @ X = b.

    See Also
    --------
    lu, linalg.lu_solve

    Examples
    --------
    >>> A = st.tensor([[1., 2.], [2., 0.]])
    >>> st.lu_solve(st.tensor([[5.], [2.]]), *st.lu(A))
    tensor([[1.],
            [2.]])
    """
    return ops.linalg_lu_solve(LU_data, LU_pivots, b)


@composite(method=False)
def lu_unpack(ops, LU_data, LU_pivots, unpack_data=True, unpack_pivots=True):
    """The factors of matrices from their packed LU decomposition: A = P @ L @ U.

    Parameters
    ----------
    LU_data, LU_pivots : Tensor
        What `lu` returned.
    unpack_data : bool, optional
        False: L and U are empty.
    unpack_pivots : bool, optional
        False: P is empty.

    Returns
    -------
    (P, L, U) : Tensor, Tensor, Tensor
        A permutation, a lower triangle with ones on its diagonal, and an upper triangle.

    See Also
    --------
    lu, linalg.lu

    Examples
    --------
    >>> P, L, U = st.lu_unpack(*st.lu(st.tensor([[1., 2.], [2., 0.]])))
    >>> P @ L @ U
    tensor([[1., 2.],
            [2., 0.]])
    """
    return ops.linalg_lu_unpacked(LU_data, LU_pivots, unpack_data, unpack_pivots)


@composite(autocast="full")
def orgqr(ops, input, tau):
    """The first columns of Q from its Householder reflectors.

    Parameters
    ----------
    input : Tensor
        `(..., m, n)`: `a` of `geqrf`.
    tau : Tensor
        `(..., k)`: the factors of the reflectors.

    Returns
    -------
    Tensor
        `(..., m, n)`.

    See Also
    --------
    geqrf, linalg.householder_product

    Examples
    --------
    >>> A = st.tensor([[3., 1.], [4., 2.]])
    >>> a, tau = st.geqrf(A)
    >>> st.allclose(st.orgqr(a, tau) @ st.triu(a), A, atol=1e-5)
    True
    """
    return ops.linalg_householder_product(input, tau)


@composite(autocast="full")
def ormqr(ops, input, tau, other, left=True, transpose=False):
    """The product of Q, given by its Householder reflectors, and a matrix.

    Parameters
    ----------
    input : Tensor
        `(..., m, n)`: `a` of `geqrf`.
    tau : Tensor
        `(..., k)`: the factors of the reflectors.
    other : Tensor
        The matrix.
    left : bool, optional
        False gives other @ Q.
    transpose : bool, optional
        Whether the adjoint of Q is the factor.

    Returns
    -------
    Tensor
        Q @ other for the square Q.

    Raises
    ------
    RuntimeError
        The sizes do not fit.

    See Also
    --------
    geqrf, orgqr

    Examples
    --------
    >>> a, tau = st.geqrf(st.tensor([[3., 1.], [4., 2.]]))
    >>> other = st.eye(2)
    >>> back = st.ormqr(a, tau, st.ormqr(a, tau, other), transpose=True)
    >>> st.allclose(back, other, atol=1e-5)
    True
    """
    return ops.linalg_ormqr(input, tau, other, left, transpose)


@composite(autocast="full")
def qr(ops, input, some=True):
    """The QR decomposition of matrices: input = Q @ R.

    Parameters
    ----------
    input : Tensor
        `(..., m, n)`, float32, float64 or complex.
    some : bool, optional
        False gives a square Q.

    Returns
    -------
    (Q, R) : Tensor, Tensor
        Orthonormal columns and an upper triangle.

    See Also
    --------
    linalg.qr

    Examples
    --------
    >>> A = st.tensor([[3., 1.], [4., 2.]])
    >>> Q, R = st.qr(A)
    >>> st.allclose(Q @ R, A, atol=1e-5)
    True
    """
    q, r = ops.linalg_qr(input, "reduced" if some else "complete")
    return named_result("qr", Q=q, R=r)


@composite(method=False)
def svd_lowrank(ops, A, q=6, niter=2, M=None):
    """The largest singular values of matrices, with their vectors.

    Parameters
    ----------
    A : Tensor
        `(..., m, n)`.
    q : int, optional
        How many; at most min(m, n) are returned.
    niter : int, optional
        Accepted; has no effect: the result is exact.
    M : Tensor, optional
        Subtracted from A first.

    Returns
    -------
    (U, S, V) : Tensor, Tensor, Tensor
        `(..., m, q)`, `(..., q)` and `(..., n, q)`.

    Raises
    ------
    ValueError
        q is negative.

    See Also
    --------
    linalg.svd, pca_lowrank

    Examples
    --------
    >>> U, S, V = st.svd_lowrank(st.diag(st.tensor([3., 2., 1.])), q=2)
    >>> S.round()
    tensor([3., 2.])
    """
    return ops.linalg_svd_lowrank(A, q, niter, M)


@composite(method=False)
def pca_lowrank(ops, A, q=None, center=True, niter=2):
    """The principal components of the rows of matrices.

    Parameters
    ----------
    A : Tensor
        `(..., m, n)`: a sample in each row.
    q : int, optional
        How many components; by default min(6, m, n).
    center : bool, optional
        Whether the mean of each column is subtracted first.
    niter : int, optional
        Accepted; has no effect: the result is exact.

    Returns
    -------
    (U, S, V) : Tensor, Tensor, Tensor
        `(..., m, q)`, `(..., q)` and `(..., n, q)`: the components are the columns of V.

    Raises
    ------
    ValueError
        q is negative or larger than min(m, n).

    See Also
    --------
    svd_lowrank, cov

    Examples
    --------
    >>> U, S, V = st.pca_lowrank(st.tensor([[1., 0.], [3., 0.]]), q=1)
    >>> V.abs().round()
    tensor([[1.],
            [0.]])
    """
    return ops.linalg_pca_lowrank(A, q, center, niter)


@composite(method=False)
def vander(ops, x, N=None, increasing=False):
    """The powers of the numbers of a vector, as the rows of a matrix.

    Parameters
    ----------
    x : Tensor
        `(n,)`.
    N : int, optional
        How many powers; by default n.
    increasing : bool, optional
        Whether they go from 0 to N - 1; otherwise from N - 1 to 0, as in NumPy.

    Returns
    -------
    Tensor
        `(n, N)`.

    Raises
    ------
    RuntimeError
        x is not a vector, or N is negative.

    See Also
    --------
    linalg.vander

    Examples
    --------
    >>> st.vander(st.tensor([2, 3]), 3)
    tensor([[4, 2, 1],
            [9, 3, 1]])
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
