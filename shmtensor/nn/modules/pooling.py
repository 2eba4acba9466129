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
    """The largest element of each window.

    Parameters
    ----------
    kernel_size : int
        Elements of a window.
    stride : int, optional
        Steps from one window to the next; kernel_size if None.
    padding : int, optional
        Elements of -inf added on either side, at most half of a window.
    dilation : int, optional
        Steps from one element of a window to the next.
    return_indices : bool, optional
        Whether the call returns the elements' places, too: int64 indices into the flattened `(L)`,
        as MaxUnpool1d takes them.
    ceil_mode : bool, optional
        Whether the last window may reach beyond the end.

    See Also
    --------
    AvgPool1d, AdaptiveMaxPool1d, MaxUnpool1d, functional.max_pool1d

    Notes
    -----
    Shape: `(N, C, L)` to `(N, C, L')`, both also without N, and for each size L' = floor((L + 2 *
    padding - dilation * (kernel_size - 1) - 1) / stride) + 1. The gradient goes to the largest
    element; to the first of equal ones.

    Examples
    --------
    >>> x = st.tensor([[1., 5., 2., 4., 3., 0.]])
    >>> nn.MaxPool1d(2)(x)
    tensor([[5., 4., 3.]])
    >>> nn.MaxPool1d(3, stride=1, return_indices=True)(x)
    (tensor([[5., 5., 4., 4.]]), tensor([[1, 1, 3, 3]]))
    """

    _function = staticmethod(F.max_pool1d)


class MaxPool2d(_MaxPoolNd):
    """The largest element of each window.

    Parameters
    ----------
    kernel_size : int or (int, int)
        Elements of a window, one number or (height, width).
    stride : int or (int, int), optional
        Steps from one window to the next; kernel_size if None.
    padding : int or (int, int), optional
        Elements of -inf added on either side, at most half of a window.
    dilation : int or (int, int), optional
        Steps from one element of a window to the next.
    return_indices : bool, optional
        Whether the call returns the elements' places, too: int64 indices into the flattened `(H,
        W)`, as MaxUnpool2d takes them.
    ceil_mode : bool, optional
        Whether the last window may reach beyond the end.

    See Also
    --------
    AvgPool2d, AdaptiveMaxPool2d, MaxUnpool2d, functional.max_pool2d

    Notes
    -----
    Shape: `(N, C, H, W)` to `(N, C, H', W')`, both also without N, and for each size L' = floor((L
    + 2 * padding - dilation * (kernel_size - 1) - 1) / stride) + 1. The gradient goes to the
    largest element; to the first of equal ones.

    Examples
    --------
    >>> x = st.arange(16.).reshape(1, 1, 4, 4)
    >>> nn.MaxPool2d(2)(x)
    tensor([[[[ 5.,  7.],
              [13., 15.]]]])
    >>> nn.MaxPool2d(kernel_size=3, stride=2, padding=1)(st.ones(1, 8, 32, 32)).shape
    Size([1, 8, 16, 16])
    """

    _function = staticmethod(F.max_pool2d)


