"""Functions of nn.functional in forms that neither the op table nor a layer has, beside the CPU."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import shmtensor as st
from shmtensor.nn import functional as F
from shmtensor.nn.attention import bias
from tests.cuda.table.device_tensors import compare_calls


def normal(*shape: int) -> Any:
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


FUNCTIONS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "one_hot": (lambda x: F.one_hot((x.detach() > 0).long(), 3) * x.unsqueeze(-1), (normal(3, 4),)),
    "causal attention": (
        lambda q, k: F.scaled_dot_product_attention(q, k, k, is_causal=True),
        (normal(2, 3, 4), normal(2, 3, 4)),
    ),
    "masked attention": (
        lambda q, k: F.scaled_dot_product_attention(
            q, k, k, attn_mask=st.ones(3, 5, dtype=st.bool).tril().to(q.device)
        ),
        (normal(2, 3, 4), normal(2, 5, 4)),
    ),
    "grouped attention": (
        lambda q, k: F.scaled_dot_product_attention(q, k, k, enable_gqa=True),
        (normal(1, 4, 3, 2), normal(1, 2, 3, 2)),
    ),
    "weighted bags": (
        lambda w, s: F.embedding_bag(
            st.tensor([1, 2, 4, 5, 4]).to(w.device),
            w,
            st.tensor([0, 2]).to(w.device),
            mode="sum",
            per_sample_weights=s,
        ),
        (normal(7, 3), normal(5)),
    ),
    "circular pad": (lambda x: F.pad(x, (1, 2), mode="circular"), (normal(1, 2, 4),)),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_values_and_gradients_are_the_cpu_s(cp: Any, name: str) -> None:
    function, arrays = FUNCTIONS[name]
    compare_calls(function, arrays, name, 1)


def test_draws_stay_on_the_device(cp: Any) -> None:
    x = st.zeros(4, 5).cuda().requires_grad_()
    hard = F.gumbel_softmax(x, hard=True)
    assert hard.is_cuda
    assert hard.detach().cpu().sum(1).tolist() == [1.0] * 4
    assert F.rrelu(x - 1, training=True).is_cuda
    q = st.ones(1, 3, 4).cuda()
    assert F.scaled_dot_product_attention(q, q, q, dropout_p=0.5).is_cuda


def test_causal_masks_go_to_a_device(cp: Any) -> None:
    mask = bias.causal_lower_right(3, 5)
    q, k = st.ones(1, 3, 4), st.ones(1, 5, 4)
    expected = F.scaled_dot_product_attention(q, k, k, attn_mask=mask)
    far = F.scaled_dot_product_attention(q.cuda(), k.cuda(), k.cuda(), attn_mask=mask.cuda())
    np.testing.assert_allclose(far.cpu().numpy(), expected.numpy(), 1e-5)


@pytest.mark.parametrize("dtype", [st.float16, st.bfloat16, st.float32, st.float64])
def test_max_of_a_window_in_the_padding_alone(cp: Any, dtype: Any) -> None:
    for x, arguments in (
        (st.tensor([[5.0]], dtype=dtype), (2, 3, 1, 2, True)),
        (st.tensor([[5.0, 7.0, 9.0]], dtype=dtype), (2, 2, 1, 4, True)),
    ):
        expected = F.max_pool1d(x, *arguments)
        assert -math.inf in expected.flatten().tolist()
        assert F.max_pool1d(x.cuda(), *arguments).tolist() == expected.tolist()


@pytest.mark.parametrize(
    "name", ["leaky_relu", "relu6", "hardtanh", "hardsigmoid", "threshold", "hardshrink"]
)
def test_gradients_of_gradients_in_half_precision(cp: Any, name: str) -> None:
    results = []
    for device in ("cpu", "cuda"):
        x = st.tensor([1.0, -2.0, 0.3], dtype=st.float16, device=device, requires_grad=True)
        extra = (0.2, 0.0) if name == "threshold" else ()
        g, *_ = st.autograd.grad((getattr(F, name)(x, *extra) ** 2).sum(), x, create_graph=True)
        second, *_ = st.autograd.grad((g**2).sum(), x)
        results.append(second.cpu())
    st.testing.assert_close(*results, rtol=2e-3, atol=1e-3)


def test_nan_to_num_in_half_precision(cp: Any) -> None:
    x = st.tensor([math.inf, -math.inf, math.nan, 1.0], dtype=st.float16)
    expected = [65504.0, -65504.0, 0.0, 1.0]
    assert st.nan_to_num(x).tolist() == expected
    assert st.nan_to_num(x.cuda()).tolist() == expected
    assert st.nan_to_num(x.cuda().reshape(2, 2).t()).t().flatten().tolist() == expected
    assert x.cuda().nan_to_num_().tolist() == expected
