"""random.cu on the host: the numbers are those of ops/random/philox.py, whatever the launch."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from shmtensor import native
from shmtensor.ops import ROWS
from shmtensor.ops.random import philox
from tests.cuda.kernels.check import TOLERANCE, acc, check, host_kernel, values

SEED, OFFSET = 0x123456789ABCDEF0, 2**32 - 3  # the counter's high word changes
STREAM = np.uint64(SEED), np.uint64(OFFSET)
LAUNCHES = [(1, 32), (3, 64)]
SIZES = [1, 7, 8, 301]
DTYPES = ["float32", "float64", "float16"]


def filled(fill: Any, n: int, dtype: str, a: float, b: float) -> Any:
    """The CPU's numbers."""
    out = np.empty(n, dtype)
    if dtype == "float16":
        return philox.fill_half(fill, out, SEED, OFFSET, a, b)
    return fill(out, SEED, OFFSET, a, b)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("blocks", "threads"), LAUNCHES)
def test_uniform_numbers_have_the_cpus_bits(dtype: str, blocks: int, threads: int) -> None:
    bound, below = np.float16(np.inf), np.float16(65504)
    if dtype == "float16":
        bound, below = np.float16(2.5), np.nextafter(np.float16(2.5), np.float16(0))
    for n in SIZES:
        out = np.empty(n, dtype)
        numbers = [acc(dtype, v) for v in (0.1, 2.5, bound, below)]
        arguments = (out, np.int64(n), *STREAM, *numbers)
        wanted = filled(native.uniform_, n, dtype, 0.1, 2.5)
        check(host_kernel("random", dtype, "uniform"), blocks, threads, arguments, [(out, wanted)])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("blocks", "threads"), LAUNCHES)
def test_normal_numbers_are_the_cpus(dtype: str, blocks: int, threads: int) -> None:
    for n in SIZES:
        out = np.empty(n, dtype)
        arguments = (out, np.int64(n), *STREAM, acc(dtype, 1.5), acc(dtype, 2.0))
        wanted = filled(native.normal_, n, dtype, 1.5, 2.0)
        check(
            host_kernel("random", dtype, "normal"),
            blocks,
            threads,
            arguments,
            [(out, wanted)],
            TOLERANCE[dtype],
        )


@pytest.mark.parametrize(
    ("low", "span"),
    [(-3, 10), (0, 1), (5, 2**31 + 7), (-7, 2**32), (-(2**62), 2**63 + 11), (-(2**63), 0)],
)
def test_integers_have_the_cpus_bits(low: int, span: int) -> None:
    for n in SIZES:
        out = np.empty(n, np.int64)
        arguments = (out, np.int64(n), *STREAM, np.uint64(low % 2**64), np.uint64(span))
        wanted = native.randint(n, SEED, OFFSET, low, span)
        check(host_kernel("random", "float64", "integers"), 2, 32, arguments, [(out, wanted)])


@pytest.mark.parametrize("dtype", DTYPES)
def test_dropout_keeps_the_cpus_elements(dtype: str) -> None:
    for n in SIZES:
        x = values((n,), dtype)
        out, mask = np.empty_like(x), np.empty(n, np.bool_)
        p = 0.3
        threshold = np.uint32(int(p * 2**32))
        arguments = (x, out, mask, np.int64(n), acc(dtype, 1 / (1 - p)), threshold, *STREAM)
        kernel = host_kernel("random", dtype, "dropout")
        wanted = native.dropout(x, p, SEED, OFFSET)
        check(kernel, 2, 32, arguments, list(zip((out, mask), wanted, strict=True)))


@pytest.mark.parametrize("dtype", DTYPES)
def test_bernoulli(dtype: str) -> None:
    for n in SIZES:
        x = np.random.default_rng(1).random(n).astype(dtype)
        out = np.empty_like(x)
        wanted = philox.uniform(SEED, OFFSET, n, np.dtype(np.float64)) < x
        kernel = host_kernel("random", dtype, "bernoulli")
        check(kernel, 2, 32, (x, out, np.int64(n), *STREAM), [(out, wanted)])


U = philox.uniform(SEED, OFFSET, 77, np.dtype(np.float64))
DISTRIBUTIONS = [
    (0.3, 0.0, (U < 0.3).astype(float)),
    (2.0, 0.0, -np.log(1 - U) / 2.0),
    (1.0, 2.0, 1.0 + 2.0 * np.tan(math.pi * (U - 0.5))),
    (math.log1p(-0.2), 0.0, np.maximum(np.ceil(np.log1p(-U) / math.log1p(-0.2)), 1)),
    (0.5, 0.2, np.exp(0.5 + 0.2 * philox.normal(SEED, OFFSET, 77, np.dtype(np.float64)))),
]


