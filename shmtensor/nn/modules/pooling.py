"""Pooling layers, by the number of dimensions.

The layers of 1, 2 and 3 dimensions differ in the class attribute `_function`. They are read side by
side, so all are in one long file, as in PyTorch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from ...tensor import Tensor
from .. import functional as F
from .module import Module
from .utils import OptionalSizes, Ratios, Sizes, _ntuple, _single

__all__ = [
    "AdaptiveAvgPool1d",
    "AdaptiveAvgPool2d",
    "AdaptiveAvgPool3d",
    "AdaptiveMaxPool1d",
    "AdaptiveMaxPool2d",
    "AdaptiveMaxPool3d",
    "AvgPool1d",
    "AvgPool2d",
    "AvgPool3d",
    "FractionalMaxPool2d",
    "FractionalMaxPool3d",
    "LPPool1d",
    "LPPool2d",
    "LPPool3d",
    "MaxPool1d",
    "MaxPool2d",
    "MaxPool3d",
    "MaxUnpool1d",
    "MaxUnpool2d",
    "MaxUnpool3d",
]

Function = Callable[..., Any]


class _MaxPoolNd(Module):
    _function: ClassVar[Function]

    def __init__(
        self,
        kernel_size: Sizes,
        stride: Sizes | None = None,
        padding: Sizes = 0,
        dilation: Sizes = 1,
        return_indices: bool = False,
        ceil_mode: bool = False,
    ) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = kernel_size if stride is None else stride
        self.padding = padding
        self.dilation = dilation
        self.return_indices = return_indices
        self.ceil_mode = ceil_mode

    def forward(self, input: Tensor) -> Tensor:
        """(N, C, *size) or (C, *size) to the windows' largest elements, with their indices in the
        flattened *size if return_indices.
        """
        return self._function(
            input,
            self.kernel_size,
            self.stride,
            self.padding,
            self.dilation,
            ceil_mode=self.ceil_mode,
            return_indices=self.return_indices,
        )

    def extra_repr(self) -> str:
        return (
            f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}, "
            f"dilation={self.dilation}, ceil_mode={self.ceil_mode}"
        )


class MaxPool1d(_MaxPoolNd):
    """The largest element of each window of (N, C, L) or (C, L).

    Args:
        kernel_size: elements of a window.
        stride: steps from one window to the next; None: kernel_size.
        padding: elements of -inf added on either side, at most half of a window.
        dilation: steps from one element of a window to the next.
        return_indices: whether the places of the elements are returned, too.
        ceil_mode: whether a window may reach beyond the end.
    """

    _function = staticmethod(F.max_pool1d)


class MaxPool2d(_MaxPoolNd):
    """The largest element of each window of (N, C, H, W) or (C, H, W); see MaxPool1d."""

    _function = staticmethod(F.max_pool2d)


class MaxPool3d(_MaxPoolNd):
    """The largest element of each window of (N, C, D, H, W) or (C, D, H, W); see MaxPool1d."""

    _function = staticmethod(F.max_pool3d)


class _MaxUnpoolNd(Module):
    _function: ClassVar[Function]
    _dims: ClassVar[int]

    def __init__(self, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0) -> None:
        super().__init__()
        sizes = _ntuple(self._dims)
        self.kernel_size = sizes(kernel_size)
        self.stride = sizes(kernel_size if stride is None else stride)
        self.padding = sizes(padding)

    def forward(
        self, input: Tensor, indices: Tensor, output_size: Sequence[int] | None = None
    ) -> Tensor:
        """(N, C, *size) or (C, *size) at `indices` of a greater size, zeros elsewhere.

        Args:
            indices: as the MaxPool layer returned them.
            output_size: the result's size, if several are possible.
        """
        return self._function(
            input, indices, self.kernel_size, self.stride, self.padding, output_size
        )

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class MaxUnpool1d(_MaxUnpoolNd):
    """Writes the results of a MaxPool1d back at their indices.

    Args:
        kernel_size: as that layer's.
        stride: as that layer's; None: kernel_size.
        padding: as that layer's.
    """

    _dims = 1
    _function = staticmethod(F.max_unpool1d)


class MaxUnpool2d(_MaxUnpoolNd):
    """Writes the results of a MaxPool2d back at their indices; see MaxUnpool1d."""

    _dims = 2
    _function = staticmethod(F.max_unpool2d)


class MaxUnpool3d(_MaxUnpoolNd):
    """Writes the results of a MaxPool3d back at their indices; see MaxUnpool1d."""

    _dims = 3
    _function = staticmethod(F.max_unpool3d)


class _AvgPoolNd(Module):
    kernel_size: Sizes
    stride: Sizes
    padding: Sizes

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class AvgPool1d(_AvgPoolNd):
    """The mean of each window of (N, C, L) or (C, L).

    Args:
        kernel_size: elements of a window.
        stride: steps from one window to the next; None: kernel_size.
        padding: zeros added on either side, at most half of a window.
        ceil_mode: whether a window may reach beyond the end.
        count_include_pad: whether the zeros count as elements.
    """

    def __init__(
        self,
        kernel_size: Sizes,
        stride: Sizes | None = None,
        padding: Sizes = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
    ) -> None:
        super().__init__()
        self.kernel_size = _single(kernel_size)
        self.stride = _single(kernel_size if stride is None else stride)
        self.padding = _single(padding)
        self.ceil_mode = ceil_mode
        self.count_include_pad = count_include_pad

    def forward(self, input: Tensor) -> Tensor:
        """(N, C, L) or (C, L) to the windows' means."""
        return F.avg_pool1d(
            input,
            self.kernel_size,
            self.stride,
            self.padding,
            self.ceil_mode,
            self.count_include_pad,
        )


