"""layer_norm, over the last dimensions, and group_norm, over groups of channels.

The kernels compute all gradients in one pass.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ... import native
from ..shape.view_expand_flip import sum_to_shape
from ..table.check_dtypes import check_parameter_dtypes
from ..table.memory_format import like_image
from ..table.native_or_numpy import is_host_array, restore_half, upcast_half
from ..table.op_table import composite, op

Shape = tuple[int, ...]


def rows_and_length(shape: Shape, n: int, groups: int) -> Shape:
    """The number of normalized rows, and their length."""
    if groups:
        return shape[0] * groups, math.prod(shape[1:]) // groups
    return math.prod(shape[: len(shape) - n]), math.prod(shape[len(shape) - n :])


def broadcast_weight(ops: Any, weight: Any, ndim: int, groups: int) -> Any:
    """A weight in a shape that broadcasts with the tensor."""
    return ops.reshape(weight, (1, -1, *(1,) * (ndim - 2))) if groups else weight


@op(
    native=native.layer_norm,
    promote="float",
    inplace=False,
    saves="mean rstd",
    samples=[
        ((3, 4), (4,), (4,), 1, 0, 1e-5, True),
        ((2, 3, 4), (3, 4), None, 2, 0, 1e-5, True),
        ((3, 5), (5,), None, 1, 0, 1e-2, False),
        ((2, 4, 3), (4,), (4,), 1, 2, 1e-5, True),
        ((2, 4), None, (4,), 1, 2, 1e-1, True),
    ],
    vmap="layer_norm",
)
def _native_layer_norm(xp, x, weight=None, bias=None, /, n=1, groups=0, eps=1e-5, centred=True):
    """(x - mean) / sqrt(variance + eps) * weight + bias of each row; not `centred`: the mean is
    taken as 0.
    """
    rows = x.reshape(rows_and_length(x.shape, n, groups))
    mean = rows.mean(1, keepdims=True) if centred else xp.zeros((len(rows), 1), x.dtype)
    deviations = rows - mean
    rstd = 1 / xp.sqrt((deviations * deviations).mean(1, keepdims=True) + x.dtype.type(eps))
    out = (deviations * rstd).reshape(x.shape)
    if weight is not None:
        out = out * (weight.reshape(-1, *(1,) * (x.ndim - 2)) if groups else weight)
    if bias is not None:
        out = out + (bias.reshape(-1, *(1,) * (x.ndim - 2)) if groups else bias)
    return out, mean.reshape(-1), rstd.reshape(-1)


def normalize_rows(ops: Any, x: Any, n: int, groups: int, eps: float, centred: bool) -> Any:
    """The normalized rows without weight and bias, and their rstd, recomputed with history."""
    rows = ops.reshape(x, rows_and_length(tuple(x.shape), n, groups))
    deviations = rows - ops.mean(rows, 1, True) if centred else rows
    rstd = ops.rsqrt(ops.mean(deviations * deviations, 1, True) + eps)
    return deviations * rstd, rstd


def layer_norm_backward_kernel(
    x: Any, y: Any, mean: Any, rstd: Any, weight: Any, n: int, groups: int, centred: bool
) -> Any:
    """The native kernel, whose arguments have another order."""
    return native.layer_norm_backward(x, y, weight, mean, rstd, n, groups, centred, True, True)


@op(
    native=layer_norm_backward_kernel,
    outputs="x_gradient weight_gradient bias_gradient",
    samples=[
        ((3, 4), (3, 4), (3,), (3,), (4,), 1, 0, True),
        ((2, 3, 4), (2, 3, 4), (2,), (2,), None, 2, 0, True),
        ((3, 5), (3, 5), (3,), (3,), (5,), 1, 0, False),
        ((2, 4, 3), (2, 4, 3), (4,), (4,), (4,), 1, 2, True),
    ],
)
def _native_layer_norm_backward(xp, x, y, mean, rstd, weight=None, /, n=1, groups=0, centred=True):
    """The gradients of `_native_layer_norm` by its input y, by the weight and by the bias, for the
    gradient x of its result; the last two in one dimension. For devices, while the
    gradients of CPU arrays come from the native kernel.
    """
    shape = rows_and_length(y.shape, n, groups)
    out = (y.reshape(shape) - mean.reshape(-1, 1)) * rstd.reshape(-1, 1)
    scaled = x
    if weight is not None:
        scaled = x * (weight.reshape(-1, *(1,) * (x.ndim - 2)) if groups else weight)
    rows = scaled.reshape(shape)
    inner = rows - out * (rows * out).mean(1, keepdims=True)
    inner = inner - rows.mean(1, keepdims=True) if centred else inner
    dims = (0, *range(2, x.ndim)) if groups else tuple(range(x.ndim - n))
    products = x * out.reshape(x.shape)
    return (
        (inner * rstd.reshape(-1, 1)).reshape(x.shape),
        products.sum(dims).reshape(-1),
        x.sum(dims).reshape(-1),
    )


def layer_norm_backward(
    ops: Any, needed: tuple[bool, ...], g: Any, x: Any, weight: Any, mean: Any, rstd: Any,
    weight_shape: Shape, bias_shape: Shape, n: int, groups: int, eps: float, centred: bool,
) -> tuple[Any, Any, Any]:  # fmt: skip
    """The gradients by x, weight and bias: one call of a kernel, or composed where they need
    history or the native kernel refuses.
    """
    needs_x, needs_weight, needs_bias = needed
    gradients: Any = None
    if not isinstance(g, native.TensorBase):
        y = g if x is None else x  # only the sums of g are needed, which do not depend on y
        if isinstance(g, np.ndarray):
            gradients = native.call(
                native.layer_norm_backward, g, y, weight, mean, rstd, n, groups, centred,
                needs_x, needs_weight or needs_bias,
            )  # fmt: skip
        else:
            gradients = ops._native_layer_norm_backward(
                g, y, mean, rstd, weight, n, groups, centred
            )
    if gradients is not None:
        g_x, g_weight, g_bias = gradients
        return (
            g_x,
            g_weight.reshape(weight_shape) if needs_weight else None,
            g_bias.reshape(bias_shape) if needs_bias else None,
        )
    g_bias = sum_to_weight(ops, g, bias_shape, groups) if needs_bias else None
    if not (needs_x or needs_weight):
        return None, None, g_bias
    out, scale = normalize_rows(ops, x, n, groups, eps, centred)
    g_x = g_weight = None
    if needs_x:
        scaled = g if weight is None else g * broadcast_weight(ops, weight, x.ndim, groups)
        rows = ops.reshape(scaled, tuple(out.shape))
        inner = rows - out * ops.mean(rows * out, 1, True)
        inner = inner - ops.mean(rows, 1, True) if centred else inner
        g_x = ops.reshape(inner * scale, tuple(x.shape))
    if needs_weight:
        product = g * ops.reshape(out, tuple(x.shape))
        g_weight = sum_to_weight(ops, product, weight_shape, groups)
    return g_x, g_weight, g_bias


def sum_to_weight(ops: Any, g: Any, shape: Shape, groups: int) -> Any:
    """A gradient of all elements, summed to the weight's shape."""
    return ops.sum(g, (0, *range(2, g.ndim))) if groups else sum_to_shape(ops, g, shape)


