"""Batch normalisation: BatchNorm1d to 3d, and lazy ones that learn C from their first input."""

from __future__ import annotations

from typing import Any

from ...dtypes import int64
from ...functions import empty, ones, zeros
from ...tensor import Tensor
from .. import functional as F
from .. import init
from ..parameter import Parameter, UninitializedBuffer, UninitializedParameter
from .lazy import LazyModuleMixin
from .module import Module
from .utils import check_sizes

__all__ = [
    "BatchNorm1d",
    "BatchNorm2d",
    "BatchNorm3d",
    "LazyBatchNorm1d",
    "LazyBatchNorm2d",
    "LazyBatchNorm3d",
]


class _NormBase(Module):
    """The parameters and running statistics of BatchNorm and InstanceNorm.

    Version 2 of the state dict has `num_batches_tracked`; version 1 loads as well.
    """

    _version = 2
    _dims: tuple[int, ...]  # how many dimensions an input may have
    weight: Parameter | None
    bias: Parameter | None
    running_mean: Tensor | None
    running_var: Tensor | None
    num_batches_tracked: Tensor | None

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__()
        if affine or track_running_stats:  # else it is not used
            check_sizes(self, num_features=num_features)
        self.num_features = num_features
        self.eps = eps
        self.momentum = momentum
        self.affine = affine
        self.track_running_stats = track_running_stats
        for name, exists in (("weight", affine), ("bias", affine and bias)):
            p = Parameter(empty(num_features, device=device, dtype=dtype)) if exists else None
            self.register_parameter(name, p)
        mean = var = count = None
        if track_running_stats:
            mean = zeros(num_features, device=device, dtype=dtype)
            var = ones(num_features, device=device, dtype=dtype)
            count = zeros((), device=device, dtype=int64)
        self.register_buffer("running_mean", mean)
        self.register_buffer("running_var", var)
        self.register_buffer("num_batches_tracked", count)
        self.reset_parameters()

    def reset_running_stats(self) -> None:
        """Running mean 0, running variance 1, no batches counted."""
        if self.track_running_stats:
            self.running_mean.zero_()  # type: ignore[union-attr]
            self.running_var.fill_(1)  # type: ignore[union-attr]
            self.num_batches_tracked.zero_()  # type: ignore[union-attr]

    def reset_parameters(self) -> None:
        """Weight 1, bias 0, and `reset_running_stats`."""
        self.reset_running_stats()
        if self.weight is not None:
            init.ones_(self.weight)
        if self.bias is not None:
            init.zeros_(self.bias)

    def _channels(self, input: Tensor) -> int:
        """C of an input."""
        return int(input.shape[1])

    def _check_input_dim(self, input: Tensor) -> None:
        if input.dim() not in self._dims:
            expected = " or ".join(f"{n}D" for n in self._dims)
            raise ValueError(
                f"{type(self).__name__}: expected {expected} input (got {input.dim()}D input): "
                f"shape {tuple(input.shape)}"
            )

    def _load_from_state_dict(
        self, state_dict: Any, prefix: str, local_metadata: dict[str, Any], *args: Any
    ) -> None:
        key = prefix + "num_batches_tracked"
        if (
            (local_metadata.get("version") or 1) < 2
            and self.track_running_stats
            and key not in state_dict
        ):
            count = self.num_batches_tracked
            state_dict[key] = zeros((), dtype=int64) if count is None else count
        super()._load_from_state_dict(state_dict, prefix, local_metadata, *args)

    def extra_repr(self) -> str:
        return (
            f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, affine={self.affine}, "
            f"bias={self.bias is not None}, track_running_stats={self.track_running_stats}"
        )


