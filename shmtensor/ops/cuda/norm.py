"""Layer, group, RMS and batch norm on CUDA, and their gradients.

float16 elements with float32 parameters are computed in float32. Means, and reciprocals of standard
deviations, are of the type that is computed in.
"""

from __future__ import annotations

import math
from typing import Any

import cupy
import numpy as np

from ..nn.layer_norm import rows_and_length
from ..table.op_definition import ROWS
from .launch import (
    CACHED,
    WARP,
    acc_dtype,
    as_acc,
    blocks_for,
    contiguous,
    is_floating,
    launch,
    pointers,
    row_threads,
)

__all__ = [
    "batch_norm",
    "batch_norm_apply",
    "batch_norm_backward",
    "layer_norm",
    "layer_norm_backward",
]

BLOCKS = 512  # that sums over samples are shared by


def in_one_dtype(*arrays: Any) -> tuple[Any, ...]:
    """Contiguous arrays; all of them in float32 if float16 and float32 are mixed."""
    names = {x.dtype.name for x in arrays if x is not None}
    if names == {"float16", "float32"}:
        arrays = tuple(None if x is None else x.astype(np.float32, copy=False) for x in arrays)
    return tuple(contiguous(x) for x in arrays)


# ---- rows


def affine(shape: tuple[int, ...], groups: int) -> tuple[Any, ...]:
    """groups, per_group and spatial of norm.cu."""
    if not groups:
        return np.int64(1), np.int64(1), np.int64(1)
    return np.int64(groups), np.int64(shape[1] // groups), np.int64(math.prod(shape[2:]))


def launch_rows(
    function: str, arrays: tuple[Any, ...], rows: int, length: int, more: tuple[Any, ...]
) -> None:
    """Launches `layer_norm` or `layer_norm_backward` for arrays (rows, length)."""
    arguments = (*pointers(*arrays), np.int64(rows), np.int64(length), *more)
    dtype = arrays[0].dtype
    if length <= WARP:
        launch("norm", f"{function}_warp", dtype, blocks_for(rows, 8), 256, arguments)
        return
    shared = 0
    if function == "layer_norm":
        nbytes = length * acc_dtype(dtype).itemsize
        shared = nbytes if nbytes <= CACHED else 0
        arguments = (*arguments, np.int32(shared > 0))
    threads = row_threads(length)
    launch("norm", f"{function}_block", dtype, blocks_for(rows, 1), threads, arguments, shared)


def layer_norm(
    x: Any, weight: Any, bias: Any, n: int, groups: int, eps: float, centred: bool
) -> tuple[Any, Any, Any]:
    """The row `_native_layer_norm`: (x - mean) * rstd * weight + bias; each row's mean and rstd."""
    dtype = x.dtype
    x, weight, bias = in_one_dtype(x, weight, bias)
    rows, length = rows_and_length(x.shape, n, groups)
    out = cupy.empty(x.shape, x.dtype)
    means, rstds = (cupy.empty(rows, acc_dtype(x.dtype)) for _ in range(2))
    more = (*affine(x.shape, groups), as_acc(x.dtype, eps), np.int32(centred))
    launch_rows("layer_norm", (x, weight, bias, out, means, rstds), rows, length, more)
    return out.astype(dtype, copy=False), means, rstds


@ROWS["_native_layer_norm"].on("cuda")
def _native_layer_norm(
    xp: Any, x: Any, weight: Any = None, bias: Any = None, n: int = 1, groups: int = 0,
    eps: float = 1e-5, centred: bool = True,
) -> Any:  # fmt: skip
    if not x.size or not is_floating(*in_one_dtype(x, weight, bias)):
        return ROWS["_native_layer_norm"].forward(xp, x, weight, bias, n, groups, eps, centred)
    return (*layer_norm(x, weight, bias, n, groups, eps, centred), {})


def layer_norm_backward(
    g: Any, x: Any, mean: Any, rstd: Any, weight: Any, n: int, groups: int, centred: bool
) -> tuple[Any, Any, Any]:
    """The gradients by x, by the weight and by the bias; the last two in one dimension."""
    dtypes = g.dtype, (g if weight is None else weight).dtype
    g, x, weight = in_one_dtype(g, x, weight)
    mean, rstd = (contiguous(v.astype(acc_dtype(x.dtype), copy=False)) for v in (mean, rstd))
    rows, length = rows_and_length(x.shape, n, groups)
    out = cupy.empty(x.shape, x.dtype)
    more = (*affine(x.shape, groups), np.int32(centred))
    launch_rows("layer_norm_backward", (g, x, weight, mean, rstd, out), rows, length, more)
    if groups:
        shape = x.shape[0], x.shape[1], math.prod(x.shape[2:])
        sums, products = plane_sums(g, x, mean, rstd, shape, groups)
    else:
        sums, products = column_sums(g, x, mean, rstd, (rows, length), True)
    return (
        out.astype(dtypes[0], copy=False),
        products.astype(dtypes[1], copy=False),
        sums.astype(dtypes[1], copy=False),
    )


@ROWS["_native_layer_norm_backward"].on("cuda")
def _native_layer_norm_backward(
    xp: Any, x: Any, y: Any, mean: Any, rstd: Any, weight: Any = None, n: int = 1,
    groups: int = 0, centred: bool = True,
) -> Any:  # fmt: skip
    if not x.size or not is_floating(*in_one_dtype(x, y, weight)):
        row = ROWS["_native_layer_norm_backward"]
        return row.forward(xp, x, y, mean, rstd, weight, n, groups, centred)
    return layer_norm_backward(x, y, mean, rstd, weight, n, groups, centred)


# ---- sums over samples


def chunks_of(samples: int, blocks: int, size: int) -> int:
    """The number of chunks of samples that blocks are launched for, none of them empty: with at
    least `size` samples each, if there are several.
    """
    chunks = max(1, min(samples // size, BLOCKS // blocks))
    return -(-samples // -(-samples // chunks))


def column_sums(
    g: Any, x: Any, mean: Any, rstd: Any, shape: tuple[int, int], by_sample: bool
) -> tuple[Any, Any]:
    """The sums of g and of g times the normalized x over the rows of (samples, channels)."""
    samples, channels = shape
    blocks = -(-channels // 32)
    chunks = chunks_of(samples, blocks, 32)
    parts = cupy.empty((2, chunks, channels), mean.dtype)
    sizes = np.int64(samples), np.int64(channels), np.int32(by_sample)
    arguments = (g, x, mean, rstd, parts[0], parts[1], *sizes)
    launch("norm", "gradient_sums_columns", x.dtype, (blocks, chunks, 1), (32, 8, 1), arguments)
    sums, products = parts[:, 0] if chunks == 1 else parts.sum(1)
    return sums, products


def plane_sums(
    g: Any, x: Any, mean: Any, rstd: Any, shape: tuple[int, int, int], groups: int
) -> tuple[Any, Any]:
    """The same for (samples, channels, spatial), over the first and last dimension."""
    samples, channels, spatial = shape
    chunks = chunks_of(samples, channels, 8)
    parts = cupy.empty((2, chunks, channels), mean.dtype)
    sizes = np.int64(samples), np.int64(channels), np.int64(spatial), np.int64(groups)
    arguments = (g, x, mean, rstd, parts[0], parts[1], *sizes)
    grid = (blocks_for(channels, 1), chunks, 1)
    launch("norm", "gradient_sums_planes", x.dtype, grid, (32, 8, 1), arguments)
    sums, products = parts[:, 0] if chunks == 1 else parts.sum(1)
    return sums, products


# ---- batch norm


def sizes_of(shape: tuple[int, ...]) -> tuple[int, int, int]:
    """(samples, channels, spatial)."""
    return shape[0], shape[1], math.prod(shape[2:])


def moments(x: Any) -> tuple[Any, Any]:
    """The means and variances of the channels of (N, C, ...)."""
    samples, channels, spatial = sizes_of(x.shape)
    blocks = -(-channels // 32) if spatial == 1 else channels
    chunks = chunks_of(samples, blocks, 32 if spatial == 1 else 8)
    dtype = acc_dtype(x.dtype)
    parts, results = cupy.empty((2, chunks, channels), dtype), cupy.empty((2, channels), dtype)
    arguments: tuple[Any, ...] = (x, parts[0], parts[1], np.int64(samples), np.int64(channels))
    if spatial == 1:
        grid = (blocks, chunks, 1)
        launch("norm", "moments_columns", x.dtype, grid, (32, 8, 1), arguments)
    else:
        grid = (blocks_for(channels, 1), chunks, 1)
        arguments = (*arguments, np.int64(spatial))
        launch("norm", "moments_planes", x.dtype, grid, (32, 8, 1), arguments)
    numbers = (samples, channels, spatial, chunks)
    arguments = (parts[0], parts[1], results[0], results[1], *(np.int64(n) for n in numbers))
    launch("norm", "moments_combine", x.dtype, blocks_for(channels), 256, arguments)
    return results[0], results[1]


def launch_elements(function: str, arrays: tuple[Any, ...], x: Any, more: tuple[Any, ...]) -> None:
    """Launches a function of each element of (N, C, ...) and of its channel's numbers."""
    samples, channels, spatial = sizes_of(x.shape)
    rows, columns = (samples, channels) if spatial == 1 else (samples * channels, spatial)
    sizes = np.int64(rows), np.int64(columns), np.int64(channels), np.int32(spatial != 1)
    grid = (min(-(-columns // 32), 64), min(-(-rows // 8), 65535), 1)
    launch("norm", function, x.dtype, grid, (32, 8, 1), (*pointers(*arrays), *sizes, *more))


def batch_norm_apply(x: Any, mean: Any, rstd: Any, weight: Any, bias: Any) -> Any:
    """(x - mean) * rstd * weight + bias of each channel; mean and rstd are of the type that is
    computed in.
    """
    out = cupy.empty(x.shape, x.dtype)
    if x.size:
        launch_elements("batch_norm_apply", (x, mean, rstd, weight, bias, out), x, ())
    return out


@ROWS["_normalize_channels"].on("cuda")
def _normalize_channels(
    xp: Any, x: Any, mean: Any, var: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5
) -> Any:
    if not takes_channels(x, mean, var, weight, bias):
        return ROWS["_normalize_channels"].forward(xp, x, mean, var, weight, bias, eps)
    dtype = x.dtype
    x, mean, var, weight, bias = in_one_dtype(x, mean, var, weight, bias)
    mean, rstd = in_acc(x.dtype, mean, var, eps)
    out = batch_norm_apply(x, mean, rstd, weight, bias)
    return out.astype(dtype, copy=False), {}


def in_acc(dtype: Any, mean: Any, var: Any, eps: float) -> tuple[Any, Any]:
    """Means and reciprocal standard deviations in the type that is computed in."""
    acc = acc_dtype(dtype)
    mean, var = (contiguous(v.astype(acc, copy=False)) for v in (mean, var))
    return mean, reciprocal_deviation(var, acc.type(eps))


reciprocal_deviation = cupy.ElementwiseKernel(
    "T var, T eps", "T out", "out = T(1) / sqrt(var + eps)", "shmtensor_reciprocal_deviation"
)


@ROWS["_channel_gradients"].on("cuda")
def _channel_gradients(
    xp: Any, x: Any, y: Any, mean: Any, var: Any, eps: float = 1e-5
) -> tuple[Any, Any]:
    if not takes_channels(x, y, mean, var):
        result: tuple[Any, Any] = ROWS["_channel_gradients"].forward(xp, x, y, mean, var, eps)
        return result
    dtype = x.dtype
    x, y, mean, var = in_one_dtype(x, y, mean, var)
    mean, rstd = in_acc(x.dtype, mean, var, eps)
    samples, channels, spatial = sizes_of(x.shape)
    if spatial == 1:
        sums, products = column_sums(x, y, mean, rstd, (samples, channels), False)
    else:
        sums, products = plane_sums(x, y, mean, rstd, (samples, channels, spatial), 0)
    return products.astype(dtype, copy=False), sums.astype(dtype, copy=False)


def batch_norm(x: Any, weight: Any, bias: Any, eps: float) -> tuple[Any, Any, Any]:
    """The row `_native_batch_norm`: the result, and means and variances of the channels."""
    dtype = x.dtype
    x, weight, bias = in_one_dtype(x, weight, bias)
    mean, var = moments(x)
    out = batch_norm_apply(x, mean, 1 / cupy.sqrt(var + as_acc(x.dtype, eps)), weight, bias)
    return tuple(v.astype(dtype, copy=False) for v in (out, mean, var))


def takes_channels(x: Any, *others: Any) -> bool:
    """Whether the kernels take these arrays: (N, C, ...) and parameters."""
    return x.ndim > 1 and bool(x.size) and is_floating(*in_one_dtype(x, *others))


@ROWS["_native_batch_norm"].on("cuda")
def _native_batch_norm(
    xp: Any, x: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5
) -> Any:
    if not takes_channels(x, weight, bias):
        return ROWS["_native_batch_norm"].forward(xp, x, weight, bias, eps)
    return (*batch_norm(x, weight, bias, eps), {})


def batch_norm_backward(
    g: Any, x: Any, mean: Any, var: Any, weight: Any, g_mean: Any, g_var: Any, eps: float
) -> tuple[Any, Any, Any]:
    """The gradients by x, by the weight and by the bias, for the gradients g of the result, g_mean
    of the means and g_var of the variances; these may be None.
    """
    dtypes = g.dtype, (g if weight is None else weight).dtype
    g, x, weight = in_one_dtype(g, x, weight)
    dtype = acc_dtype(x.dtype)
    mean = contiguous(mean.astype(dtype, copy=False))
    rstd = 1 / cupy.sqrt(var.astype(dtype, copy=False) + dtype.type(eps))
    samples, channels, spatial = sizes_of(x.shape)
    if spatial == 1:
        sums, products = column_sums(g, x, mean, rstd, (samples, channels), False)
    else:
        sums, products = plane_sums(g, x, mean, rstd, (samples, channels, spatial), 0)
    sums, products = contiguous(sums), contiguous(products)
    out = cupy.empty(x.shape, x.dtype)
    inverse = as_acc(x.dtype, 1 / (samples * spatial))
    g_mean, g_var = (
        None if v is None else contiguous(v.astype(dtype, copy=False)) for v in (g_mean, g_var)
    )
    arrays = (g, x, mean, rstd, weight, sums, products, g_mean, g_var, out)
    launch_elements("batch_norm_backward_apply", arrays, x, (inverse,))
    return (
        out.astype(dtypes[0], copy=False),
        products.astype(dtypes[1], copy=False),
        sums.astype(dtypes[1], copy=False),
    )


@ROWS["_native_batch_norm_backward"].on("cuda")
def _native_batch_norm_backward(
    xp: Any, x: Any, y: Any, mean: Any, var: Any, weight: Any = None, g_mean: Any = None,
    g_var: Any = None, eps: float = 1e-5,
) -> Any:  # fmt: skip
    if not takes_channels(x, y, weight):
        row = ROWS["_native_batch_norm_backward"]
        return row.forward(xp, x, y, mean, var, weight, g_mean, g_var, eps)
    return batch_norm_backward(x, y, mean, var, weight, g_mean, g_var, eps)
