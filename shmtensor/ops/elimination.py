"""LU factors with row exchanges, and LDL factors: NumPy has neither. The first are computed here,
the second by SciPy.

The gradient of LU: the differential of A = P L U, with the triangles of L ** -1 dA U ** -1; what is
left of or below the square part follows from it (as in PyTorch, Seeger et al. 2017).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .. import errors
from .factors import data_of, factored, permutation, right_solved
from .matrices import BATCH, NEAR_ONE, TALL, insist, square, turned
from .results import named
from .table import composite, op


@op(
    method=False,
    function=False,
    outputs="LU pivots",
    samples=[(NEAR_ONE,), (TALL,), (TALL.T,), (BATCH,)],
    halves="asked",
    vmap="alone",
)
def linalg_lu_packed(xp, x, /):
    """L below the diagonal and U from it, and the rows exchanged in turn, counted from 1."""
    insist("linalg.lu_factor", x)
    return factored(x)


def lu_slope(ops: Any, g_LU: Any, x: Any, LU: Any, pivots: Any) -> Any:
    """P L ** -H (tril(L.mH gL, -1) + triu(gU U.mH)) U ** -H, for the square part."""
    m, n = LU.shape[-2], LU.shape[-1]
    k = min(m, n)
    eye = np.eye(k, dtype=LU.dtype)
    square_part = LU[..., :k, :k]
    low, up = ops.add(ops.tril(square_part, -1), eye), ops.triu(square_part)
    g = g_LU[..., :k, :k]
    g_low, g_up = ops.tril(g, -1), ops.triu(g)
    rest = None
    if n > k:
        rest = ops.solved(turned(low), g_LU[..., k:])
        g_low = g_low - ops.matmul(rest, turned(LU[..., k:]))
    elif m > k:
        rest = right_solved(ops, g_LU[..., k:, :], turned(up))
        g_up = g_up - ops.matmul(turned(LU[..., k:, :]), rest)
    inner = ops.tril(ops.matmul(turned(low), g_low), -1) + ops.triu(ops.matmul(g_up, turned(up)))
    out = right_solved(ops, ops.solved(turned(low), inner), turned(up))
    if rest is not None:
        out = ops.cat([out, rest], -1 if n > k else -2)
    return ops.matmul(permutation(data_of(pivots), m, data_of(LU).dtype), out)


linalg_lu_packed.pullback(x=lambda ops, g_LU, x, LU, pivots: lu_slope(ops, g_LU, x, LU, pivots))


def pivoted(name: str, pivot: bool) -> None:
    """Raises RuntimeError if no rows are to be exchanged."""
    if not pivot:
        raise RuntimeError(f"{name}: LU without pivoting is not implemented on the CPU")


def singular(data: Any) -> Any:
    """Per matrix the first zero on U's diagonal, counted from 1; 0 if there is none."""
    zero = np.diagonal(data, 0, -2, -1) == 0
    return np.where(zero.any(-1), zero.argmax(-1) + 1, 0).astype(np.int32) if zero.size else (
        np.zeros(data.shape[:-2], np.int32)
    )  # fmt: skip


@composite(method=False, function=False)
def linalg_lu_factor(ops, A, *, pivot=True):
    """(LU, pivots): the factors of A = P @ L @ U in one matrix, and the row exchanges."""
    out = ops.linalg_lu_factor_ex(A, pivot=pivot, check_errors=False)
    return named("linalg_lu_factor", LU=out[0], pivots=out[1])


@composite(method=False, function=False)
def linalg_lu_factor_ex(ops, A, *, pivot=True, check_errors=False):
    """(LU, pivots, info): as `lu_factor`; info is where U's diagonal is zero first, or 0."""
    pivoted("linalg.lu_factor", pivot)
    insist("linalg.lu_factor", A)
    packed, pivots = ops.linalg_lu_packed(A)
    info = singular(data_of(packed))
    if check_errors and info.any():
        raise errors.LinAlgError(
            "linalg.lu_factor_ex: The diagonal element of U is zero, the factorization is of no "
            f"use for solving systems: info {info.tolist()}, shape {tuple(A.shape)}"
        )
    return named("linalg_lu_factor_ex", LU=packed, pivots=pivots, info=ops.cast(info, info.dtype))


