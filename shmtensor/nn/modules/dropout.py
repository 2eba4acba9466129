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
    """Zeroes each element with probability p and scales the others by 1 / (1 - p)."""

    def forward(self, input: Tensor) -> Tensor:
        """Any shape. In evaluation the input itself."""
        return F.dropout(input, self.p, self.training, self.inplace)


class Dropout1d(_Dropout):
    """Dropout of whole channels of (N, C, L) or (C, L)."""

    def forward(self, input: Tensor) -> Tensor:
        """(N, C, L) or (C, L)."""
        return F.dropout1d(input, self.p, self.training, self.inplace)


class Dropout2d(_Dropout):
    """Dropout of whole channels of (N, C, H, W), or (N, C, L) with PyTorch's warning."""

    def forward(self, input: Tensor) -> Tensor:
        """(N, C, H, W), or with a warning (N, C, L), (N, C)."""
        return F.dropout2d(input, self.p, self.training, self.inplace)


class Dropout3d(_Dropout):
    """Dropout of whole channels of (N, C, D, H, W) or (C, D, H, W)."""

    def forward(self, input: Tensor) -> Tensor:
        """(N, C, D, H, W) or (C, D, H, W)."""
        return F.dropout3d(input, self.p, self.training, self.inplace)


class AlphaDropout(_Dropout):
    """Dropout that keeps mean and variance of SELU's output (Klambauer et al. 2017)."""

    def forward(self, input: Tensor) -> Tensor:
        """Any shape."""
        return F.alpha_dropout(input, self.p, self.training, self.inplace)


class FeatureAlphaDropout(_Dropout):
    """`AlphaDropout` of whole channels of (N, C, *)."""

    def forward(self, input: Tensor) -> Tensor:
        """(N, C, *), same shape out."""
        return F.feature_alpha_dropout(input, self.p, self.training, self.inplace)
