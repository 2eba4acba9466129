"""unfold (im2col) and fold (col2im); pixel_shuffle, pixel_unshuffle, channel_shuffle."""

from __future__ import annotations

import math
from typing import Any

from ..table.memory_format import like_image
from ..table.op_table import composite, op
from .sliding_window import (
    Shape,
    add_windows,
    expand_to_tuple,
    output_sizes,
    pad_with,
    window_views,
)


@op(
    samples=[
        ((2, 3, 5, 4), (2, 3), (1, 1), (0, 1), (2, 1)),
        ((1, 2, 6), (2,), (2,), (1,), (1,)),
        ((0, 2, 4, 4), (2, 2), (1, 1), (0, 0), (1, 1)),
    ],
    vmap="images",
)
def _im2col(xp, x, /, kernel, dilation, padding, stride):
    """(N, C, *size) as (N, C * elements of a window, windows)."""
    fit = output_sizes(x.shape[2:], kernel, stride, padding, dilation)
    windows = window_views(xp, pad_with(xp, x, padding, padding), kernel, stride, dilation, fit)
    columns = windows.reshape(x.shape[0], x.shape[1] * math.prod(kernel), math.prod(fit))
    return columns.copy() if xp.may_share_memory(columns, x) else columns


@op(
    samples=[
        ((2, 18, 8), (5, 4), (2, 3), (1, 1), (0, 1), (2, 1)),
        ((1, 4, 6), (6,), (2,), (2,), (1,), (1,)),
    ]
)
def _col2im(xp, x, /, size, kernel, dilation, padding, stride):
    """Columns, each added at its window's position: (N, C, *size)."""
    fit = output_sizes(size, kernel, stride, padding, dilation)
    channels = x.shape[1] // math.prod(kernel)
    parts = x.reshape(x.shape[0], channels, *kernel, *fit)
    out = add_windows(xp, parts, size, kernel, stride, padding, dilation)
    return xp.ascontiguousarray(out)


_im2col.pullback(
    x=lambda ops, g, x_shape, kernel, dilation, padding, stride: ops._col2im(
        g, x_shape[2:], kernel, dilation, padding, stride
    )
)
_col2im.pullback(
    x=lambda ops, g, kernel, dilation, padding, stride: ops._im2col(
        g, kernel, dilation, padding, stride
    )
)


def window_arguments(
    name: str, kernel_size: Any, dilation: Any, padding: Any, stride: Any
) -> tuple[Shape, Shape, Shape, Shape]:
    """kernel_size, dilation, padding and stride as pairs."""
    kernel, dilation, padding, stride = (
        expand_to_tuple(name, parameter, value, 2)
        for parameter, value in (
            ("kernel_size", kernel_size),
            ("dilation", dilation),
            ("padding", padding),
            ("stride", stride),
        )
    )
    for parameter, value in (("kernel_size", kernel), ("dilation", dilation), ("stride", stride)):
        if min(value) < 1:
            raise RuntimeError(f"{name}: {parameter} must be greater than zero: {value}")
    if min(padding) < 0:
        raise RuntimeError(f"{name}: padding must not be negative: {padding}")
    return kernel, dilation, padding, stride


