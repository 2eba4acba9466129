"""Instance normalisation: InstanceNorm1d to 3d, and lazy ones that learn C."""

from __future__ import annotations

import warnings
from typing import Any

from ...tensor import Tensor
from .. import functional as F
from .batchnorm import _LazyNormBase, _NormBase

__all__ = [
    "InstanceNorm1d",
    "InstanceNorm2d",
    "InstanceNorm3d",
    "LazyInstanceNorm1d",
    "LazyInstanceNorm2d",
    "LazyInstanceNorm3d",
]


class _InstanceNorm(_NormBase):
    """Base of InstanceNorm1d to 3d."""

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = False,
        track_running_stats: bool = False,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(
            num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias
        )

    def _get_no_batch_dim(self) -> int:
        return self._dims[0]

    def _channels(self, input: Tensor) -> int:
        return int(input.shape[input.dim() - self._get_no_batch_dim()])

    def _load_from_state_dict(
        self,
        state_dict: Any,
        prefix: str,
        local_metadata: dict[str, Any],
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        # version 1 saved running statistics even without track_running_stats
        if local_metadata.get("version") is None and not self.track_running_stats:
            names = [prefix + name for name in ("running_mean", "running_var")]
            unexpected = [f'"{name}"' for name in names if name in state_dict]
            if unexpected:
                error_msgs.append(
                    f"Unexpected running stats buffer(s) {' and '.join(unexpected)} for "
                    f"{type(self).__name__} with track_running_stats=False. If state_dict is of "
                    "a time when such a layer had them, remove them from it, or make the layer "
                    "with track_running_stats=True."
                )
                for name in names:
                    state_dict.pop(name, None)
        super()._load_from_state_dict(
            state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs
        )

    def forward(self, input: Tensor) -> Tensor:
        """(N, C, ...) or (C, ...), same shape out.

        Raises: ValueError if the number of dimensions is wrong, with weight and bias C is, or a
            channel of a sample has one element only.
        """
        self._check_input_dim(input)
        unbatched = input.dim() == self._get_no_batch_dim()
        if self._channels(input) != self.num_features:
            dim = 0 if unbatched else 1
            problem = (
                f"{type(self).__name__}: expected input's size at dim={dim} to match "
                f"num_features ({self.num_features}): shape {tuple(input.shape)}"
            )
            if self.affine:
                raise ValueError(problem)
            warnings.warn(
                f"{problem}, which has no effect because affine=False", UserWarning, stacklevel=3
            )
        out = F.instance_norm(
            input.unsqueeze(0) if unbatched else input,
            self.running_mean,
            self.running_var,
            self.weight,
            self.bias,
            self.training or not self.track_running_stats,
            0.0 if self.momentum is None else self.momentum,
            self.eps,
        )
        return out.squeeze(0) if unbatched else out


class InstanceNorm1d(_InstanceNorm):
    """Each channel of each sample with mean 0 and variance 1, then `* weight + bias`.

    Parameters
    ----------
    num_features : int
        C, the number of channels.
    eps : float, optional
        Added to the variance.
    momentum : float, optional
        The weight of each batch in the running statistics.
    affine : bool, optional
        Whether there are weight and bias; by default there are none.
    track_running_stats : bool, optional
        Whether there are running statistics, which evaluation uses; by default there are none.
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
        Buffers `(C,)`.

    See Also
    --------
    LazyInstanceNorm1d, BatchNorm1d

    Notes
    -----
    Shape: `(N, C, L)` or `(C, L)`, and the result has the same. Ulyanov et al. 2016.

    Examples
    --------
    >>> nn.InstanceNorm1d(3)(st.ones(4, 3, 8)).abs().max()
    tensor(0.)
    >>> nn.InstanceNorm1d(3, affine=True).weight.shape
    Size([3])
    """

    _dims = (2, 3)


class InstanceNorm2d(_InstanceNorm):
    """Each channel of each sample with mean 0 and variance 1, then `* weight + bias`.

    Parameters
    ----------
    num_features : int
        C, the number of channels.
    eps : float, optional
        Added to the variance.
    momentum : float, optional
        The weight of each batch in the running statistics.
    affine : bool, optional
        Whether there are weight and bias; by default there are none.
    track_running_stats : bool, optional
        Whether there are running statistics, which evaluation uses; by default there are none.
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
        Buffers `(C,)`.

    See Also
    --------
    LazyInstanceNorm2d, BatchNorm2d

    Notes
    -----
    Shape: `(N, C, H, W)` or `(C, H, W)`, and the result has the same. Ulyanov et al. 2016.

    Examples
    --------
    >>> nn.InstanceNorm2d(3)(st.ones(4, 3, 8, 8)).abs().max()
    tensor(0.)
    >>> nn.InstanceNorm2d(3, affine=True).weight.shape
    Size([3])
    """

    _dims = (3, 4)


class InstanceNorm3d(_InstanceNorm):
    """Each channel of each sample with mean 0 and variance 1, then `* weight + bias`.

    Parameters
    ----------
    num_features : int
        C, the number of channels.
    eps : float, optional
        Added to the variance.
    momentum : float, optional
        The weight of each batch in the running statistics.
    affine : bool, optional
        Whether there are weight and bias; by default there are none.
    track_running_stats : bool, optional
        Whether there are running statistics, which evaluation uses; by default there are none.
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
        Buffers `(C,)`.

    See Also
    --------
    LazyInstanceNorm3d, BatchNorm3d

    Notes
    -----
    Shape: `(N, C, D, H, W)` or `(C, D, H, W)`, and the result has the same. Ulyanov et al. 2016.

    Examples
    --------
    >>> nn.InstanceNorm3d(3)(st.ones(4, 3, 2, 8, 8)).abs().max()
    tensor(0.)
    >>> nn.InstanceNorm3d(3, affine=True).weight.shape
    Size([3])
    """

    _dims = (4, 5)


class LazyInstanceNorm1d(_LazyNormBase, _InstanceNorm):
    """An InstanceNorm1d that takes num_features from its first input, and is plain from then on.

    Parameters
    ----------
    eps : float, optional
        Added to the variance.
    momentum : float, optional
        The weight of each batch in the running statistics.
    affine : bool, optional
        Whether there are weight and bias: by default there are, unlike in InstanceNorm1d.
    track_running_stats : bool, optional
        Whether there are running statistics: by default there are, unlike in InstanceNorm1d.
    device : device, optional
        Where the parameters lie; the default device if None.
    dtype : dtype, optional
        Of the parameters; the default dtype if None.
    bias : bool, optional
        Whether there is a bias, if `affine`.

    See Also
    --------
    InstanceNorm1d

    Examples
    --------
    >>> layer = nn.LazyInstanceNorm1d()
    >>> layer(st.ones(4, 3, 8)).shape
    Size([4, 3, 8])
    >>> layer
    InstanceNorm1d(3, eps=1e-05, momentum=0.1, affine=True, bias=True, track_running_stats=True)
    """

    cls_to_become = InstanceNorm1d
    _dims = InstanceNorm1d._dims


class LazyInstanceNorm2d(_LazyNormBase, _InstanceNorm):
    """An InstanceNorm2d that takes num_features from its first input, and is plain from then on.

    Parameters
    ----------
    eps : float, optional
        Added to the variance.
    momentum : float, optional
        The weight of each batch in the running statistics.
    affine : bool, optional
        Whether there are weight and bias: by default there are, unlike in InstanceNorm2d.
    track_running_stats : bool, optional
        Whether there are running statistics: by default there are, unlike in InstanceNorm2d.
    device : device, optional
        Where the parameters lie; the default device if None.
    dtype : dtype, optional
        Of the parameters; the default dtype if None.
    bias : bool, optional
        Whether there is a bias, if `affine`.

    See Also
    --------
    InstanceNorm2d

    Examples
    --------
    >>> layer = nn.LazyInstanceNorm2d()
    >>> layer(st.ones(4, 3, 8, 8)).shape
    Size([4, 3, 8, 8])
    >>> layer
    InstanceNorm2d(3, eps=1e-05, momentum=0.1, affine=True, bias=True, track_running_stats=True)
    """

    cls_to_become = InstanceNorm2d
    _dims = InstanceNorm2d._dims


class LazyInstanceNorm3d(_LazyNormBase, _InstanceNorm):
    """An InstanceNorm3d that takes num_features from its first input, and is plain from then on.

    Parameters
    ----------
    eps : float, optional
        Added to the variance.
    momentum : float, optional
        The weight of each batch in the running statistics.
    affine : bool, optional
        Whether there are weight and bias: by default there are, unlike in InstanceNorm3d.
    track_running_stats : bool, optional
        Whether there are running statistics: by default there are, unlike in InstanceNorm3d.
    device : device, optional
        Where the parameters lie; the default device if None.
    dtype : dtype, optional
        Of the parameters; the default dtype if None.
    bias : bool, optional
        Whether there is a bias, if `affine`.

    See Also
    --------
    InstanceNorm3d

    Examples
    --------
    >>> layer = nn.LazyInstanceNorm3d()
    >>> layer(st.ones(4, 3, 2, 8, 8)).shape
    Size([4, 3, 2, 8, 8])
    >>> layer
    InstanceNorm3d(3, eps=1e-05, momentum=0.1, affine=True, bias=True, track_running_stats=True)
    """

    cls_to_become = InstanceNorm3d
    _dims = InstanceNorm3d._dims
