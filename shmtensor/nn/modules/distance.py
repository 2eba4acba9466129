"""Distances between vectors: PairwiseDistance, CosineSimilarity."""

from __future__ import annotations

from ...tensor import Tensor
from .. import functional as F
from .module import Module

__all__ = ["CosineSimilarity", "PairwiseDistance"]


class PairwiseDistance(Module):
    """The p-norm of `x1 - x2 + eps` over the last dimension.

    Parameters
    ----------
    p : float, optional
        The order of the norm.
    eps : float, optional
        Added to each difference, so that the gradient at 0 is defined.
    keepdim : bool, optional
        Whether the last dimension stays, with size 1.

    Notes
    -----
    Shape: two tensors `(N, D)` or `(D,)`, to `(N,)` or `()`.

    Examples
    --------
    >>> nn.PairwiseDistance(eps=0.0)(st.tensor([[3., 4.]]), st.zeros(1, 2)).round()
    tensor([5.])
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

    Parameters
    ----------
    dim : int, optional
        The dimension of the vectors.
    eps : float, optional
        The least length that a vector is divided by.

    See Also
    --------
    functional.cosine_similarity

    Examples
    --------
    >>> nn.CosineSimilarity()(st.tensor([[1., 0.], [3., 4.]]), st.tensor([[0., 2.]]))
    tensor([0.0000, 0.8000])
    """

    def __init__(self, dim: int = 1, eps: float = 1e-8) -> None:
        super().__init__()
        self.dim = dim
        self.eps = eps

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        """Two tensors that broadcast, to their shape without dim."""
        return F.cosine_similarity(x1, x2, self.dim, self.eps)
