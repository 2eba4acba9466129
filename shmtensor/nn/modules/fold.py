"""Layers between an image and the columns of its windows: Fold, Unfold."""

from __future__ import annotations

from ...tensor import Tensor
from .. import functional as F
from .module import Module
from .utils import Sizes

__all__ = ["Fold", "Unfold"]


class Fold(Module):
    """Adds the columns of windows at the windows' positions in an image.

    Parameters
    ----------
    output_size : int or (int, int)
        The image's height and width.
    kernel_size : int or (int, int)
        Elements of a window.
    dilation : int or (int, int), optional
        Steps from one element of a window to the next.
    padding : int or (int, int), optional
        Elements around the image that windows may reach.
    stride : int or (int, int), optional
        Steps from one window to the next.

    See Also
    --------
    Unfold, functional.fold

    Notes
    -----
    Shape: `(N, C * kh * kw, L)` to `(N, C, *output_size)`, both also without N.

    Examples
    --------
    >>> nn.Fold((4, 5), kernel_size=2)(st.ones(1, 3 * 4, 12)).shape
    Size([1, 3, 4, 5])
    """

    def __init__(
        self,
        output_size: Sizes,
        kernel_size: Sizes,
        dilation: Sizes = 1,
        padding: Sizes = 0,
        stride: Sizes = 1,
    ) -> None:
        super().__init__()
        self.output_size = output_size
        self.kernel_size = kernel_size
        self.dilation = dilation
        self.padding = padding
        self.stride = stride

    def forward(self, input: Tensor) -> Tensor:
        """(N, C * elements of a window, windows) to (N, C, *output_size); N may be missing."""
        return F.fold(
            input, self.output_size, self.kernel_size, self.dilation, self.padding, self.stride
        )

    def extra_repr(self) -> str:
        return (
            f"output_size={self.output_size}, kernel_size={self.kernel_size}, "
            f"dilation={self.dilation}, padding={self.padding}, stride={self.stride}"
        )


class Unfold(Module):
    """The windows of an image as columns.

    Parameters
    ----------
    kernel_size : int or (int, int)
        Elements of a window.
    dilation : int or (int, int), optional
        Steps from one element of a window to the next.
    padding : int or (int, int), optional
        Zeros added around the image.
    stride : int or (int, int), optional
        Steps from one window to the next.

    See Also
    --------
    Fold, functional.unfold

    Notes
    -----
    Shape: `(N, C, H, W)` to `(N, C * kh * kw, L)` for L windows, both also without N.

    Examples
    --------
    >>> nn.Unfold(kernel_size=2)(st.ones(1, 3, 4, 5)).shape
    Size([1, 12, 12])
    """

    def __init__(
        self, kernel_size: Sizes, dilation: Sizes = 1, padding: Sizes = 0, stride: Sizes = 1
    ) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.dilation = dilation
        self.padding = padding
        self.stride = stride

    def forward(self, input: Tensor) -> Tensor:
        """(N, C, H, W) to (N, C * elements of a window, windows); N may be missing."""
        return F.unfold(input, self.kernel_size, self.dilation, self.padding, self.stride)

    def extra_repr(self) -> str:
        return (
            f"kernel_size={self.kernel_size}, dilation={self.dilation}, padding={self.padding}, "
            f"stride={self.stride}"
        )
