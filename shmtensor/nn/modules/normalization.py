"""Layers that normalise each sample separately: over its last dimensions, over groups of channels,
or over neighbouring channels.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...functions import arange, empty
from ...tensor import Tensor
from .. import functional as F
from .. import init
from ..parameter import Parameter
from .module import Module
from .utils import check_sizes, sizes_of

__all__ = ["CrossMapLRN2d", "GroupNorm", "LayerNorm", "LocalResponseNorm", "RMSNorm"]


class _Affine(Module):
    """A normalisation with an optional weight and bias."""

    weight: Parameter | None
    bias: Parameter | None

    def _make_affine(self, sizes: tuple[int, ...], weight: bool, bias: bool, **where: Any) -> None:
        for name, exists in (("weight", weight), ("bias", weight and bias)):
            self.register_parameter(name, Parameter(empty(*sizes, **where)) if exists else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Ones and zeros."""
        if self.weight is not None:
            init.ones_(self.weight)
        if self.bias is not None:
            init.zeros_(self.bias)


class LayerNorm(_Affine):
    """Each sample with mean 0 and variance 1 over its last dimensions, then `* weight + bias`.

    Parameters
    ----------
    normalized_shape : int or tuple of int
        The sizes of the dimensions normalised over: the last ones of the input.
    eps : float, optional
        Added to the variance.
    elementwise_affine : bool, optional
        Whether there are weight and bias.
    bias : bool, optional
        Whether there is a bias, if `elementwise_affine`.
    device : device, optional
        Where the parameters lie; the default device if None.
    dtype : dtype, optional
        Of the parameters; the default dtype if None.

    Attributes
    ----------
    weight, bias : Parameter or None
        Of normalized_shape: ones and zeros at first.

    Raises
    ------
    RuntimeError
        In the call: the input's shape does not end with normalized_shape.

    See Also
    --------
    RMSNorm, BatchNorm1d, functional.layer_norm

    Notes
    -----
    Shape: `(..., *normalized_shape)`, and the result has the same. Training and evaluation are
    alike. Ba et al. 2016.

    Examples
    --------
    >>> layer = nn.LayerNorm(2)
    >>> layer(st.tensor([[1., 3.], [5., -5.]])).detach().round(decimals=2)
    tensor([[-1.,  1.],
            [ 1., -1.]])
    >>> nn.LayerNorm((3, 4)).weight.shape
    Size([3, 4])
    """

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        check_sizes(self, normalized_shape=normalized_shape)
        self.normalized_shape = sizes_of(normalized_shape)
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        self._make_affine(
            self.normalized_shape, elementwise_affine, bias, device=device, dtype=dtype
        )

    def forward(self, input: Tensor) -> Tensor:
        """(*, *normalized_shape), same shape out."""
        return F.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return (
            f"{self.normalized_shape}, eps={self.eps}, "
            f"elementwise_affine={self.elementwise_affine}, bias={self.bias is not None}"
        )


