"""Convolution layers: Conv1d to Conv3d, ConvTranspose1d to ConvTranspose3d, and lazy ones.

The layers of 1, 2 and 3 dimensions differ in the class attributes `_dims` and `_function`. They are
read side by side, so all are in one long file, as in PyTorch.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from ...functions import empty
from ...tensor import Tensor
from .. import functional as F
from .. import init
from ..parameter import Parameter, UninitializedParameter
from .lazy import LazyModuleMixin
from .module import Module
from .utils import Sizes, _ntuple, _reverse_repeat_tuple, _single, check_sizes

__all__ = [
    "Conv1d",
    "Conv2d",
    "Conv3d",
    "ConvTranspose1d",
    "ConvTranspose2d",
    "ConvTranspose3d",
    "LazyConv1d",
    "LazyConv2d",
    "LazyConv3d",
    "LazyConvTranspose1d",
    "LazyConvTranspose2d",
    "LazyConvTranspose3d",
]

PADDING_MODES = ("zeros", "reflect", "replicate", "circular")


class _ConvNd(Module):
    """Base of all convolution layers; sizes are tuples with one number per dimension."""

    _dims: ClassVar[int]
    _function: ClassVar[Callable[..., Any]]

    in_channels: int
    out_channels: int
    kernel_size: tuple[int, ...]
    stride: tuple[int, ...]
    padding: str | tuple[int, ...]
    dilation: tuple[int, ...]
    transposed: bool
    output_padding: tuple[int, ...]
    groups: int
    padding_mode: str
    weight: Parameter
    bias: Parameter | None

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: tuple[int, ...],
        stride: tuple[int, ...],
        padding: str | tuple[int, ...],
        dilation: tuple[int, ...],
        transposed: bool,
        output_padding: tuple[int, ...],
        groups: int,
        bias: bool,
        padding_mode: str,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        check_sizes(
            self, in_channels=in_channels, out_channels=out_channels, kernel_size=kernel_size,
            stride=stride, padding=0 if isinstance(padding, str) else padding, dilation=dilation,
            output_padding=output_padding, groups=groups,
        )  # fmt: skip
        self.groups = groups
        if groups <= 0:
            raise self._wrong("groups must be a positive integer", groups)
        self._check_groups(in_channels=in_channels, out_channels=out_channels)
        if isinstance(padding, str):
            if padding not in ("same", "valid"):
                raise self._wrong("padding must be numbers, 'same' or 'valid'", repr(padding))
            if padding == "same" and any(s != 1 for s in stride):
                raise self._wrong("padding='same' needs stride 1", f"stride={stride}")
        if padding_mode not in PADDING_MODES:
            raise self._wrong(f"padding_mode must be one of {PADDING_MODES}", repr(padding_mode))
        self.in_channels = in_channels
        self.out_channels = out_channels
        self.kernel_size = kernel_size
        self.stride = stride
        self.padding = padding
        self.dilation = dilation
        self.transposed = transposed
        self.output_padding = output_padding
        self.padding_mode = padding_mode
        # The padding as F.pad takes it: (before, after) of the last dimension first.
        self._reversed_padding_repeated_twice = (
            _padding_of(padding, kernel_size, dilation)
            if isinstance(padding, str)
            else _reverse_repeat_tuple(padding, 2)
        )
        self.weight = Parameter(empty(self._weight_shape(), device=device, dtype=dtype))
        if bias:
            self.bias = Parameter(empty(out_channels, device=device, dtype=dtype))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def _wrong(self, what: str, values: Any) -> ValueError:
        return ValueError(f"{type(self).__name__}: {what}: {values}")

    def _check_groups(self, **channels: int) -> None:
        for name, n in channels.items():
            if n % self.groups:
                raise self._wrong(f"{name} must be divisible by groups", f"{n}, {self.groups}")

    def _weight_shape(self) -> tuple[int, ...]:
        rows, columns = self.out_channels, self.in_channels
        if self.transposed:
            rows, columns = columns, rows
        return (rows, columns // self.groups, *self.kernel_size)

    def reset_parameters(self) -> None:
        """Draws both uniformly from +-1 / sqrt(in_channels / groups * elements of a kernel).

        For a transposed convolution, out_channels replaces in_channels.
        """
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            fan_in = math.prod(self.weight.shape[1:])
            bound = 1 / math.sqrt(fan_in) if fan_in > 0 else 0
            init.uniform_(self.bias, -bound, bound)

    def extra_repr(self) -> str:
        text = f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}"
        text += f", stride={self.stride}"
        for name, usual in (("padding", 0), ("dilation", 1), ("output_padding", 0)):
            value = getattr(self, name)
            if value != (usual,) * len(value):
                text += f", {name}={value}"
        if self.groups != 1:
            text += f", groups={self.groups}"
        if self.bias is None:
            text += ", bias=False"
        if self.padding_mode != "zeros":
            text += f", padding_mode={self.padding_mode}"
        return text

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self.__dict__.setdefault("padding_mode", "zeros")


def _padding_of(word: str, kernel_size: Sequence[int], dilation: Sequence[int]) -> list[int]:
    """The padding of "same" or "valid", as F.pad takes it."""
    padding: list[int] = []
    for k, d in zip(reversed(kernel_size), reversed(dilation), strict=True):
        total = d * (k - 1) if word == "same" else 0
        padding += [total // 2, total - total // 2]
    return padding


class _Conv(_ConvNd):
    """Conv1d to Conv3d, by their `_dims` and `_function`."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Sizes,
        stride: Sizes = 1,
        padding: str | Sizes = 0,
        dilation: Sizes = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        sizes = _ntuple(self._dims)
        super().__init__(
            in_channels,
            out_channels,
            sizes(kernel_size),
            sizes(stride),
            padding if isinstance(padding, str) else sizes(padding),
            sizes(dilation),
            False,
            sizes(0),
            groups,
            bias,
            padding_mode,
            device,
            dtype,
        )

    def _conv_forward(self, input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        padding: Any = self.padding
        if self.padding_mode != "zeros":
            input = F.pad(input, self._reversed_padding_repeated_twice, mode=self.padding_mode)
            padding = 0
        return self._function(input, weight, bias, self.stride, padding, self.dilation, self.groups)

    def forward(self, input: Tensor) -> Tensor:
        """(N, in_channels, *size) or (in_channels, *size) to out_channels of them."""
        return self._conv_forward(input, *self._weight_and_bias())


class Conv1d(_Conv):
    """Convolution of sequences with learned filters.

    Parameters
    ----------
    in_channels : int
        Channels of the input.
    out_channels : int
        Channels of the result: the number of filters.
    kernel_size : int
        Elements of a filter.
    stride : int, optional
        Steps from one window to the next.
    padding : int or str, optional
        Elements added on either side; "valid" adds none, "same" so many that the result has the
        input's size (for stride 1).
    dilation : int, optional
        Steps from one element of a window to the next.
    groups : int, optional
        In how many groups the channels are divided, each with its own filters: in_channels groups
        are a depthwise convolution.
    bias : bool, optional
        Whether a number is added for each output channel.
    padding_mode : str, optional
        What is added: "zeros", "reflect" (without the edge), "replicate" (the edge) or "circular"
        (from the other end).
    device : device, optional
        Where the parameters lie; the default device if None.
    dtype : dtype, optional
        Of the parameters; the default dtype if None.

    Attributes
    ----------
    weight : Parameter
        `(out_channels, in_channels / groups, k)`, drawn uniformly from -1 / sqrt(n) to 1 / sqrt(n),
        where n is the number of elements of a filter.
    bias : Parameter or None
        `(out_channels,)`, drawn from the same range.

    Raises
    ------
    ValueError
        The channels are not multiples of groups, or padding="same" with a stride.
    RuntimeError
        In the call: the input has other channels.

    See Also
    --------
    LazyConv1d, ConvTranspose1d, functional.conv1d

    Notes
    -----
    Shape: `(N, in_channels, L)` to `(N, out_channels, L')`, both also without N, and for each size
    L' = floor((L + 2 * padding - dilation * (kernel_size - 1) - 1) / stride) + 1. As elsewhere in
    deep learning, filters are not flipped.

    Examples
    --------
    >>> layer = nn.Conv1d(3, 8, kernel_size=3, padding="same")
    >>> layer(st.ones(4, 3, 10)).shape
    Size([4, 8, 10])
    >>> nn.Conv1d(3, 8, 3, stride=2)(st.ones(4, 3, 10)).shape
    Size([4, 8, 4])
    """

    _dims = 1
    _function = staticmethod(F.conv1d)


class Conv2d(_Conv):
    """Convolution of images with learned filters.

    Parameters
    ----------
    in_channels : int
        Channels of the input.
    out_channels : int
        Channels of the result: the number of filters.
    kernel_size : int or (int, int)
        Elements of a filter, one number or (height, width).
    stride : int or (int, int), optional
        Steps from one window to the next.
    padding : int or (int, int) or str, optional
        Elements added on either side, one number or (height, width); "valid" adds none, "same" so
        many that the result has the input's size (for stride 1).
    dilation : int or (int, int), optional
        Steps from one element of a window to the next.
    groups : int, optional
        In how many groups the channels are divided, each with its own filters: in_channels groups
        are a depthwise convolution.
    bias : bool, optional
        Whether a number is added for each output channel.
    padding_mode : str, optional
        What is added: "zeros", "reflect" (without the edge), "replicate" (the edge) or "circular"
        (from the other end).
    device : device, optional
        Where the parameters lie; the default device if None.
    dtype : dtype, optional
        Of the parameters; the default dtype if None.

    Attributes
    ----------
    weight : Parameter
        `(out_channels, in_channels / groups, kh, kw)`, drawn uniformly from -1 / sqrt(n) to 1 /
        sqrt(n), where n is the number of elements of a filter.
    bias : Parameter or None
        `(out_channels,)`, drawn from the same range.

    Raises
    ------
    ValueError
        The channels are not multiples of groups, or padding="same" with a stride.
    RuntimeError
        In the call: the input has other channels.

    See Also
    --------
    LazyConv2d, ConvTranspose2d, functional.conv2d

    Notes
    -----
    Shape: `(N, in_channels, H, W)` to `(N, out_channels, H', W')`, both also without N, and for
    each size L' = floor((L + 2 * padding - dilation * (kernel_size - 1) - 1) / stride) + 1. As
    elsewhere in deep learning, filters are not flipped.

    Examples
    --------
    >>> layer = nn.Conv2d(3, 8, kernel_size=3, padding=1)
    >>> layer(st.ones(4, 3, 32, 32)).shape
    Size([4, 8, 32, 32])
    >>> layer.weight.shape, layer.bias.shape
    (Size([8, 3, 3, 3]), Size([8]))
    >>> nn.Conv2d(8, 8, (3, 5), stride=2, groups=8)(st.ones(4, 8, 32, 32)).shape
    Size([4, 8, 15, 14])
    """

    _dims = 2
    _function = staticmethod(F.conv2d)


class Conv3d(_Conv):
    """Convolution of volumes with learned filters.

    Parameters
    ----------
    in_channels : int
        Channels of the input.
    out_channels : int
        Channels of the result: the number of filters.
    kernel_size : int or (int, int, int)
        Elements of a filter, one number or (depth, height, width).
    stride : int or (int, int, int), optional
        Steps from one window to the next.
    padding : int or (int, int, int) or str, optional
        Elements added on either side, one number or (depth, height, width); "valid" adds none,
        "same" so many that the result has the input's size (for stride 1).
    dilation : int or (int, int, int), optional
        Steps from one element of a window to the next.
    groups : int, optional
        In how many groups the channels are divided, each with its own filters: in_channels groups
        are a depthwise convolution.
    bias : bool, optional
        Whether a number is added for each output channel.
    padding_mode : str, optional
        What is added: "zeros", "reflect" (without the edge), "replicate" (the edge) or "circular"
        (from the other end).
    device : device, optional
        Where the parameters lie; the default device if None.
    dtype : dtype, optional
        Of the parameters; the default dtype if None.

    Attributes
    ----------
    weight : Parameter
        `(out_channels, in_channels / groups, kd, kh, kw)`, drawn uniformly from -1 / sqrt(n) to 1 /
        sqrt(n), where n is the number of elements of a filter.
    bias : Parameter or None
        `(out_channels,)`, drawn from the same range.

    Raises
    ------
    ValueError
        The channels are not multiples of groups, or padding="same" with a stride.
    RuntimeError
        In the call: the input has other channels.

    See Also
    --------
    LazyConv3d, ConvTranspose3d, functional.conv3d

    Notes
    -----
    Shape: `(N, in_channels, D, H, W)` to `(N, out_channels, D', H', W')`, both also without N, and
    for each size L' = floor((L + 2 * padding - dilation * (kernel_size - 1) - 1) / stride) + 1. As
    elsewhere in deep learning, filters are not flipped.

    Examples
    --------
    >>> layer = nn.Conv3d(2, 4, kernel_size=3, padding=1)
    >>> layer(st.ones(1, 2, 5, 6, 7)).shape
    Size([1, 4, 5, 6, 7])
    >>> nn.Conv3d(2, 4, (1, 3, 3))(st.ones(1, 2, 5, 6, 7)).shape
    Size([1, 4, 5, 4, 5])
    """

    _dims = 3
    _function = staticmethod(F.conv3d)


class _ConvTransposeNd(_ConvNd):
    """ConvTranspose1d to ConvTranspose3d, by their `_dims` and `_function`."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Sizes,
        stride: Sizes = 1,
        padding: Sizes = 0,
        output_padding: Sizes = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: Sizes = 1,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        if padding_mode != "zeros":
            raise self._wrong("only padding_mode 'zeros' is supported", repr(padding_mode))
        sizes = _ntuple(self._dims)
        super().__init__(
            in_channels,
            out_channels,
            sizes(kernel_size),
            sizes(stride),
            sizes(padding),
            sizes(dilation),
            True,
            sizes(output_padding),
            groups,
            bias,
            padding_mode,
            device,
            dtype,
        )

    def _output_padding(
        self,
        input: Tensor,
        output_size: Sequence[int] | None,
        stride: Sequence[int],
        padding: Sequence[int],
        kernel_size: Sequence[int],
        num_spatial_dims: int,
        dilation: Sequence[int] | None = None,
    ) -> Sequence[int]:
        """The difference between `output_size` and the smallest possible size."""
        if output_size is None:
            return _single(self.output_padding)
        lead = 2 if input.ndim == num_spatial_dims + 2 else 1
        size = tuple(output_size)
        if len(size) == lead + num_spatial_dims:
            size = size[lead:]
        if len(size) != num_spatial_dims:
            raise self._wrong(
                f"output_size must have {num_spatial_dims} or {lead + num_spatial_dims} numbers",
                f"{tuple(output_size)}, input has {tuple(input.shape)}",
            )
        shortest = tuple(
            (n - 1) * s - 2 * p + d * (k - 1) + 1
            for n, s, p, k, d in zip(
                input.shape[lead:],
                stride,
                padding,
                kernel_size,
                dilation or (1,) * num_spatial_dims,
                strict=True,
            )
        )
        more = tuple(w - n for w, n in zip(size, shortest, strict=True))
        if any(not 0 <= m < s for m, s in zip(more, stride, strict=True)):
            longest = tuple(n + s - 1 for n, s in zip(shortest, stride, strict=True))
            raise self._wrong(
                f"output_size must be from {shortest} to {longest}",
                f"{size}, input has {tuple(input.shape)}",
            )
        return more

    def forward(self, input: Tensor, output_size: Sequence[int] | None = None) -> Tensor:
        """`(N, in_channels, *size)` or `(in_channels, *size)` to out_channels, of a greater size.

        Parameters
        ----------
        input : Tensor
            The images.
        output_size : sequence of int, optional
            The result's size, where several are possible; see output_padding.

        Returns
        -------
        Tensor
            `(N, out_channels, *output_size)`, or without N.
        """
        weight, bias = self._weight_and_bias()
        more: Any = self.output_padding
        if output_size is not None:
            more = self._output_padding(
                input,
                output_size,
                self.stride,
                self.padding,  # type: ignore[arg-type]
                self.kernel_size,
                self._dims,
                self.dilation,
            )
        return self._function(
            input, weight, bias, self.stride, self.padding, more, self.groups, self.dilation
        )


class ConvTranspose1d(_ConvTransposeNd):
    """The gradient of a Conv1d by its input, as a layer: it enlarges where that one shrinks.

    Parameters
    ----------
    in_channels : int
        Channels of the input.
    out_channels : int
        Channels of the result.
    kernel_size : int
        Elements of a filter.
    stride : int, optional
        Steps in the result for one in the input.
    padding : int, optional
        Elements cut off on either side of the result.
    output_padding : int, optional
        Further elements at the result's end, to choose among the sizes that a Conv1d takes to the
        input's size.
    groups : int, optional
        In how many groups the channels are divided, each with its own filters.
    bias : bool, optional
        Whether a number is added for each output channel.
    dilation : int, optional
        Steps from one element of a window to the next.
    padding_mode : str, optional
        Only "zeros".
    device : device, optional
        Where the parameters lie; the default device if None.
    dtype : dtype, optional
        Of the parameters; the default dtype if None.

    Attributes
    ----------
    weight : Parameter
        `(in_channels, out_channels / groups, k)`.
    bias : Parameter or None
        `(out_channels,)`.

    See Also
    --------
    Conv1d, LazyConvTranspose1d

    Notes
    -----
    Shape: `(N, in_channels, L)` to `(N, out_channels, L')`, both also without N, and for each size
    L' = (L - 1) * stride - 2 * padding + dilation * (kernel_size - 1) + output_padding + 1. The
    call takes output_size, from which output_padding follows.

    Examples
    --------
    >>> layer = nn.ConvTranspose1d(2, 3, kernel_size=2, stride=2)
    >>> layer(st.ones(1, 2, 4)).shape
    Size([1, 3, 8])
    >>> nn.ConvTranspose1d(2, 3, 3, stride=2)(st.ones(1, 2, 4), output_size=[10]).shape
    Size([1, 3, 10])
    """

    _dims = 1
    _function = staticmethod(F.conv_transpose1d)


class ConvTranspose2d(_ConvTransposeNd):
    """The gradient of a Conv2d by its input, as a layer: it enlarges where that one shrinks.

    Parameters
    ----------
    in_channels : int
        Channels of the input.
    out_channels : int
        Channels of the result.
    kernel_size : int or (int, int)
        Elements of a filter, one number or (height, width).
    stride : int or (int, int), optional
        Steps in the result for one in the input.
    padding : int or (int, int), optional
        Elements cut off on either side of the result.
    output_padding : int or (int, int), optional
        Further elements at the result's end, to choose among the sizes that a Conv2d takes to the
        input's size.
    groups : int, optional
        In how many groups the channels are divided, each with its own filters.
    bias : bool, optional
        Whether a number is added for each output channel.
    dilation : int or (int, int), optional
        Steps from one element of a window to the next.
    padding_mode : str, optional
        Only "zeros".
    device : device, optional
        Where the parameters lie; the default device if None.
    dtype : dtype, optional
        Of the parameters; the default dtype if None.

    Attributes
    ----------
    weight : Parameter
        `(in_channels, out_channels / groups, kh, kw)`.
    bias : Parameter or None
        `(out_channels,)`.

    See Also
    --------
    Conv2d, LazyConvTranspose2d

    Notes
    -----
    Shape: `(N, in_channels, H, W)` to `(N, out_channels, H', W')`, both also without N, and for
    each size L' = (L - 1) * stride - 2 * padding + dilation * (kernel_size - 1) + output_padding +
    1. The call takes output_size, from which output_padding follows.

    Examples
    --------
    >>> layer = nn.ConvTranspose2d(2, 3, kernel_size=2, stride=2)
    >>> layer(st.ones(1, 2, 4, 4)).shape
    Size([1, 3, 8, 8])
    >>> down, up = nn.Conv2d(1, 4, 3, stride=2), nn.ConvTranspose2d(4, 1, 3, stride=2)
    >>> up(down(st.ones(1, 1, 8, 8)), output_size=(8, 8)).shape
    Size([1, 1, 8, 8])
    """

    _dims = 2
    _function = staticmethod(F.conv_transpose2d)


class ConvTranspose3d(_ConvTransposeNd):
    """The gradient of a Conv3d by its input, as a layer: it enlarges where that one shrinks.

    Parameters
    ----------
    in_channels : int
        Channels of the input.
    out_channels : int
        Channels of the result.
    kernel_size : int or (int, int, int)
        Elements of a filter, one number or (depth, height, width).
    stride : int or (int, int, int), optional
        Steps in the result for one in the input.
    padding : int or (int, int, int), optional
        Elements cut off on either side of the result.
    output_padding : int or (int, int, int), optional
        Further elements at the result's end, to choose among the sizes that a Conv3d takes to the
        input's size.
    groups : int, optional
        In how many groups the channels are divided, each with its own filters.
    bias : bool, optional
        Whether a number is added for each output channel.
    dilation : int or (int, int, int), optional
        Steps from one element of a window to the next.
    padding_mode : str, optional
        Only "zeros".
    device : device, optional
        Where the parameters lie; the default device if None.
    dtype : dtype, optional
        Of the parameters; the default dtype if None.

    Attributes
    ----------
    weight : Parameter
        `(in_channels, out_channels / groups, kd, kh, kw)`.
    bias : Parameter or None
        `(out_channels,)`.

    See Also
    --------
    Conv3d, LazyConvTranspose3d

    Notes
    -----
    Shape: `(N, in_channels, D, H, W)` to `(N, out_channels, D', H', W')`, both also without N, and
    for each size L' = (L - 1) * stride - 2 * padding + dilation * (kernel_size - 1) +
    output_padding + 1. The call takes output_size, from which output_padding follows.

    Examples
    --------
    >>> layer = nn.ConvTranspose3d(2, 3, kernel_size=2, stride=2)
    >>> layer(st.ones(1, 2, 4, 4, 4)).shape
    Size([1, 3, 8, 8, 8])
    """

    _dims = 3
    _function = staticmethod(F.conv_transpose3d)


class _LazyConvXdMixin(LazyModuleMixin, _ConvNd):
    """Learns in_channels from the first input; precedes the layer's class among the bases."""

    def __init__(
        self, out_channels: int, *sizes_and_groups: Any, bias: bool, **kwargs: Any
    ) -> None:
        super().__init__(0, out_channels, *sizes_and_groups, bias=False, **kwargs)
        factory: dict[str, Any] = {name: kwargs.get(name) for name in ("device", "dtype")}
        self.weight = UninitializedParameter(**factory)
        if bias:
            self.bias = UninitializedParameter(**factory)

    def reset_parameters(self) -> None:
        """Draws both as the layer's own, if in_channels is known."""
        if not self.has_uninitialized_params() and self.in_channels != 0:
            super().reset_parameters()

    def initialize_parameters(self, input: Tensor, *args: Any, **kwargs: Any) -> None:
        """Makes the parameters for an input of shape (N, in_channels, *size)."""
        if self.has_uninitialized_params():
            self.in_channels = self._get_in_channels(input)
            self._check_groups(in_channels=self.in_channels)
            self._materialize(weight=self._weight_shape(), bias=(self.out_channels,))
            self.reset_parameters()
        elif self.in_channels == 0:  # the parameters were loaded
            shape = self.weight.shape
            self.in_channels = shape[0] if self.transposed else shape[1] * self.groups

    def _get_in_channels(self, input: Tensor) -> int:
        n = self._get_num_spatial_dims()
        if input.ndim not in (n + 1, n + 2):
            raise RuntimeError(
                f"{type(self).__name__}: expected {n + 1} (unbatched) or {n + 2} (batched) "
                f"dimensions: {tuple(input.shape)}"
            )
        return int(input.shape[-n - 1])

    def _get_num_spatial_dims(self) -> int:
        return self._dims


class _LazyConv(_LazyConvXdMixin):
    def __init__(
        self,
        out_channels: int,
        kernel_size: Sizes,
        stride: Sizes = 1,
        padding: str | Sizes = 0,
        dilation: Sizes = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(
            out_channels,
            kernel_size,
            stride,
            padding,
            dilation,
            groups,
            bias=bias,
            padding_mode=padding_mode,
            device=device,
            dtype=dtype,
        )


class LazyConv1d(_LazyConv, Conv1d):
    """A Conv1d that takes in_channels from its first input, and is a plain Conv1d from then on.

    Parameters
    ----------
    out_channels : int
        Channels of the result: the number of filters.
    kernel_size : int
        Elements of a filter.
    stride : int, optional
        Steps from one window to the next.
    padding : int or str, optional
        Elements added on either side; "valid" adds none, "same" so many that the result has the
        input's size (for stride 1).
    dilation : int, optional
        Steps from one element of a window to the next.
    groups : int, optional
        In how many groups the channels are divided, each with its own filters: in_channels groups
        are a depthwise convolution.
    bias : bool, optional
        Whether a number is added for each output channel.
    padding_mode : str, optional
        What is added: "zeros", "reflect" (without the edge), "replicate" (the edge) or "circular"
        (from the other end).
    device : device, optional
        Where the parameters lie; the default device if None.
    dtype : dtype, optional
        Of the parameters; the default dtype if None.

    See Also
    --------
    Conv1d

    Notes
    -----
    Until the first call the parameters have no shape: make the optimizer after it.

    Examples
    --------
    >>> layer = nn.LazyConv1d(4, 3)
    >>> layer(st.ones(1, 2, 5)).shape
    Size([1, 4, 3])
    >>> type(layer).__name__, layer.in_channels
    ('Conv1d', 2)
    """

    cls_to_become = Conv1d


class LazyConv2d(_LazyConv, Conv2d):
    """A Conv2d that takes in_channels from its first input, and is a plain Conv2d from then on.

    Parameters
    ----------
    out_channels : int
        Channels of the result: the number of filters.
    kernel_size : int or (int, int)
        Elements of a filter, one number or (height, width).
    stride : int or (int, int), optional
        Steps from one window to the next.
    padding : int or (int, int) or str, optional
        Elements added on either side, one number or (height, width); "valid" adds none, "same" so
        many that the result has the input's size (for stride 1).
    dilation : int or (int, int), optional
        Steps from one element of a window to the next.
    groups : int, optional
        In how many groups the channels are divided, each with its own filters: in_channels groups
        are a depthwise convolution.
    bias : bool, optional
        Whether a number is added for each output channel.
    padding_mode : str, optional
        What is added: "zeros", "reflect" (without the edge), "replicate" (the edge) or "circular"
        (from the other end).
    device : device, optional
        Where the parameters lie; the default device if None.
    dtype : dtype, optional
        Of the parameters; the default dtype if None.

    See Also
    --------
    Conv2d

    Notes
    -----
    Until the first call the parameters have no shape: make the optimizer after it.

    Examples
    --------
    >>> layer = nn.LazyConv2d(4, 3)
    >>> layer(st.ones(1, 2, 5, 5)).shape
    Size([1, 4, 3, 3])
    >>> type(layer).__name__, layer.in_channels
    ('Conv2d', 2)
    """

    cls_to_become = Conv2d


class LazyConv3d(_LazyConv, Conv3d):
    """A Conv3d that takes in_channels from its first input, and is a plain Conv3d from then on.

    Parameters
    ----------
    out_channels : int
        Channels of the result: the number of filters.
    kernel_size : int or (int, int, int)
        Elements of a filter, one number or (depth, height, width).
    stride : int or (int, int, int), optional
        Steps from one window to the next.
    padding : int or (int, int, int) or str, optional
        Elements added on either side, one number or (depth, height, width); "valid" adds none,
        "same" so many that the result has the input's size (for stride 1).
    dilation : int or (int, int, int), optional
        Steps from one element of a window to the next.
    groups : int, optional
        In how many groups the channels are divided, each with its own filters: in_channels groups
        are a depthwise convolution.
    bias : bool, optional
        Whether a number is added for each output channel.
    padding_mode : str, optional
        What is added: "zeros", "reflect" (without the edge), "replicate" (the edge) or "circular"
        (from the other end).
    device : device, optional
        Where the parameters lie; the default device if None.
    dtype : dtype, optional
        Of the parameters; the default dtype if None.

    See Also
    --------
    Conv3d

    Notes
    -----
    Until the first call the parameters have no shape: make the optimizer after it.

    Examples
    --------
    >>> layer = nn.LazyConv3d(4, 3)
    >>> layer(st.ones(1, 2, 5, 5, 5)).shape
    Size([1, 4, 3, 3, 3])
    >>> type(layer).__name__, layer.in_channels
    ('Conv3d', 2)
    """

    cls_to_become = Conv3d


class _LazyConvTranspose(_LazyConvXdMixin):
    def __init__(
        self,
        out_channels: int,
        kernel_size: Sizes,
        stride: Sizes = 1,
        padding: Sizes = 0,
        output_padding: Sizes = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: Sizes = 1,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(
            out_channels,
            kernel_size,
            stride,
            padding,
            output_padding,
            groups,
            bias=bias,
            dilation=dilation,
            padding_mode=padding_mode,
            device=device,
            dtype=dtype,
        )


class LazyConvTranspose1d(_LazyConvTranspose, ConvTranspose1d):
    """A ConvTranspose1d that takes in_channels from its first input, and is plain from then on.

    Parameters
    ----------
    out_channels : int
        Channels of the result.
    kernel_size : int
        Elements of a filter.
    stride : int, optional
        Steps in the result for one in the input.
    padding : int, optional
        Elements cut off on either side of the result.
    output_padding : int, optional
        Further elements at the result's end.
    groups : int, optional
        In how many groups the channels are divided, each with its own filters.
    bias : bool, optional
        Whether a number is added for each output channel.
    dilation : int, optional
        Steps from one element of a window to the next.
    padding_mode : str, optional
        Only "zeros".
    device : device, optional
        Where the parameters lie; the default device if None.
    dtype : dtype, optional
        Of the parameters; the default dtype if None.

    See Also
    --------
    ConvTranspose1d

    Examples
    --------
    >>> layer = nn.LazyConvTranspose1d(3, kernel_size=2, stride=2)
    >>> layer(st.ones(1, 2, 4)).shape
    Size([1, 3, 8])
    >>> layer.in_channels
    2
    """

    cls_to_become = ConvTranspose1d


class LazyConvTranspose2d(_LazyConvTranspose, ConvTranspose2d):
    """A ConvTranspose2d that takes in_channels from its first input, and is plain from then on.

    Parameters
    ----------
    out_channels : int
        Channels of the result.
    kernel_size : int or (int, int)
        Elements of a filter, one number or (height, width).
    stride : int or (int, int), optional
        Steps in the result for one in the input.
    padding : int or (int, int), optional
        Elements cut off on either side of the result.
    output_padding : int or (int, int), optional
        Further elements at the result's end.
    groups : int, optional
        In how many groups the channels are divided, each with its own filters.
    bias : bool, optional
        Whether a number is added for each output channel.
    dilation : int or (int, int), optional
        Steps from one element of a window to the next.
    padding_mode : str, optional
        Only "zeros".
    device : device, optional
        Where the parameters lie; the default device if None.
    dtype : dtype, optional
        Of the parameters; the default dtype if None.

    See Also
    --------
    ConvTranspose2d

    Examples
    --------
    >>> layer = nn.LazyConvTranspose2d(3, kernel_size=2, stride=2)
    >>> layer(st.ones(1, 2, 4, 4)).shape
    Size([1, 3, 8, 8])
    >>> layer.in_channels
    2
    """

    cls_to_become = ConvTranspose2d


class LazyConvTranspose3d(_LazyConvTranspose, ConvTranspose3d):
    """A ConvTranspose3d that takes in_channels from its first input, and is plain from then on.

    Parameters
    ----------
    out_channels : int
        Channels of the result.
    kernel_size : int or (int, int, int)
        Elements of a filter, one number or (depth, height, width).
    stride : int or (int, int, int), optional
        Steps in the result for one in the input.
    padding : int or (int, int, int), optional
        Elements cut off on either side of the result.
    output_padding : int or (int, int, int), optional
        Further elements at the result's end.
    groups : int, optional
        In how many groups the channels are divided, each with its own filters.
    bias : bool, optional
        Whether a number is added for each output channel.
    dilation : int or (int, int, int), optional
        Steps from one element of a window to the next.
    padding_mode : str, optional
        Only "zeros".
    device : device, optional
        Where the parameters lie; the default device if None.
    dtype : dtype, optional
        Of the parameters; the default dtype if None.

    See Also
    --------
    ConvTranspose3d

    Examples
    --------
    >>> layer = nn.LazyConvTranspose3d(3, kernel_size=2, stride=2)
    >>> layer(st.ones(1, 2, 4, 4, 4)).shape
    Size([1, 3, 8, 8, 8])
    >>> layer.in_channels
    2
    """

    cls_to_become = ConvTranspose3d
