"""`kl_divergence` against sums and quadrature."""

from __future__ import annotations

import math

import numpy as np
import pytest

import shmtensor as st
from shmtensor.distributions import (
    Bernoulli,
    Categorical,
    Distribution,
    Normal,
    kl_divergence,
    register_kl,
)


def test_normal() -> None:
    p = Normal(st.tensor([0.0, 1.0], dtype=st.float64), 0.5)
    q = Normal(st.tensor(0.5, dtype=st.float64), 2.0)
    x = st.linspace(-12, 12, 20001, dtype=st.float64)[:, None]
    integral = (p.log_prob(x).exp() * (p.log_prob(x) - q.log_prob(x))).sum(0) * (24 / 20000)
    np.testing.assert_allclose(kl_divergence(p, q), integral, rtol=1e-9)


def test_bernoulli_and_categorical() -> None:
    a, b = np.array([0.2, 0.9]), np.array([0.5, 0.4])
    expected = a * np.log(a / b) + (1 - a) * np.log((1 - a) / (1 - b))
    np.testing.assert_allclose(
        kl_divergence(Bernoulli(st.tensor(a)), Bernoulli(st.tensor(b))), expected, rtol=1e-12
    )
    p = Categorical(st.tensor(np.stack([a, 1 - a], -1)))
    q = Categorical(st.tensor(np.stack([b, 1 - b], -1)))
    np.testing.assert_allclose(kl_divergence(p, q), expected, rtol=1e-12)


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
