"""Matrix products and look-ups: linear, bilinear, embedding, one_hot; distances between vectors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...autograd import no_grad
from ...autograd import table as ops
from ...tensor import Tensor

__all__ = [
    "bilinear",
    "cosine_similarity",
    "embedding",
    "linear",
    "normalize",
    "one_hot",
    "pairwise_distance",
]

linear: Callable[..., Any] = ops.linear
one_hot: Callable[..., Any] = ops.one_hot


def bilinear(input1: Tensor, input2: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """`x1 @ weight[k] @ x2 + bias[k]`: (..., n), (..., m), (k, n, m), (k,) to (..., k)."""
    k, n, m = weight.shape
    rows = input1.matmul(weight.permute(1, 0, 2).reshape(n, k * m))
    rows = rows.reshape(*input1.shape[:-1], k, m)
    out: Tensor = (rows * input2.unsqueeze(-2)).sum(-1)
    return out if bias is None else out + bias


def embedding(
    input: Tensor,
    weight: Tensor,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Tensor:
    """Rows of weight (n, dim) by integers of shape (*): (*, dim)."""
    if max_norm is not None:
        with no_grad():
            rows = input.reshape(-1).unique()
            norms = weight[rows].norm(norm_type, -1, keepdim=True)
            weight[rows] = weight[rows] * (max_norm / (norms + 1e-7)).clamp(max=1)
    out: Tensor = ops.embedding(input, weight, padding_idx)
    if scale_grad_by_freq and out.requires_grad:
        counts = input.reshape(-1).bincount(minlength=weight.shape[0])
        share = (1 / counts[input].to(weight.dtype)).unsqueeze(-1)
        out = out * share + out.detach() * (1 - share)  # the value of out, its gradient scaled
    return out


def normalize(input: Tensor, p: float = 2.0, dim: int = 1, eps: float = 1e-12) -> Tensor:
    """x over its norm along dim."""
    return input / input.norm(p, dim, keepdim=True).clamp(min=eps)


def cosine_similarity(x1: Tensor, x2: Tensor, dim: int = 1, eps: float = 1e-8) -> Tensor:
    """The cosine of the angle between vectors along dim."""
    x1, x2 = ops.broadcast_tensors(x1, x2)
    n1 = x1.norm(2, dim, keepdim=True).clamp(min=eps)
    n2 = x2.norm(2, dim, keepdim=True).clamp(min=eps)
    return (x1 / n1 * (x2 / n2)).sum(dim)


def pairwise_distance(
    x1: Tensor, x2: Tensor, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False
) -> Tensor:
    """The p-norm of x1 - x2 + eps over the last dimension."""
    return (x1 - x2 + eps).norm(p, -1, keepdim=keepdim)