class _LazyNormBase(LazyModuleMixin, _NormBase):
    """Mixin of the lazy BatchNorm and InstanceNorm layers; first among a layer's bases."""

    def __init__(
        self,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(0, eps, momentum, False, False, device, dtype)
        self.affine = affine
        self.track_running_stats = track_running_stats
        for name, exists in (("weight", affine), ("bias", affine and bias)):
            if exists:
                setattr(self, name, UninitializedParameter(device=device, dtype=dtype))
        if track_running_stats:
            self.running_mean = UninitializedBuffer(device=device, dtype=dtype)
            self.running_var = UninitializedBuffer(device=device, dtype=dtype)
            self.num_batches_tracked = zeros((), device=device, dtype=int64)

    def reset_parameters(self) -> None:
        """As the layer's own, if C is known."""
        if not self.has_uninitialized_params() and self.num_features != 0:
            super().reset_parameters()

    def initialize_parameters(self, input: Tensor) -> None:
        """Makes parameters and running statistics for an input (N, C, ...)."""
        self._check_input_dim(input)
        uninitialized = self.has_uninitialized_params()
        if uninitialized or self.num_features == 0:
            self.num_features = self._channels(input)
        if uninitialized:
            c = (self.num_features,)
            self._materialize(weight=c, bias=c, running_mean=c, running_var=c)
            self.reset_parameters()


class _BatchNorm(_NormBase):
    """Base of BatchNorm1d to 3d and SyncBatchNorm, without the check of the dimensions."""

    def _uses_batch(self) -> bool:
        """Whether the batch's own statistics normalise it, not the running ones."""
        return self.training or (self.running_mean is None and self.running_var is None)

    def _count_batch(self) -> float:
        """Counts the batch in training; returns its weight in the running statistics."""
        if self.training and self.track_running_stats and self.num_batches_tracked is not None:
            self.num_batches_tracked.add_(1)
            if self.momentum is None:  # the average of all batches
                return 1.0 / float(self.num_batches_tracked)
        return 0.0 if self.momentum is None else self.momentum

    def forward(self, input: Tensor) -> Tensor:
        """(N, C, ...), same shape out.

        Raises: ValueError if the number of dimensions is wrong or, in training, a channel has one
            element only.
        """
        self._check_input_dim(input)
        momentum = self._count_batch()
        # in training without track_running_stats the running statistics do not change
        running = not self.training or self.track_running_stats
        return F.batch_norm(
            input,
            self.running_mean if running else None,
            self.running_var if running else None,
            self.weight,
            self.bias,
            self._uses_batch(),
            momentum,
            self.eps,
        )


class BatchNorm1d(_BatchNorm):
    """Each channel of the batch with mean 0 and variance 1, then `* weight + bias`.

    Parameters
    ----------
    num_features : int
        C, the number of channels.
    eps : float, optional
        Added to the variance.
    momentum : float or None, optional
        The weight of each batch in the running statistics; None makes them the average of all
        batches.
    affine : bool, optional
        Whether there are weight and bias.
    track_running_stats : bool, optional
        Whether there are running statistics. Evaluation uses them; without them it uses those of
        the batch.
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
    running_mean, running_var : Tensor or None
        Buffers `(C,)`: zeros and ones at first. In training they move towards the batch's mean and
        its unbiased variance.
    num_batches_tracked : Tensor or None
        Buffer `()`, int64.

    Raises
    ------
    ValueError
        In the call: the input has other dimensions, or in training a channel has one element only.

    See Also
    --------
    LazyBatchNorm1d, SyncBatchNorm, LayerNorm, GroupNorm

    Notes
    -----
    Shape: `(N, C)` or `(N, C, L)`, and the result has the same. Ioffe and Szegedy 2015. Statistics
    of 16-bit floats are computed in float32.

    Examples
    --------
    >>> layer = nn.BatchNorm1d(3)
    >>> layer(st.ones(4, 3)).shape
    Size([4, 3])
    >>> layer.running_mean
    tensor([0.1000, 0.1000, 0.1000])
    >>> layer.num_batches_tracked
    tensor(1)
    >>> nn.BatchNorm1d(1)(st.tensor([[1.], [3.]])).detach().round(decimals=2)
    tensor([[-1.],
            [ 1.]])
    """

    _dims = (2, 3)


class BatchNorm2d(_BatchNorm):
    """Each channel of the batch with mean 0 and variance 1, then `* weight + bias`.

    Parameters
    ----------
    num_features : int
        C, the number of channels.
    eps : float, optional
        Added to the variance.
    momentum : float or None, optional
        The weight of each batch in the running statistics; None makes them the average of all
        batches.
    affine : bool, optional
        Whether there are weight and bias.
    track_running_stats : bool, optional
        Whether there are running statistics. Evaluation uses them; without them it uses those of
        the batch.
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
    running_mean, running_var : Tensor or None
        Buffers `(C,)`: zeros and ones at first. In training they move towards the batch's mean and
        its unbiased variance.
    num_batches_tracked : Tensor or None
        Buffer `()`, int64.

    Raises
    ------
    ValueError
        In the call: the input has other dimensions, or in training a channel has one element only.

    See Also
    --------
    LazyBatchNorm2d, SyncBatchNorm, LayerNorm, GroupNorm

    Notes
    -----
    Shape: `(N, C, H, W)`, and the result has the same. Ioffe and Szegedy 2015. Statistics of 16-bit
    floats are computed in float32.

    Examples
    --------
    >>> layer = nn.BatchNorm2d(3)
    >>> layer(st.ones(4, 3, 8, 8)).shape
    Size([4, 3, 8, 8])
    >>> layer.running_mean
    tensor([0.1000, 0.1000, 0.1000])
    >>> layer.num_batches_tracked
    tensor(1)
    """

    _dims = (4,)


class BatchNorm3d(_BatchNorm):
    """Each channel of the batch with mean 0 and variance 1, then `* weight + bias`.

    Parameters
    ----------
    num_features : int
        C, the number of channels.
    eps : float, optional
        Added to the variance.
    momentum : float or None, optional
        The weight of each batch in the running statistics; None makes them the average of all
        batches.
    affine : bool, optional
        Whether there are weight and bias.
    track_running_stats : bool, optional
        Whether there are running statistics. Evaluation uses them; without them it uses those of
        the batch.
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
    running_mean, running_var : Tensor or None
        Buffers `(C,)`: zeros and ones at first. In training they move towards the batch's mean and
        its unbiased variance.
    num_batches_tracked : Tensor or None
        Buffer `()`, int64.

    Raises
    ------
    ValueError
        In the call: the input has other dimensions, or in training a channel has one element only.

    See Also
    --------
    LazyBatchNorm3d, SyncBatchNorm, LayerNorm, GroupNorm

    Notes
    -----
    Shape: `(N, C, D, H, W)`, and the result has the same. Ioffe and Szegedy 2015. Statistics of
    16-bit floats are computed in float32.

    Examples
    --------
    >>> layer = nn.BatchNorm3d(3)
    >>> layer(st.ones(4, 3, 2, 8, 8)).shape
    Size([4, 3, 2, 8, 8])
    >>> layer.running_mean
    tensor([0.1000, 0.1000, 0.1000])
    >>> layer.num_batches_tracked
    tensor(1)
    """

    _dims = (5,)


class LazyBatchNorm1d(_LazyNormBase, _BatchNorm):
    """A BatchNorm1d that takes num_features from its first input, and is plain from then on.

    Parameters
    ----------
    eps : float, optional
        Added to the variance.
    momentum : float or None, optional
        The weight of each batch in the running statistics; None makes them the average of all
        batches.
    affine : bool, optional
        Whether there are weight and bias.
    track_running_stats : bool, optional
        Whether there are running statistics, which evaluation uses.
    device : device, optional
        Where the parameters lie; the default device if None.
    dtype : dtype, optional
        Of the parameters; the default dtype if None.
    bias : bool, optional
        Whether there is a bias, if `affine`.

    See Also
    --------
    BatchNorm1d

    Examples
    --------
    >>> layer = nn.LazyBatchNorm1d()
    >>> layer(st.ones(4, 3)).shape
    Size([4, 3])
    >>> layer
    BatchNorm1d(3, eps=1e-05, momentum=0.1, affine=True, bias=True, track_running_stats=True)
    """

    cls_to_become = BatchNorm1d
    _dims = BatchNorm1d._dims


class LazyBatchNorm2d(_LazyNormBase, _BatchNorm):
    """A BatchNorm2d that takes num_features from its first input, and is plain from then on.

    Parameters
    ----------
    eps : float, optional
        Added to the variance.
    momentum : float or None, optional
        The weight of each batch in the running statistics; None makes them the average of all
        batches.
    affine : bool, optional
        Whether there are weight and bias.
    track_running_stats : bool, optional
        Whether there are running statistics, which evaluation uses.
    device : device, optional
        Where the parameters lie; the default device if None.
    dtype : dtype, optional
        Of the parameters; the default dtype if None.
    bias : bool, optional
        Whether there is a bias, if `affine`.

    See Also
    --------
    BatchNorm2d

    Examples
    --------
    >>> layer = nn.LazyBatchNorm2d()
    >>> layer(st.ones(4, 3, 8, 8)).shape
    Size([4, 3, 8, 8])
    >>> layer
    BatchNorm2d(3, eps=1e-05, momentum=0.1, affine=True, bias=True, track_running_stats=True)
    """

    cls_to_become = BatchNorm2d
    _dims = BatchNorm2d._dims


class LazyBatchNorm3d(_LazyNormBase, _BatchNorm):
    """A BatchNorm3d that takes num_features from its first input, and is plain from then on.

    Parameters
    ----------
    eps : float, optional
        Added to the variance.
    momentum : float or None, optional
        The weight of each batch in the running statistics; None makes them the average of all
        batches.
    affine : bool, optional
        Whether there are weight and bias.
    track_running_stats : bool, optional
        Whether there are running statistics, which evaluation uses.
    device : device, optional
        Where the parameters lie; the default device if None.
    dtype : dtype, optional
        Of the parameters; the default dtype if None.
    bias : bool, optional
        Whether there is a bias, if `affine`.

    See Also
    --------
    BatchNorm3d

    Examples
    --------
    >>> layer = nn.LazyBatchNorm3d()
    >>> layer(st.ones(4, 3, 2, 8, 8)).shape
    Size([4, 3, 2, 8, 8])
    >>> layer
    BatchNorm3d(3, eps=1e-05, momentum=0.1, affine=True, bias=True, track_running_stats=True)
    """

    cls_to_become = BatchNorm3d
    _dims = BatchNorm3d._dims
