"""Normalisation channel by channel: batch norm, local response."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ... import native
from ..table.memory_format import like_image
from ..table.op_definition import composite, op
from .layer_norm import keep, kept


def others(ndim: int) -> tuple[int, ...]:
    """All dimensions but the channels'."""
    return (0, *range(2, ndim))


def fast_channels(x: Any, weight: Any, bias: Any, eps: float) -> Any:
    """The native kernel, or the plain form."""
    found = native.batch_norm(x, weight, bias, eps)
    if found is not None:
        return (*found, {})
    with np.errstate(all="ignore"):
        return _native_batch_norm.forward(np, x, weight, bias, eps)


@op(
    numpy=fast_channels,
    promote="float",
    inplace=False,
    method=False,
    function=False,
    outputs="out average spread",
    keeps="memo",
    samples=[
        ((4, 3), (3,), (3,), 1e-5),
        ((2, 3, 4), None, (3,), 1e-5),
        ((2, 2, 3, 2), (2,), None, 0.5),
    ],
    layout="images x",
)
def _native_batch_norm(xp, x, weight=None, bias=None, /, eps=1e-5):
    """(x - mean) / sqrt(variance + eps) * weight + bias of each channel, dimension 1; the means and
    variances.
    """
    dims, shape = others(x.ndim), (-1, *(1,) * (x.ndim - 2))
    average = x.mean(dims, keepdims=True)
    away = x - average
    spread = (away * away).mean(dims, keepdims=True)
    away *= 1 / xp.sqrt(spread + x.dtype.type(eps))
    out = away if weight is None else away * weight.reshape(shape)
    out = out if bias is None else out + bias.reshape(shape)
    return out, average.reshape(-1), spread.reshape(-1), {}


def mean_var_backward(ops: Any, g: Any, x: Any, eps: float) -> Any:
    """(g - mean(g) - out * mean(g * out)) * rstd, formed anew so that it carries history."""
    dims = others(x.ndim)
    away = x - ops.mean(x, dims, True)
    rstd = ops.rsqrt(ops.mean(away * away, dims, True) + eps)
    out = away * rstd
    return (g - ops.mean(g, dims, True) - out * ops.mean(g * out, dims, True)) * rstd


def moments_backward(ops: Any, g: Any, h: Any, x: Any) -> Any:
    """What the gradients of the means and variances are at x; a number if there are none, as
    nearly always.
    """
    if not any(getattr(v, "requires_grad", False) or bool(ops.any(v)) for v in (g, h)):
        return 0.0
    dims, shape = others(x.ndim), (1, -1, *(1,) * (x.ndim - 2))
    away = x - ops.mean(x, dims, True)
    n = math.prod(x.shape) // (x.shape[1] or 1) or 1
    return ops.broadcast_to(ops.reshape(g, shape) / n, tuple(x.shape)) + away * (
        ops.reshape(h, shape) * (2 / n)
    )


def batch_norm_backward(
    ops: Any, g: Any, g_average: Any, g_spread: Any, x: Any, weight: Any, average: Any,
    spread: Any, memo: Any, eps: float,
) -> Any:  # fmt: skip
    """The gradient by x; see Note [One pass]."""
    more = moments_backward(ops, g_average, g_spread, x)
    found = None
    if isinstance(g, np.ndarray):
        found = native.call(native.batch_norm_backward, g, x, weight, average, spread, eps)
    if found is None:
        scaled = g if weight is None else g * by_channel(ops, weight, x.ndim)
        slope = mean_var_backward(ops, scaled, x, eps)
    else:
        slope = found[0]
        keep(memo, g, found[1], found[2])
    return slope if isinstance(more, float) else slope + more


def channels_weight(ops: Any, g: Any, x: Any, memo: Any, eps: float) -> Any:
    """The gradient by the weight: the sum of g times the standardised x."""
    found = kept(memo, g, 1) if isinstance(g, np.ndarray) else None
    if found is not None:
        return found
    dims = others(x.ndim)
    away = x - ops.mean(x, dims, True)
    return ops.sum(g * away * ops.rsqrt(ops.mean(away * away, dims, True) + eps), dims)


def channels_bias(ops: Any, g: Any, memo: Any) -> Any:
    """The gradient by the bias."""
    found = kept(memo, g, 2) if isinstance(g, np.ndarray) else None
    return ops.sum(g, others(g.ndim)) if found is None else found


_native_batch_norm.pullback(
    x=lambda ops, g_out, g_average, g_spread, x, weight, average, spread, memo, eps: (
        batch_norm_backward(ops, g_out, g_average, g_spread, x, weight, average, spread, memo, eps)
    ),
    weight=lambda ops, g_out, x, memo, eps: channels_weight(ops, g_out, x, memo, eps),
    bias=lambda ops, g_out, memo: channels_bias(ops, g_out, memo),
)


def by_channel(ops: Any, x: Any, ndim: int) -> Any:
    """One number for each channel, to stand beside (N, C, ...)."""
    return ops.reshape(x, (1, -1, *(1,) * (ndim - 2)))


@composite(method=False, function=False)
def _channel_affine(ops, input, weight, bias):
    """input * weight + bias, with one number of each for every channel; either may be None."""
    out = input if weight is None else ops.mul(input, by_channel(ops, weight, input.ndim))
    return out if bias is None else ops.add(out, by_channel(ops, bias, input.ndim))


@composite(method=False, function=False)
def _batch_norm_inference(ops, input, average, spread, weight, bias, eps):
    """(input - average) / sqrt(spread + eps) * weight + bias, channel by channel."""
    scale = ops.rsqrt(ops.add(spread, eps))
    scale = scale if weight is None else ops.mul(scale, weight)
    away = ops.sub(input, by_channel(ops, average, input.ndim))
    return like_image(ops, ops._channel_affine(away, scale, bias), input)


@composite(method=False, function=False)
def local_response_norm(ops, input, size, alpha=1e-4, beta=0.75, k=1.0):
    """x / (k + alpha * the mean square of `size` neighbouring channels) ** beta."""
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
