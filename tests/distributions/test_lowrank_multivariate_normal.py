"""The normal distribution with a low-rank covariance matrix, against that with a full one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import shmtensor as st
from shmtensor.autograd import gradcheck
from shmtensor.distributions import LowRankMultivariateNormal, MultivariateNormal
from tests.distributions.test_multivariate_normal import z_of

RNG = np.random.default_rng(4)


def parameters(*batches: tuple[int, ...], n: int = 4, m: int = 2) -> list[np.ndarray]:
    """loc, cov_factor and cov_diag with these batch shapes."""
    a, b, c = batches
    return [
        RNG.standard_normal((*a, n)),
        RNG.standard_normal((*b, n, m)),
        RNG.random((*c, n)) + 0.5,
    ]


def full(loc: Any, factor: Any, diag: Any) -> MultivariateNormal:
    return MultivariateNormal(loc, factor @ factor.mT + diag.diag_embed())


BATCHES: list[tuple[tuple[int, ...], ...]] = [
    ((), (), ()), ((3,), (), ()), ((), (2, 1), (3,)), ((2, 3), (1,), (2, 1)), ((), (), (5,)),
]  # fmt: skip


@pytest.mark.parametrize("batches", BATCHES)
def test_values_are_those_of_the_full_matrix(batches: tuple[tuple[int, ...], ...]) -> None:
    tensors = [st.tensor(x) for x in parameters(*batches)]
    p, q = LowRankMultivariateNormal(*tensors), full(*tensors)
    assert (p.batch_shape, p.event_shape) == (q.batch_shape, q.event_shape)
    for shape in ((), (5,), (2, 5)):
        x = st.randn(*shape, *p.batch_shape, 4, dtype=st.float64)
        assert p.log_prob(x).shape == q.log_prob(x).shape
        np.testing.assert_allclose(p.log_prob(x), q.log_prob(x), rtol=1e-9)
        assert p.sample(shape).shape == p.rsample(shape).shape == x.shape
    np.testing.assert_allclose(p.entropy(), q.entropy(), rtol=1e-10)
    names = ("covariance_matrix", "precision_matrix", "scale_tril", "variance", "mean", "mode")
    for name in names:
        assert getattr(p, name).shape == getattr(q, name).shape
        np.testing.assert_allclose(getattr(p, name), getattr(q, name), rtol=1e-8, atol=1e-9)
    e = p.expand((7, *p.batch_shape))
    x = st.zeros(4, dtype=st.float64)
    np.testing.assert_allclose(e.log_prob(x), p.log_prob(x).expand(e.batch_shape))
    for name in ("entropy", "variance", *names[:3]):
        found = getattr(e, name)() if name == "entropy" else getattr(e, name)
        assert found.shape[: len(e.batch_shape)] == e.batch_shape
    assert e.sample((2,)).shape == (2, *e.batch_shape, 4)


def test_samples_have_the_moments() -> None:
    loc, factor, diag = parameters((), (), ())
    p = LowRankMultivariateNormal(st.tensor(loc), st.tensor(factor), st.tensor(diag))
    covariance = factor @ factor.T + np.diag(diag)
    st.manual_seed(5)
    draws = p.sample((20000,)).numpy() - loc
    assert np.abs(draws.mean(0) / np.sqrt(np.diag(covariance) / 20000)).max() < 4
    assert z_of(draws, covariance) < 4
    # A sampler that takes cov_diag for standard deviations has other moments.
    noise = RNG.standard_normal((20000, 2)), RNG.standard_normal((20000, 4))
    assert z_of(noise[0] @ factor.T + noise[1] * diag, covariance) > 10


def test_gradients() -> None:
    tensors = tuple(st.tensor(x, requires_grad=True) for x in parameters((2,), (), (), n=3))
    x = st.tensor(RNG.standard_normal((4, 2, 3)))
    names = ("scale_tril", "covariance_matrix", "precision_matrix", "variance")
    assert gradcheck(lambda *p: LowRankMultivariateNormal(*p).log_prob(x), tensors)
    assert gradcheck(lambda *p: LowRankMultivariateNormal(*p).entropy(), tensors)
    for name in names:
        assert gradcheck(lambda *p, n=name: getattr(LowRankMultivariateNormal(*p), n), tensors)

    def drawn(*p: Any) -> Any:
        st.manual_seed(1)
        return LowRankMultivariateNormal(*p).rsample((2,))

    assert gradcheck(drawn, tensors)
    assert not LowRankMultivariateNormal(*tensors).sample().requires_grad


def test_wrong_arguments() -> None:
    loc, factor, diag = st.zeros(3), st.ones(3, 2), st.ones(3)
    with pytest.raises(ValueError, match="loc must be at least one-dimensional"):
        LowRankMultivariateNormal(st.tensor(0.0), factor, diag)
    with pytest.raises(ValueError, match=r"cov_factor must be at least two-.* shape \(3,\)"):
        LowRankMultivariateNormal(loc, diag, diag)
    with pytest.raises(ValueError, match=r"with shape 3 x m: shape \(2, 3\)"):
        LowRankMultivariateNormal(loc, factor.mT, diag)
    with pytest.raises(ValueError, match=r"with shape \(3,\): shape \(2,\)"):
        LowRankMultivariateNormal(loc, factor, st.ones(2))
    with pytest.raises(ValueError, match=r"with shape \(3,\): shape \(\)"):
        LowRankMultivariateNormal(loc, factor, st.tensor(1.0))
    with pytest.raises(ValueError, match=r"Incompatible batch shapes: loc \(2, 3\), cov_f"):
        LowRankMultivariateNormal(st.zeros(2, 3), st.ones(4, 3, 2), diag)
    with pytest.raises(ValueError, match="parameter cov_diag"):
        LowRankMultivariateNormal(loc, factor, -diag)
