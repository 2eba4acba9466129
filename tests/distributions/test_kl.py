"""`kl_divergence` against sums and quadrature."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

import shmtensor as st
from shmtensor import distributions
from shmtensor.autograd import gradcheck, gradgradcheck
from shmtensor.distributions import (
    AffineTransform,
    Bernoulli,
    Beta,
    Binomial,
    Categorical,
    Chi2,
    Distribution,
    Exponential,
    ExponentialFamily,
    ExpTransform,
    Gamma,
    Geometric,
    Independent,
    LogNormal,
    Normal,
    Poisson,
    TransformedDistribution,
    kl_divergence,
    register_kl,
)
from shmtensor.distributions.kl import registered

from .families import ALL, FAMILIES


def test_what_cannot_happen_counts_nothing_and_what_q_excludes_is_infinite() -> None:
    p = Bernoulli(st.tensor([0.0, 1.0, 0.5, 0.0]))
    q = Bernoulli(st.tensor([0.5, 0.0, 0.0, 0.0]))
    np.testing.assert_allclose(kl_divergence(p, q), [math.log(2), np.inf, np.inf, 0.0], atol=1e-6)
    one, other = Categorical(st.tensor([0.0, 1, 1])), Categorical(st.tensor([1.0, 1, 2]))
    np.testing.assert_allclose(kl_divergence(one, other), 0.5 * math.log(2), rtol=1e-6)
    assert kl_divergence(other, one).item() == math.inf


def test_gradients_are_finite_where_p_is_0() -> None:
    logits = st.tensor([0.0, 1.0, -math.inf], requires_grad=True)
    p = Categorical(logits=logits, validate_args=False)
    kl_divergence(p, Categorical(st.ones(3))).backward()
    assert bool(logits.grad.isfinite().all())


def test_classes_that_are_registered() -> None:
    class Mine(Normal):
        pass

    class Point(Distribution):
        arg_constraints = {}  # type: ignore[assignment] # noqa: RUF012

    @register_kl(Point, Mine)
    def kl(p: Point, q: Mine) -> st.Tensor:
        return st.tensor(7.0)

    assert kl_divergence(Point(), Mine(0.0, 1.0)).item() == 7
    assert kl_divergence(Mine(0.0, 1.0), Normal(0.0, 1.0)).item() == 0
    text = r"No KL\(p \|\| q\) is implemented for p type Mine and q type Point"
    with pytest.raises(NotImplementedError, match=text):
        kl_divergence(Mine(0.0, 1.0), Point())
    with pytest.raises(TypeError, match="Expected a Distribution subclass"):
        register_kl(int, Point)


REGISTERED = sorted(
    (p, q)
    for p, q in itertools.product(ALL, ALL)
    if (getattr(distributions, p), getattr(distributions, q)) in registered
)
PAIRS = [
    (p, q)
    for p, q in REGISTERED
    if {p, q} <= set(FAMILIES) and getattr(distributions, p).icdf is not Distribution.icdf
]


# All values of the second are from a number on, or from an interval that these parameters pass.
INFINITE = {
    ("ContinuousBernoulli", "Pareto"),
    *itertools.product(
        ("Gumbel", "Laplace", "Normal"), ("ContinuousBernoulli", "Exponential", "Pareto", "Uniform")
    ),
    *itertools.product(("Exponential", "Pareto"), ("ContinuousBernoulli", "Uniform")),
    ("Exponential", "Pareto"),
    *itertools.product(("Uniform",), ("ContinuousBernoulli", "Exponential", "Pareto")),
}


@pytest.mark.parametrize(("name", "other"), PAIRS)
def test_pairs_are_those_of_quadrature(name: str, other: str) -> None:
    p, q = FAMILIES[name].ours(3, 20), FAMILIES[other].ours(5, 20, validate_args=False)
    # The mean over quantiles, which lie close at both ends.
    t = np.linspace(-34, 34, 3401)[:, None]
    u = 1 / (1 + np.exp(-t))
    weight = u / (1 + np.exp(t)) * (t[1] - t[0])
    x = p.icdf(st.tensor(u))
    inside = q.support.check(x).all(0).numpy()
    difference = (p.log_prob(x) - q.log_prob(x)).numpy()
    divergence = kl_divergence(p, q).numpy()
    assert inside[np.isfinite(divergence)].all()
    assert np.isfinite(divergence).any() == ((name, other) not in INFINITE)
    with np.errstate(invalid="ignore"):
        expected = (difference * weight).sum(0)
    some = divergence < 1e4  # others are in the tail alone
    np.testing.assert_allclose(divergence[some], expected[some], rtol=1e-3, atol=3e-5)


def test_pairs_of_whole_numbers_are_sums() -> None:
    x = st.arange(2000.0, dtype=st.float64)[:, None]
    p, q = FAMILIES["Geometric"].ours(3, 20), FAMILIES["Geometric"].ours(5, 20)
    expected = (p.log_prob(x).exp() * (p.log_prob(x) - q.log_prob(x))).sum(0)
    np.testing.assert_allclose(kl_divergence(p, q), expected, rtol=1e-9)
    q = Geometric(st.tensor(1.0, dtype=st.float64))
    assert kl_divergence(p, q).tolist() == [math.inf] * 20
    one, other = (
        FAMILIES["OneHotCategorical"].ours(3, 20),
        FAMILIES["OneHotCategorical"].ours(5, 20),
    )
    sum_ = (one.probs * (one.probs / other.probs).log()).sum(-1)
    np.testing.assert_allclose(kl_divergence(one, other), sum_, rtol=1e-9)


@pytest.mark.parametrize("name", ["Bernoulli", "ContinuousBernoulli", "Exponential", "Normal"])
def test_the_formula_of_exponential_families_is_that_of_the_class(name: str) -> None:
    p, q = FAMILIES[name].ours(3, 20), FAMILIES[name].ours(5, 20)
    family = registered[ExponentialFamily, ExponentialFamily]
    if name != "Exponential":
        np.testing.assert_allclose(family(p, q), kl_divergence(p, q), rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(ExponentialFamily.entropy(p), p.entropy(), rtol=1e-6, atol=1e-7)
    with pytest.raises(NotImplementedError, match=rf"p type {name} and q type Own"):
        family(
            p, type("Own", (type(q),), {})(st.tensor(0.5), *[st.tensor(0.5)] * (name == "Normal"))
        )


def test_gradients_flow_through_the_entropy_of_exponential_families() -> None:
    rate = st.tensor([0.5, 2.0], dtype=st.float64, requires_grad=True)

    def entropy(rate: st.Tensor) -> st.Tensor:
        return ExponentialFamily.entropy(Exponential(rate))

    def divergence(rate: st.Tensor) -> st.Tensor:
        one, other = Exponential(rate), Exponential(rate.square())
        return registered[ExponentialFamily, ExponentialFamily](one, other)

    for function in (entropy, divergence):
        assert gradcheck(function, (rate,))
        assert gradgradcheck(function, (rate,))
        with st.no_grad():
            assert not function(rate).requires_grad
    assert not entropy(rate.detach()).requires_grad


def test_distributions_made_of_others() -> None:
    p = Independent(Normal(st.zeros(2, 3), 1.0), 1)
    q = Independent(Normal(st.ones(3), 2.0), 1)
    expected = kl_divergence(p.base_dist, q.base_dist).sum(-1)
    np.testing.assert_allclose(kl_divergence(p, q), expected)
    with pytest.raises(NotImplementedError, match="reinterpreted_batch_ndims: 1 and 0"):
        kl_divergence(p, Independent(Normal(st.ones(3), 2.0), 0))
    one, other = LogNormal(0.0, 1.0), LogNormal(1.0, 1.0)
    assert kl_divergence(one, other).item() == 0.5
    exp = TransformedDistribution(Normal(0.0, 1.0), ExpTransform())
    assert kl_divergence(exp, other).item() == 0.5
    twice = TransformedDistribution(Normal(0.0, 1.0), AffineTransform(0.0, 2.0))
    with pytest.raises(
        NotImplementedError, match=r"different transforms: \[ExpTransform\(\)\] and"
    ):
        kl_divergence(exp, twice)
    vector = TransformedDistribution(Independent(Normal(st.zeros(2), 1.0), 1), ExpTransform())
    with pytest.raises(NotImplementedError, match="different event_shapes"):
        kl_divergence(exp, vector)


# Changes of one element of a covariance matrix leave it not symmetric: test_kl_normal_families.
@pytest.mark.parametrize(("name", "other"), [p for p in REGISTERED if "Multi" not in p[0]])
def test_gradients_of_pairs(name: str, other: str) -> None:
    drawn = [ALL[n].draw(seed, 3) for n, seed in ((name, 3), (other, 5))]
    parameters = [
        st.tensor(v, requires_grad=key != "total_count") for one in drawn for key, v in one.items()
    ]

    def divergence(*values: st.Tensor) -> st.Tensor:
        n = len(drawn[0])
        p = getattr(distributions, name)(*values[:n])
        q = getattr(distributions, other)(*values[n:])
        result = kl_divergence(p, q)
        return st.where(result.isinf(), st.zeros_like(result), result)

    if divergence(*parameters).requires_grad:
        assert gradcheck(divergence, parameters)


def test_a_uniform_distribution_inside_the_other() -> None:
    p = distributions.Uniform(
        st.tensor([0.2, 2.0], dtype=st.float64), st.tensor([0.7, 5.0]).double()
    )
    x = p.low + (p.high - p.low) * st.linspace(0, 1, 20001, dtype=st.float64)[:, None]
    number = st.tensor(0.3, dtype=st.float64)
    for q, places in (
        (distributions.ContinuousBernoulli(number), slice(0, 1)),
        (distributions.Pareto(5 * number, 3.0), slice(1, 2)),
        (Beta(2.5, number), slice(0, 1)),
        (Exponential(number), slice(0, 2)),
        (Gamma(2.5, number), slice(0, 2)),
    ):
        divergence = kl_divergence(p, q)
        assert divergence.isfinite().sum() == len(divergence[places])
        log_q = type(q).log_prob(q, x[:, places])
        expected = -p.entropy()[places] - np.trapezoid(log_q, dx=1 / 20000, axis=0)
        np.testing.assert_allclose(divergence[places], expected, rtol=1e-7)
        ends = (p.low.clone().requires_grad_(), p.high.clone().requires_grad_())
        assert gradcheck(
            lambda low, high: kl_divergence(distributions.Uniform(low, high), q)[places],  # noqa: B023
            ends,
        )


def test_subclasses_and_broadcasting() -> None:
    p, q = Chi2(st.tensor([[3.0], [5.0]])), Gamma(st.tensor([1.5, 2.5, 4.0]), 0.5)
    ours = kl_divergence(p, q)
    assert ours.shape == (2, 3)
    np.testing.assert_allclose(ours[0, 0], 0.0, atol=1e-6)
    np.testing.assert_allclose(ours[1, 1], 0.0, atol=1e-6)
    assert kl_divergence(q, Normal(0.0, st.ones(4, 1))).shape == (4, 3)


def test_infinite_divergences_are_broadcast() -> None:
    p = Exponential(st.ones(2, 1, dtype=st.float64))
    ours = kl_divergence(p, Beta(st.ones(3, dtype=st.float64), 2.0))
    assert ours.tolist() == [[math.inf] * 3] * 2
    assert ours.dtype == st.float64


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


def test_the_divergence_of_wishart_is_bregmans() -> None:
    p = distributions.Wishart(st.tensor(4.0).double(), st.eye(2, dtype=st.float64))
    q = distributions.Wishart(st.tensor(5.0).double(), 2 * st.eye(2, dtype=st.float64))
    st.manual_seed(0)
    x = p.sample((20000,))
    by_samples = (p.log_prob(x) - q.log_prob(x)).mean()
    np.testing.assert_allclose(kl_divergence(p, q), by_samples, rtol=0.05)


def test_divergences_from_a_flat_density_are_entropies() -> None:
    p = st.distributions.Beta(3.0, 2.5)
    flat = st.distributions.Beta(1.0, 1.0)
    value = st.distributions.kl_divergence(p, flat)
    np.testing.assert_allclose(value, -p.entropy(), rtol=1e-4)
    p = st.distributions.Dirichlet(st.tensor([3.0, 2.5, 0.7]))
    flat = st.distributions.Dirichlet(st.ones(3))  # density 2
    value = st.distributions.kl_divergence(p, flat)
    np.testing.assert_allclose(value, -p.entropy() - np.log(2), rtol=1e-4)


def test_the_divergence_of_poisson_is_its_formula() -> None:
    value = st.distributions.kl_divergence(
        st.distributions.Poisson(2.0), st.distributions.Poisson(5.0)
    )
    np.testing.assert_allclose(value, 2 * np.log(2 / 5) - 2 + 5, rtol=1e-5)
