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
    """Adds elements of one value at the ends of the last dimension.

    Parameters
    ----------
    padding : int or (int, int)
        How many: one number, or (left, right). Negative numbers cut off.
    value : float
        Of the new elements.

    See Also
    --------
    ZeroPad1d, functional.pad

    Examples
    --------
    >>> nn.ConstantPad1d((1, 2), 9.0)(st.tensor([[1., 2.]]))
    tensor([[9., 1., 2., 9., 9.]])
    """

    _dims = 1


class ConstantPad2d(_ConstantPadNd):
    """Adds elements of one value at the ends of the last two dimensions.

    Parameters
    ----------
    padding : int or four of them
        How many: one number, or (left, right, top, bottom). Negative numbers cut off.
    value : float
        Of the new elements.

    See Also
    --------
    ZeroPad2d, functional.pad

    Examples
    --------
    >>> nn.ConstantPad2d(1, 9.0)(st.ones(1, 1, 2, 2)).shape
    Size([1, 1, 4, 4])
    """

    _dims = 2


class ConstantPad3d(_ConstantPadNd):
    """Adds elements of one value at the ends of the last three dimensions.

    Parameters
    ----------
    padding : int or six of them
        How many: one number, or (left, right, top, bottom, front, back). Negative numbers cut off.
    value : float
        Of the new elements.

    See Also
    --------
    ZeroPad3d, functional.pad

    Examples
    --------
    >>> nn.ConstantPad3d((1, 0, 0, 0, 0, 2), 9.0)(st.ones(1, 1, 2, 2, 2)).shape
    Size([1, 1, 4, 2, 3])
    """

    _dims = 3


class _ZeroPad(_ConstantPadNd):
    def __init__(self, padding: Sizes) -> None:
        super().__init__(padding, 0.0)

    def extra_repr(self) -> str:
        return f"{self.padding}"


class ZeroPad1d(_ZeroPad, ConstantPad1d):
    """Adds zeros at the ends of the last dimension.

    Parameters
    ----------
    padding : int or (int, int)
        How many: one number, or (left, right). Negative numbers cut off.

    See Also
    --------
    ConstantPad1d, functional.pad

    Examples
    --------
    >>> nn.ZeroPad1d((1, 2))(st.tensor([[1., 2.]]))
    tensor([[0., 1., 2., 0., 0.]])
    """


class ZeroPad2d(_ZeroPad, ConstantPad2d):
    """Adds zeros at the ends of the last two dimensions.

    Parameters
    ----------
    padding : int or four of them
        How many: one number, or (left, right, top, bottom). Negative numbers cut off.

    See Also
    --------
    ConstantPad2d, functional.pad

    Examples
    --------
    >>> nn.ZeroPad2d((0, 1, 0, 0))(st.tensor([[1., 2.], [3., 4.]]))
    tensor([[1., 2., 0.],
            [3., 4., 0.]])
    """


class ZeroPad3d(_ZeroPad, ConstantPad3d):
    """Adds zeros at the ends of the last three dimensions.

    Parameters
    ----------
    padding : int or six of them
        How many: one number, or (left, right, top, bottom, front, back). Negative numbers cut off.

    See Also
    --------
    ConstantPad3d, functional.pad

    Examples
    --------
    >>> nn.ZeroPad3d(1)(st.ones(1, 1, 2, 2, 2)).shape
    Size([1, 1, 4, 4, 4])
    """


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
    """Continues the last dimension at either end with the elements mirrored at the edge, which is
    not repeated.

    Parameters
    ----------
    padding : int or (int, int)
        How many: one number, or (left, right); each less than the size of its dimension.

    See Also
    --------
    functional.pad

    Examples
    --------
    >>> nn.ReflectionPad1d((2, 1))(st.tensor([[1., 2., 3.]]))
    tensor([[3., 2., 1., 2., 3., 2.]])
    """

    _dims = 1


