"""Doubles of cuSOLVER's solvers with iterative refinement: gesv and gels of two precisions.

The first letter of a name is the dtype of the matrices, the second one the precision in which they
are factored: H and K half, X and Y TF32, S and C single, D and Z double.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import linalg

from tests.cuda.standin.doubles.library import (
    Array,
    Misuse,
    array,
    buffer_sizes,
    double,
    handle_of,
    matrix,
    queue,
    store,
)
from tests.cuda.standin.install import device_library

PAIRS = (
    ("ZZ", "ZC", "ZY", "ZK", "CC", "CY", "CK", "DD", "DS", "DX", "DH", "SS", "SX", "SH")
)  # fmt: skip
BITS = {"H": 10, "K": 10, "X": 10, "Y": 10, "S": 23, "C": 23}  # of the mantissa
LIMIT = {"H": 65504.0, "K": 65504.0}
MAX_ITERATIONS = 50

buffer_sizes("cusolverDn{t}gesv", PAIRS)
buffer_sizes("cusolverDn{t}gels", PAIRS)


def rounded(a: Array, precision: str) -> Array:
    """`a` as the precision keeps it; infinite beyond its range."""
    if a.dtype.kind == "c":
        return np.asarray(rounded(a.real, precision) + 1j * rounded(a.imag, precision), a.dtype)
    if precision not in BITS:
        return a
    mantissa, exponent = np.frexp(a)
    scale = 2.0 ** (BITS[precision] + 1)
    result = np.ldexp(np.rint(mantissa * scale) / scale, exponent)
    infinite = np.abs(result) > LIMIT.get(precision, np.inf)
    return np.where(infinite, np.copysign(np.inf, a), result).astype(a.dtype)


def refine(a: Array, b: Array, solve: Callable[[Array], Array]) -> tuple[Array, int]:
    """A solution of a @ x = b by a rough `solve`, and the number of its refinements.

    The number is -1 if it does not converge.
    """
    epsilon = np.finfo(a.dtype).eps * np.sqrt(a.shape[0])
    x = solve(b)
    for number in range(MAX_ITERATIONS):
        residual = b - a @ x
        bound = epsilon * np.abs(a).sum(1).max(initial=0) * np.abs(x).max(initial=0)
        if np.abs(residual).max(initial=0) <= bound:
            return x, number
        if not np.isfinite(residual).all():
            break
        x = x + solve(residual)
    return x, -1


def queue_and_store(handle: int, iteration: int, work: Callable[[], int]) -> None:
    """Queues work whose result is the number of refinements, which the host waits for."""
    h = handle_of(handle)
    numbers: list[int] = []
    queue(h.stream, lambda: numbers.append(work()))
    device_library().cudaStreamSynchronize(ctypes.c_void_p(h.stream))
    store(iteration, numbers[0])


@double("cusolverDn{t}gesv", PAIRS)
def _gesv(
    t: Any, precision: str, handle: int, n: int, nrhs: int, dA: int, ldda: int, dipiv: int,
    dB: int, lddb: int, dX: int, lddx: int, dWorkspace: int, lwork_bytes: int, iter: int,
    dInfo: int,
) -> None:  # fmt: skip
    a = matrix(dA, t, n, n, ldda)
    b, x = matrix(dB, t, n, nrhs, lddb), matrix(dX, t, n, nrhs, lddx)
    pivots, info = array(dipiv, np.int32, n), array(dInfo, np.int32, 1)
    array(dWorkspace, np.uint8, lwork_bytes)
    getrf, getrs = linalg.get_lapack_funcs(("getrf", "getrs"), dtype=t)

    def factor(of: Array) -> tuple[Array, Array]:
        lu, order, info[0] = getrf(of)
        pivots[:] = order + 1
        return lu, order

    def work() -> int:
        rough = rounded(a, precision)
        number = -1
        if np.isfinite(rough).all():
            lu, order = factor(rough)
            if info[0] == 0:
                x[...], number = refine(a, b, lambda r: getrs(lu, order, r)[0])
        if number < 0:  # in the matrix's own precision
            a[...], order = factor(a)
            if info[0]:
                return -3
            x[...] = getrs(a, order, b)[0]
            return -MAX_ITERATIONS if precision in BITS and t.char.upper() != "F" else 0
        return number

    queue_and_store(handle, iter, work)


@double("cusolverDn{t}gels", PAIRS)
def _gels(
    t: Any, precision: str, handle: int, m: int, n: int, nrhs: int, dA: int, ldda: int, dB: int,
    lddb: int, dX: int, lddx: int, dWorkspace: int, lwork_bytes: int, iter: int, dInfo: int,
) -> None:  # fmt: skip
    """Computed in the matrix's own precision, whatever the second letter says."""
    if m < n:
        raise Misuse(f"m >= n is needed: {m}, {n}")
    a, b = matrix(dA, t, m, n, ldda), matrix(dB, t, m, nrhs, lddb)
    x, info = matrix(dX, t, n, nrhs, lddx), array(dInfo, np.int32, 1)
    array(dWorkspace, np.uint8, lwork_bytes)

    def work() -> int:
        q, r = np.linalg.qr(a)
        zeros = np.flatnonzero(np.diag(r) == 0)
        info[0] = zeros[0] + 1 if zeros.size else 0
        if info[0]:
            return -3
        x[...] = linalg.solve_triangular(r, q.conj().T @ b, check_finite=False)
        return int(precision in BITS)

    queue_and_store(handle, iter, work)
