"""Systems of equations, inverses, least squares, ranks: `torch.linalg` by name. Batched."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ... import errors
from ..table.constants import array_module, at_operands, constant, data_of, eye, filled, host_array
from ..table.named_results import named_result
from ..table.op_table import composite, op
from .inverse_det_matrix_exp import (
    BATCH,
    TALL,
    call_numpy,
    check_floating,
    check_square,
    conj_transpose,
    pinverse_backward,
)


def check_system(name: str, A: Any, B: Any, left: bool = True) -> None:
    """Raises RuntimeError unless B has a row (or a column) for each of A's, and its dtype."""
    check_square(name, A)
    check_floating(name, B)
    if A.dtype != B.dtype:
        raise RuntimeError(
            f"{name}: Expected A and B to have the same dtype, but got {A.dtype.name} and "
            f"{B.dtype.name}"
        )
    if A.shape[-1] != B.shape[-2 if left else -1]:
        raise RuntimeError(
            f"{name}: Incompatible shapes of A and B: {tuple(A.shape)}, {tuple(B.shape)}"
        )
    try:
        np.broadcast_shapes(tuple(A.shape[:-2]), tuple(B.shape[:-2]))
    except ValueError:
        raise RuntimeError(
            f"{name}: the batch dimensions of A and B do not broadcast: {tuple(A.shape)}, "
            f"{tuple(B.shape)}"
        ) from None


@composite(method=False, function=False, autocast="full")
def linalg_inv(ops, A):
    """The inverse of square matrices.

    Parameters
    ----------
    A : Tensor
        `(..., n, n)`, float32, float64 or complex.

    Returns
    -------
    Tensor
        Of the same shape.

    Raises
    ------
    LinAlgError
        A matrix is singular.

    See Also
    --------
    inv_ex, solve, pinv

    Notes
    -----
    `solve(A, B)` is faster and more precise than `inv(A) @ B`.

    Examples
    --------
    >>> st.linalg.inv(st.tensor([[2., 0.], [0., 4.]]))
    tensor([[0.5000, 0.0000],
            [0.0000, 0.2500]])
    """
    check_square("linalg.inv", A)
    return ops.inverse(A)


def compute_nonsingular(ops: Any, A: Any, info: Any, compute: Any) -> Any:
    """Which matrices are singular (info > 0), and compute(A) with the identity in their place."""
    is_singular = ops.unsqueeze(ops.unsqueeze(ops._to_copy(info > 0, np.dtype(bool)), -1), -1)
    one = eye(A.shape[-1], A.shape[-1], data_of(A).dtype, A)
    return is_singular, compute(ops._where(is_singular, one, A))


def info_of(ops: Any, A: Any) -> Any:
    """The first position where U's diagonal of A = P @ L @ U is zero, or 0: int32."""
    return ops._linalg_lu_factor(constant(data_of(A), A))[2]


@composite(method=False, function=False, autocast="full")
def linalg_inv_ex(ops, A, *, check_errors=False):
    """The inverse of square matrices, with a number that says whether they are singular.

    Parameters
    ----------
    A : Tensor
        `(..., n, n)`, float32, float64 or complex.
    check_errors : bool, optional
        Whether a singular matrix raises the error of `inv`.

    Returns
    -------
    (inverse, info) : Tensor, Tensor
        A singular matrix has info > 0 and NaN for its inverse.

    See Also
    --------
    inv

    Examples
    --------
    >>> st.linalg.inv_ex(st.zeros(2, 2)).inverse
    tensor([[nan, nan],
            [nan, nan]])
    """
    check_square("linalg.inv", A)
    try:
        out, info = ops.inverse(A), filled(tuple(A.shape[:-2]), 0, np.int32, A)
    except errors.LinAlgError:
        if check_errors:
            raise
        info = info_of(ops, A)
        is_singular, out = compute_nonsingular(ops, A, info, ops.inverse)
        out = ops._where(is_singular, math.nan, out)
    return named_result("linalg_inv_ex", inverse=out, info=ops._to_copy(info, np.dtype(np.int32)))


