"""The multinomial distribution: SciPy's values, PyTorch's semantics."""

from __future__ import annotations

import numpy as np
import pytest

import shmtensor as st
from shmtensor.autograd import gradcheck
from shmtensor.distributions import Multinomial

stats = pytest.importorskip("scipy.stats")

PROBS = np.array([[0.2, 0.3, 0.5], [0.6, 0.3, 0.1]])
COUNTS = np.array([[2.0, 3.0, 1.0], [6.0, 0.0, 0.0]])


def test_values_are_scipys() -> None:
    p = Multinomial(6, st.tensor(PROBS))
    for i, probs in enumerate(PROBS):
        reference = stats.multinomial(6, probs)
        found = p.log_prob(st.tensor(COUNTS)[:, None])[:, i]
        np.testing.assert_allclose(found, reference.logpmf(COUNTS), rtol=1e-12)
        np.testing.assert_allclose(p.entropy()[i], reference.entropy(), rtol=1e-12)
        np.testing.assert_allclose(p.variance[i], np.diag(reference.cov()), rtol=1e-12)
    np.testing.assert_allclose(p.mean, 6 * PROBS, rtol=1e-12)
    q = Multinomial(6, logits=st.tensor(np.log(PROBS) + 3))
    np.testing.assert_allclose(q.probs, PROBS, rtol=1e-12)
    x = st.tensor(COUNTS)
    np.testing.assert_allclose(q.log_prob(x), p.log_prob(x), rtol=1e-12)


def test_what_cannot_happen() -> None:
    p = Multinomial(2, st.tensor([0.0, 1.0], dtype=st.float64))
    x = st.tensor([[0.0, 2.0], [1.0, 1.0]], dtype=st.float64)
    possible, impossible = p.log_prob(x).exp().tolist()
    assert abs(possible - 1) < 1e-12
    assert impossible < 1e-12
    assert abs(p.entropy().item()) < 1e-12
    impossible = Multinomial(2, logits=st.tensor([-st.inf, 0.0])).log_prob(st.tensor([0.0, 2.0]))
    assert impossible.item() == 0


def test_shapes() -> None:
    p = Multinomial(6, st.tensor(PROBS))
    assert (p.batch_shape, p.event_shape, p.param_shape) == ((2,), (3,), (2, 3))
    assert p.sample().shape == (2, 3)
    assert p.sample((4, 5)).shape == (4, 5, 2, 3)
    assert p.sample().dtype == st.float64
    e = p.expand((4, 2))
    assert e.sample((1,)).shape == (1, 4, 2, 3)
    assert e.log_prob(st.tensor(COUNTS)).shape == e.entropy().shape == (4, 2)
    assert e.total_count == 6
    none = Multinomial(0, st.tensor(PROBS))
    assert none.sample((2,)).abs().sum().item() == 0
    assert none.entropy().tolist() == [0, 0]
    assert Multinomial(probs=st.ones(3)).total_count == 1


def z_of(draws: np.ndarray, total: int, probs: np.ndarray) -> float:
    """How far means and covariances of draws (N, n) are off, in standard errors (about)."""
    n, mean = len(draws), total * probs
    covariance = total * (np.diag(probs) - np.outer(probs, probs))
    z_mean = (draws.mean(0) - mean) / np.sqrt(np.diag(covariance) / n)
    products = (draws - mean)[:, :, None] * (draws - mean)[:, None, :]
    z_products = (products.mean(0) - covariance) / (products.std(0) / np.sqrt(n))
    return float(max(np.abs(z_mean).max(), np.abs(z_products).max()))


def test_samples_have_the_moments() -> None:
    st.manual_seed(3)
    draws = Multinomial(6, st.tensor(PROBS)).sample((20000,)).numpy()
    assert (draws.sum(-1) == 6).all()
    assert (draws >= 0).all()
    for i, probs in enumerate(PROBS):
        assert z_of(draws[:, i], 6, probs) < 4
        # Counts of independent categories have these means, but other covariances.
        wrong = np.random.default_rng(0).binomial(6, probs, (20000, 3))
        assert z_of(wrong, 6, probs) > 10


def test_gradients() -> None:
    x = st.tensor(COUNTS)
    probs, logits = (st.tensor(a, requires_grad=True) for a in (PROBS, np.log(PROBS)))
    for name, param in (("probs", probs), ("logits", logits)):
        assert gradcheck(lambda a, n=name: Multinomial(6, **{n: a}).log_prob(x), (param,))
        assert gradcheck(lambda a, n=name: Multinomial(6, **{n: a}).entropy(), (param,))


def test_wrong_arguments() -> None:
    probs = st.tensor(PROBS)
    with pytest.raises(NotImplementedError, match=r"inhomogeneous total_count .*: 2\.5"):
        Multinomial(2.5, probs)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="total_count must not be negative: -1"):
        Multinomial(-1, probs)
    with pytest.raises(ValueError, match="Either `probs` or `logits`"):
        Multinomial(2)
    with pytest.raises(ValueError, match="parameter probs"):
        Multinomial(2, st.tensor([1.5, -0.5]))
    with pytest.raises(ValueError, match=r"support \(Multinomial\(upper_bound=6\)\)"):
        Multinomial(6, probs).log_prob(st.tensor([1.0, 2.0, 2.0]))
    unchecked = Multinomial(6, probs, validate_args=False)
    assert unchecked.log_prob(st.tensor([1.0, 2.0, 2.0])).isfinite().all()
