"""Layers that zero elements or whole channels at random while training."""

from __future__ import annotations

from ...tensor import Tensor
from .. import functional as F
from .module import Module

__all__ = ["AlphaDropout", "Dropout", "Dropout1d", "Dropout2d", "Dropout3d", "FeatureAlphaDropout"]


class _Dropout(Module):
    def __init__(self, p: float = 0.5, inplace: bool = False) -> None:
        super().__init__()
        if not 0.0 <= p <= 1.0:
            raise ValueError(f"{type(self).__name__}: probability has to be between 0 and 1: {p}")
        self.p = p
        self.inplace = inplace

    def extra_repr(self) -> str:
        return f"p={self.p}, inplace={self.inplace}"


class Dropout(_Dropout):
    """Zeroes elements at random in training, and scales the others up, against overfitting.

    Parameters
    ----------
    p : float, optional
        Probability of an element to be 0, from 0 to 1.
    inplace : bool, optional
        Write the result into the input's memory and return the input.

    See Also
    --------
    Dropout2d, AlphaDropout, functional.dropout

    Notes
    -----
    In training the remaining elements are divided by 1 - p, so that the mean stays; in evaluation
    the layer returns its input itself (Copies: none). Shape: any, and the result has the same.
    Srivastava et al. 2014.

    Examples
    --------
    >>> layer = nn.Dropout(0.5)
    >>> sorted(set(layer(st.ones(100)).tolist()))
    [0.0, 2.0]
    >>> layer.eval()(st.ones(3))
    tensor([1., 1., 1.])
    """

    def forward(self, input: Tensor) -> Tensor:
        """Any shape. In evaluation the input itself."""
        return F.dropout(input, self.p, self.training, self.inplace)


class Dropout1d(_Dropout):
    """Zeroes whole channels at random in training, and scales the others up.

    Parameters
    ----------
    p : float, optional
        Probability of a channel to be 0, from 0 to 1.
    inplace : bool, optional
        Write the result into the input's memory and return the input.

    See Also
    --------
    Dropout

    Notes
    -----
    Shape: `(N, C, L)` or `(C, L)`, and the result has the same. In evaluation the layer returns its
    input itself.

    Examples
    --------
    >>> x = nn.Dropout1d(0.5)(st.ones(8, 4, 4))
    >>> channels = x.flatten(2)
    >>> bool((channels == channels[:, :, :1]).all())
    True
    """

    def forward(self, input: Tensor) -> Tensor:
        """(N, C, L) or (C, L)."""
        return F.dropout1d(input, self.p, self.training, self.inplace)


class Dropout2d(_Dropout):
    """Zeroes whole channels at random in training, and scales the others up.

    Parameters
    ----------
    p : float, optional
        Probability of a channel to be 0, from 0 to 1.
    inplace : bool, optional
        Write the result into the input's memory and return the input.

    See Also
    --------
    Dropout

    Notes
    -----
    Shape: `(N, C, H, W)`, and the result has the same. In evaluation the layer returns its input
    itself. An input of 3 dimensions is taken for `(N, C, L)`, with a warning as PyTorch's. Tompson
    et al. 2014.

    Examples
    --------
    >>> x = nn.Dropout2d(0.5)(st.ones(8, 4, 4, 4))
    >>> channels = x.flatten(2)
    >>> bool((channels == channels[:, :, :1]).all())
    True
    """

    def forward(self, input: Tensor) -> Tensor:
        """(N, C, H, W), or with a warning (N, C, L), (N, C)."""
        return F.dropout2d(input, self.p, self.training, self.inplace)


class Dropout3d(_Dropout):
    """Zeroes whole channels at random in training, and scales the others up.

    Parameters
    ----------
    p : float, optional
        Probability of a channel to be 0, from 0 to 1.
    inplace : bool, optional
        Write the result into the input's memory and return the input.

    See Also
    --------
    Dropout

    Notes
    -----
    Shape: `(N, C, D, H, W)` or `(C, D, H, W)`, and the result has the same. In evaluation the layer
    returns its input itself.

    Examples
    --------
    >>> x = nn.Dropout3d(0.5)(st.ones(8, 4, 4, 4, 4))
    >>> channels = x.flatten(2)
    >>> bool((channels == channels[:, :, :1]).all())
    True
    """

    def forward(self, input: Tensor) -> Tensor:
        """(N, C, D, H, W) or (C, D, H, W)."""
        return F.dropout3d(input, self.p, self.training, self.inplace)


class AlphaDropout(_Dropout):
    """Dropout that keeps mean 0 and variance 1 after `SELU` (Klambauer et al. 2017).

    Parameters
    ----------
    p : float, optional
        Probability of an element to be set to SELU's negative limit, from 0 to 1.
    inplace : bool, optional
        Write the result into the input's memory and return the input.

    See Also
    --------
    SELU, FeatureAlphaDropout

    Notes
    -----
    Shape: any, and the result has the same. In evaluation the layer returns its input itself.

    Examples
    --------
    >>> nn.AlphaDropout(0.1).eval()(st.ones(2))
    tensor([1., 1.])
    """

    def forward(self, input: Tensor) -> Tensor:
        """Any shape."""
        return F.alpha_dropout(input, self.p, self.training, self.inplace)


class FeatureAlphaDropout(_Dropout):
    """`AlphaDropout` of whole channels.

    Parameters
    ----------
    p : float, optional
        Probability of a channel to be set to SELU's negative limit, from 0 to 1.
    inplace : bool, optional
        Write the result into the input's memory and return the input.

    Notes
    -----
    Shape: `(N, C, ...)`, and the result has the same. In evaluation the layer returns its input
    itself.

    Examples
    --------
    >>> nn.FeatureAlphaDropout(0.1)(st.ones(2, 3, 4)).shape
    Size([2, 3, 4])
    """

    def forward(self, input: Tensor) -> Tensor:
        """(N, C, *), same shape out."""
        return F.feature_alpha_dropout(input, self.p, self.training, self.inplace)
