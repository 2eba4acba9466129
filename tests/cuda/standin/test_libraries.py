"""The doubles of cuBLAS, cuSOLVER and cuFFT under CuPy's own modules: values, lateness, misuse."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.cuda.standin.fixtures import Misuses
from tests.cuda.standin.program import run

RNG = np.random.default_rng(0)
DTYPES = ["float32", "float64", "complex64", "complex128"]


def values(dtype: str, *shape: int) -> Any:
    x = RNG.standard_normal(shape)
    return (x + 1j * RNG.standard_normal(shape) if dtype[0] == "c" else x).astype(dtype)


def square(dtype: str) -> Any:
    return (values(dtype, 4, 4) + 4 * np.eye(4)).astype(dtype)


def hermitian(xp: Any, x: Any) -> Any:
    return x @ x.conj().T


def rebuilt_svd(xp: Any, x: Any) -> Any:
    u, s, vh = xp.linalg.svd(x, full_matrices=False)
    return (u * s) @ vh


def rebuilt_eigh(xp: Any, x: Any) -> Any:
    w, v = xp.linalg.eigh(hermitian(xp, x))
    return (v * w) @ v.conj().T


def rebuilt_qr(xp: Any, x: Any) -> Any:
    q, r = xp.linalg.qr(x)
    return q @ r


LINALG: dict[str, Callable[[Any, Any], Any]] = {
    "matmul": lambda xp, x: x @ x,
    "matmul, transposed": lambda xp, x: x.T @ x.conj(),
    "dot of vectors": lambda xp, x: xp.vdot(x[0], x[1]),
    "matrix and vector": lambda xp, x: x @ x[0],
    "outer": lambda xp, x: xp.outer(x[0], x[1]),
    "batched matmul": lambda xp, x: xp.stack([x, x]) @ xp.stack([x, 2 * x]),
    "norm": lambda xp, x: xp.linalg.norm(x),
    "inverse": lambda xp, x: xp.linalg.inv(x),
    "solve": lambda xp, x: xp.linalg.solve(x, x[:, :2]),
    "determinant": lambda xp, x: xp.linalg.det(x),
    "Cholesky": lambda xp, x: xp.linalg.cholesky(hermitian(xp, x)),
    "QR": lambda xp, x: rebuilt_qr(xp, x[:, :3]),
    "singular values": lambda xp, x: xp.linalg.svd(x, compute_uv=False),
    "SVD, wide": lambda xp, x: rebuilt_svd(xp, x[:3]),
    "SVD, tall": lambda xp, x: rebuilt_svd(xp, x[:, :3]),
    "eigh": rebuilt_eigh,
    "eigvalsh": lambda xp, x: xp.linalg.eigvalsh(hermitian(xp, x)),
    "pseudoinverse": lambda xp, x: xp.linalg.pinv(x),
    "batched inverse": lambda xp, x: xp.linalg.inv(xp.stack([x, 2 * x])),
    "batched singular values": lambda xp, x: xp.linalg.svd(xp.stack([x, 2 * x]))[1],
    "fft": lambda xp, x: xp.fft.fft(x),
    "ifft of an axis": lambda xp, x: xp.fft.ifft(x, axis=0),
    "fftn": lambda xp, x: xp.fft.fftn(x),
    "ifftn, one batch each": lambda xp, x: xp.fft.ifftn(x, axes=(1,)),
}
REAL: dict[str, Callable[[Any, Any], Any]] = {
    "rfft": lambda xp, x: xp.fft.rfft(x),
    "rfft of an axis": lambda xp, x: xp.fft.rfft(x, axis=0),
    "rfftn": lambda xp, x: xp.fft.rfftn(x),
    "irfft": lambda xp, x: xp.fft.irfft(xp.fft.rfft(x)),
    "irfftn": lambda xp, x: xp.fft.irfftn(xp.fft.rfftn(x)),
}


def compare(cp: Any, f: Callable[[Any, Any], Any], x: Any) -> None:
    result, expected = f(cp, cp.asarray(x)), np.asarray(f(np, x))
    single = np.dtype(x.dtype).name in ("float32", "complex64")
    tolerance = 1e-3 if single else 1e-9
    np.testing.assert_allclose(result.get(), expected, tolerance, tolerance)


@pytest.mark.parametrize("name", [name for name in LINALG if name != "determinant"])
def test_values(cp: Any, name: str) -> None:
    compare(cp, LINALG[name], square("float32"))


@pytest.mark.slow  # each has kernels of CuPy's to compile
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", LINALG)
def test_values_of_each_dtype(cp: Any, name: str, dtype: str) -> None:
    compare(cp, LINALG[name], square(dtype))


@pytest.mark.parametrize("name", REAL)
def test_real_transforms(cp: Any, name: str) -> None:
    compare(cp, REAL[name], square("float64"))


def test_half_precision_products_are_computed_in_single(cp: Any) -> None:
    x = (values("float32", 8, 300) * 8).astype(np.float16)
    result = (cp.asarray(x) @ cp.asarray(x).T).get()
    assert result.dtype == np.float16
    np.testing.assert_allclose(result, (x.astype("f4") @ x.T.astype("f4")), 1e-3)


def call(cp: Any, name: str, *arguments: Any) -> None:
    """A function of CuPy's cuBLAS module; arrays are their addresses."""
    from cupy_backends.cuda.libs import cublas

    places = [a.data.ptr if isinstance(a, cp.ndarray) else a for a in arguments]
    places = [a.ctypes.data if isinstance(a, np.ndarray) else a for a in places]
    getattr(cublas, name)(cp.cuda.device.get_cublas_handle(), *places)


