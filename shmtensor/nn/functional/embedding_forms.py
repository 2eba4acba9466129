"""`shmtensor.embedding` and `shmtensor.embedding_bag`: the look-ups with the weight first."""

from __future__ import annotations

from ...autograd import no_grad
from ...functions import arange, zeros
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
    """The rows of weight (n, dim) in each bag together, and which these are.

    Args:
        indices: (n_indices,), the rows of all bags one after another.
        offsets: where each bag begins in it.
        mode: 0: their sum, 1: their mean, 2: their maximum.
        padding_idx: this row counts for nothing.

    Returns: the result (bags, dim); the bag of each index (n_indices,); the size of each bag
        (bags,); for the maximum the row that each number is from (bags, dim), else the sizes
        again.

    Raises: ValueError for another mode or shapes that do not belong together.
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
        bag = (arange(n).unsqueeze(1) >= offsets[:bags]).sum(1) - 1
        counted = indices == indices if padding_idx is None else indices != padding_idx
        sizes = zeros(bags, dtype=offsets.dtype).index_add(0, bag, counted.to(offsets.dtype))
        if mode != 2:
            return output, bag, sizes, sizes
        rows = zeros(output.shape, dtype=indices.dtype)
        for i in range(bags):
            own = indices[(bag == i) & counted]
            if own.numel():
                rows[i] = own[weight[own].argmax(0)]
        return output, bag, sizes, rows
