"""Convolution of any number of dimensions, as one matrix product for each image.

Three bilinear rows that are each other's gradients: `_convolution` of an image and a filter,
`_conv_transpose` of a result and a filter (also the transposed convolution),
`_convolution_backward_weight` of an image and a result. Images are (N, C, *size), filters (K, C /
groups, *kernel), results (N, K, *fit).
"""

from __future__ import annotations

import functools
import math
from typing import Any, NamedTuple

from ... import native
from ..table.native_or_numpy import is_host_array, restore_half, upcast_half
from ..table.op_table import composite, op
from .sliding_window import (
    Shape,
    add_windows,
    are_plain,
    expand_to_tuple,
    output_sizes,
    pad_with,
    window_views,
)


def batched_matmul(xp: Any, x: Any, y: Any) -> Any:
    """Matrix products of a batch."""
    return xp.matmul(x, y) if x.__class__.__module__ != "numpy" else native.matmul(x, y)


def im2col(
    xp: Any,
    x: Any,
    kernel: Shape,
    stride: Shape,
    padding: Shape,
    dilation: Shape,
    groups: int,
    fit: Shape,
) -> Any:
    """The first `fit` windows of x as (N, groups, C / groups * elements of a window, windows)."""
    x = pad_with(xp, x, padding, padding)
    rows = x.shape[1] // groups * math.prod(kernel)
    windows = window_views(xp, x, kernel, stride, dilation, fit)
    return windows.reshape(x.shape[0], groups, rows, math.prod(fit))