class MaxPool3d(_MaxPoolNd):
    """The largest element of each window.

    Parameters
    ----------
    kernel_size : int or (int, int, int)
        Elements of a window, one number or (depth, height, width).
    stride : int or (int, int, int), optional
        Steps from one window to the next; kernel_size if None.
    padding : int or (int, int, int), optional
        Elements of -inf added on either side, at most half of a window.
    dilation : int or (int, int, int), optional
        Steps from one element of a window to the next.
    return_indices : bool, optional
        Whether the call returns the elements' places, too: int64 indices into the flattened `(D, H,
        W)`, as MaxUnpool3d takes them.
    ceil_mode : bool, optional
        Whether the last window may reach beyond the end.

    See Also
    --------
    AvgPool3d, AdaptiveMaxPool3d, MaxUnpool3d, functional.max_pool3d

    Notes
    -----
    Shape: `(N, C, D, H, W)` to `(N, C, D', H', W')`, both also without N, and for each size L' =
    floor((L + 2 * padding - dilation * (kernel_size - 1) - 1) / stride) + 1. The gradient goes to
    the largest element; to the first of equal ones.

    Examples
    --------
    >>> nn.MaxPool3d(2)(st.ones(1, 3, 4, 6, 8)).shape
    Size([1, 3, 2, 3, 4])
    >>> nn.MaxPool3d((1, 2, 2))(st.ones(1, 3, 4, 6, 8)).shape
    Size([1, 3, 4, 3, 4])
    """

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
    """Writes what a MaxPool1d returned back at its indices, among zeros.

    Parameters
    ----------
    kernel_size : int
        That of the MaxPool1d.
    stride : int, optional
        That of the MaxPool1d; kernel_size if None.
    padding : int, optional
        That of the MaxPool1d.

    See Also
    --------
    MaxPool1d

    Notes
    -----
    The call takes the values, the indices, and output_size where several sizes have such a result.

    Examples
    --------
    >>> pool = nn.MaxPool1d(2, return_indices=True)
    >>> values, indices = pool(st.tensor([[1., 5., 2., 4.]]))
    >>> nn.MaxUnpool1d(2)(values, indices)
    tensor([[0., 5., 0., 4.]])
    """

    _dims = 1
    _function = staticmethod(F.max_unpool1d)


class MaxUnpool2d(_MaxUnpoolNd):
    """Writes what a MaxPool2d returned back at its indices, among zeros.

    Parameters
    ----------
    kernel_size : int or (int, int)
        That of the MaxPool2d.
    stride : int or (int, int), optional
        That of the MaxPool2d; kernel_size if None.
    padding : int or (int, int), optional
        That of the MaxPool2d.

    See Also
    --------
    MaxPool2d

    Notes
    -----
    The call takes the values, the indices, and output_size where several sizes have such a result.

    Examples
    --------
    >>> pool = nn.MaxPool2d(2, return_indices=True)
    >>> values, indices = pool(st.arange(1., 5.).reshape(1, 2, 2))
    >>> nn.MaxUnpool2d(2)(values, indices)
    tensor([[[0., 0.],
             [0., 4.]]])
    """

    _dims = 2
    _function = staticmethod(F.max_unpool2d)


class MaxUnpool3d(_MaxUnpoolNd):
    """Writes what a MaxPool3d returned back at its indices, among zeros.

    Parameters
    ----------
    kernel_size : int or (int, int, int)
        That of the MaxPool3d.
    stride : int or (int, int, int), optional
        That of the MaxPool3d; kernel_size if None.
    padding : int or (int, int, int), optional
        That of the MaxPool3d.

    See Also
    --------
    MaxPool3d

    Notes
    -----
    The call takes the values, the indices, and output_size where several sizes have such a result.

    Examples
    --------
    >>> pool = nn.MaxPool3d(2, return_indices=True)
    >>> values, indices = pool(st.ones(1, 3, 4, 4, 5))
    >>> nn.MaxUnpool3d(2)(values, indices, output_size=(4, 4, 5)).shape
    Size([1, 3, 4, 4, 5])
    """

    _dims = 3
    _function = staticmethod(F.max_unpool3d)


