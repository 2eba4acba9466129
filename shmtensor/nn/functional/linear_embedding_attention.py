"""Matrix products and look-ups: linear, bilinear, embedding, one_hot, attention; distances between
vectors.
"""

from __future__ import annotations

import math
import warnings
from typing import Any

from ...autograd import no_grad
from ...autograd.dispatch.autocast import in_precisions
from ...dtypes import float32, promote_types
from ...ops.table.check_dtypes import check_index_dtype
from ...tensor import Tensor
from . import from_table as ops
from .from_table import (
    linear,
    multi_head_attention_forward,
    one_hot,
    pdist,
    scaled_dot_product_attention,
)

__all__ = [
    "bilinear",
    "cosine_similarity",
    "embedding",
    "embedding_bag",
    "linear",
    "multi_head_attention_forward",
    "normalize",
    "one_hot",
    "pairwise_distance",
    "pdist",
    "scaled_dot_product_attention",
]


def _canonical_mask(
    mask: Tensor | None,
    mask_name: str,
    other_type: Any,
    other_name: str,
    target_type: Any,
    check_other: bool = True,
) -> Tensor | None:
    """A mask as numbers to add: a bool one as -infinity where it is true, else 0.

    Args:
        other_type: the dtype of another mask, or None. If `check_other`, this function warns if it
            is not mask's.
        target_type: the dtype of the numbers.
    """
    if mask is None:
        return None
    if mask.dtype.kind not in "fb":
        raise AssertionError(
            f"only bool and floating types of {mask_name} are supported: {mask.dtype.name}"
        )
    if check_other and other_type is not None and mask.dtype != other_type:
        warnings.warn(
            f"Support for mismatched {mask_name} and {other_name} is deprecated: "
            f"{mask.dtype.name}, "
            f"{other_type}, hint: use the same type for both",
            UserWarning,
            stacklevel=3,
        )
    if mask.dtype.kind == "f":
        return mask
    return mask.new_zeros(mask.shape, dtype=target_type).masked_fill(mask, -math.inf)


