"""Scaled dot product attention.

On the CPU `_attention` computes it without the matrix of scores (kernels/nn/attention.cc); a
gradient that is differentiated itself, and other devices, compose it of other ops, with the matrix.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ... import native
from ...dtypes import float32, float64
from ..random.philox import uniform
from ..random.rand_multinomial import claim
from ..table.constants import filled, on_device, zeros
from ..table.native_or_numpy import restore_half, upcast_half
from ..table.op_table import composite, op

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


def check_heads(query: Any, key: Any, value: Any) -> None:
    """Raises unless the heads of key and value can serve those of query."""
    shapes = [tuple(x.shape) for x in (query, key, value)]
    if any(len(shape) < 3 for shape in shapes):
        raise IndexError(f"{NAME}: enable_gqa needs heads, dimension -3: {shapes}")
    heads, *kv_heads = (shape[-3] for shape in shapes)
    if any(n == 0 or heads % n for n in kv_heads):
        raise RuntimeError(
            f"{NAME}: the number of heads in key and value must divide the one in query: {shapes}"
        )


def repeat_heads(ops: Any, query: Any, key: Any, value: Any) -> tuple[Any, Any]:
    """Key and value with each head repeated, so that they have as many as query."""
    heads = query.shape[-3]
    key, value = (
        x if x.shape[-3] == heads else ops.repeat_interleave(x, heads // x.shape[-3], -3)
        for x in (key, value)
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


def attention_weights(
    ops: Any, query: Any, key: Any, mask: Any, scale: Any, is_causal: bool
) -> tuple[Any, Any]:
    """softmax(query @ key.T * scale + mask), and the queries that may attend to no key or None."""
    scores = ops.matmul(ops.mul(query, scale), ops.transpose(key, -2, -1))
    is_masked_out = None
    if is_causal:  # every query sees the first key
        causal_mask = filled((query.shape[-2], key.shape[-2]), -math.inf, query.dtype, query)
        triu = np.triu if isinstance(causal_mask, np.ndarray) else ops.triu
        scores = ops.add(scores, triu(causal_mask, 1))
    elif mask is not None:
        mask, is_masked_out = additive_mask(ops, mask, query.dtype)
        scores = ops.add(scores, mask)
    return ops._softmax(scores, -1), is_masked_out


def kept_weights(ops: Any, weights: Any, p: float, seed: int, offset: int) -> Any:
    """0 where a weight is dropped, else 1 / (1 - p): the random numbers of `_attention`, whose rows
    of weights take ceil(n / 4) counters each.
    """
    n = weights.shape[-1]
    ones = filled((*weights.shape[:-1], -(-n // 4) * 4), 1.0, weights.dtype, weights)
    return ops.narrow(ops._dropout(ones, p, seed, offset), -1, 0, n)


def sum_groups(ops: Any, x: Any, heads: int) -> Any:
    """The sums of consecutive matrices in dimension -3, so that `heads` remain."""
    if x.shape[-3] == heads:
        return x
    shape = (*x.shape[:-3], heads, x.shape[-3] // heads, *x.shape[-2:])
    return ops.sum(ops.reshape(x, shape), -3)


@op(
    outputs="out",
    saves="logsumexp",
    inplace=False,
    native=lambda xs, *options: native.attention(*xs, *(None,) * (4 - len(xs)), *options),
    samples=[
        ([(2, 3, 4), (2, 5, 4), (2, 5, 3)], 0.5, False, 0.0, 0, 0),
        ([(2, 4, 5, 3), (2, 2, 5, 3), (2, 2, 5, 2)], 1.0, True, 0.0, 0, 0),
        ([(3, 4), (6, 4), (6, 2), (3, 6)], 0.7, False, 0.0, 0, 0),
        ([(2, 3, 4), (2, 5, 4), (2, 5, 3), (1, 5)], 0.5, False, 0.4, 7, 3),
    ],
)
def _attention(xp, xs: list[Any], /, scale, is_causal, p, seed, offset):
    """xs: query, key, value, of equal batches up to groups of heads, and optionally a mask.

    Saves the logarithm of the sum of exponentials of each query's scores.
    """
    query, key, value, *masks = xs
    if query.ndim > 2 and key.shape[-3] != query.shape[-3]:
        group = query.shape[-3] // key.shape[-3]
        key, value = xp.repeat(key, group, -3), xp.repeat(value, group, -3)
    scores = xp.matmul(query * scale, key.swapaxes(-1, -2))
    if is_causal:
        masks = [xp.tri(*scores.shape[-2:], dtype=bool)]
    for mask in masks:
        scores = xp.where(mask, scores, -xp.inf) if mask.dtype == bool else scores + mask
    top = scores.max(-1, keepdims=True)
    top = xp.where(top == -xp.inf, 0, top)
    weights = xp.exp(scores - top)
    total = weights.sum(-1, keepdims=True)
    is_masked_out = total == 0
    weights = weights / xp.where(is_masked_out, 1, total)
    logsumexp = xp.where(is_masked_out, xp.inf, top + xp.log(xp.where(is_masked_out, 1, total)))
    if p:
        n = weights.shape[-1]
        shape = (*weights.shape[:-1], -(-n // 4) * 4)
        numbers = uniform(seed, offset, math.prod(shape), np.float32).reshape(shape)[..., :n]
        numbers = xp.asarray(numbers)
        weights = xp.where(numbers >= np.float32(p), weights / (1 - p), 0)
    return xp.matmul(weights, value).astype(query.dtype), logsumexp[..., 0].astype(query.dtype)


def attention_gradients(
    ops: Any, needed: tuple[tuple[bool, ...]], g: Any, xs: Any, out: Any, logsumexp: Any,
    scale: float, is_causal: bool, p: float, seed: int, offset: int,
) -> tuple[list[Any]]:  # fmt: skip
    """The gradients of query, key, value and the mask: by the kernel, but that of the mask and all
    that have history by composition.
    """
    options = scale, is_causal, p, seed, offset
    is_mask_needed, gradients = any(needed[0][3:]), None
    if isinstance(g, np.ndarray):
        g, out, logsumexp, *operands = (upcast_half(ops, x) for x in (g, out, logsumexp, *xs))
        operands.extend([None] * (4 - len(xs)))
        gradients = native.call(native.attention_backward, g, out, logsumexp, *operands, *options)
        if gradients is not None and not is_mask_needed:
            return ([*gradients, *(None for _ in xs[3:])],)
    mask = xs[3] if len(xs) > 3 else None
    composed = composed_gradients(
        ops, g, xs[0], xs[1], xs[2], mask, scale, is_causal, p, seed, offset
    )
    return ([*(gradients or composed[:3]), *composed[3 : len(xs)]],)


def composed_gradients(
    ops: Any, g: Any, query: Any, key: Any, value: Any, mask: Any, scale: float, is_causal: bool,
    p: float, seed: int, offset: int,
) -> list[Any]:  # fmt: skip
    """The gradients of query, key, value and the mask, None without one of numbers."""
    heads = None if query.ndim < 3 or key.shape[-3] == query.shape[-3] else key.shape[-3]
    if heads:
        key, value = repeat_heads(ops, query, key, value)
    weights, is_masked_out = attention_weights(ops, query, key, mask, scale, is_causal)
    if is_masked_out is not None:
        weights = ops._where_other(is_masked_out, weights, 0.0)
    g_weights, kept = ops.matmul(g, ops.transpose(value, -2, -1)), weights
    if p:
        factors = kept_weights(ops, weights, p, seed, offset)
        g_weights, kept = ops.mul(g_weights, factors), ops.mul(weights, factors)
    g_scores = ops._softmax_backward_data(g_weights, weights, -1)
    g_query = ops.mul(ops.matmul(g_scores, key), scale)
    g_key = ops.mul(ops.matmul(ops.transpose(g_scores, -2, -1), query), scale)
    g_value = ops.matmul(ops.transpose(kept, -2, -1), g)
    if heads:
        g_key, g_value = sum_groups(ops, g_key, heads), sum_groups(ops, g_value, heads)
    has_numbers = mask is not None and mask.dtype != np.bool_
    g_mask = ops._sum_to_size(g_scores, tuple(mask.shape)) if has_numbers else None
    return [g_query, g_key, g_value, g_mask]


_attention.joint_pullback(attention_gradients, xs="xs")


def is_fused(query: Any, key: Any, value: Any, mask: Any, p: float) -> bool:
    """Whether `_attention` computes it: on the CPU, and if no batch is broadcast."""
    batch, kv_batch = tuple(query.shape[:-2]), tuple(key.shape[:-2])
    n, depth = key.shape[-2:]
    return (
        not any(on_device(x) for x in (query, key, value, mask) if x is not None)
        and query.dtype in (float32, float64)
        and p < 1
        and 0 not in (*query.shape, *key.shape, *value.shape)
        and tuple(value.shape[:-1]) == (*kv_batch, n)
        and depth == query.shape[-1]
        and kv_batch[:-1] == batch[:-1]
        and (not batch or batch[-1] % kv_batch[-1] == 0)
        and (
            mask is None
            or (
                mask.ndim <= query.ndim
                and mask.shape[-1] == n
                and all(
                    own in (1, other)
                    for own, other in zip(
                        reversed(mask.shape[:-1]), reversed(query.shape[:-1]), strict=False
                    )
                )
            )
        )
    )


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
        check_heads(query, key, value)
    query, key, value, attn_mask = (upcast_half(ops, x) for x in (query, key, value, attn_mask))
    scale = 1 / math.sqrt(query.shape[-1] or 1) if scale is None else scale
    has_equal_heads = query.ndim < 3 or query.shape[-3] == key.shape[-3] == value.shape[-3]
    if (enable_gqa or has_equal_heads) and is_fused(query, key, value, attn_mask, dropout_p):
        masks = () if attn_mask is None else (attn_mask,)
        if attn_mask is not None and attn_mask.dtype == float32 != query.dtype:
            masks = (ops._to_copy(attn_mask, query.dtype),)
        seed = offset = 0
        if dropout_p:
            n = math.prod(query.shape[:-1]) * (-(-key.shape[-2] // 4) * 4)
            seed, offset = claim(None, n, False, query)
        out = ops._attention([query, key, value, *masks], scale, is_causal, dropout_p, seed, offset)
        return restore_half(ops, out, dtype)
    if enable_gqa:
        key, value = repeat_heads(ops, query, key, value)
    weights, is_masked_out = attention_weights(ops, query, key, attn_mask, scale, is_causal)
    if dropout_p:
        weights = ops.dropout(weights, dropout_p)
    out = ops.matmul(weights, value)
    if is_masked_out is not None:
        out = ops._where_other(is_masked_out, out, 0.0)
    return restore_half(ops, out, dtype)
