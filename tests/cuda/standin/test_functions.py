"""Functions of the real CuPy on the stand-in against NumPy: its own kernels, and libraries."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

X = np.random.default_rng(0).standard_normal((4, 5)).astype(np.float32)
SQUARE = (X @ X.T + 4 * np.eye(4)).astype(np.float32)


def added_at(xp: Any) -> Any:
    a = xp.zeros((4, 5), np.float32)
    xp.add.at(a, xp.asarray([0, 0, 1]), xp.ones((3, 5), np.float32))
    return a


FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "add": lambda xp: xp.asarray(X) + 1,
    "multiply": lambda xp: xp.asarray(X) * xp.asarray(X),
    "exp": lambda xp: xp.exp(xp.asarray(X)),
    "sin, float64": lambda xp: xp.sin(xp.asarray(X.astype(float))),
    "cast": lambda xp: xp.asarray(X).astype(np.int32),
    "copy of a transpose": lambda xp: xp.ascontiguousarray(xp.asarray(X).T),
    "sum": lambda xp: xp.asarray(X).sum(),
    "sum, axis": lambda xp: xp.asarray(X).sum(1),
    "max": lambda xp: xp.asarray(X).max(0),
    "argmax": lambda xp: xp.asarray(X).argmax(1),
    "where": lambda xp: xp.where(xp.asarray(X) > 0, xp.asarray(X), 0),
    "take": lambda xp: xp.take(xp.asarray(X), xp.asarray([3, 1]), axis=1),
    "index": lambda xp: xp.asarray(X)[xp.asarray([3, 1])],
    "mask": lambda xp: xp.asarray(X)[xp.asarray(X) > 0],
    "concatenate": lambda xp: xp.concatenate([xp.asarray(X), xp.asarray(X)], 0),
    "exp, complex": lambda xp: xp.exp(xp.asarray(X.astype(np.complex64))),
    "multiply, half": lambda xp: xp.asarray(X.astype(np.float16)) * 2,
    "arange": lambda xp: xp.arange(10),
    "cumsum": lambda xp: xp.cumsum(xp.asarray(X), axis=1),
    "sort": lambda xp: xp.sort(xp.asarray(X), axis=1),
    "matmul": lambda xp: xp.asarray(X) @ xp.asarray(X).T,
    "matmul, int": lambda xp: xp.asarray((9 * X).astype("i4")) @ xp.asarray((9 * X).astype("i4")).T,
    "einsum, int": lambda xp: xp.einsum("ij,kj->ik", *[xp.asarray((9 * X).astype("i4"))] * 2),
    "fft": lambda xp: xp.fft.fft(xp.asarray(X)),
    "svd": lambda xp: xp.linalg.svd(xp.asarray(X))[1],
    "add.at": added_at,
    "nonzero": lambda xp: xp.nonzero(xp.asarray(X) > 0)[0],
    "unique": lambda xp: xp.unique(xp.asarray([3, 1, 3])),
    "var": lambda xp: xp.asarray(X).var(1),
    "isin": lambda xp: xp.isin(xp.asarray([3, 1, 3]), xp.asarray([1])),
    "sinc": lambda xp: xp.sinc(xp.asarray(X)),
}
SORTS: dict[str, Callable[[Any], Any]] = {
    "sort of one axis": lambda xp: xp.sort(xp.asarray(X.ravel())),
    "sort of NaN": lambda xp: xp.sort(xp.asarray([1.0, np.nan, -np.inf, 0.0])),
    "argsort": lambda xp: xp.argsort(xp.asarray(X), axis=0),
    "lexsort": lambda xp: xp.lexsort(xp.asarray([[1, 0, 1, 0], [2, 2, 1, 1]])),
    "unique, all results": lambda xp: xp.concatenate(
        [r.ravel() for r in xp.unique(xp.asarray([3, 1, 3, 2]), True, True, True)]
    ),
    "partition": lambda xp: xp.partition(xp.asarray(X.ravel()), 3)[3],
    "argpartition": lambda xp: xp.asarray(X.ravel())[xp.argpartition(xp.asarray(X.ravel()), 3)[3]],
    "median": lambda xp: xp.median(xp.asarray(X), axis=1),
    "bincount": lambda xp: xp.bincount(xp.asarray([3, 1, 3])),
    "searchsorted": lambda xp: xp.searchsorted(xp.arange(5), xp.asarray([2, 7])),
}


def compare(f: Callable[[Any], Any], cp: Any, tolerance: float = 1e-5) -> None:
    result, expected = f(cp), np.asarray(f(np))
    assert isinstance(result, cp.ndarray)
    assert result.dtype == expected.dtype
    np.testing.assert_allclose(result.get(), expected, tolerance, tolerance)


# Their kernels take seconds to compile.
LONG = ("matmul, int", "einsum, int")


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[pytest.mark.slow] if n in LONG else []) for n in FUNCTIONS]
)
def test_cupys_kernels_agree_with_numpy(cp: Any, name: str) -> None:
    compare(FUNCTIONS[name], cp)


@pytest.mark.slow
@pytest.mark.parametrize("name", SORTS)
def test_sorting_agrees_with_numpy(cp: Any, name: str) -> None:
    compare(SORTS[name], cp)