@composite(method=False, function=False)
def linalg_lu_unpacked(ops, LU_data, LU_pivots, unpack_data=True, unpack_pivots=True):
    """(P, L, U) of what `lu_factor` gives."""
    if data_of(LU_pivots).dtype != np.int32:
        raise RuntimeError(
            f"lu_unpack: LU_pivots is expected to be a contiguous tensor of int32 dtype: "
            f"{LU_pivots.dtype}"
        )
    m, n = LU_data.shape[-2], LU_data.shape[-1]
    k = min(m, n)
    empty = ops.cast(np.zeros(0, data_of(LU_data).dtype), LU_data.dtype)
    P, L, U = empty, empty, empty
    if unpack_pivots:
        made = permutation(data_of(LU_pivots), m, data_of(LU_data).dtype)
        P = ops.cast(np.ascontiguousarray(made), LU_data.dtype)
    if unpack_data:
        eye = np.eye(m, k, dtype=data_of(LU_data).dtype)
        L, U = ops.add(ops.tril(LU_data[..., :k], -1), eye), ops.triu(LU_data[..., :k, :])
    return named("lu_unpack", P=P, L=L, U=U)


@composite(method=False, function=False)
def linalg_lu(ops, A, *, pivot=True):
    """(P, L, U) with A = P @ L @ U: a permutation, a lower and an upper triangle.

    Args:
        A: (..., m, n); L is (..., m, k), U (..., k, n), k the smaller.
    """
    pivoted("linalg.lu", pivot)
    P, L, U = ops.linalg_lu_unpacked(*ops.linalg_lu_packed(A))
    return named("linalg_lu", P=P, L=L, U=U)


@composite(method=False, function=False, autocast="alone")
def linalg_lu_solve(ops, LU, pivots, B, *, left=True, adjoint=False):
    """X with A @ X = B (left=False: X @ A = B) for the A that `lu_factor` took apart.

    Args:
        adjoint: A's conjugate transpose is meant.
    """
    square("linalg.lu_solve", LU)
    insist("linalg.lu_solve", B)
    if data_of(pivots).dtype != np.int32:
        raise RuntimeError(f"linalg.lu_solve: pivots must be int32: {pivots.dtype}")
    if LU.shape[-1] != B.shape[-2 if left else -1] or LU.dtype != B.dtype:
        raise RuntimeError(
            f"linalg.lu_solve: LU and B do not fit: {tuple(LU.shape)} {LU.dtype}, "
            f"{tuple(B.shape)} {B.dtype}"
        )
    if tuple(pivots.shape) != tuple(LU.shape[:-1]):
        raise RuntimeError(
            f"linalg.lu_solve: one pivot per row is needed: LU {tuple(LU.shape)}, pivots "
            f"{tuple(pivots.shape)}"
        )
    if not left:
        return turned(ops.linalg_lu_solve(LU, pivots, turned(B), adjoint=not adjoint))
    P, L, U = ops.linalg_lu_unpacked(LU, pivots)
    if adjoint:
        return ops.matmul(P, ops.solved(turned(L), ops.solved(turned(U), B)))
    return ops.solved(U, ops.solved(L, ops.matmul(turned(P), B)))


# ---- LDL


def scipys_lapack() -> Any:
    """SciPy's LAPACK.

    Raises: ImportError, SciPy is not installed.
    """
    try:
        from scipy.linalg import lapack
    except ImportError:
        raise ImportError(
            "linalg.ldl_factor: NumPy has no LDL factors, SciPy is needed: pip install "
            "'shmtensor[linalg]'"
        ) from None
    return lapack


def bunch_kaufman(data: Any, hermitian: bool) -> tuple[Any, Any, Any]:
    """(LD, pivots, info) of each matrix of a batch, of its lower triangle (LAPACK's sytrf)."""
    name = "hetrf" if hermitian and data.dtype.kind == "c" else "sytrf"
    letter = {"float32": "s", "float64": "d", "complex64": "c", "complex128": "z"}[data.dtype.name]
    lapack = scipys_lapack()
    factor = getattr(lapack, letter + name)
    flat = data.reshape(math.prod(data.shape[:-2]), *data.shape[-2:])
    low, pivots = np.empty_like(flat), np.empty(flat.shape[:-1], np.int32)
    info = np.empty(len(flat), np.int32)
    n = data.shape[-1]
    for i, a in enumerate(flat):
        made, at, info[i] = factor(a, lower=1, lwork=max(64 * n, 1))
        low[i] = np.tril(made)
        pivots[i] = at if at.min(initial=1) >= 1 or (at < 0).any() else at + 1
    shape = data.shape
    return low.reshape(shape), pivots.reshape(shape[:-1]), info.reshape(shape[:-2])