def is_vector(A: Any, B: Any) -> bool:
    """Whether B is a batch of vectors, by PyTorch's rule."""
    return B.ndim == 1 or (A.ndim - 1 == B.ndim and tuple(B.shape) == tuple(A.shape[:-1]))


@composite(method=False, function=False, autocast="full")
def linalg_solve(ops, A, B, *, left=True):
    """The solution of systems of linear equations: A @ X = B.

    Parameters
    ----------
    A : Tensor
        `(..., n, n)`, float32, float64 or complex.
    B : Tensor
        `(..., n, k)`, or `(..., n)` if that is A's shape without the last size: vectors.
    left : bool, optional
        False solves X @ A = B.

    Returns
    -------
    Tensor
        X, of the shape of B.

    Raises
    ------
    LinAlgError
        A matrix is singular.

    See Also
    --------
    solve_ex, solve_triangular, lstsq, inv

    Examples
    --------
    >>> A, b = st.tensor([[2., 0.], [0., 4.]]), st.tensor([2., 8.])
    >>> st.linalg.solve(A, b)
    tensor([1., 2.])
    """
    if is_vector(A, B):
        if not left:
            raise RuntimeError(
                "linalg.solve: Vector broadcasting of B is not supported for left=False"
            )
        wide = ops.unsqueeze(B, -1)
        check_system("linalg.solve", A, wide)
        return ops.squeeze(ops._solve(A, wide), -1)
    check_system("linalg.solve", A, B, left)
    return (
        ops._solve(A, B)
        if left
        else conj_transpose(ops._solve(conj_transpose(A), conj_transpose(B)))
    )


@composite(method=False, function=False)
def linalg_solve_ex(ops, A, B, *, left=True, check_errors=False):
    """The solution of systems of linear equations, with a number that says whether they are
    singular.

    Parameters
    ----------
    A : Tensor
        `(..., n, n)`, float32, float64 or complex.
    B : Tensor
        As for `solve`.
    left : bool, optional
        False solves X @ A = B.
    check_errors : bool, optional
        Whether a singular matrix raises the error of `solve`.

    Returns
    -------
    (result, info) : Tensor, Tensor
        For a singular matrix info > 0 and the result is NaN.

    See Also
    --------
    solve

    Examples
    --------
    >>> st.linalg.solve_ex(st.zeros(1, 1), st.ones(1, 1))
    shmtensor.return_types.linalg_solve_ex(
    result=tensor([[nan]]),
    info=tensor(1, dtype=shmtensor.int32))
    """
    try:
        out, info = ops.linalg_solve(A, B, left=left), filled(tuple(A.shape[:-2]), 0, np.int32, A)
    except errors.LinAlgError:
        if check_errors:
            raise
        info = info_of(ops, A)
        is_singular, out = compute_nonsingular(
            ops, A, info, lambda a: ops.linalg_solve(a, B, left=left)
        )
        out = ops._where(
            ops.squeeze(is_singular, -1) if is_vector(A, B) else is_singular, math.nan, out
        )
    return named_result("linalg_solve_ex", result=out, info=ops._to_copy(info, np.dtype(np.int32)))


@composite(method=False, function=False)
def linalg_solve_triangular(ops, A, B, *, upper, left=True, unitriangular=False):
    """The solution of systems of linear equations with triangular matrices: A @ X = B.

    Parameters
    ----------
    A : Tensor
        `(..., n, n)`; the other triangle is not read.
    B : Tensor
        `(..., n, k)`.
    upper : bool
        Whether A is an upper triangle.
    left : bool, optional
        False solves X @ A = B.
    unitriangular : bool, optional
        Whether A's diagonal counts as ones.

    Returns
    -------
    Tensor
        X, of the shape of B.

    See Also
    --------
    solve

    Examples
    --------
    >>> A, B = st.tensor([[2., 1.], [0., 4.]]), st.tensor([[4.], [4.]])
    >>> st.linalg.solve_triangular(A, B, upper=True)
    tensor([[1.5000],
            [1.0000]])
    """
    check_system("linalg.solve_triangular", A, B, left)
    part = ops.triu(A) if upper else ops.tril(A)
    if unitriangular:
        triangle = ops.triu(A, 1) if upper else ops.tril(A, -1)
        part = ops.add(triangle, np.eye(A.shape[-1], dtype=data_of(A).dtype))
    return (
        ops._solve(part, B)
        if left
        else conj_transpose(ops._solve(conj_transpose(part), conj_transpose(B)))
    )


