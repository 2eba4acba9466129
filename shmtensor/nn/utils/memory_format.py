"""Weights of convolutions in another memory format."""

from __future__ import annotations

from typing import Any, TypeVar

from ...tensor import Tensor
from ..modules.module import Module

__all__ = ["convert_conv2d_weight_memory_format", "convert_conv3d_weight_memory_format"]

M = TypeVar("M", bound=Module)


def convert_conv2d_weight_memory_format(module: M, memory_format: Any) -> M:
    """Gives the weights of all Conv2d and ConvTranspose2d a memory format, e.g. channels_last.

    Parameters
    ----------
    module : Module
        A layer, or a module with such layers.
    memory_format : memory_format
        One for tensors with 4 dimensions.

    Returns
    -------
    Module
        The module.

    Notes
    -----
    Copies: one of each such weight that is not in the format.

    Examples
    --------
    >>> layer = nn.Conv2d(3, 4, 2)
    >>> _ = nn.utils.convert_conv2d_weight_memory_format(layer, st.channels_last)
    >>> layer.weight.is_contiguous(memory_format=st.channels_last)
    True
    """
    return _convert(module, memory_format, 4)


def convert_conv3d_weight_memory_format(module: M, memory_format: Any) -> M:
    """Gives the weights of all Conv3d and ConvTranspose3d a memory format, e.g. channels_last_3d.

    Parameters
    ----------
    module : Module
        A layer, or a module with such layers.
    memory_format : memory_format
        One for tensors with 5 dimensions.

    Returns
    -------
    Module
        The module.

    Notes
    -----
    Copies: one of each such weight that is not in the format.

    Examples
    --------
    >>> layer = nn.Conv3d(3, 4, 2)
    >>> _ = nn.utils.convert_conv3d_weight_memory_format(layer, st.channels_last_3d)
    >>> layer.weight.is_contiguous(memory_format=st.channels_last_3d)
    True
    """
    return _convert(module, memory_format, 5)


def _convert(module: M, memory_format: Any, ndim: int) -> M:
    for layer in module.modules():
        weight = layer._parameters.get("weight")
        # only convolutions have weights of 4 or 5 dimensions and an attribute `transposed`
        if isinstance(weight, Tensor) and weight.ndim == ndim and hasattr(layer, "transposed"):
            weight.data = weight.detach().clone(memory_format=memory_format)
    return module
