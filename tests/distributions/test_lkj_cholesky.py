"""The LKJ distribution: its normalisation by quadrature, its samples by known marginals."""

from __future__ import annotations

import numpy as np
import pytest

import shmtensor as st
from shmtensor.autograd import gradcheck
from shmtensor.distributions import LKJCholesky

stats = pytest.importorskip("scipy.stats")


def factor(*correlations: float) -> st.Tensor:
    """The Cholesky factor of a correlation matrix of 2 or 3 rows."""
    n = {1: 2, 3: 3}[len(correlations)]
    matrix = np.eye(n)
    matrix[np.tril_indices(n, -1)] = correlations
    return st.tensor(np.linalg.cholesky(matrix + np.tril(matrix, -1).T))


@pytest.mark.parametrize("concentration", [0.5, 1.0, 3.0])
def test_a_correlation_of_two_has_a_beta_distribution(concentration: float) -> None:
    p = LKJCholesky(2, st.tensor(concentration, dtype=st.float64))
    for r in (-0.9, 0.0, 0.4):
        expected = stats.beta(concentration, concentration, -1, 2).logpdf(r)
        np.testing.assert_allclose(p.log_prob(factor(r)), expected, rtol=1e-12)


@pytest.mark.parametrize("concentration", [1.0, 2.5])
def test_the_integral_over_factors_of_three_rows_is_1(concentration: float) -> None:
    p = LKJCholesky(3, st.tensor(concentration, dtype=st.float64))
    # Midpoints in sin(angle) coordinates: a row is (r), or a point in the unit disc.
    n = 60
    middle = (np.arange(n) + 0.5) / n
    r, radius, angle = np.meshgrid(2 * middle - 1, middle, 2 * np.pi * middle, indexing="ij")
    x = np.zeros((n, n, n, 3, 3))
    x[..., 0, 0] = 1
    x[..., 1, 0], x[..., 1, 1] = r, np.sqrt(1 - r**2)
    x[..., 2, 0], x[..., 2, 1] = radius * np.cos(angle), radius * np.sin(angle)
    x[..., 2, 2] = np.sqrt(1 - radius**2)
    density = p.log_prob(st.tensor(x)).exp().numpy() * radius
    np.testing.assert_allclose(density.sum() * 4 * np.pi / n**3, 1, rtol=2e-3)


def test_shapes() -> None:
    p = LKJCholesky(3, st.ones(2))
    assert (p.batch_shape, p.event_shape) == ((2,), (3, 3))
    assert repr(p) == "LKJCholesky(concentration: Size([2]))"
    assert LKJCholesky(3).batch_shape == ()
    assert p.log_prob(factor(0.1, 0.2, 0.3)).shape == (2,)
    e = p.expand((4, 2))
    assert e.dim == 3
    assert e.log_prob(factor(0.1, 0.2, 0.3)).shape == (4, 2)


def worst(correlations: np.ndarray, concentration: float, n: int) -> float:
    """The least p-value of Kolmogorov and Smirnov's test of each correlation below the diagonal,
    whose distribution is beta with concentration - 1 + n / 2 on [-1, 1].
    """
    parameter = concentration - 1 + n / 2
    marginal = stats.beta(parameter, parameter, -1, 2)
    rows = np.stack(np.tril_indices(n, -1), -1)
    return min(stats.kstest(correlations[:, i, j], marginal.cdf).pvalue for i, j in rows)


@pytest.mark.parametrize("concentration", [0.5, 1.0, 4.0])
@pytest.mark.parametrize("n", [2, 3, 5])
def test_samples_have_the_marginals(concentration: float, n: int) -> None:
    st.manual_seed(0)
    p = LKJCholesky(n, st.tensor(concentration, dtype=st.float64))
    x = p.sample((10000,))
    assert p.support.check(x).all()
    assert worst((x @ x.mT).numpy(), concentration, n) > 1e-3


def test_a_sampler_with_other_beta_parameters_fails() -> None:
    """One whose rows have i - 1 / 2 in place of i / 2, as PyTorch 2.13's."""
    rng = np.random.default_rng(0)
    x = np.zeros((10000, 3, 3))
    x[:, 0, 0] = 1
    for i in (1, 2):
        direction = rng.standard_normal((10000, i))
        direction /= np.linalg.norm(direction, axis=1, keepdims=True)
        y = rng.beta(i - 0.5, 1 + (2 - i) / 2, (10000, 1))
        x[:, i, :i], x[:, i, i] = np.sqrt(y) * direction, np.sqrt(1 - y[:, 0])
    assert worst(x @ x.swapaxes(1, 2), 1.0, 3) < 1e-6


def test_shapes_of_samples() -> None:
    p = LKJCholesky(3, st.ones(2)).expand((4, 2))
    assert p.sample().shape == (4, 2, 3, 3)
    assert p.sample((5,)).shape == (5, 4, 2, 3, 3)
    assert p.sample().dtype == st.float32
    assert p.support.check(LKJCholesky(30, 0.1).sample((100,))).all()


def test_gradients() -> None:
    concentration = st.tensor([0.5, 2.0], dtype=st.float64, requires_grad=True)
    x = factor(0.1, 0.2, 0.3)
    assert gradcheck(lambda c: LKJCholesky(3, c).log_prob(x), (concentration,))


def test_wrong_arguments() -> None:
    for dim in (1, 2.5):
        with pytest.raises(ValueError, match=f"greater than or equal to 2. Found dim={dim}"):
            LKJCholesky(dim)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="parameter concentration"):
        LKJCholesky(3, 0.0)
    with pytest.raises(ValueError, match=r"support \(CorrCholesky\(\)\)"):
        LKJCholesky(3).log_prob(2 * st.eye(3))
    with pytest.raises(NotImplementedError, match=r"LKJCholesky\.rsample"):
        LKJCholesky(3).rsample()


@pytest.mark.torch
def test_log_prob_is_pytorchs() -> None:
    torch = pytest.importorskip("torch")
    for n in (2, 3, 6):
        concentration = np.array([0.3, 1.0, 5.0])
        q = torch.distributions.LKJCholesky(n, torch.from_numpy(concentration))
        x = q.sample((4,))
        found = LKJCholesky(n, st.tensor(concentration)).log_prob(st.tensor(x.numpy()))
        np.testing.assert_allclose(found, q.log_prob(x), rtol=1e-9, atol=1e-9)