class RMSNorm(Module):
    """Each sample with root mean square 1 over its last dimensions, then `* weight`.

    Parameters
    ----------
    normalized_shape : int or tuple of int
        The sizes of the dimensions normalised over: the last ones of the input.
    eps : float, optional
        Added to the mean square; the dtype's eps if None.
    elementwise_affine : bool, optional
        Whether there is a weight.
    device : device, optional
        Where the parameters lie; the default device if None.
    dtype : dtype, optional
        Of the parameters; the default dtype if None.

    Attributes
    ----------
    weight : Parameter or None
        Of normalized_shape: ones at first.

    See Also
    --------
    LayerNorm

    Notes
    -----
    Shape: `(..., *normalized_shape)`, and the result has the same. Zhang and Sennrich 2019.

    Examples
    --------
    >>> nn.RMSNorm(2)(st.tensor([3., -3.])).detach().round(decimals=2)
    tensor([ 1., -1.])
    """

    weight: Parameter | None

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float | None = None,
        elementwise_affine: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        check_sizes(self, normalized_shape=normalized_shape)
        self.normalized_shape = sizes_of(normalized_shape)
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        if elementwise_affine:
            self.weight = Parameter(empty(*self.normalized_shape, device=device, dtype=dtype))
        else:
            self.register_parameter("weight", None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Ones."""
        if self.weight is not None:
            init.ones_(self.weight)

    def forward(self, input: Tensor) -> Tensor:
        """(*, *normalized_shape), same shape out."""
        return F.rms_norm(input, self.normalized_shape, self.weight, self.eps)

    def extra_repr(self) -> str:
        return (
            f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}"
        )


class GroupNorm(_Affine):
    """Each group of channels of each sample with mean 0 and variance 1, then `* weight + bias`.

    Parameters
    ----------
    num_groups : int
        In how many groups of equal size the channels are divided.
    num_channels : int
        C.
    eps : float, optional
        Added to the variance.
    affine : bool, optional
        Whether there are weight and bias.
    device : device, optional
        Where the parameters lie; the default device if None.
    dtype : dtype, optional
        Of the parameters; the default dtype if None.
    bias : bool, optional
        Whether there is a bias, if `affine`.

    Attributes
    ----------
    weight, bias : Parameter or None
        `(C,)`: ones and zeros at first.

    Raises
    ------
    ValueError
        num_channels is not a multiple of num_groups.

    See Also
    --------
    LayerNorm, InstanceNorm2d

    Notes
    -----
    Shape: `(N, C, ...)`, and the result has the same. One group is a LayerNorm over all but N, C
    groups are an InstanceNorm. Wu and He 2018.

    Examples
    --------
    >>> nn.GroupNorm(2, 6)(st.ones(4, 6, 8, 8)).shape
    Size([4, 6, 8, 8])
    """

    def __init__(
        self,
        num_groups: int,
        num_channels: int,
        eps: float = 1e-5,
        affine: bool = True,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__()
        check_sizes(self, num_groups=num_groups, num_channels=num_channels)
        if num_channels % num_groups:
            raise ValueError(
                "GroupNorm: num_channels must be divisible by num_groups: "
                f"{num_channels} by {num_groups}"
            )
        self.num_groups = num_groups
        self.num_channels = num_channels
        self.eps = eps
        self.affine = affine
        self._make_affine((num_channels,), affine, bias, device=device, dtype=dtype)

    def forward(self, input: Tensor) -> Tensor:
        """(N, C, *), same shape out."""
        return F.group_norm(input, self.num_groups, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return (
            f"{self.num_groups}, {self.num_channels}, eps={self.eps}, affine={self.affine}, "
            f"bias={self.bias is not None}"
        )


class _ResponseNormBase(Module):
    """`x / (k + alpha * the mean square of neighbouring channels) ** beta`."""

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> None:
        super().__init__()
        self.size = size
        self.alpha = alpha
        self.beta = beta
        self.k = k

    def extra_repr(self) -> str:
        return f"{self.size}, alpha={self.alpha}, beta={self.beta}, k={self.k}"


class LocalResponseNorm(_ResponseNormBase):
    """x over a power of the mean square of neighbouring channels.

    Parameters
    ----------
    size : int
        How many neighbouring channels, with this one in the middle.
    alpha : float, optional
        Factor of the mean square.
    beta : float, optional
        Exponent.
    k : float, optional
        Added to the mean square.

    Notes
    -----
    `x / (k + alpha * mean square) ** beta` (Krizhevsky et al. 2012). Shape: `(N, C, ...)`, and the
    result has the same.

    Examples
    --------
    >>> nn.LocalResponseNorm(1, alpha=1.0, beta=1.0, k=0.0)(st.tensor([[[2.], [4.]]]))
    tensor([[[0.5000],
             [0.2500]]])
    """

    def forward(self, input: Tensor) -> Tensor:
        """(N, C, *), same shape out."""
        return F.local_response_norm(input, self.size, self.alpha, self.beta, self.k)


class CrossMapLRN2d(_ResponseNormBase):
    """`LocalResponseNorm` of images as PyTorch's layer of this name computes it.

    Parameters
    ----------
    size : int
        How many neighbouring channels; an even size counts as the next smaller odd one, but the sum
        is divided by `size`.
    alpha : float, optional
        Factor of the mean square.
    beta : float, optional
        Exponent.
    k : float, optional
        Added to the mean square.

    Raises
    ------
    ValueError
        In the call: the input has not 4 dimensions.

    See Also
    --------
    LocalResponseNorm

    Notes
    -----
    PyTorch's running sum over the channels never drops channel 0, so it includes channel 0 for
    every channel. The gradient here is that of the value; PyTorch's ignores the extra channel 0.

    Examples
    --------
    >>> nn.CrossMapLRN2d(3)(st.ones(1, 4, 2, 2)).shape
    Size([1, 4, 2, 2])
    """

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1) -> None:
        super().__init__(size, alpha, beta, k)

    def forward(self, input: Tensor) -> Tensor:
        """(N, C, H, W), same shape out.

        Raises: ValueError if the input has not 4 dimensions.
        """
        if input.dim() != 4:
            raise ValueError(f"CrossMapLRN2d: expected input to be 4D: shape {tuple(input.shape)}")
        c = arange(input.shape[1], device=input.device)
        near = (c - c.unsqueeze(1)).abs() < (self.size + 1) // 2
        counts = (near | (c == 0)).to(input.dtype)  # row: the channel; column: the channels summed
        squares = counts.matmul((input * input).flatten(2)).reshape(input.shape)
        return input / (self.k + self.alpha / self.size * squares) ** self.beta
