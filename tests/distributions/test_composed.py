"""Distributions made of others: transformed, with more dimensions in a value, mixed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import shmtensor as st
from shmtensor.distributions import (
    AffineTransform,
    Bernoulli,
    Categorical,
    Distribution,
    Exponential,
    ExponentialFamily,
    ExpTransform,
    Independent,
    MixtureSameFamily,
    Normal,
    OneHotCategorical,
    ReshapeTransform,
    SigmoidTransform,
    StickBreakingTransform,
    TransformedDistribution,
    Uniform,
    constraints,
)

stats = pytest.importorskip("scipy.stats")


def test_transformed_values_are_those_of_the_distribution_by_formula() -> None:
    loc, scale = st.tensor([0.0, 1.0], dtype=st.float64), st.tensor([1.0, -2.0], dtype=st.float64)
    p = TransformedDistribution(
        Normal(0.0, st.ones(2, dtype=st.float64)), AffineTransform(loc, scale)
    )
    q = Normal(loc, scale.abs())
    x = q.sample((5,))
    u = st.tensor([0.2, 0.7], dtype=st.float64)
    np.testing.assert_allclose(p.log_prob(x), q.log_prob(x), rtol=1e-12)
    np.testing.assert_allclose(p.cdf(x), q.cdf(x), rtol=1e-12)  # one falls, one rises
    np.testing.assert_allclose(p.icdf(u), q.icdf(u), rtol=1e-12)
    falling = TransformedDistribution(Exponential(1.0), AffineTransform(0.0, -1.0))
    np.testing.assert_allclose(falling.cdf(st.tensor(-1.0)), np.exp(-1), rtol=1e-6)
    with pytest.raises(ValueError, match=r"within the support \(Real\(\)\)"):
        p.log_prob(x * float("nan"))


def test_transforms_broadcast_and_change_shapes() -> None:
    p = TransformedDistribution(Normal(0.0, 1.0), AffineTransform(st.zeros(3), 1.0))
    assert (p.batch_shape, p.sample((2,)).shape) == ((3,), (2, 3))
    wider = p.expand((4, 3))
    assert (wider.batch_shape, wider.rsample().shape) == ((4, 3), (4, 3))
    assert wider.log_prob(st.zeros(3)).shape == (4, 3)
    vectors = TransformedDistribution(Normal(st.zeros(5, 3), 1.0), StickBreakingTransform())
    assert (vectors.batch_shape, vectors.event_shape) == ((5,), (4,))
    assert isinstance(vectors.base_dist, Independent)
    assert vectors.log_prob(vectors.sample((2,))).shape == (2, 5)
    flat = Independent(Normal(st.zeros(5, 4), 1.0), 1)
    matrices = TransformedDistribution(flat, [ExpTransform(), ReshapeTransform((4,), (2, 2))])
    assert (matrices.batch_shape, matrices.event_shape) == ((5,), (2, 2))
    y = matrices.sample()
    expected = flat.log_prob(y.log().reshape(5, 4)) - y.log().sum((-1, -2))
    np.testing.assert_allclose(matrices.log_prob(y), expected, rtol=1e-5)
    part = TransformedDistribution(flat, ExpTransform())
    assert part.event_shape == (4,)
    assert repr(part.support) == "IndependentConstraint(GreaterThan(lower_bound=0.0), 1)"
    assert repr(TransformedDistribution(Uniform(0.0, 1.0), []).support)[:8] == "Interval"


def test_a_cache_spares_the_inverse() -> None:
    p = TransformedDistribution(Normal(0.0, 1.0), SigmoidTransform(cache_size=1))
    x = p.transforms[0].inv
    y = p.rsample()
    assert x(y) is p.transforms[0]._cached[0]
    assert p.log_prob(y).shape == ()


def test_transformed_wrong_arguments() -> None:
    base = Normal(0.0, 1.0)
    for wrong in (2, [2]):
        with pytest.raises(ValueError, match=r"transforms must be a Transform or.*2"):
            TransformedDistribution(base, wrong)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"size at least 1, but got Size\(\[\]\)"):
        TransformedDistribution(base, StickBreakingTransform())


def test_independent() -> None:
    base = Normal(st.zeros(2, 3, 4), 1.0)
    for n in range(4):
        p = Independent(base, n)
        assert p.batch_shape == (2, 3, 4)[: 3 - n]
        assert p.event_shape == (2, 3, 4)[3 - n :]
        x = p.rsample((5,))
        dims = tuple(range(-n, 0))
        expected = base.log_prob(x).sum(dims) if n else base.log_prob(x)
        np.testing.assert_allclose(p.log_prob(x), expected, rtol=1e-5)
        assert p.entropy().shape == p.batch_shape
        assert p.expand((7, *p.batch_shape)).sample().shape == (7, 2, 3, 4)
        assert p.support.event_dim == n
        assert p.mean.shape == p.variance.shape == p.mode.shape == p.stddev.shape == (2, 3, 4)
    assert Independent(base, 1).has_rsample
    assert repr(Independent(Normal(0.0, 1.0), 0)) == "Independent(Normal(loc: 0.0, scale: 1.0), 0)"
    coins = Bernoulli(st.full((3,), 0.5))
    assert Independent(coins, 0).enumerate_support().shape == (2, 3)
    p = Independent(coins, 1)
    assert (p.has_enumerate_support, p.has_rsample) == (False, False)
    with pytest.raises(NotImplementedError, match=r"cartesian product .* is 1"):
        p.enumerate_support()
    with pytest.raises(ValueError, match="actual 2 vs 1"):
        Independent(coins, 2)


def mixture() -> MixtureSameFamily:
    weights = st.tensor([[0.2, 0.8], [0.5, 0.5]], dtype=st.float64)
    loc = st.tensor([[-1.0, 2.0], [0.0, 3.0]], dtype=st.float64)
    return MixtureSameFamily(Categorical(weights), Normal(loc, 1.5))


def test_a_mixture_is_the_weighted_sum() -> None:
    p = mixture()
    weights, components = p.mixture_distribution.probs, p.component_distribution
    x = st.linspace(-20, 20, 4001, dtype=st.float64)[:, None]
    density = (components.log_prob(x[..., None]).exp() * weights).sum(-1)
    np.testing.assert_allclose(p.log_prob(x).exp(), density, rtol=1e-10)
    np.testing.assert_allclose(p.cdf(x)[-1], [1, 1])
    np.testing.assert_allclose(p.mean, (density * x).sum(0) / 100, rtol=1e-9)
    square = ((x - p.mean).square() * density).sum(0) / 100
    np.testing.assert_allclose(p.variance, square, rtol=1e-9)
    st.manual_seed(4)
    u = p.cdf(p.sample((5000,)))
    assert u.shape == (5000, 2)
    assert stats.kstest(np.asarray(u).ravel(), "uniform").pvalue > 1e-3
    assert repr(p.support) == "MixtureSameFamilyConstraint(Real())"
    expanded = p.expand((3, 2))
    assert expanded.sample((4,)).shape == (4, 3, 2)
    np.testing.assert_allclose(expanded.mean[2], p.mean)
    assert repr(MixtureSameFamily(Categorical(st.ones(3)), Normal(st.zeros(3), 1.0))) == (
        "MixtureSameFamily(\n  Categorical(probs: Size([3])),\n"
        "  Normal(loc: Size([3]), scale: Size([3])))"
    )


def test_a_mixture_of_vectors() -> None:
    components = Independent(Normal(st.zeros(4, 3, 2), 1.0), 1)
    p = MixtureSameFamily(Categorical(st.ones(3)), components)
    assert (p.batch_shape, p.event_shape) == ((4,), (2,))
    assert p.sample((5,)).shape == (5, 4, 2)
    assert p.mean.shape == p.variance.shape == (4, 2)
    x = p.sample()
    np.testing.assert_allclose(p.log_prob(x), components.log_prob(x[:, None])[:, 0], rtol=1e-5)
    places = MixtureSameFamily(Categorical(st.ones(2)), OneHotCategorical(st.eye(2)))
    st.manual_seed(0)
    np.testing.assert_allclose(places.sample((2000,)).mean(0), [0.5, 0.5], atol=0.05)


def test_gradients_of_a_mixture() -> None:
    logits = st.zeros(2, dtype=st.float64, requires_grad=True)
    loc = st.tensor([-1.0, 1.0], dtype=st.float64, requires_grad=True)
    x = st.tensor(0.3, dtype=st.float64)

    def log_prob(logits: Any, loc: Any) -> Any:
        return MixtureSameFamily(Categorical(logits=logits), Normal(loc, 1.0)).log_prob(x)

    assert st.autograd.gradcheck(log_prob, (logits, loc))


def test_mixture_wrong_arguments() -> None:
    components = Normal(st.zeros(4), 1.0)
    for arguments, match in (
        ((components, components), "Mixture distribution .*: Normal"),
        ((Categorical(st.ones(3)), 2), "Component distribution .*: int"),
        ((Categorical(st.ones(3)), components), r"\(3\) does not equal .*\(4\)"),
        ((Categorical(st.ones(2, 3)), Normal(st.zeros(4, 3), 1.0)), r"\[2\].*not compatible.*\[4"),
        ((Categorical(st.ones(3)), Normal(0.0, 1.0)), "no dimension"),
    ):
        with pytest.raises(ValueError, match=match):
            MixtureSameFamily(*arguments)


def test_an_exponential_family_needs_three_definitions() -> None:
    class Bare(ExponentialFamily):
        arg_constraints = {}  # type: ignore[assignment] # noqa: RUF012
        support = constraints.real  # type: ignore[assignment]

    assert isinstance(Bare(), Distribution)
    with pytest.raises(NotImplementedError, match=r"Bare\.entropy: its `_mean_carrier_measure` is"):
        _ = Bare()._mean_carrier_measure
    with pytest.raises(NotImplementedError, match=r"Bare\._natural_params"):
        Bare().entropy()
    with pytest.raises(NotImplementedError, match=r"Bare\._log_normalizer"):
        Bare()._log_normalizer()
