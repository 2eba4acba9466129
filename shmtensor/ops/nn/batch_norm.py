"""Normalization channel by channel: batch norm, local response norm."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ... import native
from ..table.constants import filled, on_device
from ..table.memory_format import like_image, memory_of
from ..table.op_table import composite, op
from ..table.samples import reals


def non_channel_dims(ndim: int) -> tuple[int, ...]:
    """All dimensions except the channels'."""
    return (0, *range(2, ndim))


def batch_norm_kernel(x: Any, weight: Any, bias: Any, eps: float, running: Any) -> Any:
    """The native kernel, without running statistics."""
    results = None if running is not None else native.batch_norm(x, weight, bias, eps)
    return results and (*results, None)


def update_running(
    mean: Any, var: Any, n: int, running_mean: Any, running_var: Any, momentum: float
) -> None:
    """Updates arrays by the means and (biased) variances of a batch of n elements a channel."""
    unbiased = var * (n / (n - 1))
    running_mean[...] = running_mean * (1 - momentum) + mean * momentum
    running_var[...] = running_var * (1 - momentum) + unbiased * momentum


@op(
    statistics="mean var",
    native=batch_norm_kernel,
    promote="float",
    inplace=False,
    outputs="out mean var",
    saves="rstd",
    samples=[
        ((4, 3), (3,), (3,), 1e-5),
        ((2, 3, 4), None, (3,), 1e-5),
        ((2, 2, 3, 2), (2,), None, 0.5),
    ],
    layout="images x",
)
def _native_batch_norm(xp, x, weight=None, bias=None, /, eps=1e-5, running=None):
    """(x - mean) / sqrt(variance + eps) * weight + bias of each channel, dimension 1; the means and
    variances. `running`: arrays of running means and variances, and the momentum; they are updated
    in place, which is the caller's to count. Saves rstd on devices whose kernel computes it.
    """
    dims, shape = non_channel_dims(x.ndim), (-1, *(1,) * (x.ndim - 2))
    mean = x.mean(dims, keepdims=True)
    centered = x - mean
    var = (centered * centered).mean(dims, keepdims=True)
    centered *= 1 / xp.sqrt(var + x.dtype.type(eps))
    out = centered if weight is None else centered * weight.reshape(shape)
    out = out if bias is None else out + bias.reshape(shape)
    mean, var = mean.reshape(-1), var.reshape(-1)
    if running is not None:
        update_running(mean, var, math.prod(x.shape) // x.shape[1], *running)
    return out, mean, var, None


def moments_backward(ops: Any, g_mean: Any, g_var: Any, x: Any) -> Any:
    """The gradient by x of the means and variances; usually they have none, and it is 0.0."""
    if not any(getattr(v, "requires_grad", False) or bool(ops.any(v)) for v in (g_mean, g_var)):
        return 0.0
    dims, shape = non_channel_dims(x.ndim), (1, -1, *(1,) * (x.ndim - 2))
    centered = x - ops.mean(x, dims, True)
    n = math.prod(x.shape) // (x.shape[1] or 1) or 1
    return ops.broadcast_to(ops.reshape(g_mean, shape) / n, tuple(x.shape)) + centered * (
        ops.reshape(g_var, shape) * (2 / n)
    )


@op(
    outputs="x_gradient weight_gradient bias_gradient",
    samples=[
        ((4, 3), (4, 3), (3,), reals((3,), 0.5, 2.0), (3,), None, None, None, 1e-5),
        ((2, 3, 4), (2, 3, 4), (3,), reals((3,), 0.5, 2.0), None, (3,), (3,), None, 1e-5),
    ],
)
def _native_batch_norm_backward(
    xp, x, y, mean, var, weight=None, g_mean=None, g_var=None, rstd=None, /, eps=1e-5
):
    """The gradients of `_native_batch_norm` by its input y, by the weight and by the bias, for the
    gradient x of its result, and those of the means and variances; rstd is 1 / sqrt(var + eps), if
    the forward has saved it. For devices, while the gradients of CPU arrays come from the native
    kernel.
    """
    dims, shape = non_channel_dims(x.ndim), (-1, *(1,) * (x.ndim - 2))
    rstd = (1 / xp.sqrt(var + x.dtype.type(eps))).reshape(shape)
    centered = y - mean.reshape(shape)
    out = centered * rstd
    sums, products = x.sum(dims), (x * out).sum(dims)
    n = x.dtype.type(math.prod(x.shape) // (x.shape[1] or 1) or 1)
    g = (x - sums.reshape(shape) / n - out * (products.reshape(shape) / n)) * rstd
    g = g if weight is None else g * weight.reshape(shape)
    g = g if g_mean is None else g + g_mean.reshape(shape) / n
    g = g if g_var is None else g + centered * (g_var.reshape(shape) * (2 / n))
    return g, products, sums


def batch_norm_backward(
    ops: Any, needed: tuple[bool, ...], g_out: Any, g_mean: Any, g_var: Any, x: Any, weight: Any,
    mean: Any, var: Any, rstd: Any, eps: float,
) -> Any:  # fmt: skip
    """The gradients by x, weight and bias: one call of a kernel, or composed where they need
    history or the native kernel refuses.
    """
    needs_x = needed[0]
    gradients: Any = None
    if not isinstance(g_out, native.TensorBase):
        y = g_out if x is None else x  # only the sums of g are needed, which do not depend on y
        if isinstance(g_out, np.ndarray):
            gradients = native.call(
                native.batch_norm_backward, g_out, y, weight, mean, var, eps, needs_x
            )
        else:  # a device's: without waiting for it
            return ops._native_batch_norm_backward(
                g_out, y, mean, var, weight, g_mean, g_var, rstd, eps
            )
    if gradients is None:
        gradients = composed_gradients(ops, needed, g_out, x, weight, eps)
    if not needs_x:
        return gradients
    g_x, g_weight, g_bias = gradients
    g_moments = moments_backward(ops, g_mean, g_var, x)
    return (g_x if isinstance(g_moments, float) else g_x + g_moments), g_weight, g_bias


def composed_gradients(
    ops: Any, needed: tuple[bool, ...], g: Any, x: Any, weight: Any, eps: float
) -> tuple[Any, Any, Any]:
    """The gradients by x, weight and bias for the gradient of the result, with history."""
    needs_x, needs_weight, needs_bias = needed
    dims = non_channel_dims(g.ndim)
    g_x = g_weight = None
    if needs_x or needs_weight:
        centered = x - ops.mean(x, dims, True)
        rstd = ops.rsqrt(ops.mean(centered * centered, dims, True) + eps)
        out = centered * rstd
        if needs_weight:
            g_weight = ops.sum(g * out, dims)
        if needs_x:
            scaled = g if weight is None else g * broadcast_channels(ops, weight, g.ndim)
            inner = scaled - ops.mean(scaled, dims, True) - out * ops.mean(scaled * out, dims, True)
            g_x = inner * rstd
    return g_x, g_weight, ops.sum(g, dims) if needs_bias else None


_native_batch_norm.joint_pullback(batch_norm_backward, x="x weight", weight="x", bias="")


def broadcast_channels(ops: Any, x: Any, ndim: int) -> Any:
    """One number for each channel, in a shape that broadcasts with (N, C, ...)."""
    return ops.reshape(x, (1, -1, *(1,) * (ndim - 2)))


@composite
def _channel_affine(ops, input, weight, bias):
    """input * weight + bias, with one number of each for every channel; either may be None."""
    out = input if weight is None else ops.mul(input, broadcast_channels(ops, weight, input.ndim))
    return out if bias is None else ops.add(out, broadcast_channels(ops, bias, input.ndim))


@op(
    promote="float",
    inplace=False,
    samples=[
        ((4, 3), (3,), reals((3,), 0.5, 2.0), (3,), (3,), 1e-5),
        ((2, 3, 4), (3,), reals((3,), 0.5, 2.0), None, (3,), 1e-5),
        ((2, 2, 3, 2), (2,), reals((2,), 0.5, 2.0), (2,), None, 0.5),
    ],
)
def _normalize_channels(xp, x, mean, var, weight=None, bias=None, /, eps=1e-5):
    """(x - mean) / sqrt(var + eps) * weight + bias, channel by channel: `_batch_norm_inference` for
    devices.
    """
    shape = (-1, *(1,) * (x.ndim - 2))
    scale = 1 / xp.sqrt(var + x.dtype.type(eps))
    scale = scale if weight is None else scale * weight
    out = (x - mean.reshape(shape)) * scale.reshape(shape)
    return out if bias is None else out + bias.reshape(shape)


@op(
    outputs="weight_gradient bias_gradient",
    samples=[
        ((4, 3), (4, 3), (3,), reals((3,), 0.5, 2.0), 1e-5),
        ((2, 3, 4), (2, 3, 4), (3,), reals((3,), 0.5, 2.0), 1e-5),
    ],
)
def _channel_gradients(xp, x, y, mean, var, /, eps=1e-5):
    """The gradients of `_normalize_channels` by the weight and by the bias, for the gradient x of
    its result, and its input y.
    """
    dims, shape = non_channel_dims(x.ndim), (-1, *(1,) * (x.ndim - 2))
    centered = (y - mean.reshape(shape)) * (1 / xp.sqrt(var + x.dtype.type(eps))).reshape(shape)
    return (x * centered).sum(dims), x.sum(dims)


def channel_scale(ops: Any, var: Any, weight: Any, eps: float, ndim: int) -> Any:
    """weight / sqrt(var + eps), to broadcast with (N, C, ...)."""
    scale = ops.rsqrt(ops.add(var, eps))
    return broadcast_channels(ops, scale if weight is None else ops.mul(scale, weight), ndim)


def normalize_channels_backward(
    ops: Any, needed: tuple[bool, ...], g: Any, x: Any, mean: Any, var: Any, weight: Any,
    eps: float,
) -> tuple[Any, ...]:  # fmt: skip
    """The gradients by x, means, variances, weight and bias."""
    needs_x, needs_mean, needs_var, needs_weight, needs_bias = needed
    dims = non_channel_dims(g.ndim)
    g_x = g_mean = g_var = g_weight = g_bias = centered = None
    if needs_x or needs_mean:
        g_x = ops.mul(g, channel_scale(ops, var, weight, eps, g.ndim))
    if needs_mean:
        g_mean = ops.neg(ops.sum(g_x, dims))
    is_fused = not isinstance(g, native.TensorBase) and on_device(g)
    if is_fused and (needs_weight or needs_bias):
        statistics = x, mean, var
        if x is None:  # only the sums of g are needed, which do not depend on these
            ones = filled(tuple(g.shape[1:2]), 1.0, g.dtype, g)
            statistics = g, ones, ones
        g_weight, g_bias = ops._channel_gradients(g, *statistics, eps)
        needs_weight = needs_bias = False
    if needs_var or needs_weight:
        centered = x - broadcast_channels(ops, mean, x.ndim)
    if needs_var:  # -1/2 sum(g (x - mean) weight) / (var + eps)^(3/2)
        total = ops.sum(g * centered, dims)
        total = total if weight is None else total * weight
        g_var = ops.mul(total, -0.5) * ops.pow(ops.add(var, eps), -1.5)
    if needs_weight:
        normalized = centered * channel_scale(ops, var, None, eps, x.ndim)
        g_weight = ops.sum(g * normalized, dims)
    if needs_bias:
        g_bias = ops.sum(g, dims)
    return g_x, g_mean, g_var, g_weight, g_bias


_normalize_channels.joint_pullback(
    normalize_channels_backward,
    x="var weight",
    mean="var weight",
    var="x mean var weight",
    weight="x mean var",
    bias="",
)


@composite
def _batch_norm_inference(ops, input, mean, var, weight, bias, eps):
    """(input - mean) / sqrt(var + eps) * weight + bias, channel by channel."""
    if on_device(input) and memory_of(input) is not None:  # one kernel
        return ops._normalize_channels(input, mean, var, weight, bias, eps)
    scale = ops.rsqrt(ops.add(var, eps))
    scale = scale if weight is None else ops.mul(scale, weight)
    centered = ops.sub(input, broadcast_channels(ops, mean, input.ndim))
    return like_image(ops, ops._channel_affine(centered, scale, bias), input)


@composite(method=False, function=False)
def local_response_norm(ops, input, size, alpha=1e-4, beta=0.75, k=1.0):
    """x over a power of the mean square of neighbouring channels.

    Parameters
    ----------
    input : Tensor
        `(N, C, ...)`, with 3 or more dimensions.
    size : int
        How many neighbouring channels, with this one in the middle.
    alpha : float, optional
        Factor of the mean square.
    beta : float, optional
        Exponent.
    k : float, optional
        Added to the mean square.

    Returns
    -------
    Tensor
        Of the input's shape and dtype.

    Raises
    ------
    ValueError
        The input has fewer than 3 dimensions.

    Notes
    -----
    `x / (k + alpha * mean square) ** beta` (Krizhevsky et al. 2012).

    Examples
    --------
    >>> F.local_response_norm(st.tensor([[[2.], [4.]]]), 1, alpha=1.0, beta=1.0, k=0.0)
    tensor([[[0.5000],
             [0.2500]]])
    """
    if input.ndim < 3:
        raise ValueError(
            f"local_response_norm: expected 3 or more dimensions: {tuple(input.shape)}"
        )
    if not math.prod(input.shape):
        return input
    squares = ops.movedim(ops.square(input), 1, -1)
    squares = ops.constant_pad_nd(squares, (size // 2, (size - 1) // 2))
    means = ops.div(ops._sum_pool(squares, (size,), (1,), (0,), False), size)
    return ops.div(input, ops.pow(ops.add(ops.mul(ops.movedim(means, -1, 1), alpha), k), beta))