@composite(method=False, function=False)
def linalg_cholesky_solve(ops, B, L, upper=False):
    """X with A @ X = B for A = L @ L.mH (upper: L.mH @ L), of which L's one triangle is read."""
    check_system("cholesky_solve", L, B)
    if upper:
        L = ops.triu(L)
        return ops._solve(L, ops._solve(conj_transpose(L), B))
    L = ops.tril(L)
    return ops._solve(conj_transpose(L), ops._solve(L, B))


@composite(method=False, function=False)
def linalg_cholesky_inverse(ops, L, upper=False):
    """The inverse of L @ L.mH (upper: L.mH @ L), of which L's one triangle is read."""
    check_square("cholesky_inverse", L)
    inverse = ops.inverse(ops.triu(L) if upper else ops.tril(L))
    return (
        ops.matmul(inverse, conj_transpose(inverse))
        if upper
        else ops.matmul(conj_transpose(inverse), inverse)
    )


# ---- tolerances: which singular values count


@at_operands
def tolerances(name: str, x: Any, atol: Any, rtol: Any) -> tuple[Any, Any]:
    """(atol, rtol) as arrays; without both, rtol is the larger size times the dtype's epsilon."""
    for parameter, value in (("atol", atol), ("rtol", rtol)):
        if getattr(getattr(value, "dtype", None), "kind", "f") == "c":
            raise RuntimeError(f"{name}: {parameter} tensor of complex type is not supported")
    xp = array_module(x)
    absolute = None if atol is None else xp.asarray(atol, np.float64)
    if rtol is None:
        eps = np.finfo(x.dtype).eps * max(x.shape[-2:])
        positive = xp.zeros(()) if absolute is None else absolute
        ratio = xp.where(positive > 0, 0.0, eps)
    else:
        ratio = xp.asarray(rtol, np.float64)
    return xp.zeros(()) if absolute is None else absolute, ratio


def above_tolerance(xp: Any, s: Any, atol: Any, rtol: Any) -> Any:
    """Which of the singular values s (..., k) are larger than both tolerances."""
    largest = s.max(-1) if s.shape[-1] else s.sum(-1)
    return s > xp.maximum(xp.asarray(atol), xp.asarray(rtol) * largest)[..., None]


@at_operands
def rank_and_values(x: Any, atol: Any, rtol: Any, hermitian: bool) -> tuple[Any, Any]:
    """How many of the singular values of matrices exceed the tolerances (int64), and the values."""
    xp = array_module(x)
    if not x.size:
        s = xp.zeros((*x.shape[:-2], min(x.shape[-2:])), x.real.dtype)
    else:
        s = xp.abs(xp.linalg.eigvalsh(x)) if hermitian else xp.linalg.svd(x, compute_uv=False)
    return xp.asarray(above_tolerance(xp, s, atol, rtol).sum(-1), np.int64), s


@op(
    samples=[(TALL, 0.0, 1e-9, False), (TALL.T, 0.0, 1e-9, False), (BATCH, 0.0, 1e-9, False)],
    halves="checks",
)
def _linalg_pinv(xp, x, /, atol, rtol, hermitian):
    """The pseudo-inverse; singular values up to the tolerances count as 0."""
    check_floating("linalg.pinv", x)
    if hermitian:
        check_square("linalg.pinv", x)
        low = xp.tril(x, -1)
        x = low + low.conj().swapaxes(-1, -2) + x * xp.eye(x.shape[-1], dtype=x.dtype)
    if not x.size:
        return xp.zeros((*x.shape[:-2], x.shape[-1], x.shape[-2]), x.dtype)
    u, s, vh = call_numpy("linalg.pinv", lambda a: xp.linalg.svd(a, full_matrices=False), x)
    keep = above_tolerance(xp, s, atol, rtol)
    inverse_s = xp.where(keep, 1 / xp.where(keep, s, 1), 0).astype(s.dtype)
    return (vh.conj().swapaxes(-1, -2) * inverse_s[..., None, :]) @ u.conj().swapaxes(-1, -2)


