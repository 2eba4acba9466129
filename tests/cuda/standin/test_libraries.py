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
    "batched eigvalsh": lambda xp, x: xp.linalg.eigvalsh(xp.stack([hermitian(xp, x)] * 2)),
    "eigvalsh": lambda xp, x: xp.linalg.eigvalsh(hermitian(xp, x)),
    "pseudoinverse": lambda xp, x: xp.linalg.pinv(x),
    "batched solve": lambda xp, x: xp.linalg.solve(xp.stack([x, 2 * x]), xp.stack([x, x])),
    "batched Cholesky": lambda xp, x: xp.linalg.cholesky(xp.stack([hermitian(xp, x)] * 2)),
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


# ---------------------------------------------------------------- cuSOLVER beyond NumPy's functions


def close(result: Any, expected: Any) -> None:
    rough = np.asarray(expected).dtype in (np.float32, np.complex64)
    result = result.get() if hasattr(result, "get") else result
    np.testing.assert_allclose(result, expected, *((5e-3, 1e-3) if rough else (1e-8, 1e-9)))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("batch", [(), (2, 2)])
def test_eigenvalues_of_any_matrix(cp: Any, dtype: str, batch: tuple[int, ...]) -> None:
    x = values(dtype, *batch, 5, 5)
    w, v = cp.linalg.eig(cp.asarray(x))
    assert w.dtype == v.dtype == np.result_type(x.dtype, np.complex64)
    close(x @ v.get(), v.get() * w.get()[..., None, :])
    close(np.sort_complex(cp.linalg.eigvals(cp.asarray(x)).get()), np.sort_complex(w.get()))
    close(np.sort_complex(w.get()), np.sort_complex(np.linalg.eigvals(x)).astype(w.dtype))


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
