"""LU and LDL factors beside PyTorch's: values, pivots, info, dtypes, order in memory."""

from __future__ import annotations

import numpy as np
import pytest

import shmtensor as st
from tests.native.cases import each

torch = pytest.importorskip("torch")

SHAPES = [
    (1, 1), (6, 6), (6, 4), (4, 6), (2, 3, 4, 4), (2, 5, 3), (0, 0), (0, 3), (2, 3, 0), (0, 3, 3),
]  # fmt: skip
RNG = np.random.default_rng(0)


def values(shape: tuple[int, ...], dtype: str) -> np.ndarray:
    x = RNG.standard_normal(shape)
    return (x + 1j * RNG.standard_normal(shape) if dtype in "FD" else x).astype(dtype)


def assert_same(ours: st.Tensor, theirs: torch.Tensor) -> None:
    expected = theirs.numpy()
    tolerance = 1e-3 if expected.dtype.char in "fF" else 1e-9
    np.testing.assert_allclose(ours.numpy(), expected, tolerance, tolerance)
    assert ours.numpy().dtype == expected.dtype
    assert not expected.size or ours.stride() == theirs.stride()


@pytest.mark.parametrize("dtype", "fdFD")
@each("shape", SHAPES)
def test_lu_factors(shape: tuple[int, ...], dtype: str) -> None:
    x = values(shape, dtype)
    ours, theirs = st.linalg.lu_factor_ex(st.tensor(x)), torch.linalg.lu_factor_ex(torch.tensor(x))
    for a, b in zip(ours, theirs, strict=True):
        assert_same(a, b)


@pytest.mark.parametrize("hermitian", [False, True])
@pytest.mark.parametrize("dtype", "fdFD")
@each("shape", [s for s in SHAPES if s[-1] == s[-2]])
def test_ldl_factors_and_solutions(shape: tuple[int, ...], dtype: str, hermitian: bool) -> None:
    x, b = values(shape, dtype), values((*shape[:-1], 2), dtype)
    ours = st.linalg.ldl_factor_ex(st.tensor(x), hermitian=hermitian)
    theirs = torch.linalg.ldl_factor_ex(torch.tensor(x), hermitian=hermitian)
    for a, e in zip(ours, theirs, strict=True):
        assert_same(a, e)
    assert_same(
        st.linalg.ldl_solve(ours.LD, ours.pivots, st.tensor(b), hermitian=hermitian),
        torch.linalg.ldl_solve(theirs.LD, theirs.pivots, torch.tensor(b), hermitian=hermitian),
    )
