"""Normalisation of rows: over the last dimensions, or over groups of channels; scaled and shifted.

The kernels give all gradients in one pass; each pullback takes its own (`Note [One pass]`).
"""

from __future__ import annotations

import math
import weakref
from typing import Any

import numpy as np

from ... import native
from ..shape.view_expand_flip import shrunk
from ..table.check_dtypes import parameters_fit
from ..table.memory_format import like_image
from ..table.native_or_numpy import narrowed, widened
from ..table.op_definition import composite, op

Shape = tuple[int, ...]


def lengths(shape: Shape, n: int, groups: int) -> Shape:
    """How many rows are normalised, and how long they are."""
    if groups:
        return shape[0] * groups, math.prod(shape[1:]) // groups
    return math.prod(shape[: len(shape) - n]), math.prod(shape[len(shape) - n :])


def broadcastable(ops: Any, weight: Any, ndim: int, groups: int) -> Any:
    """A weight so that it broadcasts against the tensor."""
    return ops.reshape(weight, (1, -1, *(1,) * (ndim - 2))) if groups else weight


def fast_layer_norm(
    x: Any, weight: Any, bias: Any, n: int, groups: int, eps: float, centred: bool
) -> Any:
    """The native kernel, or the plain form."""
    found = native.layer_norm(x, weight, bias, n, groups, eps, centred)
    if found is not None:
        return (*found, {})
    with np.errstate(all="ignore"):
        return _native_layer_norm.forward(np, x, weight, bias, n, groups, eps, centred)


@op(
    numpy=fast_layer_norm,
    promote="float",
    inplace=False,
    method=False,
    function=False,
    keeps="mean rstd memo",
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
    """(x - mean) / sqrt(variance + eps) * weight + bias of each row; not `centred`: the mean counts
    as 0.
    """
    rows = x.reshape(lengths(x.shape, n, groups))
    mean = rows.mean(1, keepdims=True) if centred else xp.zeros((len(rows), 1), x.dtype)
    away = rows - mean
    rstd = 1 / xp.sqrt((away * away).mean(1, keepdims=True) + x.dtype.type(eps))
    out = (away * rstd).reshape(x.shape)
    if weight is not None:
        out = out * (weight.reshape(-1, *(1,) * (x.ndim - 2)) if groups else weight)
    if bias is not None:
        out = out + (bias.reshape(-1, *(1,) * (x.ndim - 2)) if groups else bias)
    return out, mean.reshape(-1), rstd.reshape(-1), {}


def standard(ops: Any, x: Any, n: int, groups: int, eps: float, centred: bool) -> Any:
    """The rows without weight and bias, and their scales, formed anew so as to carry history."""
    rows = ops.reshape(x, lengths(tuple(x.shape), n, groups))
    away = rows - ops.mean(rows, 1, True) if centred else rows
    rstd = ops.rsqrt(ops.mean(away * away, 1, True) + eps)
    return away * rstd, rstd


def keep(memo: dict[str, Any], g: Any, *found: Any) -> None:
    """Note [One pass]: the kernel behind the first pullback finds the gradients of weight and bias
    as well. They wait in `memo`, for the same g alone, until their own pullbacks ask.
    """
    memo["found"] = (weakref.ref(g), *found)


def kept(memo: dict[str, Any], g: Any, i: int) -> Any:
    """What was found for this g, or None."""
    found = memo.get("found")
    if found is None or found[0]() is not g:
        return None
    if i == len(found) - 1:
        memo.pop("found", None)
    return found[i]


def layer_norm_backward(
    ops: Any, g: Any, x: Any, weight: Any, mean: Any, rstd: Any, memo: Any,
    n: int, groups: int, eps: float, centred: bool,
) -> Any:  # fmt: skip
    """The gradient by x."""
    if isinstance(g, np.ndarray):
        found = native.call(
            native.layer_norm_backward, g, x, weight, mean, rstd, n, groups, centred
        )
        if found is not None:
            keep(memo, g, found[1], found[2])
            return found[0]
    out, scale = standard(ops, x, n, groups, eps, centred)
    g = g if weight is None else g * broadcastable(ops, weight, x.ndim, groups)
    rows = ops.reshape(g, tuple(out.shape))
    inner = rows - out * ops.mean(rows * out, 1, True)
    inner = inner - ops.mean(rows, 1, True) if centred else inner
    return ops.reshape(inner * scale, tuple(x.shape))


def layer_norm_weight_backward(
    ops: Any, g: Any, x: Any, weight: Any, mean: Any, rstd: Any, memo: Any, shape: Shape,
    n: int, groups: int, eps: float, centred: bool,
) -> Any:  # fmt: skip
    """The gradient by the weight."""
    if isinstance(g, np.ndarray):
        found = kept(memo, g, 1)
        if found is None:
            every = native.call(
                native.layer_norm_backward, g, x, weight, mean, rstd, n, groups, centred
            )
            if every is not None:
                found = every[1]
                keep(memo, g, every[1], every[2])
        if found is not None:
            return found.reshape(shape)
    out, _ = standard(ops, x, n, groups, eps, centred)
    return by_weight(ops, g * ops.reshape(out, tuple(x.shape)), shape, groups)


def by_weight(ops: Any, g: Any, shape: Shape, groups: int) -> Any:
    """A gradient of all elements, summed to the weight's shape."""
    return ops.sum(g, (0, *range(2, g.ndim))) if groups else shrunk(ops, g, shape)


def layer_norm_bias_backward(ops: Any, g: Any, memo: Any, shape: Shape, groups: int) -> Any:
    """The gradient by the bias."""
    found = kept(memo, g, 2) if isinstance(g, np.ndarray) else None
    return by_weight(ops, g, shape, groups) if found is None else found.reshape(shape)


_native_layer_norm.pullback(
    x=lambda ops, g, x, weight, mean, rstd, memo, n, groups, eps, centred: layer_norm_backward(
        ops, g, x, weight, mean, rstd, memo, n, groups, eps, centred
    ),
    weight=lambda ops, g, x, weight, mean, rstd, memo, weight_shape, n, groups, eps, centred: (
        layer_norm_weight_backward(
            ops, g, x, weight, mean, rstd, memo, weight_shape, n, groups, eps, centred
        )
    ),
    bias=lambda ops, g, memo, bias_shape, groups: layer_norm_bias_backward(
        ops, g, memo, bias_shape, groups
    ),
)


@composite(method=False)
def layer_norm(ops, input, normalized_shape, weight=None, bias=None, eps=1e-5, cudnn_enable=True):
    """Each sample brought to mean 0 and variance 1 over the last dimensions, then scaled and moved.

    Raises:
        RuntimeError: normalized_shape is not the end of input's shape.
    """
    end = tuple(normalized_shape)
    if not end or tuple(input.shape[input.ndim - len(end) :]) != end:
        raise RuntimeError(f"layer_norm: the shape does not end so: {tuple(input.shape)}, {end}")
    parameters_fit("layer_norm", input, weight, bias)
    if input.dtype.itemsize == 2:
        wide = [widened(ops, v) for v in (input, weight, bias)]
        return narrowed(ops, ops._native_layer_norm(*wide, len(end), 0, eps, True), input.dtype)
    return ops._native_layer_norm(input, weight, bias, len(end), 0, eps, True)


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
    parameters_fit("group_norm", input, weight, bias)
    if not math.prod(shape):
        return ops._channel_affine(input, weight, bias)
    wide = [widened(ops, v) for v in (input, weight, bias)]
    out = narrowed(ops, ops._native_layer_norm(*wide, 1, num_groups, eps, True), input.dtype)
    return like_image(ops, out, input)