class _AvgPoolDivisor(_AvgPoolNd):
    """AvgPool2d and AvgPool3d, by their `_function`."""

    _function: ClassVar[Function]

    def __init__(
        self,
        kernel_size: Sizes,
        stride: Sizes | None = None,
        padding: Sizes = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = kernel_size if stride is None else stride
        self.padding = padding
        self.ceil_mode = ceil_mode
        self.count_include_pad = count_include_pad
        self.divisor_override = divisor_override

    def forward(self, input: Tensor) -> Tensor:
        """(N, C, *size) or (C, *size) to the windows' means."""
        return self._function(
            input,
            self.kernel_size,
            self.stride,
            self.padding,
            self.ceil_mode,
            self.count_include_pad,
            self.divisor_override,
        )


class AvgPool2d(_AvgPoolDivisor):
    """The mean of each window of (N, C, H, W) or (C, H, W); see AvgPool1d.

    Args:
        divisor_override: divisor of the windows' sums; None: their number of elements.
    """

    _function = staticmethod(F.avg_pool2d)


class AvgPool3d(_AvgPoolDivisor):
    """The mean of each window of (N, C, D, H, W) or (C, D, H, W); see AvgPool2d."""

    _function = staticmethod(F.avg_pool3d)

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        for name, value in (("padding", 0), ("ceil_mode", False), ("count_include_pad", True)):
            self.__dict__.setdefault(name, value)


class _FractionalMaxPoolNd(Module):
    _function: ClassVar[Function]
    _dims: ClassVar[int]

    def __init__(
        self,
        kernel_size: Sizes,
        output_size: Sizes | None = None,
        output_ratio: Ratios | None = None,
        return_indices: bool = False,
        _random_samples: Tensor | None = None,
    ) -> None:
        super().__init__()
        sizes = _ntuple(self._dims)
        self.kernel_size = sizes(kernel_size)
        self.return_indices = return_indices
        self.register_buffer("_random_samples", _random_samples)
        self.output_size = None if output_size is None else sizes(output_size)
        self.output_ratio = None if output_ratio is None else sizes(output_ratio)
        name = type(self).__name__
        if min(self.kernel_size) < 1:
            raise ValueError(f"{name}: kernel_size must be positive: {kernel_size}")
        if (output_size is None) is (output_ratio is None):
            raise ValueError(
                f"{name}: one of output_size and output_ratio must be given: "
                f"{output_size}, {output_ratio}"
            )
        if self.output_ratio is not None and not all(0 < r < 1 for r in self.output_ratio):
            raise ValueError(f"{name}: output_ratio must be between 0 and 1: {output_ratio}")

    def forward(self, input: Tensor) -> Tensor:
        """(N, C, *size) or (C, *size) to output_size, and the elements' places if asked."""
        return self._function(
            input,
            self.kernel_size,
            self.output_size,
            self.output_ratio,
            self.return_indices,
            _random_samples=self._random_samples,
        )


class FractionalMaxPool2d(_FractionalMaxPoolNd):
    """The largest element of each of output_size windows at random irregular positions.

    Graham: Fractional Max-Pooling, https://arxiv.org/abs/1412.6071.

    Args:
        kernel_size: elements of a window, of the height and the width.
        output_size: number of windows.
        output_ratio: number of windows as a share of the input's size, instead of output_size.
        return_indices: whether the places of the elements are returned, too.
    """

    _dims = 2
    _function = staticmethod(F.fractional_max_pool2d)


class FractionalMaxPool3d(_FractionalMaxPoolNd):
    """The same of (N, C, D, H, W) or (C, D, H, W); see FractionalMaxPool2d."""

    _dims = 3
    _function = staticmethod(F.fractional_max_pool3d)


class _LPPoolNd(Module):
    _function: ClassVar[Function]

    def __init__(
        self,
        norm_type: float,
        kernel_size: Sizes,
        stride: Sizes | None = None,
        ceil_mode: bool = False,
    ) -> None:
        super().__init__()
        self.norm_type = norm_type
        self.kernel_size = kernel_size
        self.stride = stride
        self.ceil_mode = ceil_mode

    def forward(self, input: Tensor) -> Tensor:
        """(N, C, *size) or (C, *size) to the windows' norms."""
        return self._function(
            input, float(self.norm_type), self.kernel_size, self.stride, self.ceil_mode
        )

    def extra_repr(self) -> str:
        return (
            f"norm_type={self.norm_type}, kernel_size={self.kernel_size}, stride={self.stride}, "
            f"ceil_mode={self.ceil_mode}"
        )


class LPPool1d(_LPPoolNd):
    """`(sum of x ** p) ** (1 / p)` of each window of (N, C, L) or (C, L).

    Args:
        norm_type: p; 1 is a sum.
        kernel_size: elements of a window.
        stride: steps from one window to the next; None: kernel_size.
        ceil_mode: whether a window may reach beyond the end.
    """

    _function = staticmethod(F.lp_pool1d)


class LPPool2d(_LPPoolNd):
    """The same of (N, C, H, W) or (C, H, W); see LPPool1d."""

    _function = staticmethod(F.lp_pool2d)


class LPPool3d(_LPPoolNd):
    """The same of (N, C, D, H, W) or (C, D, H, W); see LPPool1d."""

    _function = staticmethod(F.lp_pool3d)


class _AdaptiveMaxPoolNd(Module):
    _function: ClassVar[Function]

    def __init__(self, output_size: OptionalSizes, return_indices: bool = False) -> None:
        super().__init__()
        self.output_size = output_size
        self.return_indices = return_indices

    def forward(self, input: Tensor) -> Tensor:
        """(N, C, *size) or (C, *size) to output_size, and the elements' places if asked."""
        return self._function(input, self.output_size, self.return_indices)

    def extra_repr(self) -> str:
        return f"output_size={self.output_size}"


class AdaptiveMaxPool1d(_AdaptiveMaxPoolNd):
    """The largest element of each of output_size windows that together cover (N, C, L).

    Args:
        output_size: how many windows.
        return_indices: whether the places of the elements are returned, too.
    """

    _function = staticmethod(F.adaptive_max_pool1d)


class AdaptiveMaxPool2d(_AdaptiveMaxPoolNd):
    """The same of (N, C, H, W) or (C, H, W); None in output_size: the input's size."""

    _function = staticmethod(F.adaptive_max_pool2d)


class AdaptiveMaxPool3d(_AdaptiveMaxPoolNd):
    """The same of (N, C, D, H, W) or (C, D, H, W); None in output_size: the input's size."""

    _function = staticmethod(F.adaptive_max_pool3d)


class _AdaptiveAvgPoolNd(Module):
    _function: ClassVar[Function]

    def __init__(self, output_size: OptionalSizes) -> None:
        super().__init__()
        self.output_size = output_size

    def forward(self, input: Tensor) -> Tensor:
        """(N, C, *size) or (C, *size) to output_size."""
        return self._function(input, self.output_size)

    def extra_repr(self) -> str:
        return f"output_size={self.output_size}"


class AdaptiveAvgPool1d(_AdaptiveAvgPoolNd):
    """The mean of each of output_size windows that together cover (N, C, L) or (C, L).

    Args:
        output_size: how many windows.
    """

    _function = staticmethod(F.adaptive_avg_pool1d)


class AdaptiveAvgPool2d(_AdaptiveAvgPoolNd):
    """The same of (N, C, H, W) or (C, H, W); None in output_size: the input's size."""

    _function = staticmethod(F.adaptive_avg_pool2d)


class AdaptiveAvgPool3d(_AdaptiveAvgPoolNd):
    """The same of (N, C, D, H, W) or (C, D, H, W); None in output_size: the input's size."""

    _function = staticmethod(F.adaptive_avg_pool3d)
