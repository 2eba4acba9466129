"""Layers that pad their input: with one number, or with its own elements.

A padding is one number for all sides, or (before, after) of the last dimension, then of the one
before it, as `F.pad` takes it. A negative padding crops.
"""

from __future__ import annotations

from typing import ClassVar

from ...tensor import Tensor
from .. import functional as F
from .module import Module
from .utils import Sizes, _ntuple

__all__ = [
    "CircularPad1d",
    "CircularPad2d",
    "CircularPad3d",
    "ConstantPad1d",
    "ConstantPad2d",
    "ConstantPad3d",
    "ReflectionPad1d",
    "ReflectionPad2d",
    "ReflectionPad3d",
    "ReplicationPad1d",
    "ReplicationPad2d",
    "ReplicationPad3d",
    "ZeroPad1d",
    "ZeroPad2d",
    "ZeroPad3d",
]


class _ConstantPadNd(Module):
    _dims: ClassVar[int]
    padding: tuple[int, ...]

    def __init__(self, padding: Sizes, value: float) -> None:
        super().__init__()
        self.padding = _ntuple(2 * self._dims)(padding)
        self.value = value

    def forward(self, input: Tensor) -> Tensor:
        """(..., *size) to (..., *size + both sides of padding)."""
        return F.pad(input, self.padding, "constant", self.value)

    def extra_repr(self) -> str:
        return f"padding={self.padding}, value={self.value}"


class ConstantPad1d(_ConstantPadNd):
    """Pads the last dimension with one value.

    Args:
        padding: one number, or (left, right).
        value: of the padded elements.
    """

    _dims = 1


class ConstantPad2d(_ConstantPadNd):
    """Pads the last two dimensions with one value.

    Args:
        padding: one number, or (left, right, top, bottom).
        value: of the padded elements.
    """

    _dims = 2


class ConstantPad3d(_ConstantPadNd):
    """Pads the last three dimensions with one value.

    Args:
        padding: one number, or (left, right, top, bottom, front, back).
        value: of the padded elements.
    """

    _dims = 3


class _ZeroPad(_ConstantPadNd):
    def __init__(self, padding: Sizes) -> None:
        super().__init__(padding, 0.0)

    def extra_repr(self) -> str:
        return f"{self.padding}"


class ZeroPad1d(_ZeroPad, ConstantPad1d):
    """Pads the last dimension with zeros; see ConstantPad1d."""


class ZeroPad2d(_ZeroPad, ConstantPad2d):
    """Pads the last two dimensions with zeros; see ConstantPad2d."""


class ZeroPad3d(_ZeroPad, ConstantPad3d):
    """Pads the last three dimensions with zeros; see ConstantPad3d."""


class _NonConstantPadNd(Module):
    """Pads with the input's own elements, by a mode of `F.pad`."""

    _dims: ClassVar[int]
    _mode: ClassVar[str]
    padding: tuple[int, ...]

    def __init__(self, padding: Sizes) -> None:
        super().__init__()
        self.padding = _ntuple(2 * self._dims)(padding)

    def forward(self, input: Tensor) -> Tensor:
        """(N, C, *size) or (C, *size) to (..., *size + both sides of padding)."""
        return F.pad(input, self.padding, self._mode)

    def extra_repr(self) -> str:
        return f"{self.padding}"


class _ReflectionPadNd(_NonConstantPadNd):
    _mode = "reflect"


class ReflectionPad1d(_ReflectionPadNd):
    """Pads the last dimension with its elements mirrored at the first and the last one.

    Args:
        padding: one number, or (left, right); each less than the input's length.
    """

    _dims = 1


class ReflectionPad2d(_ReflectionPadNd):
    """Pads the last two dimensions; see ReflectionPad1d.

    Args:
        padding: one number, or (left, right, top, bottom).
    """

    _dims = 2


class ReflectionPad3d(_ReflectionPadNd):
    """Pads the last three dimensions; see ReflectionPad1d.

    Args:
        padding: one number, or (left, right, top, bottom, front, back).
    """

    _dims = 3


class _ReplicationPadNd(_NonConstantPadNd):
    _mode = "replicate"


class ReplicationPad1d(_ReplicationPadNd):
    """Pads the last dimension with its first and its last element.

    Args:
        padding: one number, or (left, right).
    """

    _dims = 1


class ReplicationPad2d(_ReplicationPadNd):
    """Pads the last two dimensions with their edges.

    Args:
        padding: one number, or (left, right, top, bottom).
    """

    _dims = 2


class ReplicationPad3d(_ReplicationPadNd):
    """Pads the last three dimensions with their edges.

    Args:
        padding: one number, or (left, right, top, bottom, front, back).
    """

    _dims = 3


class _CircularPadNd(_NonConstantPadNd):
    _mode = "circular"

    def _check_input_dim(self, input: Tensor) -> None:
        if input.ndim not in (self._dims + 1, self._dims + 2):
            raise ValueError(
                f"{type(self).__name__}: expected {self._dims + 1} or {self._dims + 2} "
                f"dimensions: {tuple(input.shape)}"
            )

    def forward(self, input: Tensor) -> Tensor:
        """(N, C, *size) or (C, *size) to (..., *size + both sides of padding)."""
        self._check_input_dim(input)
        return super().forward(input)


class CircularPad1d(_CircularPadNd):
    """Pads the last dimension with the elements of its other end.

    Args:
        padding: one number, or (left, right); each at most the input's length.
    """

    _dims = 1


class CircularPad2d(_CircularPadNd):
    """Pads the last two dimensions; see CircularPad1d.

    Args:
        padding: one number, or (left, right, top, bottom).
    """

    _dims = 2


class CircularPad3d(_CircularPadNd):
    """Pads the last three dimensions; see CircularPad1d.

    Args:
        padding: one number, or (left, right, top, bottom, front, back).
    """

    _dims = 3