_linalg_pinv.pullback(x=lambda ops, g, x, out: pinverse_backward(ops, g, x, out))


@composite(method=False, function=False)
def linalg_pinv(ops, A, rcond=None, hermitian=False, *, atol=None, rtol=None):
    """The pseudo-inverse of matrices (Moore and Penrose).

    Parameters
    ----------
    A : Tensor
        `(..., m, n)`, float32, float64 or complex.
    rcond : float, optional
        An old name of `rtol`.
    hermitian : bool, optional
        Whether the matrices are Hermitian; then only their lower triangle is read.
    atol, rtol : float, optional
        Singular values up to the larger of atol and rtol times the largest one count as 0; by
        default rtol is max(m, n) times the dtype's epsilon.

    Returns
    -------
    Tensor
        `(..., n, m)`.

    See Also
    --------
    lstsq, inv, svd

    Examples
    --------
    >>> st.linalg.pinv(st.tensor([[1., 0.], [0., 0.]])).abs().round()
    tensor([[1., 0.],
            [0., 0.]])
    """
    check_floating("linalg.pinv", A)
    if hermitian:
        check_square("linalg.pinv", A)
    a, r = tolerances("linalg.pinv", A, atol, rcond if rtol is None else rtol)
    return ops._linalg_pinv(A, a, r, hermitian)


@composite(method=False, function=False, autocast="full")
def linalg_matrix_rank(ops, A, tol=None, hermitian=False, *, atol=None, rtol=None):
    """The rank of matrices: how many singular values exceed a tolerance.

    Parameters
    ----------
    A : Tensor
        `(..., m, n)`, float32, float64 or complex.
    tol : float, optional
        An old name of `atol`, with an rtol of 0.
    hermitian : bool, optional
        Whether the matrices are Hermitian; then only their lower triangle is read.
    atol, rtol : float, optional
        The tolerances, as for `pinv`.

    Returns
    -------
    Tensor
        int64, `(...)`.

    See Also
    --------
    svdvals, pinv

    Examples
    --------
    >>> st.linalg.matrix_rank(st.tensor([[1., 2.], [2., 4.]]))
    tensor(1)
    """
    if A.ndim < 2:
        raise RuntimeError(
            f"linalg.matrix_rank: The input must have at least 2 dimensions: {tuple(A.shape)}"
        )
    check_floating("linalg.matrix_rank", A)
    if hermitian:
        check_square("linalg.matrix_rank", A)
    if tol is not None:
        atol, rtol = tol, 0.0
    a, r = tolerances("linalg.matrix_rank", A, atol, rtol)
    data = data_of(A)
    if not data.size:
        return ops._to_copy(filled(data.shape[:-2], 0, np.int64, A), np.dtype(np.int64))
    rank, _ = rank_and_values(data, a, r, hermitian)
    return ops._to_copy(constant(rank, A), np.dtype(np.int64))


