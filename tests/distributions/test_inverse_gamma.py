"""InverseGamma, and the gamma families as exponential families."""

from __future__ import annotations

import math

import numpy as np
import pytest

import shmtensor as st
from shmtensor.autograd import gradcheck
from shmtensor.distributions import (
    ExponentialFamily,
    Gamma,
    InverseGamma,
    TransformedDistribution,
    kl_divergence,
)
from tests.distributions.gamma_families import build, stats

C, RATE = np.array([1.5, 3.0, 40.0]), np.array([0.5, 4.0, 2.0])


def inverse_gamma(requires_grad: bool = False) -> InverseGamma:
    return InverseGamma(
        st.tensor(C, requires_grad=requires_grad), st.tensor(RATE, requires_grad=requires_grad)
    )


def test_inverse_gamma_has_scipys_values() -> None:
    p, reference = inverse_gamma(), stats.invgamma(C, scale=RATE)
    assert isinstance(p, TransformedDistribution)
    assert isinstance(p.base_dist, Gamma)
    x = reference.ppf(np.array([0.01, 0.3, 0.9])[:, None])
    np.testing.assert_allclose(p.log_prob(st.tensor(x)), reference.logpdf(x), rtol=1e-11)
    np.testing.assert_allclose(p.cdf(st.tensor(x)), reference.cdf(x), rtol=1e-10)
    np.testing.assert_allclose(p.mean, reference.mean(), rtol=1e-12)
    np.testing.assert_allclose(p.variance, reference.var(), rtol=1e-12)
    np.testing.assert_allclose(p.entropy(), reference.entropy(), rtol=1e-9)
    np.testing.assert_allclose(p.mode, RATE / (C + 1), rtol=1e-12)
    edges = InverseGamma(st.tensor([0.5, 1.0, 2.0]), 1.0)
    assert edges.mean.tolist() == [math.inf, math.inf, 1.0]
    assert edges.variance.tolist() == [math.inf] * 3


def test_inverse_gamma_samples() -> None:
    st.manual_seed(8)
    p = inverse_gamma(requires_grad=True)
    draw = p.sample((20_000,))
    for i in range(3):
        assert stats.kstest(draw[:, i], stats.invgamma(C[i], scale=RATE[i]).cdf).pvalue > 1e-3
        wrong = stats.invgamma(0.93 * C[i], scale=RATE[i])
        assert stats.kstest(draw[:, i], wrong.cdf).pvalue < 1e-3
    draw = p.rsample()
    c, rate = st.autograd.grad(draw.sum(), (p.concentration, p.rate))
    np.testing.assert_allclose(rate, draw.detach() / RATE, rtol=1e-12)
    probability = stats.invgamma(C, scale=RATE).cdf(draw.detach().numpy())
    up, down = (stats.invgamma(C * t, scale=RATE).ppf(probability) for t in (1 + 1e-5, 1 - 1e-5))
    np.testing.assert_allclose(c, (up - down) / (2e-5 * C), rtol=1e-5)
    wide = p.expand((2, 3))
    assert (type(wide), wide.rsample((4,)).shape) == (InverseGamma, (4, 2, 3))
    x = st.tensor([0.3, 1.5, 0.05], dtype=st.float64)
    parameters = (p.concentration.detach().requires_grad_(), p.rate.detach().requires_grad_())
    assert gradcheck(lambda c, r: InverseGamma(c, r).log_prob(x), parameters)


def test_wrong_arguments_of_inverse_gamma() -> None:
    with pytest.raises(ValueError, match="parameter concentration"):
        InverseGamma(-1.0, 1.0)
    with pytest.raises(ValueError, match="within the support"):
        InverseGamma(1.0, 1.0).log_prob(st.tensor(-1.0))


@pytest.mark.parametrize("name", ["Gamma", "Exponential", "Beta", "Poisson"])
def test_exponential_families(name: str) -> None:
    p = build(name)
    assert isinstance(p, ExponentialFamily)
    if name in ("Gamma", "Exponential"):
        np.testing.assert_allclose(ExponentialFamily.entropy(p), p.entropy(), rtol=1e-12)
    q = build(name).expand((2, 3))
    np.testing.assert_allclose(kl_divergence(p, q), np.zeros((2, 3)), atol=1e-12)


@pytest.mark.torch
def test_values_are_pytorchs() -> None:
    torch = pytest.importorskip("torch")
    theirs = torch.distributions.InverseGamma(torch.tensor(C), torch.tensor(RATE))
    ours, x = inverse_gamma(), theirs.sample((5,)).numpy()
    for name in ("mean", "mode", "variance"):
        np.testing.assert_allclose(getattr(ours, name), getattr(theirs, name), rtol=1e-9)
    np.testing.assert_allclose(ours.log_prob(st.tensor(x)), theirs.log_prob(torch.tensor(x)))
    np.testing.assert_allclose(ours.cdf(st.tensor(x)), theirs.cdf(torch.tensor(x)))
    np.testing.assert_allclose(ours.entropy(), theirs.entropy())
