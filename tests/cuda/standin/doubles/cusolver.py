"""A double of cuSOLVER, by LAPACK (SciPy) and NumPy: the functions that shmtensor calls, itself or
through CuPy.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any, Literal

import numpy as np
from scipy import linalg

from tests.cuda.standin.doubles.cublas import DATA_TYPES, LOWER, batch
from tests.cuda.standin.doubles.library import (
    REAL,
    Array,
    Misuse,
    array,
    attach,
    buffer_sizes,
    create,
    destroy,
    double,
    handle_of,
    matrix,
    queue,
    store,
)

INVALID_VALUE = 3
NO_VECTORS, VECTORS = 0, 1


def install() -> None:
    attach("cusolver", "cupy_backends/cuda/libs/cusolver", INVALID_VALUE)


def real_of(t: Any) -> np.dtype[Any]:
    real: np.dtype[Any] = REAL.get(t, t)
    return real


def lapack(name: str, t: Any) -> Any:
    return linalg.get_lapack_funcs(name, dtype=t)


def queue_with_info(handle: int, devInfo: int, work: Callable[[], int]) -> None:
    """Queues work whose result is LAPACK's info, written to the device."""
    info = array(devInfo, np.int32, 1)

    def run() -> None:
        info[0] = work()

    queue(handle_of(handle).stream, run)


def check_workspace(work: int, t: Any, lwork: int) -> None:
    array(work, t, lwork)


# ---------------------------------------------------------------- context


@double("cusolverDnCreate")
def _create(handle: int) -> None:
    create(handle)


@double("cusolverDnDestroy")
def _destroy(handle: int) -> None:
    destroy(handle)


@double("cusolverDnSetStream")
def _set_stream(handle: int, streamId: int) -> None:
    handle_of(handle).stream = streamId


@double("cusolverDnGetStream")
def _stream(handle: int, streamId: int) -> None:
    store(streamId, handle_of(handle).stream, ctypes.c_void_p)


@double("cusolverDnCreateParams")
def _create_params(params: int) -> None:
    create(params)


@double("cusolverDnDestroyParams")
def _destroy_params(params: int) -> None:
    destroy(params)


@double("cusolverDnCreateGesvdjInfo")
@double("cusolverDnCreateSyevjInfo")
def _create_info(info: int) -> None:
    create(info)


@double("cusolverDnDestroyGesvdjInfo")
@double("cusolverDnDestroySyevjInfo")
def _destroy_info(info: int) -> None:
    destroy(info)


@double("cusolverGetProperty")
def _property(type: int, value: int) -> None:
    store(value, (12, 0, 0)[type])


# ---------------------------------------------------------------- linear solvers

buffer_sizes("cusolverDn{t}potrf", "SDCZ")
buffer_sizes("cusolverDn{t}getrf", "SDCZ")
buffer_sizes("cusolverDn{t}geqrf", "SDCZ")
buffer_sizes("cusolverDn{t}orgqr", "SD")
buffer_sizes("cusolverDn{t}ungqr", "CZ")
buffer_sizes("cusolverDn{t}sytrf", "SDCZ")
buffer_sizes("cusolverDn{t}gesvd", "SDCZ")
buffer_sizes("cusolverDn{t}gesvdjBatched", "SDCZ")
buffer_sizes("cusolverDn{t}syevjBatched", "SD")
buffer_sizes("cusolverDn{t}heevjBatched", "CZ")
buffer_sizes("cusolverDnXsyevd")
buffer_sizes("cusolverDnXgeev")


@double("cusolverDn{t}potrf", "SDCZ")
def _potrf(
    t: Any, handle: int, uplo: int, n: int, A: int, lda: int, work: int, lwork: int,
    devInfo: int,
) -> None:  # fmt: skip
    a = matrix(A, t, n, n, lda)
    check_workspace(work, t, lwork)
    queue_with_info(handle, devInfo, lambda: factor(t, a, uplo))


def factor(t: Any, a: Array, uplo: int) -> int:
    """Cholesky's factor in one triangle of a; the other one stays."""
    a[...], info = lapack("potrf", t)(a, lower=uplo == LOWER, clean=0)
    return int(info)


@double("cusolverDn{t}potrfBatched", "SDCZ")
def _potrf_batched(
    t: Any, handle: int, uplo: int, n: int, Aarray: int, lda: int, infoArray: int,
    batchSize: int,
) -> None:  # fmt: skip
    h = handle_of(handle)
    places, info = array(Aarray, np.uintp, batchSize), array(infoArray, np.int32, batchSize)

    def work() -> None:
        for i, a in enumerate(batch(h, t, places, n, lda)):
            info[i] = factor(t, a, uplo)

    queue(h.stream, work)