@composite(method=False, function=False, autocast="full")
def linalg_lstsq(ops, A, B, rcond=None, *, driver=None):
    """The solution of least squares problems: X that minimizes norm(A @ X - B).

    Parameters
    ----------
    A : Tensor
        `(..., m, n)`, float32, float64 or complex.
    B : Tensor
        `(..., m, k)`, or `(..., m)`: vectors.
    rcond : float, optional
        Singular values up to rcond times the largest one count as 0; by default max(m, n) times the
        dtype's epsilon.
    driver : str, optional
        "gelsy" (the default), "gels", "gelsd" or "gelss": what is returned besides the solution;
        the solution is computed from singular values in any case.

    Returns
    -------
    (solution, residuals, rank, singular_values) : Tensor, Tensor, Tensor, Tensor
        Those that the driver does not compute are empty.

    Raises
    ------
    RuntimeError
        Shapes or dtypes do not fit, or there is no such driver.

    See Also
    --------
    pinv, solve

    Examples
    --------
    >>> A, b = st.tensor([[1., 0.], [0., 2.], [0., 0.]]), st.tensor([3., 4., 5.])
    >>> st.allclose(st.linalg.lstsq(A, b).solution, st.tensor([3., 2.]), atol=1e-5)
    True
    """
    check_floating("linalg.lstsq", A)
    if driver not in (None, "gels", "gelsy", "gelsd", "gelss"):
        raise RuntimeError(
            f"linalg.lstsq: parameter `driver` should be one of (gels, gelsy, gelsd, gelss): "
            f"{driver!r}"
        )
    flat = is_vector(A, B) if B.ndim else False
    b = ops.unsqueeze(B, -1) if flat else B
    check_floating("linalg.lstsq", b)
    m, n = A.shape[-2], A.shape[-1]
    if b.shape[-2] != m or A.dtype != B.dtype:
        raise RuntimeError(
            f"linalg.lstsq: A and B do not fit: {tuple(A.shape)} {A.dtype.name}, {tuple(B.shape)} "
            f"{B.dtype.name}"
        )
    solution = ops.matmul(ops.linalg_pinv(A, rtol=rcond), b)
    data = data_of(A)
    real = data.real.dtype
    rank, s = (filled((0,), 0, dtype, data) for dtype in (np.int64, real))
    has_full_rank = True
    if driver != "gels":
        a, r = tolerances("linalg.lstsq", A, None, rcond)
        rank, singular_values = rank_and_values(data, a, r, False)
        has_full_rank = bool((host_array(rank) == n).all())
        s = singular_values if driver in ("gelsd", "gelss") else s
    residuals = ops._to_copy(filled((0,), 0, real, A), real)
    if m > n and has_full_rank and driver not in (None, "gelsy"):
        difference = ops.abs(ops.matmul(A, solution) - b)
        residuals = ops.sum(ops.square(difference), -2)
        residuals = ops.squeeze(residuals, -1) if flat else residuals
    return named_result(
        "linalg_lstsq",
        solution=ops.squeeze(solution, -1) if flat else solution,
        residuals=residuals,
        rank=ops._to_copy(constant(rank, A), rank.dtype),
        singular_values=ops._to_copy(constant(s, A), s.dtype),
    )


# ---- tensors as matrices


@composite(method=False, function=False, autocast="full")
def linalg_tensorinv(ops, A, ind=2):
    """The inverse of a tensor as a linear map from its last dimensions to its first ones.

    Parameters
    ----------
    A : Tensor
        Whose first `ind` sizes have the same product as the others.
    ind : int, optional
        How many dimensions are the first ones.

    Returns
    -------
    Tensor
        The last sizes of A, then the first ones.

    Raises
    ------
    RuntimeError
        The products differ, or `ind` is not positive.

    See Also
    --------
    tensorsolve, inv

    Examples
    --------
    >>> A = st.eye(6).reshape(2, 3, 6)
    >>> st.linalg.tensorinv(A).shape
    Size([6, 2, 3])
    """
    shape = tuple(A.shape)
    if ind <= 0:
        raise RuntimeError(
            f"linalg.tensorinv: Expected a strictly positive integer for 'ind': {ind}"
        )
    rows, columns = math.prod(shape[:ind]), math.prod(shape[ind:])
    if rows != columns:
        raise RuntimeError(
            f"linalg.tensorinv: the first {ind} sizes of {shape} and the others must have the same "
            f"product: {rows}, {columns}"
        )
    return ops.reshape(ops.inverse(ops.reshape(A, (rows, columns))), (*shape[ind:], *shape[:ind]))


