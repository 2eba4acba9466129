"""multi_head_attention_forward (Vaswani and others 2017): projections, masks and heads."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np

from ..table.constants import zeros
from ..table.op_table import composite
from . import scaled_dot_product_attention as sdpa

NAME = "multi_head_attention_forward"
Shape = tuple[int, ...]


def check(condition: bool, message: str) -> None:
    """Raises AssertionError, as PyTorch does here, unless the condition holds."""
    if not condition:
        raise AssertionError(f"{NAME}: {message}")


def shape_of(x: Any) -> Shape:
    return tuple(x.shape)


def check_ranks(query: Any, key: Any, value: Any, padding: Any, mask: Any, heads: int) -> None:
    """Raises AssertionError unless either all inputs have a batch dimension or none has."""
    n = query.ndim
    shapes = [shape_of(x) for x in (query, key, value)]
    check(
        n in (2, 3),
        f"query should be unbatched 2D or batched 3D tensor but received {n}-D query tensor: "
        f"{shapes[0]}",
    )
    check(
        key.ndim == value.ndim == n,
        f"for {n}-D query, expected key and value to be {n}-D: {shapes[1]}, {shapes[2]}",
    )
    check(
        padding is None or padding.ndim == n - 1,
        f"for {n}-D query, expected key_padding_mask to be None or {n - 1}-D: "
        f"{padding is not None and shape_of(padding)}",
    )
    check(
        mask is None or mask.ndim in (2, 3),
        f"expected attn_mask to be None, 2-D or 3-D: {mask is not None and shape_of(mask)}",
    )
    if n == 2 and mask is not None and mask.ndim == 3:
        expected = (heads, shapes[0][0], shapes[1][0])
        check(
            shape_of(mask) == expected,
            f"expected attn_mask shape to be {expected} but got {shape_of(mask)}",
        )


def additive_mask(ops: Any, name: str, mask: Any, dtype: Any) -> Any:
    """A mask as numbers to add: -infinity where a bool mask is true."""
    if mask is None or mask.dtype.kind == "f":
        return mask
    check(mask.dtype == np.bool_, f"only bool and floating types of {name} are supported: "
           f"{mask.dtype.name}")  # fmt: skip
    return ops._where_other(mask, zeros(ops, shape_of(mask), dtype, mask), -math.inf)


def in_projection_packed(
    ops: Any, query: Any, key: Any, value: Any, weight: Any, bias: Any
) -> tuple[Any, ...]:
    """Query, key and value projected by one weight (3 E, E); in one product if they are equal."""
    if query is key is value:
        return tuple(ops.chunk(ops.linear(query, weight, bias), 3, -1))
    weights = ops.chunk(weight, 3)
    biases = (None,) * 3 if bias is None else ops.chunk(bias, 3)
    parts = zip((query, key, value), weights, biases, strict=True)
    return tuple(ops.linear(x, w, b) for x, w, b in parts)


def in_projection(ops: Any, inputs: tuple[Any, ...], weights: tuple[Any, ...], bias: Any) -> Any:
    """Query, key and value, each projected by its own weight (E, its size)."""
    n = inputs[0].shape[-1]
    for name, x, w in zip("qkv", inputs, weights, strict=True):
        check(w is not None, f"use_separate_proj_weight is True but {name}_proj_weight is None")
        check(
            shape_of(w) == (n, x.shape[-1]),
            f"expecting {name}_proj_weight of shape {(n, x.shape[-1])}, but got {shape_of(w)}",
        )
    biases = (None,) * 3 if bias is None else ops.chunk(bias, 3)
    return tuple(ops.linear(x, w, b) for x, w, b in zip(inputs, weights, biases, strict=True))


def pad_mask(ops: Any, mask: Any) -> Any:
    """A mask with one more key, which every query may attend to."""
    return None if mask is None else ops.pad(mask, (0, 1))


def split_heads(ops: Any, x: Any, batch: int, heads: int) -> Any:
    """(L, N, E) as (N * heads, L, E / heads)."""
    length, size = x.shape[0], x.shape[2] // heads
    return ops.transpose(ops.reshape(x, (length, batch * heads, size)), 0, 1)


def check_static(name: str, x: Any, batch: int, size: int) -> Any:
    """Checks a static key or value: (N * heads, S, E / heads)."""
    check(
        x.ndim == 3 and (x.shape[0], x.shape[2]) == (batch, size),
        f"expecting {name} of shape ({batch}, any, {size}), but got {shape_of(x)}",
    )
    return x


@composite(method=False, function=False)
def multi_head_attention_forward(
    ops,
    query,
    key,
    value,
    embed_dim_to_check,
    num_heads,
    in_proj_weight,
    in_proj_bias,
    bias_k,
    bias_v,
    add_zero_attn,
    dropout_p,
    out_proj_weight,
    out_proj_bias,
    training=True,
    key_padding_mask=None,
    need_weights=True,
    attn_mask=None,
    use_separate_proj_weight=False,
    q_proj_weight=None,
    k_proj_weight=None,
    v_proj_weight=None,
    static_k=None,
    static_v=None,
    average_attn_weights=True,
    is_causal=False,
):
    """The function of `nn.MultiheadAttention`, with its parameters as arguments.

    Parameters
    ----------
    query : Tensor
        `(L, N, E)` or `(L, E)`.
    key, value : Tensor
        `(S, N, E)` or `(S, E)`.
    embed_dim_to_check : int
        E, which must be query's last size.
    num_heads : int
        Number of heads.
    in_proj_weight, in_proj_bias : Tensor or None
        `(3 * E, E)`, `(3 * E,)`: the projections of query, key and value.
    bias_k, bias_v : Tensor or None
        `(1, 1, E)`: a further key and its value.
    add_zero_attn : bool
        Whether a further key and value of zeros are added.
    dropout_p : float
        Each weight is 0 with this probability, if `training`.
    out_proj_weight, out_proj_bias : Tensor
        `(E, E)`, `(E,)`: the projection of the result.
    training : bool, optional
        Whether dropout works.
    key_padding_mask : Tensor, optional
        `(N, S)` or `(S)`: true where a key is ignored, or numbers to add.
    need_weights : bool, optional
        Whether the weights are returned.
    attn_mask : Tensor, optional
        `(L, S)` or `(N * heads, L, S)`: true where a query must not attend, or numbers to add.
    use_separate_proj_weight : bool, optional
        Whether the three following weights replace in_proj_weight.
    q_proj_weight, k_proj_weight, v_proj_weight : Tensor, optional
        `(E, E)`, `(E, key's size)`, `(E, value's size)`.
    static_k, static_v : Tensor, optional
        `(N * heads, S, E / heads)`, instead of projected ones.
    average_attn_weights : bool, optional
        Whether the weights are the mean over the heads.
    is_causal : bool, optional
        Whether attn_mask is the causal one; without need_weights and key_padding_mask, the mask
        itself is not read.

    Returns
    -------
    (out, weights) : Tensor, Tensor or None
        `(L, N, E)` or `(L, E)`, and `(N, L, S)` or `(N, heads, L, S)`, or None if not
        `need_weights`.

    Raises
    ------
    AssertionError
        Shapes or arguments do not match.
    RuntimeError
        attn_mask has another shape; is_causal without it.

    See Also
    --------
    nn.MultiheadAttention, scaled_dot_product_attention

    Examples
    --------
    >>> x = st.ones(3, 1, 4)
    >>> out, weights = F.multi_head_attention_forward(
    ...     x, x, x, 4, 2, st.ones(12, 4), None, None, None, False, 0.0, st.eye(4), None
    ... )
    >>> out.shape, weights.shape
    (Size([3, 1, 4]), Size([1, 3, 3]))
    """
    check_ranks(query, key, value, key_padding_mask, attn_mask, num_heads)
    is_unbatched = query.ndim == 2
    if is_unbatched:
        is_self_attention = query is key is value
        query = ops.unsqueeze(query, 1)
        key, value = (
            (query, query) if is_self_attention else (ops.unsqueeze(x, 1) for x in (key, value))
        )
        if key_padding_mask is not None:
            key_padding_mask = ops.unsqueeze(key_padding_mask, 0)
    length, batch, size = shape_of(query)
    masks = [x.dtype for x in (key_padding_mask, attn_mask) if x is not None]
    if len(set(masks)) == 2:
        warnings.warn(
            f"{NAME}: mismatched key_padding_mask and attn_mask is deprecated: {masks}, use the "
            "same type for both",
            UserWarning,
            stacklevel=2,
        )
    if is_causal and attn_mask is None:
        raise RuntimeError(
            f"{NAME}: Need attn_mask if specifying the is_causal hint: is_causal={is_causal}, "
            "hint: Transformer.generate_square_subsequent_mask makes it"
        )
    is_causal = is_causal and key_padding_mask is None and not need_weights
    padding = additive_mask(ops, "key_padding_mask", key_padding_mask, query.dtype)
    mask = None if is_causal else additive_mask(ops, "attn_mask", attn_mask, query.dtype)
    check(
        size == embed_dim_to_check,
        f"was expecting embedding dimension of {embed_dim_to_check}, but got {size}",
    )
    check(size % num_heads == 0, f"embed_dim {size} not divisible by num_heads {num_heads}")
    common_dims = 2 if use_separate_proj_weight else 3
    check(
        shape_of(key)[:common_dims] == shape_of(value)[:common_dims],
        f"key shape {shape_of(key)} does not match value shape {shape_of(value)}",
    )
    if use_separate_proj_weight:
        weights = (q_proj_weight, k_proj_weight, v_proj_weight)
        q, k, v = in_projection(ops, (query, key, value), weights, in_proj_bias)
    else:
        check(
            in_proj_weight is not None,
            "use_separate_proj_weight is False but in_proj_weight is None",
        )
        q, k, v = in_projection_packed(ops, query, key, value, in_proj_weight, in_proj_bias)
    if mask is not None:
        n_masks = 1 if mask.ndim == 2 else batch * num_heads
        expected = (*(() if mask.ndim == 2 else (n_masks,)), length, key.shape[0])
        if shape_of(mask) != expected:
            raise RuntimeError(
                f"{NAME}: The shape of the {mask.ndim}D attn_mask is {shape_of(mask)}, but should "
                f"be {expected}"
            )
        mask = ops.reshape(mask, (n_masks, length, key.shape[0]))
    check((bias_k is None) == (bias_v is None), "bias_k and bias_v are given together or not")
    if bias_k is not None:
        check(static_k is None and static_v is None, "bias cannot be added to static key or value")
        k, v = (ops.cat([x, ops.repeat(b, (1, batch, 1))]) for x, b in ((k, bias_k), (v, bias_v)))
        mask, padding = pad_mask(ops, mask), pad_mask(ops, padding)
    head_dim = size // num_heads
    q = split_heads(ops, q, batch, num_heads)
    k, v = (
        split_heads(ops, x, batch, num_heads)
        if s is None
        else check_static(name, s, batch * num_heads, head_dim)
        for name, x, s in (("static_k", k, static_k), ("static_v", v, static_v))
    )
    if add_zero_attn:
        no_key = zeros(ops, (batch * num_heads, 1, head_dim), k.dtype, k)
        k, v = (ops.cat([x, no_key], 1) for x in (k, v))
        mask, padding = pad_mask(ops, mask), pad_mask(ops, padding)
    keys = k.shape[1]
    if padding is not None:
        check(
            shape_of(padding) == (batch, keys),
            f"expected key_padding_mask of shape {(batch, keys)}, but got {shape_of(padding)}",
        )
        wide = ops.expand(ops.reshape(padding, (batch, 1, 1, keys)), (-1, num_heads, -1, -1))
        padding = ops.reshape(wide, (batch * num_heads, 1, keys))
        mask = padding if mask is None else ops.add(mask, padding)
    dropout_p = dropout_p if training else 0.0
    if need_weights:
        scores = ops.bmm(ops.mul(q, math.sqrt(1 / head_dim)), ops.transpose(k, -2, -1))
        is_masked_out = None
        if mask is not None:
            mask, is_masked_out = sdpa.additive_mask(ops, mask, mask.dtype)
            scores = ops.add(scores, mask)
        attention_weights = ops._softmax(scores, -1)
        if is_masked_out is not None:  # weights of 0, as without need_weights
            attention_weights = ops._where_other(is_masked_out, attention_weights, 0.0)
        if dropout_p:
            attention_weights = ops.dropout(attention_weights, dropout_p)
        out = ops.bmm(attention_weights, v)
        attention_weights = ops.reshape(attention_weights, (batch, num_heads, length, keys))
        attention_weights = (
            ops.mean(attention_weights, 1) if average_attn_weights else attention_weights
        )
        attention_weights = ops.squeeze(attention_weights, 0) if is_unbatched else attention_weights
    else:
        heads = (batch, num_heads)
        if mask is not None:
            mask = ops.reshape(mask, (*(heads if mask.shape[0] > 1 else (1, 1)), -1, keys))
        q, k, v = (ops.reshape(x, (*heads, *x.shape[1:])) for x in (q, k, v))
        out = ops.scaled_dot_product_attention(q, k, v, mask, dropout_p, is_causal)
        out = ops.reshape(out, (batch * num_heads, length, head_dim))
        attention_weights = None
    out = ops.reshape(ops.transpose(out, 0, 1), (length, batch, size))
    out = ops.linear(out, out_proj_weight, out_proj_bias)
    return (ops.squeeze(out, 1) if is_unbatched else out), attention_weights