_native_layer_norm.joint_pullback(layer_norm_backward, x="x weight", weight="x", bias="")


@composite(autocast_cuda="full", method=False)
def layer_norm(ops, input, normalized_shape, weight=None, bias=None, eps=1e-5, cudnn_enable=True):
    """Each sample with mean 0 and variance 1 over its last dimensions, then `* weight + bias`.

    Parameters
    ----------
    input : Tensor
        `(..., *normalized_shape)`.
    normalized_shape : tuple of int
        The sizes of the dimensions normalised over.
    weight, bias : Tensor, optional
        Of normalized_shape.
    eps : float, optional
        Added to the variance.
    cudnn_enable : bool, optional
        Accepted; has no effect.

    Returns
    -------
    Tensor
        Of the input's shape and dtype.

    Raises
    ------
    RuntimeError
        The input's shape does not end with normalized_shape.

    See Also
    --------
    rms_norm, nn.LayerNorm

    Notes
    -----
    Ba et al. 2016.

    Examples
    --------
    >>> F.layer_norm(st.tensor([[1., 3.], [5., -5.]]), (2,)).round(decimals=2)
    tensor([[-1.,  1.],
            [ 1., -1.]])
    """
    end = tuple(normalized_shape)
    if not end or tuple(input.shape[input.ndim - len(end) :]) != end:
        raise RuntimeError(
            f"layer_norm: input's shape must end with normalized_shape: {tuple(input.shape)}, {end}"
        )
    check_parameter_dtypes("layer_norm", input, weight, bias)
    if input.dtype.itemsize == 2:
        wide = [input, weight, bias]
        if is_host_array(input):
            wide = [upcast_half(ops, v) for v in wide]
        return restore_half(ops, ops._native_layer_norm(*wide, len(end), 0, eps, True), input.dtype)
    return ops._native_layer_norm(input, weight, bias, len(end), 0, eps, True)


@composite(autocast_cuda="full", method=False)
def group_norm(ops, input, num_groups, weight=None, bias=None, eps=1e-5, cudnn_enabled=True):
    """Each group of channels of each sample with mean 0 and variance 1, then `* weight + bias`.

    Parameters
    ----------
    input : Tensor
        `(N, C, ...)`.
    num_groups : int
        In how many groups of equal size the channels are divided.
    weight, bias : Tensor, optional
        `(C,)`.
    eps : float, optional
        Added to the variance.
    cudnn_enabled : bool, optional
        Accepted; has no effect.

    Returns
    -------
    Tensor
        Of the input's shape and dtype.

    Raises
    ------
    RuntimeError
        num_groups does not divide the channels.

    See Also
    --------
    nn.functional.group_norm

    Examples
    --------
    >>> st.group_norm(st.tensor([[1., 3., 10., 30.]]), 2).round(decimals=2)
    tensor([[-1.,  1., -1.,  1.]])
    """
    shape = tuple(input.shape)
    if input.ndim < 2:
        raise RuntimeError(f"group_norm: expected at least 2 dimensions: {shape}")
    if num_groups < 1 or shape[1] % num_groups:
        raise RuntimeError(
            "group_norm: expected number of channels to be divisible by num_groups: "
            f"{shape}, num_groups={num_groups}"
        )
    for name, x in (("weight", weight), ("bias", bias)):
        if x is not None and tuple(x.shape) != (shape[1],):
            raise RuntimeError(
                f"group_norm: {name} must be ({shape[1]},), one for each channel: {tuple(x.shape)}"
            )
    check_parameter_dtypes("group_norm", input, weight, bias)
    if not math.prod(shape):
        return ops._channel_affine(input, weight, bias)
    wide = [input, weight, bias]
    if is_host_array(input):
        wide = [upcast_half(ops, v) for v in wide]
    out = restore_half(ops, ops._native_layer_norm(*wide, 1, num_groups, eps, True), input.dtype)
    return like_image(ops, out, input)
