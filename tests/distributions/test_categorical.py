"""The categorical distribution."""

from __future__ import annotations

import math

import numpy as np
import pytest

import shmtensor as st
from shmtensor.distributions import Categorical

WEIGHTS = np.array([[1.0, 2.0, 1.0], [0.0, 3.0, 1.0]])
P = WEIGHTS / WEIGHTS.sum(-1, keepdims=True)


def test_values() -> None:
    p = Categorical(st.tensor(WEIGHTS))
    np.testing.assert_allclose(p.probs, P)
    x = st.tensor([2, 1])
    np.testing.assert_allclose(p.log_prob(x), np.log([0.25, 0.75]), rtol=1e-12)
    h = [1.5 * math.log(2), -0.75 * math.log(0.75) - 0.25 * math.log(0.25)]
    np.testing.assert_allclose(p.entropy(), h, rtol=1e-12)
    np.testing.assert_allclose(p.perplexity(), np.exp(h), rtol=1e-12)
    assert p.mode.tolist() == [1, 1]
    assert bool(p.mean.isnan().all())
    assert bool(p.variance.isnan().all())
    shifted = Categorical(logits=st.tensor([[5.0, 5.0 + math.log(2), 5.0]], dtype=st.float64))
    np.testing.assert_allclose(shifted.probs, P[:1], rtol=1e-12)
    np.testing.assert_allclose(shifted.logits, np.log(P[:1]), rtol=1e-12)


def test_a_logit_of_minus_infinity_has_an_entropy() -> None:
    logits = st.tensor([0.0, 0.0, -math.inf], requires_grad=True)
    entropy = Categorical(logits=logits, validate_args=False).entropy()
    np.testing.assert_allclose(entropy.detach(), math.log(2), rtol=1e-6)
    entropy.backward()
    np.testing.assert_allclose(logits.grad, [0.0, 0.0, 0.0], atol=1e-6)


def test_shapes() -> None:
    p = Categorical(st.tensor(WEIGHTS))
    assert (p.batch_shape, p.event_shape, p.param_shape) == ((2,), (), (2, 3))
    for shape in ((), (4,), (4, 5), (0,)):
        draw = p.sample(shape)
        assert (tuple(draw.shape), draw.dtype) == ((*shape, 2), st.int64)
    assert Categorical(st.ones(5, 2, 3)).sample((4,)).shape == (4, 5, 2)
    assert Categorical(st.ones(0, 3)).sample((4,)).shape == (4, 0)
    assert p.log_prob(st.zeros(7, 1)).shape == (7, 2)
    expanded = Categorical(st.tensor(WEIGHTS)).expand((6, 2))
    assert repr(expanded) == "Categorical(probs: Size([6, 2, 3]))"
    assert expanded.sample().shape == expanded.entropy().shape == (6, 2)
    assert p.enumerate_support().tolist() == [[0, 0], [1, 1], [2, 2]]
    assert p.enumerate_support(expand=False).tolist() == [[0], [1], [2]]


def test_samples_have_the_frequencies() -> None:
    st.manual_seed(1)
    draw = Categorical(st.tensor(WEIGHTS)).sample((20000,))
    for i in range(2):
        np.testing.assert_allclose(st.bincount(draw[:, i], minlength=3) / 20000, P[i], atol=0.02)


def test_a_policy_learns_what_is_rewarded() -> None:
    st.manual_seed(0)
    logits = st.zeros(3, requires_grad=True)
    for _ in range(200):
        policy = Categorical(logits=logits)
        action = policy.sample((16,))
        reward = (action == 2).float()
        loss = -(policy.log_prob(action) * (reward - reward.mean())).mean()
        (g,) = st.autograd.grad(loss, logits)
        with st.no_grad():
            logits -= g
    assert Categorical(logits=logits).probs[2] > 0.9


def test_gradient_of_log_prob() -> None:
    logits = st.tensor([0.0, 1.0], requires_grad=True)
    Categorical(logits=logits).log_prob(st.tensor(1)).backward()
    probability = 1 / (1 + math.exp(-1))
    np.testing.assert_allclose(logits.grad, [probability - 1, 1 - probability], rtol=1e-6)


def test_wrong_arguments() -> None:
    with pytest.raises(ValueError, match="Either `probs` or `logits`"):
        Categorical()
    with pytest.raises(ValueError, match="`probs` parameter must be at least one-dimensional"):
        Categorical(st.tensor(1.0))
    with pytest.raises(ValueError, match=r"to satisfy the constraint Simplex\(\)"):
        Categorical(st.tensor([-1.0, 2.0]))
    p = Categorical(st.ones(2, 3))
    with pytest.raises(ValueError, match=r"IntegerInterval\(lower_bound=0, upper_bound=2\)"):
        p.log_prob(st.tensor([5]))
    with pytest.raises(ValueError, match="not broadcastable"):
        p.log_prob(st.tensor([1, 2, 1]))
