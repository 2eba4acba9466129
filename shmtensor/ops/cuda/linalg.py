"""Factorizations by cuSOLVER and cuBLAS that CuPy has no function for, or whose info it hides.

cuSOLVER's matrices are column-major. A matrix in C order is its transpose there, so the lower
triangle of one is the upper triangle of the other.
"""

from __future__ import annotations

import math
from typing import Any

import cupy
import numpy as np
from cupy.cuda import device
from cupy_backends.cuda.libs import cublas, cusolver

from ..linalg import cholesky_qr, lu_ldl  # rows that are declared on first use
from ..linalg.inverse_det_matrix_exp import check_floating, check_square

__all__: list[str] = []

LETTERS = {"f": "s", "d": "d", "F": "c", "D": "z"}


def routine(library: Any, name: str, dtype: Any) -> Any:
    """A routine of a library for a dtype: `potrf` of float32 is `spotrf`."""
    return getattr(library, LETTERS[dtype.char] + name)


def pointers(x: Any) -> Any:
    """The addresses of the matrices of a contiguous batch (B, m, n)."""
    return x.data.ptr + cupy.arange(len(x), dtype=np.uint64) * np.uint64(x.strides[0])


def as_batch(x: Any) -> Any:
    """The matrices (..., m, n) as a contiguous copy (B, m, n)."""
    return x.reshape(math.prod(x.shape[:-2]), *x.shape[-2:]).copy(order="C")


# ---- Cholesky


def cholesky(x: Any) -> tuple[Any, Any]:
    """The lower factors of matrices, of which the lower triangles are read, and the orders of the
    first leading minors that are not positive-definite (int32; 0 if there is none).
    """
    a, info = as_batch(x), cupy.zeros(math.prod(x.shape[:-2]), np.int32)
    n = x.shape[-1]
    if a.size:
        handle, upper = device.get_cusolver_handle(), cublas.CUBLAS_FILL_MODE_UPPER
        if len(a) == 1:
            size = routine(cusolver, "potrf_bufferSize", a.dtype)(handle, upper, n, a.data.ptr, n)
            work = cupy.empty(size, a.dtype)
            routine(cusolver, "potrf", a.dtype)(
                handle, upper, n, a.data.ptr, n, work.data.ptr, size, info.data.ptr
            )
        else:
            matrices = pointers(a)
            routine(cusolver, "potrfBatched", a.dtype)(
                handle, upper, n, matrices.data.ptr, n, info.data.ptr, len(a)
            )
    return cupy.tril(a).reshape(x.shape), info.reshape(x.shape[:-2])


@cholesky_qr._linalg_cholesky.on("cuda")
def linalg_cholesky(xp, x, /):
    """By potrf. Waits for info, as PyTorch does for the same error."""
    check_square("cholesky", x)
    out, info = cholesky(x)
    orders = info.get()
    if orders.any():
        raise cholesky_qr.not_positive_definite(x, orders)
    return out


@cholesky_qr._linalg_leading_minors.on("cuda")
def linalg_leading_minors(xp, x, /):
    """By potrf."""
    return cholesky(x)[1]


# ---- LU


@lu_ldl._linalg_lu_factor.on("cuda")
def linalg_lu_factor(xp, x, /):
    """By getrf: batches of square matrices at once, others one by one."""
    check_floating("linalg.lu_factor", x)
    batch, (m, n) = x.shape[:-2], x.shape[-2:]
    columns = as_batch(x.swapaxes(-1, -2))
    count, k = len(columns), min(m, n)
    pivots, info = cupy.zeros((count, k), np.int32), cupy.zeros(count, np.int32)
    if columns.size and m == n and count > 1:
        matrices = pointers(columns)
        routine(cublas, "getrfBatched", x.dtype)(
            device.get_cublas_handle(), n, matrices.data.ptr, n, pivots.data.ptr, info.data.ptr,
            count,
        )  # fmt: skip
    elif columns.size:
        handle = device.get_cusolver_handle()
        size = routine(cusolver, "getrf_bufferSize", x.dtype)(handle, m, n, columns[0].data.ptr, m)
        work = cupy.empty(size, x.dtype)
        for a, p, i in zip(columns, pivots, info):
            routine(cusolver, "getrf", x.dtype)(
                handle, m, n, a.data.ptr, m, work.data.ptr, p.data.ptr, i.data.ptr
            )
    out = cupy.ascontiguousarray(columns.swapaxes(-1, -2)).reshape(x.shape)
    return out, pivots.reshape(*batch, k), info.reshape(batch)


# ---- QR


@cholesky_qr._linalg_geqrf.on("cuda")
def linalg_geqrf(xp, x, /):
    """By geqrf, one matrix after another."""
    batch, (m, n) = x.shape[:-2], x.shape[-2:]
    columns = as_batch(x.swapaxes(-1, -2))
    tau, info = cupy.zeros((len(columns), min(m, n)), x.dtype), cupy.zeros(1, np.int32)
    if columns.size:
        handle = device.get_cusolver_handle()
        size = routine(cusolver, "geqrf_bufferSize", x.dtype)(handle, m, n, columns[0].data.ptr, m)
        work = cupy.empty(size, x.dtype)
        for a, t in zip(columns, tau):
            routine(cusolver, "geqrf", x.dtype)(
                handle, m, n, a.data.ptr, m, t.data.ptr, work.data.ptr, size, info.data.ptr
            )
    out = cupy.ascontiguousarray(columns.swapaxes(-1, -2)).reshape(x.shape)
    return out, tau.reshape(*batch, min(m, n))