@double("cusolverDn{t}getrf", "SDCZ")
def _getrf(
    t: Any, handle: int, m: int, n: int, A: int, lda: int, work: int, devIpiv: int,
    devInfo: int,
) -> None:  # fmt: skip
    a = matrix(A, t, m, n, lda)
    pivots = array(devIpiv, np.int32, min(m, n))

    def run() -> int:
        a[...], order, info = lapack("getrf", t)(a)
        pivots[...] = order + 1
        return int(info)

    queue_with_info(handle, devInfo, run)


@double("cusolverDn{t}getrs", "SDCZ")
def _getrs(
    t: Any, handle: int, trans: int, n: int, nrhs: int, A: int, lda: int, devIpiv: int, B: int,
    ldb: int, devInfo: int,
) -> None:  # fmt: skip
    a, b = matrix(A, t, n, n, lda), matrix(B, t, n, nrhs, ldb)
    pivots = array(devIpiv, np.int32, n)

    def work() -> int:
        b[...], info = lapack("getrs", t)(a, pivots - 1, b, trans=trans)
        return int(info)

    queue_with_info(handle, devInfo, work)


@double("cusolverDn{t}sytrf", "SDCZ")
def _sytrf(
    t: Any, handle: int, uplo: int, n: int, A: int, lda: int, ipiv: int, work: int, lwork: int,
    devInfo: int,
) -> None:  # fmt: skip
    if not ipiv:
        raise Misuse("L D L^T factors without pivots")
    a, pivots = matrix(A, t, n, n, lda), array(ipiv, np.int32, n)
    check_workspace(work, t, lwork)

    def run() -> int:
        a[...], pivots[...], info = lapack("sytrf", t)(a, lower=uplo == LOWER)
        return int(info)

    queue_with_info(handle, devInfo, run)


# ---------------------------------------------------------------- QR


@double("cusolverDn{t}geqrf", "SDCZ")
def _geqrf(
    t: Any, handle: int, m: int, n: int, A: int, lda: int, tau: int, work: int, lwork: int,
    devInfo: int,
) -> None:  # fmt: skip
    a, scales = matrix(A, t, m, n, lda), array(tau, t, min(m, n))
    check_workspace(work, t, lwork)

    def run() -> int:
        a[...], scales[...], _, info = lapack("geqrf", t)(a)
        return int(info)

    queue_with_info(handle, devInfo, run)


@double("cusolverDn{t}ungqr", "CZ")
@double("cusolverDn{t}orgqr", "SD")
def _orgqr(
    t: Any, handle: int, m: int, n: int, k: int, A: int, lda: int, tau: int, work: int,
    lwork: int, devInfo: int,
) -> None:  # fmt: skip
    if not m >= n >= k:
        raise Misuse(f"m >= n >= k is needed: {m}, {n}, {k}")
    a, scales = matrix(A, t, m, n, lda), array(tau, t, k)
    check_workspace(work, t, lwork)
    name = "ungqr" if t in REAL else "orgqr"

    def run() -> int:
        a[...], _, info = lapack(name, t)(a, scales)
        return int(info)

    queue_with_info(handle, devInfo, run)


# ---------------------------------------------------------------- singular values


@double("cusolverDn{t}gesvd", "SDCZ")
def _gesvd(
    t: Any, handle: int, jobu: bytes, jobvt: bytes, m: int, n: int, A: int, lda: int, S: int,
    U: int, ldu: int, VT: int, ldvt: int, Work: int, lwork: int, rwork: int, devInfo: int,
) -> None:  # fmt: skip
    if m < n:
        raise Misuse(f"m >= n is needed: {m}, {n}")
    if jobu == jobvt == b"O":
        raise Misuse("both factors are to overwrite the matrix")
    k = min(m, n)
    a, s = matrix(A, t, m, n, lda), array(S, real_of(t), k)
    left = {b"A": m, b"S": k}.get(jobu, 0)
    right = {b"A": n, b"S": k}.get(jobvt, 0)
    u = matrix(U, t, m, left, ldu) if left else None
    vt = matrix(VT, t, right, n, ldvt) if right else None
    check_workspace(Work, t, lwork)

    def run() -> int:
        if jobu == jobvt == b"N":
            s[...] = np.linalg.svd(a, compute_uv=False)
            return 0
        all_u, s[...], all_vt = np.linalg.svd(a, full_matrices=b"A" in (jobu, jobvt))
        a[...] = np.nan  # the library leaves no promise here
        if u is not None:
            u[...] = all_u[:, :left]
        if vt is not None:
            vt[...] = all_vt[:right]
        if jobu == b"O":
            a[...] = all_u[:, :k]
        if jobvt == b"O":
            a[:k] = all_vt[:k]
        return 0

    queue_with_info(handle, devInfo, run)


def jacobi(a: Array, s: Array, u: Array | None, v: Array | None) -> Callable[[], int]:
    """Work that writes the singular values and, unless None, the factors (v, not its adjoint)."""

    def run() -> int:
        if u is None or v is None:
            s[...] = np.linalg.svd(a, compute_uv=False)
            return 0
        u[...], s[...], right = np.linalg.svd(a)
        v[...] = right.conj().T
        return 0

    return run


