"""`kl_divergence` of gamma, beta and related distributions, and of counts, against integrals."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import shmtensor as st
from shmtensor import distributions
from shmtensor.autograd import gradcheck
from shmtensor.distributions import (
    Bernoulli,
    Beta,
    Binomial,
    Chi2,
    Dirichlet,
    Exponential,
    Gamma,
    Normal,
    Poisson,
    kl_divergence,
)

stats = pytest.importorskip("scipy.stats")

# The parameters of two distributions, and SciPy's function of them.
SCIPY: dict[str, tuple[list[float], list[float], Any]] = {
    "Gamma": ([0.7, 2.0], [3.0, 0.5], lambda a, b: stats.gamma(a, scale=1 / b)),
    "Exponential": ([2.0], [0.7], lambda rate: stats.expon(scale=1 / rate)),
    "Beta": ([0.8, 1.5], [3.0, 2.0], lambda a, b: stats.beta(a, b)),
    "Normal": ([0.3, 2.0], [-1.0, 1.5], lambda loc, scale: stats.norm(loc, scale)),
    "Poisson": ([3.0], [5.5], lambda rate: stats.poisson(rate)),
    "Binomial": ([6, 0.3], [6, 0.8], lambda n, p: stats.binom(n, p)),
    "Bernoulli": ([0.3], [0.8], lambda p: stats.bernoulli(p)),
}
FINITE = [
    ("Gamma", "Gamma"), ("Exponential", "Exponential"), ("Beta", "Beta"), ("Poisson", "Poisson"),
    ("Binomial", "Binomial"), ("Bernoulli", "Poisson"), ("Beta", "Exponential"),
    ("Beta", "Gamma"), ("Beta", "Normal"), ("Exponential", "Gamma"), ("Exponential", "Normal"),
    ("Gamma", "Exponential"), ("Gamma", "Normal"),
]  # fmt: skip
INFINITE = [
    ("Exponential", "Beta"), ("Gamma", "Beta"), ("Normal", "Beta"), ("Normal", "Exponential"),
    ("Normal", "Gamma"), ("Poisson", "Bernoulli"), ("Poisson", "Binomial"),
]  # fmt: skip


def build(library: Any, name: str, values: list[float]) -> Any:
    tensors = [library.tensor(v, dtype=library.float64) for v in values]
    return getattr(library.distributions, name)(*tensors)


@pytest.mark.parametrize(("p", "q"), FINITE, ids=lambda name: name)
def test_divergences_are_expectations(p: str, q: str) -> None:
    for of_p, of_q in ((0, 1), (1, 0)):
        values, others = SCIPY[p][of_p], SCIPY[q][of_q]
        first, second = SCIPY[p][2](*values), SCIPY[q][2](*others)
        log = "logpmf" if hasattr(first, "pmf") else "logpdf"

        def difference(x: Any) -> Any:
            return getattr(first, log)(x) - getattr(second, log)(x)  # noqa: B023

        with np.errstate(all="ignore"):
            wanted = first.expect(difference, *(() if p != "Beta" else (0, 1)))
        ours = kl_divergence(build(st, p, values), build(st, q, others))
        np.testing.assert_allclose(ours, wanted, rtol=1e-6, err_msg=f"{values} {others}")


@pytest.mark.parametrize(("p", "q"), INFINITE, ids=lambda name: name)
def test_what_q_excludes_is_infinite(p: str, q: str) -> None:
    first, second = build(st, p, SCIPY[p][0]), build(st, q, SCIPY[q][0])
    ours = kl_divergence(first.expand((2, 1)), second.expand((3,)))
    assert ours.tolist() == [[math.inf] * 3] * 2
    assert ours.dtype == st.float64


@pytest.mark.parametrize("name", ["Gamma", "Exponential", "Beta", "Dirichlet", "Poisson"])
def test_divergences_of_one_family_are_differences_of_the_normalizer(name: str) -> None:
    """A(q) - A(p) - (q - p) A'(p), in the natural parameters (Nielsen and Nock 2010)."""
    values = SCIPY.get(name, ([[0.4, 2.0, 5.0]], [[3.0, 1.0, 0.2]]))
    p, q = (build(st, name, values[i]) for i in (0, 1))
    parameters = [v.detach().requires_grad_() for v in p._natural_params]
    total = p._log_normalizer(*parameters)
    slopes = st.autograd.grad(total, parameters)
    wanted = q._log_normalizer(*q._natural_params) - total
    for of_p, of_q, slope in zip(parameters, q._natural_params, slopes, strict=True):
        wanted = wanted - ((of_q - of_p) * slope).sum()
    np.testing.assert_allclose(kl_divergence(p, q), wanted.detach(), rtol=1e-12)


