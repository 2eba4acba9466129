"""The Wishart distribution: SciPy's values, PyTorch's semantics."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import shmtensor as st
from shmtensor.autograd import gradcheck
from shmtensor.distributions import Wishart
from tests.distributions.test_multivariate_normal import NAMES, matrices

stats = pytest.importorskip("scipy.stats")

RNG = np.random.default_rng(6)


def symmetric(matrix: np.ndarray) -> st.Tensor:
    return st.tensor((matrix + matrix.swapaxes(-1, -2)) / 2)


@pytest.mark.parametrize("name", NAMES)
def test_values_are_scipys(name: str) -> None:
    forms, df = matrices(2, 3), np.array([[3.5], [7.0], [4.0]])
    matrix = forms[name] if name == "scale_tril" else symmetric(forms[name])
    p = Wishart(st.tensor(df), **{name: st.tensor(matrix)})
    assert (p.batch_shape, p.event_shape) == ((3, 2), (3, 3))
    x = symmetric(matrices(5, 3)["covariance_matrix"])[:, None, None]
    log_probs, entropies = p.log_prob(x), p.entropy()
    for i, j in np.ndindex(3, 2):
        covariance = forms["covariance_matrix"][j]
        reference = stats.wishart(df[i, 0], covariance)
        expected = reference.logpdf(np.moveaxis(x[:, 0, 0].numpy(), 0, -1))
        np.testing.assert_allclose(log_probs[:, i, j], expected, rtol=1e-9)
        np.testing.assert_allclose(entropies[i, j], reference.entropy(), rtol=1e-9)
        np.testing.assert_allclose(p.mean[i, j], reference.mean(), rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(p.variance[i, j], reference.var(), rtol=1e-9)
        if df[i, 0] > 4:
            np.testing.assert_allclose(p.mode[i, j], reference.mode(), rtol=1e-9, atol=1e-9)
        else:
            assert p.mode[i, j].isnan().all()
    for form, values in forms.items():
        np.testing.assert_allclose(
            getattr(p, form), np.broadcast_to(values, (3, 2, 3, 3)), atol=1e-9
        )


def test_shapes() -> None:
    p = Wishart(5.0, st.eye(3).expand(2, 3, 3))
    assert p.df.shape == p.entropy().shape == (2,)
    assert Wishart(5, st.eye(3)).df.dtype == st.float32
    assert p.log_prob(st.eye(3)).shape == (2,)
    e = p.expand((4, 2))
    assert e.log_prob(st.eye(3)).shape == e.entropy().shape == (4, 2)
    assert e.covariance_matrix.shape == e.precision_matrix.shape == e.mean.shape == (4, 2, 3, 3)
    assert Wishart(st.full((2, 1), 4.0), scale_tril=st.eye(2)).batch_shape == (2, 1)


def z_of(draws: np.ndarray, df: float, covariance: np.ndarray) -> float:
    """How far means and variances of draws (N, n, n) are off, in standard errors (about)."""
    n, mean = len(draws), df * covariance
    variance = df * (covariance**2 + np.outer(np.diag(covariance), np.diag(covariance)))
    squares = (draws - mean) ** 2
    z_mean = (draws.mean(0) - mean) / np.sqrt(variance / n)
    z_variance = (squares.mean(0) - variance) / (squares.std(0) / np.sqrt(n))
    return float(max(np.abs(z_mean).max(), np.abs(z_variance).max()))


def test_samples_have_the_moments() -> None:
    covariance = matrices(3)["covariance_matrix"]
    for df in (3.5, 12.0):
        p = Wishart(st.tensor(df, dtype=st.float64), symmetric(covariance))
        st.manual_seed(3)
        draws = p.sample((20000,))
        assert p.support.check(draws).all()
        assert z_of(draws.numpy(), df, covariance) < 4.5
        # With the same degrees of freedom in each row the matrices are too large.
        chi = np.sqrt(RNG.chisquare(df, (20000, 3)))
        root = np.tril(RNG.standard_normal((20000, 3, 3)), -1) + chi[:, :, None] * np.eye(3)
        root = np.linalg.cholesky(covariance) @ root
        assert z_of(root @ root.swapaxes(-1, -2), df, covariance) > 10
        log_probs = p.log_prob(draws)
        error = float(log_probs.std()) / np.sqrt(20000)
        assert abs(float(log_probs.mean() + p.entropy())) < 4 * error


def test_shapes_of_samples() -> None:
    p = Wishart(5.0, st.eye(3).expand(2, 3, 3)).expand((4, 2))
    assert p.sample().shape == (4, 2, 3, 3)
    assert p.rsample((5,)).shape == (5, 4, 2, 3, 3)
    assert p.rsample((5,), max_try_correction=0).shape == (5, 4, 2, 3, 3)
    assert not p.sample().requires_grad


@pytest.mark.filterwarnings("ignore:Low df values")
def test_singular_matrices_are_drawn_again() -> None:
    p = Wishart(1.0005, st.eye(2))
    st.manual_seed(0)
    draws = [p.rsample((2000,), max_try_correction=tries) for tries in (0, 1, None)]
    counts = [int((~p.support.check(x)).sum()) for x in draws]
    # Rounding makes about half of them singular: each try leaves about half of the rest.
    assert counts[0] > 500 > counts[2]
    assert counts[0] > 1.5 * counts[1] > 2 * counts[2]


@pytest.mark.parametrize("name", NAMES)
def test_gradients(name: str) -> None:
    x = symmetric(matrices(2, 3)["covariance_matrix"])

    def distribution(df: Any, matrix: Any) -> Wishart:
        matrix = matrix.tril() if name == "scale_tril" else (matrix + matrix.mT) / 2
        return Wishart(df, validate_args=False, **{name: matrix})

    df = st.tensor([3.5, 6.0], dtype=st.float64, requires_grad=True)
    matrix = st.tensor(matrices(3)[name], requires_grad=True)
    assert gradcheck(lambda *args: distribution(*args).log_prob(x), (df, matrix))
    assert gradcheck(lambda *args: distribution(*args).entropy(), (df, matrix))
    for key in ("mean", "variance"):
        assert gradcheck(lambda *args, k=key: getattr(distribution(*args), k), (df, matrix))


def test_gradients_flow_through_rsample() -> None:
    """The mean of samples is df * covariance: its gradients are known."""
    df = st.tensor(6.0, dtype=st.float64, requires_grad=True)
    covariance = symmetric(matrices(2)["covariance_matrix"]).requires_grad_()
    st.manual_seed(1)
    n = 20000
    (Wishart(df, covariance).rsample((n,)) / n).sum().backward()
    np.testing.assert_allclose(df.grad, covariance.sum().item(), rtol=0.03)
    np.testing.assert_allclose(covariance.grad.sum(), 4 * 6, rtol=0.1)


def test_degrees_of_freedom_of_another_dtype() -> None:
    for df in (st.tensor(5.0), st.tensor(5)):
        p = Wishart(df, st.eye(3, dtype=st.float64))
        assert p.sample().dtype == p.mean.dtype == p.variance.dtype == st.float64


def test_wrong_arguments() -> None:
    eye = st.eye(3)
    with pytest.raises(ValueError, match=r"Exactly one of covariance_matrix .*: none"):
        Wishart(5.0)
    with pytest.raises(ValueError, match=r"scale_tril must be square: shape \(3, 2\)"):
        Wishart(5.0, scale_tril=eye[:, :2])
    with pytest.raises(ValueError, match=r"df=2.0 expected to be greater than ndim - 1 ="):
        Wishart(2.0, eye)
    with pytest.raises(ValueError, match="parameter covariance_matrix"):
        Wishart(5.0, -eye)
    with pytest.warns(UserWarning, match=r"Low df values detected.*ndim=3"):
        Wishart(2.5, eye)
    with pytest.raises(ValueError, match="within the support"):
        Wishart(5.0, eye).log_prob(-eye)