def test_bfloat16_products_round_to_nearest(cp: Any) -> None:
    bfloat16 = 14
    x = values("float32", 4, 4)
    stored = (x.view(np.uint32) >> 16).astype(np.uint16)
    kept = (stored.astype(np.uint32) << 16).view(np.float32)
    a, c = cp.asarray(stored), cp.empty((4, 4), np.uint16)
    one, zero = np.ones(1, np.float32), np.zeros(1, np.float32)
    call(
        cp, "gemmEx", 0, 0, 4, 4, 4, one, a, bfloat16, 4, a, bfloat16, 4, zero, c, bfloat16, 4,
        68, -1,
    )  # fmt: skip
    result = (c.get().astype(np.uint32) << 16).view(np.float32)
    np.testing.assert_allclose(result, kept @ kept, 2**-8)


@pytest.mark.parametrize("side", [0, 1])
@pytest.mark.parametrize("trans", [0, 1, 2])
@pytest.mark.parametrize("uplo", [0, 1])
def test_triangular_solves(cp: Any, side: int, uplo: int, trans: int) -> None:
    x = square("complex128")
    a = np.tril(x) if uplo == 0 else np.triu(x)
    op = (a, a.T, a.conj().T)[trans]
    b = cp.asarray(np.asfortranarray(values("complex128", 4, 4)), order="F")
    before, alpha = b.get(), np.full(1, 2 + 1j)
    call(cp, "ztrsm", side, uplo, trans, 0, 4, 4, alpha, cp.asarray(a, order="F"), 4, b, 4)
    product = op @ b.get() if side == 0 else b.get() @ op
    np.testing.assert_allclose(product, alpha[0] * before, 1e-9, 1e-12)


def test_what_is_multiplied_by_zero_is_not_read(cp: Any) -> None:
    one, zero = np.ones(1), np.zeros(1)
    a, c = cp.ones((2, 2)), cp.full((2, 2), np.nan)
    call(cp, "dgemm", 0, 0, 2, 2, 2, one, a, 2, a, 2, zero, c, 2)
    assert (c.get() == 2).all()


@pytest.mark.usefixtures("no_background")
def test_the_work_is_late_and_ordered_by_its_stream(cp: Any) -> None:
    first, second = (cp.cuda.Stream(non_blocking=True) for _ in range(2))
    x, y = cp.ones((8, 8)), cp.ones((8, 8))
    cp.cuda.runtime.deviceSynchronize()
    wrong = 0
    for number in range(2, 42):
        with first:
            x.fill(number)
            product = x @ y
        assert not first.done
        with second:
            early = product.sum()
        second.synchronize()
        first.synchronize()
        with first:
            assert float(product.sum()) == 8 * 8 * 8 * number
        wrong += float(early) != 8 * 8 * 8 * number
    assert wrong > 0  # nothing ordered the second stream after the first


def test_short_memory_is_refused(cp: Any, misuses: Misuses) -> None:
    from cupy_backends.cuda.libs import cublas

    one, a = np.ones(1), cp.cuda.Memory(4 * 4 * 8)
    b = cp.ndarray((4, 4), float, cp.cuda.MemoryPointer(a, 0))
    with pytest.raises(cublas.CUBLASError, match="INVALID_VALUE"):
        call(cp, "dgemm", 0, 0, 4, 4, 4, one, b, 5, b, 4, one, b, 4)  # five columns' lengths
    with pytest.raises(cublas.CUBLASError, match="INVALID_VALUE"):
        call(cp, "dgemm", 0, 0, 4, 4, 4, one, one, 4, b, 4, one, b, 4)  # host memory
    with pytest.raises(cublas.CUBLASError, match="INVALID_VALUE"):
        call(cp, "dgemm", 0, 0, 4, 4, 4, b, b, 4, b, 4, one, b, 4)  # a scalar on the device


def test_functions_without_a_double_say_so(cp: Any) -> None:
    from cupy_backends.cuda.libs import cusolver

    with pytest.raises(cusolver.CUSOLVERError, match="NOT_SUPPORTED"):
        cusolver.spCreate()
    with pytest.raises(RuntimeError, match="stand-in device"):
        cp.cuda.device.get_cusparse_handle()


