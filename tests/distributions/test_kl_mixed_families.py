"""`kl_divergence` of pairs with a gamma or beta distribution, and InverseGamma."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import shmtensor as st
from shmtensor import distributions
from shmtensor.autograd import gradcheck
from shmtensor.distributions import kl_divergence

stats = pytest.importorskip("scipy.stats")

# Each with parameters for which the divergence is finite.
GIVEN: dict[str, list[Any]] = {
    "Beta": [2.5, 0.7],
    "ContinuousBernoulli": [0.3],
    "Exponential": [1.5],
    "Gamma": [2.5, 0.7],
    "Gumbel": [0.5, 2.0],
    "Pareto": [0.5, 3.0],
    "Uniform": [0.2, 0.9],
}
FINITE = [
    ("Beta", "ContinuousBernoulli"),
    ("ContinuousBernoulli", "Exponential"),
    ("Exponential", "Gumbel"),
    ("Gamma", "Gumbel"),
    ("Pareto", "Exponential"),
    ("Pareto", "Gamma"),
    ("Uniform", "Beta"),
    ("Uniform", "Exponential"),
    ("Uniform", "Gamma"),
]


def make(name: str, values: Any = None) -> Any:
    given = values or [st.tensor(v, dtype=st.float64) for v in GIVEN[name]]
    return getattr(distributions, name)(*given)


@pytest.mark.parametrize(("name", "other"), FINITE)
def test_finite_pairs_are_integrals(name: str, other: str) -> None:
    p, q = make(name), make(other)
    t = np.linspace(-34, 34, 68001)
    if name in ("Beta", "ContinuousBernoulli"):
        x = 1 / (1 + np.exp(-t))
        weight = x / (1 + np.exp(t))
    elif name == "Uniform":
        x = np.linspace(0.2, 0.9, 68001)[:-1] + 0.35 / 68000
        weight = np.full(68000, 0.7 / 68000 / (t[1] - t[0]))
    else:
        start = 0.5 if name == "Pareto" else 0.0
        x = start + np.exp(t)
        weight = np.exp(t)
    x = st.tensor(x)
    p._validate_args = q._validate_args = False
    log_p = p.log_prob(x)
    expected = (log_p.exp() * (log_p - q.log_prob(x)) * st.tensor(weight)).sum() * (t[1] - t[0])
    np.testing.assert_allclose(kl_divergence(p, q), expected, rtol=1e-5)


@pytest.mark.parametrize(("name", "other"), FINITE)
def test_gradients(name: str, other: str) -> None:
    n = len(GIVEN[name])
    values = [*GIVEN[name], *GIVEN[other]]
    parameters = [st.tensor(v, dtype=st.float64, requires_grad=True) for v in values]

    def divergence(*values: Any) -> Any:
        return kl_divergence(make(name, values[:n]), make(other, values[n:]))

    assert gradcheck(divergence, parameters)


def test_what_q_excludes_is_infinite() -> None:
    wide = distributions.Uniform(-1.0, 2.0)
    for q in ("Beta", "Exponential", "Gamma"):
        assert kl_divergence(wide, make(q)).item() == np.inf
        for p in (distributions.Gumbel(0.0, 1.0), distributions.Laplace(0.0, 1.0)):
            assert kl_divergence(p, make(q)).item() == np.inf
    for p in ("Exponential", "Gamma"):
        for q in ("ContinuousBernoulli", "Pareto", "Uniform"):
            assert kl_divergence(make(p), make(q)).item() == np.inf
    assert kl_divergence(make("Pareto"), make("Beta")).item() == np.inf
    assert kl_divergence(make("Beta"), make("Pareto")).item() == np.inf
    assert kl_divergence(make("Beta"), make("Uniform")).item() == np.inf
    unit = distributions.Uniform(0.0, 1.0)
    np.testing.assert_allclose(kl_divergence(make("Beta"), unit), -make("Beta").entropy())


def test_the_divergence_of_wishart_is_bregmans() -> None:
    p = distributions.Wishart(st.tensor(4.0).double(), st.eye(2, dtype=st.float64))
    q = distributions.Wishart(st.tensor(5.0).double(), 2 * st.eye(2, dtype=st.float64))
    st.manual_seed(0)
    x = p.sample((20000,))
    by_samples = (p.log_prob(x) - q.log_prob(x)).mean()
    np.testing.assert_allclose(kl_divergence(p, q), by_samples, rtol=0.05)


def test_inverse_gamma() -> None:
    a, b = st.tensor([0.5, 3.0], dtype=st.float64), st.tensor([1.0, 2.0], dtype=st.float64)
    p, reference = distributions.InverseGamma(a, b), stats.invgamma(a, scale=b)
    x = st.tensor([[0.3], [1.0], [4.0]], dtype=st.float64)
    np.testing.assert_allclose(p.log_prob(x), reference.logpdf(x), rtol=1e-9)
    np.testing.assert_allclose(p.cdf(x), reference.cdf(x), rtol=1e-9)
    np.testing.assert_allclose(p.entropy(), reference.entropy(), rtol=1e-9)
    np.testing.assert_allclose(p.mean, reference.mean())
    np.testing.assert_allclose(p.variance, reference.var())
    np.testing.assert_allclose(p.mode, b / (a + 1))
    q = p.expand((3, 2))
    st.manual_seed(0)
    draw = q.rsample((2000,))
    assert draw.shape == (2000, 3, 2)
    assert stats.kstest(np.asarray(p.cdf(draw)).ravel(), "uniform").pvalue > 1e-3
    assert stats.kstest(np.asarray(p.cdf(draw * 1.1)).ravel(), "uniform").pvalue < 1e-3
    with pytest.raises(ValueError, match="Expected parameter concentration"):
        distributions.InverseGamma(-1.0, 1.0)