@pytest.mark.parametrize("which", range(len(DISTRIBUTIONS)))
def test_distributions(which: int) -> None:
    a, b, wanted = DISTRIBUTIONS[which]
    out = np.empty(77)
    arguments = (out, np.int64(77), *STREAM, np.int32(which), np.float64(a), np.float64(b))
    check(host_kernel("random", "float64", "distribution"), 1, 32, arguments, [(out, wanted)], 1e-9)


def test_multinomial_is_a_search_in_the_sums() -> None:
    random = np.random.default_rng(2)
    ends = np.cumsum(random.random((3, 9)), 1)
    u = np.concatenate([random.random((3, 4)), np.full((3, 1), 1.0), np.zeros((3, 1))], 1)
    scaled = np.minimum(u * ends[:, -1:], np.nextafter(ends[:, -1:], 0))
    wanted = np.stack([np.searchsorted(e, v, "right") for e, v in zip(ends, scaled, strict=True)])
    out = np.empty((3, 6), np.int64)
    arguments = (ends, u, out, np.int64(18), np.int64(6), np.int64(9))
    check(host_kernel("random", "float64", "multinomial"), 1, 32, arguments, [(out, wanted)])


RATES = np.array([0.0, 1e-30, 0.3, 4.0, 9.99, 10.0, 30.5, 1000.0, 60000.0])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("blocks", "threads"), LAUNCHES)
def test_poisson_numbers_are_the_cpus(dtype: str, blocks: int, threads: int) -> None:
    x = np.resize(RATES, 451).astype(dtype)
    out = np.empty_like(x)
    wanted = ROWS["_poisson"].forward(np, x, SEED, OFFSET)
    arguments = (x, out, np.int64(x.size), *STREAM)
    check(host_kernel("random", dtype, "poisson"), blocks, threads, arguments, [(out, wanted)])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("blocks", "threads"), LAUNCHES)
def test_binomial_numbers_are_the_cpus(dtype: str, blocks: int, threads: int) -> None:
    counts = np.array([0.0, 1.0, 7.6, 20.0, 300.0, 60000.0])
    chances = np.array([0.0, 1e-4, 0.2, 0.5, 0.77, 1.0])
    x, y = (np.resize(v, 432).astype(dtype) for v in np.meshgrid(counts, chances))
    out = np.empty_like(x)
    wanted = ROWS["_binomial"].forward(np, x, y, SEED, OFFSET)
    arguments = (x, y, out, np.int64(x.size), *STREAM)
    check(host_kernel("random", dtype, "binomial"), blocks, threads, arguments, [(out, wanted)])


SHAPES = np.array([0.0, 0.03, 0.3, 0.99, 1.0, 4.0, 30.5, 99.0, 1000.0, 30000.0])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("log", [False, True])
@pytest.mark.parametrize(("blocks", "threads"), LAUNCHES)
def test_gamma_numbers_and_their_derivatives_are_the_cpus(
    dtype: str, log: bool, blocks: int, threads: int
) -> None:
    x = np.resize(SHAPES, 450).astype(dtype)
    if log:
        x = x[x > 0.1]  # the logarithms of others are beyond float16
    out, y = np.empty_like(x), ROWS["_gamma"].forward(np, x, SEED, OFFSET, log)
    arguments = (x, out, np.int64(x.size), *STREAM, np.int32(log))
    kernel = host_kernel("random", dtype, "standard_gamma")
    check(kernel, blocks, threads, arguments, [(out, y)], TOLERANCE[dtype])
    slopes = ROWS["_standard_gamma_grad"].forward(np, x, y, log)
    arguments = (x, y, out, np.int64(x.size), np.int32(log))
    kernel = host_kernel("random", dtype, "standard_gamma_grad")
    check(kernel, blocks, threads, arguments, [(out, slopes)], TOLERANCE[dtype])


def test_numbers_of_wrong_parameters_are_nan() -> None:
    x, out = np.array([-1.0, np.nan, np.inf]), np.empty(3)
    nans = np.full(3, np.nan)
    arguments = (x, out, np.int64(3), *STREAM)
    check(host_kernel("random", "float64", "poisson"), 1, 32, arguments, [(out, nans)])
    counts, chances = np.array([-1.0, 3.0, np.inf]), np.array([0.5, 1.5, 0.5])
    arguments = (counts, chances, out, np.int64(3), *STREAM)
    check(host_kernel("random", "float64", "binomial"), 1, 32, arguments, [(out, nans)])
    arguments = (x, out, np.int64(3), *STREAM, np.int32(False))
    check(host_kernel("random", "float64", "standard_gamma"), 1, 32, arguments, [(out, nans)])
    shapes, samples = np.array([-1.0, 1.0, 1.0]), np.array([1.0, -1.0, np.inf])
    arguments = (shapes, samples, out, np.int64(3), np.int32(False))
    check(host_kernel("random", "float64", "standard_gamma_grad"), 1, 32, arguments, [(out, nans)])