def test_dirichlet_of_two_parts_is_beta() -> None:
    a, b = st.tensor([[0.4, 2.0], [3.0, 1.0]], dtype=st.float64)
    wanted = kl_divergence(Beta(a[0], a[1]), Beta(b[0], b[1]))
    np.testing.assert_allclose(kl_divergence(Dirichlet(a), Dirichlet(b)), wanted, rtol=1e-12)


def test_subclasses_and_broadcasting() -> None:
    p, q = Chi2(st.tensor([[3.0], [5.0]])), Gamma(st.tensor([1.5, 2.5, 4.0]), 0.5)
    ours = kl_divergence(p, q)
    assert ours.shape == (2, 3)
    np.testing.assert_allclose(ours[0, 0], 0.0, atol=1e-6)
    np.testing.assert_allclose(ours[1, 1], 0.0, atol=1e-6)
    assert kl_divergence(q, Normal(0.0, st.ones(4, 1))).shape == (4, 3)


def test_counts() -> None:
    probs = st.tensor([0.0, 1.0, 0.5])
    same = kl_divergence(Binomial(4, probs), Binomial(4, probs))
    np.testing.assert_allclose(same, [0.0, 0.0, 0.0], atol=1e-5)
    assert kl_divergence(Binomial(5, 0.5), Binomial(4, 0.5)).item() == math.inf
    with pytest.raises(NotImplementedError, match=r"q\.total_count > p\.total_count .* 6.*, .*5"):
        kl_divergence(Binomial(5, 0.5), Binomial(6, 0.5))
    zero = kl_divergence(Poisson(st.tensor([0.0, 0.0, 2.0])), Poisson(st.tensor([0.0, 3.0, 0.0])))
    assert zero.tolist() == [0.0, 3.0, math.inf]
    sure = kl_divergence(Bernoulli(st.tensor([0.0, 1.0])), Poisson(2.0))
    np.testing.assert_allclose(sure, [2.0, 2.0 - math.log(2)], rtol=1e-5)
    text = "p type Exponential and q type Poisson"
    with pytest.raises(NotImplementedError, match=text):
        kl_divergence(Exponential(1.0), Poisson(1.0))


@pytest.mark.parametrize(("p", "q"), FINITE, ids=lambda name: name)
def test_gradients_are_differences(p: str, q: str) -> None:
    values = [float(v) for v in (*SCIPY[p][0], *SCIPY[q][1])]
    n = len(SCIPY[p][0])
    counts = {0, 2} if p == "Binomial" else set()

    def divergence(*free: st.Tensor) -> st.Tensor:
        left = iter(free)
        every: list[Any] = [v if i in counts else next(left) for i, v in enumerate(values)]
        first, second = getattr(distributions, p), getattr(distributions, q)
        return kl_divergence(first(*every[:n]), second(*every[n:]))

    free = [v for i, v in enumerate(values) if i not in counts]
    inputs = tuple(st.tensor(v, dtype=st.float64, requires_grad=True) for v in free)
    assert gradcheck(divergence, inputs)


@pytest.mark.torch
def test_divergences_are_pytorchs() -> None:
    torch = pytest.importorskip("torch")
    random = np.random.default_rng(3)
    for p, q in (*FINITE, *INFINITE):
        for _ in range(5):
            pair = []
            for name, i in ((p, 0), (q, 1)):
                values = [v * random.uniform(0.5, 1.2) for v in SCIPY[name][i]]
                pair.append([float(6), values[1]] if name == "Binomial" else values)
            ours = kl_divergence(build(st, p, pair[0]), build(st, q, pair[1]))
            theirs = torch.distributions.kl_divergence(
                build(torch, p, pair[0]), build(torch, q, pair[1])
            )
            np.testing.assert_allclose(ours, theirs, rtol=1e-9, err_msg=f"{p} {q} {pair}")
