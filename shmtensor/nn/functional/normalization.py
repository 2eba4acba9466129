"""Normalisation over the last dimensions, over the batch, over groups of channels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ... import native
from ...autograd import no_grad
from ...autograd.grad_mode import FROZEN
from ...cuda_arrays import array_modules
from ...dtypes import HALVES, finfo
from ...ops.table.check_dtypes import check_parameter_dtypes
from ...ops.table.memory_format import like_image
from ...tensor import Tensor
from . import from_table as ops
from .from_table import layer_norm, local_response_norm

__all__ = [
    "batch_norm",
    "group_norm",
    "instance_norm",
    "layer_norm",
    "local_response_norm",
    "rms_norm",
]


def _update_running(running: Tensor | None, new: Tensor, momentum: float) -> None:
    """running = (1 - momentum) * running + momentum * new, in place; called under no_grad."""
    if running is not None:
        if new.dtype is not running.dtype:
            new = new.to(running.dtype)
        running.lerp_(new, momentum)


def _is_updated_by_kernel(
    x: Tensor, mean: Any, var: Any, weight: Any, bias: Any, momentum: float
) -> bool:
    """Whether a GPU's kernel of `x` updates the running statistics, too: all are plain arrays on
    GPUs, and writes to the running ones need nothing but to be counted.
    """
    cls = x.array.__class__
    if cls not in array_modules or mean is None or var is None or momentum.__class__ is not float:
        return False
    dtype = x.dtype
    return (
        mean is not var
        and mean.array.__class__ is cls
        and var.array.__class__ is cls
        and mean.dtype is dtype
        and var.dtype is dtype
        and mean.version is not FROZEN
        and var.version is not FROZEN
        and (weight is None or weight.array.__class__ is cls)  # not in vmap
        and (bias is None or bias.array.__class__ is cls)
    )


def batch_norm(
    input: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """Each channel of (N, C, ...) normalised to mean 0 and variance 1, then `* weight + bias`
    (Ioffe and Szegedy 2015).

    Args:
        running_mean, running_var: (C,). In training they are updated in place with the batch's
            (unbiased) statistics; otherwise they normalise the input.
        momentum: weight of the batch in the update.

    Raises:
        ValueError: in training a channel has one element only.
        RuntimeError: running statistics, weight or bias do not have one number per channel.
    """
    shape = tuple(input.shape)
    if len(shape) < 2:
        if shape == (0,):
            return input.clone()
        raise RuntimeError(f"batch_norm: expected at least 2 dimensions: {shape}")
    channels = shape[1:2]
    for name, x in (
        ("running_mean", running_mean),
        ("running_var", running_var),
        ("weight", weight),
        ("bias", bias),
    ):
        if x is not None and x.shape != channels:
            raise RuntimeError(
                f"batch_norm: {name} must have {shape[1]} elements, not {tuple(x.shape)}: "
                f"input has {shape}"
            )
    check_parameter_dtypes("batch_norm", input, running_mean, running_var, weight, bias)
    dtype = input.dtype
    if not training:
        if running_mean is None or running_var is None:
            raise RuntimeError(
                f"batch_norm: running_mean and running_var are needed: {running_mean}, "
                f"{running_var}, or training=True"
            )
        parts: Any = (input, running_mean, running_var, weight, bias)
        if dtype in HALVES:
            parts = [_to_float32(x) for x in parts]
        normalized: Tensor = ops._batch_norm_inference(*parts, eps)
        return normalized.to(dtype)
    n = input.numel() // (shape[1] or 1)
    if n == 1:
        raise ValueError(
            f"batch_norm: expected more than 1 value per channel when training: {shape}"
        )
    if not input.numel():
        empty: Tensor = ops._channel_affine(input, weight, bias)
        return empty
    if dtype in HALVES:  # PyTorch, too, normalises these in float32
        input, weight, bias = (_to_float32(x) for x in (input, weight, bias))
    running = None
    if input.array.__class__ is not np.ndarray and _is_updated_by_kernel(
        input, running_mean, running_var, weight, bias, momentum
    ):
        running = running_mean.array, running_var.array, momentum  # type: ignore[union-attr]
    out, mean, var = ops._native_batch_norm(input, weight, bias, eps, running)
    if running is not None:
        native.wrote(running_mean)
        native.wrote(running_var)
    elif running_mean is not None or running_var is not None:
        with no_grad():  # once for both, and for the factor
            _update_running(running_mean, mean, momentum)
            if running_var is not None:
                _update_running(running_var, var * (n / (n - 1)), momentum)
    scaled: Tensor = out if out.dtype is dtype else out.to(dtype)
    return scaled


def _to_float32(x: Any) -> Any:
    return None if x is None else x.float()


def instance_norm(
    input: Tensor,
    running_mean: Tensor | None = None,
    running_var: Tensor | None = None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """`batch_norm` of each sample separately: (N, C, ...).

    Args:
        running_mean, running_var: (C,); updated in place with the samples' average.
        use_input_stats: False: the running statistics normalise the input.

    Raises:
        ValueError: a channel of a sample has one element only.
    """
    shape = tuple(input.shape)
    if not use_input_stats:
        input = input.contiguous()
        return batch_norm(input, running_mean, running_var, weight, bias, False, momentum, eps)
    if int(np.prod(shape[2:])) == 1:
        raise ValueError(
            f"instance_norm: expected more than 1 spatial element when training: {shape}"
        )
    check_parameter_dtypes("instance_norm", input, running_mean, running_var, weight, bias)
    dtype = input.dtype
    if dtype in HALVES:
        input, weight, bias = (_to_float32(x) for x in (input, weight, bias))
    n, c = shape[:2]
    repeated = [None if r is None else r.detach().repeat(n) for r in (running_mean, running_var)]
    flat = input.contiguous().reshape(1, n * c, *shape[2:])
    mean, var = repeated
    out = batch_norm(flat, mean, var, None, None, True, momentum, eps).reshape(shape)
    for running, rows in zip((running_mean, running_var), repeated, strict=True):
        if running is not None and rows is not None and n:
            with no_grad():
                running.copy_(rows.reshape(n, c).mean(0))
    scaled: Tensor = ops._channel_affine(out, weight, bias)
    return scaled.to(dtype)


def group_norm(
    input: Tensor,
    num_groups: int,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """Each group of channels of each sample normalised to mean 0 and variance 1, then
    `* weight + bias`: (N, C, ...) (Wu, He 2018).

    Raises:
        ValueError: each group has one element only.
        RuntimeError: the number of channels is not a multiple of num_groups.
    """
    shape = tuple(input.shape)
    if len(shape) > 1 and num_groups == input.numel() == shape[1]:
        raise ValueError(
            f"group_norm: expected more than 1 value per channel when training: {shape}"
        )
    out: Tensor = ops.group_norm(input, num_groups, weight, bias, eps)
    return out


def rms_norm(
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    eps: float | None = None,
) -> Tensor:
    """Root mean square 1 over the last dimensions, then `* weight`.

    Raises: RuntimeError if normalized_shape is not the end of input's shape.
    """
    sizes = tuple(normalized_shape)
    n = len(sizes)
    if n == 0 or tuple(input.shape[-n:]) != sizes:
        raise RuntimeError(
            f"rms_norm: input's shape does not end with normalized_shape: {tuple(input.shape)}, "
            f"{sizes}"
        )
    if eps is None:
        eps = finfo(input.dtype).eps
    half = input.dtype in HALVES
    wide, scale = (_to_float32(input), _to_float32(weight)) if half else (input, weight)
    out: Tensor = like_image(
        ops, ops._native_layer_norm(wide, scale, None, n, 0, eps, False), input
    )
    return out.to(input.dtype)
