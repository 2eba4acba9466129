"""The Bernoulli distribution: SciPy's values, PyTorch's semantics."""

from __future__ import annotations

import numpy as np
import pytest

import shmtensor as st
from shmtensor.distributions import Bernoulli

stats = pytest.importorskip("scipy.stats")

P = np.array([0.1, 0.5, 0.75])


def test_mode() -> None:
    np.testing.assert_array_equal(Bernoulli(st.tensor(P)).mode, [0.0, np.nan, 1.0])


def test_the_other_parameter_is_computed_when_it_is_read() -> None:
    p = Bernoulli(st.tensor(P))
    assert "logits" not in vars(p)
    assert p.logits is p.logits
    assert repr(Bernoulli(logits=st.tensor(P))) == "Bernoulli(logits: Size([3]))"


def test_shapes_and_samples() -> None:
    st.manual_seed(2)
    p = Bernoulli(st.tensor(P))
    assert (p.batch_shape, p.event_shape, p.param_shape) == ((3,), (), (3,))
    draw = p.sample((20000,))
    assert draw.shape == (20000, 3)
    assert draw.dtype == st.float64
    np.testing.assert_allclose(draw.mean(0), P, atol=0.02)
    assert p.expand((2, 3)).sample().shape == (2, 3)
    assert p.enumerate_support().tolist() == [[0.0] * 3, [1.0] * 3]
    assert p.enumerate_support(expand=False).tolist() == [[0.0], [1.0]]
    assert Bernoulli(0.5).enumerate_support().tolist() == [0.0, 1.0]
    with pytest.raises(NotImplementedError, match=r"Bernoulli\.rsample"):
        p.rsample()


def test_gradient_of_the_log_odds() -> None:
    logits = st.zeros(2, requires_grad=True)
    p = Bernoulli(logits=logits)
    p.log_prob(st.tensor([0.0, 1.0])).sum().backward()
    np.testing.assert_allclose(logits.grad, [-0.5, 0.5])
    with st.no_grad():  # a lazy parameter has a history all the same
        assert Bernoulli(logits=logits).probs.requires_grad


def test_wrong_arguments() -> None:
    for arguments in ({}, {"probs": 0.5, "logits": 0.0}):
        with pytest.raises(ValueError, match="Either `probs` or `logits` must be specified"):
            Bernoulli(**arguments)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="Expected parameter probs"):
        Bernoulli(st.tensor([1.5]))
    with pytest.raises(ValueError, match=r"within the support \(Boolean\(\)\)"):
        Bernoulli(0.3).log_prob(st.tensor(0.5))


@pytest.mark.torch
def test_probabilities_of_0_and_1_are_pytorchs() -> None:
    torch = pytest.importorskip("torch")
    x = np.array([0.0, 1.0, 1.0, 0.0], np.float32)
    q = np.array([0.0, 1.0, 0.0, 1.0], np.float32)
    theirs = torch.distributions.Bernoulli(torch.tensor(q)).log_prob(torch.tensor(x))
    ours = Bernoulli(st.tensor(q)).log_prob(st.tensor(x))
    np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)
