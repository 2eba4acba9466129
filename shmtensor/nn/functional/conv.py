"""Convolutions, their transposes, and their windows as columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from . import from_table as ops
    from .from_table import (
        conv1d,
        conv2d,
        conv3d,
        conv_tbc,
        conv_transpose1d,
        conv_transpose2d,
        conv_transpose3d,
        fold,
    )
    from .from_table import image_unfold as unfold
else:
    from ...autograd import table as ops

    conv1d = ops.conv1d
    conv2d = ops.conv2d
    conv3d = ops.conv3d
    conv_tbc = ops.conv_tbc
    conv_transpose1d = ops.conv_transpose1d
    conv_transpose2d = ops.conv_transpose2d
    conv_transpose3d = ops.conv_transpose3d
    fold = ops.fold
    unfold = ops.image_unfold

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
