"""A double of cuBLAS: the functions that CuPy links with, by NumPy.

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
    DTYPES,
    REAL,
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
    vector,
)
from tests.cuda.standin.install import device_library

INVALID_VALUE = 7
OP_N, OP_T, OP_C = range(3)
LEFT, LOWER, UNIT = 0, 0, 1
BFLOAT16 = 14
# cudaDataType_t -> dtype; bfloat16 is computed in float32 (widened, narrowed).
DATA_TYPES: dict[int, Any] = {0: "f4", 1: "f8", 2: "f2", 3: "i1", 4: "c8", 5: "c16", 8: "u1"}
DATA_TYPES |= {10: "i4", 12: "u4", BFLOAT16: "u2"}
# cublasComputeType_t -> dtype of the computation.
COMPUTE: dict[int, Any] = {64: "f2", 65: "f2", 68: "f4", 69: "f4", 74: "f4", 75: "f4", 77: "f4"}
COMPUTE |= {70: "f8", 71: "f8", 72: "i4", 73: "i4"}


def install() -> None:
    attach("cublas", "cupy_backends/cuda/libs/cublas", INVALID_VALUE)


def reads_scalar(handle: Handle, pointer: int, dtype: Any) -> Callable[[], Any]:
    """A scalar argument: read now from the host, or when the work is done from the device."""
    if handle.pointer_mode:
        place = array(pointer, dtype, 1)
        return lambda: place[0]
    value = host_value(pointer, dtype)
    return lambda: value


def returns_scalar(handle: Handle, pointer: int, dtype: Any, compute: Callable[[], Any]) -> None:
    """A scalar result: queued to the device, or waited for and written to the host."""
    if handle.pointer_mode:
        place = array(pointer, dtype, 1)
    else:
        dtype = np.dtype(dtype)
        place = np.frombuffer((ctypes.c_char * dtype.itemsize).from_address(pointer), dtype)

    def work() -> None:
        place[0] = compute()

    queue(handle.stream, work)
    if not handle.pointer_mode:
        device_library().cudaStreamSynchronize(ctypes.c_void_p(handle.stream))


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


@double("cublasGetPointerMode")
def _pointer_mode(handle: int, mode: int) -> None:
    store(mode, handle_of(handle).pointer_mode)


@double("cublasSetPointerMode")
def _set_pointer_mode(handle: int, mode: int) -> None:
    handle_of(handle).pointer_mode = mode


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


# ---------------------------------------------------------------- level 1


def _size(x: Array) -> Array:
    return abs(x.real) + abs(x.imag)


def _index(letter: str, name: str, choose: Any) -> None:
    t = DTYPES[letter.upper()]

    @double(f"cublasI{letter}{name}")
    def index(handle: int, n: int, x: int, incx: int, result: int) -> None:
        _extreme(t, choose, handle, n, x, incx, result)


for _letter in "sdcz":
    _index(_letter, "amax", np.argmax)
    _index(_letter, "amin", np.argmin)


def _extreme(t: Any, choose: Any, handle: int, n: int, x: int, incx: int, result: int) -> None:
    v = vector(x, t, n, incx)
    h = handle_of(handle)
    returns_scalar(h, result, np.int32, lambda: 1 + choose(_size(v)) if n > 0 else 0)


@double("cublas{t}asum", "SD")
def _asum(t: Any, handle: int, n: int, x: int, incx: int, result: int) -> None:
    v = vector(x, t, n, incx)
    returns_scalar(handle_of(handle), result, REAL.get(t, t), lambda: _size(v).sum())


@double("cublasScasum")
def _scasum(handle: int, n: int, x: int, incx: int, result: int) -> None:
    _asum(np.dtype(np.complex64), handle, n, x, incx, result)


@double("cublasDzasum")
def _dzasum(handle: int, n: int, x: int, incx: int, result: int) -> None:
    _asum(np.dtype(np.complex128), handle, n, x, incx, result)


@double("cublas{t}nrm2", "SD")
def _nrm2(t: Any, handle: int, n: int, x: int, incx: int, result: int) -> None:
    v = vector(x, t, n, incx)
    returns_scalar(handle_of(handle), result, REAL.get(t, t), lambda: np.linalg.norm(v))


@double("cublasScnrm2")
def _scnrm2(handle: int, n: int, x: int, incx: int, result: int) -> None:
    _nrm2(np.dtype(np.complex64), handle, n, x, incx, result)


@double("cublasDznrm2")
def _dznrm2(handle: int, n: int, x: int, incx: int, result: int) -> None:
    _nrm2(np.dtype(np.complex128), handle, n, x, incx, result)


@double("cublas{t}axpy", "SDCZ")
def _axpy(t: Any, handle: int, n: int, alpha: int, x: int, incx: int, y: int, incy: int) -> None:
    h = handle_of(handle)
    v, w, a = vector(x, t, n, incx), vector(y, t, n, incy), reads_scalar(h, alpha, t)

    def work() -> None:
        w[...] += a() * v

    queue(h.stream, work)


@double("cublas{t}dotu", "CZ")
@double("cublas{t}dot", "SD")
def _dot(t: Any, handle: int, n: int, x: int, incx: int, y: int, incy: int, result: int) -> None:
    v, w = vector(x, t, n, incx), vector(y, t, n, incy)
    returns_scalar(handle_of(handle), result, t, lambda: v @ w)


@double("cublas{t}dotc", "CZ")
def _dotc(t: Any, handle: int, n: int, x: int, incx: int, y: int, incy: int, result: int) -> None:
    v, w = vector(x, t, n, incx), vector(y, t, n, incy)
    returns_scalar(handle_of(handle), result, t, lambda: v.conj() @ w)


def _scale(t: Any, s: Any, handle: int, n: int, alpha: int, x: int, incx: int) -> None:
    h = handle_of(handle)
    v, a = vector(x, t, n, incx), reads_scalar(h, alpha, s)

    def work() -> None:
        v[...] = a() * v

    queue(h.stream, work)


@double("cublas{t}scal", "SDCZ")
def _scal(t: Any, handle: int, n: int, alpha: int, x: int, incx: int) -> None:
    _scale(t, t, handle, n, alpha, x, incx)


@double("cublasCsscal")
def _csscal(handle: int, n: int, alpha: int, x: int, incx: int) -> None:
    _scale(np.complex64, np.float32, handle, n, alpha, x, incx)


@double("cublasZdscal")
def _zdscal(handle: int, n: int, alpha: int, x: int, incx: int) -> None:
    _scale(np.complex128, np.float64, handle, n, alpha, x, incx)


# ---------------------------------------------------------------- level 2


@double("cublas{t}gemv", "SDCZ")
def _gemv(
    t: Any, handle: int, trans: int, m: int, n: int, alpha: int, A: int, lda: int, x: int,
    incx: int, beta: int, y: int, incy: int,
) -> None:  # fmt: skip
    h = handle_of(handle)
    inner, outer = (n, m) if trans == OP_N else (m, n)
    a, v, w = matrix(A, t, m, n, lda), vector(x, t, inner, incx), vector(y, t, outer, incy)
    first, second = reads_scalar(h, alpha, t), reads_scalar(h, beta, t)
    queue(h.stream, lambda: combine(w, lambda: oriented(a, trans) @ v, first(), second()))


@double("cublas{t}geru", "CZ")
@double("cublas{t}ger", "SD")
def _ger(
    t: Any, handle: int, m: int, n: int, alpha: int, x: int, incx: int, y: int, incy: int,
    A: int, lda: int,
) -> None:  # fmt: skip
    h = handle_of(handle)
    v, w, a = vector(x, t, m, incx), vector(y, t, n, incy), matrix(A, t, m, n, lda)
    factor = reads_scalar(h, alpha, t)

    def work() -> None:
        a[...] += factor() * np.outer(v, w)

    queue(h.stream, work)


@double("cublas{t}gerc", "CZ")
def _gerc(
    t: Any, handle: int, m: int, n: int, alpha: int, x: int, incx: int, y: int, incy: int,
    A: int, lda: int,
) -> None:  # fmt: skip
    h = handle_of(handle)
    v, w, a = vector(x, t, m, incx), vector(y, t, n, incy), matrix(A, t, m, n, lda)
    factor = reads_scalar(h, alpha, t)

    def work() -> None:
        a[...] += factor() * np.outer(v, w.conj())

    queue(h.stream, work)


@double("cublas{t}sbmv", "SD")
def _sbmv(
    t: Any, handle: int, uplo: int, n: int, k: int, alpha: int, A: int, lda: int, x: int,
    incx: int, beta: int, y: int, incy: int,
) -> None:  # fmt: skip
    h = handle_of(handle)
    bands = matrix(A, t, k + 1, n, lda)
    v, w = vector(x, t, n, incx), vector(y, t, n, incy)
    first, second = reads_scalar(h, alpha, t), reads_scalar(h, beta, t)

    def product() -> Array:
        whole = np.zeros((n, n), t)
        for d in range(min(k + 1, n)):
            band = bands[d, : n - d] if uplo == LOWER else bands[k - d, d:]
            whole += np.diag(band, -d) + (np.diag(band, d) if d else 0)
        return whole @ v

    queue(h.stream, lambda: combine(w, product, first(), second()))


# ---------------------------------------------------------------- level 3


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
    alpha, beta = (reads_scalar(h, p, compute) for p in scalars)

    def product(a: Array, b: Array) -> Array:
        left = oriented(widened(a, kinds[0], compute), operations[0])
        return left @ oriented(widened(b, kinds[1], compute), operations[1])

    def work() -> None:
        for a, b, c in matrices:
            old = widened(c, kinds[2], compute)
            combine(old, partial(product, a, b), alpha(), beta())
            c[...] = narrowed(old, kinds[2])

    queue(h.stream, work)


KIND = {np.dtype(v): k for k, v in DATA_TYPES.items() if k != BFLOAT16}


def same_kinds(t: Any) -> tuple[int, int, int]:
    return (KIND[t],) * 3


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
    multiply(handle_of(handle), operations, (alpha, beta), same_kinds(t), t, [one])


@double("cublas{t}gemmStridedBatched", "SDCZ")
def _gemm_strided_batched(
    t: Any, handle: int, transa: int, transb: int, m: int, n: int, k: int, alpha: int, A: int,
    lda: int, strideA: int, B: int, ldb: int, strideB: int, beta: int, C: int, ldc: int,
    strideC: int, batchCount: int,
) -> None:  # fmt: skip
    operations, sizes, item = (transa, transb), (m, n, k), t.itemsize
    all_ = [
        three(
            (t, t, t), operations, sizes,
            (A + i * strideA * item, B + i * strideB * item, C + i * strideC * item),
            (lda, ldb, ldc),
        )
        for i in range(batchCount)
    ]  # fmt: skip
    multiply(handle_of(handle), operations, (alpha, beta), same_kinds(t), t, all_)


@double("cublas{t}gemmBatched", "SDCZ")
def _gemm_batched(
    t: Any, handle: int, transa: int, transb: int, m: int, n: int, k: int, alpha: int,
    Aarray: int, lda: int, Barray: int, ldb: int, beta: int, Carray: int, ldc: int,
    batchCount: int,
) -> None:  # fmt: skip
    h = handle_of(handle)
    places = [array(p, np.uintp, batchCount) for p in (Aarray, Barray, Carray)]
    first, second = reads_scalar(h, alpha, t), reads_scalar(h, beta, t)

    def product(a: Array, b: Array) -> Array:
        return oriented(a, transa) @ oriented(b, transb)

    def work() -> None:
        for one in zip(*(p.tolist() for p in places)):
            a, b, c = three(
                (t, t, t), (transa, transb), (m, n, k), one, (lda, ldb, ldc), h.device
            )  # fmt: skip
            combine(c, partial(product, a, b), first(), second())

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


def solve_triangular(
    a: Array, b: Array, size: int, uplo: int, trans: int, diag: int, alpha: Any
) -> None:
    """b = alpha * inv(op(a)) @ b, or b @ inv(op(a)) from the right."""
    options = {"lower": uplo == LOWER, "unit_diagonal": diag == UNIT, "check_finite": False}
    if size == LEFT:
        b[...] = linalg.solve_triangular(a, alpha * b, trans=trans, **options)
    else:
        flipped = linalg.solve_triangular(
            a.conj() if trans == OP_C else a,
            (alpha * b).T,
            trans=OP_T if trans == OP_N else OP_N,
            **options,
        )
        b[...] = flipped.T


@double("cublas{t}trsm", "SDCZ")
def _trsm(
    t: Any, handle: int, size: int, uplo: int, trans: int, diag: int, m: int, n: int,
    alpha: int, A: int, lda: int, B: int, ldb: int,
) -> None:  # fmt: skip
    h = handle_of(handle)
    order = m if size == LEFT else n
    a, b = matrix(A, t, order, order, lda), matrix(B, t, m, n, ldb)
    factor = reads_scalar(h, alpha, t)
    queue(h.stream, lambda: solve_triangular(a, b, size, uplo, trans, diag, factor()))


@double("cublas{t}trsmBatched", "SDCZ")
def _trsm_batched(
    t: Any, handle: int, size: int, uplo: int, trans: int, diag: int, m: int, n: int,
    alpha: int, A: int, lda: int, B: int, ldb: int, batchCount: int,
) -> None:  # fmt: skip
    h = handle_of(handle)
    order = m if size == LEFT else n
    places = array(A, np.uintp, batchCount), array(B, np.uintp, batchCount)
    factor = reads_scalar(h, alpha, t)

    def work() -> None:
        for p, q in zip(places[0].tolist(), places[1].tolist()):
            a = matrix(p, t, order, order, lda, h.device)
            b = matrix(q, t, m, n, ldb, h.device)
            solve_triangular(a, b, size, uplo, trans, diag, factor())

    queue(h.stream, work)


@double("cublas{t}syrk", "SDCZ")
def _syrk(
    t: Any, handle: int, uplo: int, trans: int, n: int, k: int, alpha: int, A: int, lda: int,
    beta: int, C: int, ldc: int,
) -> None:  # fmt: skip
    h = handle_of(handle)
    a, c = operand(A, t, trans, n, k, lda), matrix(C, t, n, n, ldc)
    first, second = reads_scalar(h, alpha, t), reads_scalar(h, beta, t)
    triangle = np.tri(n, dtype=bool) if uplo == LOWER else np.tri(n, dtype=bool).T

    def work() -> None:
        whole = np.where(triangle, c, 0)
        b = oriented(a, trans)
        combine(whole, lambda: b @ b.T, first(), second())
        c[triangle] = whole[triangle]

    queue(h.stream, work)


# ---------------------------------------------------------------- extensions


@double("cublas{t}geam", "SDCZ")
def _geam(
    t: Any, handle: int, transa: int, transb: int, m: int, n: int, alpha: int, A: int, lda: int,
    beta: int, B: int, ldb: int, C: int, ldc: int,
) -> None:  # fmt: skip
    h = handle_of(handle)
    first, second = reads_scalar(h, alpha, t), reads_scalar(h, beta, t)
    c = matrix(C, t, m, n, ldc)
    # Without its pointer, a matrix is multiplied by 0 and not read.
    a = operand(A, t, transa, m, n, lda) if A else None
    b = operand(B, t, transb, m, n, ldb) if B else None

    def work() -> None:
        result = np.zeros((m, n), t)
        for x, operation, factor in ((a, transa, first()), (b, transb, second())):
            if x is not None and factor != 0:
                result += factor * oriented(x, operation)
        c[...] = result

    queue(h.stream, work)


@double("cublas{t}dgmm", "SDCZ")
def _dgmm(
    t: Any, handle: int, mode: int, m: int, n: int, A: int, lda: int, x: int, incx: int, C: int,
    ldc: int,
) -> None:  # fmt: skip
    a, c = matrix(A, t, m, n, lda), matrix(C, t, m, n, ldc)
    v = vector(x, t, m if mode == LEFT else n, incx)

    def work() -> None:
        c[...] = v[:, None] * a if mode == LEFT else a * v

    queue(handle_of(handle).stream, work)


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


@double("cublas{t}tpttr", "SD")
def _tpttr(t: Any, handle: int, uplo: int, n: int, AP: int, A: int, lda: int) -> None:
    packed, a = array(AP, t, n * (n + 1) // 2), matrix(A, t, n, n, lda)

    def work() -> None:
        a.T[triangle_of(uplo, n)] = packed

    queue(handle_of(handle).stream, work)


@double("cublas{t}trttp", "SD")
def _trttp(t: Any, handle: int, uplo: int, n: int, A: int, lda: int, AP: int) -> None:
    packed, a = array(AP, t, n * (n + 1) // 2), matrix(A, t, n, n, lda)

    def work() -> None:
        packed[...] = a.T[triangle_of(uplo, n)]

    queue(handle_of(handle).stream, work)


def triangle_of(uplo: int, n: int) -> tuple[Array, Array]:
    """Indices (column, row) of a triangle, column by column."""
    columns, rows = np.triu_indices(n) if uplo == LOWER else np.tril_indices(n)
    return columns, rows
