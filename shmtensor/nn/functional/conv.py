"""Convolutions, their transposes, and their windows as columns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...autograd import table as ops

__all__ = [
    "conv1d",
    "conv2d",
    "conv3d",
    "conv_tbc",
    "conv_transpose1d",
    "conv_transpose2d",
    "conv_transpose3d",
    "fold",
    "unfold",
]

Function = Callable[..., Any]

conv1d: Function = ops.conv1d
conv2d: Function = ops.conv2d
conv3d: Function = ops.conv3d
conv_tbc: Function = ops.conv_tbc
conv_transpose1d: Function = ops.conv_transpose1d
conv_transpose2d: Function = ops.conv_transpose2d
conv_transpose3d: Function = ops.conv_transpose3d
fold: Function = ops.fold
unfold: Function = ops.image_unfold
