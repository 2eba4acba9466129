"""A query that may attend to no key, with need_weights=True: weights of 0 and finite gradients."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import shmtensor as st
from shmtensor import nn

N, L, S, E, HEADS = 2, 3, 4, 8, 2


def mask_of(kind: str) -> Any:
    """True, or -infinity, at all keys of query 1."""
    mask = st.zeros(L, S, dtype=st.bool)
    mask[1] = True
    if "per head" in kind:
        mask = mask.expand(N * HEADS, L, S).clone()
    return mask if "bool" in kind else st.zeros(mask.shape).masked_fill(mask, -np.inf)


def padding_of(kind: str) -> Any:
    """True, or -infinity, at all keys of example 0."""
    mask = st.zeros(N, S, dtype=st.bool)
    mask[0] = True
    return mask if kind == "bool" else st.zeros(N, S).masked_fill(mask, -np.inf)


MASKS = ["bool", "float", "bool per head", "float per head"]
# attn_mask and key_padding_mask of one type, because mixed ones are warned of
KINDS = [
    *((mask, None) for mask in MASKS),
    *((None, padding) for padding in ("bool", "float")),
    *((mask, mask.split()[0]) for mask in MASKS),
]


@pytest.mark.parametrize("average", [True, False])
@pytest.mark.parametrize("batch_first", [True, False])
@pytest.mark.parametrize(("mask", "padding"), KINDS)
def test_gradients_are_finite(mask: Any, padding: Any, batch_first: bool, average: bool) -> None:
    masks = {
        "attn_mask": None if mask is None else mask_of(mask),
        "key_padding_mask": None if padding is None else padding_of(padding),
    }
    for dropout, sizes in itertools.product([0.0, 0.5], [{}, {"kdim": 5, "vdim": 6}]):
        layer = nn.MultiheadAttention(E, HEADS, batch_first=batch_first, dropout=dropout, **sizes)
        inputs = [
            st.randn(*((N, n, e) if batch_first else (n, N, e))).requires_grad_()
            for n, e in ((L, E), (S, sizes.get("kdim", E)), (S, sizes.get("vdim", E)))
        ]
        out, weights = layer(*inputs, **masks, average_attn_weights=average)
        masked_out = weights[:, 1] if average else weights[:, :, 1]
        assert not masked_out.any() if mask else not weights[0].any()
        (out.square().sum() + weights.square().sum()).backward()
        for x in (*layer.parameters(), *inputs):
            assert x.grad is not None
            assert np.isfinite(x.grad.numpy()).all()
        layer.eval()
        with_weights = layer(*inputs, **masks, average_attn_weights=average)[0]
        without = layer(*inputs, **masks, need_weights=False)[0]
        assert np.allclose(with_weights.detach().numpy(), without.detach().numpy(), atol=1e-5)


def test_the_gradient_is_that_of_the_other_queries() -> None:
    layer = nn.MultiheadAttention(E, HEADS, batch_first=True)
    x, key = st.randn(N, L, E), st.randn(N, S, E)
    gradients = []
    for need_weights in (True, False):
        layer.zero_grad()
        out, _ = layer(x, key, key, attn_mask=mask_of("bool"), need_weights=need_weights)
        out[:, [0, 2]].square().sum().backward()
        gradients.append([p.grad.numpy().copy() for p in layer.parameters()])
    for one, other in zip(*gradients, strict=True):
        assert np.allclose(one, other, atol=1e-5)
