"""Padding, interpolation, grid sampling and pixel shuffle of images."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...autograd import table as ops
from ...tensor import Tensor

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

Function = Callable[..., Any]

pad: Function = ops.pad
interpolate: Function = ops.interpolate
affine_grid: Function = ops.affine_grid
grid_sample: Function = ops.grid_sample
pixel_shuffle: Function = ops.pixel_shuffle
pixel_unshuffle: Function = ops.pixel_unshuffle
channel_shuffle: Function = ops.channel_shuffle
native_channel_shuffle: Function = ops.channel_shuffle


def upsample(
    input: Tensor,
    size: Any = None,
    scale_factor: Any = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
) -> Any:
    """`interpolate` by its older name."""
    return ops.interpolate(input, size, scale_factor, mode, align_corners)


def upsample_nearest(input: Tensor, size: Any = None, scale_factor: Any = None) -> Any:
    """`interpolate` to the nearest element."""
    return ops.interpolate(input, size, scale_factor, "nearest")


def upsample_bilinear(input: Tensor, size: Any = None, scale_factor: Any = None) -> Any:
    """`interpolate` between neighbours, with the corners aligned."""
    return ops.interpolate(input, size, scale_factor, "bilinear", True)
