"""Attention of several heads against its definition, head by head."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import shmtensor as st
from shmtensor.nn import functional

random = np.random.default_rng(29)
E, H, L, S, N = 6, 2, 3, 4, 2
W, B = random.normal(size=(3 * E, E)), random.normal(size=3 * E)
OUT, BIAS = random.normal(size=(E, E)), random.normal(size=E)
QUERY, KEY, VALUE = (random.normal(size=(n, N, E)) for n in (L, S, S))
EXTRA_K, EXTRA_V = random.normal(size=(1, 1, E)), random.normal(size=(1, 1, E))
PADDING = np.array([[False, False, True, False], [False, True, False, False]])
MASK = np.array([[False, True, False, False], [True, False, False, True], [False] * 4])
SCORES = random.normal(size=(N * H, L, S))

Case = dict[str, Any]


def softmax(x: Any) -> Any:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def defined(q: Any, k: Any, v: Any, mask: Any, weights: Any = None) -> tuple[Any, Any]:
    """(result, weights of each head), of (L, N, E) and a mask (N, H, L, S) to be added."""
    weights = (W[:E], W[E : 2 * E], W[2 * E :]) if weights is None else weights
    q, k, v = (x @ w.T + b for x, w, b in zip((q, k, v), weights, np.split(B, 3)))
    part, shares, out = E // H, np.zeros((N, H, L, len(k))), np.zeros((L, N, E))
    for n, h in np.ndindex(N, H):
        head = slice(h * part, (h + 1) * part)
        shares[n, h] = softmax(q[:, n, head] @ k[:, n, head].T / np.sqrt(part) + mask[n, h])
        out[:, n, head] = shares[n, h] @ v[:, n, head]
    return out @ OUT.T + BIAS, shares


def attend(
    q: Any = QUERY, k: Any = KEY, v: Any = VALUE, w: Any = W, k1: Any = None, v1: Any = None,
    zero: bool = False, **kwargs: Any,
) -> Any:  # fmt: skip
    tensors = [None if x is None else st.tensor(x) for x in (q, k, v, w, B, k1, v1)]
    kwargs = {n: st.tensor(x) if isinstance(x, np.ndarray) else x for n, x in kwargs.items()}
    return functional.multi_head_attention_forward(
        *tensors[:3], E, H, *tensors[3:], zero, 0.0, st.tensor(OUT), st.tensor(BIAS), **kwargs
    )


def minus(mask: Any) -> Any:
    return np.where(mask, -np.inf, 0.0)


NOTHING = np.zeros((N, H, L, S))
MASKS: dict[str, tuple[Case, Any]] = {
    "none": ({}, NOTHING),
    "padding": ({"key_padding_mask": PADDING}, NOTHING + minus(PADDING)[:, None, None]),
    "mask": ({"attn_mask": MASK}, NOTHING + minus(MASK)),
    "scores": ({"attn_mask": SCORES}, SCORES.reshape(N, H, L, S)),
    "both": (
        {"attn_mask": MASK, "key_padding_mask": PADDING},
        minus(MASK) + minus(PADDING)[:, None, None] + NOTHING,
    ),
    "causal": (
        {"attn_mask": ~np.tri(L, S, dtype=bool), "is_causal": True},
        NOTHING + minus(~np.tri(L, S, dtype=bool)),
    ),
}


@pytest.mark.parametrize("name", MASKS)
def test_heads_follow_their_definition(name: str) -> None:
    kwargs, mask = MASKS[name]
    expected, weights = defined(QUERY, KEY, VALUE, mask)
    out, average = attend(**kwargs)
    assert np.allclose(out.numpy(), expected)
    assert np.allclose(average.numpy(), weights.mean(1))
    assert np.allclose(attend(average_attn_weights=False, **kwargs)[1].numpy(), weights)
    out, no_weights = attend(need_weights=False, **kwargs)
    assert np.allclose(out.numpy(), expected)
    assert no_weights is None


def test_one_tensor_for_all_three() -> None:
    x = random.normal(size=(L, N, E))
    tensor = st.tensor(x)
    args = (E, H, st.tensor(W), st.tensor(B), None, None, False, 0.0, st.tensor(OUT))
    out, _ = functional.multi_head_attention_forward(tensor, tensor, tensor, *args, st.tensor(BIAS))
    assert np.allclose(out.numpy(), defined(x, x, x, np.zeros((N, H, L, L)))[0])
    one, weights = functional.multi_head_attention_forward(
        *(tensor[:, 0],) * 3, *args, st.tensor(BIAS)
    )
    assert np.allclose(one.numpy(), out.numpy()[:, 0])
    assert weights.shape == (L, L)


def test_without_a_batch() -> None:
    out, average = attend(key_padding_mask=PADDING)
    for n in range(N):
        one, weights = attend(QUERY[:, n], KEY[:, n], VALUE[:, n], key_padding_mask=PADDING[n])
        assert np.allclose(one.numpy(), out.numpy()[:, n])
        assert np.allclose(weights.numpy(), average.numpy()[n])


def test_further_keys() -> None:
    masks = {"attn_mask": MASK, "key_padding_mask": PADDING}
    mask = np.pad(MASKS["both"][1], ((0, 0),) * 3 + ((0, 1),))
    out, average = attend(k1=EXTRA_K, v1=EXTRA_V, **masks)
    keys = [np.concatenate([x, np.zeros((1, N, E))]) for x in (KEY, VALUE)]
    weights = W[:E], W[E : 2 * E], W[2 * E :]
    solved = [np.linalg.solve(w, (x[0, 0] - b)) for x, w, b in zip(
        (EXTRA_K, EXTRA_V), weights[1:], np.split(B, 3)[1:])]  # fmt: skip
    for x, last in zip(keys, solved):
        x[-1] = last  # is projected to the additional key
    expected, head_weights = defined(QUERY, *keys, mask)
    assert np.allclose(out.numpy(), expected)
    assert np.allclose(average.numpy(), head_weights.mean(1))
    for x, w, b in zip(keys, weights[1:], np.split(B, 3)[1:]):
        x[-1] = np.linalg.solve(w, -b)
    assert np.allclose(attend(zero=True, **masks)[0].numpy(), defined(QUERY, *keys, mask)[0])


def test_separate_and_static_projections() -> None:
    sizes = (E, 5, 7)
    weights = [random.normal(size=(E, n)) for n in sizes]
    q, k, v = (random.normal(size=(x.shape[0], N, n)) for x, n in zip((QUERY, KEY, VALUE), sizes))
    kwargs = {f"{n}_proj_weight": w for n, w in zip("qkv", weights)}
    result = attend(q, k, v, None, use_separate_proj_weight=True, **kwargs)
    assert np.allclose(result[0].numpy(), defined(q, k, v, NOTHING, weights)[0])
    projected = [(x @ w.T + b).reshape(S, N * H, E // H).swapaxes(0, 1) for x, w, b in zip(
        (KEY, VALUE), (W[E : 2 * E], W[2 * E :]), np.split(B, 3)[1:])]  # fmt: skip
    result = attend(QUERY, 0 * KEY, 0 * VALUE, static_k=projected[0], static_v=projected[1])
    assert np.allclose(result[0].numpy(), attend()[0].numpy())


def test_dropout_is_for_training() -> None:
    tensors = [st.tensor(x) for x in (QUERY, KEY, VALUE)]
    args = (E, H, st.tensor(W), None, None, None, False, 0.5, st.tensor(OUT), None)
    still = [functional.multi_head_attention_forward(*tensors, *args, False)[0] for _ in range(2)]
    assert np.array_equal(*(x.numpy() for x in still))
    weights = functional.multi_head_attention_forward(*tensors, *args, average_attn_weights=False)[
        1
    ]
    dropped = weights.numpy() == 0
    assert dropped.any()
    assert not dropped.all()


@pytest.mark.parametrize("blind", [True, np.array([[True] * S, *[[False] * S] * (L - 1)])])
def test_a_fully_masked_query_has_no_gradient(blind: Any) -> None:
    """And no NaN: as in scaled_dot_product_attention, the result is 0 there."""
    mask = np.broadcast_to(blind, (L, S)).copy()
    x = st.tensor(QUERY, requires_grad=True)
    args = [st.tensor(a) for a in (KEY, VALUE, W, B)]
    out, _ = functional.multi_head_attention_forward(
        x, *args[:2], E, H, *args[2:], None, None, False, 0.0, st.tensor(OUT), st.tensor(BIAS),
        need_weights=False, attn_mask=st.tensor(mask),
    )  # fmt: skip
    out.square().sum().backward()
    assert np.allclose(out.detach().numpy()[0], BIAS)
    assert not x.grad.numpy()[mask.all(1)].any()
    assert x.grad.numpy()[~mask.all(1)].all()


WRONG: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "rank": (lambda: attend(QUERY[None]), AssertionError, r"4-D query tensor: \(1, 3, 2, 6\)"),
    "ranks": (lambda: attend(k=KEY[0]), AssertionError, r"3-D: \(2, 6\), \(4, 2, 6\)"),
    "padding": (lambda: attend(key_padding_mask=PADDING[0]), AssertionError, r"2-D: \(4,\)"),
    "padding's shape": (
        lambda: attend(key_padding_mask=PADDING[:, :2]), AssertionError, r"\(2, 4\), but got",
    ),
    "mask": (lambda: attend(attn_mask=MASK[0]), AssertionError, r"2-D or 3-D: \(4,\)"),
    "mask's shape": (lambda: attend(attn_mask=MASK.T), RuntimeError, r"\(4, 3\), but should be"),
    "a mask a head": (
        lambda: attend(attn_mask=SCORES[:2]), RuntimeError, r"3D attn_mask is \(2, 3, 4\)",
    ),
    "alone": (
        lambda: attend(QUERY[:, 0], KEY[:, 0], VALUE[:, 0], attn_mask=SCORES), AssertionError,
        r"\(2, 3, 4\) but got \(4, 3, 4\)",
    ),
    "mask's dtype": (
        lambda: attend(attn_mask=MASK.astype("int64")), AssertionError, "attn_mask .*: int64",
    ),
    "causal": (lambda: attend(is_causal=True), RuntimeError, "Need attn_mask"),
    "size": (lambda: attend(QUERY[..., :4]), AssertionError, "dimension of 6, but got 4"),
    "value": (lambda: attend(v=VALUE[:2]), AssertionError, r"\(4, 2, 6\) .* \(2, 2, 6\)"),
    "weight": (lambda: attend(w=None), AssertionError, "in_proj_weight is None"),
    "separate": (
        lambda: attend(use_separate_proj_weight=True), AssertionError, "q_proj_weight is None",
    ),
    "half a bias": (lambda: attend(k1=EXTRA_K), AssertionError, "given together"),
    "static": (lambda: attend(static_k=SCORES[..., :1]), AssertionError, r"static_k .*\(4, 3, 1\)"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_wrong_use_is_named(name: str) -> None:
    wrong, error, message = WRONG[name]
    with pytest.raises(error, match=message):
        wrong()


def test_mixed_masks_are_deprecated() -> None:
    with pytest.warns(UserWarning, match="mismatched"):
        attend(attn_mask=SCORES, key_padding_mask=PADDING)