@in_precisions(cpu="alone", cuda="widest")
def bilinear(input1: Tensor, input2: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """A form of two inputs for each output: `x1 @ weight[k] @ x2 + bias[k]`.

    Parameters
    ----------
    input1 : Tensor
        `(..., n)`.
    input2 : Tensor
        `(..., m)`.
    weight : Tensor
        `(k, n, m)`.
    bias : Tensor, optional
        `(k,)`.

    Returns
    -------
    Tensor
        `(..., k)`.

    See Also
    --------
    linear, nn.Bilinear

    Examples
    --------
    >>> F.bilinear(st.tensor([1., 2.]), st.tensor([3., 4.]), st.ones(1, 2, 2))
    tensor([21.])
    """
    k, n, m = weight.shape
    rows = input1.matmul(weight.permute(1, 0, 2).reshape(n, k * m))
    rows = rows.reshape(*input1.shape[:-1], k, m)
    out: Tensor = rows.matmul(input2.unsqueeze(-1)).squeeze(-1)
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
    """Rows of a table by their numbers.

    Parameters
    ----------
    input : Tensor
        Whole numbers of any shape `(...)`.
    weight : Tensor
        The table: `(n, dim)`.
    padding_idx : int, optional
        A row that receives no gradient.
    max_norm : float, optional
        Rows that are looked up are first scaled down to this norm, in place.
    norm_type : float, optional
        The order of that norm.
    scale_grad_by_freq : bool, optional
        Whether each row's gradient is divided by how often the row was looked up.
    sparse : bool, optional
        Whether the gradient of weight, if that is a leaf, is a sparse tensor of these rows alone.

    Returns
    -------
    Tensor
        `(..., dim)`.

    Raises
    ------
    RuntimeError
        weight has not two dimensions.
    IndexError
        A number is not one of a row.

    See Also
    --------
    embedding_bag, one_hot, nn.Embedding

    Examples
    --------
    >>> table = st.tensor([[0., 1.], [10., 11.], [20., 21.]])
    >>> F.embedding(st.tensor([2, 0]), table)
    tensor([[20., 21.],
            [ 0.,  1.]])
    """
    if weight.ndim != 2:
        raise RuntimeError(f"embedding: weight must be 2-d: {tuple(weight.shape)}")
    if max_norm is not None:
        _renorm_rows(input, weight, max_norm, norm_type)
    out: Tensor = ops.embedding(input, weight, padding_idx, sparse)
    if scale_grad_by_freq and out.requires_grad:
        counts = input.reshape(-1).bincount(minlength=weight.shape[0])
        share = (1 / counts[input].to(weight.dtype)).unsqueeze(-1)
        out = out * share + out.detach() * (1 - share)  # the value of out, its gradient scaled
    return out


def _renorm_rows(input: Tensor, weight: Tensor, max_norm: float, norm_type: float) -> None:
    """Scales the rows that are looked up to a norm of at most max_norm, in place."""
    with no_grad():
        rows = input.reshape(-1).unique()
        norms = weight[rows].norm(norm_type, -1, keepdim=True)
        weight[rows] = weight[rows] * (max_norm / (norms + 1e-7)).clamp(max=1)


def embedding_bag(
    input: Tensor,
    weight: Tensor,
    offsets: Tensor | None = None,
    max_norm: float | None = None,
    norm_type: float = 2,
    scale_grad_by_freq: bool = False,
    mode: str = "mean",
    sparse: bool = False,
    per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> Tensor:
    """The sum, mean or maximum of a table's rows in each bag of numbers.

    Parameters
    ----------
    input : Tensor
        Whole numbers: `(bags, n)`, or a vector of all bags.
    weight : Tensor
        The table: `(rows, dim)`.
    offsets : Tensor, optional
        `(bags,)`: where each bag begins in the vector.
    max_norm : float, optional
        Rows that are looked up are first scaled down to this norm, in place.
    norm_type : float, optional
        The order of that norm.
    scale_grad_by_freq : bool, optional
        Whether each row's gradient is divided by how often the row was looked up.
    mode : str, optional
        "sum", "mean" or "max".
    sparse : bool, optional
        Whether the gradient of weight, if that is a leaf, is a sparse tensor of these rows alone;
        not with mode "max".
    per_sample_weights : Tensor, optional
        Factors of the input's shape, for mode "sum".
    include_last_offset : bool, optional
        Whether the last offset is the end of the last bag.
    padding_idx : int, optional
        A row that is ignored.

    Returns
    -------
    Tensor
        `(bags, dim)`.

    Raises
    ------
    ValueError
        Shapes or arguments do not go together.

    See Also
    --------
    embedding, nn.EmbeddingBag

    Examples
    --------
    >>> table = st.tensor([[1., 2.], [10., 20.], [100., 200.]])
    >>> F.embedding_bag(st.tensor([0, 1, 2]), table, st.tensor([0, 2]), mode="sum")
    tensor([[ 11.,  22.],
            [100., 200.]])
    """
    if mode == "max" and (scale_grad_by_freq or sparse):
        raise ValueError(
            "embedding_bag: mode 'max' takes neither scale_grad_by_freq nor sparse: "
            f"{scale_grad_by_freq}, {sparse}"
        )
    check_index_dtype("embedding_bag", input)
    if max_norm is not None:
        _renorm_rows(input, weight, max_norm, norm_type)
    args = (offsets, mode, per_sample_weights, include_last_offset, padding_idx, sparse)
    out: Tensor = ops._embedding_bag(input, weight, *args)
    if scale_grad_by_freq and out.requires_grad:
        counts = input.reshape(-1).bincount(minlength=weight.shape[0]).clamp(min=1)
        share = (1 / counts.to(weight.dtype)).unsqueeze(-1)
        scaled = weight * share + weight.detach() * (1 - share)  # weight, its gradient scaled
        out = ops._embedding_bag(input, scaled, *args)
    return out


def normalize(input: Tensor, p: float = 2.0, dim: int = 1, eps: float = 1e-12) -> Tensor:
    """x over its norm along a dimension.

    Parameters
    ----------
    input : Tensor
        Of any shape.
    p : float, optional
        The order of the norm.
    dim : int, optional
        The dimension of the vectors.
    eps : float, optional
        The least norm that a vector is divided by.

    Returns
    -------
    Tensor
        Of the input's shape; the vectors have norm 1.

    See Also
    --------
    cosine_similarity

    Examples
    --------
    >>> F.normalize(st.tensor([[3., 4.], [0., 2.]]))
    tensor([[0.6000, 0.8000],
            [0.0000, 1.0000]])
    >>> F.normalize(st.tensor([1., 3.]), p=1.0, dim=0)
    tensor([0.2500, 0.7500])
    """
    return input / input.norm(p, dim, keepdim=True).clamp(min=eps)


def cosine_similarity(x1: Tensor, x2: Tensor, dim: int = 1, eps: float = 1e-8) -> Tensor:
    """The cosine of the angle between vectors along a dimension.

    Parameters
    ----------
    x1, x2 : Tensor
        Of shapes that broadcast.
    dim : int, optional
        The dimension of the vectors.
    eps : float, optional
        The least length that a vector is divided by.

    Returns
    -------
    Tensor
        Of the shape of both together, without `dim`, in the dtype of both together.

    Raises
    ------
    RuntimeError
        That dtype is not a floating-point one.

    See Also
    --------
    cosine_embedding_loss, nn.CosineSimilarity

    Examples
    --------
    >>> F.cosine_similarity(st.tensor([[1., 0.], [3., 4.]]), st.tensor([[0., 2.]]))
    tensor([0.0000, 0.8000])
    """
    common = promote_types(x1.dtype, x2.dtype)
    if common.kind != "f":
        raise RuntimeError(
            f"cosine_similarity: the common dtype must be floating point: {x1.dtype.name}, "
            f"{x2.dtype.name}"
        )
    if x1.shape != x2.shape:
        x1, x2 = ops.broadcast_tensors(x1, x2)
    if dim not in (-1, x1.dim() - 1):
        x1, x2 = x1.movedim(dim, -1), x2.movedim(dim, -1)
    return _cosine_of_rows(x1, x2, eps, False)


def _cosine_of_rows(x1: Tensor, x2: Tensor, eps: float, is_added: bool) -> Tensor:
    """The cosines of vectors in the last dimension of two tensors of one shape. Norms are at least
    eps, or with is_added the roots of the sum of squares and eps. 16-bit floats are computed in
    float32.
    """
    common = promote_types(x1.dtype, x2.dtype)
    wide = float32 if common.kind == "f" and common.itemsize == 2 else common
    cosine = ops._cosine_similarity(x1.to(wide), x2.to(wide), eps, is_added)
    return cosine.to(common) if wide is not common else cosine


def pairwise_distance(
    x1: Tensor, x2: Tensor, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False
) -> Tensor:
    """The p-norm of `x1 - x2 + eps` over the last dimension.

    Parameters
    ----------
    x1, x2 : Tensor
        `(N, D)` or `(D,)`, of shapes that broadcast.
    p : float, optional
        The order of the norm.
    eps : float, optional
        Added to each difference, so that the gradient at 0 is defined.
    keepdim : bool, optional
        Whether the last dimension stays, with size 1.

    Returns
    -------
    Tensor
        `(N,)` or `()`; with keepdim `(N, 1)` or `(1,)`.

    See Also
    --------
    cdist, pdist, nn.PairwiseDistance

    Examples
    --------
    >>> F.pairwise_distance(st.tensor([[3., 4.]]), st.zeros(1, 2), eps=0.0).round()
    tensor([5.])
    """
    difference = x1 - x2
    difference = difference.add_(eps) if difference.is_floating_point() else difference + eps
    return difference.norm(p, -1, keepdim=keepdim)
