"""Dropout of elements and of channels."""

from __future__ import annotations

import math
import warnings
from typing import Any

from ...tensor import Tensor
from . import from_table as ops

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
    """Zeroes elements at random and divides the others by 1 - p (Srivastava et al. 2014).

    Parameters
    ----------
    input : Tensor
        Of any shape, with a floating-point dtype.
    p : float, optional
        Probability of an element to be 0, from 0 to 1.
    training : bool, optional
        False returns the input itself.
    inplace : bool, optional
        Write the result into the input's memory and return the input.

    Returns
    -------
    Tensor
        Of the input's shape and dtype; the input itself if `inplace`.

    Raises
    ------
    ValueError
        p is not within 0 and 1.

    See Also
    --------
    dropout2d, alpha_dropout, nn.Dropout

    Notes
    -----
    Unlike `nn.Dropout`, the function knows nothing of evaluation: pass training=self.training.
    Copies: none when not training (the input itself), else one.

    Examples
    --------
    >>> x = F.dropout(st.ones(100), p=0.5)
    >>> sorted(set(x.tolist()))
    [0.0, 2.0]
    >>> F.dropout(st.ones(3), training=False)
    tensor([1., 1., 1.])
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
    """Zeroes whole channels at random and divides the others by 1 - p.

    Parameters
    ----------
    input : Tensor
        `(N, C, L)` or `(C, L)`.
    p : float, optional
        Probability of a channel to be 0, from 0 to 1.
    training : bool, optional
        False returns the input itself.
    inplace : bool, optional
        Write the result into the input's memory and return the input.

    Returns
    -------
    Tensor
        Of the input's shape and dtype; the input itself if `inplace`.

    Raises
    ------
    RuntimeError
        The input has neither 2 nor 3 dimensions.

    See Also
    --------
    dropout, nn.Dropout1d

    Examples
    --------
    >>> x = F.dropout1d(st.ones(8, 4, 4)).flatten(2)
    >>> bool((x == x[:, :, :1]).all())
    True
    """
    n = input.dim()
    if n not in (2, 3):
        raise RuntimeError(f"dropout1d: expected 2 or 3 dimensions: got {tuple(input.shape)}")
    shape = (*input.shape[: n - 1], 1)
    return _channel_dropout("dropout1d", input, shape, p, training, inplace)


def dropout2d(
    input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
) -> Tensor:
    """Zeroes whole channels at random and divides the others by 1 - p.

    Parameters
    ----------
    input : Tensor
        `(N, C, H, W)`. One of 3 dimensions is taken for `(N, C, L)`, and one of 2 for `(N, C)`,
        whose elements drop one by one; both with a warning as PyTorch's.
    p : float, optional
        Probability of a channel to be 0, from 0 to 1.
    training : bool, optional
        False returns the input itself.
    inplace : bool, optional
        Write the result into the input's memory and return the input.

    Returns
    -------
    Tensor
        Of the input's shape and dtype; the input itself if `inplace`.

    See Also
    --------
    dropout, nn.Dropout2d

    Examples
    --------
    >>> x = F.dropout2d(st.ones(8, 4, 4, 4)).flatten(2)
    >>> bool((x == x[:, :, :1]).all())
    True
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
    """Zeroes whole channels at random and divides the others by 1 - p.

    Parameters
    ----------
    input : Tensor
        `(N, C, D, H, W)` or `(C, D, H, W)`. One of other dimensions has its channels in the first
        one, with a warning as PyTorch's.
    p : float, optional
        Probability of a channel to be 0, from 0 to 1.
    training : bool, optional
        False returns the input itself.
    inplace : bool, optional
        Write the result into the input's memory and return the input.

    Returns
    -------
    Tensor
        Of the input's shape and dtype; the input itself if `inplace`.

    See Also
    --------
    dropout, nn.Dropout3d

    Examples
    --------
    >>> x = F.dropout3d(st.ones(8, 4, 4, 4, 4)).flatten(2)
    >>> bool((x == x[:, :, :1]).all())
    True
    """
    _warn_of_dims("dropout3d", 3, input)
    batched = input if input.dim() == 5 else input.unsqueeze(0)
    drops = training and 0 < p < 1 and input.numel()
    shape = _first_two("dropout3d", batched)[-input.dim() :] if drops else ()
    return _channel_dropout("dropout3d", input, shape, p, training, inplace)


def alpha_dropout(
    input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False
) -> Tensor:
    """Dropout that keeps mean 0 and variance 1 after `selu` (Klambauer et al. 2017).

    Parameters
    ----------
    input : Tensor
        Of any shape, with a floating-point dtype.
    p : float, optional
        Probability of an element to be set to SELU's negative limit, from 0 to 1.
    training : bool, optional
        False, the default, returns the input itself.
    inplace : bool, optional
        Write the result into the input's memory and return the input.

    Returns
    -------
    Tensor
        Of the input's shape and dtype; the input itself if `inplace`.

    See Also
    --------
    dropout, selu, nn.AlphaDropout

    Examples
    --------
    >>> F.alpha_dropout(st.ones(2), training=False)
    tensor([1., 1.])
    """
    return _alpha_dropout("alpha_dropout", input, tuple(input.shape), p, training, inplace)


def feature_alpha_dropout(
    input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False
) -> Tensor:
    """`alpha_dropout` of whole channels.

    Parameters
    ----------
    input : Tensor
        `(N, C, ...)`.
    p : float, optional
        Probability of a channel to be set to SELU's negative limit, from 0 to 1.
    training : bool, optional
        False, the default, returns the input itself.
    inplace : bool, optional
        Write the result into the input's memory and return the input.

    Returns
    -------
    Tensor
        Of the input's shape and dtype; the input itself if `inplace`.

    Raises
    ------
    RuntimeError
        The input has fewer than 2 dimensions.

    Examples
    --------
    >>> F.feature_alpha_dropout(st.ones(2, 3, 4), training=True).shape
    Size([2, 3, 4])
    """
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
