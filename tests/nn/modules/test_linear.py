"""Linear, Bilinear, Identity against NumPy."""

from __future__ import annotations

import math

import numpy as np
import pytest

import shmtensor as st
from shmtensor import nn


def test_linear_is_x_w_plus_b() -> None:
    m = nn.Linear(3, 4)
    x = st.randn(2, 5, 3)
    w, b = m.weight.detach().numpy(), m.bias.detach().numpy()
    np.testing.assert_allclose(m(x).detach().numpy(), x.numpy() @ w.T + b, rtol=1e-5, atol=1e-6)


def test_linear_gradients_are_those_of_numpy() -> None:
    m = nn.Linear(3, 4, dtype=st.float64)
    x = st.randn(5, 3, dtype=st.float64, requires_grad=True)
    g = st.randn(5, 4, dtype=st.float64)
    (m(x) * g).sum().backward()
    np.testing.assert_allclose(m.weight.grad.numpy(), g.numpy().T @ x.detach().numpy())
    np.testing.assert_allclose(m.bias.grad.numpy(), g.numpy().sum(0))
    np.testing.assert_allclose(x.grad.numpy(), g.numpy() @ m.weight.detach().numpy())


def test_linear_starts_within_its_bound() -> None:
    m = nn.Linear(100, 50)
    for p in m.parameters():
        a = np.abs(p.detach().numpy())
        assert a.max() <= 1 / math.sqrt(100)
        assert a.mean() > 0.3 / math.sqrt(100)


def test_linear_without_bias() -> None:
    m = nn.Linear(3, 4, bias=False)
    assert m.bias is None
    assert list(m.state_dict()) == ["weight"]
    assert repr(m) == "Linear(in_features=3, out_features=4, bias=False)"


def test_linear_works_reparametrised() -> None:
    m = nn.Linear(2, 2)
    w = m.weight
    del m.weight
    m.weight = (w * 2).detach()
    np.testing.assert_allclose(
        m(st.ones(1, 2)).detach().numpy(),
        st.nn.functional.linear(st.ones(1, 2), w * 2, m.bias).detach().numpy(),
    )


def test_wrong_sizes_are_shown() -> None:
    with pytest.raises(RuntimeError, match="4"):
        nn.Linear(3, 2)(st.ones(1, 4))


def test_bilinear_is_the_einsum() -> None:
    m = nn.Bilinear(3, 4, 5)
    x, y = st.randn(2, 3), st.randn(2, 4)
    w, b = m.weight.detach().numpy(), m.bias.detach().numpy()
    expected = np.einsum("bi,kij,bj->bk", x.numpy(), w, y.numpy()) + b
    np.testing.assert_allclose(m(x, y).detach().numpy(), expected, rtol=1e-4, atol=1e-5)


def test_identity_returns_its_input() -> None:
    x = st.ones(2)
    assert nn.Identity(1, a=2)(x) is x
