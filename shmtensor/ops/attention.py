"""Attention: every query's mean of the values, weighted by how well their keys fit."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .kernels import narrowed, widened
from .table import composite


def mask_of(ops: Any, scores: Any, mask: Any) -> tuple[Any, Any]:
    """The scores with what is masked at -infinity, and which queries see nothing (or None)."""
    if mask.dtype == np.bool_:
        scores = ops.choose(mask, scores, -math.inf)
    else:
        scores = ops.add(scores, mask)
    return scores, ops.all(scores == -math.inf, -1, True)


@composite(method=False, function=False)
def scaled_dot_product_attention(
    ops,
    query,
    key,
    value,
    attn_mask=None,
    dropout_p=0.0,
    is_causal=False,
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
    """
    for name, x in (("query", query), ("key", key), ("value", value)):
        if x.ndim < 2:
            raise RuntimeError(
                f"scaled_dot_product_attention: {name} needs 2 dimensions: {tuple(x.shape)}"
            )
        if x.dtype != query.dtype:
            raise RuntimeError(
                f"scaled_dot_product_attention: dtypes differ: {query.dtype}, {name} {x.dtype}"
            )
    if is_causal and attn_mask is not None:
        raise RuntimeError(
            "scaled_dot_product_attention: give attn_mask or is_causal=True, not both: "
            f"{tuple(attn_mask.shape)}"
        )
    given = query.dtype
    query, key, value = (widened(ops, x) for x in (query, key, value))
    if enable_gqa:
        n = query.shape[-3] // key.shape[-3]
        key = ops.repeat_interleave(key, n, -3)
        value = ops.repeat_interleave(value, query.shape[-3] // value.shape[-3], -3)
    scale = 1 / math.sqrt(query.shape[-1] or 1) if scale is None else scale
    scores = ops.matmul(ops.mul(query, scale), ops.transpose(key, -2, -1))
    blind = None
    if is_causal:
        attn_mask = np.tri(query.shape[-2], key.shape[-2], dtype=bool)
    if attn_mask is not None:
        scores, blind = mask_of(ops, scores, attn_mask)
        scores = ops.replace(blind, scores, 0.0)  # so that no gradient passes a NaN
    weights = ops.softmax_along(scores, -1)
    if blind is not None:
        weights = ops.replace(blind, weights, 0.0)
    if dropout_p:
        weights = ops.dropout(weights, dropout_p)
    return narrowed(ops, ops.matmul(weights, value), given)
