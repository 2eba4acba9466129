"""LU and LDL factors: they multiply to the matrix; SciPy's numbers for LDL."""

from __future__ import annotations

import _ctypes
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from scipy.linalg import get_lapack_funcs

from shmtensor import native

from ...cases import each

RNG = np.random.default_rng(0)
DTYPES = {"f": 1e-4, "d": 1e-10, "F": 1e-4, "D": 1e-10}
SHAPES = [(1, 1), (5, 5), (5, 3), (3, 5), (2, 3, 4, 4), (300, 8, 8), (150, 150), (90, 40), (40, 90)]
EMPTY = [(0, 0), (0, 3), (3, 0), (0, 3, 3), (2, 0, 3), (2, 3, 0), (2, 0, 0)]
LAYOUTS: list[Callable[[np.ndarray], np.ndarray]] = [
    lambda x: x,
    np.asfortranarray,
    lambda x: np.repeat(x, 2, -1)[..., ::2],
    lambda x: x[..., ::-1],
    lambda x: x.astype(x.dtype.newbyteorder()),
]


def values(shape: tuple[int, ...], dtype: str) -> np.ndarray:
    x = RNG.standard_normal(shape)
    return (x + 1j * RNG.standard_normal(shape) if dtype in "FD" else x).astype(dtype)


def exchanged(x: np.ndarray, pivots: np.ndarray) -> np.ndarray:
    """The product of L and U with the row exchanges undone."""
    for i in range(len(pivots) - 1, -1, -1):
        x[[i, pivots[i] - 1]] = x[[pivots[i] - 1, i]]
    return x


@pytest.mark.parametrize("dtype", DTYPES)
@each(("shape", "layout"), [(s, f) for s in SHAPES for f in LAYOUTS])
def test_lu_multiplies_to_the_matrix(
    shape: tuple[int, ...], layout: Callable[[np.ndarray], np.ndarray], dtype: str
) -> None:
    x = layout(values(shape, dtype))
    before = x.copy()
    LU, pivots, info = native.lu_factor(x)
    m, n, k = *shape[-2:], min(shape[-2:])
    assert np.array_equal(x, before)
    assert LU.shape == shape
    assert LU.dtype == np.dtype(dtype)
    assert LU.strides[-2:] == (x.itemsize, m * x.itemsize)  # as PyTorch's
    assert pivots.shape == (*shape[:-2], k)
    assert info.shape == shape[:-2]
    assert pivots.dtype == info.dtype == np.int32
    assert not info.any()
    L = np.tril(LU[..., :k], -1) + np.eye(m, k, dtype=dtype)
    products = (L @ np.triu(LU[..., :k, :])).reshape(-1, m, n)
    for a, p, b in zip(products, pivots.reshape(-1, k), x.reshape(-1, m, n)):
        assert np.allclose(exchanged(a, p), b, DTYPES[dtype], DTYPES[dtype])


@each("shape", EMPTY)
def test_empty_matrices(shape: tuple[int, ...]) -> None:
    LU, pivots, info = native.lu_factor(np.empty(shape))
    assert LU.shape == shape
    assert pivots.shape == (*shape[:-2], min(shape[-2:]))
    assert info.shape == shape[:-2]
    assert not info.any()
    if shape[-1] == shape[-2]:
        LD, pivots, info = native.ldl_factor(np.empty(shape), False)
        assert not info.any()
        assert native.ldl_solve(LD, pivots, np.empty((*shape[:-1], 2)), False).shape[-1] == 2


def test_info_is_the_first_zero_pivot() -> None:
    x = np.stack([np.eye(3), np.zeros((3, 3)), np.ones((3, 3)), np.diag([1.0, 1.0, 0.0])])
    assert native.lu_factor(x)[2].tolist() == [0, 1, 2, 3]
    assert native.ldl_factor(x, False)[2].tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("dtype", DTYPES)
