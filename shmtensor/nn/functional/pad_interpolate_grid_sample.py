"""Padding, interpolation, grid sampling and pixel shuffle of images."""

from __future__ import annotations

from typing import Any

from ...tensor import Tensor
from . import from_table as ops
from .from_table import (
    affine_grid,
    channel_shuffle,
    grid_sample,
    interpolate,
    pad,
    pixel_shuffle,
    pixel_unshuffle,
)
from .from_table import channel_shuffle as native_channel_shuffle

__all__ = [
    "affine_grid",
    "channel_shuffle",
    "grid_sample",
    "interpolate",
    "native_channel_shuffle",
    "pad",
    "pixel_shuffle",
    "pixel_unshuffle",
    "upsample",
    "upsample_bilinear",
    "upsample_nearest",
]


def upsample(
    input: Tensor,
    size: Any = None,
    scale_factor: Any = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
) -> Tensor:
    """`interpolate` by its older name.

    Parameters
    ----------
    input : Tensor
        `(N, C, *sizes)` with 1 to 3 sizes.
    size : int or tuple of int, optional
        The new size.
    scale_factor : float or tuple of float, optional
        The new size over the old one, instead of `size`.
    mode : str, optional
        As in `interpolate`.
    align_corners : bool, optional
        As in `interpolate`.

    Returns
    -------
    Tensor
        `(N, C, *size)`.

    See Also
    --------
    interpolate

    Examples
    --------
    >>> F.upsample(st.tensor([[[1., 3.]]]), scale_factor=2)
    tensor([[[1., 1., 3., 3.]]])
    """
    return ops.interpolate(input, size, scale_factor, mode, align_corners)


def upsample_nearest(input: Tensor, size: Any = None, scale_factor: Any = None) -> Tensor:
    """`interpolate` that repeats the nearest element.

    Parameters
    ----------
    input : Tensor
        `(N, C, *sizes)` with 1 to 3 sizes.
    size : int or tuple of int, optional
        The new size.
    scale_factor : float or tuple of float, optional
        The new size over the old one, instead of `size`.

    Returns
    -------
    Tensor
        `(N, C, *size)`.

    See Also
    --------
    interpolate

    Examples
    --------
    >>> F.upsample_nearest(st.tensor([[[1., 3.]]]), size=4)
    tensor([[[1., 1., 3., 3.]]])
    """
    return ops.interpolate(input, size, scale_factor, "nearest")


def upsample_bilinear(input: Tensor, size: Any = None, scale_factor: Any = None) -> Tensor:
    """`interpolate` of images between neighbours, with the corners aligned.

    Parameters
    ----------
    input : Tensor
        `(N, C, H, W)`.
    size : int or (int, int), optional
        The new size.
    scale_factor : float or (float, float), optional
        The new size over the old one, instead of `size`.

    Returns
    -------
    Tensor
        `(N, C, *size)`.

    See Also
    --------
    interpolate

    Examples
    --------
    >>> F.upsample_bilinear(st.tensor([[[[1., 3.]]]]), size=(1, 3))
    tensor([[[[1., 2., 3.]]]])
    """
    return ops.interpolate(input, size, scale_factor, "bilinear", True)
