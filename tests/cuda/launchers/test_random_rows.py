"""Random numbers and dropout on a device: for a seed the numbers of the CPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from shmtensor import native
from shmtensor.ops import ROWS
from shmtensor.ops.random import philox
from tests.cuda.kernels.check import TOLERANCE
from tests.cuda.kernels.rows import compare, device_forward, laid_out, to_device

SEED, OFFSET = 2**63 + 5, 2**32 - 1
SHAPES = [(), (0, 3), (3, 7), (1025,)]
DTYPES = ["float32", "float64", "float16"]


def cpu(fill: Any, shape: tuple[int, ...], dtype: str, a: float, b: float) -> Any:
    out = np.empty(shape, dtype)
    if dtype == "float16":
        return philox.fill_half(fill, out, SEED, OFFSET, a, b)
    return fill(out, SEED, OFFSET, a, b)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_uniform_and_normal(cp: Any, shape: tuple[int, ...], dtype: str) -> None:
    x = cp.empty(shape, dtype)
    out = device_forward("_uniform")(cp, x, SEED, OFFSET, -1.0, 0.3)
    np.testing.assert_array_equal(out.get(), cpu(native.uniform_, shape, dtype, -1.0, 0.3))
    out = device_forward("_normal")(cp, x, SEED, OFFSET, 1.0, 2.0)
    wanted = cpu(native.normal_, shape, dtype, 1.0, 2.0)
    tolerance = 2e-3 if dtype == "float16" else 5e-6
    np.testing.assert_allclose(out.get(), wanted, tolerance, tolerance)


def test_numbers_are_written_to_strided_memory(cp: Any) -> None:
    whole = cp.zeros((5, 8), np.float32)
    device_forward("_uniform")(cp, whole[:, ::2], SEED, OFFSET, 0.0, 1.0, whole[:, ::2])
    np.testing.assert_array_equal(
        whole[:, ::2].get(), cpu(native.uniform_, (5, 4), "float32", 0.0, 1.0)
    )
    assert not whole[:, 1::2].any()


def test_large_grids_go_on_with_further_elements(cp: Any) -> None:
    from shmtensor.ops.cuda import random

    n = 4 * 256 * 4096 // 64 + 5
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("shmtensor.ops.cuda.launch.MAX_BLOCKS", 2)
        out = random.fill_uniform(cp.empty(n, np.float32), SEED, OFFSET)
    np.testing.assert_array_equal(out.get(), cpu(native.uniform_, (n,), "float32", 0.0, 1.0))


@pytest.mark.parametrize("dtype", ["int64", "int32", "float32", "uint8"])
@pytest.mark.parametrize(("low", "span"), [(-3, 12), (0, 2**40), (-(2**63), 0)])
def test_integers(cp: Any, dtype: str, low: int, span: int) -> None:
    out = device_forward("_random")(cp, cp.empty((3, 5), dtype), SEED, OFFSET, low, span)
    wanted = native.randint(15, SEED, OFFSET, low, span).astype(dtype).reshape(3, 5)
    np.testing.assert_array_equal(out.get(), wanted)


DISTRIBUTIONS = {
    "bernoulli": (0.3, 0.0),
    "exponential": (2.0, 0.0),
    "cauchy": (1.0, 2.0),
    "geometric": (0.2, 0.0),
    "log_normal": (0.1, 0.5),
}
OF_INTEGERS = [(name, dtype) for name in ("bernoulli", "geometric") for dtype in ("int64", "bool")]


@pytest.mark.parametrize(
    ("name", "dtype"), [(name, dtype) for name in DISTRIBUTIONS for dtype in DTYPES] + OF_INTEGERS
)
def test_distributions(cp: Any, name: str, dtype: str) -> None:
    a, b = DISTRIBUTIONS[name]
    for shape in ((3, 7), (0,)):
        x = np.empty(shape, dtype)
        out = device_forward("_distribution")(cp, cp.asarray(x), SEED, OFFSET, name, a, b)
        wanted = ROWS["_distribution"].forward(np, x, SEED, OFFSET, name, a, b)
        assert out.dtype == wanted.dtype
        np.testing.assert_allclose(out.get(), wanted, 1e-3 if dtype == "float16" else 1e-6)


@pytest.mark.parametrize(("name", "a", "b"), [("uniform", -1.0, 2.0), ("normal", 1.0, 0.5)])
def test_complex_numbers(cp: Any, name: str, a: float, b: float) -> None:
    for dtype in ("complex64", "complex128"):
        x = np.empty((3, 3), dtype)
        out = device_forward("_distribution")(cp, cp.asarray(x), SEED, OFFSET, name, a, b)
        wanted = ROWS["_distribution"].forward(np, x, SEED, OFFSET, name, a, b)
        assert out.dtype == wanted.dtype
        np.testing.assert_allclose(out.get(), wanted, 1e-6)


@pytest.mark.parametrize("dtype", DTYPES)
def test_bernoulli(cp: Any, dtype: str) -> None:
    x = np.random.default_rng(0).random((3, 5)).astype(dtype)
    compare(cp, "_bernoulli", (x,), (SEED, OFFSET), 0)
    compare(cp, "_bernoulli_of", (np.empty((2, 3, 5), np.int32), x), (SEED, OFFSET), 0)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_multinomial(cp: Any, dtype: str) -> None:
    for shape in ((3, 5), (5,)):
        x = np.random.default_rng(0).random(shape).astype(dtype)
        compare(cp, "_multinomial", (x,), (7, True, SEED, OFFSET), 0)
        compare(cp, "_multinomial", (x,), (3, False, SEED, OFFSET), 0)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_dropout(cp: Any, shape: tuple[int, ...], dtype: str) -> None:
    x = np.random.default_rng(0).standard_normal(shape).astype(dtype)
    for p in (0.3, 0.0, 1.0):
        out, mask = device_forward("_dropout")(cp, cp.asarray(x), p, SEED, OFFSET)
        wanted, wanted_mask = native.dropout(x, p, SEED, OFFSET)
        np.testing.assert_array_equal(out.get(), wanted)
        np.testing.assert_array_equal(mask.get(), wanted_mask)
    compare(cp, "_masked_scale", (x, wanted_mask), (1.5,))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_poisson_and_binomial(cp: Any, shape: tuple[int, ...], dtype: str) -> None:
    random = np.random.default_rng(0)
    x = np.asarray(random.random(shape) * 40).astype(dtype)
    y = np.asarray(random.random(shape)).astype(dtype)
    for name, inputs in (("_poisson", (x,)), ("_binomial", (x, y))):
        wanted = ROWS[name].forward(np, *inputs, SEED, OFFSET)
        for place in (to_device, laid_out):
            out = device_forward(name)(cp, *(place(cp, v) for v in inputs), SEED, OFFSET)
            assert out.dtype == wanted.dtype
            np.testing.assert_array_equal(out.get(), wanted)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("log", [False, True])
def test_standard_gamma_and_its_gradient(
    cp: Any, shape: tuple[int, ...], dtype: str, log: bool
) -> None:
    x = np.asarray(np.random.default_rng(0).random(shape) ** 2 * 40 + 0.1).astype(dtype)
    y = ROWS["_gamma"].forward(np, x, SEED, OFFSET, log)
    tolerance = TOLERANCE[dtype]
    for name, inputs, attributes in (
        ("_gamma", (x,), (SEED, OFFSET, log)),
        ("_standard_gamma_grad", (x, y), (log,)),
    ):
        wanted = ROWS[name].forward(np, *inputs, *attributes)
        for place in (to_device, laid_out):
            out = device_forward(name)(cp, *(place(cp, v) for v in inputs), *attributes)
            assert out.dtype == wanted.dtype
            np.testing.assert_allclose(out.get(), wanted, tolerance, tolerance)


def test_what_has_no_kernel_is_named(cp: Any) -> None:
    x = cp.ones(3, np.float32)
    with pytest.raises(NotImplementedError, match="int32 on CUDA"):
        device_forward("_dropout")(cp, x.astype(np.int32), 0.5, 1, 2)