@composite(method=False, function=False)
def linalg_ldl_factor(ops, A, *, hermitian=False):
    """(LD, pivots): A = P L D L.T P.T of symmetric or Hermitian matrices, packed as LAPACK does.

    Needs SciPy (the extra `linalg`); no gradients.
    """
    out = ops.linalg_ldl_factor_ex(A, hermitian=hermitian, check_errors=True)
    return named("linalg_ldl_factor", LD=out[0], pivots=out[1])


@composite(method=False, function=False)
def linalg_ldl_factor_ex(ops, A, *, hermitian=False, check_errors=False):
    """(LD, pivots, info): as `ldl_factor`; info > 0 where D is singular."""
    square("linalg.ldl_factor_ex", A)
    low, pivots, info = bunch_kaufman(np.asarray(data_of(A)), hermitian)
    if check_errors and info.any():
        raise errors.LinAlgError(
            f"linalg.ldl_factor: the factorization has a zero block in D: info {info.tolist()}"
        )
    made = [ops.cast(v, v.dtype) for v in (low, pivots, info)]
    return named("linalg_ldl_factor_ex", LD=made[0], pivots=made[1], info=made[2])


def ldl_parts(low: Any, pivots: Any, hermitian: bool) -> tuple[Any, Any]:
    """(W, D) of one matrix A = W D W.T (or W.mH): the product of exchanges and columns of L."""
    n = len(low)
    W, D = np.eye(n, dtype=low.dtype), np.zeros_like(low)
    k = 0
    while k < n:
        step = np.eye(n, dtype=low.dtype)
        wide = pivots[k] < 0
        a, b = (k + 1, -pivots[k] - 1) if wide else (k, pivots[k] - 1)
        swap = np.arange(n)
        swap[a], swap[b] = swap[b], swap[a]
        D[k, k] = low[k, k].real if hermitian else low[k, k]
        if wide:
            D[k + 1, k] = low[k + 1, k]
            D[k, k + 1] = low[k + 1, k].conjugate() if hermitian else low[k + 1, k]
            D[k + 1, k + 1] = low[k + 1, k + 1].real if hermitian else low[k + 1, k + 1]
            step[k + 2 :, k], step[k + 2 :, k + 1] = low[k + 2 :, k], low[k + 2 :, k + 1]
        else:
            step[k + 1 :, k] = low[k + 1 :, k]
        W = W @ np.eye(n, dtype=low.dtype)[swap] @ step
        k += 2 if wide else 1
    return W, D


@composite(method=False, function=False)
def linalg_ldl_solve(ops, LD, pivots, B, *, hermitian=False):
    """X with A @ X = B for the A that `ldl_factor` took apart; differentiable in B alone."""
    square("linalg.ldl_solve", LD)
    insist("linalg.ldl_solve", B)
    low, at = np.asarray(data_of(LD)), np.asarray(data_of(pivots))
    if at.shape != low.shape[:-1] or at.dtype.kind != "i" or low.shape[-1] != B.shape[-2]:
        raise RuntimeError(
            f"linalg.ldl_solve: sizes or dtypes do not fit: LD {low.shape}, pivots {at.shape} "
            f"{at.dtype}, B {tuple(B.shape)}"
        )
    hermitian = hermitian and low.dtype.kind == "c"
    flat = low.reshape(math.prod(low.shape[:-2]), *low.shape[-2:])
    parts = [ldl_parts(a, p, hermitian) for a, p in zip(flat, at.reshape(len(flat), low.shape[-1]))]
    W = np.stack([w for w, _ in parts]).reshape(low.shape) if parts else low
    D = np.stack([d for _, d in parts]).reshape(low.shape) if parts else low
    back = W.swapaxes(-1, -2)
    back = back.conjugate() if hermitian else back
    return ops.solved(back, ops.solved(D, ops.solved(W, B)))
