"""Dropout of elements and of channels."""

from __future__ import annotations

import math
import warnings
from typing import TYPE_CHECKING, Any

from ...tensor import Tensor

if TYPE_CHECKING:
    from . import from_table as ops
else:
    from ...autograd import table as ops

__all__ = [
    "alpha_dropout",
    "dropout",
    "dropout1d",
    "dropout2d",
    "dropout3d",
    "feature_alpha_dropout",
]

# The limit of SELU on the negative side: -scale * alpha.
SELU_LIMIT = -1.0507009873554805 * 1.6732632423543772


def _check_probability(name: str, p: float) -> None:
    if not 0.0 <= p <= 1.0:
        raise ValueError(f"{name}: dropout probability has to be between 0 and 1: {p}")


def dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Zeroes each element with probability p and scales the others by 1 / (1 - p).

    Copies: none when not training (the input itself), else one.
    """
    _check_probability("dropout", p)
    if not training or p == 0.0:
        return input
    out: Tensor = ops.dropout(input, p)
    return input.copy_(out) if inplace else out


def _channel_dropout(
    name: str, input: Tensor, mask_shape: tuple[int, ...], p: float, training: bool, inplace: bool
) -> Tensor:
    """Dropout by a mask of the shape, whose sizes 1 are the dimensions that drop together."""
    _check_probability(name, p)
    if not training or p == 0.0 or not input.numel():
        return input
    mask = ops.dropout(input.new_ones(mask_shape), p)
    return input.mul_(mask) if inplace else input * mask


def _warn_of_dims(name: str, dims: int, input: Tensor) -> None:
    """PyTorch's warning for an input that has not the dimensions of images or volumes."""
    n = input.dim()
    if n not in (dims + 1, dims + 2):
        warnings.warn(
            f"{name}: Received a {n}-D input to {name}, which is deprecated and will result in an "
            "error in a future release. To retain the behavior and silence this warning, please "
            f"use dropout instead. Note that {name} exists to provide channel-wise dropout on "
            f"inputs with {dims} spatial dimensions, a channel dimension, and an optional batch "
            f"dimension (i.e. {dims + 1}D or {dims + 2}D inputs).",
            stacklevel=3,
        )


def _first_two(name: str, input: Tensor) -> tuple[int, ...]:
    """The shape of a mask for (N, C, *): sizes 1 after the first two."""
    if input.dim() < 2:
        raise RuntimeError(
            f"{name}: Feature dropout requires at least 2 dimensions in the input: "
            f"{tuple(input.shape)}, hint: use dropout"
        )
    return (*input.shape[:2], *(1,) * (input.dim() - 2))


def dropout1d(
    input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
) -> Tensor:
    """Dropout of whole channels of (N, C, L) or (C, L)."""
    n = input.dim()
    if n not in (2, 3):
        raise RuntimeError(f"dropout1d: expected 2 or 3 dimensions: got {tuple(input.shape)}")
    shape = (*input.shape[: n - 1], 1)
    return _channel_dropout("dropout1d", input, shape, p, training, inplace)


def dropout2d(
    input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
) -> Tensor:
    """Dropout of whole channels of (N, C, H, W).

    As in PyTorch, an input of 3 dimensions is taken for (N, C, L), and one of 2 for (N, C), whose
    elements drop one by one; both with a warning.
    """
    _warn_of_dims("dropout2d", 2, input)
    if input.dim() == 3:
        warnings.warn(
            "dropout2d: Received a 3D input to dropout2d and assuming that channel-wise 1D dropout "
            "behavior is desired - input is interpreted as shape (N, C, L), where C is the channel "
            "dim. This behavior will change in a future release to interpret the input as one "
            "without a batch dimension, i.e. shape (C, H, W). To maintain the 1D channel-wise "
            "dropout behavior, please switch to using dropout1d instead.",
            stacklevel=2,
        )
    drops = training and 0 < p < 1 and input.numel()
    shape = _first_two("dropout2d", input) if drops else ()
    return _channel_dropout("dropout2d", input, shape, p, training, inplace)


def dropout3d(
    input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
) -> Tensor:
    """Dropout of whole channels of (N, C, D, H, W) or (C, D, H, W).

    As in PyTorch, an input of other dimensions has its channels in the first one, with a warning.
    """
    _warn_of_dims("dropout3d", 3, input)
    batched = input if input.dim() == 5 else input.unsqueeze(0)
    drops = training and 0 < p < 1 and input.numel()
    shape = _first_two("dropout3d", batched)[-input.dim() :] if drops else ()
    return _channel_dropout("dropout3d", input, shape, p, training, inplace)


def alpha_dropout(
    input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False
) -> Tensor:
    """Dropout to SELU's negative limit, rescaled to keep mean and variance."""
    return _alpha_dropout("alpha_dropout", input, tuple(input.shape), p, training, inplace)


def feature_alpha_dropout(
    input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False
) -> Tensor:
    """`alpha_dropout` of whole channels of (N, C, ...)."""
    shape = tuple(input.shape)
    if training and p and len(shape) < 2 and input.numel():
        raise RuntimeError(f"feature_alpha_dropout: expected 2 dimensions or more: {shape}")
    mask_shape = (*shape[:2], *(1,) * (len(shape) - 2))
    return _alpha_dropout("feature_alpha_dropout", input, mask_shape, p, training, inplace)


def _alpha_dropout(
    name: str, input: Tensor, shape: tuple[int, ...], p: float, training: bool, inplace: bool
) -> Tensor:
    """Alpha dropout by a mask of the shape."""
    _check_probability(name, p)
    if not training or p == 0.0:
        return input
    if p == 1.0:
        return input.mul_(0.0) if inplace else input * 0.0
    keep, limit = 1 - p, SELU_LIMIT
    scale = 1 / math.sqrt(keep * (1 + p * limit * limit))
    mask: Any = ops.dropout(input.new_ones(shape), p) * keep  # ones and zeros
    shift: Any = (1 - mask) * (limit * scale) - scale * p * limit
    return input.mul_(mask * scale).add_(shift) if inplace else (input * (mask * scale)).add_(shift)
