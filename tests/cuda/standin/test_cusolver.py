"""cuSOLVER's double beyond NumPy's own functions: eig, refinement, L D L^T, bidiagonal, gesvda."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.cuda.standin.fixtures import Misuses

DTYPES = ["float32", "float64", "complex64", "complex128"]
LETTERS = dict(zip(DTYPES, "sdcz"))
RNG = np.random.default_rng(0)


def values(dtype: str, *shape: int) -> Any:
    x = RNG.standard_normal(shape)
    return (x + 1j * RNG.standard_normal(shape) if dtype[0] == "c" else x).astype(dtype)


def close(result: Any, expected: Any) -> None:
    rough = np.asarray(expected).dtype in (np.float32, np.complex64)
    result = result.get() if hasattr(result, "get") else result
    np.testing.assert_allclose(result, expected, *((5e-3, 1e-3) if rough else (1e-8, 1e-9)))


def call(cp: Any, dtype: str, name: str, *arguments: Any) -> None:
    """A function of CuPy's cuSOLVER module, with its workspace and info; arrays are addresses."""
    from cupy_backends.cuda.libs import cusolver

    places = [a.data.ptr if isinstance(a, cp.ndarray) else a for a in arguments]
    work, info = cp.empty(64, dtype), cp.ones(1, np.int32)
    function = getattr(cusolver, LETTERS[dtype] + name)
    function(cp.cuda.device.get_cusolver_handle(), *places, work.data.ptr, 64, info.data.ptr)
    assert int(info[0]) == 0


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("batch", [(), (2, 2)])
def test_eigenvalues_of_any_matrix(cp: Any, dtype: str, batch: tuple[int, ...]) -> None:
    x = values(dtype, *batch, 5, 5)
    w, v = cp.linalg.eig(cp.asarray(x))
    assert w.dtype == v.dtype == np.result_type(x.dtype, np.complex64)
    close(x @ v.get(), v.get() * w.get()[..., None, :])
    close(np.sort_complex(cp.linalg.eigvals(cp.asarray(x)).get()), np.sort_complex(w.get()))
    close(np.sort_complex(w.get()), np.sort_complex(np.linalg.eigvals(x)).astype(w.dtype))