@each(("value", "n"), [(v, n) for v in (np.nan, np.inf, -np.inf) for n in (3, 8, 100)])
def test_numbers_that_are_not_finite_end_and_stay_in_range(
    value: float, n: int, dtype: str
) -> None:
    full = np.full((n, n), value, dtype)
    one = values((n, n), dtype)
    one[n // 2, n // 2] = value
    for x in (full, one):
        LU, pivots, _ = native.lu_factor(x)
        assert not np.isfinite(LU).all()
        assert ((pivots >= 1) & (pivots <= n)).all()
        for hermitian in (False, True):
            LD, pivots, _ = native.ldl_factor(x, hermitian)
            assert not np.isfinite(LD).all()
            assert ((abs(pivots) >= 1) & (abs(pivots) <= n)).all()


@pytest.mark.parametrize("hermitian", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
@each("shape", [(1, 1), (6, 6), (2, 3, 5, 5), (100, 100)])
def test_ldl_is_scipys_and_solves(shape: tuple[int, ...], dtype: str, hermitian: bool) -> None:
    hermitian = hermitian and dtype in "FD"
    n = shape[-1]
    x = values(shape, dtype)
    x = x + (x.conj() if hermitian else x).swapaxes(-1, -2)
    low = np.where(np.tri(n, dtype=bool), x, np.nan).astype(dtype)  # the other triangle is not read
    LD, pivots, info = native.ldl_factor(low, hermitian)
    assert not info.any()
    factor = get_lapack_funcs("hetrf" if hermitian else "sytrf", (x,))
    for a, factors in zip(x.reshape(-1, n, n), LD.reshape(-1, n, n)):
        expected = np.tril(factor(a, lower=1, lwork=64 * n)[0])
        assert np.allclose(factors, expected, 50 * DTYPES[dtype], 50 * DTYPES[dtype])
    b = values((*shape[:-1], 3), dtype)
    out = native.ldl_solve(LD, pivots, b, hermitian)
    assert np.allclose(x @ out, b, 0, 300 * DTYPES[dtype])


def test_a_forked_child_factors() -> None:
    x = values((200, 20, 20), "d")
    expected = native.lu_factor(x)[0]
    pid = os.fork()
    if pid == 0:
        os._exit(0 if np.array_equal(native.lu_factor(x)[0], expected) else 1)
    assert os.waitpid(pid, 0)[1] == 0


def test_wrong_operands_are_named() -> None:
    ones = np.ones
    with pytest.raises(TypeError, match="getrf: the dtype is not one of LAPACK's: int64"):
        native.lu_factor(ones((2, 2), np.int64))
    with pytest.raises(RuntimeError, match=r"lu_factor: expected matrices.*\(3,\)"):
        native.lu_factor(ones(3))
    with pytest.raises(RuntimeError, match=r"ldl_factor: expected square matrices: \(2, 3\)"):
        native.ldl_factor(ones((2, 3)), False)
    with pytest.raises(RuntimeError, match=r"do not match: \(2, 2\) float64, \(2,\), \(3, 1\)"):
        native.ldl_solve(ones((2, 2)), ones(2, np.int32), ones((3, 1)), False)
    for pivots in ([1, 3], [0, 2], [-3, -3], [1, -2], [-1, -2]):
        with pytest.raises(RuntimeError, match="not those of ldl_factor: matrix 0"):
            native.ldl_solve(ones((2, 2)), np.array(pivots, np.int32), ones((2, 1)), False)


def test_a_library_without_the_functions_is_named(tmp_path: Path) -> None:
    """Another library instead of OpenBLAS, and none."""
    package = tmp_path / "scipy_openblas32"
    (package / "lib").mkdir(parents=True)
    (package / "__init__.py").touch()
    library = package / "lib" / "libscipy_openblas.so"
    call = "import numpy as np; from shmtensor import native; native.lu_factor(np.ones((2, 2)))"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])}
    for expected in ("does not load", "lacks a function: scipy_cblas_sgemm"):
        process = subprocess.run(
            [sys.executable, "-c", call], env=environment, capture_output=True, text=True
        )
        assert f"ImportError: blas: the library {expected}" in process.stderr
        if not library.exists():
            library.symlink_to(_ctypes.__file__)