@composite(method=False, function=False)
def image_unfold(ops, input, kernel_size, dilation=1, padding=0, stride=1):
    """The windows of an image as columns.

    Parameters
    ----------
    input : Tensor
        `(N, C, H, W)` or `(C, H, W)`.
    kernel_size : int or (int, int)
        Elements of a window.
    dilation : int or (int, int), optional
        Steps from one element of a window to the next.
    padding : int or (int, int), optional
        Zeros added on either side.
    stride : int or (int, int), optional
        Steps from one window to the next.

    Returns
    -------
    Tensor
        `(N, C * kh * kw, L)` or `(C * kh * kw, L)` for L windows.

    Raises
    ------
    RuntimeError
        No window fits, or the input has other dimensions.

    See Also
    --------
    fold, nn.Unfold, Tensor.unfold

    Examples
    --------
    >>> F.unfold(st.arange(6.).reshape(1, 2, 3), 2)
    tensor([[0., 1.],
            [1., 2.],
            [3., 4.],
            [4., 5.]])
    """
    kernel, dilation, padding, stride = window_arguments(
        "unfold", kernel_size, dilation, padding, stride
    )
    shape = tuple(input.shape)
    if input.ndim not in (3, 4) or not all(shape[input.ndim - 3 :]):
        raise RuntimeError(f"unfold: expected 3 or 4 dimensions, none but N empty: {shape}")
    fit = output_sizes(shape[-2:], kernel, stride, padding, dilation)
    if min(fit) < 1:
        raise RuntimeError(f"unfold: no window fits: {kernel} in {shape}, output size {fit}")
    is_unbatched = input.ndim == 3
    out = ops._im2col(
        ops.unsqueeze(input, 0) if is_unbatched else input, kernel, dilation, padding, stride
    )
    return ops.squeeze(out, 0) if is_unbatched else out


@composite(method=False, function=False)
def fold(ops, input, output_size, kernel_size, dilation=1, padding=0, stride=1):
    """Adds the columns of windows at the windows' positions in an image.

    Parameters
    ----------
    input : Tensor
        `(N, C * kh * kw, L)` or `(C * kh * kw, L)`, as `unfold` makes them.
    output_size : int or (int, int)
        The image's height and width.
    kernel_size : int or (int, int)
        Elements of a window.
    dilation : int or (int, int), optional
        Steps from one element of a window to the next.
    padding : int or (int, int), optional
        Elements around the image that windows may reach.
    stride : int or (int, int), optional
        Steps from one window to the next.

    Returns
    -------
    Tensor
        `(N, C, *output_size)` or `(C, *output_size)`. Elements of several windows are sums.

    Raises
    ------
    RuntimeError
        The columns do not match the windows.

    See Also
    --------
    unfold, nn.Fold

    Examples
    --------
    >>> columns = F.unfold(st.ones(1, 2, 3), 2)
    >>> F.fold(columns, (2, 3), 2)
    tensor([[[1., 2., 1.],
             [1., 2., 1.]]])
    """
    kernel, dilation, padding, stride = window_arguments(
        "fold", kernel_size, dilation, padding, stride
    )
    size, shape = expand_to_tuple("fold", "output_size", output_size, 2), tuple(input.shape)
    if input.ndim not in (2, 3) or not all(shape[input.ndim - 2 :]):
        raise RuntimeError(f"fold: expected 2 or 3 dimensions, none but N empty: {shape}")
    if shape[-2] % math.prod(kernel):
        raise RuntimeError(f"fold: rows must be a multiple of {math.prod(kernel)}: {shape}")
    fit = output_sizes(size, kernel, stride, padding, dilation)
    if min(fit) < 1 or math.prod(fit) != shape[-1]:
        raise RuntimeError(f"fold: {fit} windows fit in {size}: input has {shape[-1]}, {shape}")
    is_unbatched = input.ndim == 2
    out = ops._col2im(
        ops.unsqueeze(input, 0) if is_unbatched else input, size, kernel, dilation, padding, stride
    )
    return ops.squeeze(out, 0) if is_unbatched else out


# ---- channels and pixels


def check_factor(name: str, factor: Any, shape: tuple[int, ...]) -> None:
    """Raises unless the factor is a positive int and the image has 3 dimensions or more."""
    if not isinstance(factor, int):
        raise TypeError(f"{name}: the factor must be an int: {factor!r}")
    if factor < 1:
        raise RuntimeError(f"{name}: the factor must be positive: {factor}")
    if len(shape) < 3:
        raise RuntimeError(f"{name}: expected at least 3 dimensions: {shape}")


