"""Kernels behind public functions on CUDA tensors, where the op table has no such case."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import shmtensor as st
import shmtensor.nn.functional as F
from shmtensor import distributions
from shmtensor.autograd import table
from tests.cuda.table.device_tensors import compare_calls

TARGET = np.array([2, 0, 1, 3])
CASES: dict[str, tuple[tuple[int, ...], Callable[..., Any]]] = {
    "batch_norm for inference": (
        (4, 6, 3),
        lambda x, w, t: F.batch_norm(x, w[:6].detach(), w[:6].detach() ** 2 + 1, w[:6], w[1:7]),
    ),
    "batch_norm of images for inference": (
        (2, 6, 3, 2),
        lambda x, w, t: F.batch_norm(x, w[:6].detach(), w[:6].detach() ** 2 + 1, w[:6], w[1:7]),
    ),
    "batch_norm of rows for inference": (
        (4, 6),
        lambda x, w, t: F.batch_norm(x, w[:6], w[:6] ** 2 + 1, None, w[1:7]),
    ),
    "batch_norm for inference, by its moments and weight": (
        (4, 6, 3),
        lambda x, w, t: F.batch_norm(x, w[:6], w[1:7] ** 2 + 1, w[2:8]),
    ),
    "cross_entropy of images": (
        (4, 5, 2),
        lambda x, w, t: F.cross_entropy(x, t[:, None].expand(4, 2), reduction="none"),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_values_and_gradients_are_the_cpus(cp: Any, name: str) -> None:
    shape, function = CASES[name]
    random = np.random.default_rng(0)
    operands = random.standard_normal(shape), random.standard_normal(8), TARGET
    compare_calls(function, operands, name, 2, 1e-7)


RANDOM: list[tuple[str, Callable[[Any], Any]]] = [
    ("uniform_", lambda x: x.uniform_(-1, 2)),
    ("normal_", lambda x: x.normal_(1, 2)),
    ("exponential_", lambda x: x.exponential_(2.0)),
    ("bernoulli_", lambda x: x.bernoulli_(0.3)),
    ("bernoulli_ of probabilities", lambda x: x.bernoulli_(x * 0 + 0.3)),
    ("geometric_", lambda x: x.geometric_(0.3)),
    ("random_", lambda x: x.random_(3, 100)),
    ("bernoulli", lambda x: st.bernoulli(x)),
    ("multinomial", lambda x: st.multinomial(x, 5, True)),
    ("poisson", lambda x: st.poisson(x * 30)),
    ("binomial", lambda x: st.binomial((x * 90).floor(), x)),
    ("gamma numbers", lambda x: table._standard_gamma(x * 8)),
    ("Gamma", lambda x: distributions.Gamma(x, 3.0).sample()),
    ("Dirichlet", lambda x: distributions.Dirichlet(x).sample()),
    ("StudentT", lambda x: distributions.StudentT(x * 8).sample()),
    ("NegativeBinomial", lambda x: distributions.NegativeBinomial(8, x).sample()),
    ("VonMises", lambda x: distributions.VonMises(x, x * 8).sample()),
    ("dropout", lambda x: F.dropout(x, 0.4)),
]


@pytest.mark.parametrize(("name", "draw"), RANDOM, ids=[name for name, _ in RANDOM])
def test_one_seed_gives_the_cpus_numbers(cp: Any, name: str, draw: Callable[[Any], Any]) -> None:
    results = []
    for device in ("cuda", "cpu"):
        st.manual_seed(11)
        state = st.get_rng_state()
        x = st.full((3, 5), 0.25).to(device)
        results.append(draw(x).cpu().numpy())
        assert st.equal(st.get_rng_state(), state) == (device == "cuda")
    np.testing.assert_allclose(results[0], results[1], 1e-6, 1e-6)


@pytest.mark.parametrize("dtype", [st.float32, st.float16], ids=str)
@pytest.mark.parametrize("kind", ["BatchNorm1d", "BatchNorm2d", "SyncBatchNorm"])
def test_batch_norm_modules_for_inference(cp: Any, kind: str, dtype: Any) -> None:
    results = []
    for device in ("cuda", "cpu"):
        st.manual_seed(0)
        layer = getattr(st.nn, kind)(3).eval()
        layer.running_mean.copy_(st.tensor([0.5, -1.0, 2.0]))
        layer.running_var.copy_(st.tensor([1.0, 4.0, 0.25]))
        layer.weight.data.copy_(st.tensor([1.0, -2.0, 0.5]))
        layer.to(device)
        shape = (4, 3, 5) if kind == "BatchNorm1d" else (4, 3, 2, 5)
        x = st.randn(shape).to(device, dtype).requires_grad_()
        out = layer(x)
        assert out.dtype is dtype
        (out.float() * out.float()).sum().backward()
        results.append([out, x.grad, layer.weight.grad, layer.bias.grad, layer.running_mean])
    tolerance = 1e-5 if dtype is st.float32 else 2e-2
    for far, near in zip(*results, strict=True):
        a, b = far.detach().float().cpu().numpy(), near.detach().float().numpy()
        np.testing.assert_allclose(a, b, tolerance, tolerance)


def test_batch_norm_for_inference_is_one_op(cp: Any) -> None:
    layer = st.nn.BatchNorm2d(3).eval().cuda()
    out = layer(st.ones(2, 3, 4, 4).cuda())
    assert "NormalizeChannels" in type(out.grad_fn).__name__ + out.grad_fn.name()
