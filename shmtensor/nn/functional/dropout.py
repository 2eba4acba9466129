"""Dropout of elements and of channels."""

from __future__ import annotations

import math
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
    name: str, dims: int, input: Tensor, p: float, training: bool, inplace: bool
) -> Tensor:
    _check_probability(name, p)
    n = input.dim()
    if n not in (dims + 1, dims + 2):
        raise RuntimeError(
            f"{name}: expected {dims + 1} or {dims + 2} dimensions: got {tuple(input.shape)}"
        )
    if not training or p == 0.0:
        return input
    mask = ops.dropout(input.new_ones((*input.shape[: n - dims], *[1] * dims)), p)
    return input.mul_(mask) if inplace else input * mask


def dropout1d(
    input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
) -> Tensor:
    """Dropout of whole channels of (N, C, L) or (C, L)."""
    return _channel_dropout("dropout1d", 1, input, p, training, inplace)


def dropout2d(
    input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
) -> Tensor:
    """Dropout of whole channels of (N, C, H, W) or (C, H, W)."""
    return _channel_dropout("dropout2d", 2, input, p, training, inplace)


def dropout3d(
    input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
) -> Tensor:
    """Dropout of whole channels of (N, C, D, H, W) or (C, D, H, W)."""
    return _channel_dropout("dropout3d", 3, input, p, training, inplace)


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
    if training and p and len(shape) < 2:
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
    return input.mul_(mask * scale).add_(shift) if inplace else input * (mask * scale) + shift
