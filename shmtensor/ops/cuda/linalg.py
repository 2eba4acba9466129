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
from .launch import launch
from .sliding_window import kernel_of

__all__: list[str] = []

LDL_THREADS = 256  # of a block, which factors a matrix
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


# ---- LDL


@lu_ldl._linalg_ldl_factor.on("cuda")
def linalg_ldl_factor(xp, x, /, hermitian):
    """By sytrf, one matrix after another; Hermitian ones by a kernel: cuSOLVER has no hetrf."""
    check_square("linalg.ldl_factor", x)
    check_floating("linalg.ldl_factor", x)
    n, columns = x.shape[-1], as_batch(x.swapaxes(-1, -2))
    pivots = cupy.zeros((len(columns), n), np.int32)
    info = cupy.zeros(len(columns), np.int32)
    if columns.size and hermitian and x.dtype.kind == "c":
        part = np.dtype(np.float64 if x.dtype == np.complex128 else np.float32)
        work = cupy.empty((len(columns), 2, n), x.dtype)
        arguments = (columns, pivots, info, work, np.int64(n))
        launch("ldl", "hermitian_ldl", part, len(columns), LDL_THREADS, arguments)
    elif columns.size:
        handle, lower = device.get_cusolver_handle(), cublas.CUBLAS_FILL_MODE_LOWER
        size = routine(cusolver, "sytrf_bufferSize", x.dtype)(handle, n, columns[0].data.ptr, n)
        work = cupy.empty(size, x.dtype)
        for a, p, i in zip(columns, pivots, info):
            routine(cusolver, "sytrf", x.dtype)(
                handle, lower, n, a.data.ptr, n, p.data.ptr, work.data.ptr, size, i.data.ptr
            )
    out = cupy.tril(columns.swapaxes(-1, -2)).reshape(x.shape)
    return out, pivots.reshape(x.shape[:-1]), info.reshape(x.shape[:-2])


# LAPACK's sytrs and hetrs of the lower triangle, with a thread for each column: cuSOLVER's sytrs is
# not in CuPy. A negative pivot is one of a block of two rows.
LDL_SOLVE = """
const long long batch = i / columns;
const T* a = &ld[batch * n * n];
const int* pivot = &pivots[batch * n];
T* b = &out[batch * n * columns + i % columns];
#define A(r, c) a[(r) * n + (c)]
#define B(r) b[(r) * columns]
#define EXCHANGE(r, s) { const T v = B(r); B(r) = B(s); B(s) = v; }
for (long long k = 0; k < n;) {
  if (pivot[k] > 0) {
    EXCHANGE(k, pivot[k] - 1)
    for (long long j = k + 1; j < n; ++j) B(j) -= A(j, k) * B(k);
    B(k) /= A(k, k);
    k += 1;
    continue;
  }
  EXCHANGE(k + 1, -pivot[k] - 1)
  for (long long j = k + 2; j < n; ++j) B(j) -= A(j, k) * B(k) + A(j, k + 1) * B(k + 1);
  const T low = A(k + 1, k), high = ADJOINT(low);
  const T first = A(k, k) / high, second = A(k + 1, k + 1) / low;
  const T scale = first * second - T(1), c = B(k) / high, d = B(k + 1) / low;
  B(k) = (second * c - d) / scale;
  B(k + 1) = (first * d - c) / scale;
  k += 2;
}
for (long long k = n - 1; k >= 0;) {
  const long long other = pivot[k] > 0 ? k : k - 1;
  for (long long c = k; c >= other; --c)
    for (long long j = k + 1; j < n; ++j) B(c) -= ADJOINT(A(j, c)) * B(j);
  EXCHANGE(k, (pivot[k] > 0 ? pivot[k] : -pivot[k]) - 1)
  k = other - 1;
}
#undef A
#undef B
#undef EXCHANGE
"""


@lu_ldl._linalg_ldl_solve.on("cuda")
def linalg_ldl_solve(xp, x, pivots, y, /, hermitian):
    """By one kernel."""
    check_floating("linalg.ldl_solve", y)
    batch = np.broadcast_shapes(x.shape[:-2], y.shape[:-2])
    n, columns = y.shape[-2:]
    out = cupy.broadcast_to(y, (*batch, n, columns)).copy(order="C")
    if out.size:
        conjugates = hermitian and x.dtype.kind == "c"
        code = LDL_SOLVE.replace("ADJOINT", "conj" if conjugates else "")
        inputs = "raw T ld, raw int32 pivots, int64 n, int64 columns"
        factors = cupy.ascontiguousarray(cupy.broadcast_to(x, (*batch, n, n)))
        pivots = cupy.ascontiguousarray(cupy.broadcast_to(pivots, (*batch, n)))
        kernel_of("ldl_solve", inputs, "raw T out", code)(
            factors, pivots.astype(np.int32, copy=False), n, columns, out, size=out.size // n
        )
    return out
