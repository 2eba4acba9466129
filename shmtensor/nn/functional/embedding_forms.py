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
    """Rows of a table by their numbers, with the table first: `nn.functional.embedding`.

    Parameters
    ----------
    weight : Tensor
        The table: `(n, dim)`.
    indices : Tensor
        Whole numbers of any shape `(...)`.
    padding_idx : int, optional
        A row that receives no gradient; -1 for none.
    scale_grad_by_freq : bool, optional
        Whether each row's gradient is divided by how often the row was looked up.
    sparse : bool, optional
        Whether the gradient of a leaf `weight` is a sparse tensor.

    Returns
    -------
    Tensor
        `(..., dim)`.

    Examples
    --------
    >>> st.embedding(st.tensor([[0., 1.], [10., 11.]]), st.tensor([1]))
    tensor([[10., 11.]])
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
    """The sum, mean or maximum of the rows of a table in each bag, and the bags.

    Parameters
    ----------
    weight : Tensor
        The table: `(n, dim)`.
    indices : Tensor
        `(n_indices,)`: the rows of all bags, one after another.
    offsets : Tensor
        `(bags,)`: where each bag begins in it.
    scale_grad_by_freq : bool, optional
        Whether each row's gradient is divided by how often the row was looked up.
    mode : int, optional
        0: sum, 1: mean, 2: maximum.
    sparse : bool, optional
        Whether the gradient of a leaf `weight` is a sparse tensor.
    per_sample_weights : Tensor, optional
        `(n_indices,)`: factors of the rows, for sums.
    include_last_offset : bool, optional
        Whether `offsets` has one more element, the end of the last bag.
    padding_idx : int, optional
        A row that is ignored.

    Returns
    -------
    tuple of Tensor
        The result `(bags, dim)`; the bag of each index `(n_indices,)`; the size of each bag
        `(bags,)`; for the maximum the row of each number `(bags, dim)`, else the sizes again.

    Raises
    ------
    ValueError
        Another mode, or shapes that do not fit.

    Examples
    --------
    >>> table = st.tensor([[0., 1.], [10., 11.], [20., 21.]])
    >>> st.embedding_bag(table, st.tensor([0, 2, 1]), st.tensor([0, 2]))[0]
    tensor([[20., 22.],
            [10., 11.]])
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
