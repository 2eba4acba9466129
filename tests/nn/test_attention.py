"""The causal masks of nn.attention against NumPy, and what sdpa_kernel takes."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

import shmtensor as st
from shmtensor import nn
from shmtensor.nn.attention import WARN_FOR_UNFUSED_KERNELS, SDPBackend, sdpa_kernel
from shmtensor.nn.attention.bias import (
    CausalBias,
    CausalVariant,
    causal_lower_right,
    causal_upper_left,
)
from shmtensor.nn.functional import scaled_dot_product_attention


@pytest.mark.parametrize(("make", "diagonal"), [(causal_upper_left, 0), (causal_lower_right, 2)])
def test_a_causal_bias_is_a_mask(make, diagonal) -> None:
    bias = make(3, 5)
    mask = np.tri(3, 5, diagonal, dtype=bool)
    assert np.array_equal(bias.numpy(), mask)
    q, k, v = st.randn(2, 3, 4), st.randn(2, 5, 4), st.randn(2, 5, 6)
    out = scaled_dot_product_attention(q, k, v, bias)
    assert type(out) is st.Tensor
    scores = np.where(mask, q.numpy() @ k.numpy().swapaxes(1, 2) / 2, -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    expected = weights / weights.sum(-1, keepdims=True) @ v.numpy()
    assert np.allclose(out.numpy(), expected, atol=1e-5)
    for copied in (copy.deepcopy(bias), pickle.loads(pickle.dumps(bias))):
        assert isinstance(copied, CausalBias)
        assert (copied.variant, copied.seq_len_q, copied.seq_len_kv) == (bias.variant, 3, 5)


def test_wrong_masks_are_named() -> None:
    with pytest.raises(AssertionError, match=r"\(3,\)"):
        causal_lower_right(3)
    with pytest.raises(AssertionError, match="int"):
        CausalBias(1, 2, 3)  # type: ignore[arg-type]
    with pytest.warns(UserWarning, match="5, 3"):
        CausalBias(CausalVariant.LOWER_RIGHT, 5, 3)


def test_sdpa_kernel_takes_backends() -> None:
    for backends in (SDPBackend.MATH, [SDPBackend.FLASH_ATTENTION, SDPBackend.MATH]):
        with sdpa_kernel(backends, set_priority=True):
            assert int(SDPBackend.MATH) == 0
    with pytest.raises(AssertionError, match="str"), sdpa_kernel("math"):  # type: ignore[arg-type]
        pass
    assert not WARN_FOR_UNFUSED_KERNELS


def test_stacked_layers_have_separate_parameters() -> None:
    layer = nn.TransformerDecoderLayer(4, 2, 6)
    layers = nn.TransformerDecoder(layer, 2).layers
    with st.no_grad():
        layers[0].linear1.weight.zero_()
    assert layers[1].linear1.weight.detach().numpy().all()
    assert layer.linear1.weight.detach().numpy().all()