class _AvgPoolNd(Module):
    kernel_size: Sizes
    stride: Sizes
    padding: Sizes

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class AvgPool1d(_AvgPoolNd):
    """The mean of each window.

    Parameters
    ----------
    kernel_size : int
        Elements of a window.
    stride : int, optional
        Steps from one window to the next; kernel_size if None.
    padding : int, optional
        Zeros added on either side, at most half of a window.
    ceil_mode : bool, optional
        Whether the last window may reach beyond the end.
    count_include_pad : bool, optional
        Whether the zeros of the padding count as elements.

    See Also
    --------
    MaxPool1d, AdaptiveAvgPool1d, functional.avg_pool1d

    Notes
    -----
    Shape: `(N, C, L)` to `(N, C, L')`, both also without N, and for each size L' = floor((L + 2 *
    padding - kernel_size) / stride) + 1.

    Examples
    --------
    >>> nn.AvgPool1d(2)(st.tensor([[1., 5., 2., 4.]]))
    tensor([[3., 3.]])
    >>> nn.AvgPool1d(2, padding=1, count_include_pad=False)(st.tensor([[1., 5., 2., 4.]]))
    tensor([[1.0000, 3.5000, 4.0000]])
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
    """The mean of each window.

    Parameters
    ----------
    kernel_size : int or (int, int)
        Elements of a window, one number or (height, width).
    stride : int or (int, int), optional
        Steps from one window to the next; kernel_size if None.
    padding : int or (int, int), optional
        Zeros added on either side, at most half of a window.
    ceil_mode : bool, optional
        Whether the last window may reach beyond the end.
    count_include_pad : bool, optional
        Whether the zeros of the padding count as elements.
    divisor_override : int, optional
        What a window's sum is divided by; by default the number of its elements.

    See Also
    --------
    MaxPool2d, AdaptiveAvgPool2d, functional.avg_pool2d

    Notes
    -----
    Shape: `(N, C, H, W)` to `(N, C, H', W')`, both also without N, and for each size L' = floor((L
    + 2 * padding - kernel_size) / stride) + 1.

    Examples
    --------
    >>> nn.AvgPool2d(2)(st.arange(16.).reshape(1, 1, 4, 4))
    tensor([[[[ 2.5000,  4.5000],
              [10.5000, 12.5000]]]])
    >>> nn.AvgPool2d(2, divisor_override=1)(st.ones(1, 2, 2))
    tensor([[[4.]]])
    """

    _function = staticmethod(F.avg_pool2d)


class AvgPool3d(_AvgPoolDivisor):
    """The mean of each window.

    Parameters
    ----------
    kernel_size : int or (int, int, int)
        Elements of a window, one number or (depth, height, width).
    stride : int or (int, int, int), optional
        Steps from one window to the next; kernel_size if None.
    padding : int or (int, int, int), optional
        Zeros added on either side, at most half of a window.
    ceil_mode : bool, optional
        Whether the last window may reach beyond the end.
    count_include_pad : bool, optional
        Whether the zeros of the padding count as elements.
    divisor_override : int, optional
        What a window's sum is divided by; by default the number of its elements.

    See Also
    --------
    MaxPool3d, AdaptiveAvgPool3d, functional.avg_pool3d

    Notes
    -----
    Shape: `(N, C, D, H, W)` to `(N, C, D', H', W')`, both also without N, and for each size L' =
    floor((L + 2 * padding - kernel_size) / stride) + 1.

    Examples
    --------
    >>> nn.AvgPool3d(2)(st.ones(1, 3, 4, 6, 8)).shape
    Size([1, 3, 2, 3, 4])
    """

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
    """The largest element of each of output_size windows at random irregular positions (Graham
    2014).

    Parameters
    ----------
    kernel_size : int or (int, int)
        Elements of a window.
    output_size : int or (int, int), optional
        How many windows there are.
    output_ratio : float or 2 of them, optional
        How many windows there are as a share of the input's size, between 0 and 1, instead of
        output_size.
    return_indices : bool, optional
        Whether the call returns the elements' places, too.

    Raises
    ------
    ValueError
        Both or none of output_size and output_ratio are given, or a number is out of its range.

    Notes
    -----
    Shape: `(N, C, H, W)` to `(N, C, *output_size)`, both also without N.
    https://arxiv.org/abs/1412.6071.

    Examples
    --------
    >>> nn.FractionalMaxPool2d(2, output_size=5)(st.ones(1, 3, 9, 9)).shape
    Size([1, 3, 5, 5])
    >>> nn.FractionalMaxPool2d(2, output_ratio=0.5)(st.ones(1, 3, 8, 10)).shape
    Size([1, 3, 4, 5])
    """

    _dims = 2
    _function = staticmethod(F.fractional_max_pool2d)


class FractionalMaxPool3d(_FractionalMaxPoolNd):
    """The largest element of each of output_size windows at random irregular positions (Graham
    2014).

    Parameters
    ----------
    kernel_size : int or (int, int, int)
        Elements of a window.
    output_size : int or (int, int, int), optional
        How many windows there are.
    output_ratio : float or 3 of them, optional
        How many windows there are as a share of the input's size, between 0 and 1, instead of
        output_size.
    return_indices : bool, optional
        Whether the call returns the elements' places, too.

    Raises
    ------
    ValueError
        Both or none of output_size and output_ratio are given, or a number is out of its range.

    Notes
    -----
    Shape: `(N, C, D, H, W)` to `(N, C, *output_size)`, both also without N.
    https://arxiv.org/abs/1412.6071.

    Examples
    --------
    >>> nn.FractionalMaxPool3d(2, output_size=5)(st.ones(1, 3, 9, 9, 9)).shape
    Size([1, 3, 5, 5, 5])
    """

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
    """`(sum of x ** p) ** (1 / p)` of each window.

    Parameters
    ----------
    norm_type : float
        p; 1 is a sum, and the larger, the nearer to the maximum of positive elements.
    kernel_size : int
        Elements of a window.
    stride : int, optional
        Steps from one window to the next; kernel_size if None.
    ceil_mode : bool, optional
        Whether the last window may reach beyond the end.

    See Also
    --------
    MaxPool1d, AvgPool1d

    Notes
    -----
    Shape: `(N, C, L)` as AvgPool1d, also without N.

    Examples
    --------
    >>> nn.LPPool1d(2, kernel_size=2)(st.tensor([[3., 4., 0., 0.]])).round()
    tensor([[5., 0.]])
    """

    _function = staticmethod(F.lp_pool1d)


class LPPool2d(_LPPoolNd):
    """`(sum of x ** p) ** (1 / p)` of each window.

    Parameters
    ----------
    norm_type : float
        p; 1 is a sum, and the larger, the nearer to the maximum of positive elements.
    kernel_size : int or (int, int)
        Elements of a window, one number or (height, width).
    stride : int or (int, int), optional
        Steps from one window to the next; kernel_size if None.
    ceil_mode : bool, optional
        Whether the last window may reach beyond the end.

    See Also
    --------
    MaxPool2d, AvgPool2d

    Notes
    -----
    Shape: `(N, C, H, W)` as AvgPool2d, also without N.

    Examples
    --------
    >>> nn.LPPool2d(1, kernel_size=2)(st.ones(1, 4, 4))
    tensor([[[4., 4.],
             [4., 4.]]])
    """

    _function = staticmethod(F.lp_pool2d)


class LPPool3d(_LPPoolNd):
    """`(sum of x ** p) ** (1 / p)` of each window.

    Parameters
    ----------
    norm_type : float
        p; 1 is a sum, and the larger, the nearer to the maximum of positive elements.
    kernel_size : int or (int, int, int)
        Elements of a window, one number or (depth, height, width).
    stride : int or (int, int, int), optional
        Steps from one window to the next; kernel_size if None.
    ceil_mode : bool, optional
        Whether the last window may reach beyond the end.

    See Also
    --------
    MaxPool3d, AvgPool3d

    Notes
    -----
    Shape: `(N, C, D, H, W)` as AvgPool3d, also without N.

    Examples
    --------
    >>> nn.LPPool3d(1, kernel_size=2)(st.ones(1, 2, 2, 2))
    tensor([[[[8.]]]])
    """

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
    """The largest element of each of output_size windows that together cover the input.

    Parameters
    ----------
    output_size : int
        How many windows there are in each dimension; None keeps the input's size.
    return_indices : bool, optional
        Whether the call returns the elements' places in the flattened `(L)`, too.

    See Also
    --------
    MaxPool1d, AdaptiveAvgPool1d

    Notes
    -----
    Shape: `(N, C, L)` to `(N, C, *output_size)`, both also without N. Window i of n begins at
    floor(i * L / n) and ends before ceil((i + 1) * L / n).

    Examples
    --------
    >>> nn.AdaptiveMaxPool1d(2, return_indices=True)(st.tensor([[1., 3., 5., 9.]]))
    (tensor([[3., 9.]]), tensor([[1, 3]]))
    """

    _function = staticmethod(F.adaptive_max_pool1d)


class AdaptiveMaxPool2d(_AdaptiveMaxPoolNd):
    """The largest element of each of output_size windows that together cover the input.

    Parameters
    ----------
    output_size : int, None or two of them
        How many windows there are in each dimension; None keeps the input's size.
    return_indices : bool, optional
        Whether the call returns the elements' places in the flattened `(H, W)`, too.

    See Also
    --------
    MaxPool2d, AdaptiveAvgPool2d

    Notes
    -----
    Shape: `(N, C, H, W)` to `(N, C, *output_size)`, both also without N. Window i of n begins at
    floor(i * L / n) and ends before ceil((i + 1) * L / n).

    Examples
    --------
    >>> nn.AdaptiveMaxPool2d((5, None))(st.ones(1, 3, 10, 9)).shape
    Size([1, 3, 5, 9])
    """

    _function = staticmethod(F.adaptive_max_pool2d)


class AdaptiveMaxPool3d(_AdaptiveMaxPoolNd):
    """The largest element of each of output_size windows that together cover the input.

    Parameters
    ----------
    output_size : int, None or three of them
        How many windows there are in each dimension; None keeps the input's size.
    return_indices : bool, optional
        Whether the call returns the elements' places in the flattened `(D, H, W)`, too.

    See Also
    --------
    MaxPool3d, AdaptiveAvgPool3d

    Notes
    -----
    Shape: `(N, C, D, H, W)` to `(N, C, *output_size)`, both also without N. Window i of n begins at
    floor(i * L / n) and ends before ceil((i + 1) * L / n).

    Examples
    --------
    >>> nn.AdaptiveMaxPool3d(2)(st.ones(1, 3, 4, 6, 8)).shape
    Size([1, 3, 2, 2, 2])
    """

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
    """The mean of each of output_size windows that together cover the input.

    Parameters
    ----------
    output_size : int
        How many windows there are in each dimension; None keeps the input's size.

    See Also
    --------
    AvgPool1d, AdaptiveMaxPool1d

    Notes
    -----
    Shape: `(N, C, L)` to `(N, C, *output_size)`, both also without N. Window i of n begins at
    floor(i * L / n) and ends before ceil((i + 1) * L / n).

    Examples
    --------
    >>> nn.AdaptiveAvgPool1d(2)(st.tensor([[1., 3., 5., 9.]]))
    tensor([[2., 7.]])
    """

    _function = staticmethod(F.adaptive_avg_pool1d)


class AdaptiveAvgPool2d(_AdaptiveAvgPoolNd):
    """The mean of each of output_size windows that together cover the input.

    Parameters
    ----------
    output_size : int, None or two of them
        How many windows there are in each dimension; None keeps the input's size.

    See Also
    --------
    AvgPool2d, AdaptiveMaxPool2d

    Notes
    -----
    Shape: `(N, C, H, W)` to `(N, C, *output_size)`, both also without N. Window i of n begins at
    floor(i * L / n) and ends before ceil((i + 1) * L / n).

    Examples
    --------
    >>> nn.AdaptiveAvgPool2d(1)(st.ones(8, 64, 7, 7)).shape
    Size([8, 64, 1, 1])
    >>> nn.AdaptiveAvgPool2d((None, 2))(st.ones(1, 3, 4)).shape
    Size([1, 3, 2])
    """

    _function = staticmethod(F.adaptive_avg_pool2d)


class AdaptiveAvgPool3d(_AdaptiveAvgPoolNd):
    """The mean of each of output_size windows that together cover the input.

    Parameters
    ----------
    output_size : int, None or three of them
        How many windows there are in each dimension; None keeps the input's size.

    See Also
    --------
    AvgPool3d, AdaptiveMaxPool3d

    Notes
    -----
    Shape: `(N, C, D, H, W)` to `(N, C, *output_size)`, both also without N. Window i of n begins at
    floor(i * L / n) and ends before ceil((i + 1) * L / n).

    Examples
    --------
    >>> nn.AdaptiveAvgPool3d((1, 2, 2))(st.ones(1, 3, 4, 6, 8)).shape
    Size([1, 3, 1, 2, 2])
    """

    _function = staticmethod(F.adaptive_avg_pool3d)
