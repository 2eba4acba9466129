"""Attention: every query's mean of the values, weighted by how well their keys fit."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...dtypes import float32
from ..table.native_or_numpy import narrowed, widened
from ..table.op_definition import composite

NAME = "scaled_dot_product_attention"


def check_inputs(query: Any, key: Any, value: Any, mask: Any, is_causal: bool, p: float) -> None:
    """Raises RuntimeError unless the arguments go together."""
    for name, x in (("query", query), ("key", key), ("value", value)):
        if x.ndim < 2:
            raise RuntimeError(f"{NAME}: {name} needs 2 dimensions: {tuple(x.shape)}")
        if x.dtype != query.dtype:
            raise RuntimeError(f"{NAME}: dtypes differ: {query.dtype}, {name} {x.dtype}")
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
            f"{NAME}: expected attn_mask of dtype bool or query's: {mask.dtype}, {query.dtype}"
        )
    if mask.ndim < 2:
        raise IndexError(f"{NAME}: attn_mask needs 2 dimensions: {tuple(mask.shape)}")


def repeat_heads(ops: Any, query: Any, key: Any, value: Any) -> tuple[Any, Any]:
    """Key and value with each head repeated, so that they have as many as query."""
    shapes = [tuple(x.shape) for x in (query, key, value)]
    if any(len(shape) < 3 for shape in shapes):
        raise IndexError(f"{NAME}: enable_gqa needs heads, dimension -3: {shapes}")
    heads, *fewer = (shape[-3] for shape in shapes)
    if any(n == 0 or heads % n for n in fewer):
        raise RuntimeError(
            f"{NAME}: the number of heads in key and value must divide the one in query: {shapes}"
        )
    key, value = (
        x if n == heads else ops.repeat_interleave(x, heads // n, -3)
        for x, n in zip((key, value), fewer, strict=True)
    )
    return key, value


def added_mask(ops: Any, mask: Any, dtype: Any) -> tuple[Any, Any]:
    """The mask as numbers to add to the scores, and which queries may look nowhere.

    The numbers of such a query are 0, so that neither its weights nor their gradient are NaN.
    """
    if mask.dtype == np.bool_:
        blind = ops.logical_not(ops.any(mask, -1, True))
        zeros = ops.zeros(tuple(mask.shape), dtype=dtype)
        return ops._where(ops.logical_or(mask, blind), zeros, -math.inf), blind
    blind = ops.all(mask == -math.inf, -1, True)
    return ops._where_other(blind, mask, 0.0), blind


@composite(method=False, function=False, autocast="lower")
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
    """softmax(query @ key.T * scale + mask) @ value: (..., L, E), (..., S, E), (..., S, V) give
    (..., L, V).

    Args:
        attn_mask: bool (..., L, S), true where a query may look, or numbers that are added.
        dropout_p: each weight is 0 with this probability; the others are scaled up.
        is_causal: a query sees no key after its own place.
        scale: by default 1 / sqrt(E).
        enable_gqa: key and value have fewer heads (dimension -3), each for several of query's.

    A query that may look nowhere gives 0.

    Raises:
        RuntimeError: dtypes, shapes or numbers of heads do not go together; attn_mask together
            with is_causal; dropout_p is no probability.
    """
    check_inputs(query, key, value, attn_mask, is_causal, dropout_p)
    given = query.dtype
    if enable_gqa:
        key, value = repeat_heads(ops, query, key, value)
    query, key, value = (widened(ops, x) for x in (query, key, value))
    scale = 1 / math.sqrt(query.shape[-1] or 1) if scale is None else scale
    scores = ops.matmul(ops.mul(query, scale), ops.transpose(key, -2, -1))
    blind = None
    if is_causal:  # every query sees the first key
        ahead = np.full((query.shape[-2], key.shape[-2]), -math.inf, query.dtype)
        scores = ops.add(scores, np.triu(ahead, 1))
    elif attn_mask is not None:
        attn_mask, blind = added_mask(ops, widened(ops, attn_mask), query.dtype)
        scores = ops.add(scores, attn_mask)
    weights = ops._softmax(scores, -1)
    if dropout_p:
        weights = ops.dropout(weights, dropout_p)
    out = ops.matmul(weights, value)
    if blind is not None:
        out = ops._where_other(blind, out, 0.0)
    return narrowed(ops, out, given)
