"""Names that scripts write for PyTorch's sake: memory formats and layouts, and the constants of
mathematics.
"""

from __future__ import annotations

import math

__all__ = [
    "channels_last",
    "channels_last_3d",
    "contiguous_format",
    "e",
    "inf",
    "layout",
    "memory_format",
    "nan",
    "newaxis",
    "pi",
    "preserve_format",
    "strided",
]

e, inf, nan, pi = math.e, math.inf, math.nan, math.pi
newaxis = None


class memory_format:
    """How a tensor's dimensions lie in memory; tensors here are made in row order, whatever is
    asked for.
    """

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"shmtensor.{self.name}"

    def __reduce__(self) -> str:
        return self.name  # copies and pickles are the same object, which `is` asks for


class layout(memory_format):
    """How a tensor's elements are kept: with strides."""


contiguous_format = memory_format("contiguous_format")
preserve_format = memory_format("preserve_format")
channels_last = memory_format("channels_last")
channels_last_3d = memory_format("channels_last_3d")
strided = layout("strided")
sparse_coo = layout("sparse_coo")  # public where sparse tensors are