class ReflectionPad2d(_ReflectionPadNd):
    """Continues the last two dimensions at either end with the elements mirrored at the edge,
    which is not repeated.

    Parameters
    ----------
    padding : int or four of them
        How many: one number, or (left, right, top, bottom); each less than the size of its
        dimension.

    See Also
    --------
    functional.pad

    Examples
    --------
    >>> nn.ReflectionPad2d((1, 0, 0, 1))(st.tensor([[[1., 2.], [3., 4.]]]))
    tensor([[[2., 1., 2.],
             [4., 3., 4.],
             [2., 1., 2.]]])
    """

    _dims = 2


class ReflectionPad3d(_ReflectionPadNd):
    """Continues the last three dimensions at either end with the elements mirrored at the edge,
    which is not repeated.

    Parameters
    ----------
    padding : int or six of them
        How many: one number, or (left, right, top, bottom, front, back); each less than the size of
        its dimension.

    See Also
    --------
    functional.pad

    Examples
    --------
    >>> nn.ReflectionPad3d(1)(st.ones(1, 1, 2, 2, 2)).shape
    Size([1, 1, 4, 4, 4])
    """

    _dims = 3


class _ReplicationPadNd(_NonConstantPadNd):
    _mode = "replicate"


class ReplicationPad1d(_ReplicationPadNd):
    """Continues the last dimension at either end by repeating the edge.

    Parameters
    ----------
    padding : int or (int, int)
        How many: one number, or (left, right).

    See Also
    --------
    functional.pad

    Examples
    --------
    >>> nn.ReplicationPad1d((2, 1))(st.tensor([[1., 2., 3.]]))
    tensor([[1., 1., 1., 2., 3., 3.]])
    """

    _dims = 1


class ReplicationPad2d(_ReplicationPadNd):
    """Continues the last two dimensions at either end by repeating the edge.

    Parameters
    ----------
    padding : int or four of them
        How many: one number, or (left, right, top, bottom).

    See Also
    --------
    functional.pad

    Examples
    --------
    >>> nn.ReplicationPad2d((1, 0, 0, 1))(st.tensor([[[1., 2.], [3., 4.]]]))
    tensor([[[1., 1., 2.],
             [3., 3., 4.],
             [3., 3., 4.]]])
    """

    _dims = 2


class ReplicationPad3d(_ReplicationPadNd):
    """Continues the last three dimensions at either end by repeating the edge.

    Parameters
    ----------
    padding : int or six of them
        How many: one number, or (left, right, top, bottom, front, back).

    See Also
    --------
    functional.pad

    Examples
    --------
    >>> nn.ReplicationPad3d(1)(st.ones(1, 1, 2, 2, 2)).shape
    Size([1, 1, 4, 4, 4])
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
    """Continues the last dimension at either end with the elements of the other end.

    Parameters
    ----------
    padding : int or (int, int)
        How many: one number, or (left, right); each at most the size of its dimension.

    See Also
    --------
    functional.pad

    Examples
    --------
    >>> nn.CircularPad1d((2, 1))(st.tensor([[1., 2., 3.]]))
    tensor([[2., 3., 1., 2., 3., 1.]])
    """

    _dims = 1


class CircularPad2d(_CircularPadNd):
    """Continues the last two dimensions at either end with the elements of the other end.

    Parameters
    ----------
    padding : int or four of them
        How many: one number, or (left, right, top, bottom); each at most the size of its dimension.

    See Also
    --------
    functional.pad

    Examples
    --------
    >>> nn.CircularPad2d((1, 0, 0, 1))(st.tensor([[[1., 2.], [3., 4.]]]))
    tensor([[[2., 1., 2.],
             [4., 3., 4.],
             [2., 1., 2.]]])
    """

    _dims = 2


class CircularPad3d(_CircularPadNd):
    """Continues the last three dimensions at either end with the elements of the other end.

    Parameters
    ----------
    padding : int or six of them
        How many: one number, or (left, right, top, bottom, front, back); each at most the size of
        its dimension.

    See Also
    --------
    functional.pad

    Examples
    --------
    >>> nn.CircularPad3d(1)(st.ones(1, 1, 2, 2, 2)).shape
    Size([1, 1, 4, 4, 4])
    """

    _dims = 3
