"""norm.cu on the host: rows, sums over samples in two stages, and batch norm's elements."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from shmtensor.ops.cuda.kernel_source import kernel_source
from tests.cuda.kernels.check import ORDERS, TOLERANCE, acc, check, host_kernel, values
from tests.cuda.kernels.host import HostKernel

DTYPES = ["float32", "float64", "float16"]
I64, EPS = np.int64, 1e-3
NULL = np.uint64(0)


def acc_dtype(dtype: str) -> str:
    return "float64" if dtype == "float64" else "float32"


def statistics(x: Any, centred: bool, axis: Any) -> tuple[Any, Any]:
    """Mean, and reciprocal of the standard deviation."""
    x = x.astype(np.float64)
    mean = x.mean(axis, keepdims=True) * centred
    return mean, 1 / np.sqrt(((x - mean) ** 2).mean(axis, keepdims=True) + EPS)


ROWS = [("warp", 5, 70, 64, 2), ("warp", 3, 9, 32, 1), ("block", 3, 300, 96, 2)]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("centred", [True, False])
@pytest.mark.parametrize(("function", "rows", "length", "threads", "blocks"), ROWS)
def test_layer_norm(
    function: str, rows: int, length: int, threads: int, blocks: int, centred: bool, dtype: str
) -> None:
    x, weight, bias = (
        values((rows, length), dtype) + acc(dtype, 3),
        values((length,), dtype, 1),
        values((length,), dtype, 2),
    )
    x = x.astype(dtype)
    mean, rstd = statistics(x, centred, 1)
    xhat = (x - mean) * rstd
    out = np.full_like(x, np.nan)
    means, rstds = np.empty(rows, acc_dtype(dtype)), np.empty(rows, acc_dtype(dtype))
    sizes = (I64(rows), I64(length), I64(1), I64(1), I64(1))
    more = (*sizes, acc(dtype, EPS), np.int32(centred))
    kernel = host_kernel("norm", dtype, f"layer_norm_{function}")
    wanted = [(out, xhat * weight + bias), (means, mean[:, 0]), (rstds, rstd[:, 0])]
    for cached in (1, 0) if function == "block" else (0,):
        flag = (np.int32(cached),) if function == "block" else ()
        arguments = (x, weight, bias, out, means, rstds, *more, *flag)
        tolerance = 2 * TOLERANCE[dtype]
        check(kernel, blocks, threads, arguments, wanted, tolerance, 8 * length * cached)
    check(kernel, blocks, threads, (x, NULL, NULL, *arguments[3:]), [(out, xhat)], tolerance)

    g = values(x.shape, dtype, 3)
    kernel = host_kernel("norm", dtype, f"layer_norm_backward_{function}")
    h = g.astype(np.float64) * weight
    inner = h.mean(1, keepdims=True) if centred else 0
    gradient = rstd * (h - inner - xhat * (h * xhat).mean(1, keepdims=True))
    arguments = (g, x, weight, means, rstds, out, *sizes, np.int32(centred))
    check(kernel, blocks, threads, arguments, [(out, gradient)], 4 * TOLERANCE[dtype])


@pytest.mark.parametrize("dtype", DTYPES)
def test_group_norm(dtype: str) -> None:
    groups, channels, spatial = 2, 6, 5
    x, weight, bias = (
        values((3, channels, spatial), dtype),
        values((6,), dtype, 1),
        values((6,), dtype, 2),
    )
    flat = x.reshape(6, 15)
    mean, rstd = statistics(flat, True, 1)
    xhat = ((flat - mean) * rstd).reshape(x.shape)
    wanted = xhat * weight[:, None] + bias[:, None]
    out = np.full_like(x, np.nan)
    means, rstds = (np.empty(6, acc_dtype(dtype)) for _ in range(2))
    sizes = (I64(6), I64(15), I64(groups), I64(channels // groups), I64(spatial))
    arguments = (x, weight, bias, out, means, rstds, *sizes, acc(dtype, EPS), np.int32(1))
    kernel = host_kernel("norm", dtype, "layer_norm_warp")
    check(kernel, 1, 64, arguments, [(out, wanted)], 2 * TOLERANCE[dtype])

    g = values(x.shape, dtype, 3)
    for chunks in (1, 2):
        sums, products = (np.empty((chunks, channels), acc_dtype(dtype)) for _ in range(2))
        numbers = (I64(3), I64(channels), I64(spatial), I64(groups))
        arguments = (g, x, means, rstds, sums, products, *numbers)
        kernel = host_kernel("norm", dtype, "gradient_sums_planes")
        parts = [np.s_[:]] if chunks == 1 else [np.s_[:2], np.s_[2:]]
        wide = g.astype(np.float64)
        wanted_sums = np.stack([wide[part].sum((0, 2)) for part in parts])
        wanted_products = np.stack([(wide * xhat)[part].sum((0, 2)) for part in parts])
        pairs = [(sums, wanted_sums), (products, wanted_products)]
        check(kernel, (2, chunks, 1), (32, 8, 1), arguments, pairs, 10 * TOLERANCE[dtype])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("by_sample", [True, False])
def test_sums_of_columns(by_sample: bool, dtype: str) -> None:
    samples, channels, chunks = 21, 40, 3
    g, x = values((samples, channels), dtype), values((samples, channels), dtype, 1)
    n = samples if by_sample else channels
    mean, rstd = values((n,), acc_dtype(dtype), 2), values((n,), acc_dtype(dtype), 3)
    shape = (-1, 1) if by_sample else (1, -1)
    product = g * ((x.astype(np.float64) - mean.reshape(shape)) * rstd.reshape(shape))
    sums, products = (np.empty((chunks, channels), acc_dtype(dtype)) for _ in range(2))
    arguments = (g, x, mean, rstd, sums, products, I64(samples), I64(channels), np.int32(by_sample))
    pairs = [
        (sums, g.astype(np.float64).reshape(chunks, 7, channels).sum(1)),
        (products, product.reshape(chunks, 7, channels).sum(1)),
    ]
    kernel = host_kernel("norm", dtype, "gradient_sums_columns")
    check(kernel, (2, chunks, 1), (32, 4, 1), arguments, pairs, 10 * TOLERANCE[dtype])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("spatial", [1, 45])
def test_moments(spatial: int, dtype: str) -> None:
    samples, channels, chunks = 10, 35, 3  # of 4, 4 and 2 samples
    x = (values((samples, channels, spatial), dtype) + acc(dtype, 100)).astype(dtype)
    wide = x.astype(np.float64)
    parts = [wide[:4], wide[4:8], wide[8:]]
    wanted_means = np.stack([p.mean((0, 2)) for p in parts])
    wanted_squares = np.stack([p.var((0, 2)) * len(p) * spatial for p in parts])
    stats = np.full((3 + 2 * chunks, channels), np.nan, acc_dtype(dtype))
    more = () if spatial == 1 else (I64(spatial),)
    function, blocks = ("columns", 2) if spatial == 1 else ("planes", 3)
    kernel = host_kernel("norm", dtype, f"moments_{function}")
    arguments = (x, stats, I64(samples), I64(channels), *more)
    pairs = [(stats[3 : 3 + chunks], wanted_means), (stats[3 + chunks :], wanted_squares)]
    tolerance = 1e-4 if dtype != "float64" else 1e-11
    check(kernel, (blocks, chunks, 1), (32, 8, 1), arguments, pairs, tolerance)
    mean, var = wide.mean((0, 2)), wide.var((0, 2))
    rstd = 1 / np.sqrt(var + EPS)
    out, weight, bias = (
        np.empty_like(x),
        values((channels,), dtype, 1),
        values((channels,), dtype, 2),
    )
    numbers = [*(I64(n) for n in (samples, channels, spatial, chunks)), acc(dtype, EPS)]
    kernel = host_kernel("norm", dtype, f"batch_norm_{function}")
    grid = (blocks, 2, 1) if spatial == 1 else (channels, 2, 2)
    of = lambda v: v.astype(np.float64)[:, None]  # noqa: E731
    xhat = (wide - of(mean)) * of(rstd)
    for w, b, wanted in ((weight, bias, xhat * of(weight) + of(bias)), (NULL, NULL, xhat)):
        arguments = (x, w, b, out, stats, NULL, NULL, np.float64(0), *numbers)
        pairs = [(stats[:3], np.stack([mean, var, rstd])), (out, wanted)]
        check(kernel, grid, (32, 8, 1), arguments, pairs, max(tolerance, 4 * TOLERANCE[dtype]))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("spatial", [1, 45])
def test_running_statistics(spatial: int, dtype: str) -> None:
    """Of one launch: each adds to them."""
    samples, channels, chunks, momentum = 10, 35, 3, 0.3
    x = values((samples, channels, spatial), dtype)
    wide, sizes = x.astype(np.float64), (4, 4, 2)
    parts = np.split(wide, np.cumsum(sizes)[:-1])
    stats = np.full((3 + 2 * chunks, channels), np.nan, acc_dtype(dtype))
    for k, part in enumerate(parts):
        stats[3 + k] = part.mean((0, 2))
        stats[3 + chunks + k] = part.var((0, 2)) * part[:, 0].size
    before = values((channels,), dtype, 1), np.abs(values((channels,), dtype, 2))
    batch = wide.mean((0, 2)), wide.var((0, 2), ddof=1)
    function, grid = ("columns", (2, 2, 1)) if spatial == 1 else ("planes", (channels, 2, 2))
    kernel = host_kernel("norm", dtype, f"batch_norm_{function}")
    numbers = [*(I64(n) for n in (samples, channels, spatial, chunks)), acc(dtype, EPS)]
    for order in ORDERS:
        kernel.seed(order)
        running = [r.copy() for r in before]
        out = np.empty_like(x)
        arguments = (x, NULL, NULL, out, stats, *running, np.float64(momentum), *numbers)
        kernel(grid, (32, 8, 1), arguments)
        for r, old, new in zip(running, before, batch, strict=True):
            wanted = (1 - momentum) * old.astype(np.float64) + momentum * new
            np.testing.assert_allclose(r.astype(np.float64), wanted, TOLERANCE[dtype] * 4, 1e-3)


@pytest.mark.parametrize("dtype", DTYPES)
def test_reciprocal_deviations(dtype: str) -> None:
    mean, var = values((70,), dtype), np.abs(values((70,), dtype, 1))
    wide_mean, rstd = (np.empty(70, acc_dtype(dtype)) for _ in range(2))
    kernel = host_kernel("norm", dtype, "reciprocal_deviations")
    pairs = [(wide_mean, mean), (rstd, 1 / np.sqrt(var.astype(np.float64) + EPS))]
    arguments = (mean, var, wide_mean, rstd, I64(70), acc(dtype, EPS))
    check(
        kernel, 2, 32, arguments, pairs, 2 * TOLERANCE["float32" if dtype == "float16" else dtype]
    )


BACKWARD = [
    *((f"{k}", 7, 32 * k - 3) for k in (2, 8, 32)),
    *((f"packs_{k}", 7, 32 * k + 16) for k in (1, 2, 4)),
]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("centred", [True, False])
@pytest.mark.parametrize(("function", "rows", "length"), BACKWARD)
def test_layer_norm_backward_and_the_sums_of_blocks(
    function: str, rows: int, length: int, centred: bool, dtype: str
) -> None:
    """2 blocks of 2 warps: the first has rows 0, 1, 4 and 5, the second 2, 3 and 6."""
    x, g = values((rows, length), dtype), values((rows, length), dtype, 1)
    weight = values((length,), dtype, 2)
    mean, rstd = statistics(x, centred, 1)
    means, rstds = mean[:, 0].astype(acc_dtype(dtype)), rstd[:, 0].astype(acc_dtype(dtype))
    xhat, wide = (x.astype(np.float64) - mean) * rstd, g.astype(np.float64)
    of_blocks = np.arange(rows) // 2 % 2
    sums = [[(v[of_blocks == b]).sum(0) for v in (wide * xhat, wide)] for b in range(2)]
    out, parts = np.full_like(x, np.nan), np.full((2, 2, length), np.nan, acc_dtype(dtype))
    kernel = host_kernel("norm", dtype, f"layer_norm_backward_rows_{function}")
    for w in (weight, NULL):
        h = wide if w is NULL else wide * weight
        inner = h.mean(1, keepdims=True) if centred else 0
        gradient = rstd * (h - inner - xhat * (h * xhat).mean(1, keepdims=True))
        arguments = (g, x, w, means, rstds, out, parts, I64(rows), np.int32(length))
        pairs = [(out, gradient), (parts, sums)]
        check(kernel, 2, 64, (*arguments, np.int32(centred)), pairs, 8 * TOLERANCE[dtype])


def largest_errors(library: str, cache: Path) -> list[float]:
    """Of the parts that a changed source writes, one for each order: the largest difference."""
    kernel = HostKernel(library, "layer_norm_backward_rows_2", cache)
    x, g = values((16, 60), "float32", scale=9), values((16, 60), "float32", 1, scale=9)
    means, rstds = np.zeros(16, np.float32), np.ones(16, np.float32)
    wanted, errors = np.stack([(g * x).sum(0), g.sum(0)]), []
    for order in ORDERS:
        kernel.seed(order)
        out, parts = np.empty_like(x), np.full((2, 60), np.nan, np.float32)
        numbers = (I64(16), np.int32(60), np.int32(1))
        kernel((1, 1, 1), (256, 1, 1), (g, x, NULL, means, rstds, out, parts, *numbers))
        errors.append(float(np.nan_to_num(np.abs(parts - wanted), nan=np.inf).max()))
    return errors


SOURCE = kernel_source("norm", "float32")
START = SOURCE.index("void backward_rows")
BARRIERS = [
    m for m in re.finditer(r"__syncthreads\(\);", SOURCE)
    if START < m.start() < SOURCE.index("void backward_packs")
]  # fmt: skip


def test_all_barriers_are_enough(tmp_path: Path) -> None:
    assert max(largest_errors(SOURCE, tmp_path)) < 1e-2


@pytest.mark.parametrize("barrier", range(len(BARRIERS)))
def test_a_missing_barrier_is_noticed_in_every_order(barrier: int, tmp_path: Path) -> None:
    place = BARRIERS[barrier]
    errors = largest_errors(SOURCE[: place.start()] + SOURCE[place.end() :], tmp_path)
    assert min(errors) > 1e-2, errors


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("spatial", [1, 37])
def test_batch_norm_of_elements(spatial: int, dtype: str) -> None:
    samples, channels = 5, 3
    shape = (samples, channels, spatial)
    x, g, out = values(shape, dtype), values(shape, dtype, 1), np.empty(shape, dtype)
    mean, rstd, sums, products = (values((channels,), acc_dtype(dtype), i) for i in range(2, 6))
    weight, bias = values((channels,), dtype, 6), values((channels,), dtype, 7)
    by_row = spatial != 1
    rows, columns = (15, 37) if by_row else (5, 3)
    sizes = (I64(rows), I64(columns), I64(channels), np.int32(by_row))
    of = lambda v: v.astype(np.float64)[:, None]  # noqa: E731
    xhat = (x - of(mean)) * of(rstd)
    kernel = host_kernel("norm", dtype, "batch_norm_apply")
    tolerance = 3 * TOLERANCE[dtype]
    for w, b, wanted in ((weight, bias, xhat * of(weight) + of(bias)), (NULL, NULL, xhat)):
        arguments = (x, mean, rstd, w, b, out, *sizes)
        check(kernel, (1, 2, 1), (32, 8, 1), arguments, [(out, wanted)], tolerance)
    chunks = 3
    shares = (np.arange(chunks) + 1)[:, None] / 6
    parts = [(shares * v).astype(acc_dtype(dtype)) for v in (sums, products)]
    by_bias, by_weight = (np.empty(channels, acc_dtype(dtype)) for _ in range(2))
    name, grid = ("planes", (channels, 2, 2)) if by_row else ("columns", (1, 2, 1))
    kernel = host_kernel("norm", dtype, f"batch_norm_backward_{name}")
    count = samples * spatial
    wanted = of(weight) * of(rstd) * (g - of(sums) / count - xhat * of(products) / count)
    sizes = tuple(I64(n) for n in (samples, channels, spatial, chunks))
    end = (out, by_bias, by_weight, *sizes)
    arguments = (g, x, mean, rstd, weight, *parts, NULL, NULL, *end)
    pairs = [(out, wanted), (by_bias, sums), (by_weight, products)]
    check(kernel, grid, (32, 8, 1), arguments, pairs, 2 * tolerance)
    wanted = wanted + (of(sums) + 2 * of(products) * (x - of(mean))) / count
    arguments = (*arguments[:7], sums, products, *end)
    check(kernel, grid, (32, 8, 1), arguments, [(out, wanted), *pairs[1:]], 2 * tolerance)
