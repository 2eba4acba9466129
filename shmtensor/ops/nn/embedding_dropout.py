"""embedding, one_hot and dropout."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ... import native
from ..index.gather_scatter import check_index_range
from ..index.index_add import add_at_flat_indices, add_rows, flat_slice_indices
from ..random.philox import uniform
from ..random.rand_multinomial import claim
from ..table.check_dtypes import check_index_dtype
from ..table.op_table import composite, op
from ..table.samples import ints
from ..table.sizes import SMALL, check_size
from ..table.sparse_gradient import sparse_embedding_backward


@op(
    complex_gradients=True,
    samples=[((5, 3), ints((2, 4), 5), -1), ((5, 3), ints((), 5), 2)],
    halves="copies",
    vmap="embedding",
)
def _embedding(xp, weight, index, /, padding_idx=-1, sparse=False):
    """Rows of weight: (V, D) at (...) gives (..., D). sparse: the gradient is a SparseGradient."""
    rows = native.take(weight, index.reshape(-1), 0) if xp is np else None
    if rows is not None:
        return rows.reshape(*index.shape, *weight.shape[1:])
    check_index_range("embedding", index, weight.shape[0])
    return weight.take(index, 0)


@op(samples=[((4, 3), ints((4,), 5), 5, 2)])
def _embedding_dense_backward(xp, x, index, /, n, padding_idx):
    """n rows, with x added at the indices, except at padding_idx."""
    out = xp.zeros((n, x.shape[-1]), x.dtype)
    if not add_rows(out, index, x):
        add_at_flat_indices(
            xp, out, flat_slice_indices(xp, out.shape, 0, index).reshape(-1), x.reshape(-1)
        )
    if padding_idx >= 0:
        out[padding_idx] = 0
    return out


def embedding_double_backward(ops: Any, g: Any, index: Any, padding_idx: int) -> Any:
    """Rows of g at the indices, 0 at padding_idx."""
    rows = ops._embedding(g, index, padding_idx)
    if padding_idx < 0:
        return rows
    return ops._where_other(ops.unsqueeze(index == padding_idx, -1), rows, 0.0)


_embedding.pullback(
    weight=lambda ops, g, index, weight_shape, padding_idx, sparse: (
        sparse_embedding_backward(ops, g, index, weight_shape, padding_idx)
        if sparse
        else ops._embedding_dense_backward(g, index, weight_shape[0], padding_idx)
    )
)
_embedding_dense_backward.pullback(x=embedding_double_backward)


@composite(method=False, function=False)
def embedding(ops, input, weight, padding_idx=None, sparse=False):
    """Rows of a table (V, D) at indices (...): (..., D). The row padding_idx gets no gradient."""
    check_index_dtype("embedding", input)
    n = weight.shape[0]
    if padding_idx is not None and not -n <= padding_idx < n:
        raise AssertionError(f"embedding: padding_idx is out of range: {padding_idx}, {n} rows")
    return ops._embedding(weight, input, -1 if padding_idx is None else padding_idx % n, sparse)


@op(samples=[(ints((2, 3), 4), 5), (ints((4,), 3), -1)])
def _one_hot(xp, x, /, n):
    """For each class index a row of n numbers: 1 at the index, else 0."""
    if x.dtype != np.int64:
        raise RuntimeError(f"one_hot: class numbers are int64: {x.dtype.name}, hint: x.long()")
    if not x.size and n <= 0:
        raise RuntimeError("one_hot: num_classes is needed for an empty tensor")
    if x.size > SMALL:
        check_size("one_hot", (*x.shape, max(n, 1)))
    x = native.private_index(x)
    low, high = (int(x.min()), int(x.max())) if x.size else (0, n - 1)
    n = n if n != -1 else high + 1
    if low < 0 or high >= n:
        raise RuntimeError(f"one_hot: class is out of range: {low} to {high}, {n} classes")
    if x.size * n > SMALL:
        check_size("one_hot", (*x.shape, n))
    out = xp.zeros((x.size, n), np.int64)
    out[xp.arange(x.size), x.reshape(-1)] = 1
    return out.reshape(*x.shape, n)


@composite(method=False, function=False)
def one_hot(ops, tensor, num_classes=-1):
    """Class numbers as rows of zeros with one 1.

    Parameters
    ----------
    tensor : Tensor
        Whole numbers `(...)`, not negative.
    num_classes : int, optional
        How many classes there are; by default the largest number + 1.

    Returns
    -------
    Tensor
        `(..., num_classes)`, int64.

    Raises
    ------
    RuntimeError
        A number is not a class.

    See Also
    --------
    embedding

    Examples
    --------
    >>> F.one_hot(st.tensor([2, 0]))
    tensor([[0, 0, 1],
            [1, 0, 0]])
    >>> F.one_hot(st.tensor([0]), num_classes=4)
    tensor([[1, 0, 0, 0]])
    """
    return ops._one_hot(tensor, num_classes)


@op(
    numpy=native.dropout,
    saves="mask",
    samples=[((3, 4), 0.3, 7, 0), ((300,), 0.5, 1, 9)],
    layout="like",
)
def _dropout(xp, x, /, p, seed, offset):
    """x / (1 - p) where a random number is at least p, else 0. The numbers are those of
    `philox.uniform`.
    """
    mask = xp.asarray(uniform(seed, offset, x.size, np.float32) >= np.float32(p)).reshape(x.shape)
    return xp.where(mask, x * x.dtype.type(1 / (1 - p)), xp.zeros((), x.dtype)), mask


_dropout.pullback(x=lambda ops, g, mask, p: ops._masked_scale(g, mask, 1 / (1 - p)))


@composite(method=False)
def dropout(ops, input, p=0.5, train=True):
    """In training each element is 0 with probability p; the others are scaled by 1 / (1 - p).

    Parameters
    ----------
    input : Tensor
        Of any shape, with a floating-point dtype.
    p : float, optional
        Probability of an element to be 0, from 0 to 1.
    train : bool, optional
        False returns the input itself.

    Returns
    -------
    Tensor
        Of the input's shape and dtype.

    Raises
    ------
    ValueError
        p is not within 0 and 1.
    RuntimeError
        The input has whole numbers.

    See Also
    --------
    nn.functional.dropout

    Examples
    --------
    >>> sorted(set(st.dropout(st.ones(100), 0.5, train=True).tolist()))
    [0.0, 2.0]
    """
    if not 0.0 <= p <= 1.0:
        raise ValueError(f"dropout: the probability must be from 0 to 1: {p}")
    if not train or p == 0.0:
        return input
    if p == 1.0:
        return ops.mul(input, 0 if input.dtype.kind in "iu" else 0.0)
    if input.dtype.kind in "iub":
        raise RuntimeError(f"dropout: a float result does not fit into {input.dtype.name}: p={p}")
    seed, offset = claim(None, math.prod(input.shape), False, input)
    return ops._dropout(input, p, seed, offset)