@composite(method=False)
def pixel_shuffle(ops, input, upscale_factor):
    """Moves channels into the image: `(C * r * r, H, W)` as `(C, H * r, W * r)` (Shi et al. 2016).

    Parameters
    ----------
    input : Tensor
        `(..., C * r * r, H, W)`.
    upscale_factor : int
        r.

    Returns
    -------
    Tensor
        `(..., C, H * r, W * r)`.

    Raises
    ------
    RuntimeError
        The channels are not a multiple of r * r.

    See Also
    --------
    pixel_unshuffle, nn.PixelShuffle

    Examples
    --------
    >>> F.pixel_shuffle(st.arange(4.).reshape(4, 1, 1), 2)
    tensor([[[0., 1.],
             [2., 3.]]])
    """
    r, shape = upscale_factor, tuple(input.shape)
    check_factor("pixel_shuffle", r, shape)
    if shape[-3] % (r * r):
        raise RuntimeError(
            f"pixel_shuffle: channels must be a multiple of the factor's square: {shape}, {r}"
        )
    batch, (c, h, w) = shape[:-3], shape[-3:]
    n = len(batch)
    parts = ops.reshape(input, (*batch, c // (r * r), r, r, h, w))
    parts = ops.permute(parts, (*range(n), n, n + 3, n + 1, n + 4, n + 2))
    shape = (*batch, c // (r * r), h * r, w * r)
    return like_image(ops, ops.reshape(ops._contiguous(parts), shape), input)


@composite(method=False)
def pixel_unshuffle(ops, input, downscale_factor):
    """Moves blocks of pixels into channels: the inverse of `pixel_shuffle`.

    Parameters
    ----------
    input : Tensor
        `(..., C, H * r, W * r)`.
    downscale_factor : int
        r.

    Returns
    -------
    Tensor
        `(..., C * r * r, H, W)`.

    Raises
    ------
    RuntimeError
        Height or width is not a multiple of r.

    See Also
    --------
    pixel_shuffle, nn.PixelUnshuffle

    Examples
    --------
    >>> F.pixel_unshuffle(st.arange(4.).reshape(1, 2, 2), 2).shape
    Size([4, 1, 1])
    """
    r, shape = downscale_factor, tuple(input.shape)
    check_factor("pixel_unshuffle", r, shape)
    if shape[-1] % r or shape[-2] % r:
        raise RuntimeError(
            f"pixel_unshuffle: height and width must be multiples of the factor: {shape}, {r}"
        )
    batch, (c, h, w) = shape[:-3], shape[-3:]
    n = len(batch)
    parts = ops.reshape(input, (*batch, c, h // r, r, w // r, r))
    parts = ops.permute(parts, (*range(n), n, n + 2, n + 4, n + 1, n + 3))
    return like_image(ops, ops.reshape(parts, (*batch, c * r * r, h // r, w // r)), input)


@composite(method=False)
def channel_shuffle(ops, input, groups):
    """Takes the channels in turn from each of the groups (Zhang et al. 2018).

    Parameters
    ----------
    input : Tensor
        `(N, C, ...)`.
    groups : int
        Number of groups of neighbouring channels; C is a multiple of it.

    Returns
    -------
    Tensor
        Of the input's shape.

    Raises
    ------
    RuntimeError
        C is not a multiple of groups.

    See Also
    --------
    nn.ChannelShuffle

    Examples
    --------
    >>> F.channel_shuffle(st.arange(4).reshape(1, 4, 1), 2).flatten()
    tensor([0, 2, 1, 3])
    """
    shape = tuple(input.shape)
    check_factor("channel_shuffle", groups, shape)
    if shape[1] % groups:
        raise RuntimeError(
            f"channel_shuffle: channels must be a multiple of groups: {shape}, {groups}"
        )
    parts = ops.reshape(input, (shape[0], groups, shape[1] // groups, *shape[2:]))
    return like_image(ops, ops.reshape(ops.transpose(parts, 1, 2), shape), input)


channel_shuffle.alias("native_channel_shuffle")
