"""Layer, group, RMS and batch norm on a device, and their gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from shmtensor.ops import ROWS
from tests.cuda.kernels.check import values
from tests.cuda.kernels.rows import compare

DTYPES = ["float32", "float64", "float16"]
LAYERS: list[tuple[tuple[int, ...], int, int, bool]] = [
    ((5, 7), 1, 0, True),
    ((5, 7), 1, 0, False),
    ((70, 3, 4), 2, 0, True),
    ((30, 600), 1, 0, True),
    ((9, 1024), 1, 0, False),
    ((3, 1100), 1, 0, True),
    ((2, 11000), 1, 0, False),
    ((4, 6, 5), 1, 2, True),
    ((3, 4), 1, 2, True),
    ((2, 4, 30, 20), 1, 2, True),
    ((40, 4, 3), 1, 4, True),
]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("shape", "n", "groups", "centred"), LAYERS, ids=str)
def test_layer_and_group_norm(
    cp: Any, shape: tuple[int, ...], n: int, groups: int, centred: bool, dtype: str
) -> None:
    parameters = (shape[1],) if groups else shape[len(shape) - n :]
    x, g = values(shape, dtype), values(shape, dtype, 1)
    weight, bias = values(parameters, dtype, 2), values(parameters, dtype, 3)
    rows = shape[0] * groups if groups else int(np.prod(shape[: len(shape) - n]))
    statistics = "float64" if dtype == "float64" else "float32"
    mean, rstd = values((rows,), statistics, 4, 0.3), np.abs(values((rows,), statistics, 5)) + 0.5
    tolerance = {"float16": 1e-2, "float32": 3e-5, "float64": 1e-10}[dtype]
    for w, b in ((weight, bias), (None, bias), (weight, None)):
        attributes = (n, groups, 1e-5, centred)
        compare(cp, "_native_layer_norm", (x, w, b), attributes, tolerance, 3)
    sums = {"float16": 5e-2, "float32": 3e-4, "float64": 1e-9}[dtype]
    for w in (weight, None):
        arrays = (g, x, mean, rstd, w)
        compare(cp, "_native_layer_norm_backward", arrays, (n, groups, centred), sums)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    "shape", [(5, 3), (300, 40), (4, 3, 5), (70, 2, 3, 3), (2, 3, 40, 50)], ids=str
)
def test_batch_norm(cp: Any, shape: tuple[int, ...], dtype: str) -> None:
    x, g = values(shape, dtype), values(shape, dtype, 1)
    weight, bias = values(shape[1:2], dtype, 2), values(shape[1:2], dtype, 3)
    mean, var = (
        values(shape[1:2], dtype, 4, 0.3),
        np.abs(values(shape[1:2], dtype, 5)) + dtype_one(dtype),
    )
    tolerance = {"float16": 1e-2, "float32": 3e-5, "float64": 1e-10}[dtype]
    sums = {"float16": 8e-2, "float32": 5e-4, "float64": 1e-9}[dtype]
    kept = "float64" if dtype == "float64" else "float32"
    for w, b in ((weight, bias), (None, bias), (weight, None)):
        compare(cp, "_native_batch_norm", (x, w, b), (1e-5,), tolerance, 3)
        for moments in ((None, None), (mean, var)):
            for rstd in (None, (1 / np.sqrt(var + dtype_one(dtype) * 1e-5)).astype(kept)):
                arrays = (g, x, mean, var, w, *moments, rstd)
                compare(cp, "_native_batch_norm_backward", arrays, (1e-5,), sums)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    "shape", [(5, 3), (300, 40), (4, 3, 5), (70, 2, 3, 3), (2, 3, 40, 50), (0, 3), (2, 3, 0)],
    ids=str,
)  # fmt: skip
def test_channels_by_given_moments(cp: Any, shape: tuple[int, ...], dtype: str) -> None:
    x, g = values(shape, dtype), values(shape, dtype, 1)
    weight, bias, mean = (values(shape[1:2], dtype, i, 0.5) for i in (2, 3, 4))
    var = np.abs(values(shape[1:2], dtype, 5)) + dtype_one(dtype)
    tolerance = {"float16": 1e-2, "float32": 3e-5, "float64": 1e-10}[dtype]
    sums = {"float16": 8e-2, "float32": 5e-4, "float64": 1e-9}[dtype]
    for w, b in ((weight, bias), (None, bias), (weight, None)):
        compare(cp, "_normalize_channels", (x, mean, var, w, b), (1e-3,), tolerance, 1)
    compare(cp, "_channel_gradients", (g, x, mean, var), (1e-3,), sums)


def dtype_one(dtype: str) -> Any:
    return np.dtype(dtype).type(1)


def test_float16_with_float32_parameters(cp: Any) -> None:
    from shmtensor.ops.cuda.norm import layer_norm, layer_norm_backward

    x, weight = values((3, 7), "float16"), values((7,), "float32", 1)
    out, mean, rstd = layer_norm(cp.asarray(x), cp.asarray(weight), None, 1, 0, 1e-5, True)
    assert out.dtype == np.float16
    assert mean.dtype == rstd.dtype == np.float32
    wide = x.astype(np.float32)
    wanted = (wide - wide.mean(1, keepdims=True)) / wide.std(1, keepdims=True) * weight
    np.testing.assert_allclose(out.get(), wanted, 5e-3, 5e-3)
    gradients = layer_norm_backward(out, cp.asarray(x), mean, rstd, cp.asarray(weight), 1, 0, True)
    assert [v.dtype.name for v in gradients] == ["float16", "float32", "float32"]


def test_empty_arrays(cp: Any) -> None:
    x, weight = values((0, 4), "float32"), values((4,), "float32")
    compare(cp, "_native_layer_norm", (x, weight, None), (1, 0, 1e-5, True))
    row = ROWS["_native_layer_norm_backward"].device_forwards["cuda"]
    g, none = cp.asarray(x), cp.empty(0, np.float32)
    gradients = row(cp, g, g, none, none, cp.asarray(weight), 1, 0, True)
    assert [v.shape for v in gradients] == [(0, 4), (4,), (4,)]
    assert not gradients[1].any()


def test_memory_that_is_not_aligned(cp: Any) -> None:
    from shmtensor.ops.cuda.norm import layer_norm_backward

    g, x = values((6, 64), "float32"), values((6, 64), "float32", 1)
    mean, rstd = cp.asarray(x.mean(1)), cp.asarray(1 / x.std(1))
    results = []
    for skipped in (0, 1):
        place = cp.zeros(2 * 384 + skipped, np.float32)[skipped:]
        arrays = place[:384].reshape(6, 64), place[384:].reshape(6, 64)
        arrays[0][...], arrays[1][...] = cp.asarray(g), cp.asarray(x)
        gradients = layer_norm_backward(*arrays, mean, rstd, None, 1, 0, True)
        results.append([v.get() for v in gradients])
    for aligned, other in zip(*results, strict=True):
        np.testing.assert_allclose(aligned, other, 1e-5, 1e-5)


def test_a_mean_that_is_large(cp: Any) -> None:
    """The variance is that of the deviations: it does not vanish beside the mean's square."""
    x = (values((64, 3, 40), "float64") + 1e4).astype(np.float32)
    compare(cp, "_native_batch_norm", (x, None, None), (1e-5,), 2e-3, 3)
    compare(cp, "_native_layer_norm", (x, None, None), (1, 0, 1e-5, True), 2e-3, 1)
