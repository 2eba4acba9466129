"""Scaled dot product attention."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...dtypes import float32
from ..table.constants import filled, zeros
from ..table.native_or_numpy import restore_half, upcast_half
from ..table.op_table import composite

NAME = "scaled_dot_product_attention"


def check_inputs(query: Any, key: Any, value: Any, mask: Any, is_causal: bool, p: float) -> None:
    """Raises RuntimeError unless the arguments match."""
    for name, x in (("query", query), ("key", key), ("value", value)):
        if x.ndim < 2:
            raise RuntimeError(f"{NAME}: {name} needs 2 dimensions: {tuple(x.shape)}")
        if x.dtype != query.dtype:
            raise RuntimeError(f"{NAME}: dtypes differ: {query.dtype.name}, {name} {x.dtype.name}")
    if not 0.0 <= p <= 1.0:
        raise RuntimeError(f"{NAME}: dropout probability has to be between 0 and 1: {p}")
    if mask is None:
        return
    if is_causal:
        raise RuntimeError(
            f"{NAME}: give attn_mask or is_causal=True, not both: {tuple(mask.shape)}"
        )
    if mask.dtype not in (np.bool_, float32, query.dtype):
        raise RuntimeError(
            f"{NAME}: expected attn_mask of dtype bool or query's: {mask.dtype.name}, "
            f"{query.dtype.name}"
        )
    if mask.ndim < 2:
        raise IndexError(f"{NAME}: attn_mask needs 2 dimensions: {tuple(mask.shape)}")


def repeat_heads(ops: Any, query: Any, key: Any, value: Any) -> tuple[Any, Any]:
    """Key and value with each head repeated, so that they have as many as query."""
    shapes = [tuple(x.shape) for x in (query, key, value)]
    if any(len(shape) < 3 for shape in shapes):
        raise IndexError(f"{NAME}: enable_gqa needs heads, dimension -3: {shapes}")
    heads, *kv_heads = (shape[-3] for shape in shapes)
    if any(n == 0 or heads % n for n in kv_heads):
        raise RuntimeError(
            f"{NAME}: the number of heads in key and value must divide the one in query: {shapes}"
        )
    key, value = (
        x if n == heads else ops.repeat_interleave(x, heads // n, -3)
        for x, n in zip((key, value), kv_heads, strict=True)
    )
    return key, value


def additive_mask(ops: Any, mask: Any, dtype: Any) -> tuple[Any, Any]:
    """The mask as numbers to add to the scores, and the queries that may attend to no key.

    The numbers of such a query are 0, so that neither its weights nor their gradient are NaN.
    """
    if mask.dtype == np.bool_:
        is_masked_out = ops.logical_not(ops.any(mask, -1, True))
        no_change = zeros(ops, tuple(mask.shape), dtype, mask)
        return ops._where(ops.logical_or(mask, is_masked_out), no_change, -math.inf), is_masked_out
    is_masked_out = ops.all(mask == -math.inf, -1, True)
    return ops._where_other(is_masked_out, mask, 0.0), is_masked_out


@composite(autocast_cuda="lower", method=False, function=False, autocast="lower")
def scaled_dot_product_attention(
    ops,
    query,
    key,
    value,
    attn_mask=None,
    dropout_p=0.0,
    is_causal=False,
    *,
    scale=None,
    enable_gqa=False,
):
    """softmax(query @ key.T * scale + mask) @ value: each query's mean of the values, by its
    likeness to the keys (Vaswani et al. 2017).

    Parameters
    ----------
    query : Tensor
        `(..., L, E)`, as a rule `(N, heads, L, E)`.
    key : Tensor
        `(..., S, E)`.
    value : Tensor
        `(..., S, V)`.
    attn_mask : Tensor, optional
        `(..., L, S)`: bool, true where a query may attend, or numbers to add.
    dropout_p : float, optional
        Each weight is 0 with this probability, also in evaluation; the others are scaled up.
    is_causal : bool, optional
        Whether a query attends to no key after its own position.
    scale : float, optional
        1 / sqrt(E) by default.
    enable_gqa : bool, optional
        Whether key and value may have fewer heads (dimension -3), each for several of query's.

    Returns
    -------
    Tensor
        `(..., L, V)`. It is 0 for a query that may attend to no key.

    Raises
    ------
    RuntimeError
        Dtypes, shapes or numbers of heads do not match; attn_mask together with is_causal;
        dropout_p is not a probability.

    See Also
    --------
    nn.MultiheadAttention, nn.attention.bias.causal_lower_right

    Examples
    --------
    >>> query, key = st.zeros(1, 2, 4), st.zeros(1, 2, 4)
    >>> value = st.tensor([[[1.], [3.]]])
    >>> F.scaled_dot_product_attention(query, key, value)
    tensor([[[2.],
             [2.]]])
    >>> F.scaled_dot_product_attention(query, key, value, is_causal=True)
    tensor([[[1.],
             [2.]]])
    """
    check_inputs(query, key, value, attn_mask, is_causal, dropout_p)
    dtype = query.dtype
    if enable_gqa:
        key, value = repeat_heads(ops, query, key, value)
    query, key, value = (upcast_half(ops, x) for x in (query, key, value))
    scale = 1 / math.sqrt(query.shape[-1] or 1) if scale is None else scale
    scores = ops.matmul(ops.mul(query, scale), ops.transpose(key, -2, -1))
    is_masked_out = None
    if is_causal:  # every query sees the first key
        causal_mask = filled((query.shape[-2], key.shape[-2]), -math.inf, query.dtype, query)
        triu = np.triu if isinstance(causal_mask, np.ndarray) else ops.triu
        scores = ops.add(scores, triu(causal_mask, 1))
    elif attn_mask is not None:
        attn_mask, is_masked_out = additive_mask(ops, upcast_half(ops, attn_mask), query.dtype)
        scores = ops.add(scores, attn_mask)
    weights = ops._softmax(scores, -1)
    if dropout_p:
        weights = ops.dropout(weights, dropout_p)
    out = ops.matmul(weights, value)
    if is_masked_out is not None:
        out = ops._where_other(is_masked_out, out, 0.0)
    return restore_half(ops, out, dtype)