@pytest.mark.parametrize("compute_type", ["FP16", "TF32", "FP32", "DEFAULT"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_refinement_gives_the_accuracy_of_the_matrix(
    cp: Any, dtype: str, compute_type: str
) -> None:
    from cupy._core import _routines_linalg as linalg
    from cupyx import cusolver

    before = linalg.get_compute_type(np.dtype(dtype))
    a = values(dtype, 6, 6) + 6 * np.eye(6, dtype=dtype)
    b, tall = values(dtype, 6, 2), values(dtype, 6, 3)
    linalg.set_compute_type(np.dtype(dtype), getattr(linalg, f"COMPUTE_TYPE_{compute_type}"))
    try:
        x = cusolver.gesv(cp.asarray(a), cp.asarray(b))
        y = cusolver.gels(cp.asarray(tall), cp.asarray(b))
    finally:
        linalg.set_compute_type(np.dtype(dtype), before)
    close(x, np.linalg.solve(a, b))
    close(y, np.linalg.lstsq(tall, b, rcond=None)[0])


def test_what_half_precision_cannot_hold_is_solved_in_full(cp: Any) -> None:
    from cupy_backends.cuda.libs import cusolver

    n, a = 3, np.diag([1e6, 1.0, 2.0])  # 1e6 is infinite in float16
    A, B = cp.asarray(a, order="F"), cp.ones(n)
    X, pivots, info = cp.empty(n), cp.empty(n, np.int32), cp.empty(1, np.int32)
    handle, work = cp.cuda.device.get_cusolver_handle(), cp.empty(64, np.uint8)
    places = [p.data.ptr for p in (A, pivots, B, X, work, info)]
    iterations = cusolver.dhgesv(
        handle, n, 1, places[0], n, places[1], places[2], n, places[3], n, places[4], 64, places[5]
    )
    assert iterations < 0
    np.testing.assert_allclose(X.get(), [1e-6, 1, 0.5])


def test_a_singular_matrix_is_told(cp: Any) -> None:
    from cupyx import cusolver

    with pytest.raises(RuntimeError, match="gesv has failed"):
        cusolver.gesv(cp.zeros((3, 3)), cp.ones(3))


@pytest.mark.parametrize("lower", [True, False])
@pytest.mark.parametrize("dtype", DTYPES)
def test_symmetric_indefinite_factors(cp: Any, dtype: str, lower: bool) -> None:
    from scipy import linalg

    x = values(dtype, 5, 5)
    x = x + x.T
    a, pivots = cp.asarray(x, order="F"), cp.empty(5, np.int32)
    call(cp, dtype, "sytrf", int(not lower), 5, a, 5, pivots)
    sytrs = linalg.get_lapack_funcs("sytrs", dtype=x.dtype)
    b = values(dtype, 5, 2)
    solution, info = sytrs(a.get(), pivots.get(), b, lower=lower)
    assert info == 0
    close(solution, np.linalg.solve(x, b))


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_bidiagonal_matrix_has_the_singular_values(cp: Any, dtype: str) -> None:
    x = values(dtype, 6, 4)
    real = np.zeros(1, dtype).real.dtype
    a, d, e = cp.asarray(x, order="F"), cp.empty(4, real), cp.empty(3, real)
    q, p = cp.empty(4, dtype), cp.empty(4, dtype)
    call(cp, dtype, "gebrd", 6, 4, a, 6, d, e, q, p)
    bidiagonal = np.diag(d.get()) + np.diag(e.get(), 1)
    close(np.linalg.svd(bidiagonal, compute_uv=False), np.linalg.svd(x, compute_uv=False))
    assert abs(q.get()).max() > 0


@pytest.mark.parametrize("dtype", DTYPES)
def test_batched_singular_values_of_tall_matrices(cp: Any, dtype: str) -> None:
    from cupyx import cusolver

    x = values(dtype, 3, 6, 4)
    u, s, v = (part.get() for part in cusolver.gesvda(cp.asarray(x)))
    close((u * s[:, None]) @ v.conj().swapaxes(1, 2), x)
    close(cusolver.gesvda(cp.asarray(x), compute_uv=False), np.linalg.svd(x, compute_uv=False))


def test_parameters_of_jacobis_methods_are_taken(cp: Any) -> None:
    from cupy_backends.cuda.libs import cusolver

    params, handle = cusolver.createGesvdjInfo(), cp.cuda.device.get_cusolver_handle()
    cusolver.xgesvdjSetTolerance(params, 1e-9)
    cusolver.xgesvdjSetMaxSweeps(params, 20)
    assert cusolver.xgesvdjGetResidual(handle, params) == 0
    assert cusolver.xgesvdjGetSweeps(handle, params) == 1
    cusolver.destroyGesvdjInfo(params)


def test_left_eigenvectors_are_refused(cp: Any, misuses: Misuses) -> None:
    from cupy_backends.cuda.libs import cusolver

    a, w, v = cp.eye(2), cp.empty(2, complex), cp.empty((2, 2))
    params, handle = cusolver.createParams(), cp.cuda.device.get_cusolver_handle()
    places = [p.data.ptr for p in (a, w, v)]
    work, info = cp.empty(64, np.uint8), cp.empty(1, np.int32)
    with pytest.raises(cusolver.CUSOLVERError, match="INVALID_VALUE"):
        cusolver.xgeev(
            handle, params, 1, 0, 2, 1, places[0], 2, 5, places[1], 1, places[2], 2, 1, places[2],
            2, 1, work.data.ptr, 64, 0, 0, info.data.ptr,
        )  # fmt: skip
    cusolver.destroyParams(params)
    assert misuses.expected == 0  # a library's refusal is no misuse of the device
