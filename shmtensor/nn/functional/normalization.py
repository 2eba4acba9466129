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
    """Each channel of the batch with mean 0 and variance 1, then `* weight + bias`.

    Parameters
    ----------
    input : Tensor
        `(N, C, ...)`.
    running_mean, running_var : Tensor or None
        `(C,)`. In training they are updated in place with the batch's mean and unbiased variance;
        otherwise they normalise the input.
    weight, bias : Tensor, optional
        `(C,)`.
    training : bool, optional
        Whether the batch's own statistics normalise it.
    momentum : float, optional
        The weight of the batch in the update.
    eps : float, optional
        Added to the variance.

    Returns
    -------
    Tensor
        Of the input's shape and dtype.

    Raises
    ------
    ValueError
        In training a channel has one element only.
    RuntimeError
        Running statistics, weight or bias do not have one number per channel, or there are no
        running statistics outside training.

    See Also
    --------
    layer_norm, nn.BatchNorm2d

    Notes
    -----
    Ioffe and Szegedy 2015. Statistics of 16-bit floats are computed in float32.

    Examples
    --------
    >>> x = st.tensor([[1.], [3.]])
    >>> mean, var = st.zeros(1), st.ones(1)
    >>> F.batch_norm(x, mean, var, training=True).round(decimals=2)
    tensor([[-1.],
            [ 1.]])
    >>> mean
    tensor([0.2000])
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
    """Each channel of each sample with mean 0 and variance 1, then `* weight + bias`.

    Parameters
    ----------
    input : Tensor
        `(N, C, ...)`.
    running_mean, running_var : Tensor, optional
        `(C,)`; updated in place with the samples' average.
    weight, bias : Tensor, optional
        `(C,)`.
    use_input_stats : bool, optional
        False normalises the input by the running statistics.
    momentum : float, optional
        The weight of the batch in the update.
    eps : float, optional
        Added to the variance.

    Returns
    -------
    Tensor
        Of the input's shape and dtype.

    Raises
    ------
    ValueError
        A channel of a sample has one element only.

    See Also
    --------
    batch_norm, nn.InstanceNorm2d

    Examples
    --------
    >>> F.instance_norm(st.tensor([[[1., 3.], [10., 30.]]])).round(decimals=2)
    tensor([[[-1.,  1.],
             [-1.,  1.]]])
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

    Returns
    -------
    Tensor
        Of the input's shape and dtype.

    Raises
    ------
    ValueError
        Each group has one element only.
    RuntimeError
        The number of channels is not a multiple of num_groups.

    See Also
    --------
    nn.GroupNorm

    Notes
    -----
    Wu and He 2018.

    Examples
    --------
    >>> F.group_norm(st.tensor([[1., 3., 10., 30.]]), 2).round(decimals=2)
    tensor([[-1.,  1., -1.,  1.]])
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
    """Each sample with root mean square 1 over its last dimensions, then `* weight`.

    Parameters
    ----------
    input : Tensor
        `(..., *normalized_shape)`.
    normalized_shape : tuple of int
        The sizes of the dimensions normalised over.
    weight : Tensor, optional
        Of normalized_shape.
    eps : float, optional
        Added to the mean square; the dtype's eps if None.

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
    layer_norm, nn.RMSNorm

    Notes
    -----
    Zhang and Sennrich 2019.

    Examples
    --------
    >>> F.rms_norm(st.tensor([3., -3.]), (2,)).round(decimals=2)
    tensor([ 1., -1.])
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
