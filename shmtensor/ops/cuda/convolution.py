"""Convolutions by cuDNN, or as matrix products of windows, a part of the batch at a time; unfold
and fold.

Without cuDNN, and for what it cannot compute, the windows of a part take BYTES at most, or those of
one image. 16-bit floats are summed in float32 in both.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator
from typing import Any

import cupy
import numpy as np

from ...dtypes import HALVES
from .. import ROWS
from ..nn.conv import flat_filters, split_groups
from ..nn.sliding_window import Shape, output_sizes
from .cudnn import convolve
from .launch import PACK, PLANS, THREADS, contiguous, is_floating, prepare
from .sliding_window import add_columns, columns_of

__all__: list[str] = []

BYTES = 256 << 20


def parts_of(batch: int, bytes_of_one: int) -> Iterator[slice]:
    """The batch in parts of some images."""
    step = max(BYTES // max(bytes_of_one, 1), 1)
    return (slice(i, i + step) for i in range(0, batch, step))


def is_view(kernel: Shape, stride: Shape, padding: Shape) -> bool:
    """Whether the windows of images are the images: those of one element, without padding."""
    return set(kernel) <= {1} and set(stride) <= {1} and not any(padding)


def grouped_columns(
    x: Any, kernel: Shape, stride: Shape, padding: Shape, dilation: Shape, groups: int, fit: Shape
) -> Any:
    """The windows of images as (N, groups, C / groups * elements of a window, windows)."""
    rows = x.shape[1] // groups * math.prod(kernel)
    if not (is_view(kernel, stride, padding) and x.shape[2:] == fit):
        x = columns_of(x, kernel, stride, padding, dilation, fit)
    return x.reshape(x.shape[0], groups, rows, math.prod(fit))


def widened(*arrays: Any) -> tuple[Any, ...]:
    """16-bit floats as float32, for sums of many elements; other arrays unchanged."""
    return tuple(x.astype(np.float32) if x is not None and x.dtype in HALVES else x for x in arrays)


@ROWS["_convolution"].on("cuda")
def convolution(xp, x, weight, bias=None, /, stride=(1,), padding=(0,), dilation=(1,), groups=1):
    """By cuDNN, or a product of filters and windows for each image and group."""
    out = convolve("conv_fprop", x, weight, None, stride, padding, dilation)
    if out is not None:
        return out if bias is None else add_to_channels(out, bias)
    dtype = x.dtype
    fit = output_sizes(x.shape[2:], weight.shape[2:], stride, padding, dilation)
    x, weight, bias = widened(x, weight, bias)
    shape = (x.shape[0], weight.shape[0], *fit)
    out = convolution_by_columns(x, weight, shape, stride, padding, dilation, groups)
    if bias is not None:
        out += bias.reshape(-1, *(1,) * len(fit))
    return out.astype(dtype, copy=False)


def add_to_channels(x: Any, bias: Any) -> Any:
    """Adds a number to each channel of images, which are dense, in place; returns them."""
    if not is_floating(x, bias) or not x.size:
        x += bias.reshape(-1, *(1,) * (x.ndim - 2))
        return x
    prepare_bias(x.shape, x.dtype, x._c_contiguous)(x, contiguous(bias))
    return x


@functools.lru_cache(PLANS)
def prepare_bias(shape: Shape, dtype: Any, in_order: bool) -> Callable[..., None]:
    """The launch (images, bias). Unless they lie in order, images are channels_last."""
    n = math.prod(shape)
    inner = math.prod(shape[2:]) if in_order else 1
    blocks = -(-n // (PACK // dtype.itemsize) // THREADS)
    numbers = n, inner, shape[1]
    return prepare("convolution", "add_to_channels", dtype, blocks, THREADS, numbers)


def convolution_by_columns(
    x: Any, weight: Any, shape: Shape, stride: Shape, padding: Shape, dilation: Shape, groups: int
) -> Any:
    """Products of filters and windows."""
    kernel, batch, fit = weight.shape[2:], x.shape[0], shape[2:]
    filters = flat_filters(weight, groups)
    rows, windows = filters.shape[1:], math.prod(fit)
    out = cupy.empty((batch, groups, rows[0], windows), x.dtype)
    for part in parts_of(batch, x.shape[1] * math.prod(kernel) * windows * x.itemsize):
        columns = grouped_columns(x[part], kernel, stride, padding, dilation, groups, fit)
        cupy.matmul(filters, columns, out=out[part])
    return out.reshape(shape)


@ROWS["_conv_transpose"].on("cuda")
def conv_transpose(xp, x, weight, /, size, stride, padding, dilation, groups):
    """By cuDNN, or the products of filters and results, each added at its window."""
    shape = (x.shape[0], groups * weight.shape[1], *size)
    out = convolve("conv_dgrad", x, weight, shape, stride, padding, dilation)
    if out is not None:
        return out
    dtype = x.dtype
    x, weight = widened(x, weight)
    kernel, fit, (batch, channels) = weight.shape[2:], x.shape[2:], shape[:2]
    filters = flat_filters(weight, groups).swapaxes(1, 2)
    out = cupy.empty(shape, dtype)
    for part in parts_of(batch, channels * math.prod(kernel) * math.prod(fit) * x.itemsize):
        columns = cupy.matmul(filters, split_groups(x[part], groups))
        columns = columns.reshape(len(columns), channels, *kernel, *fit)
        out[part] = add_columns(columns, size, kernel, stride, padding, dilation)
    return out


@ROWS["_convolution_backward_weight"].on("cuda")
def convolution_backward_weight(xp, x, y, /, kernel, stride, padding, dilation, groups):
    """By cuDNN, or one product for each group: the windows of all images are its inner dimension.

    Contiguous, whatever the operands are.
    """
    shape = (y.shape[1], x.shape[1] // groups, *kernel)
    found = convolve("conv_wgrad", x, y, shape, stride, padding, dilation)
    if found is not None:
        return contiguous(found)
    dtype = x.dtype
    x, y = widened(x, y)
    batch, fit = x.shape[0], y.shape[2:]
    rows = x.shape[1] // groups * math.prod(kernel)
    windows, filters = math.prod(fit), y.shape[1] // groups
    out = cupy.zeros((groups, filters, rows), x.dtype)
    for part in parts_of(batch, 2 * groups * rows * windows * x.itemsize):
        columns = grouped_columns(x[part], kernel, stride, padding, dilation, groups, fit)
        columns = columns.transpose(1, 2, 0, 3).reshape(groups, rows, -1)
        results = split_groups(y[part], groups).transpose(1, 2, 0, 3).reshape(groups, filters, -1)
        if columns.shape[2]:
            out += cupy.matmul(results, columns.swapaxes(1, 2))
    return out.reshape(shape).astype(dtype, copy=False)


@ROWS["_im2col"].on("cuda")
def im2col(xp, x, /, kernel, dilation, padding, stride):
    """By the kernel of windows."""
    fit = output_sizes(x.shape[2:], kernel, stride, padding, dilation)
    columns = columns_of(x, kernel, stride, padding, dilation, fit)
    return columns.reshape(x.shape[0], x.shape[1] * math.prod(kernel), math.prod(fit))


@ROWS["_col2im"].on("cuda")
def col2im(xp, x, /, size, kernel, dilation, padding, stride):
    """By the kernel that adds windows."""
    fit = output_sizes(size, kernel, stride, padding, dilation)
    channels = x.shape[1] // math.prod(kernel)
    columns = x.reshape(x.shape[0], channels, *kernel, *fit)
    return add_columns(columns, size, kernel, stride, padding, dilation)
