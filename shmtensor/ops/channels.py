"""Normalisation channel by channel: batch norm, group norm, local response."""

from __future__ import annotations

import math
from typing import Any

from .kernels import narrowed, widened
from .table import composite, op


def others(ndim: int) -> tuple[int, ...]:
    """All dimensions but the channels'."""
    return (0, *range(2, ndim))


@op(
    method=False,
    function=False,
    outputs="out average spread",
    samples=[((4, 3), 1e-5), ((2, 3, 4), 1e-5), ((2, 2, 3, 2), 0.5)],
)
def channel_standardised(xp, x, /, eps):
    """(x - mean) / sqrt(variance + eps) of each channel, dimension 1; the means and variances."""
    dims = others(x.ndim)
    average = x.mean(dims, keepdims=True)
    away = x - average
    spread = (away * away).mean(dims, keepdims=True)
    away *= 1 / xp.sqrt(spread + x.dtype.type(eps))
    return away, average.reshape(-1), spread.reshape(-1)


def channel_slope(ops: Any, g: Any, x: Any, eps: float) -> Any:
    """(g - mean(g) - out * mean(g * out)) * rstd, formed anew so that it carries history."""
    dims = others(x.ndim)
    away = x - ops.mean(x, dims, True)
    rstd = ops.rsqrt(ops.mean(away * away, dims, True) + eps)
    out = away * rstd
    return (g - ops.mean(g, dims, True) - out * ops.mean(g * out, dims, True)) * rstd


def moments_slope(ops: Any, g: Any, h: Any, x: Any) -> Any:
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


channel_standardised.pullback(
    x=lambda ops, g_out, g_average, g_spread, x, eps: (
        channel_slope(ops, g_out, x, eps) + moments_slope(ops, g_average, g_spread, x)
    )
)


def by_channel(ops: Any, x: Any, ndim: int) -> Any:
    """One number for each channel, to stand beside (N, C, ...)."""
    return ops.reshape(x, (1, -1, *(1,) * (ndim - 2)))


@composite(method=False, function=False)
def channel_affine(ops, input, weight, bias):
    """input * weight + bias, with one number of each for every channel; either may be None."""
    out = input if weight is None else ops.mul(input, by_channel(ops, weight, input.ndim))
    return out if bias is None else ops.add(out, by_channel(ops, bias, input.ndim))


@composite(method=False, function=False)
def channel_normalised(ops, input, average, spread, weight, bias, eps):
    """(input - average) / sqrt(spread + eps) * weight + bias, channel by channel."""
    scale = ops.rsqrt(ops.add(spread, eps))
    away = ops.sub(input, by_channel(ops, average, input.ndim))
    scaled = ops.mul(away, by_channel(ops, scale, input.ndim))
    return ops.channel_affine(scaled, weight, bias)


@composite(method=False)
def group_norm(ops, input, num_groups, weight=None, bias=None, eps=1e-5, cudnn_enabled=True):
    """Each group of channels of each sample brought to mean 0 and variance 1: (N, C, ...).

    Raises:
        RuntimeError: the channels do not fall into so many groups.
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
    rows = shape[0] * num_groups
    flat = ops.reshape(input, (rows, math.prod(shape) // rows if rows else 1))
    flat = widened(ops, flat)
    out = flat if not math.prod(shape) else ops.standardised(flat, 1, eps)
    out = ops.channel_affine(ops.reshape(out, shape), widened(ops, weight), widened(ops, bias))
    return narrowed(ops, out, input.dtype)


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
    means = ops.div(ops.window_sums(squares, (size,), (1,), (0,), False), size)
    return ops.div(input, ops.pow(ops.add(ops.mul(ops.movedim(means, -1, 1), alpha), k), beta))
