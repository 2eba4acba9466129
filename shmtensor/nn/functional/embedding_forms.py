"""`shmtensor.embedding` and `shmtensor.embedding_bag`, which take the weight first."""

from __future__ import annotations

from ...autograd import no_grad
from ...functions import arange
from ...tensor import Tensor
from .linear_embedding_attention import embedding as _embedding
from .linear_embedding_attention import embedding_bag as _embedding_bag

__all__ = ["embedding", "embedding_bag"]

_MODES = ("sum", "mean", "max")


def embedding(
    weight: Tensor,
    indices: Tensor,
    padding_idx: int = -1,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Tensor:
    """Rows of weight (n, dim) by integers of shape (*): (*, dim).

    Args:
        padding_idx: the gradient of this row is 0; -1: of none.
    """
    return _embedding(
        indices,
        weight,
        None if padding_idx == -1 else padding_idx,
        scale_grad_by_freq=scale_grad_by_freq,
        sparse=sparse,
    )


def embedding_bag(
    weight: Tensor,
    indices: Tensor,
    offsets: Tensor,
    scale_grad_by_freq: bool = False,
    mode: int = 0,
    sparse: bool = False,
    per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The sum, mean or maximum of the rows of weight (n, dim) in each bag, and the bags.

    Args:
        indices: (n_indices,), the rows of all bags one after another.
        offsets: where each bag begins in it.
        mode: 0: sum, 1: mean, 2: maximum.
        padding_idx: this row is ignored.

    Returns: the result (bags, dim); the bag of each index (n_indices,); the size of each bag
        (bags,); for the maximum the row of each number (bags, dim), else the sizes again.

    Raises: ValueError for another mode or shapes that do not fit.
    """
    if mode not in range(len(_MODES)):
        raise ValueError(f"embedding_bag: mode must be 0 (sum), 1 (mean) or 2 (max): {mode}")
    output = _embedding_bag(
        indices,
        weight,
        offsets,
        scale_grad_by_freq=scale_grad_by_freq,
        mode=_MODES[mode],
        sparse=sparse,
        per_sample_weights=per_sample_weights,
        include_last_offset=include_last_offset,
        padding_idx=padding_idx,
    )
    with no_grad():
        n, bags = indices.shape[0], output.shape[0]
        bag = (arange(n, device=offsets.device).unsqueeze(1) >= offsets[:bags]).sum(1) - 1
        mask = indices == indices if padding_idx is None else indices != padding_idx
        sizes = offsets.new_zeros(bags).index_add(0, bag, mask.to(offsets.dtype))
        if mode != 2:
            return output, bag, sizes, sizes
        rows = indices.new_zeros(output.shape)
        for i in range(bags):
            bag_indices = indices[(bag == i) & mask]
            if bag_indices.numel():
                rows[i] = bag_indices[weight[bag_indices].argmax(0)]
        return output, bag, sizes, rows
