"""AdaptiveLogSoftmaxWithLoss: probabilities that sum to 1, their losses and predictions."""

from __future__ import annotations

import numpy as np
import pytest

import shmtensor as st
from shmtensor import nn


def test_probabilities_losses_and_predictions_belong_together() -> None:
    layer = nn.AdaptiveLogSoftmaxWithLoss(6, 12, [3, 7], div_value=2.0, head_bias=True)
    x, target = st.randn(5, 6), st.tensor([0, 2, 3, 8, 11])
    logp = layer.log_prob(x).detach().numpy()
    np.testing.assert_allclose(np.exp(logp).sum(1), 1, rtol=1e-5)
    output, loss = layer(x, target)
    target_logp = logp[np.arange(5), target.numpy()]
    np.testing.assert_allclose(output.detach().numpy(), target_logp, rtol=1e-4, atol=1e-5)
    assert loss.item() == pytest.approx(-target_logp.mean(), rel=1e-4)
    np.testing.assert_array_equal(layer.predict(x).numpy(), logp.argmax(1))
    one = layer(x[3], target[3])
    assert one.output.item() == pytest.approx(target_logp[3], rel=1e-4)
    loss.backward()
    assert all(p.grad is not None for p in layer.parameters())


def test_reset_draws_new_weights() -> None:
    layer = nn.AdaptiveLogSoftmaxWithLoss(6, 12, [3])
    before = layer.tail[0][1].weight.clone()
    layer.reset_parameters()
    assert not np.array_equal(before.detach().numpy(), layer.tail[0][1].weight.detach().numpy())


def test_wrong_arguments_are_shown() -> None:
    for cutoffs in ([], [5, 3], [0, 3], [3, 3], [12], [2.5]):
        with pytest.raises(ValueError, match="cutoffs"):
            nn.AdaptiveLogSoftmaxWithLoss(6, 12, cutoffs)
    layer = nn.AdaptiveLogSoftmaxWithLoss(6, 12, [3])
    for x, target, problem in (
        (st.ones(2, 6), st.tensor([1, 12]), r"in \[0, 11\]: they are in \[1, 12\]"),
        (st.ones(3, 6), st.tensor([1, 2]), "same size in the batch dimension"),
        (st.ones(2, 6), st.tensor(1), "a 0D target expects a 1D input"),
        (st.ones(2, 6), st.tensor([[1]]), "0D or 1D target"),
    ):
        with pytest.raises(RuntimeError, match=problem):
            layer(x, target)