@composite(method=False, function=False, autocast="full")
def linalg_tensorsolve(ops, A, B, dims=None):
    """The solution of equations in tensors: tensordot(A, X, X.ndim) = B.

    Parameters
    ----------
    A : Tensor
        Whose first sizes are those of B, and whose others have the same product.
    B : Tensor
        The right-hand side.
    dims : sequence of int, optional
        The dimensions of A that are moved to its end first.

    Returns
    -------
    Tensor
        X, of the last sizes of A.

    Raises
    ------
    RuntimeError
        The sizes do not fit.

    See Also
    --------
    tensorinv, solve

    Examples
    --------
    >>> A = 2 * st.eye(6).reshape(2, 3, 6)
    >>> st.linalg.tensorsolve(A, st.ones(2, 3))
    tensor([0.5000, 0.5000, 0.5000, 0.5000, 0.5000, 0.5000])
    """
    if dims is not None:
        A = ops.movedim(A, tuple(dims), tuple(range(A.ndim - len(dims), A.ndim)))
    solution_shape = tuple(A.shape[B.ndim :])
    if math.prod(solution_shape) != math.prod(B.shape):
        raise RuntimeError(
            "linalg.tensorsolve: Expected self to satisfy the requirement prod(self.shape"
            f"[other.ndim:]) == prod(self.shape[:other.ndim]): {tuple(A.shape)}, {tuple(B.shape)}"
        )
    n = math.prod(solution_shape)
    return ops.reshape(
        ops.linalg_solve(ops.reshape(A, (math.prod(B.shape), n)), ops.reshape(B, (-1,))),
        solution_shape,
    )


# ---- functions of square matrices that also have a name without `linalg`


def declare_linalg(name: str, core: str, doc: str) -> None:
    """Declares linalg.det and the like."""

    def compute(ops, A):
        check_square(f"linalg.{name}", A)
        out = getattr(ops, core)(A)
        return (
            named_result("linalg_slogdet", sign=out[0], logabsdet=out[1])
            if core == "slogdet"
            else out
        )

    compute.__doc__ = doc
    composite(compute, name=f"linalg_{name}", method=False, function=False)


declare_linalg(
    "det",
    "det",
    """The determinant of square matrices.

    Parameters
    ----------
    A : Tensor
        `(..., n, n)`, float32, float64 or complex.

    Returns
    -------
    Tensor
        Of shape `(...)`.

    See Also
    --------
    slogdet

    Notes
    -----
    The gradient of singular matrices is computed from their singular values.

    Examples
    --------
    >>> st.linalg.det(st.tensor([[2., 0.], [0., 3.]]))
    tensor(6.)
    """,
)
declare_linalg(
    "slogdet",
    "slogdet",
    """The sign and the logarithm of the absolute value of the determinant of square matrices.

    Parameters
    ----------
    A : Tensor
        `(..., n, n)`, float32, float64 or complex.

    Returns
    -------
    (sign, logabsdet) : Tensor, Tensor
        Of shape `(...)`; the determinant is sign * exp(logabsdet). For complex matrices the sign
        has modulus 1; of singular ones it is 0 and the logarithm -inf.

    See Also
    --------
    det

    Examples
    --------
    >>> st.linalg.slogdet(st.tensor([[0., 1.], [1., 0.]])).sign
    tensor(-1.)
    """,
)
declare_linalg(
    "matrix_exp",
    "matrix_exp",
    """The exponential of square matrices: the sum of A ** k / k! over k = 0, 1, ...

    Parameters
    ----------
    A : Tensor
        `(..., n, n)`, float32, float64 or complex.

    Returns
    -------
    Tensor
        Of the same shape.

    See Also
    --------
    matrix_power

    Examples
    --------
    >>> st.linalg.matrix_exp(st.tensor([[0., 1.], [0., 0.]]))
    tensor([[1., 1.],
            [0., 1.]])
    """,
)


@composite(method=False, function=False)
def linalg_matrix_power(ops, A, n):
    """Square matrices to an integer power.

    Parameters
    ----------
    A : Tensor
        `(..., n, n)`.
    n : int
        The power; a negative one is that of the inverse, 0 gives the identity.

    Returns
    -------
    Tensor
        Of the same shape.

    Raises
    ------
    RuntimeError
        The matrices are not square.

    See Also
    --------
    inv, matrix_exp

    Examples
    --------
    >>> st.linalg.matrix_power(st.tensor([[1., 1.], [0., 1.]]), -2)
    tensor([[ 1., -2.],
            [ 0.,  1.]])
    """
    return ops.matrix_power(A, n)