@double("cusolverDn{t}gesvdjBatched", "SDCZ")
def _gesvdj_batched(
    t: Any, handle: int, jobz: int, m: int, n: int, A: int, lda: int, S: int, U: int, ldu: int,
    V: int, ldv: int, work: int, lwork: int, info: int, params: int, batchSize: int,
) -> None:  # fmt: skip
    handle_of(params)
    if m > 32 or n > 32:
        raise Misuse(f"matrices of at most 32 x 32 are taken: {m} x {n}")
    k, item, real = min(m, n), t.itemsize, real_of(t)
    check_workspace(work, t, lwork)
    for i in range(batchSize):
        a = matrix(A + i * lda * n * item, t, m, n, lda)
        s = array(S + i * k * real.itemsize, real, k)
        u = matrix(U + i * ldu * m * item, t, m, m, ldu) if jobz == VECTORS else None
        v = matrix(V + i * ldv * n * item, t, n, n, ldv) if jobz == VECTORS else None
        queue_with_info(handle, info + 4 * i, jacobi(a, s, u, v))


# ---------------------------------------------------------------- eigenvalues of symmetric matrices


def symmetric(a: Array, w: Array, jobz: int, uplo: int) -> Callable[[], int]:
    """Work that writes the eigenvalues and, for VECTORS, overwrites a by the eigenvectors."""
    half: Literal["L", "U"] = "L" if uplo == LOWER else "U"

    def run() -> int:
        if jobz == VECTORS:
            w[...], a[...] = np.linalg.eigh(a, half)
        else:
            w[...] = np.linalg.eigvalsh(a, half)
            a[...] = np.nan
        return 0

    return run


@double("cusolverDn{t}heevjBatched", "CZ")
@double("cusolverDn{t}syevjBatched", "SD")
def _syevj_batched(
    t: Any, handle: int, jobz: int, uplo: int, n: int, A: int, lda: int, W: int, work: int,
    lwork: int, info: int, params: int, batchSize: int,
) -> None:  # fmt: skip
    handle_of(params)
    real = real_of(t)
    check_workspace(work, t, lwork)
    for i in range(batchSize):
        a = matrix(A + i * lda * n * t.itemsize, t, n, n, lda)
        w = array(W + i * n * real.itemsize, real, n)
        queue_with_info(handle, info + 4 * i, symmetric(a, w, jobz, uplo))


@double("cusolverDnXsyevd")
def _xsyevd(
    handle: int, params: int, jobz: int, uplo: int, n: int, dataTypeA: int, A: int, lda: int,
    dataTypeW: int, W: int, computeType: int, bufferOnDevice: int,
    workspaceInBytesOnDevice: int, bufferOnHost: int, workspaceInBytesOnHost: int, info: int,
) -> None:  # fmt: skip
    handle_of(params)
    a = matrix(A, np.dtype(DATA_TYPES[dataTypeA]), n, n, lda)
    w = array(W, np.dtype(DATA_TYPES[dataTypeW]), n)
    array(bufferOnDevice, np.uint8, workspaceInBytesOnDevice)
    queue_with_info(handle, info, symmetric(a, w, jobz, uplo))


# ---------------------------------------------------------------- eigenvalues of any matrix


@double("cusolverDnXgeev")
def _xgeev(
    handle: int, params: int, jobvl: int, jobvr: int, n: int, dataTypeA: int, A: int, lda: int,
    dataTypeW: int, W: int, dataTypeVL: int, VL: int, ldvl: int, dataTypeVR: int, VR: int,
    ldvr: int, computeType: int, bufferOnDevice: int, workspaceInBytesOnDevice: int,
    bufferOnHost: int, workspaceInBytesOnHost: int, info: int,
) -> None:  # fmt: skip
    """Eigenvectors of real matrices are real: two columns for a pair, as LAPACK's."""
    handle_of(params)
    t = np.dtype(DATA_TYPES[dataTypeA])
    if jobvl != NO_VECTORS:
        raise Misuse("left eigenvectors")
    wanted = np.result_type(t, np.complex64)
    if np.dtype(DATA_TYPES[dataTypeW]) != wanted or {dataTypeVR, computeType} != {dataTypeA}:
        raise Misuse(f"data types {dataTypeA}, {dataTypeW}, {dataTypeVR}, {computeType}")
    a, w = matrix(A, t, n, n, lda), array(W, wanted, n)
    v = matrix(VR, t, n, n, ldvr) if jobvr == VECTORS else None
    array(bufferOnDevice, np.uint8, workspaceInBytesOnDevice)
    geev = lapack("geev", t)

    def run() -> int:
        *parts, _, vectors, status = geev(a, compute_vl=0, compute_vr=int(v is not None))
        w[...] = parts[0] if t in REAL else parts[0] + 1j * parts[1]
        if v is not None:
            v[...] = vectors
        a[...] = np.nan  # the library leaves no promise here
        return int(status)

    queue_with_info(handle, info, run)