def split_groups(x: Any, groups: int) -> Any:
    """(N, K, *fit) as (N, groups, K / groups, windows)."""
    return x.reshape(x.shape[0], groups, x.shape[1] // groups, math.prod(x.shape[2:]))


def flat_filters(weight: Any, groups: int) -> Any:
    """(K, C / groups, *kernel) as (groups, K / groups, C / groups * elements of a window)."""
    return weight.reshape(groups, weight.shape[0] // groups, math.prod(weight.shape[1:]))


CASES: list[tuple[Any, ...]] = [
    ((2, 2, 7), (4, 2, 3), (4,), (2,), (1,), (1,), 1),
    ((2, 4, 6, 5), (4, 2, 3, 2), None, (1, 2), (1, 0), (2, 1), 2),
    ((0, 2, 5, 5), (3, 2, 2, 2), (3,), (1, 1), (0, 0), (1, 1), 1),
    ((1, 2, 3, 4, 3), (2, 1, 2, 2, 2), None, (1, 1, 1), (0, 1, 0), (1, 1, 1), 2),
    ((2, 3, 4, 4), (4, 3, 1, 1), (4,), (1, 1), (0, 0), (1, 1), 1),
]


@op(
    complex_gradients=True,
    cuda_halves=True,
    native=native.convolution,
    promote="common",
    inplace=False,
    samples=CASES,
    layout="images x weight",
    vmap="images",
)
def _convolution(xp, x, weight, bias=None, /, stride=(1,), padding=(0,), dilation=(1,), groups=1):
    """The convolution of images with filters, plus the bias."""
    kernel = weight.shape[2:]
    fit = output_sizes(x.shape[2:], kernel, stride, padding, dilation)
    parts = im2col(xp, x, kernel, stride, padding, dilation, groups, fit)
    out = batched_matmul(xp, flat_filters(weight, groups), parts)
    out = out.reshape(x.shape[0], weight.shape[0], *fit)
    return out if bias is None else out + bias.reshape(-1, *(1,) * len(fit))


@op(
    complex_gradients=True,
    cuda_halves=True,
    native=native.conv_transpose,
    promote="common",
    inplace=False,
    samples=[
        ((2, 4, 4), (4, 2, 3), (7,), (2,), (1,), (1,), 1),
        ((2, 4, 4, 2), (4, 2, 3, 2), (6, 5), (1, 2), (1, 0), (2, 1), 2),
        ((1, 4, 3, 3), (4, 2, 2, 2), (4, 5), (1, 1), (0, 0), (1, 1), 1),
    ],
    layout="images x weight",
    vmap="images",
)
def _conv_transpose(xp, x, weight, /, size, stride, padding, dilation, groups):
    """The filters times each result, added at the windows' positions: (N, C, *size)."""
    kernel, fit = weight.shape[2:], x.shape[2:]
    parts = batched_matmul(xp, flat_filters(weight, groups).swapaxes(1, 2), split_groups(x, groups))
    lead = (x.shape[0], groups * weight.shape[1])
    out = add_windows(
        xp, parts.reshape(*lead, *kernel, *fit), size, kernel, stride, padding, dilation
    )
    return xp.ascontiguousarray(out)


@op(
    complex_gradients=True,
    cuda_halves=True,
    native=native.convolution_backward_weight,
    promote="common",
    inplace=False,
    samples=[
        ((2, 2, 7), (2, 4, 4), (3,), (2,), (1,), (1,), 1),
        ((2, 4, 6, 5), (2, 4, 4, 2), (3, 2), (1, 2), (1, 0), (2, 1), 2),
        ((0, 2, 5), (0, 4, 3), (3,), (1,), (0,), (1,), 1),
        ((1, 2, 6, 6), (1, 4, 2, 2), (3, 3), (2, 2), (0, 0), (1, 1), 1),
    ],
    layout="images x",
)
def _convolution_backward_weight(xp, x, y, /, kernel, stride, padding, dilation, groups):
    """Sums of products of windows and results: (K, C / groups, *kernel)."""
    parts = im2col(xp, x, kernel, stride, padding, dilation, groups, y.shape[2:])
    products = batched_matmul(xp, split_groups(y, groups), parts.swapaxes(2, 3))
    return products.sum(0, x.dtype).reshape(y.shape[1], x.shape[1] // groups, *kernel)


_convolution.pullback(
    bias=lambda ops, g: ops.sum(g, (0, *range(2, g.ndim))),
    x=lambda ops, g, weight, x_shape, stride, padding, dilation, groups: ops._conv_transpose(
        g, weight.conjugate(), x_shape[2:], stride, padding, dilation, groups
    ),
    weight=lambda ops, g, x, weight_shape, stride, padding, dilation, groups: (
        ops._convolution_backward_weight(
            x.conjugate(), g, weight_shape[2:], stride, padding, dilation, groups
        )
    ),
)
_conv_transpose.pullback(
    x=lambda ops, g, x_shape, weight, stride, padding, dilation, groups: crop_windows(
        ops._convolution(g, weight.conjugate(), None, stride, padding, dilation, groups), x_shape
    ),
    weight=lambda ops, g, x, weight_shape, stride, padding, dilation, groups: (
        ops._convolution_backward_weight(
            g, x.conjugate(), weight_shape[2:], stride, padding, dilation, groups
        )
    ),
)
_convolution_backward_weight.pullback(
    x=lambda ops, g, y, x_shape, stride, padding, dilation, groups: ops._conv_transpose(
        y.conjugate(), g, x_shape[2:], stride, padding, dilation, groups
    ),
    y=lambda ops, g, x, y_shape, stride, padding, dilation, groups: crop_windows(
        ops._convolution(x.conjugate(), g, None, stride, padding, dilation, groups), y_shape
    ),
)


def crop_windows(x: Any, shape: Shape) -> Any:
    """x without surplus windows: a larger image may contain one more."""
    if tuple(x.shape) == tuple(shape):
        return x
    return x[(..., *(slice(0, n) for n in shape[2:]))]


# ---- public


def check_arguments(name: str, n: int, x: Any, weight: Any, bias: Any, groups: int) -> None:
    """Raises RuntimeError unless these can be an image, filters and a bias."""
    if groups < 1:
        raise RuntimeError(f"{name}: non-positive groups is not supported: {groups}")
    if weight.ndim != n + 2:
        raise RuntimeError(
            f"{name}: weight must have {n + 2} dimensions: {tuple(weight.shape)}, "
            f"input has {tuple(x.shape)}"
        )
    if x.ndim not in (n + 1, n + 2):
        raise RuntimeError(
            f"{name}: expected {n + 1} (unbatched) or {n + 2} (batched) dimensions: "
            f"{tuple(x.shape)}"
        )
    if weight.shape[0] < groups or weight.shape[0] % groups:
        raise RuntimeError(
            f"{name}: weight's first size must be a multiple of groups: {tuple(weight.shape)}, "
            f"groups={groups}"
        )
    if 0 in weight.shape[2:]:
        raise RuntimeError(f"{name}: kernel size must be greater than zero: {tuple(weight.shape)}")
    for parameter, other in (("weight", weight), ("bias", bias)):
        if other is not None and other.dtype != x.dtype:
            raise RuntimeError(
                f"{name}: input and {parameter} should have the same dtype: {x.dtype.name}, "
                f"{other.dtype.name}"
            )


def check_strides(name: str, n: int, stride: Any, padding: Any, dilation: Any) -> tuple[Shape, ...]:
    """stride, padding and dilation as tuples."""
    stride, padding, dilation = (
        expand_to_tuple(name, parameter, value, n)
        for parameter, value in (("stride", stride), ("padding", padding), ("dilation", dilation))
    )
    if min(stride) < 1:
        raise RuntimeError(f"{name}: non-positive stride is not supported: {stride}")
    if min(padding) < 0:
        raise RuntimeError(f"{name}: negative padding is not supported: {padding}")
    if min(dilation) < 1:
        raise RuntimeError(f"{name}: dilation should be greater than zero: {dilation}")
    return stride, padding, dilation


def bias_error(name: str, n: int, bias: Any) -> RuntimeError:
    """The error of a bias of another shape."""
    return RuntimeError(
        f"{name}: bias must have shape ({n},), one number for each channel: {tuple(bias.shape)}"
    )


def add_bias(ops: Any, out: Any, bias: Any, n: int, name: str) -> Any:
    """The result plus one number for each channel."""
    if bias is None:
        return out
    if tuple(bias.shape) != (out.shape[1],):
        raise bias_error(name, out.shape[1], bias)
    return ops.add(out, ops.reshape(bias, (-1, *(1,) * n)))


def convolution(
    ops: Any,
    n: int,
    x: Any,
    weight: Any,
    bias: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    groups: int,
) -> Any:
    """`conv<n>d`."""
    name = f"conv{n}d"
    given = stride, padding, dilation, groups
    is_unbatched = x.ndim == n + 1
    if not is_unbatched and are_plain(given):
        seen = x.shape, x.dtype, weight.shape, weight.dtype
        of_bias = (None, None) if bias is None else (bias.shape, bias.dtype)
        stride, padding, dilation = checked_before(name, n, *seen, *of_bias, given)
    else:
        check_arguments(name, n, x, weight, bias, groups)
        if isinstance(padding, str):
            stride, _, dilation = check_strides(name, n, stride, 0, dilation)
            x, padding = resolve_padding(ops, name, n, x, weight, stride, padding, dilation)
        x = ops.unsqueeze(x, 0) if is_unbatched else x
        given = stride, padding, dilation, groups
        stride, padding, dilation = checked_strides(name, n, x, weight, bias, *given)
    operands, dtype = (x, weight, bias), x.dtype
    if dtype.itemsize == 2 and is_host_array(x):  # a GPU's row sums float16 in float32
        operands = tuple(upcast_half(ops, v) for v in operands)
    out = restore_half(ops, ops._convolution(*operands, stride, padding, dilation, groups), dtype)
    return ops.squeeze(out, 0) if is_unbatched else out


class Operand(NamedTuple):
    """What is checked of an image, of filters or of a bias."""

    shape: Shape
    dtype: Any

    @property
    def ndim(self) -> int:
        return len(self.shape)


def checked_strides(
    name: str, n: int, x: Any, weight: Any, bias: Any, stride: Any, padding: Any, dilation: Any,
    groups: int,
) -> tuple[Shape, ...]:  # fmt: skip
    """stride, padding and dilation as tuples that fit images (N, C, *size) and filters."""
    stride, padding, dilation = check_strides(name, n, stride, padding, dilation)
    if x.shape[1] != weight.shape[1] * groups:
        raise RuntimeError(
            f"{name}: weight {tuple(weight.shape)} with groups={groups} expects "
            f"{weight.shape[1] * groups} channels: input has {tuple(x.shape)}"
        )
    kernel = tuple(weight.shape[2:])
    if min(output_sizes(tuple(x.shape[2:]), kernel, stride, padding, dilation)) < 1:
        raise RuntimeError(
            f"{name}: kernel size can't be greater than actual input size: {kernel}, input has "
            f"{tuple(x.shape)}, padding={padding}, dilation={dilation}"
        )
    if bias is not None and tuple(bias.shape) != (weight.shape[0],):
        raise bias_error(name, weight.shape[0], bias)
    return stride, padding, dilation


@functools.lru_cache(1024)  # the layers of a network have few shapes
def checked_before(
    name: str, n: int, x_shape: Shape, x_dtype: Any, weight_shape: Shape, weight_dtype: Any,
    bias_shape: Shape | None, bias_dtype: Any, given: tuple[Any, ...],
) -> tuple[Shape, ...]:  # fmt: skip
    """`check_arguments` and `checked_strides` of operands with these shapes and dtypes."""
    x, weight = Operand(x_shape, x_dtype), Operand(weight_shape, weight_dtype)
    bias = None if bias_shape is None else Operand(bias_shape, bias_dtype)
    check_arguments(name, n, x, weight, bias, given[-1])
    return checked_strides(name, n, x, weight, bias, *given)


def resolve_padding(
    ops: Any, name: str, n: int, x: Any, weight: Any, stride: Shape, padding: str, dilation: Shape
) -> tuple[Any, Shape]:
    """The image, padded already if necessary, and the padding that "valid" or "same" means."""
    if padding == "valid":
        return x, (0,) * n
    if padding != "same":
        raise RuntimeError(f"{name}: no such padding: {padding!r}, 'valid' or 'same' is needed")
    if max(stride) > 1:
        raise RuntimeError(
            f"{name}: padding='same' is not supported for strided convolutions: stride={stride}"
        )
    total = [d * (k - 1) for d, k in zip(dilation, weight.shape[2:], strict=True)]
    if any(t % 2 for t in total):  # the odd element is at the end
        x = ops.constant_pad_nd(x, [v for t in reversed(total) for v in (0, t % 2)])
    return x, tuple(t // 2 for t in total)


@composite(autocast_cuda="lower", method=False, autocast="lower")
def conv1d(ops, input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
    """Convolution of sequences with filters.

    Parameters
    ----------
    input : Tensor
        `(N, C, L)` or `(C, L)`.
    weight : Tensor
        The filters: `(K, C / groups, k)`.
    bias : Tensor, optional
        `(K,)`, added to each output channel.
    stride : int, optional
        Steps from one window to the next.
    padding : int or str, optional
        Zeros added on either side; "valid" adds none, "same" so many that the result has the
        input's size (for stride 1).
    dilation : int, optional
        Steps from one element of a window to the next.
    groups : int, optional
        In how many groups the channels are divided, each with its own filters.

    Returns
    -------
    Tensor
        `(N, K, L')` or `(K, L')`, with L' = floor((L + 2 * padding - dilation * (k - 1) - 1) /
        stride) + 1 for each size.

    Raises
    ------
    RuntimeError
        Shapes or dtypes do not match.

    See Also
    --------
    conv_transpose1d, unfold, nn.Conv1d

    Notes
    -----
    Filters are not flipped: this is a cross-correlation.

    Examples
    --------
    >>> x = st.tensor([[[1., 2., 3., 4.]]])
    >>> F.conv1d(x, st.tensor([[[1., 1.]]]))
    tensor([[[3., 5., 7.]]])
    >>> F.conv1d(x, st.tensor([[[1., 0., 1.]]]), padding="same")
    tensor([[[2., 4., 6., 3.]]])
    """
    return convolution(ops, 1, input, weight, bias, stride, padding, dilation, groups)


@composite(autocast_cuda="lower", method=False, autocast="lower")
def conv2d(ops, input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
    """Convolution of images with filters.

    Parameters
    ----------
    input : Tensor
        `(N, C, H, W)` or `(C, H, W)`.
    weight : Tensor
        The filters: `(K, C / groups, kh, kw)`.
    bias : Tensor, optional
        `(K,)`, added to each output channel.
    stride : int or (int, int), optional
        Steps from one window to the next.
    padding : int or (int, int) or str, optional
        Zeros added on either side; "valid" adds none, "same" so many that the result has the
        input's size (for stride 1).
    dilation : int or (int, int), optional
        Steps from one element of a window to the next.
    groups : int, optional
        In how many groups the channels are divided, each with its own filters.

    Returns
    -------
    Tensor
        `(N, K, H', W')` or `(K, H', W')`, with L' = floor((L + 2 * padding - dilation * (k - 1) -
        1) / stride) + 1 for each size.

    Raises
    ------
    RuntimeError
        Shapes or dtypes do not match.

    See Also
    --------
    conv_transpose2d, unfold, nn.Conv2d

    Notes
    -----
    Filters are not flipped: this is a cross-correlation.

    Examples
    --------
    >>> x = st.arange(9.).reshape(1, 1, 3, 3)
    >>> F.conv2d(x, st.ones(1, 1, 2, 2))
    tensor([[[[ 8., 12.],
              [20., 24.]]]])
    >>> F.conv2d(st.ones(1, 4, 8, 8), st.ones(4, 1, 3, 3), padding=1, groups=4).shape
    Size([1, 4, 8, 8])
    """
    return convolution(ops, 2, input, weight, bias, stride, padding, dilation, groups)


@composite(autocast_cuda="lower", method=False, autocast="lower")
def conv3d(ops, input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
    """Convolution of volumes with filters.

    Parameters
    ----------
    input : Tensor
        `(N, C, D, H, W)` or `(C, D, H, W)`.
    weight : Tensor
        The filters: `(K, C / groups, kd, kh, kw)`.
    bias : Tensor, optional
        `(K,)`, added to each output channel.
    stride : int or (int, int, int), optional
        Steps from one window to the next.
    padding : int or (int, int, int) or str, optional
        Zeros added on either side; "valid" adds none, "same" so many that the result has the
        input's size (for stride 1).
    dilation : int or (int, int, int), optional
        Steps from one element of a window to the next.
    groups : int, optional
        In how many groups the channels are divided, each with its own filters.

    Returns
    -------
    Tensor
        `(N, K, D', H', W')` or `(K, D', H', W')`, with L' = floor((L + 2 * padding - dilation * (k
        - 1) - 1) / stride) + 1 for each size.

    Raises
    ------
    RuntimeError
        Shapes or dtypes do not match.

    See Also
    --------
    conv_transpose3d, unfold, nn.Conv3d

    Notes
    -----
    Filters are not flipped: this is a cross-correlation.

    Examples
    --------
    >>> F.conv3d(st.ones(1, 2, 4, 4, 4), st.ones(3, 2, 2, 2, 2), stride=2).shape
    Size([1, 3, 2, 2, 2])
    """
    return convolution(ops, 3, input, weight, bias, stride, padding, dilation, groups)


def conv_transpose(
    ops: Any,
    n: int,
    x: Any,
    weight: Any,
    bias: Any,
    stride: Any,
    padding: Any,
    output_padding: Any,
    groups: int,
    dilation: Any,
) -> Any:
    """`conv_transpose<n>d`."""
    name = f"conv_transpose{n}d"
    check_arguments(name, n, x, weight, bias, groups)
    stride, padding, dilation = check_strides(name, n, stride, padding, dilation)
    extra = expand_to_tuple(name, "output_padding", output_padding, n)
    if any(m < 0 or m >= max(s, d) for m, s, d in zip(extra, stride, dilation, strict=True)):
        raise RuntimeError(
            f"{name}: output padding must be smaller than either stride or dilation: {extra}, "
            f"stride={stride}, dilation={dilation}"
        )
    is_unbatched = x.ndim == n + 1
    x = ops.unsqueeze(x, 0) if is_unbatched else x
    if x.shape[1] != weight.shape[0]:
        raise RuntimeError(
            f"{name}: weight {tuple(weight.shape)} expects {weight.shape[0]} channels: "
            f"input has {tuple(x.shape)}"
        )
    size = tuple(
        (m - 1) * s - 2 * p + d * (k - 1) + a + 1
        for m, s, p, d, k, a in zip(
            x.shape[2:], stride, padding, dilation, weight.shape[2:], extra, strict=True
        )
    )
    if min(size) < 1:
        raise RuntimeError(f"{name}: the result would have no elements: size {size}")
    dtype = x.dtype
    if dtype.itemsize == 2 and is_host_array(x):
        x, weight, bias = (upcast_half(ops, v) for v in (x, weight, bias))
    out = ops._conv_transpose(x, weight, size, stride, padding, dilation, groups)
    out = restore_half(ops, add_bias(ops, out, bias, n, name), dtype)
    return ops.squeeze(out, 0) if is_unbatched else out


@composite(autocast_cuda="lower", method=False, autocast="lower")
def conv_transpose1d(
    ops, input, weight, bias=None, stride=1, padding=0, output_padding=0, groups=1, dilation=1
):
    """The gradient of `conv1d` by its input, as a function: it enlarges where that one shrinks.

    Parameters
    ----------
    input : Tensor
        `(N, K, L)` or `(K, L)`.
    weight : Tensor
        `(K, C / groups, k)`.
    bias : Tensor, optional
        `(C,)`, added to each output channel.
    stride : int, optional
        Steps in the result for one in the input.
    padding : int, optional
        Elements cut off on either side of the result.
    output_padding : int, optional
        Further elements at the result's end, because several sizes L' have the same L.
    groups : int, optional
        In how many groups the channels are divided, each with its own filters.
    dilation : int, optional
        Steps from one element of a window to the next.

    Returns
    -------
    Tensor
        `(N, C, L')` or `(C, L')`, with L' = (L - 1) * stride - 2 * padding + dilation * (k - 1) +
        output_padding + 1 for each size.

    Raises
    ------
    RuntimeError
        Shapes or dtypes do not match.

    See Also
    --------
    conv1d, nn.ConvTranspose1d

    Examples
    --------
    >>> F.conv_transpose1d(st.tensor([[[1., 2.]]]), st.tensor([[[1., 10.]]]), stride=2)
    tensor([[[ 1., 10.,  2., 20.]]])
    """
    return conv_transpose(
        ops, 1, input, weight, bias, stride, padding, output_padding, groups, dilation
    )


@composite(autocast_cuda="lower", method=False, autocast="lower")
def conv_transpose2d(
    ops, input, weight, bias=None, stride=1, padding=0, output_padding=0, groups=1, dilation=1
):
    """The gradient of `conv2d` by its input, as a function: it enlarges where that one shrinks.

    Parameters
    ----------
    input : Tensor
        `(N, K, H, W)` or `(K, H, W)`.
    weight : Tensor
        `(K, C / groups, kh, kw)`.
    bias : Tensor, optional
        `(C,)`, added to each output channel.
    stride : int or (int, int), optional
        Steps in the result for one in the input.
    padding : int or (int, int), optional
        Elements cut off on either side of the result.
    output_padding : int or (int, int), optional
        Further elements at the result's end, because several sizes L' have the same L.
    groups : int, optional
        In how many groups the channels are divided, each with its own filters.
    dilation : int or (int, int), optional
        Steps from one element of a window to the next.

    Returns
    -------
    Tensor
        `(N, C, H', W')` or `(C, H', W')`, with L' = (L - 1) * stride - 2 * padding + dilation * (k
        - 1) + output_padding + 1 for each size.

    Raises
    ------
    RuntimeError
        Shapes or dtypes do not match.

    See Also
    --------
    conv2d, nn.ConvTranspose2d

    Examples
    --------
    >>> F.conv_transpose2d(st.tensor([[[[1., 2.]]]]), st.ones(1, 1, 2, 2), stride=2)
    tensor([[[[1., 1., 2., 2.],
              [1., 1., 2., 2.]]]])
    """
    return conv_transpose(
        ops, 2, input, weight, bias, stride, padding, output_padding, groups, dilation
    )


@composite(autocast_cuda="lower", method=False, autocast="lower")
def conv_transpose3d(
    ops, input, weight, bias=None, stride=1, padding=0, output_padding=0, groups=1, dilation=1
):
    """The gradient of `conv3d` by its input, as a function: it enlarges where that one shrinks.

    Parameters
    ----------
    input : Tensor
        `(N, K, D, H, W)` or `(K, D, H, W)`.
    weight : Tensor
        `(K, C / groups, kd, kh, kw)`.
    bias : Tensor, optional
        `(C,)`, added to each output channel.
    stride : int or (int, int, int), optional
        Steps in the result for one in the input.
    padding : int or (int, int, int), optional
        Elements cut off on either side of the result.
    output_padding : int or (int, int, int), optional
        Further elements at the result's end, because several sizes L' have the same L.
    groups : int, optional
        In how many groups the channels are divided, each with its own filters.
    dilation : int or (int, int, int), optional
        Steps from one element of a window to the next.

    Returns
    -------
    Tensor
        `(N, C, D', H', W')` or `(C, D', H', W')`, with L' = (L - 1) * stride - 2 * padding +
        dilation * (k - 1) + output_padding + 1 for each size.

    Raises
    ------
    RuntimeError
        Shapes or dtypes do not match.

    See Also
    --------
    conv3d, nn.ConvTranspose3d

    Examples
    --------
    >>> F.conv_transpose3d(st.ones(1, 2, 4, 4, 4), st.ones(2, 3, 2, 2, 2), stride=2).shape
    Size([1, 3, 8, 8, 8])
    """
    return conv_transpose(
        ops, 3, input, weight, bias, stride, padding, output_padding, groups, dilation
    )


@composite(autocast_cuda="lower", method=False, autocast="lower")
def conv_tbc(ops, input, weight, bias, pad=0):
    """`conv1d` of a sequence whose first dimension is time: (time, batch, channels).

    Parameters
    ----------
    input : Tensor
        `(L, N, C)`.
    weight : Tensor
        `(k, C, K)`.
    bias : Tensor
        `(K,)`.
    pad : int, optional
        Zeros added at both ends.

    Returns
    -------
    Tensor
        `(L + 2 * pad - k + 1, N, K)`.

    Examples
    --------
    >>> F.conv_tbc(st.ones(5, 2, 3), st.ones(2, 3, 4), st.zeros(4)).shape
    Size([4, 2, 4])
    """
    out = ops.conv1d(ops.permute(input, (1, 2, 0)), ops.permute(weight, (2, 1, 0)), bias, 1, pad)
    return ops.permute(out, (2, 0, 1))
