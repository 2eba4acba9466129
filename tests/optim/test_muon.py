"""Muon: matrices with singular values near 1."""

from __future__ import annotations

import numpy as np
import pytest

import shmtensor as st
from shmtensor import nn, optim
from shmtensor.optim.muon import zeropower_via_newtonschulz

COEFFICIENTS = (3.4445, -4.775, 2.0315)


@pytest.mark.parametrize("shape", [(6, 6), (3, 8), (8, 3)])
def test_singular_values_come_near_to_1(shape: tuple[int, int]) -> None:
    x = np.random.default_rng(0).normal(size=(2, *shape)).astype(np.float32)
    out = zeropower_via_newtonschulz(st.tensor(x), COEFFICIENTS, 5, 1e-7).numpy()
    values = np.linalg.svd(out, compute_uv=False)
    assert (np.abs(values - 1) < 0.5).all()
    for a, b in zip(x, out, strict=True):  # the singular vectors stay
        u, _, vt = np.linalg.svd(a, full_matrices=False)
        assert np.abs(u.T @ b @ vt.T - np.diag(np.diag(u.T @ b @ vt.T))).max() < 0.1


def test_learning_rate_follows_the_shape() -> None:
    weights = []
    for rule in ("original", "match_rms_adamw"):
        p = nn.Parameter(st.zeros(8, 2))
        p.grad = st.arange(16.0).reshape(8, 2)
        optim.Muon([p], lr=0.1, adjust_lr_fn=rule).step()
        weights.append(p.detach().numpy())
    np.testing.assert_allclose(weights[1] / weights[0], 0.2 * np.sqrt(8) / 2, rtol=1e-5)


def test_wrong_arguments_are_refused() -> None:
    p = nn.Parameter(st.ones(2, 2))
    with pytest.raises(ValueError, match=r"only supports 2D.*3"):
        optim.Muon([nn.Parameter(st.ones(3))])
    for kwargs, text in [
        ({"lr": -1.0}, "Learning rate should be >= 0 but is: -1.0"),
        ({"momentum": -1.0}, "momentum should be >= 0 but is: -1.0"),
        ({"weight_decay": -1.0}, "weight decay should be >= 0 but is: -1.0"),
        ({"adjust_lr_fn": "x"}, "function x is not supported"),
    ]:
        with pytest.raises(ValueError, match=text):
            optim.Muon([p], **kwargs)  # type: ignore[arg-type]
    p.grad = st.ones(2, 2)
    with pytest.raises(ValueError, match="less than 100"):
        optim.Muon([p], ns_steps=100).step()
    with pytest.raises(ValueError, match="exactly 3"):
        optim.Muon([p], ns_coefficients=(1, 2)).step()  # type: ignore[arg-type]
    p.grad = st.ones(2, 2).to_sparse()
    with pytest.raises(RuntimeError, match="sparse"):
        optim.Muon([p]).step()
    z = nn.Parameter(st.ones(2, 2, dtype=st.complex64))
    z.grad = st.ones(2, 2, dtype=st.complex64)
    with pytest.raises(RuntimeError, match="complex"):
        optim.Muon([z]).step()