def test_a_program_ends_in_peace_with_work_queued() -> None:
    code = "x = cupy.ones((4, 4)); y = cupy.linalg.inv(x @ x + cupy.eye(4)); z = cupy.fft.fft(y)"
    status, _, err = run(code, STANDIN_LATE_US=100_000)
    assert (status, err) == (0, "")


def close(result: Any, expected: Any) -> None:
    rough = np.asarray(expected).dtype in (np.float32, np.complex64)
    np.testing.assert_allclose(result.get(), expected, *((5e-3, 1e-3) if rough else (1e-8, 1e-9)))


def of(cp: Any, *arrays: Any) -> list[Any]:
    return [cp.asarray(a, order="F") if isinstance(a, np.ndarray) else a for a in arrays]


@pytest.mark.slow
@pytest.mark.parametrize("dtype", DTYPES)
def test_vectors_of_cublas(cp: Any, dtype: str) -> None:
    """Results are scalars on the device: the pointer mode is `device`."""
    from cupy import cublas

    a, b = values(dtype, 9), values(dtype, 9)
    x, y = of(cp, a, b)
    size = abs(a.real) + abs(a.imag)
    close(cublas.asum(x), size.sum())
    close(cublas.nrm2(x), np.linalg.norm(a))
    close(cublas.iamax(x), size.argmax() + 1)
    close(cublas.iamin(x), size.argmin() + 1)
    if dtype[0] == "c":
        close(cublas.dotu(x, y), a @ b)
        close(cublas.dotc(x, y), a.conj() @ b)
    else:
        close(cublas.dot(x, y), a @ b)
    cublas.axpy(2, x, y)
    close(y, 2 * a + b)
    cublas.scal(3, x)
    close(x, 3 * a)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", DTYPES)
def test_matrices_of_cublas(cp: Any, dtype: str) -> None:
    from cupy import cublas

    a, c, v, w = values(dtype, 3, 4), values(dtype, 3, 4), values(dtype, 4), values(dtype, 3)
    A, C, V, W = of(cp, a, c, v, w)
    cublas.gemv("N", 2, A, V, 3, W)
    close(W, 2 * a @ v + 3 * w)
    A, C, V, W = of(cp, a, c, v, w)
    if dtype[0] == "c":
        cublas.geru(2, W, V, A)
        close(A, a + 2 * np.outer(w, v))
        A = of(cp, a)[0]
        cublas.gerc(2, W, V, A)
        close(A, a + 2 * np.outer(w, v.conj()))
    else:
        cublas.ger(2, W, V, A)
        close(A, a + 2 * np.outer(w, v))
    A = of(cp, a)[0]
    close(cublas.gemm("N", "T", A, C), a @ c.T)
    close(cublas.geam("N", "N", 2, A, 3, C), 2 * a + 3 * c)
    close(cublas.dgmm("L", A, W), np.diag(w) @ a)
    close(cublas.dgmm("R", A, V), a @ np.diag(v))
    close(cp.tril(cublas.syrk("N", A, lower=True)), np.tril(a @ a.T))


@pytest.mark.slow
@pytest.mark.parametrize("dtype", DTYPES[:2])
@pytest.mark.parametrize("lower", [False, True])
def test_a_band_matrix_times_a_vector(cp: Any, dtype: str, lower: bool) -> None:
    from cupy import cublas

    diagonal, beside, v = values(dtype, 5), values(dtype, 4), values(dtype, 5)
    whole = np.diag(diagonal) + np.diag(beside, 1) + np.diag(beside, -1)
    bands = np.zeros((2, 5), dtype)
    bands[0 if lower else 1] = diagonal
    if lower:
        bands[1, :4] = beside
    else:
        bands[0, 1:] = beside
    A, V, W = of(cp, bands, v, np.zeros(5, dtype))
    cublas.sbmv(1, 1.0, A, V, 0.0, W, lower=lower)
    np.testing.assert_allclose(W.get(), whole @ v, 1e-4, 1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", DTYPES)
def test_solvers_beyond_numpys(cp: Any, dtype: str) -> None:
    from cupyx import cusolver, lapack
    from cupyx.scipy import linalg

    x = square(dtype)
    h = hermitian(np, x)
    X, H, B = of(cp, x, h, x[:, :2].copy())
    close(linalg.lu_solve(linalg.lu_factor(X), B), np.eye(4, dtype=dtype)[:, :2])
    solution = B.copy(order="F")
    lapack.gesv(X.copy(order="F"), solution)  # in place
    close(X @ solution, x[:, :2])
    close(H @ lapack.posv(H, B), x[:, :2])
    u, s, v = cusolver.gesvdj(X)
    close((u * s) @ v.conj().T, x)
    w, vectors = cusolver.syevj(H)
    close((vectors * w) @ vectors.conj().T, h)
    stacked = cp.stack([X, 2 * X])
    close(cp.linalg.svd(stacked)[1], np.linalg.svd(np.stack([x, 2 * x]))[1])
    both = cp.stack([H, 2 * H])
    close(cp.linalg.cholesky(both), np.linalg.cholesky(np.stack([h, 2 * h])))
