"""Embeddings and sums at indices on a device."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.cuda.kernels.check import values
from tests.cuda.kernels.rows import compare, device_forward

FLOATS = ["float32", "float64", "float16"]
DTYPES = [*FLOATS, "int64", "int32", "uint8"]
TOLERANCE = {"float16": 1e-2, "float32": 2e-5, "float64": 1e-11}


def numbers(shape: tuple[int, ...], dtype: str, seed: int = 0) -> Any:
    x = values(shape, "float64", seed, 1.0 if dtype in FLOATS else 20.0)
    return (np.abs(x) if dtype[0] == "u" else x).astype(dtype)


def places(shape: tuple[int, ...], high: int, low: int = 0) -> Any:
    return np.asarray(np.random.default_rng(7).integers(low, high, shape))


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("width", [1, 3, 16, 100])
def test_embedding_and_its_gradient(cp: Any, width: int, dtype: str) -> None:
    weight = numbers((5, width), dtype)
    for shape in ((), (4,), (2, 3), (0,)):
        index = places(shape, 5)
        for of in (np.int64, np.int32):
            compare(cp, "_embedding", (weight, index.astype(of)), (-1, False), 0)
        g = numbers((*shape, width), dtype, 1)
        for padding in (-1, 2):
            arguments = (g, index), (5, padding)
            compare(cp, "_embedding_dense_backward", *arguments, TOLERANCE[dtype])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("shape", "dim"), [((3, 4), 0), ((3, 4), 1), ((2, 3, 50), -2), ((7,), 0)])
def test_slices(cp: Any, shape: tuple[int, ...], dim: int, dtype: str) -> None:
    index = places((9,), shape[dim])
    source_shape = list(shape)
    source_shape[dim] = 9
    x, source = numbers(shape, dtype), numbers(tuple(source_shape), dtype, 1)
    tolerance = TOLERANCE.get(dtype, 0)
    compare(cp, "_index_add", (x, source, index), (dim,), tolerance)
    compare(cp, "_index_select_backward", (source, index), (shape, dim), tolerance)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("shape", "index_shape", "dim"),
    [
        ((3, 4), (3, 9), 1),
        ((3, 4), (2, 9), 1),
        ((3, 4), (9, 4), 0),
        ((2, 3, 4), (2, 5, 4), 1),
        ((2, 3, 4), (2, 5, 2), -2),
        ((5,), (8,), 0),
    ],
)
def test_scatter(
    cp: Any, shape: tuple[int, ...], index_shape: tuple[int, ...], dim: int, dtype: str
) -> None:
    index = places(index_shape, shape[dim])
    x, source = numbers(shape, dtype), numbers(index_shape, dtype, 1)
    tolerance = TOLERANCE.get(dtype, 0)
    compare(cp, "_scatter_add", (x, source, index), (dim,), tolerance)
    compare(cp, "_gather_backward", (source, index), (shape, dim), tolerance)
    wider = numbers(tuple(n + 1 for n in index_shape), dtype, 2)
    compare(cp, "_scatter_add", (x, wider, index), (dim,), tolerance)


def test_tensors_without_dimensions_or_elements(cp: Any) -> None:
    x, one, index = numbers((), "float32"), numbers((2,), "float32", 1), np.array([0, 0])
    compare(cp, "_index_add", (x, one, index), (0,))
    compare(cp, "_scatter_add", (x, one[:1], index[:1]), (0,))
    none = np.zeros(0, np.int64)
    compare(cp, "_scatter_add", (one, one, none), (0,))
    compare(cp, "_gather_backward", (one[:0], none), ((3,), 0))


A = np.array([0, 2, 2, -1])
INDICES = [
    (A,),
    (A, np.array([1, 1, 1, 0])),
    (A[:, None], np.array([[0, 1]])),
    (slice(None), A),
    (A, slice(1, 3)),
    (np.array([True, False, True]),),
    (slice(0, 2), 1),
    A,
]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("index", INDICES, ids=str)
def test_index_put_and_the_gradient_of_indexing(cp: Any, index: Any, dtype: str) -> None:
    x = numbers((3, 4, 2), dtype)
    on_device = index
    if isinstance(index, tuple):
        on_device = tuple(cp.asarray(i) if isinstance(i, np.ndarray) else i for i in index)
    elif isinstance(index, np.ndarray):
        on_device = cp.asarray(index)
    g = numbers(np.empty((3, 4, 2))[index].shape, dtype, 1)
    wide = np.float64 if dtype in FLOATS else dtype
    parts = tuple(index) if isinstance(index, tuple) else (index,)
    wanted = x.astype(wide)
    np.add.at(wanted, parts, g.astype(wide))
    out = device_forward("_index_put")(cp, cp.asarray(x), cp.asarray(g), on_device, True)
    assert out.dtype == x.dtype
    tolerance = TOLERANCE.get(dtype, 0)
    np.testing.assert_allclose(out.get(), wanted, tolerance, tolerance)
    gradient = device_forward("_index_backward")(cp, cp.asarray(g), (3, 4, 2), on_device)
    sums = np.zeros((3, 4, 2), wide)
    np.add.at(sums, parts, g.astype(wide))
    np.testing.assert_allclose(gradient.get(), sums, tolerance, tolerance)
    out = device_forward("_index_put")(
        cp, cp.asarray(x), cp.asarray(g[..., :1] * 0), on_device, False
    )
    wanted = x.copy()
    wanted[parts] = 0
    np.testing.assert_array_equal(out.get(), wanted)


@pytest.mark.parametrize("dtype", FLOATS)
def test_sums_in_place(cp: Any, dtype: str) -> None:
    x, source, index = numbers((3, 4), dtype), numbers((3, 9), dtype, 1), places((3, 9), 4)
    wanted = x.astype(np.float64)
    np.add.at(wanted, (np.arange(3)[:, None], index), source)
    for strided in (False, True):
        whole = cp.zeros((3, 8), dtype)
        device = whole[:, ::2] if strided else cp.empty((3, 4), dtype)
        device[...] = cp.asarray(x)
        arguments = (cp.asarray(source), cp.asarray(index), 1, device)
        assert device_forward("_scatter_add")(cp, device, *arguments) is device
        np.testing.assert_allclose(device.get(), wanted, TOLERANCE[dtype], TOLERANCE[dtype])


def test_an_index_that_is_not_there(cp: Any) -> None:
    table, index = cp.ones((3, 4), np.float32), cp.asarray([0, 3, -1])
    rows = device_forward("_embedding")(cp, table, index)
    assert cp.isnan(rows).all(1).get().tolist() == [False, True, True]
    out = device_forward("_index_add")(cp, cp.zeros((3, 4), np.float32), table, index, 0)
    assert out.get().sum() == 4


def test_what_does_not_fit_is_named(cp: Any) -> None:
    x, index = cp.zeros((3, 4), np.float32), cp.zeros(2, np.int64)
    with pytest.raises(RuntimeError, match=r"source must have shape \(2, 4\): \(3, 4\)"):
        device_forward("_index_add")(cp, x, x, index, 0)
    with pytest.raises(
        RuntimeError, match=r"the index must fit in the tensor: \(5, 5\) in \(3, 4\)"
    ):
        device_forward("_scatter_add")(
            cp, x, cp.zeros((5, 5), np.float32), cp.zeros((5, 5), np.int64), 0
        )
    with pytest.raises(IndexError, match="dim is out of range: 2"):
        device_forward("_scatter_add")(cp, x, x, cp.zeros((3, 4), np.int64), 2)
