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

    Raises: LinAlgError, a matrix is singular.
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
    """(inverse, info): as `inv`, but a singular matrix has info > 0 and NaN for its inverse."""
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
    """X with A @ X = B; left=False: X @ A = B.

    Args:
        A: (..., n, n)
        B: (..., n, k), or (..., n) if that is A's shape without the last size.

    Raises: LinAlgError, a matrix is singular.
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
    """(result, info): as `solve`, but for a singular matrix info > 0 and the result is NaN."""
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
    """X with A @ X = B (left=False: X @ A = B) for triangular A; the other triangle is not read.

    Args:
        unitriangular: A's diagonal counts as ones.
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
    """The pseudo-inverse of matrices (Moore and Penrose): (..., m, n) to (..., n, m).

    Args:
        atol, rtol: singular values up to the larger of atol and rtol times the largest count as 0;
            by default rtol is max(m, n) times the dtype's epsilon. rcond is an old name of rtol.
        hermitian: the matrices are Hermitian; only their lower triangle is read.
    """
    check_floating("linalg.pinv", A)
    if hermitian:
        check_square("linalg.pinv", A)
    a, r = tolerances("linalg.pinv", A, atol, rcond if rtol is None else rtol)
    return ops._linalg_pinv(A, a, r, hermitian)


@composite(method=False, function=False, autocast="full")
def linalg_matrix_rank(ops, A, tol=None, hermitian=False, *, atol=None, rtol=None):
    """How many singular values exceed the tolerances, as in `pinv`; tol is absolute."""
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
    """(solution, residuals, rank, singular_values) of the least squares problem A @ X = B.

    Args:
        A: (..., m, n)
        B: (..., m, k), or (..., m).
        rcond: singular values up to rcond times the largest count as 0; by default max(m, n) times
            the dtype's epsilon.
        driver: "gelsy" (the default), "gels", "gelsd" or "gelss": what is returned besides the
            solution follows PyTorch; the solution is computed from singular values in any case.
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
    """The inverse of A as a linear map from its last dimensions to its first `ind` ones."""
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
    """X with tensordot(A, X, X.ndim) = B; dims: those of A moved to the end first."""
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


declare_linalg("det", "det", "The determinant of square matrices (..., n, n).")
declare_linalg("slogdet", "slogdet", "(sign, logabsdet) of the determinant of square matrices.")
declare_linalg("matrix_exp", "matrix_exp", "The exponential of square matrices.")


@composite(method=False, function=False)
def linalg_matrix_power(ops, A, n):
    """Square matrices to an integer power; for a negative n, the inverse to the power -n."""
    return ops.matrix_power(A, n)
