"""Distances between vectors: PairwiseDistance, CosineSimilarity."""

from __future__ import annotations

from ...tensor import Tensor
from .. import functional as F
from .module import Module

__all__ = ["CosineSimilarity", "PairwiseDistance"]


class PairwiseDistance(Module):
    """The p-norm of `x1 - x2 + eps` over the last dimension.

    Args:
        p: the order of the norm.
        eps: added to each difference, so that the gradient at 0 is defined.
        keepdim: whether the last dimension stays, with size 1.
    """

    def __init__(self, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> None:
        super().__init__()
        self.norm = p
        self.eps = eps
        self.keepdim = keepdim

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        """(N, D) or (D,), one of them also broadcast, to (N,) or ()."""
        return F.pairwise_distance(x1, x2, self.norm, self.eps, self.keepdim)


class CosineSimilarity(Module):
    """The cosine of the angle between vectors along one dimension.

    Args:
        dim: the dimension of the vectors.
        eps: the least length that a vector is divided by.
    """

    def __init__(self, dim: int = 1, eps: float = 1e-8) -> None:
        super().__init__()
        self.dim = dim
        self.eps = eps

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        """Two tensors that broadcast, to their shape without dim."""
        return F.cosine_similarity(x1, x2, self.dim, self.eps)
