"""LayerNorm and RMSNorm against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import shmtensor as st
from shmtensor import nn

X = np.random.default_rng(0).normal(2, 3, (4, 5, 6))


def test_rms_norm() -> None:
    m = nn.RMSNorm(6, eps=1e-3, dtype=st.float64)
    expected = X / np.sqrt((X**2).mean(-1, keepdims=True) + 1e-3)
    np.testing.assert_allclose(m(st.tensor(X)).detach().numpy(), expected)


def test_gradients_by_finite_differences() -> None:
    m = nn.LayerNorm(6, dtype=st.float64)
    assert st.autograd.gradcheck(m, (st.tensor(X[0], requires_grad=True),))


def test_without_parameters() -> None:
    m = nn.LayerNorm(6, elementwise_affine=False)
    assert list(m.parameters()) == []
    assert repr(nn.LayerNorm(6, bias=False)) == (
        "LayerNorm((6,), eps=1e-05, elementwise_affine=True, bias=False)"
    )


def test_wrong_shape_is_shown() -> None:
    for kind in (nn.LayerNorm, nn.RMSNorm):
        with pytest.raises(RuntimeError, match=r"\(4, 5\)"):
            kind(6)(st.ones(4, 5))
    with pytest.raises(ValueError, match=r"4D: shape \(2, 4, 3\)"):
        nn.CrossMapLRN2d(3)(st.ones(2, 4, 3))


def test_group_norm() -> None:
    m = nn.GroupNorm(2, 4)
    weight, bias = np.array([0.5, 2, -1, 3], np.float32), np.array([1, 0, -2, 0.5], np.float32)
    m.weight.data, m.bias.data = st.tensor(weight), st.tensor(bias)
    x = np.random.default_rng(0).standard_normal((3, 4, 5)).astype(np.float32)
    groups = x.reshape(3, 2, 10)
    expected = groups - groups.mean(2, keepdims=True)
    expected /= np.sqrt(groups.var(2, keepdims=True) + 1e-5)
    out = m(st.tensor(x)).detach().numpy()
    expected = expected.reshape(x.shape) * weight[:, None] + bias[:, None]
    np.testing.assert_allclose(out, expected, rtol=1e-4, atol=1e-5)
    with pytest.raises(ValueError, match="divisible by num_groups: 4 by 3"):
        nn.GroupNorm(3, 4)
    with pytest.raises(ValueError, match=r"more than 1 value per channel when training: \(1, 2\)"):
        nn.GroupNorm(2, 2)(st.ones(1, 2))
