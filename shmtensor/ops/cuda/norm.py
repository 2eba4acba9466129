"""Layer, group, RMS and batch norm on CUDA, and their gradients.

float16 elements with float32 parameters are computed in float32. Means, and reciprocals of standard
deviations, are of the type that is computed in.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import cupy
import numpy as np

from ...cuda_arrays import check_writable
from ..nn.batch_norm import update_running
from ..nn.layer_norm import rows_and_length
from ..table.op_table import ROWS
from .launch import (
    ACC,
    CACHED,
    FLOAT32,
    PLANS,
    WARP,
    as_acc,
    blocks_for,
    cast,
    contiguous,
    even_chunks,
    is_aligned,
    is_floating,
    launch,
    prepare,
    row_threads,
    two_of,
    warp_kernel,
)
from .reduce import prepare_stage, sum_of_dims

BLOCKS = 512  # that sums over samples are shared by
LAST_BLOCKS = 16384  # that write batch norm's elements: each adds up the chunks of its channels
FUSED = 4 * WARP  # bytes of a row, in the type that is computed in, that a warp has registers for
FLOAT16 = np.dtype(np.float16)
Launch = Callable[..., None]


def in_one_dtype(*arrays: Any) -> tuple[Any, ...]:
    """Contiguous arrays; all of them in float32 if float16 and float32 are mixed."""
    dtype = arrays[0].dtype
    for x in arrays:
        if x is not None and (x.dtype != dtype or not x._c_contiguous):
            break
    else:
        return arrays
    if {x.dtype for x in arrays if x is not None} == {FLOAT16, FLOAT32}:
        arrays = tuple(cast(x, FLOAT32) for x in arrays)
    return tuple(contiguous(x) for x in arrays)


# ---- rows


def affine(shape: tuple[int, ...], groups: int) -> tuple[int, ...]:
    """groups, per_group and spatial of norm.cu."""
    if not groups:
        return 1, 1, 1
    return groups, shape[1] // groups, math.prod(shape[2:])


def prepare_rows(
    function: str, dtype: Any, rows: int, length: int, more: tuple[Any, ...]
) -> Launch:
    """The launch of `layer_norm` or `layer_norm_backward` for arrays (rows, length)."""
    numbers = rows, length, *more
    if length <= WARP:
        return prepare("norm", f"{function}_warp", dtype, blocks_for(rows, 8), 256, numbers)
    shared = 0
    if function == "layer_norm":
        nbytes = length * ACC[dtype].itemsize
        shared = nbytes if nbytes <= CACHED else 0
        numbers = (*numbers, np.int32(shared > 0))
    threads = row_threads(length)
    blocks = blocks_for(rows, 1)
    return prepare("norm", f"{function}_block", dtype, blocks, threads, numbers, shared)


@functools.lru_cache(PLANS)
def prepare_layer_norm(
    shape: tuple[int, ...], dtype: Any, n: int, groups: int, eps: float, centred: bool
) -> tuple[int, Launch]:
    """The rows, and the launch (x, weight, bias, out, means, rstds)."""
    rows, length = rows_and_length(shape, n, groups)
    more = (*affine(shape, groups), as_acc(dtype, eps), np.int32(centred))
    return rows, prepare_rows("layer_norm", dtype, rows, length, more)


def layer_norm(
    x: Any, weight: Any, bias: Any, n: int, groups: int, eps: float, centred: bool
) -> tuple[Any, Any, Any]:
    """The row `_native_layer_norm`: (x - mean) * rstd * weight + bias; each row's mean and rstd.

    Raises:
        KeyError: the kernels are not compiled for the dtype.
    """
    wanted = x.dtype
    x, weight, bias = in_one_dtype(x, weight, bias)
    shape, dtype = x.shape, x.dtype
    rows, run = prepare_layer_norm(shape, dtype, n, groups, eps, centred)
    out = cupy.ndarray(shape, dtype)
    means, rstds = two_of(rows, ACC[dtype])
    run(x, weight, bias, out, means, rstds)
    return cast(out, wanted), means, rstds


def takes(*arrays: Any) -> bool:
    """Whether the kernels take these arrays: of one dtype, or of float16 and float32."""
    if is_floating(*arrays):
        return True
    return all(x is None or x.dtype == FLOAT16 or x.dtype == FLOAT32 for x in arrays)


@ROWS["_native_layer_norm"].on("cuda")
def _native_layer_norm(
    xp: Any, x: Any, weight: Any = None, bias: Any = None, n: int = 1, groups: int = 0,
    eps: float = 1e-5, centred: bool = True,
) -> Any:  # fmt: skip
    if not x.size or not takes(x, weight, bias):
        return ROWS["_native_layer_norm"].forward(xp, x, weight, bias, n, groups, eps, centred)
    return layer_norm(x, weight, bias, n, groups, eps, centred)


@functools.lru_cache(PLANS)
def prepare_fused(
    rows: int, length: int, dtype: Any, centred: bool, aligned: bool
) -> tuple[int, Launch, Launch]:
    """The number of blocks, the launch of layer norm's gradients, and that which adds up the
    blocks' parts of those by weight and bias.
    """
    blocks = min(-(-rows // 8), BLOCKS)
    name = f"layer_norm_backward_rows_{warp_kernel(length, dtype, aligned, (2, 8, 32))}"
    run = prepare("norm", name, dtype, blocks, 256, (rows, np.int32(length), np.int32(centred)))
    add, _ = prepare_stage(dtype, "_of_acc", (1, blocks, 2 * length), 1.0, True)
    return blocks, run, add


@functools.lru_cache(PLANS)
def prepare_backward(
    shape: tuple[int, ...], dtype: Any, n: int, groups: int, centred: bool
) -> Launch:
    """The launch (g, x, weight, mean, rstd, out) of the gradient by x."""
    rows, length = rows_and_length(shape, n, groups)
    more = (*affine(shape, groups), np.int32(centred))
    return prepare_rows("layer_norm_backward", dtype, rows, length, more)


def layer_norm_backward(
    g: Any, x: Any, mean: Any, rstd: Any, weight: Any, n: int, groups: int, centred: bool
) -> tuple[Any, Any, Any]:
    """The gradients by x, by the weight and by the bias; the last two in one dimension."""
    dtypes = g.dtype, (g if weight is None else weight).dtype
    g, x, weight = in_one_dtype(g, x, weight)
    shape, dtype = x.shape, x.dtype
    acc = ACC[dtype]
    mean, rstd = contiguous(cast(mean, acc)), contiguous(cast(rstd, acc))
    rows, length = rows_and_length(shape, n, groups)
    out = cupy.ndarray(shape, dtype)
    if not groups and length * acc.itemsize <= FUSED:
        aligned = is_aligned(g, x, weight)
        blocks, run, add = prepare_fused(rows, length, dtype, centred, aligned)
        parts = cupy.ndarray((blocks * 2 * length,), acc)
        run(g, x, weight, mean, rstd, out, parts)
        products, sums = two_of(length, dtype)
        add(parts, products)  # and sums, which follow
    else:
        prepare_backward(shape, dtype, n, groups, centred)(g, x, weight, mean, rstd, out)
        sizes = sizes_of(shape) if groups else (rows, length, 0)
        sums, products = channel_sums(g, x, mean, rstd, sizes, groups, not groups)
    return cast(out, dtypes[0]), cast(products, dtypes[1]), cast(sums, dtypes[1])


@ROWS["_native_layer_norm_backward"].on("cuda")
def _native_layer_norm_backward(
    xp: Any, x: Any, y: Any, mean: Any, rstd: Any, weight: Any = None, n: int = 1,
    groups: int = 0, centred: bool = True,
) -> Any:  # fmt: skip
    if not x.size or not takes(x, y, weight):
        row = ROWS["_native_layer_norm_backward"]
        return row.forward(xp, x, y, mean, rstd, weight, n, groups, centred)
    return layer_norm_backward(x, y, mean, rstd, weight, n, groups, centred)


# ---- sums over samples


def rows_of(both: Any) -> tuple[Any, Any]:
    """The two rows of a contiguous array (2, n), as arrays without a base."""
    n, dtype, memory = both.shape[1], both.dtype, both.data
    return cupy.ndarray((n,), dtype, memory), cupy.ndarray((n,), dtype, memory + n * dtype.itemsize)


@functools.lru_cache(PLANS)
def prepare_channel_sums(
    dtype: Any, samples: int, channels: int, spatial: int, groups: int, by_sample: bool
) -> tuple[int, Launch]:
    """The number of chunks, and the launch (g, x, mean, rstd, sums, products) for arrays (samples,
    channels, spatial), or (samples, channels) if spatial is 0.
    """
    numbers: tuple[Any, ...]
    if not spatial:
        blocks = -(-channels // 32)
        chunks, _ = even_chunks(samples, 32, BLOCKS // blocks)
        name, numbers = "columns", (samples, channels, np.int32(by_sample))
    else:
        blocks = blocks_for(channels, 1)
        chunks, _ = even_chunks(samples, 8, BLOCKS // channels)
        name, numbers = "planes", (samples, channels, spatial, groups)
    grid = (blocks, chunks, 1)
    return chunks, prepare("norm", f"gradient_sums_{name}", dtype, grid, (32, 8, 1), numbers)


def channel_sums(
    g: Any, x: Any, mean: Any, rstd: Any, sizes: tuple[int, int, int], groups: int, by_sample: bool
) -> tuple[Any, Any]:
    """The sums of g and of g times the normalized x over samples and positions."""
    chunks, run = prepare_channel_sums(x.dtype, *sizes, groups, by_sample)
    n = chunks * sizes[1]
    parts = cupy.ndarray((2, n), mean.dtype)
    run(g, x, mean, rstd, *rows_of(parts))
    if chunks > 1:
        parts = sum_of_dims(cupy.ndarray((2, chunks, sizes[1]), mean.dtype, parts.data), 1)
    return rows_of(parts)


# ---- batch norm


def sizes_of(shape: tuple[int, ...]) -> tuple[int, int, int]:
    """(samples, channels, spatial)."""
    return shape[0], shape[1], math.prod(shape[2:])


def grids_of(shape: tuple[int, ...]) -> tuple[str, tuple[int, ...], tuple[int, ...]]:
    """The suffix of the kernels for (N, C, ...), and two grids: of those that reduce chunks, whose
    number is the second one's; of those that combine them and write the elements.
    """
    samples, channels, spatial = sizes_of(shape)
    if spatial == 1:
        blocks = -(-channels // 32)
        chunks, _ = even_chunks(samples, 32, BLOCKS // blocks)
        rows = max(1, min(-(-samples // 32), LAST_BLOCKS // blocks))
        return "columns", (blocks, chunks, 1), (blocks, rows, 1)
    chunks, _ = even_chunks(samples, 8, BLOCKS // channels)
    rows = max(1, min(-(-samples // 8), LAST_BLOCKS // channels))
    most = max(1, min(LAST_BLOCKS // (channels * rows), 64))
    last = channels, rows, min(-(-spatial // 128), most)
    return "planes", (blocks_for(channels, 1), chunks, 1), last


@functools.lru_cache(PLANS)
def prepare_batch_norm(
    shape: tuple[int, ...], dtype: Any, eps: float
) -> tuple[int, Launch, Launch]:
    """The elements of `stats`, and the launches (x, stats) and (x, weight, bias, out, stats,
    running_mean, running_var, momentum).
    """
    sizes, (suffix, grid, last) = sizes_of(shape), grids_of(shape)
    numbers = sizes[:2] if suffix == "columns" else sizes
    reduce = prepare("norm", f"moments_{suffix}", dtype, grid, (32, 8, 1), numbers)
    more = *sizes, grid[1], as_acc(dtype, eps)
    combine = prepare("norm", f"batch_norm_{suffix}", dtype, last, (32, 8, 1), more)
    return (3 + 2 * grid[1]) * sizes[1], reduce, combine


@functools.lru_cache(PLANS)
def prepare_batch_norm_backward(shape: tuple[int, ...], dtype: Any) -> tuple[int, Launch, Launch]:
    """The number of chunks, and the launches (g, x, mean, rstd, sums, products) and (g, x, mean,
    rstd, weight, sums, products, g_mean, g_var, out, by_bias, by_weight).
    """
    samples, channels, spatial = sizes = sizes_of(shape)
    suffix, grid, last = grids_of(shape)
    more: Any = (np.int32(False),) if suffix == "columns" else (spatial, 0)
    name = f"gradient_sums_{suffix}"
    reduce = prepare("norm", name, dtype, grid, (32, 8, 1), (samples, channels, *more))
    name = f"batch_norm_backward_{suffix}"
    combine = prepare("norm", name, dtype, last, (32, 8, 1), (*sizes, grid[1]))
    return grid[1], reduce, combine


@functools.lru_cache(PLANS)
def prepare_elements(
    function: str, shape: tuple[int, ...], dtype: Any, more: tuple[Any, ...]
) -> Launch:
    """The launch of a function of each element of (N, C, ...) and of its channel's numbers."""
    samples, channels, spatial = sizes_of(shape)
    rows, columns = (samples, channels) if spatial == 1 else (samples * channels, spatial)
    grid = (min(-(-columns // 32), 64), min(-(-rows // 8), 65535), 1)
    numbers = rows, columns, channels, np.int32(spatial != 1), *more
    return prepare("norm", function, dtype, grid, (32, 8, 1), numbers)


def batch_norm_apply(x: Any, mean: Any, rstd: Any, weight: Any, bias: Any) -> Any:
    """(x - mean) * rstd * weight + bias of each channel; mean and rstd are of the type that is
    computed in.
    """
    shape, dtype = x.shape, x.dtype
    out = cupy.ndarray(shape, dtype)
    if x.size:
        prepare_elements("batch_norm_apply", shape, dtype, ())(x, mean, rstd, weight, bias, out)
    return out


@ROWS["_normalize_channels"].on("cuda")
def _normalize_channels(
    xp: Any, x: Any, mean: Any, var: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5
) -> Any:
    if not takes_channels(x, mean, var, weight, bias):
        return ROWS["_normalize_channels"].forward(xp, x, mean, var, weight, bias, eps)
    wanted = x.dtype
    x, mean, var, weight, bias = in_one_dtype(x, mean, var, weight, bias)
    mean, rstd = in_acc(x.dtype, mean, var, eps)
    return cast(batch_norm_apply(x, mean, rstd, weight, bias), wanted)


def in_acc(dtype: Any, mean: Any, var: Any, eps: float) -> tuple[Any, Any]:
    """Means and reciprocal standard deviations in the type that is computed in."""
    mean, var = contiguous(cast(mean, dtype)), contiguous(cast(var, dtype))
    n = mean.size
    wide_mean, rstd = two_of(n, ACC[dtype])
    arguments = (mean, var, wide_mean, rstd, n, as_acc(dtype, eps))
    launch("norm", "reciprocal_deviations", dtype, blocks_for(n), 256, arguments)
    return wide_mean, rstd


@ROWS["_channel_gradients"].on("cuda")
def _channel_gradients(
    xp: Any, x: Any, y: Any, mean: Any, var: Any, eps: float = 1e-5
) -> tuple[Any, Any]:
    if not takes_channels(x, y, mean, var):
        result: tuple[Any, Any] = ROWS["_channel_gradients"].forward(xp, x, y, mean, var, eps)
        return result
    wanted = x.dtype
    x, y, mean, var = in_one_dtype(x, y, mean, var)
    mean, rstd = in_acc(x.dtype, mean, var, eps)
    samples, channels, spatial = sizes_of(x.shape)
    sizes = samples, channels, spatial if spatial != 1 else 0
    sums, products = channel_sums(x, y, mean, rstd, sizes, 0, False)
    return cast(products, wanted), cast(sums, wanted)


def batch_norm(
    x: Any, weight: Any, bias: Any, eps: float, running: tuple[Any, Any, float]
) -> tuple[Any, Any, Any, Any]:
    """The row `_native_batch_norm` in two launches: the result, means and variances of the
    channels, and 1 / sqrt(var + eps); `running` is (None, None, 0.0) or as `takes_running` says.
    """
    wanted = x.dtype
    x, weight, bias = in_one_dtype(x, weight, bias)
    shape, dtype = x.shape, x.dtype
    n, find_moments, normalize = prepare_batch_norm(shape, dtype, eps)
    channels, acc = shape[1:2], ACC[dtype]
    stats, out = cupy.ndarray((n,), acc), cupy.ndarray(shape, dtype)
    find_moments(x, stats)
    normalize(x, weight, bias, out, stats, *running)
    memory, nbytes = stats.data, shape[1] * acc.itemsize
    mean = cupy.ndarray(channels, acc, memory)
    var = cupy.ndarray(channels, acc, memory + nbytes)
    rstd = cupy.ndarray(channels, acc, memory + 2 * nbytes)
    if wanted is acc:
        return out, mean, var, rstd
    return cast(out, wanted), cast(mean, wanted), cast(var, wanted), rstd


NO_RUNNING = None, None, 0.0


def takes_running(running: tuple[Any, Any, float], x: Any, *parameters: Any) -> bool:
    """Whether the kernels update running statistics: contiguous, of the dtype that x is read in."""
    is_mixed = x.dtype == FLOAT16 and any(p is not None and p.dtype != FLOAT16 for p in parameters)
    dtype = FLOAT32 if is_mixed else x.dtype
    mean, var, _ = running
    fits = mean.dtype == dtype and mean._c_contiguous and var.dtype == dtype and var._c_contiguous
    return bool(fits)


def takes_channels(x: Any, *others: Any) -> bool:
    """Whether the kernels take these arrays: (N, C, ...) and parameters."""
    return x.ndim > 1 and bool(x.size) and takes(x, *others)


@ROWS["_native_batch_norm"].on("cuda")
def _native_batch_norm(
    xp: Any, x: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5, running: Any = None
) -> Any:
    if not takes_channels(x, weight, bias):
        return ROWS["_native_batch_norm"].forward(xp, x, weight, bias, eps, running)
    in_kernel = running is not None and takes_running(running, x, weight, bias)
    arguments = running if in_kernel else NO_RUNNING
    if running is not None and not in_kernel:
        check_writable(running[0])
        check_writable(running[1])
    out, mean, var, rstd = batch_norm(x, weight, bias, eps, arguments)
    if running is not None and not in_kernel:
        update_running(mean, var, x.size // x.shape[1], *running)
    return out, mean, var, rstd


def batch_norm_backward(
    g: Any, x: Any, mean: Any, var: Any, weight: Any, g_mean: Any, g_var: Any, rstd: Any, eps: float
) -> tuple[Any, Any, Any]:
    """The gradients by x, by the weight and by the bias, for the gradients g of the result, g_mean
    of the means and g_var of the variances; these, and rstd, may be None.
    """
    dtypes = g.dtype, (g if weight is None else weight).dtype
    g, x, weight = in_one_dtype(g, x, weight)
    shape, dtype = x.shape, x.dtype
    acc = ACC[dtype]
    if rstd is None or mean.dtype != acc or rstd.dtype != acc or not mean._c_contiguous:
        mean, rstd = in_acc(dtype, mean, var, eps)
    chunks, reduce, combine = prepare_batch_norm_backward(shape, dtype)
    out, channels = cupy.ndarray(shape, dtype), shape[1]
    memory, nbytes = cupy.ndarray((2 + 2 * chunks, channels), acc).data, channels * acc.itemsize
    sums = cupy.ndarray((channels,), acc, memory)
    products = cupy.ndarray((channels,), acc, memory + nbytes)
    parts = cupy.ndarray((chunks, channels), acc, memory + 2 * nbytes)
    more_parts = cupy.ndarray((chunks, channels), acc, memory + (2 + chunks) * nbytes)
    reduce(g, x, mean, rstd, parts, more_parts)
    g_mean, g_var = contiguous(cast(g_mean, acc)), contiguous(cast(g_var, acc))
    combine(g, x, mean, rstd, weight, parts, more_parts, g_mean, g_var, out, sums, products)
    return cast(out, dtypes[0]), cast(products, dtypes[1]), cast(sums, dtypes[1])


@ROWS["_native_batch_norm_backward"].on("cuda")
def _native_batch_norm_backward(
    xp: Any, x: Any, y: Any, mean: Any, var: Any, weight: Any = None, g_mean: Any = None,
    g_var: Any = None, rstd: Any = None, eps: float = 1e-5,
) -> Any:  # fmt: skip
    if not takes_channels(x, y, weight):
        row = ROWS["_native_batch_norm_backward"]
        return row.forward(xp, x, y, mean, var, weight, g_mean, g_var, rstd, eps)
    return batch_norm_backward(x, y, mean, var, weight, g_mean, g_var, rstd, eps)
