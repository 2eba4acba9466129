"""A double of cuBLAS, by NumPy: the functions that shmtensor calls, itself or through CuPy.

Matrices are column-major, as in BLAS.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from scipy import linalg

from tests.cuda.standin.build import CUDA, VERSION
from tests.cuda.standin.doubles.library import (
    Array,
    Handle,
    Misuse,
    array,
    attach,
    create,
    destroy,
    double,
    handle_of,
    host_value,
    matrix,
    queue,
    store,
)

INVALID_VALUE = 7
OP_N, OP_T, OP_C = range(3)
LOWER = 0
BFLOAT16 = 14
# cudaDataType_t -> dtype; bfloat16 is computed in float32 (widened, narrowed).
DATA_TYPES: dict[int, Any] = {0: "f4", 1: "f8", 2: "f2", 3: "i1", 4: "c8", 5: "c16", 8: "u1"}
DATA_TYPES |= {10: "i4", 12: "u4", BFLOAT16: "u2"}
# cublasComputeType_t -> dtype of the computation.
COMPUTE: dict[int, Any] = {64: "f2", 65: "f2", 68: "f4", 69: "f4", 74: "f4", 75: "f4", 77: "f4"}
COMPUTE |= {70: "f8", 71: "f8", 72: "i4", 73: "i4"}


def install() -> None:
    attach("cublas", "cupy_backends/cuda/libs/cublas", INVALID_VALUE)


def oriented(a: Array, operation: int) -> Array:
    return a if operation == OP_N else a.T if operation == OP_T else a.conj().T


def operand(
    p: int, t: Any, operation: int, rows: int, columns: int, leading: int,
    device: int | None = None,
) -> Array:  # fmt: skip
    """The matrix whose `operation` is (rows, columns), as it lies."""
    if operation != OP_N:
        rows, columns = columns, rows
    return matrix(p, t, rows, columns, leading, device)


def combine(c: Array, product: Callable[[], Array], alpha: Any, beta: Any) -> None:
    """c = alpha * product + beta * c; what is multiplied by 0 is not read."""
    result = alpha * product() if alpha != 0 else np.zeros((), c.dtype)
    c[...] = result if beta == 0 else result + beta * c


# ---------------------------------------------------------------- context


@double("cublasCreate")
def _create(handle: int) -> None:
    create(handle)


@double("cublasDestroy")
def _destroy(handle: int) -> None:
    destroy(handle)


@double("cublasGetVersion")
def _version(handle: int, version: int) -> None:
    store(version, 10 * VERSION[CUDA])


@double("cublasGetMathMode")
def _math_mode(handle: int, mode: int) -> None:
    store(mode, handle_of(handle).math_mode)


@double("cublasSetMathMode")
def _set_math_mode(handle: int, mode: int) -> None:
    handle_of(handle).math_mode = mode


@double("cublasSetStream")
def _set_stream(handle: int, streamId: int) -> None:
    handle_of(handle).stream = streamId


@double("cublasGetStream")
def _stream(handle: int, streamId: int) -> None:
    store(streamId, handle_of(handle).stream, ctypes.c_void_p)


# ---------------------------------------------------------------- products


def widened(a: Array, kind: int, compute: Any) -> Array:
    if kind == BFLOAT16:
        return (a.astype(np.uint32) << 16).view(np.float32).astype(compute)
    return a.astype(np.result_type(a.dtype, compute) if a.dtype.kind == "c" else compute)


def narrowed(a: Array, kind: int) -> Array:
    if kind == BFLOAT16:  # to nearest, ties to even
        bits = np.ascontiguousarray(a, np.float32).view(np.uint32)
        return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)
    return a


def compute_type(kind: int, c_kind: int) -> Any:
    """The dtype of the computation and its scalars."""
    if kind not in COMPUTE:
        raise Misuse(f"compute type {kind}")
    t = np.dtype(COMPUTE[kind])
    if c_kind in (4, 5):
        t = np.dtype(np.complex64 if t == np.float32 else np.complex128)
    return t


def multiply(
    h: Handle, operations: tuple[int, int], scalars: tuple[int, int],
    kinds: tuple[int, int, int], compute: Any, matrices: list[tuple[Array, Array, Array]],
) -> None:  # fmt: skip
    """Queues c = alpha * op(a) @ op(b) + beta * c for each (a, b, c)."""
    alpha, beta = (host_value(p, compute) for p in scalars)

    def product(a: Array, b: Array) -> Array:
        left = oriented(widened(a, kinds[0], compute), operations[0])
        return left @ oriented(widened(b, kinds[1], compute), operations[1])

    def work() -> None:
        for a, b, c in matrices:
            old = widened(c, kinds[2], compute)
            combine(old, partial(product, a, b), alpha, beta)
            c[...] = narrowed(old, kinds[2])

    queue(h.stream, work)


KIND = {np.dtype(v): k for k, v in DATA_TYPES.items() if k != BFLOAT16}


def three(
    t: tuple[Any, Any, Any], operations: tuple[int, int], sizes: tuple[int, int, int],
    places: tuple[int, int, int], leading: tuple[int, int, int], device: int | None = None,
) -> tuple[Array, Array, Array]:  # fmt: skip
    m, n, k = sizes
    return (
        operand(places[0], t[0], operations[0], m, k, leading[0], device),
        operand(places[1], t[1], operations[1], k, n, leading[1], device),
        matrix(places[2], t[2], m, n, leading[2], device),
    )


@double("cublas{t}gemm", "SDCZ")
def _gemm(
    t: Any, handle: int, transa: int, transb: int, m: int, n: int, k: int, alpha: int, A: int,
    lda: int, B: int, ldb: int, beta: int, C: int, ldc: int,
) -> None:  # fmt: skip
    operations, sizes = (transa, transb), (m, n, k)
    one = three((t, t, t), operations, sizes, (A, B, C), (lda, ldb, ldc))
    multiply(handle_of(handle), operations, (alpha, beta), (KIND[t],) * 3, t, [one])


@double("cublas{t}gemmBatched", "SDCZ")
def _gemm_batched(
    t: Any, handle: int, transa: int, transb: int, m: int, n: int, k: int, alpha: int,
    Aarray: int, lda: int, Barray: int, ldb: int, beta: int, Carray: int, ldc: int,
    batchCount: int,
) -> None:  # fmt: skip
    h = handle_of(handle)
    places = [array(p, np.uintp, batchCount) for p in (Aarray, Barray, Carray)]
    first, second = host_value(alpha, t), host_value(beta, t)

    def product(a: Array, b: Array) -> Array:
        return oriented(a, transa) @ oriented(b, transb)

    def work() -> None:
        for one in zip(*(p.tolist() for p in places)):
            a, b, c = three(
                (t, t, t), (transa, transb), (m, n, k), one, (lda, ldb, ldc), h.device
            )  # fmt: skip
            combine(c, partial(product, a, b), first, second)

    queue(h.stream, work)


@double("cublasSgemmEx")
def _sgemm_ex(
    handle: int, transa: int, transb: int, m: int, n: int, k: int, alpha: int, A: int,
    Atype: int, lda: int, B: int, Btype: int, ldb: int, beta: int, C: int, Ctype: int, ldc: int,
) -> None:  # fmt: skip
    _gemm_ex(
        handle, transa, transb, m, n, k, alpha, A, Atype, lda, B, Btype, ldb, beta, C, Ctype,
        ldc, 68, -1,
    )  # fmt: skip


@double("cublasGemmEx")
def _gemm_ex(
    handle: int, transa: int, transb: int, m: int, n: int, k: int, alpha: int, A: int,
    Atype: int, lda: int, B: int, Btype: int, ldb: int, beta: int, C: int, Ctype: int, ldc: int,
    computetype: int, algo: int,
) -> None:  # fmt: skip
    _gemm_strided_batched_ex(
        handle, transa, transb, m, n, k, alpha, A, Atype, lda, 0, B, Btype, ldb, 0, beta, C,
        Ctype, ldc, 0, 1, computetype, algo,
    )  # fmt: skip


@double("cublasGemmStridedBatchedEx")
def _gemm_strided_batched_ex(
    handle: int, transa: int, transb: int, m: int, n: int, k: int, alpha: int, A: int,
    Atype: int, lda: int, strideA: int, B: int, Btype: int, ldb: int, strideB: int, beta: int,
    C: int, Ctype: int, ldc: int, strideC: int, batchCount: int, computetype: int, algo: int,
) -> None:  # fmt: skip
    kinds = (Atype, Btype, Ctype)
    if unknown := [kind for kind in kinds if kind not in DATA_TYPES]:
        raise Misuse(f"data types {unknown}")
    t = tuple(np.dtype(DATA_TYPES[kind]) for kind in kinds)
    steps = [s * d.itemsize for s, d in zip((strideA, strideB, strideC), t)]
    all_ = [
        three(
            (t[0], t[1], t[2]), (transa, transb), (m, n, k),
            (A + i * steps[0], B + i * steps[1], C + i * steps[2]), (lda, ldb, ldc),
        )
        for i in range(batchCount)
    ]  # fmt: skip
    compute = compute_type(computetype, Ctype)
    h = handle_of(handle)
    multiply(h, (transa, transb), (alpha, beta), kinds, compute, all_)


# ---------------------------------------------------------------- LU


def batch(h: Handle, t: Any, places: Array, n: int, leading: int, columns: int = 0) -> list[Array]:
    """Matrices whose addresses are on the device; for queued work: work before may write them."""
    return [matrix(p, t, n, columns or n, leading, h.device) for p in places.tolist()]


@double("cublas{t}getrfBatched", "SDCZ")
def _getrf_batched(
    t: Any, handle: int, n: int, Aarray: int, lda: int, PivotArray: int, infoArray: int,
    batchSize: int,
) -> None:  # fmt: skip
    h = handle_of(handle)
    places = array(Aarray, np.uintp, batchSize)
    if not PivotArray:
        raise Misuse("LU factors without pivots")
    pivots = array(PivotArray, np.int32, batchSize * n).reshape(batchSize, n)
    info = array(infoArray, np.int32, batchSize)
    getrf = linalg.get_lapack_funcs("getrf", dtype=t)

    def work() -> None:
        for i, a in enumerate(batch(h, t, places, n, lda)):
            a[...], order, info[i] = getrf(a)
            pivots[i] = order + 1

    queue(h.stream, work)


@double("cublas{t}getrsBatched", "SDCZ")
def _getrs_batched(
    t: Any, handle: int, trans: int, n: int, nrhs: int, Aarray: int, lda: int, devIpiv: int,
    Barray: int, ldb: int, info: int, batchSize: int,
) -> None:  # fmt: skip
    h = handle_of(handle)
    places = array(Aarray, np.uintp, batchSize), array(Barray, np.uintp, batchSize)
    pivots = array(devIpiv, np.int32, batchSize * n).reshape(batchSize, n)
    getrs = linalg.get_lapack_funcs("getrs", dtype=t)
    store(info, 0)

    def work() -> None:
        right = batch(h, t, places[1], n, ldb, nrhs)
        for a, b, order in zip(batch(h, t, places[0], n, lda), right, pivots):
            b[...] = getrs(a, order - 1, b, trans=trans)[0]

    queue(h.stream, work)


@double("cublas{t}getriBatched", "SDCZ")
def _getri_batched(
    t: Any, handle: int, n: int, Aarray: int, lda: int, PivotArray: int, Carray: int, ldc: int,
    infoArray: int, batchSize: int,
) -> None:  # fmt: skip
    h = handle_of(handle)
    places = array(Aarray, np.uintp, batchSize), array(Carray, np.uintp, batchSize)
    pivots = array(PivotArray, np.int32, batchSize * n).reshape(batchSize, n)
    info = array(infoArray, np.int32, batchSize)
    getri = linalg.get_lapack_funcs("getri", dtype=t)

    def work() -> None:
        targets = batch(h, t, places[1], n, ldc)
        for i, (a, c) in enumerate(zip(batch(h, t, places[0], n, lda), targets)):
            c[...], info[i] = getri(a, pivots[i] - 1)

    queue(h.stream, work)
