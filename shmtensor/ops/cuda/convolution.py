"""Convolutions as matrix products of windows, a part of the batch at a time; unfold and fold.

cuDNN is not used. The windows of a part take BYTES at most, or those of one image.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import cupy

from .. import ROWS
from ..nn.conv import flat_filters, split_groups
from ..nn.sliding_window import Shape, output_sizes
from .windows import add_columns, columns_of

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
    x: Any,
    kernel: Shape,
    stride: Shape,
    padding: Shape,
    dilation: Shape,
    groups: int,
    fit: Shape,
) -> Any:
    """The windows of images as (N, groups, C / groups * elements of a window, windows)."""
    rows = x.shape[1] // groups * math.prod(kernel)
    if not (is_view(kernel, stride, padding) and x.shape[2:] == fit):
        x = columns_of(x, kernel, stride, padding, dilation, fit)
    return x.reshape(x.shape[0], groups, rows, math.prod(fit))


@ROWS["_convolution"].on("cuda")
def convolution(xp, x, weight, bias=None, /, stride=(1,), padding=(0,), dilation=(1,), groups=1):
    """A product of filters and windows for each image and group."""
    kernel, batch = weight.shape[2:], x.shape[0]
    fit = output_sizes(x.shape[2:], kernel, stride, padding, dilation)
    filters = flat_filters(weight, groups)
    rows, windows = filters.shape[1:], math.prod(fit)
    out = cupy.empty((batch, groups, rows[0], windows), x.dtype)
    for part in parts_of(batch, x.shape[1] * math.prod(kernel) * windows * x.itemsize):
        columns = grouped_columns(x[part], kernel, stride, padding, dilation, groups, fit)
        cupy.matmul(filters, columns, out=out[part])
    out = out.reshape(batch, weight.shape[0], *fit)
    if bias is not None:
        out += bias.reshape(-1, *(1,) * len(fit))
    return out


@ROWS["_conv_transpose"].on("cuda")
def conv_transpose(xp, x, weight, /, size, stride, padding, dilation, groups):
    """The products of filters and results, each added at its window."""
    kernel, fit, batch = weight.shape[2:], x.shape[2:], x.shape[0]
    filters = flat_filters(weight, groups).swapaxes(1, 2)
    channels = groups * weight.shape[1]
    out = cupy.empty((batch, channels, *size), x.dtype)
    for part in parts_of(batch, channels * math.prod(kernel) * math.prod(fit) * x.itemsize):
        columns = cupy.matmul(filters, split_groups(x[part], groups))
        columns = columns.reshape(len(columns), channels, *kernel, *fit)
        out[part] = add_columns(columns, size, kernel, stride, padding, dilation)
    return out


@ROWS["_convolution_backward_weight"].on("cuda")
def convolution_backward_weight(xp, x, y, /, kernel, stride, padding, dilation, groups):
    """One product for each group: the windows of all images are its inner dimension."""
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
    return out.reshape(y.shape[1], x.shape[1] // groups, *kernel)


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
