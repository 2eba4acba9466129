"""The normal distribution of vectors: SciPy's values, PyTorch's semantics."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import shmtensor as st
from shmtensor.autograd import gradcheck
from shmtensor.distributions import MultivariateNormal

stats = pytest.importorskip("scipy.stats")

RNG = np.random.default_rng(3)
NAMES = ("covariance_matrix", "precision_matrix", "scale_tril")


def matrices(*shape: int) -> dict[str, np.ndarray]:
    """The three forms of random covariance matrices (*shape, shape[-1])."""
    root = RNG.standard_normal((*shape, shape[-1])) + 2 * np.eye(shape[-1])
    covariance = root @ root.swapaxes(-1, -2)
    forms = (covariance, np.linalg.inv(covariance), np.linalg.cholesky(covariance))
    return dict(zip(NAMES, forms, strict=True))


def normal(name: str, forms: dict[str, np.ndarray], loc: np.ndarray) -> MultivariateNormal:
    matrix = forms[name]
    if name != "scale_tril":  # a matrix is symmetric up to rounding
        matrix = (matrix + matrix.swapaxes(-1, -2)) / 2
    return MultivariateNormal(st.tensor(loc), **{name: st.tensor(matrix)})


@pytest.mark.parametrize("name", NAMES)
def test_values_are_scipys(name: str) -> None:
    forms, loc = matrices(2, 3), RNG.standard_normal((4, 1, 3))
    p, x = normal(name, forms, loc), RNG.standard_normal((5, 4, 2, 3))
    log_probs, entropies = p.log_prob(st.tensor(x)), p.entropy()
    assert (p.batch_shape, p.event_shape) == ((4, 2), (3,))
    for i, j in np.ndindex(4, 2):
        reference = stats.multivariate_normal(loc[i, 0], forms["covariance_matrix"][j])
        np.testing.assert_allclose(log_probs[:, i, j], reference.logpdf(x[:, i, j]), rtol=1e-10)
        np.testing.assert_allclose(entropies[i, j], reference.entropy(), rtol=1e-10)
    for form, matrix in forms.items():
        found = getattr(p, form)
        assert found.shape == (4, 2, 3, 3)
        np.testing.assert_allclose(found, np.broadcast_to(matrix, (4, 2, 3, 3)), atol=1e-9)
    variance = np.diagonal(forms["covariance_matrix"], axis1=-2, axis2=-1)
    np.testing.assert_allclose(p.variance, np.broadcast_to(variance, (4, 2, 3)), rtol=1e-9)
    assert p.mean is p.mode is p.loc


def test_shapes() -> None:
    p = MultivariateNormal(st.zeros(2, 3), scale_tril=st.eye(3))
    assert repr(p) == "MultivariateNormal(loc: Size([2, 3]), scale_tril: Size([2, 3, 3]))"
    assert p.sample().shape == (2, 3)
    assert p.sample((4, 5)).shape == p.rsample((4, 5)).shape == (4, 5, 2, 3)
    assert p.log_prob(st.zeros(7, 1, 3)).shape == (7, 2)
    assert p.log_prob(st.zeros(3)).shape == p.entropy().shape == (2,)
    assert p.covariance_matrix.shape == (2, 3, 3)
    e = p.expand((4, 2))
    assert e.sample().shape == (4, 2, 3)
    assert e.log_prob(st.zeros(3)).shape == e.entropy().shape == (4, 2)
    assert e.variance.shape == (4, 2, 3)
    assert e.covariance_matrix.shape == e.precision_matrix.shape == (4, 2, 3, 3)
    assert e.loc.data_ptr() == p.loc.data_ptr()
    one = MultivariateNormal(st.zeros(1), st.eye(1))
    assert one.log_prob(one.sample((2,))).shape == (2,)


def z_of(draws: np.ndarray, covariance: np.ndarray) -> float:
    """How far the second moments of draws (N, n) are from a covariance matrix, in standard errors:
    the greatest of n * n.
    """
    n = len(draws)
    diagonal = np.diag(covariance)
    error = np.sqrt((covariance**2 + np.outer(diagonal, diagonal)) / n)
    return float(np.abs((draws.T @ draws / n - covariance) / error).max())


@pytest.mark.parametrize("batch", [(), (2,)])
def test_samples_have_the_moments(batch: tuple[int, ...]) -> None:
    forms = matrices(*batch, 3)
    loc = RNG.standard_normal((*batch, 3))
    p = normal("scale_tril", forms, loc)
    st.manual_seed(5)
    for draw in (p.sample, p.rsample):
        draws = draw((20000,)).numpy().reshape(20000, -1, 3) - loc.reshape(-1, 3)
        for i, covariance in enumerate(forms["covariance_matrix"].reshape(-1, 3, 3)):
            error = np.sqrt(np.diag(covariance) / 20000)
            assert np.abs(draws[:, i].mean(0) / error).max() < 4
            assert z_of(draws[:, i], covariance) < 4
            # A sampler that takes the factor's transpose has other moments.
            wrong = RNG.standard_normal((20000, 3)) @ np.linalg.cholesky(covariance)
            assert z_of(wrong, covariance) > 10


@pytest.mark.parametrize("name", NAMES)
def test_gradients(name: str) -> None:
    forms = matrices(2, 3)
    x = st.tensor(RNG.standard_normal((4, 2, 3)))

    def distribution(loc: Any, matrix: Any) -> MultivariateNormal:
        matrix = matrix.tril() if name == "scale_tril" else (matrix + matrix.mT) / 2
        return MultivariateNormal(loc, validate_args=False, **{name: matrix})

    loc = st.tensor(RNG.standard_normal(3), requires_grad=True)
    matrix = st.tensor(forms[name], requires_grad=True)
    assert gradcheck(lambda *args: distribution(*args).log_prob(x), (loc, matrix))
    assert gradcheck(lambda *args: distribution(*args).entropy(), (loc, matrix))

    def drawn(*args: Any) -> Any:
        st.manual_seed(1)
        return distribution(*args).rsample((2,))

    assert gradcheck(drawn, (loc, matrix))
    p = distribution(loc, matrix)
    assert p.has_rsample
    assert p.rsample().requires_grad
    assert not p.sample().requires_grad


def test_wrong_arguments() -> None:
    eye = st.eye(2)
    with pytest.raises(ValueError, match="loc must be at least one-dimensional"):
        MultivariateNormal(st.tensor(0.0), eye)
    with pytest.raises(ValueError, match=r"Exactly one of covariance_matrix .*: none"):
        MultivariateNormal(st.zeros(2))
    with pytest.raises(ValueError, match=r"Exactly one .*: covariance_matrix, scale_tril"):
        MultivariateNormal(st.zeros(2), eye, scale_tril=eye)
    with pytest.raises(ValueError, match=r"precision_matrix must be at least two-.* shape \(2,\)"):
        MultivariateNormal(st.zeros(2), precision_matrix=st.ones(2))
    with pytest.raises(ValueError, match=r"scale_tril must be square: shape \(2, 3\)"):
        MultivariateNormal(st.zeros(3), scale_tril=st.ones(2, 3))
    with pytest.raises(ValueError, match=r"loc and covariance_matrix differ in size: \(3,\) and"):
        MultivariateNormal(st.zeros(3), eye)
    for name, matrix in (
        ("covariance_matrix", -eye),
        ("covariance_matrix", st.tensor([[1.0, 0.5], [0.0, 1.0]])),
        ("precision_matrix", st.full((2, 2), float("nan"))),
        ("scale_tril", st.ones(2, 2)),
        ("scale_tril", st.zeros(2, 2)),
    ):
        with pytest.raises(ValueError, match=f"parameter {name} .* to satisfy the constraint"):
            MultivariateNormal(st.zeros(2), **{name: matrix})
    p = MultivariateNormal(st.zeros(2), eye)
    with pytest.raises(ValueError, match="right-most size of value must match event_shape"):
        p.log_prob(st.zeros(3))
    with pytest.raises(ValueError, match="within the support"):
        p.log_prob(st.tensor([0.0, float("nan")]))
