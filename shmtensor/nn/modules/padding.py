"""Layers that put a frame around their input: of a number, or of its own elements.

A padding is one number for all sides, or (before, after) of the last dimension, then of the one
before, as `F.pad` takes it. A negative one cuts off.
"""

from __future__ import annotations

from typing import Any, ClassVar

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

    def forward(self, input: Tensor) -> Any:
        """(..., *size) to (..., *size + both sides of padding)."""
        return F.pad(input, self.padding, "constant", self.value)

    def extra_repr(self) -> str:
        return f"padding={self.padding}, value={self.value}"


class ConstantPad1d(_ConstantPadNd):
    """Puts one value before and behind the last dimension.

    Args:
        padding: one number, or (left, right).
        value: what is added.
    """

    _dims = 1


class ConstantPad2d(_ConstantPadNd):
    """Puts one value around the last two dimensions.

    Args:
        padding: one number, or (left, right, top, bottom).
        value: what is added.
    """

    _dims = 2


class ConstantPad3d(_ConstantPadNd):
    """Puts one value around the last three dimensions.

    Args:
        padding: one number, or (left, right, top, bottom, front, back).
        value: what is added.
    """

    _dims = 3


class _ZeroPad(_ConstantPadNd):
    def __init__(self, padding: Sizes) -> None:
        super().__init__(padding, 0.0)

    def extra_repr(self) -> str:
        return f"{self.padding}"


class ZeroPad1d(_ZeroPad, ConstantPad1d):
    """Puts zeros before and behind the last dimension; see ConstantPad1d."""


class ZeroPad2d(_ZeroPad, ConstantPad2d):
    """Puts zeros around the last two dimensions; see ConstantPad2d."""


class ZeroPad3d(_ZeroPad, ConstantPad3d):
    """Puts zeros around the last three dimensions; see ConstantPad3d."""


class _OwnPadNd(Module):
    """A frame of the input's own elements, by a mode of `F.pad`."""

    _dims: ClassVar[int]
    _mode: ClassVar[str]
    padding: tuple[int, ...]

    def __init__(self, padding: Sizes) -> None:
        super().__init__()
        self.padding = _ntuple(2 * self._dims)(padding)

    def forward(self, input: Tensor) -> Any:
        """(N, C, *size) or (C, *size) to (..., *size + both sides of padding)."""
        return F.pad(input, self.padding, self._mode)

    def extra_repr(self) -> str:
        return f"{self.padding}"


class _ReflectionPadNd(_OwnPadNd):
    _mode = "reflect"


class ReflectionPad1d(_ReflectionPadNd):
    """Adds the elements mirrored at the first and the last one, which are not repeated.

    Args:
        padding: one number, or (left, right); each less than the input's length.
    """

    _dims = 1


class ReflectionPad2d(_ReflectionPadNd):
    """The same around the last two dimensions; see ReflectionPad1d.

    Args:
        padding: one number, or (left, right, top, bottom).
    """

    _dims = 2


class ReflectionPad3d(_ReflectionPadNd):
    """The same around the last three dimensions; see ReflectionPad1d.

    Args:
        padding: one number, or (left, right, top, bottom, front, back).
    """

    _dims = 3


class _ReplicationPadNd(_OwnPadNd):
    _mode = "replicate"


class ReplicationPad1d(_ReplicationPadNd):
    """Repeats the first and the last element.

    Args:
        padding: one number, or (left, right).
    """

    _dims = 1


class ReplicationPad2d(_ReplicationPadNd):
    """Repeats the edges of the last two dimensions.

    Args:
        padding: one number, or (left, right, top, bottom).
    """

    _dims = 2


class ReplicationPad3d(_ReplicationPadNd):
    """Repeats the edges of the last three dimensions.

    Args:
        padding: one number, or (left, right, top, bottom, front, back).
    """

    _dims = 3


class _CircularPadNd(_OwnPadNd):
    _mode = "circular"

    def _check_input_dim(self, input: Tensor) -> None:
        if input.ndim not in (self._dims + 1, self._dims + 2):
            raise ValueError(
                f"{type(self).__name__}: expected {self._dims + 1} or {self._dims + 2} "
                f"dimensions: {tuple(input.shape)}"
            )

    def forward(self, input: Tensor) -> Any:
        """(N, C, *size) or (C, *size) to (..., *size + both sides of padding)."""
        self._check_input_dim(input)
        return super().forward(input)


class CircularPad1d(_CircularPadNd):
    """Adds the elements of the other end.

    Args:
        padding: one number, or (left, right); each at most the input's length.
    """

    _dims = 1


class CircularPad2d(_CircularPadNd):
    """The same around the last two dimensions; see CircularPad1d.

    Args:
        padding: one number, or (left, right, top, bottom).
    """

    _dims = 2


class CircularPad3d(_CircularPadNd):
    """The same around the last three dimensions; see CircularPad1d.

    Args:
        padding: one number, or (left, right, top, bottom, front, back).
    """

    _dims = 3
