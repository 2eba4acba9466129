"""Layers that compare two tensors: CosineSimilarity, PairwiseDistance."""

from __future__ import annotations

from ...tensor import Tensor
from .. import functional as F
from .module import Module

__all__ = ["CosineSimilarity", "PairwiseDistance"]


class PairwiseDistance(Module):
    """The p-norm of `x1 - x2 + eps` over the last dimension.

    Args:
        p: which norm; may be negative.
        eps: a small number that keeps the slope finite.
        keepdim: whether the last dimension stays, with size 1.
    """

    def __init__(self, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> None:
        super().__init__()
        self.norm = p
        self.eps = eps
        self.keepdim = keepdim

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        """(N, D) or (D,), twice, to (N,) or ()."""
        return F.pairwise_distance(x1, x2, self.norm, self.eps, self.keepdim)


class CosineSimilarity(Module):
    """`x1 @ x2 / (|x1| * |x2|)` along a dimension.

    Args:
        dim: the dimension.
        eps: the least that a length counts as.
    """

    def __init__(self, dim: int = 1, eps: float = 1e-8) -> None:
        super().__init__()
        self.dim = dim
        self.eps = eps

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        """(*, D, *), twice, to (*, *)."""
        return F.cosine_similarity(x1, x2, self.dim, self.eps)
